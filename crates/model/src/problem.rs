//! Every error that a caller can meet, in words. It knows no HTTP; replies and documentation both speak from here.

use crate::{BURST_LIMIT, DEMO_DAILY_LIMIT, Links, Refusal};
use serde::Serialize;
use std::borrow::Cow;
use utoipa::ToSchema;

/// What an error body is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// No key was sent.
    MissingKey,
    /// The key does not exist.
    InvalidKey,
    /// The key was deactivated.
    InactiveKey,
    /// The key was paused before.
    PausedKey,
    /// This request went over the burst limit and paused the key.
    BurstLimit,
    /// The key's quota of the day is used up.
    DailyQuota {
        /// Answers per day.
        limit: u32,
    },
    /// The demo's quota of the day is used up.
    DemoQuota,
    /// Nothing is at this path.
    NotFound,
    /// The path does not take this method.
    MethodNotAllowed,
    /// The bytes are no request.
    BadRequest,
    /// The request's target is too long.
    TargetTooLong,
    /// The request's header fields are too many or too large.
    HeaderTooLarge,
    /// Something broke on our side.
    InternalError,
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::MissingKey => Self::MissingKey,
            Refusal::InvalidKey => Self::InvalidKey,
            Refusal::InactiveKey => Self::InactiveKey,
            Refusal::BurstExceeded(_) => Self::BurstLimit,
            Refusal::Paused(_) => Self::PausedKey,
            Refusal::DayUsedUp(_, allowance) => Self::DailyQuota { limit: allowance.limit },
            Refusal::DemoUsedUp(..) => Self::DemoQuota,
        }
    }
}

impl Problem {
    /// What stands in `error`. Several problems share one code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::MissingKey => "missing_api_key",
            Self::InvalidKey => "invalid_api_key",
            Self::InactiveKey => "inactive_api_key",
            Self::PausedKey | Self::BurstLimit | Self::DailyQuota { .. } | Self::DemoQuota => {
                "rate_limit_exceeded"
            }
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::BadRequest => "bad_request",
            Self::TargetTooLong => "uri_too_long",
            Self::HeaderTooLarge => "header_too_large",
            Self::InternalError => "internal_error",
        }
    }

    /// The section of the documentation, which never changes: bodies that are out in the world link to it.
    #[must_use]
    pub fn section(self) -> &'static str {
        match self {
            Self::PausedKey => "paused_key",
            Self::BurstLimit => "burst_limit",
            Self::DailyQuota { .. } => "daily_quota",
            Self::DemoQuota => "demo_quota",
            other => other.code(),
        }
    }

    /// The body that tells of it.
    #[must_use]
    pub fn body(self, links: &Links) -> ErrorBody<'_> {
        ErrorBody {
            error: self.code(),
            message: self.message(links),
            docs: format!("{}#{}", links.docs_url, self.section()),
            enterprise: matches!(self, Self::DailyQuota { .. }).then_some(&*links.enterprise_url),
            signup: matches!(self, Self::DemoQuota).then_some(&*links.signup_url),
        }
    }

    fn message(self, links: &Links) -> Cow<'static, str> {
        let resume = format_args!(
            "Waiting does not help: its owner must resume it, as {}#{} tells.",
            links.docs_url,
            Self::PausedKey.section()
        );
        Cow::Borrowed(match self {
            Self::MissingKey => {
                "No API key was given. Send it in the header \"Authorization: Bearer YOUR_API_KEY\", or as the query \
                 parameter \"key\"."
            }
            Self::InvalidKey => {
                "This API key does not exist. Check that it was copied whole: a key begins with \"ipse_\" and has 43 \
                 characters."
            }
            Self::InactiveKey => {
                "This API key is deactivated. Its owner or the operator can activate it again."
            }
            Self::PausedKey => {
                return format!(
                    "This API key is paused, because it made more than {BURST_LIMIT} requests in a minute or was paused \
                     by hand. {resume}"
                )
                .into();
            }
            Self::BurstLimit => {
                return format!(
                    "More than {BURST_LIMIT} requests in a minute: this API key is now paused. {resume}"
                )
                .into();
            }
            Self::DailyQuota { limit } => {
                return format!("The daily quota of {limit} requests is used up. It resets at midnight UTC.")
                    .into();
            }
            Self::DemoQuota => {
                return format!(
                    "The demo's quota of {DEMO_DAILY_LIMIT} requests a day, shared by all callers, is used up. It resets \
                     at midnight UTC; with an API key of your own you need not wait."
                )
                .into();
            }
            Self::NotFound => {
                "There is nothing at this path. Lookups are answered at /api/v1/ip and /api/v1/ip/demo."
            }
            Self::MethodNotAllowed => {
                "This path does not take that method; the header Allow lists those it takes."
            }
            Self::BadRequest => "The request could not be read as HTTP.",
            Self::TargetTooLong => "The address of the request is too long.",
            Self::HeaderTooLarge => "The request's header fields are too many or too large.",
            Self::InternalError => "Something failed on our side. The request may be tried again.",
        })
    }
}

/// The body of every error.
#[derive(Serialize, ToSchema)]
pub struct ErrorBody<'a> {
    /// The error's code.
    error: &'static str,
    /// An explanation for people.
    #[schema(value_type = String)]
    message: Cow<'static, str>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(problem: Problem, keys: &[&str], docs: &str) {
        let links = Links {
            base_url: "https://ip.example".into(),
            docs_url: "https://ip.example/docs".into(),
            signup_url: "https://ip.example/signup".into(),
            enterprise_url: "https://ip.example/enterprise".into(),
            ipv4_origin: None,
            ipv6_origin: None,
        };
        let body = serde_json::to_value(problem.body(&links)).unwrap();
        assert_eq!(body.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(), keys);
        assert_eq!(body["docs"], format!("https://ip.example/docs#{docs}"));
    }

    #[test]
    fn bodies_hold_the_fields_of_the_specification_in_order() {
        check(Problem::NotFound, &["error", "message", "docs"], "not_found");
        check(Problem::BurstLimit, &["error", "message", "docs"], "burst_limit");
        check(Problem::PausedKey, &["error", "message", "docs"], "paused_key");
        check(Problem::DailyQuota { limit: 5 }, &["error", "message", "docs", "enterprise"], "daily_quota");
        check(Problem::DemoQuota, &["error", "message", "docs", "signup"], "demo_quota");
    }
}
