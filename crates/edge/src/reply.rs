//! What leaves: a response whose body is in memory.

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{self, HeaderValue};
use http::response::Parts;
use http::{Method, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Body;

/// The answer to one request.
pub type Reply = Response<Full<Bytes>>;

/// Marks a reply as ours, which is how `wire.rs` tells it from what hyper says on its own, and cuts the body of an
/// answer to HEAD, which hyper would send over HTTP/2.
pub(crate) fn mark(mut reply: Reply, method: &Method) -> Reply {
    reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if method != Method::HEAD {
        return reply;
    }
    let length = reply.body().size_hint().exact().unwrap_or_default();
    reply.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length.into());
    reply.map(|_| Full::default())
}

/// A reply's head and its bytes.
#[must_use]
pub fn whole(reply: Reply) -> (Parts, Bytes) {
    let (head, body) = reply.into_parts();
    // A body in memory is there at once.
    let body = body.collect().now_or_never().and_then(Result::ok).unwrap_or_default();
    (head, body.to_bytes())
}
