//! The body of a request, for the few that take one: small, whole, in memory, and in time.
//!
//! Nothing of a body is read before somebody asks for it, and what nobody asks for is left to the connection.

use crate::http2::Arriving;
use crate::quic::Upload;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// How long a whole body may take, from when it is asked for.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How much more than is wanted is read and thrown away: a caller who is answered while they still send may never see the
/// answer.
const SPARE_BYTES: usize = 32 * 1024;
/// How long what is left of a request is read after its answer: some clients take it for a failure if it is not.
const REST_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of it.
const REST_BYTES: usize = 32 * 1024;

/// The body of one request.
pub struct RequestBody(Mutex<Source>);

/// What a body comes from.
#[derive(Default)]
enum Source {
    /// There is none, or it was read.
    #[default]
    Nothing,
    Whole(Bytes),
    /// HTTP/1.
    Hyper(Incoming),
    /// HTTP/2. It is the connection's as well, like that of HTTP/3.
    Http2(Arc<Arriving>),
    /// HTTP/3. It is the connection's as well, which looks after what is left of it.
    Quic(Arc<Upload>),
}

/// Why there is no body to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// It is larger than what is wanted.
    #[error("the body is too large")]
    TooLarge,
    /// It did not come in time.
    #[error("the body did not come in time")]
    TooSlow,
    /// It ended before it was whole.
    #[error("the body is not whole")]
    Broken,
}

impl RequestBody {
    /// No body.
    #[must_use]
    pub fn empty() -> Self {
        Self::from(Source::Nothing)
    }

    /// A body that is here already, as tests have it.
    #[must_use]
    pub fn of(bytes: impl Into<Bytes>) -> Self {
        Self::from(Source::Whole(bytes.into()))
    }

    /// Reads all of it, if that is at most so much. A body can be read once; after that it is empty.
    pub async fn read(&self, limit_bytes: usize) -> Result<Bytes, BodyFault> {
        let source = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        match source {
            Source::Nothing => Ok(Bytes::new()),
            Source::Whole(bytes) if bytes.len() > limit_bytes => Err(BodyFault::TooLarge),
            Source::Whole(bytes) => Ok(bytes),
            Source::Hyper(_) | Source::Http2(_) | Source::Quic(_) => {
                let read = tokio::time::timeout(BODY_TIMEOUT, collect(source, limit_bytes)).await;
                read.unwrap_or(Err(BodyFault::TooSlow))
            }
        }
    }
}

impl From<Source> for RequestBody {
    fn from(source: Source) -> Self {
        Self(Mutex::new(source))
    }
}

impl From<Incoming> for RequestBody {
    fn from(body: Incoming) -> Self {
        Self::from(Source::Hyper(body))
    }
}

impl From<Arc<Arriving>> for RequestBody {
    fn from(arriving: Arc<Arriving>) -> Self {
        Self::from(Source::Http2(arriving))
    }
}

impl From<Arc<Upload>> for RequestBody {
    fn from(upload: Arc<Upload>) -> Self {
        Self::from(Source::Quic(upload))
    }
}

/// A body may hold a password.
impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestBody(…)")
    }
}

/// A part of a body, or none after the last.
pub(crate) type NextPart = Option<Result<Bytes, BodyFault>>;

