//! Doors of byte streams, which are TCP or a Unix socket: accepting connections, finding out how a caller speaks, and
//! speaking HTTP/1 and HTTP/2 with them.

use crate::crowd::Crowd;
use crate::front::{Beginning, Guest, Socket, Stay};
use crate::http2::frame::PREFACE;
use crate::listen::BACKLOG;
use crate::proxy::introduction;
use crate::reply::Reply;
use crate::serve::{HEADER_TIMEOUT, House, Line, MAX_HEADERS, Stage, Visit, reached};
use crate::tls::{Channel, HANDSHAKE, HANDSHAKE_TIMEOUT, Tls, first_byte_of, was_a_proof};
use crate::traffic::Way;
use crate::wire::{Stream, WRITE_TIMEOUT, Wire};
use crate::{http1, http2};
use bytes::{BufMut, BytesMut};
use hyper::server::conn::http1 as hyper_http1;
use hyper_util::rt::TokioTimer;
use ipse_model::Address;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;

/// HTTP/1 reads a whole head into its buffer, the request line included.
const HTTP1_BUFFER_BYTES: usize = 32 * 1024;

/// An open door.
pub struct Door {
    /// Where callers come in.
    pub listener: Listener,
    /// How callers speak there.
    pub manner: Manner,
}

/// Where byte streams come from.
pub enum Listener {
    /// The network.
    Tcp(TcpListener),
    /// A file of this machine. Its peers count as coming from loopback, like those who connect to a port of it.
    Unix(UnixListener),
}

/// How callers speak at a door.
#[derive(Clone)]
pub enum Manner {
    /// Clear HTTP.
    Clear,
    /// TLS.
    Tls(Tls),
    /// A trusted proxy introduces each of them with the PROXY protocol; then they speak TLS, if we can, or clear HTTP.
    Introduced(Option<Tls>),
}

