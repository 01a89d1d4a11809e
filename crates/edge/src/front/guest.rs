//! A connection, as it goes back and forth between the front and hyper.

use crate::crowd::{Place, Seat};
use crate::http1::Next;
use crate::http2::Passage;
use crate::rtt::rtt_ms;
use crate::serve::Line;
use crate::tls::{Channel, HANDSHAKE, Tls};
use crate::traffic::Presence;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A connection.
pub(crate) struct Guest {
    pub(crate) socket: Socket,
    pub(crate) line: Arc<Line>,
    pub(crate) stay: Stay,
    /// When it came, by the time since boot.
    pub(crate) came_ms: u64,
    /// Whether something was asked on it. HTTP/2 begins with a connection, and never behind a request.
    pub(crate) was_asked: bool,
    /// How hands are to be shaken before anything else; `None` when they were, or need not be.
    pub(crate) greeting: Option<Arc<Tls>>,
}

impl Guest {
    /// A connection on which nothing was asked yet.
    pub(crate) fn new(socket: Socket, line: Arc<Line>, stay: Stay, came_ms: u64) -> Self {
        Self { socket, line, stay, came_ms, was_asked: false, greeting: None }
    }

    /// Whether HTTP/2 is spoken on it, here or by whoever takes over.
    pub(super) fn is_http2(&self) -> bool {
        matches!(&self.socket, Socket::Tls(channel) if channel.is_http2())
    }

    /// Has the handshake begin.
    pub(super) fn begin_handshake(self) -> io::Result<Self> {
        let socket = match (self.socket, &self.greeting) {
            (Socket::Tcp(stream), Some(tls)) => {
                // Tickets are not waited for before the first answer leaves.
                let _ = stream.set_nodelay(true);
                Socket::Tls(tls.channel(stream)?)
            }
            (socket, _) => socket,
        };
        Ok(Self { socket, ..self })
    }

    /// What is waited for while it rests. Of a session nobody knows whether all was read that had come, and handshakes take
    /// turns.
    pub(super) fn something_comes(&self) -> EventFlags {
        let flags = EventFlags::IN | EventFlags::RDHUP;
        let is_told_again = matches!(self.socket, Socket::Tls(_)) || self.greeting.is_some();
        if is_told_again { flags } else { flags | EventFlags::ET }
    }
}

/// What a connection holds for as long as it is open.
pub(crate) struct Stay {
    pub(crate) place: Option<Place>,
    pub(crate) _seat: Option<Seat>,
    /// Of whom a proxy has introduced.
    pub(crate) _introduced: Option<Seat>,
    pub(crate) _presence: Presence,
}

/// What a connection begins with that hyper takes over.
#[derive(Default)]
pub(crate) struct Beginning {
    /// What was read of it and not answered.
    pub(crate) bytes: Vec<u8>,
    /// What is still to be sent before anything else.
    pub(crate) unsent: Vec<u8>,
    /// When it comes back: as soon as it rests, or not before its caller takes their time.
    pub(crate) next: Next,
    /// How HTTP/2 goes on that was spoken already; the bytes are in it.
    pub(crate) passage: Option<Box<Passage>>,
}

/// What bytes of HTTP come from and go to, without anybody who waits.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<Channel<TcpStream>>),
}

/// How far something was sent.
pub(super) enum Sent {
    All,
    /// The rest is to be sent again, by whoever called.
    Some(usize),
    /// The rest is kept here, and is sent with the next bytes.
    Kept,
}

impl Socket {
    /// Reads what has come, at most as much as there is room for. Says whether more may come later.
    pub(super) fn read(&mut self, input: &mut Vec<u8>) -> io::Result<bool> {
        if let Self::Tls(channel) = self {
            return channel.read(input);
        }
        match recv(&*self, spare_capacity(input), RecvFlags::empty()) {
            Ok((_, length)) => Ok(length > 0),
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends as much as there is room for.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<Sent> {
        if let Self::Tls(channel) = self {
            // Its buffer has room for all that is answered in one turn.
            channel.session.writer().write_all(bytes)?;
            return Ok(if channel.send()? { Sent::All } else { Sent::Kept });
        }
        match send(&*self, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) if sent == bytes.len() => Ok(Sent::All),
            Ok(sent) => Ok(Sent::Some(sent)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Sent::Some(0)),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether what has come, and is left where it is, begins like a handshake; nothing if it has not come.
    pub(super) fn begins_handshake(&self) -> io::Result<Option<bool>> {
        let mut first = [0];
        match recv(self, &mut first, RecvFlags::PEEK) {
            Ok((_, 0)) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(Some(first[0] == HANDSHAKE)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Has answers leave at once even if the one before is not acknowledged.
    pub(super) fn hurry(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }

    /// The round-trip time, where there is one.
    pub(super) fn rtt_ms(&self) -> Option<u32> {
        match self {
            Self::Tcp(stream) => rtt_ms(stream),
            Self::Tls(channel) => rtt_ms(&channel.socket),
            Self::Unix(_) => None,
        }
    }

    /// Says the last word.
    pub(super) fn farewell(&mut self) {
        if let Self::Tls(channel) = self {
            channel.farewell();
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(channel) => channel.socket.as_fd(),
        }
    }
}
