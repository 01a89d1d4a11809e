//! HTTP/2 on one connection.
//!
//! What is answered at once, as nearly everything is, is answered in passing, by whoever drives the connection: a task for each
//! request would cost more than the answer. Only what has to wait for something becomes one.

pub(crate) mod frame;
pub(crate) mod hpack;
mod huffman;
mod passage;

pub(crate) use passage::{MOST_SHOWN, Passage};

use crate::body::{BodyFault, NextPart, RequestBody, read_rest, told_bytes};
use crate::idle::{Idle, Open};
use crate::reply::{Reply, has_a_length, whole};
use crate::rtt::RttGauge;
use crate::serve::{HTTP_STREAMS, House, Line, Stage, Visit, answer, finish, reached};
use crate::wire::{Stream, Wire};
use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, Connection, SendResponse};
use http::request::Parts;
use http::{Request, Response, header};
use passage::Passed;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::watch;

/// A request whose head is larger than what is served is refused by us, with a body; beyond this it is refused bare.
pub(crate) const HEADER_LIST_BYTES: u32 = 1024 * 1024;
/// How much of bodies may be under way, on one stream and on all: what we read is far smaller.
pub(crate) const WINDOW_BYTES: u32 = 1024 * 1024;

pub(crate) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_header_list_size(HEADER_LIST_BYTES)
        .max_concurrent_streams(HTTP_STREAMS)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    builder
}

/// Serves a connection on which HTTP/2 is spoken. If some of it was spoken already, it comes with a passage.
pub(crate) async fn serve<S, F>(
    wire: Wire<impl Stream + Send + 'static>,
    passage: Option<Box<Passage>>,
    line: Arc<Line>,
    house: Arc<House<S>>,
    mut stages: watch::Receiver<Stage>,
) where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let (idle, last_stages) = (Idle::default(), stages.clone());
    let host = Host { line, house: Arc::clone(&house), idle: idle.clone(), rtt: wire.rtt() };
    let mut shaking = house.http2.handshake(Passed::new(wire.for_http2(), passage));
    let mut over = std::pin::pin!(async {
        tokio::select! {
            () = idle.rest() => {}
            // What is on its way is not lost: the peer is told which requests were the last to be taken.
            () = reached(&mut stages, Stage::LastCall) => {}
        }
    });
    // How a connection ends is the peer's business: nothing about it is worth a line in a log.
    let shaken = tokio::select! {
        biased;
        shaken = &mut shaking => match shaken {
            Ok(connection) => Some(connection),
            Err(_) => return,
        },
        () = over.as_mut() => None,
    };
    let mut connection = None;
    if let Some(mut shaken) = shaken {
        tokio::select! {
            biased;
            () = host.take_all(&mut shaken) => return,
            () = over.as_mut() => {}
        }
        connection = Some(shaken);
    }
    let leaving = async {
        let mut connection = match connection {
            Some(connection) => connection,
            None => match shaking.await {
                Ok(connection) => connection,
                Err(_) => return,
            },
        };
        connection.graceful_shutdown();
        host.take_all(&mut connection).await;
    };
    finish(leaving, || idle.is_busy(), house.drain, last_stages).await;
}

/// Whoever answers on a connection.
struct Host<S> {
    line: Arc<Line>,
    house: Arc<House<S>>,
    idle: Idle,
    rtt: RttGauge,
}

impl<S, F> Host<S>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    /// Answers all that comes, until nothing does any more.
    async fn take_all<T: Stream>(&self, connection: &mut Connection<Passed<Wire<T>>, Bytes>) {
        while let Some(Ok((request, respond))) = connection.accept().await {
            self.take(request, respond);
        }
    }

    fn take(&self, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        let (head, stream) = request.into_parts();
        let (line, house) = (Arc::clone(&self.line), Arc::clone(&self.house));
        let (rtt_ms, open) = (self.rtt.rtt_ms(), self.idle.asked());
        let arriving = (!stream.is_end_stream()).then(|| Arc::new(Arriving::new(&head, stream)));
        let body = arriving.as_ref().map_or_else(RequestBody::empty, |arriving| Arc::clone(arriving).into());
        let mut answering = Box::pin(async move { answer(&house, &line, rtt_ms, head, body).await });
        if arriving.is_none()
            && let Poll::Ready(reply) = answering.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            return send(respond, reply);
        }
        tokio::spawn(answer_later(answering, respond, arriving, open));
    }
}

/// Sends an answer when it is there, unless nobody waits for it any more.
async fn answer_later(
    answering: impl Future<Output = Reply> + Unpin,
    mut respond: SendResponse<Bytes>,
    arriving: Option<Arc<Arriving>>,
    open: Open,
) {
    let reply = tokio::select! {
        biased;
        reply = answering => reply,
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
    };
    send(respond, reply);
    drop(open);
    if let Some(arriving) = arriving {
        // What is not read by then the caller is told not to send.
        read_rest(|cx| arriving.poll_next(cx)).await;
    }
}

