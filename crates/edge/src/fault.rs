//! What can go wrong with a request before, or instead of, an answer from above.

use crate::reply::Reply;
use std::sync::Arc;

/// What is said about each fault.
pub type FaultReplies = Arc<dyn Fn(HttpFault) -> Reply + Send + Sync>;

/// A failure of the HTTP layer. What is said about it is decided above; here it is only recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpFault {
    /// The bytes are no HTTP request.
    BadRequest,
    /// The request's target is longer than any we serve.
    TargetTooLong,
    /// The header fields are too many or too large.
    HeaderTooLarge,
    /// The service panicked; the connection lives on.
    Panicked,
}
