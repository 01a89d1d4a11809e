//! HTTP/1 on one connection, in little memory while nothing is asked.
//!
//! Hyper's buffers, 16 KiB and more, are there for as long as hyper is. So between two requests that are not close to
//! each other hyper is let go, and made anew when the next bytes come. `wire.rs` sees when an answer is out.

use crate::idle::Idle;
use crate::reply::Reply;
use crate::serve::{House, Line, Stage, Visit, answer, finish, reached};
use crate::wire::{Stream, Wire};
use http::{HeaderMap, Request, Version, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

/// Who asks again within this time is not rested for at once the next time: to make hyper anew takes a microsecond.
const SOON: Duration = Duration::from_secs(1);
/// How long a peer may take to hear that we leave.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves a connection on which HTTP/1 is spoken. One that `comes_back` is given back when it rests.
pub(crate) async fn serve<T, S, F>(
    mut wire: Wire<T>,
    line: Arc<Line>,
    comes_back: Option<Next>,
    house: Arc<House<S>>,
    mut stages: watch::Receiver<Stage>,
) -> Option<T>
where
    T: Stream + Send + 'static,
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let (idle, rtt, progress) = (Idle::default(), wire.rtt(), wire.progress());
    let mut service = {
        let (house, idle, progress) = (Arc::clone(&house), idle.clone(), progress.clone());
        service_fn(move |request: Request<Incoming>| {
            let open = idle.asked();
            progress.asked();
            let (house, line, rtt, progress) =
                (Arc::clone(&house), Arc::clone(&line), rtt.clone(), progress.clone());
            async move {
                let (request, body) = request.into_parts();
                let stays = request.version == Version::HTTP_11 && may_stay(&request.headers);
                let reply = answer(&house, &line, rtt.rtt_ms(), request, body.into()).await;
                // A connection that ends with its answer is hyper's to close.
                progress.answered(stays && may_stay(reply.headers()));
                drop(open);
                Ok::<_, Infallible>(reply)
            }
        })
    };
    let last_stages = stages.clone();
    let mut over = std::pin::pin!(async {
        tokio::select! {
            () = idle.rest() => {}
            // A caller may be sending at this moment: they are told with their next answer, and closed on only if they do
            // not ask any more.
            () = reached(&mut stages, Stage::Draining) => {}
        }
    });
    let mut next = comes_back.unwrap_or(Next::Later);
    let mut connection = loop {
        let mut connection = Box::pin(house.http1.serve_connection(TokioIo::new(wire), service));
        // How a connection ends is the peer's business: nothing about it is worth a line in a log.
        tokio::select! {
            biased;
            _ = connection.as_mut() => {
                // Of a caller who wanted to speak otherwise hyper takes no leave. Elsewhere nothing is said twice.
                let mut wire = Pin::into_inner(connection).into_parts().io.into_inner();
                let _ = tokio::time::timeout(FAREWELL, wire.shutdown()).await;
                return None;
            }
            () = over.as_mut() => break connection,
            // Behind the connection, because what it does decides.
            () = progress.rest(next) => {}
        }
        let parts = Pin::into_inner(connection).into_parts();
        (wire, service) = (parts.io.into_inner(), parts.service);
        progress.asked();
        if !parts.read_buf.is_empty() {
            // The next request has begun, and its deadline with it.
            wire.give_back(parts.read_buf);
            continue;
        }
        if comes_back.is_some() && !house.is_closing() {
            return wire.into_stream();
        }
        next = tokio::select! {
            biased;
            next = wait(&wire) => next,
            () = over.as_mut() => {
                let _ = tokio::time::timeout(FAREWELL, wire.shutdown()).await;
                return None;
            }
        };
    };
    connection.as_mut().graceful_shutdown();
    finish(connection, || idle.is_busy() || progress.is_on_its_way(), house.drain, last_stages).await;
    None
}

/// Whether a head leaves the connection open.
fn may_stay(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .all(|value| value.as_bytes().eq_ignore_ascii_case(b"keep-alive"))
}

/// When the next request began.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Next {
    #[default]
    Soon,
    Later,
}

