//! The operator's desk: the pages of the operator's own listener, which the public never sees.
//!
//! Nothing here is open to other origins, and nothing is kept by whoever receives it: a page that an operator has open in
//! another window must not read what a node tells about itself.

use crate::doctor::{self, Examination};
use crate::overview::{self, Overview};
use crate::{assets, reply};
use http::StatusCode;
use ipse_edge::{Reply, Visit};
use ipse_model::Links;

/// The pages of one node.
pub struct Desk {
    links: Links,
}

impl Desk {
    /// A desk whose pages name these links.
    #[must_use]
    pub fn new(links: Links) -> Self {
        Self { links }
    }

    /// How the node is doing. With `still` in the query it does not load itself again.
    #[must_use]
    pub fn overview(&self, visit: &Visit, overview: &Overview) -> Reply {
        let is_still = visit.request.uri.query() == Some("still");
        let page = overview::answer(&self.links, overview, is_still);
        page.unwrap_or_else(|_| reply::broken(&self.links))
    }

    /// What the doctor says of the request itself, which was sent to this host.
    #[must_use]
    pub fn doctor(&self, visit: &Visit, host: &str, examination: &Examination<'_>) -> Reply {
        let page = doctor::answer_operator(&self.links, visit, host, examination);
        page.unwrap_or_else(|_| reply::broken(&self.links))
    }

    /// A file that the pages are made with, if this is the path of one.
    #[must_use]
    pub fn file(&self, visit: &Visit) -> Option<Reply> {
        let asked = &visit.request;
        let asset = assets::find(asked.uri.path())?;
        Some(reply::closed_again(asset.answer(asked.uri.query(), &asked.headers)))
    }

    /// A few words in plain text.
    #[must_use]
    pub fn text(&self, status: StatusCode, text: String) -> Reply {
        reply::private_text(status, text)
    }
}
