//! Every error that a caller can meet, as the documentation explains it; each has a section, whose id error bodies
//! link to.

use http::StatusCode;
use ipse_model::{DAILY_LIMIT, Problem};

/// One error and its section. In the prose, between backticks stands code.
pub(crate) struct Section {
    pub(crate) problem: Problem,
    pub(crate) status: StatusCode,
    pub(crate) heading: &'static str,
    /// The headers that come with it, beside those of every answer.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    pub(crate) meaning: &'static str,
    pub(crate) remedy: &'static str,
}

impl Section {
    pub(crate) fn id(&self) -> &'static str {
        self.problem.section()
    }

    pub(crate) fn code(&self) -> &'static str {
        self.problem.code()
    }

    /// Whether the owner of the key sets it right in the dashboard.
    pub(crate) fn is_mended_in_the_dashboard(&self) -> bool {
        matches!(
            self.problem,
            Problem::InvalidKey | Problem::InactiveKey | Problem::PausedKey | Problem::BurstLimit
        )
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

pub(crate) const NOT_FOUND: Section = Section {
    problem: Problem::NotFound,
    status: StatusCode::NOT_FOUND,
    heading: "Nothing at this path",
    headers: &[],
    meaning: "The path is not one that this server knows.",
    remedy: "Compare the path with `/api/v1/ip` and `/api/v1/ip/demo`. An address to look up is never part of the \
             path: every lookup is about its own caller.",
};

pub(crate) const METHOD_NOT_ALLOWED: Section = Section {
    problem: Problem::MethodNotAllowed,
    status: StatusCode::METHOD_NOT_ALLOWED,
    heading: "A method that is not served",
    headers: &[("Allow", "the methods that this path answers")],
    meaning: "The path exists, but not for the method of the request. A lookup changes nothing, so it knows no \
              `POST`, `PUT` or `DELETE`.",
    remedy: "Use `GET`. `HEAD` is answered like `GET`, without the body.",
};

pub(crate) const INTERNAL_ERROR: Section = Section {
    problem: Problem::InternalError,
    status: StatusCode::INTERNAL_SERVER_ERROR,
    heading: "Something broke on our side",
    headers: &[],
    meaning: "The server met an unexpected failure; for example, its storage could not be asked. It is never a \
              judgement about your key: no key is paused because of it.",
    remedy: "Try again, with a growing delay between tries. If it lasts, tell whoever runs this server.",
};

/// Every error, in the order in which a request can meet them.
pub(crate) const SECTIONS: [Section; 13] = [
    Section {
        problem: Problem::MissingKey,
        status: StatusCode::UNAUTHORIZED,
        heading: "No key was sent",
        headers: &[CHALLENGE],
        meaning: "Neither the header nor the query of the request holds a key. An `Authorization` header of another \
                  scheme, a `Bearer` with nothing behind it and an empty `key` all count as no key.",
        remedy: "Send the key in one of the two ways. To try without a key, use `/api/v1/ip/demo`.",
    },
    Section {
        problem: Problem::InvalidKey,
        status: StatusCode::UNAUTHORIZED,
        heading: "The key does not exist",
        headers: &[CHALLENGE],
        meaning: "What was sent is no key of this server: it is mistyped or cut short, it was deleted or rolled, or it \
                  belongs to another installation. If both header and query hold a key, the header’s is the one that counts.",
        remedy: "Check that the whole key arrives: it begins with `ipse_` and has 43 characters. A key is shown once \
                 only: one that was lost is rolled in the dashboard, which gives it a new text.",
    },
    Section {
        problem: Problem::InactiveKey,
        status: StatusCode::FORBIDDEN,
        heading: "The key was deactivated",
        headers: &[],
        meaning: "The key exists, but somebody switched it off on purpose. Such a request is charged to no quota.",
        remedy: "Reactivate it in your dashboard, or use another key. The operator can do it too, with \
                 `ipse key activate ID`.",
    },
    Section {
        problem: Problem::PausedKey,
        status: StatusCode::TOO_MANY_REQUESTS,
        heading: "The key is paused",
        headers: BURST_HEADERS,
        meaning: "The key exceeded the burst limit earlier, or was paused by hand, and has been paused since. Headers and `error` are those \
                  of the burst limit, but waiting does not help: only a resume ends a pause. Requests with a paused \
                  key are charged to no quota.",
        remedy: "Find and slow down what calls too fast, then resume the key with one click: its page in your \
                 dashboard shows the minute that paused it. The operator can do it too, with `ipse key resume ID`.",
    },
    Section {
        problem: Problem::BurstLimit,
        status: StatusCode::TOO_MANY_REQUESTS,
        heading: "Too many requests in a minute",
        headers: BURST_HEADERS,
        meaning: "This request was the 301st within 60 seconds. The minute slides: any 60 seconds count, not those of \
                  the clock on the wall. The key is paused as of now, and this request was charged to its day.",
        remedy: "Stop calling with this key, spread the calls out or keep answers for a while, then resume the key \
                 with one click in your dashboard. A resumed key starts with a fresh minute. The operator can resume \
                 it too, with `ipse key resume ID`.",
    },
    Section {
        problem: Problem::DailyQuota { limit: DAILY_LIMIT },
        status: StatusCode::TOO_MANY_REQUESTS,
        heading: "The key’s day is used up",
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
    Section {
        problem: Problem::DemoQuota,
        status: StatusCode::TOO_MANY_REQUESTS,
        heading: "The demo’s day is used up",
        headers: &[RETRY_AT_MIDNIGHT, ("X-RateLimit-Limit", "1000"), NOTHING_REMAINS, RESET_AT_MIDNIGHT],
        meaning: "All callers of `/api/v1/ip/demo` together share one quota of 1,000 requests a day, and it is used \
                  up, perhaps by others.",
        remedy: "Get a key of your own, which takes a minute: `signup` links to where. Or come back after midnight UTC.",
    },
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    Section {
        problem: Problem::BadRequest,
        status: StatusCode::BAD_REQUEST,
        heading: "Not an HTTP request",
        headers: &[],
        meaning: "The bytes that arrived could not be read as HTTP, or a request of HTTP/1.1 had no `Host` or several, \
                  and the connection was closed. An unknown \
                  `scope` is no reason for it: that is ignored.",
        remedy: "Use an ordinary HTTP client. If you do, look for a proxy between you and the server that garbles \
                 requests.",
    },
    Section {
        problem: Problem::HeaderTooLarge,
        status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        heading: "Headers that are too large",
        headers: &[],
        meaning: "The request carries more than 16 KiB of header names and values, or more than 100 header fields. \
                  No lookup needs nearly as much.",
        remedy: "Send fewer headers; cookies are the usual suspects, and a lookup reads none.",
    },
    Section {
        problem: Problem::TargetTooLong,
        status: StatusCode::URI_TOO_LONG,
        heading: "An address that is too long",
        headers: &[],
        meaning: "The path and query of the request are longer than 8 KiB, longer than any that this server answers.",
        remedy: "Send only the parameters that are documented: `key` and `scope`.",
    },
    INTERNAL_ERROR,
];