/// Reads what is left of a body after its answer. Says whether that was all of it.
pub(crate) async fn read_rest(mut poll_next: impl FnMut(&mut Context<'_>) -> Poll<NextPart>) -> bool {
    let rest = async {
        let mut left = REST_BYTES;
        while let Some(Ok(part)) = poll_fn(&mut poll_next).await {
            left = left.checked_sub(part.len())?;
        }
        Some(())
    };
    matches!(tokio::time::timeout(REST_TIMEOUT, rest).await, Ok(Some(())))
}

/// How large the body of a request is, if its head says so.
pub(crate) fn told_bytes(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn collect(mut source: Source, limit_bytes: usize) -> Result<Bytes, BodyFault> {
    let most = limit_bytes.saturating_add(SPARE_BYTES);
    if source.least_bytes() > most as u64 {
        return Err(BodyFault::TooLarge);
    }
    let mut received = 0;
    let mut whole = Vec::new();
    while let Some(part) = source.next().await {
        let part = part?;
        // The parts are no larger than the buffers that they come from.
        received += part.len();
        if received > most {
            return Err(BodyFault::TooLarge);
        }
        if received <= limit_bytes {
            whole.extend_from_slice(&part);
        } else {
            whole = Vec::new();
        }
    }
    if received > limit_bytes { Err(BodyFault::TooLarge) } else { Ok(whole.into()) }
}

impl Source {
    /// How much comes at least, as far as the caller has said.
    fn least_bytes(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Hyper(body) => body.size_hint().lower(),
            Self::Http2(arriving) => arriving.told_bytes(),
            Self::Quic(upload) => upload.told_bytes().unwrap_or_default(),
        }
    }

    /// The next part, or none after the last.
    async fn next(&mut self) -> NextPart {
        match self {
            Self::Nothing => None,
            Self::Whole(_) => match std::mem::take(self) {
                Self::Whole(bytes) => Some(Ok(bytes)),
                _ => None,
            },
            Self::Hyper(body) => loop {
                match body.frame().await? {
                    // What is no data is a trailer, which nobody reads.
                    Ok(frame) => {
                        if let Ok(data) = frame.into_data() {
                            return Some(Ok(data));
                        }
                    }
                    Err(_) => return Some(Err(BodyFault::Broken)),
                }
            },
            Self::Http2(arriving) => poll_fn(|cx| arriving.poll_next(cx)).await,
            Self::Quic(upload) => poll_fn(|cx| upload.poll_next(cx)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Reply;
    use crate::serve::Visit;
    use crate::serve::tests::{address, edge};
    use http::{Request, Response};
    use http_body_util::Full;
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;

    const LIMIT: usize = 100;

    /// What a service says that reads a body, unless the path asks it not to.
    async fn told(visit: Visit) -> String {
        if visit.request.uri.path() == "/unread" {
            return "unread.".to_owned();
        }
        let read = visit.body.read(LIMIT).await;
        assert_eq!(visit.body.read(LIMIT).await, Ok(Bytes::new()), "a body is read once");
        match read {
            Ok(bytes) => format!("{} bytes: {}.", bytes.len(), String::from_utf8_lossy(&bytes)),
            Err(fault) => format!("{fault:?}."),
        }
    }

    /// An edge whose answers, and whatever else is found out about bodies, come here as well.
    async fn serve() -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
        let (tell, heard) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let edge = edge(listener, move |visit: Visit| {
            let tell = tell.clone();
            async move {
                let told = told(visit).await;
                let _ = tell.send(told.clone());
                Reply::from(Response::new(Full::from(told)))
            }
        });
        let address = address(&edge);
        tokio::spawn(edge.run(std::future::pending(), std::future::pending()));
        (address, heard)
    }

    /// Reads until an answer is whole, and says what it is.
    async fn receive(stream: &mut TcpStream) -> String {
        let mut answer = Vec::new();
        while !answer.ends_with(b".") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "{}", String::from_utf8_lossy(&answer));
        }
        String::from_utf8(answer).unwrap()
    }

    fn post(path: &str, lines: &str, body: &str) -> Vec<u8> {
        format!("POST {path} HTTP/1.1\r\nhost: x\r\n{lines}\r\n{body}").into_bytes()
    }

    #[tokio::test]
    async fn a_body_of_http1_is_read_and_the_connection_goes_on() {
        let (address, _) = serve().await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let long = "x".repeat(LIMIT);
        let too_long = "x".repeat(LIMIT + 1);
        let told = |body: &str| format!("content-length: {}\r\n", body.len());
        for (request, expected) in [
            (post("/", &told("a=b&c=d"), "a=b&c=d"), "7 bytes: a=b&c=d.".to_owned()),
            (post("/", "content-length: 0\r\n", ""), "0 bytes: .".to_owned()),
            (post("/", "", ""), "0 bytes: .".to_owned()),
            // A body that looks like the next request is still a body.
            (
                post("/", &told("GET / HTTP/1.1\r\n\r\n"), "GET / HTTP/1.1\r\n\r\n"),
                "18 bytes: GET / HTTP/1.1\r\n\r\n.".to_owned(),
            ),
            (post("/", &told(&long), &long), format!("{LIMIT} bytes: {long}.")),
            (post("/", &told(&too_long), &too_long), "TooLarge.".to_owned()),
            (post("/unread", &told(&long), &long), "unread.".to_owned()),
            (post("/", &told("last"), "last"), "4 bytes: last.".to_owned()),
        ] {
            stream.write_all(&request).await.unwrap();
            let answer = receive(&mut stream).await;
            assert!(answer.ends_with(&format!("\r\n\r\n{expected}")), "{answer}");
            assert!(!answer.contains("connection: close"), "{answer}");
        }
    }

    #[tokio::test]
    async fn a_body_of_http1_may_come_in_parts_and_when_it_is_asked_for() {
        let (address, _) = serve().await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = post("/", "content-length: 6\r\nexpect: 100-continue\r\n", "");
        for _ in 0..2 {
            stream.write_all(&head).await.unwrap();
            let mut invited = [0; 25];
            stream.read_exact(&mut invited).await.unwrap();
            assert_eq!(invited, *b"HTTP/1.1 100 Continue\r\n\r\n");
            for part in [b"ab", b"cd", b"ef"] {
                stream.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            assert!(receive(&mut stream).await.ends_with("6 bytes: abcdef."));
        }
        // What follows chunks is not looked at any more, see `strict.rs`.
        let chunks = post("/", "transfer-encoding: chunked\r\n", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
        stream.write_all(&chunks).await.unwrap();
        let answer = receive(&mut stream).await;
        assert!(answer.ends_with("5 bytes: abcde.") && answer.contains("connection: close"), "{answer}");
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_body_that_is_told_to_be_far_too_large_is_not_waited_for() {
        let (address, _) = serve().await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&post("/", "content-length: 10000000\r\n", "")).await.unwrap();
        assert!(receive(&mut stream).await.ends_with("TooLarge."));
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "the connection cannot go on");
    }

    #[tokio::test]
    async fn chunks_without_an_end_are_not_read_for_ever() {
        let (address, mut heard) = serve().await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&post("/", "transfer-encoding: chunked\r\n", "")).await.unwrap();
        let chunk = format!("400\r\n{}\r\n", "x".repeat(0x400));
        let sending = async {
            while stream.write_all(chunk.as_bytes()).await.is_ok() {}
            std::future::pending::<()>().await;
        };
        tokio::select! {
            told = heard.recv() => assert_eq!(told.unwrap(), "TooLarge."),
            () = sending => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_in_time_is_given_up() {
        let (address, _) = serve().await;
        for begun in ["", "half"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&post("/", "content-length: 8\r\n", begun)).await.unwrap();
            // While everybody waits, the paused clock runs ahead to the deadline.
            assert!(receive(&mut stream).await.ends_with("TooSlow."));
            assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "the connection cannot go on");
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_no_body() {
        let (address, mut heard) = serve().await;
        for broken in [
            post("/", "content-length: 8\r\n", "half"),
            post("/", "transfer-encoding: chunked\r\n", "8\r\nhalf"),
            post("/", "transfer-encoding: chunked\r\n", "zz\r\nhalf"),
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&broken).await.unwrap();
            stream.shutdown().await.unwrap();
            assert_eq!(heard.recv().await.unwrap(), "Broken.");
        }
    }

    #[tokio::test]
    async fn a_body_of_http2_is_read_and_the_connection_goes_on() {
        let (address, _) = serve().await;
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Full<Bytes>>();
        let ask = async |path: &str, body: String| {
            let request = Request::post(format!("http://{address}{path}")).body(Full::from(body)).unwrap();
            let answer = client.request(request).await.unwrap();
            String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
        };
        for _ in 0..3 {
            assert_eq!(ask("/", "a=b&c=d".to_owned()).await, "7 bytes: a=b&c=d.");
            assert_eq!(ask("/", String::new()).await, "0 bytes: .");
            assert_eq!(ask("/", "x".repeat(LIMIT + 1)).await, "TooLarge.");
            assert_eq!(ask("/", "x".repeat(LIMIT + SPARE_BYTES)).await, "TooLarge.");
            assert_eq!(ask("/unread", "x".repeat(LIMIT)).await, "unread.");
        }
    }

    #[tokio::test]
    async fn a_body_of_a_test_is_like_any_other() {
        assert_eq!(RequestBody::empty().read(0).await, Ok(Bytes::new()));
        let body = RequestBody::of("a=b");
        assert_eq!(format!("{body:?}"), "RequestBody(…)");
        assert_eq!(body.read(3).await, Ok(Bytes::from("a=b")));
        assert_eq!(body.read(3).await, Ok(Bytes::new()));
        assert_eq!(RequestBody::of("a=b").read(2).await, Err(BodyFault::TooLarge));
    }
}
