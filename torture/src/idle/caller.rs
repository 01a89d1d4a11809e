//! One caller over TLS, on a connection of its own.

use anyhow::{Context, Result, ensure};
use rcgen::generate_simple_self_signed;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};

/// The certificate of the server, and how callers trust it.
pub(crate) struct Secret {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    connector: TlsConnector,
}

impl Secret {
    pub(crate) fn make(folder: &Path) -> Result<Self> {
        let made = generate_simple_self_signed(vec![Ipv4Addr::LOCALHOST.to_string()])?;
        let (certificate, key) = (folder.join("it.pem"), folder.join("it.key"));
        std::fs::write(&certificate, made.cert.pem())?;
        std::fs::write(&key, made.signing_key.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone())?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { certificate, key, connector: TlsConnector::from(Arc::new(config)) })
    }
}

/// An open connection.
pub(crate) struct Caller {
    stream: TlsStream<TcpStream>,
    key: Arc<str>,
}

impl Caller {
    pub(crate) async fn connect(
        secret: &Secret,
        source: IpAddr,
        door: SocketAddr,
        key: &Arc<str>,
    ) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source, 0))?;
        let stream = socket.connect(door).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(door.ip().into());
        let stream = secret.connector.connect(name, stream).await.context("cannot shake hands")?;
        Ok(Self { stream, key: Arc::clone(key) })
    }

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