/// A caller who has just come in.
enum Caller {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Caller {
    /// Their address; `None` if they are gone already.
    fn peer(&self) -> Option<Address> {
        let ip = match self {
            Self::Tcp(stream) => stream.peer_addr().ok()?.ip(),
            Self::Unix(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        Some(Address::new(ip))
    }

    /// Waits for the first byte.
    async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }
}

impl Listener {
    async fn accept(&self) -> io::Result<Caller> {
        Ok(match self {
            Self::Tcp(listener) => Caller::Tcp(listener.accept().await?.0),
            Self::Unix(listener) => Caller::Unix(listener.accept().await?.0),
        })
    }
}

pub(crate) fn http1_builder() -> hyper_http1::Builder {
    let mut builder = hyper_http1::Builder::new();
    builder
        // Without a timer hyper's deadline does nothing.
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(HTTP1_BUFFER_BYTES)
        // Who has asked and says nothing more is answered, whenever it is seen that they do not.
        .half_close(true);
    builder
}

/// Lets callers in until it is time to stop.
pub(crate) async fn accept<S, F>(
    door: Door,
    house: Arc<House<S>>,
    crowd: Arc<Crowd>,
    mut stages: watch::Receiver<Stage>,
) where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    const FIRST_PAUSE: Duration = Duration::from_millis(10);
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);
    let Door { listener, manner } = door;
    let way = Way::of(&manner);
    let mut pause = FIRST_PAUSE;
    // Whoever waits in the kernel's queue at the end would be sent away with the door: they are let in, but not for ever.
    let mut last = BACKLOG;
    while last > 0 {
        last -= i32::from(house.is_closing());
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = reached(&mut stages, Stage::LastCall) => return,
        };
        let caller = match accepted {
            Ok(caller) => caller,
            // A connection that broke before we took it is nobody's fault; a lack of descriptors passes.
            Err(error) if is_of_the_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(error = %error, "cannot accept connections, trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        pause = FIRST_PAUSE;
        // Who has as many connections as they may is not told so: to tell them would take a connection.
        let Some(peer) = caller.peer() else { continue };
        let Ok(seat) = house.seat(&crowd, peer) else {
            house.traffic.over_limit(way);
            continue;
        };
        // Beyond the limit one connection per door waits here, and the others in the kernel's queue. Who was let in is
        // not sent away any more.
        let place = crowd.place().await;
        let (house, crowd, manner) = (Arc::clone(&house), Arc::clone(&crowd), manner.clone());
        let (stages, mut ended) = (stages.clone(), stages.clone());
        let came_ms = house.clock.now().boot_ms;
        let mut stay = Stay { place, _seat: seat, _introduced: None, _presence: house.traffic.enter(way) };
        tokio::spawn(async move {
            let greeted = tokio::select! {
                biased;
                greeted = greet(caller, peer, manner, &house, &crowd, &mut stay, stages.clone()) => greeted,
                // Whatever a connection waits for, be it a handshake: time is up.
                () = reached(&mut ended, Stage::Ended) => None,
            };
            if let Some((socket, line)) = greeted
                && let Err(guest) = house.to_front(Guest::new(socket, Arc::new(line), stay, came_ms))
            {
                Box::pin(take_over(guest, Beginning::default(), house, stages)).await;
            }
        });
    }
}

pub(crate) fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Finds out how a caller speaks, and serves them in that way, unless the front can.
async fn greet<S, F>(
    mut caller: Caller,
    peer: Address,
    manner: Manner,
    house: &Arc<House<S>>,
    crowd: &Arc<Crowd>,
    stay: &mut Stay,
    mut stages: watch::Receiver<Stage>,
) -> Option<(Socket, Line)>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    // Hyper's deadline begins with the first byte.
    let first_byte = tokio::select! {
        biased;
        readable = tokio::time::timeout(HEADER_TIMEOUT, caller.readable()) => matches!(readable, Ok(Ok(()))),
        () = reached(&mut stages, Stage::Draining) => false,
    };
    if !first_byte {
        return None;
    }
    let mut line = Line::from(peer);
    if let Manner::Introduced(_) = manner {
        // From anybody else it would be a way to be whoever they like.
        if !house.trust.is_trusted(peer) {
            return None;
        }
        let introducing = async {
            match &mut caller {
                Caller::Tcp(stream) => introduction(stream).await,
                Caller::Unix(stream) => introduction(stream).await,
            }
        };
        let introduced = tokio::select! {
            biased;
            introduced = introducing => introduced,
            () = reached(&mut stages, Stage::Draining) => return None,
        };
        let introduced = introduced.ok()?;
        if let Some(introduced) = &introduced {
            let Ok(seat) = house.seat(crowd, introduced.address) else {
                house.traffic.over_limit(Way::Introduced);
                return None;
            };
            stay._introduced = seat;
        }
        line.introduced = Some(introduced);
    }
    // What only some connections need is in boxes from here on: an idle one has room for nothing else.
    let stream = match caller {
        Caller::Tcp(stream) => stream,
        Caller::Unix(stream) => {
            if house.has_front_for(&line) {
                return Some((Socket::Unix(stream.into_std().ok()?), line));
            }
            clear(stream, Arc::new(line), None, Arc::clone(house), stages).await;
            return None;
        }
    };
    let _ = stream.set_nodelay(true);
    let tls = match manner {
        Manner::Clear => {
            line.redirect_to = house.redirect_to;
            None
        }
        Manner::Tls(tls) => {
            line = house.line_before_tls(peer, stream.local_addr().ok()?.port());
            Some(tls)
        }
        Manner::Introduced(tls) => tls,
    };
    let Some(tls) = tls else {
        if house.has_front_for(&line) {
            return Some((Socket::Tcp(stream.into_std().ok()?), line));
        }
        clear(stream, Arc::new(line), None, Arc::clone(house), stages).await;
        return None;
    };
    meet(stream, line, &tls, house, stages).await
}

/// Finds out whether a caller speaks TLS, as they should, and serves them, unless the front can.
async fn meet<S, F>(
    stream: TcpStream,
    line: Line,
    tls: &Tls,
    house: &Arc<House<S>>,
    mut stages: watch::Receiver<Stage>,
) -> Option<(Socket, Line)>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    // A proxy may introduce a caller long before they say anything; and nobody who has only begun to shake hands has asked
    // for anything yet.
    let greeted = tokio::select! {
        biased;
        first = tokio::time::timeout(HEADER_TIMEOUT, first_byte_of(&stream)) => first,
        () = reached(&mut stages, Stage::Draining) => return None,
    };
    let Ok(Ok(first)) = greeted else { return None };
    if first != HANDSHAKE {
        clear(stream, Arc::new(line), None, Arc::clone(house), stages).await;
        return None;
    }
    Box::pin(shake_hands(tls.channel(stream).ok()?, line, house, stages)).await
}

