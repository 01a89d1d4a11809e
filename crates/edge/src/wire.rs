//! One connection as hyper sees it, with five additions: it reads the round-trip time whenever bytes arrive, it spoils
//! requests that can be read in two ways, it lets go of a peer that reads nothing, it sees how far an answer has come, and it
//! speaks for hyper where hyper answers on its own.
//!
//! For bytes that are no request hyper writes a bare status line that nothing above can shape. Every response of
//! ours carries `x-content-type-options` (see `reply::mark`), so a head of HTTP/1 without it is hyper's own, and is
//! replaced by the answer that is given for that fault.

use crate::fault::{FaultReplies, HttpFault};
use crate::http1::Progress;
use crate::reply::{Reply, mark, whole};
use crate::rtt::RttGauge;
use crate::strict::{END, Strict};
use crate::tls::Channel;
use bytes::Bytes;
use http::Method;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Sleep;

/// How long a peer may leave what we write unread.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// What bytes of HTTP come from and go to: a socket, or a channel through it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {
    /// Whether one read takes all that has come, as far as there is room: of a channel it takes what was sealed together.
    const READS_ALL: bool = true;

    /// The socket itself, if it is one of TCP.
    fn tcp(&self) -> Option<&TcpStream>;

    /// Waits until something comes, or nothing will any more.
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;
}

impl Stream for TcpStream {
    fn tcp(&self) -> Option<&TcpStream> {
        Some(self)
    }

    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
        Self::readable(self)
    }
}

// In a box, because every step on the way of a connection has room for what it passes on.
impl Stream for Box<Channel<TcpStream>> {
    const READS_ALL: bool = false;

    fn tcp(&self) -> Option<&TcpStream> {
        Some(&self.socket)
    }

    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
        self.socket.readable()
    }
}

impl Stream for UnixStream {
    fn tcp(&self) -> Option<&TcpStream> {
        None
    }

    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
        Self::readable(self)
    }
}

pub(crate) struct Wire<S> {
    stream: S,
    rtt: RttGauge,
    strict: Strict,
    faults: FaultReplies,
    /// How far the last answer has come.
    progress: Progress,
    /// Whether the bytes are frames, in which no library answers on its own.
    is_http2: bool,
    /// Bytes that were read and not used.
    given_back: Bytes,
    /// Bytes that replace what hyper wrote and that the socket has not taken yet.
    pending: Bytes,
    /// Runs while the socket takes nothing more: a peer that does not read is not waited for for ever.
    deaf: Option<Pin<Box<Sleep>>>,
}

impl<S: Stream> Wire<S> {
    pub(crate) fn new(stream: S, faults: FaultReplies) -> Self {
        Self {
            stream,
            rtt: RttGauge::new(),
            strict: Strict::default(),
            faults,
            progress: Progress::default(),
            is_http2: false,
            given_back: Bytes::new(),
            pending: Bytes::new(),
            deaf: None,
        }
    }

    /// The round-trip time, as of the last bytes that came.
    pub(crate) fn rtt(&self) -> RttGauge {
        self.rtt.clone()
    }

    /// How far the last answer has come.
    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The same, for one who speaks HTTP/2.
    pub(crate) fn for_http2(self) -> Self {
        Self { is_http2: true, ..self }
    }

    /// Takes back bytes that were read too early: they come again, before any others.
    pub(crate) fn give_back(&mut self, bytes: Bytes) {
        self.given_back =
            if self.given_back.is_empty() { bytes } else { [bytes, self.given_back.clone()].concat().into() };
    }

    /// Begins with what somebody else has read and not sent.
    pub(crate) fn begin_with(&mut self, mut bytes: Vec<u8>, unsent: Vec<u8>) {
        self.pending = unsent.into();
        if self.strict.look(&mut bytes) {
            bytes.extend_from_slice(END);
        }
        self.given_back = bytes.into();
        if let Some(socket) = self.stream.tcp() {
            self.rtt.sample(socket);
        }
    }

    /// The stream itself, if nothing was read of it that nobody has seen, or is still to be sent.
    pub(crate) fn into_stream(self) -> Option<S> {
        (self.given_back.is_empty() && self.pending.is_empty()).then_some(self.stream)
    }

