//! The only place that knows status codes and headers.

use crate::lookup::{Outcome, json};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use ipse_edge::{HttpFault, Reply};
use ipse_model::{BURST_LIMIT, BURST_WINDOW_MS, DEMO_DAILY_LIMIT, DayAllowance, Now, Refusal};
use serde::Serialize;
use utoipa::ToSchema;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// What stands in `Retry-After` when a key is paused.
#[expect(clippy::cast_possible_wrap, reason = "a minute")]
const PAUSE_SECONDS: i64 = (BURST_WINDOW_MS / 1000) as i64;

/// Where error bodies point to. Absolute, without a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    /// The documentation page, whose sections are named after the errors.
    pub docs: String,
    /// Where to get a higher daily quota.
    pub enterprise: String,
    /// Where to get a key.
    pub signup: String,
}

/// The body of every error.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorBody<'a> {
    /// The error's code.
    error: &'static str,
    /// An explanation for people.
    message: &'a str,
    /// The section of the documentation about it.
    #[schema(format = "uri")]
    docs: String,
    /// Where to get more; only when a key's daily quota is used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uri")]
    enterprise: Option<&'a str>,
    /// Where to get a key; only when the demo's quota is used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uri")]
    signup: Option<&'a str>,
}

/// Makes the reply to every outcome.
#[derive(Clone, Debug)]
pub struct Replies {
    links: Links,
}

/// Everything that an error says.
#[derive(Clone, Copy)]
struct Problem<'a> {
    status: StatusCode,
    error: &'static str,
    /// The section of the documentation.
    anchor: &'static str,
    message: &'a str,
    enterprise: bool,
    signup: bool,
}

impl<'a> Problem<'a> {
    fn new(status: StatusCode, error: &'static str, message: &'a str) -> Self {
        Self { status, error, anchor: error, message, enterprise: false, signup: false }
    }

    fn rate_limit(anchor: &'static str, message: &'a str) -> Self {
        Self { anchor, ..Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message) }
    }
}

impl Replies {
    /// Replies whose errors point to `links`.
    #[must_use]
    pub fn new(links: Links) -> Self {
        Self { links }
    }