/// A body that comes. Two may read it: whoever takes it, and the connection, which takes what is left.
pub(crate) struct Arriving {
    told_bytes: u64,
    stream: Mutex<RecvStream>,
}

impl Arriving {
    fn new(head: &Parts, stream: RecvStream) -> Self {
        let told_bytes = told_bytes(&head.headers).unwrap_or_default();
        Self { told_bytes, stream: Mutex::new(stream) }
    }

    /// How much it is, as far as the caller has said.
    pub(crate) fn told_bytes(&self) -> u64 {
        self.told_bytes
    }

    /// The next part, or none after the last.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<NextPart> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.poll_data(cx).map(|part| match part? {
            Ok(part) => {
                // It is read, so as much may come.
                let _ = stream.flow_control().release_capacity(part.len());
                Some(Ok(part))
            }
            Err(_) => Some(Err(BodyFault::Broken)),
        })
    }
}

/// Has an answer leave.
fn send(mut respond: SendResponse<Bytes>, reply: Reply) {
    let (mut head, body) = whole(reply);
    if !body.is_empty() && has_a_length(head.status) {
        head.headers.entry(header::CONTENT_LENGTH).or_insert_with(|| body.len().into());
    }
    let is_all = body.is_empty();
    // Who is gone is not told anything.
    if let Ok(mut stream) = respond.send_response(Response::from_parts(head, ()), is_all)
        && !is_all
    {
        let _ = stream.send_data(body, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tests::{address, edge};
    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use http_body_util::Full;
    use std::time::Duration;
    use tokio::net::{TcpListener, TcpStream};

    /// A caller of an edge whose service reads no body and takes as many milliseconds as the path says.
    async fn caller() -> h2::client::SendRequest<Bytes> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let edge = edge(listener, |visit: Visit| async move {
            let ms: u64 = visit.request.uri.path()[1..].parse().unwrap_or_default();
            if ms > 0 {
                // waits for: nothing; so long the answer takes
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            Response::new(Full::from(vec![b'x'; 100_000]))
        });
        let address = address(&edge);
        tokio::spawn(edge.run(std::future::pending(), std::future::pending()));
        let stream = TcpStream::connect(address).await.unwrap();
        let (caller, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        caller.ready().await.unwrap()
    }

    fn request(path: &str) -> Request<()> {
        Request::get(format!("http://localhost{path}")).body(()).unwrap()
    }

    async fn receive(answer: h2::client::ResponseFuture) -> Response<usize> {
        let (head, mut body) = answer.await.unwrap().into_parts();
        let mut bytes = 0;
        while let Some(part) = body.data().await {
            let part = part.unwrap();
            bytes += part.len();
            body.flow_control().release_capacity(part.len()).unwrap();
        }
        Response::from_parts(head, bytes)
    }

    #[tokio::test]
    async fn answers_that_wait_and_those_that_do_not_come_each_to_its_own() {
        let mut caller = caller().await;
        let mut asked = Vec::new();
        for path in ["/50", "/", "/1", "/"] {
            asked.push(receive(caller.send_request(request(path), true).unwrap().0));
        }
        // All at once, because they share a window.
        for answer in join_all(asked).await {
            assert_eq!(*answer.body(), 100_000, "more than fits into the window at once");
            let field = |name| answer.headers().get(name).unwrap().to_str().unwrap();
            assert_eq!((field("content-length"), field("x-content-type-options")), ("100000", "nosniff"));
            assert!(field("date").ends_with(" GMT"));
        }
    }

    #[tokio::test]
    async fn what_comes_behind_an_answer_is_read_and_no_fault() {
        let mut caller = caller().await;
        for _ in 0..3 {
            let (answer, mut sending) = caller.send_request(request("/"), false).unwrap();
            assert_eq!(receive(answer).await.status(), 200);
            assert!(poll_fn(|cx| sending.poll_reset(cx)).now_or_never().is_none(), "nobody is sent away");
            sending.send_data(Bytes::from_static(b"a=b"), true).unwrap();
            caller = caller.ready().await.unwrap();
        }
        assert_eq!(receive(caller.send_request(request("/"), true).unwrap().0).await.status(), 200);
    }

    #[tokio::test]
    async fn who_sends_without_end_is_told_to_stop() {
        let mut caller = caller().await;
        let (answer, mut sending) = caller.send_request(request("/"), false).unwrap();
        assert_eq!(receive(answer).await.status(), 200);
        sending.send_data(Bytes::from(vec![0; 60_000]), false).unwrap();
        let reason = poll_fn(|cx| sending.poll_reset(cx)).await.unwrap();
        assert_eq!(reason, h2::Reason::NO_ERROR);
    }
}
