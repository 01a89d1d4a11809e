//! Quinn's streams as h3 reads them, with an end: h3 keeps a frame until it is whole, however long a peer says that it
//! will be. Who can answer plain requests at once sees them first.

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{
    self, BidiStream, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, SendStreamUnframed,
    StreamErrorIncoming, StreamId, WriteBuf,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

/// The most that one request may be, its body included: those that are taken are small.
const REQUEST_BYTES: usize = 128 * 1024;
/// The most that may come on a stream of the connection itself, such as one that tells priorities again and again.
const CONTROL_BYTES: usize = 1024 * 1024;

/// As many requests of one connection are answered in one turn. The next is the library's: it would take it for an end if there
/// were none.
const REQUESTS_AT_ONCE: usize = 16;
/// The frame that says which requests are answered before a connection ends, by its number.
const GO_AWAY: u8 = 7;
/// The numbers of two streams for requests are so far apart.
const STREAMS_APART: u64 = 4;

/// A connection whose streams have an end.
pub(super) struct Capped {
    connection: h3_quinn::Connection,
    attendant: Option<Box<dyn Attendant>>,
    passed: Arc<Passed>,
}

/// How far the library knows what was asked on a connection.
#[derive(Default)]
pub(super) struct Passed {
    /// Set when the peer is told that the connection ends: then it is for the library to say which requests are too late.
    is_over: AtomicBool,
    /// The last request that was answered without the library, and the last that it was shown.
    answered: AtomicU64,
    shown: AtomicU64,
}

impl Passed {
    /// Has the library shown everything from now on. Says how many requests came behind the last that it knows of.
    pub(super) fn end(&self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        let unseen = self.answered.load(Ordering::Relaxed).saturating_sub(self.shown.load(Ordering::Relaxed));
        usize::try_from(unseen).unwrap_or(usize::MAX)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// A request is answered without the library.
    pub(super) fn answer(&self, number: u64) {
        self.answered.store(number, Ordering::Relaxed);
    }

    /// The frame that says that everything was taken up to this stream, as far as the library knows.
    fn go_away(&self, last: u64) -> Bytes {
        const LENGTH: u8 = 8;
        const OF_EIGHT_BYTES: u64 = 0xc0 << 56;
        let last = last.max(self.answered.load(Ordering::Relaxed) * STREAMS_APART);
        // What is named is the first that was not taken.
        let first = OF_EIGHT_BYTES | (last + STREAMS_APART);
        [&[GO_AWAY, LENGTH][..], &first.to_be_bytes()].concat().into()
    }
}

/// A stream on which a peer asks.
pub(super) type Stream = Reading<h3_quinn::BidiStream<Bytes>>;

/// Whoever sees requests before the library does.
pub(super) trait Attendant: Send {
    /// Takes a request that is to be answered, or gives it back.
    fn attend(&mut self, stream: Stream, cx: &mut Context<'_>) -> Option<Stream>;

    /// Answers what was taken.
    fn end_turn(&mut self, cx: &mut Context<'_>);
}

impl Capped {
    pub(super) fn new(
        connection: quinn::Connection,
        attendant: Option<Box<dyn Attendant>>,
        passed: Arc<Passed>,
    ) -> Self {
        Self { connection: h3_quinn::Connection::new(connection), attendant, passed }
    }
}

/// What is read from a stream, as long as it is not too much.
///
/// While a read waits for bytes, quinn's stream belongs to it, and h3-quinn panics if it is asked anything about it: the
/// whole connection would end because one caller leaves one request open.
pub(super) struct Reading<S> {
    stream: S,
    id: StreamId,
    left: usize,
    /// Whether a read waits for bytes.
    waits: bool,
    /// What was read by somebody who has left it to others.
    before: VecDeque<Result<Option<Bytes>, StreamErrorIncoming>>,
}

impl<S: RecvStream<Buf = Bytes>> Reading<S> {
    /// Takes a stream of which nothing was read.
    fn new(stream: S, left: usize) -> Self {
        Self { id: stream.recv_id(), stream, left, waits: false, before: VecDeque::new() }
    }

    /// All that comes on a stream, if it has come in one piece. It can be read all the same.
    pub(super) fn whole(&mut self, cx: &mut Context<'_>) -> Option<Bytes> {
        let Poll::Ready(first) = self.poll_data(cx) else { return None };
        let came = first.as_ref().ok().and_then(Clone::clone);
        self.before.push_back(first);
        let came = came?;
        let Poll::Ready(second) = self.read(cx) else { return None };
        let is_end = matches!(second, Ok(None));
        self.before.push_back(second);
        is_end.then_some(came)
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let polled = self.stream.poll_data(cx);
        self.waits = polled.is_pending();
        let Some(bytes) = ready!(polled)? else { return Poll::Ready(Ok(None)) };
        let Some(left) = self.left.checked_sub(bytes.len()) else {
            let code = Code::H3_EXCESSIVE_LOAD.value();
            self.stream.stop_sending(code);
            return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code: code }));
        };
        self.left = left;
        Poll::Ready(Ok(Some(bytes)))
    }
}

impl<S: RecvStream<Buf = Bytes>> RecvStream for Reading<S> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        match self.before.pop_front() {
            Some(before) => Poll::Ready(before),
            None => self.read(cx),
        }
    }

    fn stop_sending(&mut self, code: u64) {
        // A stream on which a read waits is stopped when it is dropped, without a code of ours.
        if !self.waits {
            self.stream.stop_sending(code);
        }
    }

    fn recv_id(&self) -> StreamId {
        self.id
    }
}

