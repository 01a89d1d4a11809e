//! Every error that a caller can meet, as the documentation explains it; each has a section, whose id error bodies
//! link to.

use crate::Links;
use http::StatusCode;
use serde_json::{Value, json};

/// One error and its section. In the prose, between backticks stands code.
pub(crate) struct Problem {
    /// The id of its section, which never changes: bodies that are out in the world link to it.
    pub(crate) id: &'static str,
    pub(crate) status: StatusCode,
    /// What `error` says. Several problems may share it.
    pub(crate) code: &'static str,
    pub(crate) heading: &'static str,
    /// What `message` says, here and, for what this crate answers itself, on the wire.
    pub(crate) message: &'static str,
    pub(crate) further: Further,
    /// The headers that come with it, beside those of every answer.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    pub(crate) meaning: &'static str,
    pub(crate) remedy: &'static str,
}

/// The link that a body holds beside `docs`.
#[derive(Clone, Copy)]
pub(crate) enum Further {
    Nothing,
    Enterprise,
    Signup,
}

impl Problem {
    /// The body that tells of it.
    pub(crate) fn body(&self, links: &Links) -> Value {
        let docs = format!("{}#{}", links.docs_url, self.id);
        let mut body = json!({ "error": self.code, "message": self.message, "docs": docs });
        match self.further {
            Further::Nothing => {}
            Further::Enterprise => body["enterprise"] = links.enterprise_url.as_str().into(),
            Further::Signup => body["signup"] = links.signup_url.as_str().into(),
        }
        body
    }
}

const CHALLENGE: (&str, &str) = ("WWW-Authenticate", "Bearer");
const RESET_AT_MIDNIGHT: (&str, &str) = ("X-RateLimit-Reset", "the next midnight UTC, as a Unix timestamp");
const RETRY_AT_MIDNIGHT: (&str, &str) = ("Retry-After", "the seconds until midnight UTC");
const NOTHING_REMAINS: (&str, &str) = ("X-RateLimit-Remaining", "0");
const BURST_HEADERS: &[(&str, &str)] = &[
    ("Retry-After", "60"),
    ("X-RateLimit-Limit", "300"),
    NOTHING_REMAINS,
    ("X-RateLimit-Reset", "a minute from now, as a Unix timestamp"),
];

pub(crate) const NOT_FOUND: Problem = Problem {
    id: "not_found",
    status: StatusCode::NOT_FOUND,
    code: "not_found",
    heading: "Nothing at this path",
    message: "There is nothing at this path. Lookups are answered at /api/v1/ip and /api/v1/ip/demo.",
    further: Further::Nothing,
    headers: &[],
    meaning: "The path is not one that this server knows.",
    remedy: "Compare the path with `/api/v1/ip` and `/api/v1/ip/demo`. An address to look up is never part of the \
             path: every lookup is about its own caller.",
};

pub(crate) const METHOD_NOT_ALLOWED: Problem = Problem {
    id: "method_not_allowed",
    status: StatusCode::METHOD_NOT_ALLOWED,
    code: "method_not_allowed",
    heading: "A method that is not served",
    message: "This path does not answer that method. The Allow header names those it does.",
    further: Further::Nothing,
    headers: &[("Allow", "the methods that this path answers")],
    meaning: "The path exists, but not for the method of the request. Nothing here is changed by a request, so there \
              is no `POST`, `PUT` or `DELETE`.",
    remedy: "Use `GET`. `HEAD` is answered like `GET`, without the body.",
};

pub(crate) const INTERNAL_ERROR: Problem = Problem {
    id: "internal_error",
    status: StatusCode::INTERNAL_SERVER_ERROR,
    code: "internal_error",
    heading: "Something broke on our side",
    message: "Something went wrong on our side. You may try again.",
    further: Further::Nothing,
    headers: &[],
    meaning: "The server met an unexpected failure; for example, its storage could not be asked. It is never a \
              judgement about your key: no key is paused because of it.",
    remedy: "Try again, with a growing delay between tries. If it lasts, tell whoever runs this server.",
};

