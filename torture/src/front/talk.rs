//! One plan, carried out with both servers at the same time, or with one: the same bytes, the same pauses, the same end.

use super::pair::Doors;
use super::plan::{Door, Ending, Plan, Step};
use super::told::{ANSWER, answers, masked};
use anyhow::{Context, Result};
use rustix::net::sockopt::set_socket_linger;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::pki_types::ServerName;

/// Both have nothing more to say when they said the same and then nothing for so long: less where it is known that they have
/// answered.
const SETTLED: Duration = Duration::from_millis(2);
const SETTLED_UNSURE: Duration = Duration::from_millis(8);

/// Servers that have not said the same within this time differ.
const PATIENCE: Duration = Duration::from_secs(5);

/// Nothing that a caller does may take longer: an introduction is waited for for 5 s.
const LONGEST: Duration = Duration::from_secs(8);

/// As much is read at once.
const READ_BYTES: usize = 4 * 1024;

/// How a server ended a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum End {
    /// It did not.
    Open,
    Closed,
    /// Without the word that TLS has for it.
    CutOff,
    Reset,
    /// What came is not what TLS lets pass, or there was no handshake.
    Broken,
}

/// What a caller saw.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Outcome {
    pub(super) told: Vec<u8>,
    pub(super) end: End,
}

impl Outcome {
    /// How it ended, but for what is in nobody's hand.
    pub(super) fn end_of(&self, plan: &Plan) -> End {
        if self.end == End::Reset && plan.may_be_left_unread() { End::Closed } else { self.end }
    }
}

