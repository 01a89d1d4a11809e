//! `GET /api/v1/ip`: credentials, scopes, fields, errors.

use crate::{House, MIDNIGHT, NOON, check_error, check_every_response, fields, json, rate};
use ipse_model::{Links, Problem, Scope};
use ipse_store::{DataFolder, Outcomes, Records};

pub(crate) const IP: [&str; 3] = ["status", "ip", "ipv6"];
pub(crate) const GEO: [&str; 16] = [
    "city",
    "region",
    "region_code",
    "country",
    "country_name",
    "continent",
    "latitude",
    "longitude",
    "timezone",
    "timezone_offset",
    "postal_code",
    "asn",
    "org",
    "as",
    "is_eu",
    "currency",
];
const FULL: [&str; 7] = ["http_protocol", "tls_version", "tls_cipher", "rtt", "colo", "proxy", "hosting"];

fn fields_of(scope: Scope) -> Vec<&'static str> {
    match scope {
        Scope::Ip => IP.to_vec(),
        Scope::Geo => [&IP[..], &GEO].concat(),
        Scope::Full => [&IP[..], &GEO, &FULL].concat(),
    }
}

#[test]
fn each_scope_has_exactly_its_fields_in_order() {
    let (house, keys) = House::with_scopes();
    for (scope, key) in Scope::ALL.into_iter().zip(&keys) {
        let response = house.get("/api/v1/ip", Some(key));
        assert_eq!(response.status, 200);
        assert_eq!(fields(&response), fields_of(scope));
        assert_eq!(json(&response)["status"], "success");
    }
}

#[test]
fn the_scope_parameter_narrows_and_never_widens() {
    let (house, keys) = House::with_scopes();
    for (own, key) in Scope::ALL.into_iter().zip(&keys) {
        for wanted in Scope::ALL {
            let response = house.get(&format!("/api/v1/ip?scope={wanted}"), Some(key));
            assert_eq!(fields(&response), fields_of(own.min(wanted)), "{own} asks for {wanted}");
        }
    }
}

#[test]
fn an_unknown_or_repeated_scope_is_no_error() {
    let (house, key) = House::with_key();
    for (query, scope) in [
        ("scope=everything", Scope::Full),
        ("scope=", Scope::Full),
        ("scope=IP", Scope::Full),
        ("scope=ip&scope=full", Scope::Ip),
        ("scope=everything&scope=ip", Scope::Full),
        ("scope=%69%70", Scope::Ip),
    ] {
        let response = house.get(&format!("/api/v1/ip?{query}"), Some(&key));
        assert_eq!(
            (response.status, fields(&response)),
            (200, fields_of(scope).iter().map(|f| (*f).to_owned()).collect())
        );
    }
}

#[test]
fn an_answer_carries_the_days_quota() {
    let (house, key) = House::with_key();
    let mut connection = house.connect();
    for remaining in [9999, 9998, 9997] {
        let response = connection.get("/api/v1/ip", Some(&key.text)).unwrap();
        assert_eq!(rate(&response), (10_000, remaining, MIDNIGHT));
        check_every_response(&response);
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(response.header("cache-control"), Some("no-store"));
        assert_eq!(response.header("retry-after"), None);
    }
}

#[test]
fn a_request_without_a_key_is_told_both_ways_to_pass_one() {
    let (house, _) = House::with_key();
    for headers in
        [&[][..], &["authorization: Basic eDp5"], &["authorization: Bearer"], &["authorization: Bearer "]]
    {
        for target in ["/api/v1/ip", "/api/v1/ip?key=", "/api/v1/ip?scope=ip"] {
            let response = house.send("GET", target, headers);
            check_error(&response, 401, "missing_api_key");
            let message = json(&response)["message"].as_str().unwrap().to_owned();
            assert!(
                message.contains("Authorization: Bearer") && message.contains("query parameter"),
                "{message}"
            );
            assert_eq!(response.header("www-authenticate"), Some("Bearer"));
            for name in ["retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
                assert_eq!(response.header(name), None, "{name}");
            }
        }
    }
}

