//! What leaves: a response whose body is in memory.

use bytes::Bytes;
use futures_util::FutureExt;
use http::Response;
use http::response::Parts;
use http_body_util::{BodyExt, Full};

/// The answer to one request.
pub type Reply = Response<Full<Bytes>>;

/// A reply's head and its bytes.
#[must_use]
pub fn whole(reply: Reply) -> (Parts, Bytes) {
    let (head, body) = reply.into_parts();
    // A body in memory is there at once.
    let body = body.collect().now_or_never().and_then(Result::ok).unwrap_or_default();
    (head, body.to_bytes())
}
