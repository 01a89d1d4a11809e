//! Quinn's streams as h3 reads them, with an end: h3 keeps a frame until it is whole, however long a peer says that it
//! will be.

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{
    self, BidiStream, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, StreamErrorIncoming,
    StreamId, WriteBuf,
};
use std::task::{Context, Poll, ready};

/// The most that one request may be, its body included: nothing that is served takes one.
const REQUEST_BYTES: usize = 128 * 1024;
/// The most that may come on a stream of the connection itself, such as one that tells priorities again and again.
const CONTROL_BYTES: usize = 1024 * 1024;

/// A connection whose streams have an end.
pub(super) struct Capped(pub(super) h3_quinn::Connection);

/// What is read from a stream, as long as it is not too much.
pub(super) struct Reading<S> {
    stream: S,
    left: usize,
}

impl<S: RecvStream<Buf = Bytes>> Reading<S> {
    fn new(stream: S, left: usize) -> Self {
        Self { stream, left }
    }
}

impl<S: RecvStream<Buf = Bytes>> RecvStream for Reading<S> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let Some(bytes) = ready!(self.stream.poll_data(cx))? else { return Poll::Ready(Ok(None)) };
        let Some(left) = self.left.checked_sub(bytes.len()) else {
            let code = Code::H3_EXCESSIVE_LOAD.value();
            self.stream.stop_sending(code);
            return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code: code }));
        };
        self.left = left;
        Poll::Ready(Ok(Some(bytes)))
    }

    fn stop_sending(&mut self, code: u64) {
        self.stream.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.stream.recv_id()
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

impl<B: Buf, S: BidiStream<B, RecvStream: RecvStream<Buf = Bytes>> + RecvStream<Buf = Bytes>> BidiStream<B>
    for Reading<S>
{
    type SendStream = S::SendStream;
    type RecvStream = Reading<S::RecvStream>;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        let (sending, receiving) = self.stream.split();
        (sending, Reading::new(receiving, self.left))
    }
}

impl quic::Connection<Bytes> for Capped {
    type RecvStream = Reading<h3_quinn::RecvStream>;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let accepted = ready!(quic::Connection::<Bytes>::poll_accept_recv(&mut self.0, cx));
        Poll::Ready(accepted.map(|stream| Reading::new(stream, CONTROL_BYTES)))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let accepted = ready!(quic::Connection::<Bytes>::poll_accept_bidi(&mut self.0, cx));
        Poll::Ready(accepted.map(|stream| Reading::new(stream, REQUEST_BYTES)))
    }

    fn opener(&self) -> Self::OpenStreams {
        Opener(quic::Connection::<Bytes>::opener(&self.0))
    }
}

/// Opens streams of ours.
pub(super) struct Opener(h3_quinn::OpenStreams);

macro_rules! opens_streams {
    ($name:ident) => {
        impl OpenStreams<Bytes> for $name {
            type BidiStream = Reading<h3_quinn::BidiStream<Bytes>>;
            type SendStream = h3_quinn::SendStream<Bytes>;

            fn poll_open_bidi(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
                let opened = ready!(OpenStreams::<Bytes>::poll_open_bidi(&mut self.0, cx));
                Poll::Ready(opened.map(|stream| Reading::new(stream, REQUEST_BYTES)))
            }

            fn poll_open_send(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
                OpenStreams::<Bytes>::poll_open_send(&mut self.0, cx)
            }

            fn close(&mut self, code: Code, reason: &[u8]) {
                OpenStreams::<Bytes>::close(&mut self.0, code, reason);
            }
        }
    };
}
opens_streams!(Capped);
opens_streams!(Opener);