/// Shakes hands with a caller and serves them, unless the front can.
async fn shake_hands<S, F>(
    mut channel: Box<Channel<TcpStream>>,
    mut line: Line,
    house: &Arc<House<S>>,
    mut stages: watch::Receiver<Stage>,
) -> Option<(Socket, Line)>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let shaken = tokio::select! {
        biased;
        shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, channel.shake_hands()) => shaken,
        () = reached(&mut stages, Stage::Draining) => return None,
    };
    // Why a handshake failed is the peer's business, like the end of a connection.
    if !matches!(shaken, Ok(Ok(()))) {
        let way = if line.introduced.is_some() { Way::Introduced } else { Way::Tls };
        house.traffic.failed_handshake(way);
        return None;
    }
    if was_a_proof(&channel.session) {
        return None;
    }
    house.shaken(&mut line, &channel.session);
    if !channel.is_http2() && house.has_front_for(&line) {
        return Some((Socket::Tls(Box::new(channel.over(TcpStream::into_std).ok()?)), line));
    }
    secret(channel, Arc::new(line), None, Arc::clone(house), stages).await;
    None
}

/// Serves a caller with whom hands were shaken. One that comes from the front is given back when it rests.
async fn secret<S, F>(
    channel: Box<Channel<TcpStream>>,
    line: Arc<Line>,
    from_front: Option<Beginning>,
    house: Arc<House<S>>,
    stages: watch::Receiver<Stage>,
) -> Option<Box<Channel<TcpStream>>>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let is_http2 = channel.is_http2();
    let mut wire = Wire::new(channel, Arc::clone(&house.faults));
    let mut comes_back = None;
    let mut passage = None;
    if let Some(Beginning { bytes, unsent, next, passage: passed }) = from_front {
        wire.begin_with(bytes, unsent);
        wire.flush().await.ok()?;
        (comes_back, passage) = (Some(next), passed);
    }
    if is_http2 {
        Box::pin(http2::serve(wire, passage, line, house, stages)).await;
        return None;
    }
    http1::serve(wire, line, comes_back, house, stages).await
}

/// Serves a connection that comes from the front, and gives it back when it rests.
pub(crate) async fn take_over<S, F>(
    guest: Guest,
    beginning: Beginning,
    house: Arc<House<S>>,
    stages: watch::Receiver<Stage>,
) where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let Guest { mut socket, mut line, mut stay, came_ms, mut was_asked, greeting } = guest;
    let mut beginning = beginning;
    if let Some(tls) = greeting {
        let mut ended = stages.clone();
        let greeted = tokio::select! {
            biased;
            greeted = Box::pin(greet_again(socket, Arc::unwrap_or_clone(line), &tls, &house, stages.clone())) => greeted,
            () = reached(&mut ended, Stage::Ended) => None,
        };
        let Some(greeted) = greeted else { return };
        (socket, line) = (greeted.0, Arc::new(greeted.1));
    }
    loop {
        let mut ended = stages.clone();
        let (line_of, house_of, stages_of) = (Arc::clone(&line), Arc::clone(&house), stages.clone());
        let begins = (beginning, was_asked);
        let rested = tokio::select! {
            biased;
            rested = serve_again(socket, line_of, begins, house_of, stages_of) => rested,
            () = reached(&mut ended, Stage::Ended) => None,
        };
        let Some(rested) = rested else { return };
        was_asked = true;
        let guest = Guest { was_asked, ..Guest::new(rested, Arc::clone(&line), stay, came_ms) };
        match house.to_front(guest) {
            Ok(()) => return,
            // The loops have ended meanwhile.
            Err(guest) => (socket, stay, beginning) = (guest.socket, guest.stay, Beginning::default()),
        }
    }
}