/// Every error, in the order in which a request can meet them.
pub(crate) const PROBLEMS: [Problem; 12] = [
    Problem {
        id: "missing_api_key",
        status: StatusCode::UNAUTHORIZED,
        code: "missing_api_key",
        heading: "No key was sent",
        message: "Send an API key as the header \"Authorization: Bearer <API_KEY>\" or as the query parameter \
                  \"key=<API_KEY>\".",
        further: Further::Nothing,
        headers: &[CHALLENGE],
        meaning: "Neither the header nor the query of the request holds a key. An `Authorization` header of another \
                  scheme, a `Bearer` with nothing behind it and an empty `key` all count as no key.",
        remedy: "Send the key in one of the two ways. To try without a key, use `/api/v1/ip/demo`.",
    },
    Problem {
        id: "invalid_api_key",
        status: StatusCode::UNAUTHORIZED,
        code: "invalid_api_key",
        heading: "The key does not exist",
        message: "This API key does not exist.",
        further: Further::Nothing,
        headers: &[CHALLENGE],
        meaning: "What was sent is no key of this server: it is mistyped or cut short, it was deleted, or it belongs \
                  to another installation. If both header and query hold a key, the header’s is the one that counts.",
        remedy: "Check that the whole key arrives: it begins with `ipse_` and has 43 characters. A key is shown once \
                 only, so one that was lost has to be replaced.",
    },
    Problem {
        id: "inactive_api_key",
        status: StatusCode::FORBIDDEN,
        code: "inactive_api_key",
        heading: "The key was deactivated",
        message: "This API key has been deactivated.",
        further: Further::Nothing,
        headers: &[],
        meaning: "The key exists, but somebody switched it off on purpose. Such a request is charged to no quota.",
        remedy: "Ask whoever runs this server to reactivate it, or use another key.",
    },
    Problem {
        id: "paused_key",
        status: StatusCode::TOO_MANY_REQUESTS,
        code: "rate_limit_exceeded",
        heading: "The key is paused",
        message: "This API key is paused because it exceeded 300 requests in a minute. Waiting does not resume it.",
        further: Further::Nothing,
        headers: BURST_HEADERS,
        meaning: "The key exceeded the burst limit earlier and has been paused since. Headers and `error` are those \
                  of the burst limit, but waiting does not help: only a resume ends a pause. Requests with a paused \
                  key are charged to no quota.",
        remedy: "Find and slow down what calls too fast, then have the key resumed: today the operator does it, with \
                 `ipse key resume ID`.",
    },
    Problem {
        id: "burst_limit",
        status: StatusCode::TOO_MANY_REQUESTS,
        code: "rate_limit_exceeded",
        heading: "Too many requests in a minute",
        message: "This API key exceeded 300 requests in a minute and is now paused until it is resumed.",
        further: Further::Nothing,
        headers: BURST_HEADERS,
        meaning: "This request was the 301st within 60 seconds. The minute slides: any 60 seconds count, not those of \
                  the clock on the wall. The key is paused as of now, and this request was charged to its day.",
        remedy: "Stop calling with this key, spread the calls out or cache the answers, then have the key resumed \
                 with `ipse key resume ID`. A resumed key starts with a fresh minute.",
    },
    Problem {
        id: "daily_quota",
        status: StatusCode::TOO_MANY_REQUESTS,
        code: "rate_limit_exceeded",
        heading: "The key’s day is used up",
        message: "The daily quota of this API key is used up. It starts again at midnight UTC.",
        further: Further::Enterprise,
        headers: &[
            RETRY_AT_MIDNIGHT,
            ("X-RateLimit-Limit", "10000, or the key’s own daily limit"),
            NOTHING_REMAINS,
            RESET_AT_MIDNIGHT,
        ],
        meaning: "The key has had all its answers of this UTC day. Requests over the quota still count towards the \
                  burst limit, so hammering on pauses the key.",
        remedy: "Wait as long as `Retry-After` says, or ask for a higher daily limit: `enterprise` links to how.",
    },
    Problem {
        id: "demo_quota",
        status: StatusCode::TOO_MANY_REQUESTS,
        code: "rate_limit_exceeded",
        heading: "The demo’s day is used up",
        message: "The demo's daily quota, shared by all callers, is used up. A key of your own has its own quota.",
        further: Further::Signup,
        headers: &[RETRY_AT_MIDNIGHT, ("X-RateLimit-Limit", "1000"), NOTHING_REMAINS, RESET_AT_MIDNIGHT],
        meaning: "All callers of `/api/v1/ip/demo` together share one quota of 1,000 requests a day, and it is used \
                  up, perhaps by others.",
        remedy: "Get a key: `signup` links to how. Or come back after midnight UTC.",
    },
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    Problem {
        id: "bad_request",
        status: StatusCode::BAD_REQUEST,
        code: "bad_request",
        heading: "Not an HTTP request",
        message: "This is not an HTTP request that the server can read.",
        further: Further::Nothing,
        headers: &[],
        meaning: "The bytes that arrived could not be read as HTTP, and the connection was closed. An unknown \
                  `scope` is no reason for it: that is ignored.",
        remedy: "Use an ordinary HTTP client. If you do, look for a proxy between you and the server that garbles \
                 requests.",
    },
    Problem {
        id: "header_too_large",
        status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        code: "header_too_large",
        heading: "Headers that are too large",
        message: "The header fields of this request are too many or too large.",
        further: Further::Nothing,
        headers: &[],
        meaning: "The request carries more than 16 KiB of header names and values, or more than 100 header fields. \
                  No lookup needs nearly as much.",
        remedy: "Send fewer headers; cookies are the usual suspects, and ipse reads none.",
    },
    INTERNAL_ERROR,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::tests::links;

    #[test]
    fn bodies_hold_the_fields_of_the_specification_in_order() {
        #[track_caller]
        fn check(id: &str, keys: &[&str]) {
            let problem = PROBLEMS.iter().find(|problem| problem.id == id).unwrap();
            let body = problem.body(&links());
            assert_eq!(body.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(), keys);
            assert_eq!(body["docs"], format!("https://ip.example/docs#{id}"));
        }
        check("not_found", &["error", "message", "docs"]);
        check("burst_limit", &["error", "message", "docs"]);
        check("paused_key", &["error", "message", "docs"]);
        check("daily_quota", &["error", "message", "docs", "enterprise"]);
        check("demo_quota", &["error", "message", "docs", "signup"]);
    }
}