#[test]
fn a_key_that_does_not_exist_is_invalid() {
    let (house, key) = House::with_key();
    let mut other = key.text.clone();
    other.replace_range(10..11, if &other[10..11] == "x" { "y" } else { "x" });
    // Of the right form and check, and nobody's.
    let nobodys = "ipse_000000000000000000000000000000003B5SOj";
    for text in [other.as_str(), nobodys, "x", "ipse_", &key.text[..42], &format!("{}x", key.text)] {
        let response = house.send("GET", "/api/v1/ip", &[&format!("authorization: Bearer {text}")]);
        check_error(&response, 401, "invalid_api_key");
        assert_eq!(response.header("www-authenticate"), Some("Bearer"));
        check_error(&house.send("GET", &format!("/api/v1/ip?key={text}"), &[]), 401, "invalid_api_key");
    }
}

#[test]
fn the_key_may_stand_in_the_query_and_the_header_wins() {
    let (house, key) = House::with_key();
    let (good, bad) = (&key.text, "ipse_wrong");
    let check = |header: Option<&str>, query: &str, status: u16| {
        let headers: Vec<String> =
            header.map(|header| format!("authorization: {header}")).into_iter().collect();
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let response = house.send("GET", &format!("/api/v1/ip{query}"), &headers);
        assert_eq!(response.status, status, "{header:?} {query}");
    };
    check(None, &format!("?key={good}"), 200);
    check(Some(&format!("bearer {good}")), "", 200);
    check(Some(&format!("BEARER {good}")), &format!("?key={bad}"), 200);
    check(Some(&format!("Bearer {bad}")), &format!("?key={good}"), 401);
    check(Some("Basic eDp5"), &format!("?key={good}"), 200);
    check(Some("Bearer"), &format!("?key={good}"), 200);
    check(None, &format!("?key={good}&key={bad}"), 200);
    check(None, &format!("?key={bad}&key={good}"), 401);
    check(None, &format!("?key=&key={good}"), 401);
    let encoded: String = good.bytes().map(|byte| format!("%{byte:02X}")).collect();
    check(None, &format!("?key={encoded}"), 200);
}

#[test]
fn an_inactive_key_is_refused_until_it_is_activated_and_charged_nothing() {
    let (house, key) = House::with_key();
    let answered = std::cell::Cell::new(0);
    let ask = || {
        let response = house.get("/api/v1/ip", Some(&key));
        answered.set(answered.get() + i64::from(response.status == 200));
        response
    };
    assert_eq!(ask().status, 200);
    house.change(async |records| records.set_active(key.id, false).await.unwrap(), || ask().status == 403);
    for _ in 0..5 {
        check_error(&ask(), 403, "inactive_api_key");
        check_error(&house.get("/api/v1/ip", None), 401, "missing_api_key");
        check_error(&house.get("/api/v1/ip?key=x", None), 401, "invalid_api_key");
    }
    house.change(async |records| records.set_active(key.id, true).await.unwrap(), || ask().status == 200);
    assert_eq!(rate(&ask()).1, 10_000 - answered.get(), "only answers were charged");
}

#[test]
fn the_owner_is_told_what_became_of_every_request() {
    let (mut house, key) = House::with_limited_key(Some(3));
    let asked = std::cell::Cell::new((0, 0, 0));
    let ask = || {
        let status = house.get("/api/v1/ip", Some(&key)).status;
        let (answered, over_quota, refused) = asked.get();
        asked.set(match status {
            200 => (answered + 1, over_quota, refused),
            429 => (answered, over_quota + 1, refused),
            _ => (answered, over_quota, refused + 1),
        });
        status
    };
    assert_eq!([(); 5].map(|()| ask()), [200, 200, 200, 429, 429]);
    house.change(async |records| records.set_active(key.id, false).await.unwrap(), || ask() == 403);
    assert_eq!(ask(), 403);
    let folder = house.dir.path().join("data");
    // A clean stop loses nothing.
    drop(house.stop.take());
    house.runtime.block_on(house.running.take().unwrap()).unwrap();
    let outcomes = house.runtime.block_on(async {
        let records = Records::open(&DataFolder::existing(&folder).unwrap()).await.unwrap();
        records.outcomes_by_day(key.id, NOON.day()).await.unwrap()
    });
    let (answered, over_quota, refused) = asked.get();
    assert_eq!(outcomes, [(NOON.day(), Outcomes { answered, over_quota, refused })]);
}

#[test]
fn no_other_address_than_the_callers_own_is_looked_up() {
    let (house, key) = House::with_key();
    for target in ["/api/v1/ip?ip=8.8.8.8", "/api/v1/ip?address=8.8.8.8", "/api/v1/ip?q=8.8.8.8"] {
        assert_eq!(json(&house.get(target, Some(&key)))["ip"], "127.0.0.1");
    }
    check_error(&house.get("/api/v1/ip/8.8.8.8", Some(&key)), 404, "not_found");
}

