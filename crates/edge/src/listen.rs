//! Where to listen, and opening those doors: by ourselves, or with sockets that we were handed.

use crate::tcp::Listener;
use listenfd::ListenFd;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net as unix;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tokio::net::{TcpListener, UnixListener};

/// How many connections may wait to be accepted.
pub(crate) const BACKLOG: i32 = 4096;
/// How often another port is tried, if any would do and the one that we were given is in use by UDP.
const TRIES: usize = 16;

/// An address to listen on: `127.0.0.1:8080`, `[::]:8080`, `localhost:8080` for both loopback addresses,
/// `unix:/run/ipse.sock` for a file, or `systemd:NAME` for sockets that we are handed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// One socket address.
    Socket(SocketAddr),
    /// The loopback addresses of IPv4 and, where the machine has it, IPv6.
    Localhost(u16),
    /// A file of this machine.
    Unix(PathBuf),
    /// All sockets of this name that we were handed at the start.
    Handed(String),
}

impl ListenAddr {
    /// The first socket address that it stands for, as far as that is known before it is opened.
    #[must_use]
    pub fn first(&self) -> Option<SocketAddr> {
        match self {
            Self::Socket(address) => Some(*address),
            Self::Localhost(port) => Some(localhost(*port)),
            Self::Unix(_) | Self::Handed(_) => None,
        }
    }
}

fn localhost(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// A text that is no address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address to listen on is IP:PORT, [IPv6]:PORT, localhost:PORT, unix:PATH or systemd:NAME")]
pub struct NotAListenAddr;

impl FromStr for ListenAddr {
    type Err = NotAListenAddr;

    fn from_str(text: &str) -> Result<Self, NotAListenAddr> {
        let some = |rest: &str| if rest.is_empty() { Err(NotAListenAddr) } else { Ok(rest.to_owned()) };
        if let Some(port) = text.strip_prefix("localhost:") {
            port.parse().map(Self::Localhost).map_err(|_| NotAListenAddr)
        } else if let Some(path) = text.strip_prefix("unix:") {
            some(path).map(|path| Self::Unix(path.into()))
        } else if let Some(name) = text.strip_prefix("systemd:") {
            some(name).map(Self::Handed)
        } else {
            text.parse().map(Self::Socket).map_err(|_| NotAListenAddr)
        }
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => address.fmt(f),
            Self::Localhost(port) => write!(f, "localhost:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Handed(name) => write!(f, "systemd:{name}"),
        }
    }
}

/// A door that could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else listens there.
    #[error(
        "{0} is in use, by another program or by another door of this one: stop that program, or choose another address (--listen, --tls-listen, --proxy-listen, --admin-listen)"
    )]
    InUse(ListenAddr),
    /// Somebody else has the port for datagrams.
    #[error(
        "{0} is in use by another program for UDP, so HTTP/3 cannot be served there: stop that program, choose another address, or turn HTTP/3 off with --http3=no"
    )]
    DatagramsInUse(SocketAddr),
    /// The port needs a privilege that we do not have.
    #[error(
        "not allowed to listen on {0}: ports below 1024 need root or CAP_NET_BIND_SERVICE; choose another (--listen, --tls-listen, --proxy-listen, --admin-listen)"
    )]
    NotAllowed(ListenAddr),
    /// The file cannot be made.
    #[error("not allowed to make {}: its folder belongs to somebody else; choose another path", .0.display())]
    NoFolder(PathBuf),
    /// The system has no room for such a name.
    #[error("{} is too long for a Unix socket, which may have 107 bytes: choose a shorter path", .0.display())]
    TooLong(PathBuf),
    /// Nobody handed us a socket of that name.
    #[error(
        "no socket named {0:?} was handed over: set FileDescriptorName={0} in the socket unit and start its service through it"
    )]
    NotHanded(String),
    /// There is something else in the place of the socket's file.
    #[error("{} is no socket: remove it, or choose another path", .0.display())]
    NotASocket(PathBuf),
    /// Anything else.
    #[error("cannot listen on {0}: {1}")]
    Other(ListenAddr, #[source] io::Error),
}

impl BindError {
    fn at(address: ListenAddr) -> impl FnOnce(io::Error) -> Self {
        |error| match (error.kind(), address) {
            (ErrorKind::AddrInUse, address) => Self::InUse(address),
            (ErrorKind::PermissionDenied, ListenAddr::Unix(path)) => Self::NoFolder(path),
            (ErrorKind::PermissionDenied, address) => Self::NotAllowed(address),
            (ErrorKind::InvalidInput, ListenAddr::Unix(path)) => Self::TooLong(path),
            (_, address) => Self::Other(address, error),
        }
    }
}