/// With how many bytes both begin.
pub(super) fn alike(one: &Outcome, other: &Outcome) -> usize {
    one.told.iter().zip(&other.told).take_while(|(one, other)| one == other).count()
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// One of the two connections.
struct Side {
    stream: Box<dyn Duplex>,
    /// The same socket, for what a stream cannot do.
    socket: OwnedFd,
    received: Vec<u8>,
    compared: Compared,
    end: End,
}

/// How much of what was received is the same on all sides.
#[derive(Clone, Copy, Default)]
struct Compared {
    bytes: usize,
    answers: usize,
}

/// What came of it with both servers.
pub(super) async fn talk(doors: &[Doors; 2], plan: &Plan) -> Result<[Outcome; 2]> {
    let (one, other) = tokio::join!(Side::open(&doors[0], plan), Side::open(&doors[1], plan));
    let mut sides = [one?, other?];
    carry_out(plan, &mut sides).await;
    Ok(sides.map(Side::outcome))
}

/// What came of it with one of them.
pub(super) async fn talk_to(doors: &Doors, plan: &Plan) -> Result<Outcome> {
    let mut sides = [Side::open(doors, plan).await?];
    carry_out(plan, &mut sides).await;
    let [side] = sides;
    Ok(side.outcome())
}

async fn carry_out(plan: &Plan, sides: &mut [Side]) {
    for (number, step) in plan.steps.iter().enumerate() {
        match step {
            Step::Write(bytes) => {
                for side in &mut *sides {
                    side.write(bytes).await;
                }
            }
            Step::Breathe(0) => tokio::task::yield_now().await,
            Step::Breathe(ms) => sleep(Duration::from_millis(*ms)).await,
            Step::Listen(answers) => {
                let at_once = matches!(plan.ending, Ending::Close | Ending::Vanish);
                if !(at_once && number + 1 == plan.steps.len()) {
                    listen(sides, *answers).await;
                }
                if sides.iter().all(|side| side.end != End::Open) {
                    break;
                }
            }
        }
    }
    match plan.ending {
        Ending::Close | Ending::ListenAndClose => {
            for side in &mut *sides {
                side.finish().await;
            }
            hear_out(sides).await;
        }
        Ending::ListenAndReset | Ending::Vanish => {
            for side in sides {
                let _ = set_socket_linger(&side.socket, Some(Duration::ZERO));
            }
        }
    }
}

/// Reads until all servers have said the same and nothing more, or the connections are over, or patience is.
async fn listen(sides: &mut [Side], at_least: usize) {
    let settled = if at_least > 0 { SETTLED } else { SETTLED_UNSURE };
    let agreeing = async {
        while sides.iter().any(|side| side.end == End::Open) {
            if timeout(settled, read_any(sides)).await.is_ok() {
                continue;
            }
            if have_said_the_same(sides, at_least) {
                return;
            }
        }
    };
    let _ = timeout(PATIENCE, agreeing).await;
}

/// Whether all have given as many answers at least, and the same ones. What was the same before is not looked at again.
fn have_said_the_same(sides: &mut [Side], at_least: usize) -> bool {
    // What begins within an answer cannot be read alone.
    if sides.iter().any(|side| !side.news().is_empty() && !side.news().starts_with(ANSWER)) {
        sides.iter_mut().for_each(|side| side.compared = Compared::default());
    }
    let Some((one, others)) = sides.split_first() else { return true };
    let answers = one.compared.answers + answers(one.news());
    let told = masked(one.news());
    let agrees = |other: &Side| one.end == other.end && told == masked(other.news());
    let are_the_same = answers >= at_least && others.iter().all(agrees);
    if are_the_same {
        for side in sides {
            side.compared = Compared { bytes: side.received.len(), answers };
        }
    }
    are_the_same
}

/// Reads until all connections are over, or patience is.
async fn hear_out(sides: &mut [Side]) {
    let ending = async {
        while sides.iter().any(|side| side.end == End::Open) {
            read_any(sides).await;
        }
    };
    let _ = timeout(PATIENCE, ending).await;
}

/// Reads from one of those that are open.
async fn read_any(sides: &mut [Side]) {
    match sides {
        [one] => one.read().await,
        [one, other] => {
            tokio::select! {
                () = one.read(), if one.end == End::Open => {}
                () = other.read(), if other.end == End::Open => {}
            }
        }
        _ => {}
    }
}

impl Side {
    async fn open(doors: &Doors, plan: &Plan) -> Result<Self> {
        let broken = |socket| Self { end: End::Broken, ..Self::new(tokio::io::empty(), socket) };
        let address = match plan.door {
            Door::Clear => doors.clear,
            Door::Dual => doors.dual,
            Door::Tls => doors.tls,
            Door::Proxy | Door::ProxyTls => doors.proxy,
            Door::Unix => {
                let stream = UnixStream::connect(&doors.unix).await.context("cannot connect")?;
                let socket = stream.as_fd().try_clone_to_owned()?;
                return Ok(Self::new(stream, socket));
            }
        };
        let mut stream = connect(plan.peer, address).await?;
        let socket = stream.as_fd().try_clone_to_owned()?;
        if !plan.introduction.is_empty() && stream.write_all(&plan.introduction).await.is_err() {
            return Ok(broken(socket));
        }
        if !matches!(plan.door, Door::Tls | Door::ProxyTls) {
            return Ok(Self::new(stream, socket));
        }
        let name = ServerName::IpAddress(IpAddr::from([127, 0, 0, 1]).into());
        Ok(match timeout(LONGEST, doors.connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Self::new(stream, socket),
            _ => broken(socket),
        })
    }

    fn new(stream: impl Duplex + 'static, socket: OwnedFd) -> Self {
        let compared = Compared::default();
        Self { stream: Box::new(stream), socket, received: Vec::new(), compared, end: End::Open }
    }

    /// What was received and not compared yet.
    fn news(&self) -> &[u8] {
        &self.received[self.compared.bytes..]
    }

    /// What cannot be written any more is not: why, reading will tell.
    async fn write(&mut self, bytes: &[u8]) {
        let writing = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        if self.end == End::Open {
            let _ = timeout(LONGEST, writing).await;
        }
    }

    fn outcome(self) -> Outcome {
        Outcome { told: masked(&self.received), end: self.end }
    }

    async fn finish(&mut self) {
        let _ = timeout(LONGEST, self.stream.shutdown()).await;
    }

    async fn read(&mut self) {
        // Otherwise it is read in small pieces.
        self.received.reserve(READ_BYTES);
        self.end = match self.stream.read_buf(&mut self.received).await {
            Ok(0) => End::Closed,
            Ok(_) => End::Open,
            Err(error) => end_of(&error),
        };
    }
}

fn end_of(error: &io::Error) -> End {
    match error.kind() {
        ErrorKind::UnexpectedEof => End::CutOff,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => End::Reset,
        _ => End::Broken,
    }
}

/// A connection from this address.
async fn connect(peer: IpAddr, door: SocketAddr) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    // What a closed connection leaves of its port for a minute must not use them up.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(peer, 0))?;
    let stream = socket.connect(door).await.context("cannot connect")?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