    /// What is said where no answer could be asked for.
    #[must_use]
    pub fn fault(&self, fault: HttpFault) -> Reply {
        let problem = match fault {
            HttpFault::BadRequest => {
                Problem::new(StatusCode::BAD_REQUEST, "bad_request", "The request could not be read as HTTP.")
            }
            HttpFault::TargetTooLong => Problem {
                anchor: "bad_request",
                ..Problem::new(
                    StatusCode::URI_TOO_LONG,
                    "uri_too_long",
                    "The address of the request is too long.",
                )
            },
            HttpFault::HeaderTooLarge => Problem::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "header_too_large",
                "The request's header fields are too many or too large.",
            ),
            HttpFault::Panicked => return self.internal_error(),
        };
        self.problem(problem)
    }

    pub(crate) fn outcome(&self, outcome: Outcome) -> Reply {
        match outcome {
            Outcome::Answered(body, allowance) => {
                let mut reply = json_reply(StatusCode::OK, body);
                day_headers(reply.headers_mut(), allowance);
                reply
            }
            Outcome::Refused(refusal) => self.refusal(refusal),
        }
    }

    pub(crate) fn refusal(&self, refusal: Refusal) -> Reply {
        match refusal {
            Refusal::MissingKey => self.unauthorized(
                "missing_api_key",
                "No API key was given. Send it in the header \"Authorization: Bearer YOUR_API_KEY\", or as the query \
                 parameter \"key\".",
            ),
            Refusal::InvalidKey => self.unauthorized(
                "invalid_api_key",
                "This API key does not exist. Check that it was copied whole: a key begins with \"ipse_\" and has 43 \
                 characters.",
            ),
            Refusal::InactiveKey => self.problem(Problem::new(
                StatusCode::FORBIDDEN,
                "inactive_api_key",
                "This API key is deactivated. Its owner can activate it again.",
            )),
            Refusal::BurstExceeded(now) => {
                let message = format!(
                    "More than {BURST_LIMIT} requests in a minute: this API key is now paused. Waiting does not help: its \
                     owner must resume it, as {}#paused_key tells.",
                    self.links.docs
                );
                self.paused(now, Problem::rate_limit("burst_limit", &message))
            }
            Refusal::Paused(now) => {
                let message = format!(
                    "This API key is paused, because it made more than {BURST_LIMIT} requests in a minute or was paused \
                     by hand. Waiting does not help: its owner must resume it, as {}#paused_key tells.",
                    self.links.docs
                );
                self.paused(now, Problem::rate_limit("paused_key", &message))
            }
            Refusal::DayUsedUp(now, allowance) => {
                let message =
                    format!("The daily quota of {} requests is used up. It resets at midnight UTC.", allowance.limit);
                let problem = Problem { enterprise: true, ..Problem::rate_limit("daily_quota", &message) };
                self.used_up(now, allowance, problem)
            }
            Refusal::DemoUsedUp(now, allowance) => {
                let message = format!(
                    "The demo's quota of {DEMO_DAILY_LIMIT} requests a day, shared by all callers, is used up. It resets \
                     at midnight UTC; with an API key of your own you need not wait."
                );
                let problem = Problem { signup: true, ..Problem::rate_limit("demo_quota", &message) };
                self.used_up(now, allowance, problem)
            }
        }
    }

    pub(crate) fn internal_error(&self) -> Reply {
        self.problem(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "Something failed on our side. The request may be tried again.",
        ))
    }

    pub(crate) fn not_found(&self) -> Reply {
        self.problem(Problem::new(StatusCode::NOT_FOUND, "not_found", "There is nothing at this address."))
    }

    pub(crate) fn method_not_allowed(&self, allow: &'static str) -> Reply {
        let mut reply = self.problem(Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "This address does not take that method; the header Allow lists those it takes.",
        ));
        reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
        reply
    }

    /// The answer to a browser that asks whether it may ask.
    pub(crate) fn preflight() -> Reply {
        let mut reply = Response::new(Full::default());
        *reply.status_mut() = StatusCode::NO_CONTENT;
        let headers = reply.headers_mut();
        open_to_everybody(headers);
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, OPTIONS"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Authorization"));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        reply
    }

    /// A document that does not depend on who asks.
    pub(crate) fn document(body: Bytes) -> Reply {
        let mut reply = json_reply(StatusCode::OK, body);
        reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        reply
    }

    fn unauthorized(&self, error: &'static str, message: &str) -> Reply {
        let mut reply = self.problem(Problem::new(StatusCode::UNAUTHORIZED, error, message));
        reply.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        reply
    }

    fn paused(&self, now: Now, problem: Problem<'_>) -> Reply {
        let mut reply = self.problem(problem);
        let headers = reply.headers_mut();
        headers.insert(header::RETRY_AFTER, PAUSE_SECONDS.into());
        rate_headers(headers, BURST_LIMIT, 0, now.unix_seconds() + PAUSE_SECONDS);
        reply
    }

    fn used_up(&self, now: Now, allowance: DayAllowance, problem: Problem<'_>) -> Reply {
        let mut reply = self.problem(problem);
        let headers = reply.headers_mut();
        headers.insert(header::RETRY_AFTER, (allowance.day.ends_at() - now.unix_seconds()).into());
        day_headers(headers, allowance);
        reply
    }

    fn problem(&self, problem: Problem<'_>) -> Reply {
        let Problem { status, error, anchor, message, enterprise, signup } = problem;
        let body = ErrorBody {
            error,
            message,
            docs: format!("{}#{anchor}", self.links.docs),
            enterprise: enterprise.then_some(&*self.links.enterprise),
            signup: signup.then_some(&*self.links.signup),
        };
        json_reply(status, json(&body))
    }
}

fn json_reply(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    open_to_everybody(headers);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

fn open_to_everybody(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

fn day_headers(headers: &mut HeaderMap, allowance: DayAllowance) {
    rate_headers(headers, allowance.limit, allowance.remaining, allowance.day.ends_at());
}

fn rate_headers(headers: &mut HeaderMap, limit: u32, remaining: u32, reset: i64) {
    headers.insert(LIMIT, limit.into());
    headers.insert(REMAINING, remaining.into());
    headers.insert(RESET, reset.into());
}
