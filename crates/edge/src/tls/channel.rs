//! TLS over a socket: a session, and what it speaks through.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ServerConnection;

/// A session over a socket, whoever waits for that.
pub(crate) struct Channel<T> {
    pub(crate) socket: T,
    pub(crate) session: ServerConnection,
}

impl<T> Channel<T> {
    /// The same session over what the socket becomes elsewhere.
    pub(crate) fn over<U>(self, become_other: impl FnOnce(T) -> io::Result<U>) -> io::Result<Channel<U>> {
        Ok(Channel { socket: become_other(self.socket)?, session: self.session })
    }

    /// Whether hands were shaken on HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.session.alpn_protocol() == Some(b"h2")
    }
}

impl Channel<std::net::TcpStream> {
    /// Reads what has come. Says whether more may come.
    pub(crate) fn read(&mut self, opened: &mut Vec<u8>) -> io::Result<bool> {
        // What came with the end of a handshake may be all that a session has room for, and then it takes nothing more.
        if !self.take_opened(opened)? {
            return Ok(false);
        }
        let is_open = self.receive()?;
        Ok(self.take_opened(opened)? && is_open)
    }

    /// Takes what the session has opened. Says whether the peer may say more.
    fn take_opened(&mut self, opened: &mut Vec<u8>) -> io::Result<bool> {
        match self.session.reader().read_to_end(opened) {
            Err(error) if is_later(&error) => Ok(true),
            // It has said its last word.
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Shakes hands as far as that can be done now. Says whether there was room for all that is to be said.
    pub(crate) fn shake(&mut self) -> io::Result<bool> {
        if !self.receive()? && self.session.is_handshaking() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.send()
    }

    /// Takes what has come into the session. Says whether more may come.
    fn receive(&mut self) -> io::Result<bool> {
        let is_open = match self.session.read_tls(&mut &self.socket) {
            Ok(length) => length > 0,
            Err(error) if is_later(&error) => true,
            Err(error) => return Err(error),
        };
        let processed = self.session.process_new_packets();
        if processed.is_err() {
            // The peer is told what it did wrong, if there is room for it.
            let _ = self.send();
        }
        processed.map_err(broken)?;
        Ok(is_open)
    }

    /// Sends what is to be said. Says whether there was room for all of it.
    pub(crate) fn send(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut &self.socket) {
                Ok(_) => {}
                Err(error) if is_later(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says the last word, if there is room for it.
    pub(crate) fn farewell(&mut self) {
        self.session.send_close_notify();
        let _ = self.send();
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn broken(error: tokio_rustls::rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// A socket that the runtime waits for, as somebody sees it who does not wait.
struct Waited<'a, 'b> {
    socket: &'a mut TcpStream,
    cx: &'a mut Context<'b>,
}

fn now<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(done) => done,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

impl Read for Waited<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        now(Pin::new(&mut *self.socket).poll_read(self.cx, &mut buffer))?;
        Ok(buffer.filled().len())
    }
}

impl Write for Waited<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        now(Pin::new(&mut *self.socket).poll_write(self.cx, bytes))
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        now(Pin::new(&mut *self.socket).poll_write_vectored(self.cx, buffers))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Channel<TcpStream> {
    /// Shakes hands.
    pub(crate) async fn shake_hands(&mut self) -> io::Result<()> {
        poll_fn(|cx| {
            loop {
                ready!(self.poll_send(cx))?;
                if !self.session.is_handshaking() {
                    return Poll::Ready(Ok(()));
                }
                if ready!(self.poll_receive(cx))? == 0 {
                    return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
                }
            }
        })
        .await
    }

    /// Takes what has come into the session. Says how much it was.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Self { socket, session } = self;
        let length = match session.read_tls(&mut Waited { socket, cx }) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let processed = session.process_new_packets();
        // The peer is told what it did wrong, or is answered what is no matter of ours, as soon as there is room.
        if let Poll::Ready(Err(error)) = self.poll_send(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(processed.map(|_| length).map_err(broken))
    }

    /// Sends what is to be said.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, session } = self;
        while session.wants_write() {
            match session.write_tls(&mut Waited { socket, cx }) {
                Ok(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Channel<TcpStream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.session.reader().read(buffer.initialize_unfilled()) {
                Ok(length) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(self.poll_receive(cx))?;
        }
    }
}

impl AsyncWrite for Channel<TcpStream> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    // What was taken is sent when it is flushed, or when there is too much of it.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let taken = self.session.writer().write_vectored(buffers)?;
            if taken > 0 || buffers.iter().all(|buffer| buffer.is_empty()) {
                return Poll::Ready(Ok(taken));
            }
            ready!(self.poll_send(cx))?;
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session.writer().flush()?;
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session.send_close_notify();
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::tests::tls;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use tokio_rustls::rustls::ClientConnection;
    use tokio_rustls::rustls::pki_types::ServerName;

    #[test]
    fn a_session_that_is_full_is_read() {
        /// More than a session opens before somebody takes it.
        const SAID: usize = 40_000;
        let (tls, client) = tls();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut caller = ClientConnection::new(client, name).unwrap();
        let mut session = ServerConnection::new(Arc::clone(&tls.tcp)).unwrap();
        let saying = std::thread::spawn(move || {
            caller.complete_io(&mut peer).unwrap();
            caller.writer().write_all(&[b'x'; SAID]).unwrap();
            while caller.wants_write() {
                caller.write_tls(&mut peer).unwrap();
            }
            // Open until all was read.
            peer
        });
        while session.is_handshaking() {
            session.complete_io(&mut &socket).unwrap();
        }
        // As one goes on who reads all that has come, and takes nothing of it.
        while session.read_tls(&mut &socket).is_ok() {
            session.process_new_packets().unwrap();
        }
        let mut channel = Channel { socket, session };
        let mut opened = Vec::new();
        while opened.len() < SAID {
            assert!(channel.read(&mut opened).unwrap());
        }
        drop(saying.join().unwrap());
    }
}