impl<B: Buf, S: SendStream<B>> SendStream<B> for Reading<S> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.stream.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.stream.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.stream.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.stream.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.stream.send_id()
    }
}

impl<B: Buf, S: SendStreamUnframed<B>> SendStreamUnframed<B> for Reading<S> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        self.stream.poll_send(cx, bytes)
    }
}

impl<B: Buf, S: BidiStream<B, RecvStream: RecvStream<Buf = Bytes>> + RecvStream<Buf = Bytes>> BidiStream<B>
    for Reading<S>
{
    type SendStream = S::SendStream;
    type RecvStream = Reading<S::RecvStream>;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        let (sending, receiving) = self.stream.split();
        let Self { id, left, waits, before, .. } = self;
        (sending, Reading { stream: receiving, id, left, waits, before })
    }
}

impl quic::Connection<Bytes> for Capped {
    type RecvStream = Reading<h3_quinn::RecvStream>;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let accepted = ready!(quic::Connection::<Bytes>::poll_accept_recv(&mut self.connection, cx));
        Poll::Ready(accepted.map(|stream| Reading::new(stream, CONTROL_BYTES)))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let Self { connection, attendant, passed } = self;
        let mut answered = 0;
        let shown = loop {
            let stream = match accept(connection, cx) {
                Poll::Ready(Ok(stream)) => stream,
                nothing => break nothing,
            };
            let left = match attendant {
                Some(attendant) if answered < REQUESTS_AT_ONCE => attendant.attend(stream, cx),
                _ => Some(stream),
            };
            if let Some(stream) = left {
                passed.shown.store(stream.id.index(), Ordering::Relaxed);
                break Poll::Ready(Ok(stream));
            }
            answered += 1;
        };
        if let Some(attendant) = attendant {
            attendant.end_turn(cx);
        }
        shown
    }

    fn opener(&self) -> Self::OpenStreams {
        let connection = quic::Connection::<Bytes>::opener(&self.connection);
        Opener { connection, passed: Arc::clone(&self.passed) }
    }
}

fn accept(
    connection: &mut h3_quinn::Connection,
    cx: &mut Context<'_>,
) -> Poll<Result<Stream, ConnectionErrorIncoming>> {
    let accepted = ready!(quic::Connection::<Bytes>::poll_accept_bidi(connection, cx));
    Poll::Ready(accepted.map(|stream| Reading::new(stream, REQUEST_BYTES)))
}