/// Sockets that we were handed at the start, by systemd or by another program that speaks its protocol.
#[derive(Default)]
pub struct Handed(Vec<(String, HandedSocket)>);

enum HandedSocket {
    Tcp(std::net::TcpListener),
    Unix(unix::UnixListener),
    Udp(UdpSocket),
}

impl Handed {
    /// Takes them. Must be called once, before there is a second thread, because it changes the environment.
    #[must_use]
    pub fn from_environment() -> Self {
        let Ok(names) = std::env::var("LISTEN_FDNAMES") else { return Self::default() };
        let mut sockets = ListenFd::from_env();
        let mut take = |index| {
            if let Ok(Some(socket)) = sockets.take_tcp_listener(index) {
                return Some(HandedSocket::Tcp(socket));
            }
            if let Ok(Some(socket)) = sockets.take_unix_listener(index) {
                return Some(HandedSocket::Unix(socket));
            }
            sockets.take_udp_socket(index).ok().flatten().map(HandedSocket::Udp)
        };
        let named = names.split(':').enumerate();
        Self(named.filter_map(|(index, name)| Some((name.to_owned(), take(index)?))).collect())
    }

    /// Takes out those of one name.
    fn take(&mut self, name: &str) -> Vec<HandedSocket> {
        let (taken, left) = std::mem::take(&mut self.0).into_iter().partition(|(theirs, _)| theirs == name);
        self.0 = left;
        let taken: Vec<(String, HandedSocket)> = taken;
        taken.into_iter().map(|(_, socket)| socket).collect()
    }
}

/// Doors that are open.
#[derive(Default)]
pub struct Opened {
    /// Of byte streams.
    pub streams: Vec<Listener>,
    /// Of datagrams.
    pub datagrams: Vec<UdpSocket>,
}

/// How doors are opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// Whether each port is also opened for datagrams.
    pub datagrams: bool,
    /// Whether another process that asks for the same may have the same ports at the same time.
    pub shared: bool,
}

/// Opens all the doors, or none.
pub fn bind(addresses: &[ListenAddr], opening: Opening, handed: &mut Handed) -> Result<Opened, BindError> {
    let mut opened = Opened::default();
    for address in addresses {
        match address {
            ListenAddr::Socket(socket) => opened.add(open(*socket, opening)?),
            ListenAddr::Localhost(port) => {
                let v4 = open(localhost(*port), opening)?;
                // With port 0 the second address gets the port that the first was given.
                let port = v4.0.local_addr().map_or(*port, |address| address.port());
                let v6 = open(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port), opening);
                opened.add(v4);
                match v6 {
                    Ok(v6) => opened.add(v6),
                    Err(BindError::Other(_, error)) if lacks_ipv6(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            ListenAddr::Unix(path) => {
                let listener = open_file(path, opening, address)?;
                opened.streams.push(Listener::Unix(listener));
            }
            ListenAddr::Handed(name) => opened.take(name, opening, handed)?,
        }
    }
    Ok(opened)
}

impl Opened {
    fn add(&mut self, (streams, datagrams): (TcpListener, Option<UdpSocket>)) {
        self.streams.push(Listener::Tcp(streams));
        self.datagrams.extend(datagrams);
    }

    fn take(&mut self, name: &str, opening: Opening, handed: &mut Handed) -> Result<(), BindError> {
        let before = self.streams.len();
        for socket in handed.take(name) {
            let taken = match socket {
                HandedSocket::Tcp(socket) => socket
                    .set_nonblocking(true)
                    .and_then(|()| TcpListener::from_std(socket))
                    .map(|listener| self.streams.push(Listener::Tcp(listener))),
                HandedSocket::Unix(socket) => socket
                    .set_nonblocking(true)
                    .and_then(|()| UnixListener::from_std(socket))
                    .map(|listener| self.streams.push(Listener::Unix(listener))),
                HandedSocket::Udp(socket) => {
                    if opening.datagrams {
                        self.datagrams.push(socket);
                    }
                    Ok(())
                }
            };
            taken.map_err(BindError::at(ListenAddr::Handed(name.to_owned())))?;
        }
        if self.streams.len() == before { Err(BindError::NotHanded(name.to_owned())) } else { Ok(()) }
    }
}

/// Opens a port, for datagrams as well if that is wanted.
fn open(address: SocketAddr, opening: Opening) -> Result<(TcpListener, Option<UdpSocket>), BindError> {
    let at = || BindError::at(ListenAddr::Socket(address));
    for _ in 1..TRIES {
        let streams = stream_socket(address, opening).map_err(at())?;
        if !opening.datagrams {
            return Ok((streams, None));
        }
        let same = streams.local_addr().map_err(at())?;
        match datagram_socket(same, opening) {
            // Any port would do, so another one may.
            Err(error) if error.kind() == ErrorKind::AddrInUse && address.port() == 0 => {}
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                return Err(BindError::DatagramsInUse(same));
            }
            datagrams => return Ok((streams, Some(datagrams.map_err(at())?))),
        }
    }
    Err(BindError::InUse(ListenAddr::Socket(address)))
}

fn stream_socket(address: SocketAddr, opening: Opening) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of a process that is gone do not keep the port from its successor.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(opening.shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn datagram_socket(address: SocketAddr, opening: Opening) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(opening.shared)?;
    socket.bind(&SockAddr::from(address))?;
    Ok(socket.into())
}

/// Opens a file. One that nobody listens at any more is in the way, and is removed; from somebody who shares it, it is
/// taken over in one step.
fn open_file(path: &Path, opening: Opening, address: &ListenAddr) -> Result<UnixListener, BindError> {
    let at = || BindError::at(address.clone());
    let beside = path.with_added_extension("new");
    let made = if opening.shared { beside.as_path() } else { path };
    if opening.shared {
        let _ = fs::remove_file(made);
    }
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => return Err(BindError::NotASocket(path.to_owned())),
        Ok(_) if opening.shared => {}
        Ok(_) => match unix::UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(at())?;
            }
            _ => return Err(BindError::InUse(address.clone())),
        },
        Err(_) => {}
    }
    let listener = UnixListener::bind(made).map_err(at())?;
    // Whoever may enter the folder may connect, as anybody on the machine may connect to a port of loopback.
    fs::set_permissions(made, Permissions::from_mode(0o666)).map_err(at())?;
    if opening.shared {
        fs::rename(made, path).map_err(at())?;
    }
    Ok(listener)
}

