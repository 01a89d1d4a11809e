//! Which address is answered by what.

use crate::lookup::{Lookup, Outcome, json};
use crate::meta::Meta;
use crate::openapi;
use crate::reply::Replies;
use bytes::Bytes;
use http::Method;
use ipse_edge::{Reply, Visit};
use ipse_model::Links;
use ipse_store::{Counters, Error};
use std::sync::atomic::{AtomicBool, Ordering};

const LOOKUP: &str = "/api/v1/ip";
const DEMO: &str = "/api/v1/ip/demo";
const META: &str = "/api/v1/meta";
const OPENAPI: &str = "/openapi.json";

/// Everything under `/api`, and the description of it.
pub struct Api<C> {
    lookup: Lookup<C>,
    replies: Replies,
    openapi: Bytes,
    /// Whether the last charge failed, so that a lasting failure fills no log.
    failing: AtomicBool,
}

impl<C: Counters> Api<C> {
    /// An API that names these addresses.
    #[must_use]
    pub fn new(lookup: Lookup<C>, links: &Links) -> Self {
        let replies = Replies::new(links.clone());
        let openapi = openapi::document(&links.base_url, &replies).into();
        Self { lookup, replies, openapi, failing: AtomicBool::new(false) }
    }

    /// Whether an address belongs to the API.
    #[must_use]
    pub fn owns(path: &str) -> bool {
        path == OPENAPI || path == "/api" || path.starts_with("/api/")
    }

    /// The reply to a visit of an address that the API owns.
    pub async fn answer(&self, visit: &Visit) -> Reply {
        let method = &visit.request.method;
        match visit.request.uri.path() {
            path @ (LOOKUP | DEMO) => match *method {
                // HEAD is GET without the body, which the edge leaves out.
                Method::GET | Method::HEAD if path == LOOKUP => self.reply(self.lookup.keyed(visit).await),
                Method::GET | Method::HEAD => self.reply(self.lookup.demo(visit).await),
                Method::OPTIONS => Replies::preflight(),
                _ => self.replies.method_not_allowed("GET, HEAD, OPTIONS"),
            },
            META => match *method {
                Method::GET | Method::HEAD => {
                    Replies::document(json(&Meta::of(&self.lookup.atlas.load())).into())
                }
                Method::OPTIONS => Replies::preflight(),
                _ => self.replies.method_not_allowed("GET, HEAD, OPTIONS"),
            },
            OPENAPI => match *method {
                Method::GET | Method::HEAD => Replies::document(self.openapi.clone()),
                _ => self.replies.method_not_allowed("GET, HEAD"),
            },
            _ => self.replies.not_found(),
        }
    }

    fn reply(&self, outcome: Result<Outcome, Error>) -> Reply {
        match outcome {
            Ok(outcome) => {
                if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("requests are charged again");
                }
                self.replies.outcome(outcome)
            }
            Err(error) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    let transient = error.transient();
                    tracing::error!(error = %error, transient, "requests cannot be charged and are answered with 500");
                }
                self.replies.internal_error()
            }
        }
    }
}
