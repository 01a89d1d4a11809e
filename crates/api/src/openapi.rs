//! The description of the interface (OpenAPI 3.1), made of the types that write the answers and of the replies
//! themselves: an example here is what the server really says.

use crate::lookup::json;
use crate::meta::{Meta, MetaSource};
use crate::reply::Replies;
use http::header;
use ipse_edge::{HttpFault, Reply};
use ipse_model::{
    AddressFields, BURST_LIMIT, CipherFields, DAILY_LIMIT, DEMO_DAILY_LIMIT, Day, DayAllowance, ErrorBody,
    FlagFields, GeoFields, Now, PathFields, ProtocolFields, Refusal, Scope, Success,
};
use serde_json::{Map, Value, json};
use utoipa::PartialSchema;

/// The version of the interface, not of the program.
const VERSION: &str = "1.1.0";
/// The moment of the examples: 2026-11-15 12:00 UTC.
const EXAMPLE_NOW: Now = Now { unix_ms: 1_794_744_000_000, boot_ms: 0 };
const EXAMPLE_DAY: Day = Day(20_772);

/// The whole document.
pub(crate) fn document(base_url: &str, replies: &Replies) -> Vec<u8> {
    let used_up = |limit| DayAllowance { limit, remaining: 0, day: EXAMPLE_DAY };
    let refused = |refusal| replies.refusal(refusal);
    let daily_quota = refused(Refusal::DayUsedUp(EXAMPLE_NOW, used_up(DAILY_LIMIT)));
    let burst = refused(Refusal::BurstExceeded(EXAMPLE_NOW));
    let paused = refused(Refusal::Paused(EXAMPLE_NOW));
    let demo_quota = refused(Refusal::DemoUsedUp(EXAMPLE_NOW, used_up(DEMO_DAILY_LIMIT)));
    let unauthorized = [
        ("missing_api_key", refused(Refusal::MissingKey)),
        ("invalid_api_key", refused(Refusal::InvalidKey)),
    ];
    let internal_error = || {
        error_response(
            "Something failed on our side; try again.",
            [("internal_error", replies.internal_error())],
        )
    };
    let fault = |description, name, fault| error_response(description, [(name, replies.fault(fault))]);
    let bad_request = || fault("The bytes are no request of HTTP.", "bad_request", HttpFault::BadRequest);
    let target_too_long =
        || fault("The path and query are too long.", "uri_too_long", HttpFault::TargetTooLong);
    let header_too_large = || {
        fault("The header fields are too many or too large.", "header_too_large", HttpFault::HeaderTooLarge)
    };
    let (address, geo) = (schema::<AddressFields>(), schema::<GeoFields<'_>>());
    let (protocol, path) = (schema::<ProtocolFields>(), schema::<PathFields<'_>>());

    json(&json!({
        "openapi": "3.1.0",
        "info": {
            "title": "ipse",
            "version": VERSION,
            "summary": "The caller's own address, where it is, whose network it is on and how it is connected.",
            "description": "The service answers with the metadata of the requesting client's own address. It looks up no \
                            other. Queried addresses and answers are not stored. HEAD is answered like GET, without the body. Every \
                            response may be read by pages of any origin.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": base_url }],
        "tags": [{ "name": "lookup", "description": "Lookups of the caller's own address." }],
        "paths": {
            "/api/v1/ip": {
                "get": {
                    "operationId": "lookup",
                    "tags": ["lookup"],
                    "summary": "Look up the requesting client",
                    "description": format!(
                        "The fields depend on the key's scope, which `scope` can narrow and never widens. {DAILY_LIMIT} \
                         answers a day on the free tier; more than {BURST_LIMIT} requests in any minute pause the key."
                    ),
                    "security": [{ "bearer": [] }, { "query": [] }],
                    "parameters": [scope_parameter()],
                    "responses": {
                        "200": {
                            "description": "The client's metadata, limited to the effective scope.",
                            "headers": rate_header_references(false),
                            "content": { "application/json": { "schema": { "oneOf": [
                                { "$ref": "#/components/schemas/FullAnswer" },
                                { "$ref": "#/components/schemas/GeoAnswer" },
                                { "$ref": "#/components/schemas/IpAnswer" },
                            ] } } },
                        },
                        "401": error_response("No key, or none that exists.", unauthorized),
                        "403": error_response("The key is deactivated.", [("inactive_api_key", refused(Refusal::InactiveKey))]),
                        "429": rate_limit_response(
                            "The day's quota is used up, or the key is paused.",
                            [("daily_quota", daily_quota), ("burst_limit", burst), ("paused_key", paused)],
                        ),
                        "400": bad_request(),
                        "414": target_too_long(),
                        "431": header_too_large(),
                        "500": internal_error(),
                    },
                },
                "options": preflight("preflightLookup"),
            },
            "/api/v1/ip/demo": {
                "get": {
                    "operationId": "demo",
                    "tags": ["lookup"],
                    "summary": "Look up the requesting client without a key",
                    "description": format!(
                        "For trying the API, not for production: {DEMO_DAILY_LIMIT} answers a day for all callers together."
                    ),
                    "security": [],
                    "responses": {
                        "200": {
                            "description": "The client's metadata: a fixed set of fields.",
                            "headers": rate_header_references(false),
                            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/DemoAnswer" } } },
                        },
                        "429": rate_limit_response("The shared quota of the day is used up.", [("demo_quota", demo_quota)]),
                        "400": bad_request(),
                        "414": target_too_long(),
                        "431": header_too_large(),
                        "500": internal_error(),
                    },
                },
                "options": preflight("preflightDemo"),
            },
            "/api/v1/meta": {
                "get": {
                    "operationId": "meta",
                    "tags": ["lookup"],
                    "summary": "Look up what the answers are made from",
                    "description": "Version, date and sources of the geo data. Needs no key and counts against no quota.",
                    "security": [],
                    "responses": {
                        "200": {
                            "description": "The geo data that is served now.",
                            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Meta" } } },
                        },
                        "400": bad_request(),
                        "414": target_too_long(),
                        "431": header_too_large(),
                    },
                },
                "options": preflight("preflightMeta"),
            },
        },
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "`Authorization: Bearer ipse_…`" },
                "query": {
                    "type": "apiKey", "in": "query", "name": "key",
                    "description": "The fallback: it is read only where the header holds no Bearer credential.",
                },
            },
            "headers": {
                "Limit": integer_header("The limit that applies: answers per day, or requests per minute."),
                "Remaining": integer_header("What is left of it."),
                "Reset": integer_header("Unix time at which it begins anew."),
                "RetryAfter": integer_header(
                    "Seconds after which a request may succeed again. For a paused key it is 60, though only a resume helps.",
                ),
            },
            "responses": {
                "NotFound": error_response(
                    "Under `/api`, at every other path.",
                    [("not_found", replies.not_found())],
                ),
                "MethodNotAllowed": error_response(
                    "For every method but GET, HEAD and OPTIONS; the header `Allow` lists them.",
                    [("method_not_allowed", replies.method_not_allowed(""))],
                ),
            },
            "schemas": {
                "Meta": schema::<Meta<'_>>(),
                "MetaSource": schema::<MetaSource<'_>>(),
                "IpAnswer": answer_schema("Scope `ip`.", &[&address]),
                "GeoAnswer": answer_schema("Scope `geo`.", &[&address, &geo]),
                "FullAnswer": answer_schema(
                    "Scope `full`.",
                    &[&address, &geo, &protocol, &schema::<CipherFields<'_>>(), &path, &schema::<FlagFields>()],
                ),
                "DemoAnswer": answer_schema("The demo's fixed set of fields.", &[&address, &geo, &protocol, &path]),
                "Error": error_schema(),
                "Scope": schema::<Scope>(),
            },
        },
    }))
}

