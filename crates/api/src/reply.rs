//! The only place that knows status codes and headers.

use crate::lookup::{Outcome, json};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use ipse_edge::{HttpFault, Reply};
use ipse_model::{BURST_LIMIT, BURST_WINDOW_MS, DayAllowance, Links, Problem, Refusal, write_number};
use std::sync::Arc;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// What stands in `Retry-After` when a key is paused.
#[expect(clippy::cast_possible_wrap, reason = "a minute")]
const PAUSE_SECONDS: i64 = (BURST_WINDOW_MS / 1000) as i64;

/// As many fields as an answer has by the time it leaves.
const FIELDS: usize = 14;

/// Makes the reply to every outcome.
#[derive(Clone, Debug)]
pub struct Replies {
    links: Links,
    /// The line of the status and the fields of every answer, as HTTP/1 writes them.
    answered: Arc<[u8]>,
}

impl Replies {
    /// Replies whose errors point to `links`.
    #[must_use]
    pub fn new(links: Links) -> Self {
        let reply = json_reply(StatusCode::OK, Bytes::new());
        let mut answered = b"HTTP/1.1 200 OK\r\n".to_vec();
        for (name, value) in reply.headers() {
            write_field(&mut answered, name, |line| line.extend_from_slice(value.as_bytes()));
        }
        Self { links, answered: answered.into() }
    }

    /// Writes the head of an answer, as HTTP/1 does it.
    pub(crate) fn write_answered(&self, allowance: DayAllowance, head: &mut Vec<u8>) {
        head.extend_from_slice(&self.answered);
        let reset = moment(allowance.day.ends_at());
        for (name, number) in [(LIMIT, allowance.limit), (REMAINING, allowance.remaining), (RESET, reset)] {
            write_field(head, &name, |line| write_number(line, number));
        }
    }

    /// What is said where no answer could be asked for.
    #[must_use]
    pub fn fault(&self, fault: HttpFault) -> Reply {
        self.problem(match fault {
            HttpFault::BadRequest => Problem::BadRequest,
            HttpFault::TargetTooLong => Problem::TargetTooLong,
            HttpFault::HeaderTooLarge => Problem::HeaderTooLarge,
            HttpFault::Panicked => Problem::InternalError,
        })
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
        let mut reply = self.problem(refusal.into());
        let headers = reply.headers_mut();
        match refusal {
            Refusal::MissingKey | Refusal::InvalidKey => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Refusal::InactiveKey => {}
            Refusal::BurstExceeded(now) | Refusal::Paused(now) => {
                headers.insert(header::RETRY_AFTER, PAUSE_SECONDS.into());
                rate_headers(headers, BURST_LIMIT, 0, now.unix_seconds() + PAUSE_SECONDS);
            }
            Refusal::DayUsedUp(now, allowance) | Refusal::DemoUsedUp(now, allowance) => {
                headers.insert(header::RETRY_AFTER, (allowance.day.ends_at() - now.unix_seconds()).into());
                day_headers(headers, allowance);
            }
        }
        reply
    }

    pub(crate) fn internal_error(&self) -> Reply {
        self.problem(Problem::InternalError)
    }

    pub(crate) fn not_found(&self) -> Reply {
        self.problem(Problem::NotFound)
    }

    pub(crate) fn method_not_allowed(&self, allow: &'static str) -> Reply {
        let mut reply = self.problem(Problem::MethodNotAllowed);
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
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        reply
    }

    /// A document that does not depend on who asks.
    pub(crate) fn document(body: Bytes) -> Reply {
        let mut reply = json_reply(StatusCode::OK, body);
        reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        reply
    }

    fn problem(&self, problem: Problem) -> Reply {
        json_reply(status(problem), json(&problem.body(&self.links)))
    }
}

fn status(problem: Problem) -> StatusCode {
    match problem {
        Problem::MissingKey | Problem::InvalidKey => StatusCode::UNAUTHORIZED,
        Problem::InactiveKey => StatusCode::FORBIDDEN,
        Problem::PausedKey | Problem::BurstLimit | Problem::DailyQuota { .. } | Problem::DemoQuota => {
            StatusCode::TOO_MANY_REQUESTS
        }
        Problem::NotFound => StatusCode::NOT_FOUND,
        Problem::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Problem::BadRequest => StatusCode::BAD_REQUEST,
        Problem::TargetTooLong => StatusCode::URI_TOO_LONG,
        Problem::HeaderTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Problem::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn json_reply(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let mut headers = HeaderMap::with_capacity(FIELDS);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    open_to_everybody(&mut headers);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    *reply.headers_mut() = headers;
    reply
}

fn write_field(head: &mut Vec<u8>, name: &HeaderName, write_value: impl FnOnce(&mut Vec<u8>)) {
    head.extend_from_slice(name.as_str().as_bytes());
    head.extend_from_slice(b": ");
    write_value(head);
    head.extend_from_slice(b"\r\n");
}

fn open_to_everybody(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
}

fn day_headers(headers: &mut HeaderMap, allowance: DayAllowance) {
    rate_headers(headers, allowance.limit, allowance.remaining, allowance.day.ends_at());
}

fn rate_headers(headers: &mut HeaderMap, limit: u32, remaining: u32, reset: i64) {
    let mut digits = Vec::with_capacity(10);
    for (name, number) in [(LIMIT, limit), (REMAINING, remaining), (RESET, moment(reset))] {
        digits.clear();
        write_number(&mut digits, number);
        // Digits are a value.
        let Ok(mut value) = HeaderValue::from_bytes(&digits) else { continue };
        // It is another one each time: HTTP/2 need not remember it, and forget others for it.
        value.set_sensitive(name == REMAINING);
        headers.insert(name, value);
    }
}

/// A moment in seconds, as fields tell it.
fn moment(seconds: i64) -> u32 {
    u32::try_from(seconds).unwrap_or(u32::MAX)
}