/// What is said on a stream of the connection itself. The library tells which request was the last that it took; it knows only of
/// its own, and a peer takes the one that is named for refused.
pub(super) struct Saying {
    stream: h3_quinn::SendStream<Bytes>,
    unsaid: Bytes,
    passed: Arc<Passed>,
}

impl SendStream<Bytes> for Saying {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while self.unsaid.has_remaining() {
            ready!(self.stream.poll_send(cx, &mut self.unsaid))?;
        }
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        let mut data = data.into();
        let said = data.copy_to_bytes(data.remaining());
        self.unsaid = match &said[..] {
            [GO_AWAY, _, first, rest @ ..] => {
                let number =
                    rest.iter().fold(u64::from(first & 0x3f), |sum, byte| sum << 8 | u64::from(*byte));
                self.passed.go_away(number)
            }
            _ => said,
        };
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.stream.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.stream.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.stream.send_id()
    }
}

/// Opens streams of ours.
pub(super) struct Opener {
    connection: h3_quinn::OpenStreams,
    passed: Arc<Passed>,
}

macro_rules! opens_streams {
    ($name:ident) => {
        impl OpenStreams<Bytes> for $name {
            type BidiStream = Reading<h3_quinn::BidiStream<Bytes>>;
            type SendStream = Saying;

            fn poll_open_bidi(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
                let opened = ready!(OpenStreams::<Bytes>::poll_open_bidi(&mut self.connection, cx));
                Poll::Ready(opened.map(|stream| Reading::new(stream, REQUEST_BYTES)))
            }

            fn poll_open_send(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
                let stream = ready!(OpenStreams::<Bytes>::poll_open_send(&mut self.connection, cx))?;
                Poll::Ready(Ok(Saying { stream, unsaid: Bytes::new(), passed: Arc::clone(&self.passed) }))
            }

            fn close(&mut self, code: Code, reason: &[u8]) {
                OpenStreams::<Bytes>::close(&mut self.connection, code, reason);
            }
        }
    };
}
opens_streams!(Capped);
opens_streams!(Opener);

#[cfg(test)]
mod tests {
    use super::*;
    use h3::quic::Connection as _;
    use quinn::crypto::rustls::QuicClientConfig;
    use quinn::{ClientConfig, Endpoint, ServerConfig};
    use std::future::poll_fn;
    use std::net::Ipv4Addr;
    use tokio_rustls::rustls::crypto::aws_lc_rs;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::rustls::{self, RootCertStore, version};

    #[tokio::test]
    async fn a_stream_can_be_stopped_while_a_read_waits_for_bytes() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let server = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let client = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let connecting = client.connect_with(config, server.local_addr().unwrap(), "localhost").unwrap();
        let (ours, theirs) = tokio::join!(async { server.accept().await.unwrap().await.unwrap() }, async {
            connecting.await.unwrap()
        });

        let (mut sending, _receiving) = theirs.open_bi().await.unwrap();
        sending.write_all(b"begun").await.unwrap();
        let mut connection = Capped::new(ours, None, Arc::default());
        let mut stream = poll_fn(|cx| connection.poll_accept_bidi(cx)).await.unwrap();
        let id = stream.recv_id();
        assert_eq!(poll_fn(|cx| stream.poll_data(cx)).await.unwrap().unwrap(), "begun");
        poll_fn(|cx| {
            assert!(stream.poll_data(cx).is_pending(), "the caller leaves it open");
            Poll::Ready(())
        })
        .await;
        stream.stop_sending(Code::H3_NO_ERROR.value());
        assert_eq!(stream.recv_id(), id);
        drop(stream);
        assert!(sending.stopped().await.unwrap().is_some(), "the caller is told that nobody reads any more");
    }
}