fn schema<T: PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).unwrap_or_default()
}

/// One flat object of the parts' fields: all present, none beside them.
fn answer_schema(description: &str, parts: &[&Value]) -> Value {
    let mut properties = Map::new();
    properties.insert("status".to_owned(), schema::<Success>());
    for part in parts {
        if let Some(fields) = part["properties"].as_object() {
            properties.extend(fields.clone());
        }
    }
    let required: Vec<&String> = properties.keys().collect();
    json!({
        "type": "object",
        "description": description,
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}

fn error_schema() -> Value {
    let mut schema = schema::<ErrorBody<'_>>();
    // Where `enterprise` and `signup` are not said they are absent, not null.
    for name in ["enterprise", "signup"] {
        schema["properties"][name]["type"] = "string".into();
    }
    schema["additionalProperties"] = false.into();
    schema
}

fn scope_parameter() -> Value {
    json!({
        "name": "scope",
        "in": "query",
        "required": false,
        "description": "Narrows the key's scope for this request. Broader and unknown values are ignored.",
        "schema": { "anyOf": [
            { "$ref": "#/components/schemas/Scope" },
            { "type": "string", "description": "Any other text is ignored." },
        ] },
    })
}

fn text_header(description: &str) -> Value {
    json!({ "description": description, "schema": { "type": "string" } })
}

fn integer_header(description: &str) -> Value {
    json!({ "description": description, "schema": { "type": "integer", "minimum": 0 } })
}

fn rate_header_references(retry_after: bool) -> Value {
    let mut headers = Map::new();
    if retry_after {
        headers.insert("Retry-After".to_owned(), json!({ "$ref": "#/components/headers/RetryAfter" }));
    }
    for name in ["Limit", "Remaining", "Reset"] {
        let reference = format!("#/components/headers/{name}");
        headers.insert(format!("X-RateLimit-{name}"), json!({ "$ref": reference }));
    }
    headers.into()
}

fn preflight(operation: &str) -> Value {
    json!({
        "operationId": operation,
        "tags": ["lookup"],
        "summary": "CORS preflight",
        "security": [],
        "responses": { "204": {
            "description": "Any origin may call, with the header Authorization.",
            "headers": {
                "Access-Control-Allow-Origin": text_header("Always `*`, here and on every other response."),
                "Access-Control-Allow-Methods": text_header("`GET, OPTIONS`"),
                "Access-Control-Allow-Headers": text_header("`Authorization`"),
                "Access-Control-Max-Age": integer_header("Seconds for which a browser need not ask again."),
            },
        } },
    })
}

fn rate_limit_response<const N: usize>(description: &str, examples: [(&str, Reply); N]) -> Value {
    let mut response = error_response(description, examples);
    response["headers"] = rate_header_references(true);
    response
}

/// A response whose examples are the bodies of real replies.
fn error_response<const N: usize>(description: &str, examples: [(&str, Reply); N]) -> Value {
    let mut values = Map::new();
    let mut asks_for_bearer = false;
    for (name, reply) in examples {
        asks_for_bearer |= reply.headers().contains_key(header::WWW_AUTHENTICATE);
        values.insert(name.to_owned(), json!({ "value": body(reply) }));
    }
    let mut response = json!({
        "description": description,
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" }, "examples": values } },
    });
    if asks_for_bearer {
        response["headers"] = json!({ "WWW-Authenticate": { "description": "Always `Bearer`.", "schema": { "type": "string" } } });
    }
    response
}

fn body(reply: Reply) -> Value {
    serde_json::from_slice(&ipse_edge::whole(reply).1).unwrap_or_default()
}
