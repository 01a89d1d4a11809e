//! HTTP/2 on one connection.
//!
//! What is answered at once, as nearly everything is, is answered in passing, by whoever drives the connection: a task for each
//! request would cost more than the answer. Only what has to wait for something becomes one.

use crate::body::RequestBody;
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
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::watch;

/// A request whose head is larger than what is served is refused by us, with a body; beyond this it is refused bare.
const HEADER_LIST_BYTES: u32 = 1024 * 1024;
/// How much of bodies may be under way, on one stream and on all: what we read is far smaller.
const WINDOW_BYTES: u32 = 1024 * 1024;

pub(crate) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_header_list_size(HEADER_LIST_BYTES)
        .max_concurrent_streams(HTTP_STREAMS)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    builder
}

/// Serves a connection on which HTTP/2 is spoken.
pub(crate) async fn serve<S, F>(
    wire: Wire<impl Stream + Send + 'static>,
    line: Arc<Line>,
    house: Arc<House<S>>,
    mut stages: watch::Receiver<Stage>,
) where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let (idle, last_stages) = (Idle::default(), stages.clone());
    let host = Host { line, house: Arc::clone(&house), idle: idle.clone(), rtt: wire.rtt() };
    let mut shaking = house.http2.handshake(wire.for_http2());
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
    async fn take_all<T: Stream>(&self, connection: &mut Connection<Wire<T>, Bytes>) {
        while let Some(Ok((request, respond))) = connection.accept().await {
            self.take(request, respond);
        }
    }

    fn take(&self, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        let (head, body) = request.into_parts();
        let body = if body.is_end_stream() { RequestBody::empty() } else { body_of(&head, body) };
        let (line, house) = (Arc::clone(&self.line), Arc::clone(&self.house));
        let (rtt_ms, open) = (self.rtt.rtt_ms(), self.idle.asked());
        let mut answering = Box::pin(async move { answer(&house, &line, rtt_ms, head, body).await });
        match answering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => send(respond, reply),
            Poll::Pending => drop(tokio::spawn(answer_later(answering, respond, open))),
        }
    }
}

/// Sends an answer when it is there, unless nobody waits for it any more.
async fn answer_later(
    answering: impl Future<Output = Reply> + Unpin,
    mut respond: SendResponse<Bytes>,
    _open: Open,
) {
    let reply = tokio::select! {
        biased;
        reply = answering => reply,
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
    };
    send(respond, reply);
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

fn body_of(head: &Parts, stream: RecvStream) -> RequestBody {
    let told = head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    RequestBody::of_http2(stream, told.unwrap_or_default())
}