/// Waits for the next bytes without any buffer for them.
async fn wait(wire: &Wire<impl Stream>) -> Next {
    // What went wrong hyper will find out.
    if tokio::time::timeout(SOON, wire.readable()).await.is_ok() {
        return Next::Soon;
    }
    let _ = wire.readable().await;
    Next::Later
}

/// How far the last answer has come, from the service through hyper to the socket.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<Shared>);

#[derive(Default)]
struct Shared {
    stage: AtomicU8,
    /// Whether the connection stays when the answer is out.
    may_rest: AtomicBool,
    /// How often something was asked.
    asks: AtomicU32,
}

impl Progress {
    /// Something was asked, or may be.
    const ASKED: u8 = 0;
    /// The answer is known.
    const ANSWERED: u8 = 1;
    /// Some of it was written.
    const WRITTEN: u8 = 2;
    /// All that was written is out.
    const FLUSHED: u8 = 3;
    /// Nothing came meanwhile, and hyper waits for more.
    const RESTING: u8 = 4;

    fn pass(&self, from: &[u8], to: u8) {
        if from.contains(&self.0.stage.load(Ordering::Relaxed)) {
            self.0.stage.store(to, Ordering::Relaxed);
        }
    }

    pub(crate) fn asked(&self) {
        self.0.stage.store(Self::ASKED, Ordering::Relaxed);
        self.0.asks.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(&self, may_rest: bool) {
        self.0.stage.store(Self::ANSWERED, Ordering::Relaxed);
        self.0.may_rest.store(may_rest, Ordering::Relaxed);
    }

    pub(crate) fn written(&self) {
        self.pass(&[Self::ANSWERED, Self::FLUSHED, Self::RESTING], Self::WRITTEN);
    }

    pub(crate) fn flushed(&self) {
        self.pass(&[Self::WRITTEN], Self::FLUSHED);
    }

    pub(crate) fn waits(&self) {
        self.pass(&[Self::FLUSHED], Self::RESTING);
    }

    fn is_resting(&self) -> bool {
        self.0.may_rest.load(Ordering::Relaxed) && self.0.stage.load(Ordering::Relaxed) == Self::RESTING
    }

    /// Whether an answer is known and not out yet.
    fn is_on_its_way(&self) -> bool {
        [Self::ANSWERED, Self::WRITTEN].contains(&self.0.stage.load(Ordering::Relaxed))
    }

    /// Returns when hyper may be let go: at once for callers who take their time, and for others when they do.
    async fn rest(&self, last: Next) {
        let count = || self.0.asks.load(Ordering::Relaxed);
        // What was asked when it was last looked; nobody is waited for who takes their time.
        let mut seen = (last == Next::Soon).then(count);
        while let Some(before) = seen {
            tokio::time::sleep(SOON).await;
            seen = Some(count()).filter(|now| *now != before);
        }
        poll_fn(|_| if self.is_resting() { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

#[cfg(test)]
mod tests {
    use crate::serve::Visit;
    use crate::serve::tests::{address, edge};
    use crate::tcp::Manner;
    use crate::tls::tests::tls;
    use http::Response;
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::ServerName;

    #[tokio::test]
    async fn who_wanted_to_speak_otherwise_is_taken_leave_of() {
        const PLAIN: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        const OTHERWISE: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";
        let (tls, client) = tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut edge = edge(listener, |_: Visit| std::future::ready(Response::new(Full::from("fine"))));
        edge.doors[0].manner = Manner::Tls(tls);
        let stream = TcpStream::connect(address(&edge)).await.unwrap();
        let serving = tokio::spawn(edge.run(std::future::pending(), std::future::pending()));
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(client).connect(name, stream).await.unwrap();
        // Who has asked before is not rested for at once.
        for request in [PLAIN, OTHERWISE] {
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"fine") {
                assert!(stream.read_buf(&mut answer).await.unwrap() > 0);
            }
        }
        stream.shutdown().await.unwrap();
        // An end without the word that TLS has for it would be an error.
        assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap(), 0);
        serving.abort();
    }
}
