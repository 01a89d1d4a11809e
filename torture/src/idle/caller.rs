//! One caller over TLS, on a connection of its own.

use crate::secret::Secret;
use anyhow::{Context, Result, ensure};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

/// How callers come in.
#[derive(Clone)]
pub(crate) struct Connecting {
    connector: TlsConnector,
    door: SocketAddr,
}

impl Connecting {
    pub(crate) fn new(secret: &Secret, door: SocketAddr) -> Result<Self> {
        Ok(Self { connector: TlsConnector::from(Arc::new(secret.client("http/1.1")?)), door })
    }

    pub(crate) async fn caller(&self, source: IpAddr, key: &Arc<str>) -> Result<Caller> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source, 0))?;
        let stream = socket.connect(self.door).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.door.ip().into());
        let stream = self.connector.connect(name, stream).await.context("cannot shake hands")?;
        Ok(Caller { stream, key: Arc::clone(key) })
    }
}

/// An open connection.
pub(crate) struct Caller {
    stream: TlsStream<TcpStream>,
    key: Arc<str>,
}

impl Caller {
    /// Asks, and reads the whole answer.
    pub(crate) async fn ask(&mut self) -> Result<()> {
        let Self { stream, key } = self;
        let request =
            format!("GET /api/v1/ip HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.context("cannot ask")?;
        stream.flush().await?;
        let mut answer = Vec::new();
        loop {
            let read = stream.read_buf(&mut answer).await.context("cannot read an answer")?;
            ensure!(read > 0, "the connection was closed");
            if is_whole(&answer)? {
                return Ok(());
            }
        }
    }
}

fn is_whole(answer: &[u8]) -> Result<bool> {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(false) };
    let head = std::str::from_utf8(&answer[..end])?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).context("no length")?;
    Ok(answer.len() >= end + 4 + length.parse::<usize>()?)
}
