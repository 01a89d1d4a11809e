//! What leaves: a response whose body is in memory.

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{self, HeaderValue};
use http::response::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use ipse_model::Now;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The answer to one request.
pub type Reply = Response<Full<Bytes>>;

/// What [`mark`] adds, as a line of HTTP/1.
pub(crate) const MARK: &[u8] = b"x-content-type-options: nosniff\r\n";

/// The text of a `date`.
pub(crate) fn date(now: Now) -> Option<String> {
    let since_epoch = Duration::from_millis(u64::try_from(now.unix_ms).ok()?);
    Some(httpdate::fmt_http_date(SystemTime::UNIX_EPOCH.checked_add(since_epoch)?))
}

/// The value of `date`, which is another one once a second.
#[derive(Default)]
pub(crate) struct DateField(ArcSwapOption<(i64, HeaderValue)>);

impl DateField {
    pub(crate) fn at(&self, now: Now) -> HeaderValue {
        let second = now.unix_seconds();
        if let Some((of, value)) = self.0.load().as_deref()
            && *of == second
        {
            return value.clone();
        }
        let value = date(now).and_then(|date| HeaderValue::try_from(date).ok());
        let value = value.unwrap_or(HeaderValue::from_static(""));
        self.0.store(Some(Arc::new((second, value.clone()))));
        value
    }
}

/// Marks a reply as ours, which is how `wire.rs` tells it from what hyper says on its own, and cuts the body of an
/// answer to HEAD, which HTTP/2 would send.
pub(crate) fn mark(mut reply: Reply, method: &Method) -> Reply {
    reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if method != Method::HEAD || !has_a_length(reply.status()) {
        return reply;
    }
    let length = reply.body().size_hint().exact().unwrap_or_default();
    reply.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length.into());
    reply.map(|_| Full::default())
}

/// Whether an answer of this status tells how long it is. The others have no body, and a length of nothing would be said of
/// what they stand for.
pub(crate) fn has_a_length(status: StatusCode) -> bool {
    ![StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
}

/// A reply's head and its bytes.
#[must_use]
pub fn whole(reply: Reply) -> (Parts, Bytes) {
    let (head, body) = reply.into_parts();
    // A body in memory is there at once.
    let body = body.collect().now_or_never().and_then(Result::ok).unwrap_or_default();
    (head, body.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &Method, status: StatusCode, length: Option<&str>) {
        let mut reply = Reply::new(Full::from(if has_a_length(status) { "four" } else { "" }));
        *reply.status_mut() = status;
        let reply = mark(reply, method);
        let told =
            reply.headers().get(header::CONTENT_LENGTH).map(|length| length.to_str().unwrap().to_owned());
        assert_eq!(told.as_deref(), length, "{method} {status}");
        assert_eq!(reply.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        let body = if *method == Method::GET && has_a_length(status) { "four" } else { "" };
        assert_eq!(whole(reply).1, body, "{method} {status}");
    }

    #[test]
    fn an_answer_to_head_is_as_long_as_the_one_to_get_and_has_no_body() {
        // The library tells the length of a body that it sends.
        check(&Method::GET, StatusCode::OK, None);
        check(&Method::HEAD, StatusCode::OK, Some("4"));
        check(&Method::HEAD, StatusCode::NOT_FOUND, Some("4"));
        check(&Method::HEAD, StatusCode::NO_CONTENT, None);
        check(&Method::HEAD, StatusCode::NOT_MODIFIED, None);
        check(&Method::GET, StatusCode::NOT_MODIFIED, None);
    }
}