/// Goes on with a caller who came in at the front, and with whom it did not get through shaking hands.
async fn greet_again<S, F>(
    socket: Socket,
    line: Line,
    tls: &Tls,
    house: &Arc<House<S>>,
    stages: watch::Receiver<Stage>,
) -> Option<(Socket, Line)>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    match socket {
        Socket::Tcp(stream) => meet(TcpStream::from_std(stream).ok()?, line, tls, house, stages).await,
        Socket::Tls(channel) => {
            let channel = Box::new(channel.over(TcpStream::from_std).ok()?);
            shake_hands(channel, line, house, stages).await
        }
        Socket::Unix(_) => None,
    }
}

/// Serves a connection until it rests or ends, from a beginning and whether something was asked before.
async fn serve_again<S, F>(
    socket: Socket,
    line: Arc<Line>,
    begins: (Beginning, bool),
    house: Arc<House<S>>,
    stages: watch::Receiver<Stage>,
) -> Option<Socket>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    match socket {
        Socket::Tcp(stream) => {
            let stream = TcpStream::from_std(stream).ok()?;
            let _ = stream.set_nodelay(true);
            room(stream.writable()).await?;
            let rested = clear(stream, line, Some(begins), house, stages).await?;
            Some(Socket::Tcp(rested.into_std().ok()?))
        }
        Socket::Unix(stream) => {
            let stream = UnixStream::from_std(stream).ok()?;
            room(stream.writable()).await?;
            let rested = clear(stream, line, Some(begins), house, stages).await?;
            Some(Socket::Unix(rested.into_std().ok()?))
        }
        Socket::Tls(channel) => {
            let channel = Box::new(channel.over(TcpStream::from_std).ok()?);
            room(channel.socket.writable()).await?;
            let rested = secret(channel, line, Some(begins.0), house, stages).await?;
            Some(Socket::Tls(Box::new(rested.over(TcpStream::into_std).ok()?)))
        }
    }
}

/// Waits until the runtime knows that there is room to write, which it does not of a socket that is new to it. Hyper forgets the
/// answer to somebody who wanted to upgrade if it cannot be written at once.
async fn room(writable: impl Future<Output = io::Result<()>>) -> Option<()> {
    tokio::time::timeout(WRITE_TIMEOUT, writable).await.ok()?.ok()
}

/// Serves a caller without TLS, whose first bytes tell which HTTP is spoken. One that comes from the front, with a beginning and
/// whether something was asked before, is given back when it rests.
async fn clear<T, S, F>(
    stream: T,
    line: Arc<Line>,
    from_front: Option<(Beginning, bool)>,
    house: Arc<House<S>>,
    mut stages: watch::Receiver<Stage>,
) -> Option<T>
where
    T: Stream + Send + 'static,
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let mut wire = Wire::new(stream, Arc::clone(&house.faults));
    let (mut comes_back, mut may_be_http2) = (None, true);
    if let Some((Beginning { bytes, unsent, next, .. }, was_asked)) = from_front {
        wire.begin_with(bytes, unsent);
        // Who is sent elsewhere is nobody whom the front would know what to say to.
        (comes_back, may_be_http2) = (Some(next).filter(|_| line.redirect_to.is_none()), !was_asked);
        // What was asked before a stop is answered whole, however slowly its caller reads.
        if wire.flush().await.is_err() {
            return None;
        }
    }
    let mut first = BytesMut::with_capacity(PREFACE.len());
    let reading = async {
        while first.is_empty() || (may_be_http2 && first.len() < PREFACE.len() && PREFACE.starts_with(&first))
        {
            let left = PREFACE.len() - first.len();
            if wire.read_buf(&mut (&mut first).limit(left)).await.ok()? == 0 {
                return None;
            }
        }
        Some(())
    };
    let read = tokio::select! {
        biased;
        read = tokio::time::timeout(HEADER_TIMEOUT, reading) => read,
        () = reached(&mut stages, Stage::Draining) => return None,
    };
    let Ok(Some(())) = read else { return None };
    let is_http2 = may_be_http2 && first == PREFACE;
    wire.give_back(first.freeze());
    if is_http2 {
        Box::pin(http2::serve(wire, None, line, house, stages)).await;
        return None;
    }
    http1::serve(wire, line, comes_back, house, stages).await
}
