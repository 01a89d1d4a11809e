//! Sockets that outlive the server that uses them, as systemd keeps them.

use anyhow::{Context, Result};
use command_fds::{CommandFdExt, FdMapping};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::Command;

/// Where the first socket is handed over; the others follow it.
const FIRST: i32 = 3;
/// How often another port is tried, if the one of HTTPS is in use by UDP.
const TRIES: usize = 16;

/// One socket for HTTP, and two at one port for HTTPS.
pub struct Sockets {
    http: TcpListener,
    https: TcpListener,
    quic: UdpSocket,
}

impl Sockets {
    /// Opens them on free ports of loopback.
    pub fn open() -> Result<Self> {
        let http = TcpListener::bind("127.0.0.1:0")?;
        for _ in 0..TRIES {
            let https = TcpListener::bind("127.0.0.1:0")?;
            if let Ok(quic) = UdpSocket::bind(https.local_addr()?) {
                return Ok(Self { http, https, quic });
            }
        }
        anyhow::bail!("no port is free for both TCP and UDP")
    }

    /// Where HTTP is spoken.
    pub fn http(&self) -> Result<SocketAddr> {
        self.http.local_addr().context("no address")
    }

    /// Where HTTPS and HTTP/3 are spoken.
    pub fn https(&self) -> Result<SocketAddr> {
        self.https.local_addr().context("no address")
    }

    /// Lets a command take them, and tells it to listen there.
    pub fn hand_to(&self, command: &mut Command) -> Result<()> {
        let sockets: [OwnedFd; 3] =
            [self.http.try_clone()?.into(), self.https.try_clone()?.into(), self.quic.try_clone()?.into()];
        let mappings =
            sockets.into_iter().zip(FIRST..).map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
        command.fd_mappings(mappings.collect())?;
        command.env("LISTEN_FDS", "3").env("LISTEN_FDNAMES", "http:https:https");
        command.args(["--listen", "systemd:http", "--tls-listen", "systemd:https", "--tls-self-signed"]);
        Ok(())
    }
}
