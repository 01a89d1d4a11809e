//! What everything about accounts shares: the records, the counters, the mail, and those who guard the doors.

use crate::guard::cookie::Cookies;
use crate::guard::hasher::{Hasher, TooBusy};
use crate::guard::throttle::Throttle;
use crate::mail::Post;
use ipse_model::Links;
use ipse_store::{KeyTable, Records};
use std::sync::Arc;

/// The means of one installation.
pub(crate) struct Office<C> {
    pub(crate) links: Links,
    pub(crate) records: Records,
    pub(crate) counters: Arc<C>,
    /// The keys as they are served, to be told at once of what changes here.
    pub(crate) keys: Arc<KeyTable>,
    pub(crate) cookies: Cookies,
    pub(crate) hasher: Hasher,
    pub(crate) throttle: Throttle,
    /// How mail leaves, if the operator has named a server for it.
    pub(crate) post: Option<Post>,
    /// Whether anybody may make an account.
    pub(crate) sign_up_is_open: bool,
}

/// What keeps a page from being made. It is never the visitor's fault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Store(#[from] ipse_store::Error),
    #[error(transparent)]
    Busy(#[from] TooBusy),
    #[error("the system gave no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    #[error("a page could not be made: {0}")]
    Template(#[from] askama::Error),
}
