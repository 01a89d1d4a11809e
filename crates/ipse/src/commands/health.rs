//! `ipse health`: asks a running server whether it is ready, for whoever has no other program to ask with, such as a
//! container that holds nothing but this one.

use super::{print, read};
use crate::error::Error;
use crate::settings::ServeFlags;
use ipse_edge::ListenAddr;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a server may take for each step of an answer. Its operator's listener waits for nobody.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than this no server says about its health.
const LONGEST: u64 = 65_536;
const REQUEST: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

pub(super) fn run(flags: &ServeFlags) -> Result<(), Error> {
    let config = read(&flags.0)?;
    let Some(listener) = config.admin.listen.first() else {
        return Err(Error::Refused(
            "a server without an operator's listener cannot be asked: set admin_listen".to_owned(),
        ));
    };
    let failed = |source| Error::System { what: "no server answers at the operator's listener", source };
    let answer = match listener {
        ListenAddr::Unix(path) => {
            let stream = UnixStream::connect(path).map_err(failed)?;
            stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
            ask(stream).map_err(failed)?
        }
        other => {
            let Some(address) = other.first().map(reached) else {
                return Err(Error::Refused(format!("{other} is a socket of systemd's: ask systemd")));
            };
            let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
            stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
            ask(stream).map_err(failed)?
        }
    };
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.split(' ').nth(1) == Some("200") {
        print(body)
    } else {
        Err(Error::Refused(format!("the server is not ready: {}", body.trim_end())))
    }
}

/// Where a listener is reached from this machine: one at every address, at loopback.
fn reached(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn ask(mut stream: impl Read + Write) -> std::io::Result<String> {
    stream.write_all(REQUEST)?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_at_every_address_is_asked_at_loopback() {
        for (listens, asked) in [
            ("0.0.0.0:9464", "127.0.0.1:9464"),
            ("[::]:9464", "[::1]:9464"),
            ("10.0.0.5:9464", "10.0.0.5:9464"),
        ] {
            assert_eq!(reached(listens.parse().unwrap()).to_string(), asked);
        }
    }
}
