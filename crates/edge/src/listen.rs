//! Where to listen, and opening those doors.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use tokio::net::TcpListener;

/// An address to listen on: `127.0.0.1:8080`, `[::]:8080`, or `localhost:8080` for both loopback addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// One socket address.
    Socket(SocketAddr),
    /// The loopback addresses of IPv4 and, where the machine has it, IPv6.
    Localhost(u16),
}

impl ListenAddr {
    /// The first socket address that it stands for.
    #[must_use]
    pub fn first(&self) -> SocketAddr {
        match *self {
            Self::Socket(address) => address,
            Self::Localhost(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        }
    }
}

/// A text that is no address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address to listen on is IP:PORT, [IPv6]:PORT or localhost:PORT")]
pub struct NotAListenAddr;

impl FromStr for ListenAddr {
    type Err = NotAListenAddr;

    fn from_str(text: &str) -> Result<Self, NotAListenAddr> {
        match text.strip_prefix("localhost:") {
            Some(port) => port.parse().map(Self::Localhost).map_err(|_| NotAListenAddr),
            None => text.parse().map(Self::Socket).map_err(|_| NotAListenAddr),
        }
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => address.fmt(f),
            Self::Localhost(port) => write!(f, "localhost:{port}"),
        }
    }
}

/// A door that could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else listens there.
    #[error(
        "{0} is in use, by another program or by another --listen: stop that program, or choose another address with --listen"
    )]
    InUse(SocketAddr),
    /// The port needs a privilege that we do not have.
    #[error(
        "not allowed to listen on {0}: ports below 1024 need root or CAP_NET_BIND_SERVICE; choose another with --listen"
    )]
    NotAllowed(SocketAddr),
    /// Anything else.
    #[error("cannot listen on {0}: {1}")]
    Other(SocketAddr, #[source] io::Error),
}

/// Opens all the doors, or none.
pub async fn bind(addresses: &[ListenAddr]) -> Result<Vec<TcpListener>, BindError> {
    let mut listeners = Vec::new();
    for address in addresses {
        match *address {
            ListenAddr::Socket(socket) => listeners.push(bind_one(socket).await?),
            ListenAddr::Localhost(port) => {
                let v4 = bind_one(address.first()).await?;
                // With port 0 the second address gets the port that the first was given.
                let port = v4.local_addr().map_or(port, |address| address.port());
                let v6 = bind_one(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port)).await;
                listeners.push(v4);
                match v6 {
                    Ok(v6) => listeners.push(v6),
                    Err(BindError::Other(_, error)) if lacks_ipv6(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(listeners)
}

async fn bind_one(address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse(address),
        io::ErrorKind::PermissionDenied => BindError::NotAllowed(address),
        _ => BindError::Other(address, error),
    })
}

fn lacks_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_listen_on_are_sockets_or_localhost() {
        assert_eq!("localhost:8080".parse(), Ok(ListenAddr::Localhost(8080)));
        for text in ["127.0.0.1:0", "[::]:8080", "0.0.0.0:80"] {
            assert_eq!(text.parse::<ListenAddr>().unwrap().to_string(), text);
        }
        for text in ["", "8080", "localhost", "localhost:99999", "example.com:80", "127.0.0.1", "::1:80"] {
            assert_eq!(text.parse::<ListenAddr>(), Err(NotAListenAddr), "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_port_in_use_is_named() {
        let first = bind(&["127.0.0.1:0".parse().unwrap()]).await.unwrap();
        let taken = first[0].local_addr().unwrap();
        let error = bind(&[ListenAddr::Socket(taken)]).await.unwrap_err().to_string();
        assert!(error.contains(&taken.to_string()) && error.contains("in use"), "{error}");
    }
}