    /// Waits until something comes, or nothing will any more.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.stream.readable().await
    }

    /// Writes to the socket, or fails when it has taken nothing for too long.
    fn poll_stream(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_ready() {
            self.progress.written();
        }
        self.unless_deaf(cx, written)
    }

    /// What came of writing, or of flushing; an error if the socket has taken nothing for too long.
    fn unless_deaf<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.deaf = None;
            return done;
        }
        let deaf = self.deaf.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        deaf.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            let pending = self.pending.clone();
            let written = ready!(self.poll_stream(cx, &pending))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.pending = self.pending.slice(written..);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let is_given_back = !self.given_back.is_empty();
        if is_given_back {
            let length = self.given_back.len().min(buffer.remaining());
            buffer.put_slice(&self.given_back.split_to(length));
            if buffer.remaining() == 0 || !S::READS_ALL {
                return Poll::Ready(Ok(()));
            }
        }
        // What is there beside it is told in the same breath, as it would have been: hyper reads what comes in pieces in another
        // way than what does not, and of a body that nobody wants it reads two pieces at most.
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {}
            // How it ended is told when that is all there is to tell.
            Poll::Ready(Err(_)) | Poll::Pending if is_given_back => return Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => {
                self.progress.waits();
                return Poll::Pending;
            }
        }
        self.progress.asked();
        if !self.is_http2 && self.strict.look(&mut buffer.filled_mut()[before..]) {
            // What was given back has been read.
            self.given_back = Bytes::from_static(END);
        }
        if let Some(socket) = self.stream.tcp() {
            self.rtt.sample(socket);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(cx))?;
        if !self.is_http2
            && let Some(own) = hypers_own_answer(bytes)
        {
            let mut replaced = bytes[..own.begins_at].to_vec();
            replaced.extend_from_slice(&http1_bytes(
                mark((self.faults)(own.fault), &Method::GET),
                own.date,
                true,
            ));
            self.pending = replaced.into();
            // The socket may take a part now; the rest goes out with the flush that hyper asks for next.
            return match self.poll_pending(cx) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                _ => Poll::Ready(Ok(bytes.len())),
            };
        }
        self.poll_stream(cx, bytes)
    }

    // In HTTP/1 one buffer at a time, so that a head is never seen in pieces.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_http2 {
            ready!(self.poll_pending(cx))?;
            let written = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
            return self.unless_deaf(cx, written);
        }
        let first = buffers.iter().find(|buffer| !buffer.is_empty()).map_or(&[][..], |buffer| buffer);
        self.poll_write(cx, first)
    }

    fn is_write_vectored(&self) -> bool {
        self.is_http2
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.unless_deaf(cx, flushed))?;
        self.progress.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// An answer that hyper made by itself, at the end of what it writes.
struct HypersOwn<'a> {
    begins_at: usize,
    fault: HttpFault,
    /// The value of its `date` header.
    date: Option<&'a [u8]>,
}

fn hypers_own_answer(bytes: &[u8]) -> Option<HypersOwn<'_>> {
    /// Hyper's own head is a status line, `connection`, `content-length` and `date`.
    const LONGEST: usize = 256;
    if !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let tail = &bytes[bytes.len().saturating_sub(LONGEST)..];
    let at = (0..tail.len()).rev().find(|at| tail[*at..].starts_with(b"HTTP/1."))?;
    let head = &tail[at..];
    let fault = match head.get(8..13)? {
        b" 400 " => HttpFault::BadRequest,
        b" 414 " => HttpFault::TargetTooLong,
        b" 431 " => HttpFault::HeaderTooLarge,
        _ => return None,
    };
    let lines = || head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    if lines().any(|line| line.starts_with(b"x-content-type-options:")) {
        return None;
    }
    let date = lines().find_map(|line| line.strip_prefix(b"date:")).map(<[u8]>::trim_ascii);
    Some(HypersOwn { begins_at: bytes.len() - head.len(), fault, date })
}

/// A whole response as bytes of HTTP/1.1, after which the connection may close.
pub(crate) fn http1_bytes(reply: Reply, date: Option<&[u8]>, closes: bool) -> Vec<u8> {
    let (head, body) = whole(reply);
    let reason = head.status.canonical_reason().unwrap_or("Error");
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", head.status.as_str()).into_bytes();
    let mut field = |name: &str, value: &[u8]| {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    };
    for (name, value) in &head.headers {
        field(name.as_str(), value.as_bytes());
    }
    if closes {
        field("connection", b"close");
    }
    field("content-length", body.len().to_string().as_bytes());
    if let Some(date) = date {
        field("date", date);
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Option<(usize, HttpFault)>) {
        assert_eq!(hypers_own_answer(bytes).map(|own| (own.begins_at, own.fault)), expected);
    }

    #[test]
    fn hypers_own_answers_are_recognised() {
        let own =
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\ndate: Sun, 15 Nov 2026 02:00:00 GMT\r\n\r\n";
        check(own, Some((0, HttpFault::BadRequest)));
        check(&[b"{}".as_slice(), own].concat(), Some((2, HttpFault::BadRequest)));
        check(b"HTTP/1.1 431 x\r\n\r\n", Some((0, HttpFault::HeaderTooLarge)));
        assert_eq!(hypers_own_answer(own).unwrap().date, Some(b"Sun, 15 Nov 2026 02:00:00 GMT".as_slice()));
    }

    #[test]
    fn our_answers_pass_untouched() {
        check(b"HTTP/1.1 204 No Content\r\n\r\n", None);
        check(b"HTTP/1.1 400 Bad Request\r\nx-content-type-options: nosniff\r\n\r\n", None);
        check(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}", None);
        check(b"\r\n\r\n", None);
        check(b"", None);
    }
}