#[test]
fn head_is_get_without_the_body() {
    let (house, key) = House::with_key();
    let authorization = format!("authorization: Bearer {}", key.text);
    let get = house.send("GET", "/api/v1/ip", &[&authorization]);
    let mut connection = house.connect();
    connection
        .send(format!("HEAD /api/v1/ip HTTP/1.1\r\nhost: x\r\n{authorization}\r\n\r\n").as_bytes())
        .unwrap();
    let head = connection.receive_head().unwrap();
    assert_eq!(
        (head.status, head.number("content-length").unwrap()),
        (200, get.body.len().try_into().unwrap())
    );
    assert_eq!(rate(&head).1, 9998, "it is charged as a GET is");
    // If a body had come, the next answer would not begin here.
    assert_eq!(connection.get("/api/v1/ip/demo", None).unwrap().status, 200);
    assert_eq!(house.send("HEAD", "/api/v1/ip", &[]).status, 401);
}

#[test]
fn unknown_paths_and_methods_have_the_same_errors() {
    let (house, _) = House::with_key();
    for path in [
        "/api",
        "/api/",
        "/api/v1",
        "/api/v1/ip/",
        "/api/v1/ip/demo/",
        "/api/v2/ip",
        "/api/v1/IP",
        "/api/v1/ip%2Fdemo",
    ] {
        check_error(&house.send("GET", path, &[]), 404, "not_found");
        check_error(&house.send("POST", path, &["content-length: 0"]), 404, "not_found");
    }
    for path in ["/api/v1/ip", "/api/v1/ip/demo"] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"] {
            let response = house.send(method, path, &["content-length: 0"]);
            check_error(&response, 405, "method_not_allowed");
            assert_eq!(response.header("allow"), Some("GET, HEAD, OPTIONS"));
        }
    }
}

#[test]
fn every_docs_link_leads_to_a_section_of_our_own_documentation() {
    let (house, key) = House::with_limited_key(Some(1));
    let docs = house.get("/docs", None);
    let mut responses = vec![
        house.get("/api/v1/ip", None),
        house.send("GET", "/api/v1/ip?key=x", &[]),
        house.get("/api/nowhere", None),
        house.send("POST", "/api/v1/ip", &[]),
        house.send("NOT/ALLOWED", "/", &[]),
    ];
    responses.extend((0..302).map(|_| house.get("/api/v1/ip", Some(&key))));
    let mut codes: Vec<String> = Vec::new();
    for response in responses.iter().filter(|response| response.status != 200) {
        let link = json(response)["docs"].as_str().unwrap().to_owned();
        let anchor = link.strip_prefix(&format!("{}/docs#", house.base_url)).unwrap();
        assert!(
            docs.body.contains(&format!("id=\"{anchor}\"")),
            "{anchor} is no section of the documentation"
        );
        // The section names the status that was really answered.
        let section = docs.body.split_once(&format!("<h3 id=\"{anchor}\"")).unwrap().1;
        let status = section.split_once("class=\"status\">").unwrap().1;
        assert!(
            status.starts_with(&response.status.to_string()),
            "{anchor} is documented with another status"
        );
        codes.push(anchor.to_owned());
    }
    // Those that no request can bring about here have their sections, too.
    let links = Links {
        base_url: house.base_url.clone(),
        docs_url: format!("{}/docs", house.base_url),
        signup_url: String::new(),
        enterprise_url: String::new(),
        ipv4_origin: None,
        ipv6_origin: None,
    };
    for problem in [
        Problem::InactiveKey,
        Problem::DemoQuota,
        Problem::TargetTooLong,
        Problem::HeaderTooLarge,
        Problem::InternalError,
    ] {
        let body = serde_json::to_value(problem.body(&links)).unwrap();
        let (_, anchor) = body["docs"].as_str().unwrap().split_once('#').unwrap();
        assert!(
            docs.body.contains(&format!("id=\"{anchor}\"")),
            "{anchor} is no section of the documentation"
        );
    }
    codes.sort();
    codes.dedup();
    let expected = [
        "bad_request",
        "burst_limit",
        "daily_quota",
        "invalid_api_key",
        "method_not_allowed",
        "missing_api_key",
        "not_found",
        "paused_key",
    ];
    assert_eq!(codes, expected);
}