fn lacks_ipv6(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind_one(address: ListenAddr) -> Result<Opened, BindError> {
        bind(&[address], Opening::default(), &mut Handed::default())
    }

    fn tcp(opened: &Opened) -> SocketAddr {
        match &opened.streams[0] {
            Listener::Tcp(listener) => listener.local_addr().unwrap(),
            Listener::Unix(_) => panic!("no port"),
        }
    }

    #[test]
    fn addresses_to_listen_on_are_sockets_localhost_files_or_names() {
        assert_eq!("localhost:8080".parse(), Ok(ListenAddr::Localhost(8080)));
        for text in ["127.0.0.1:0", "[::]:8080", "0.0.0.0:80", "unix:/run/ipse.sock", "systemd:https"] {
            assert_eq!(text.parse::<ListenAddr>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "8080",
            "localhost",
            "localhost:99999",
            "example.com:80",
            "127.0.0.1",
            "::1:80",
            "unix:",
            "systemd:",
        ] {
            assert_eq!(text.parse::<ListenAddr>(), Err(NotAListenAddr), "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_port_in_use_is_named() {
        let first = bind_one("127.0.0.1:0".parse().unwrap()).unwrap();
        let taken = tcp(&first);
        let error = bind_one(ListenAddr::Socket(taken)).err().unwrap().to_string();
        assert!(error.contains(&taken.to_string()) && error.contains("in use"), "{error}");
    }

    #[tokio::test]
    async fn a_port_is_opened_for_datagrams_too_and_shared_with_whoever_wants_that() {
        let opening = Opening { datagrams: true, shared: true };
        let opened = bind(&["127.0.0.1:0".parse().unwrap()], opening, &mut Handed::default()).unwrap();
        let address = tcp(&opened);
        assert_eq!(opened.datagrams[0].local_addr().unwrap(), address);
        let again = bind(&[ListenAddr::Socket(address)], opening, &mut Handed::default()).unwrap();
        assert_eq!(tcp(&again), address);
        assert!(bind_one(ListenAddr::Socket(address)).is_err());
    }

    #[tokio::test]
    async fn a_file_is_taken_from_the_dead_and_not_from_the_living() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.sock");
        let address = ListenAddr::Unix(path.clone());
        let living = bind_one(address.clone()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        assert!(matches!(bind_one(address.clone()), Err(BindError::InUse(_))));
        drop(living);
        bind_one(address).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "x").unwrap();
        assert!(matches!(bind_one(ListenAddr::Unix(other)), Err(BindError::NotASocket(_))));
    }

    #[test]
    fn a_socket_that_was_not_handed_over_is_asked_for() {
        let error = bind_one(ListenAddr::Handed("https".to_owned())).err().unwrap().to_string();
        assert!(error.contains("FileDescriptorName=https"), "{error}");
    }
}
