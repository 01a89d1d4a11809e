//! Connections that come to nothing, each in its own way, and come again when the server has had enough of them.

use super::attacker::Orders;
use crate::coding::{END_STREAM, HEADERS, PREFACE, SETTINGS, frame, request_block};
use anyhow::{Context, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Where they come from. Each address has fewer connections than it may.
const SOURCES: u64 = 25;
/// From one byte of a head to the next.
const DRIP: Duration = Duration::from_secs(1);
/// After a connection that could not be made.
const PAUSE: Duration = Duration::from_millis(100);
const HEAD: &[u8] = b"GET /api/v1/meta HTTP/1.1\r\nhost: localhost\r\nx-slow: ";

/// All of them.
pub(crate) struct Crowd {
    reopened: Arc<AtomicU64>,
    hushed: watch::Sender<bool>,
}

/// One of them.
struct Idler {
    source: Ipv4Addr,
    door: SocketAddr,
    beginning: Arc<[u8]>,
    drips: bool,
    reopened: Arc<AtomicU64>,
    hushed: watch::Receiver<bool>,
}

impl Crowd {
    /// Returns when all are there.
    pub(crate) async fn gather(orders: &Orders) -> Result<Self> {
        let hello = hello()?;
        let settings = frame(SETTINGS, 0, 0, &[]);
        // A head of HTTP/2 whose end never comes.
        let endless = frame(HEADERS, END_STREAM, 1, &request_block("/api/v1/meta"));
        let nothing = (orders.clear, Vec::new());
        let kinds: [(SocketAddr, Vec<u8>); 8] = [
            nothing.clone(),
            nothing,
            (orders.clear, HEAD.to_vec()),
            (orders.clear, HEAD[..1].to_vec()),
            (orders.tls, hello[..hello.len() / 2].to_vec()),
            (orders.tls, hello),
            (orders.clear, PREFACE[..PREFACE.len() - 4].to_vec()),
            (orders.clear, [PREFACE, &settings, &endless].concat()),
        ];
        let kinds = kinds.map(|(door, beginning)| (door, Arc::<[u8]>::from(beginning)));
        let crowd = Self { reopened: Arc::default(), hushed: watch::channel(false).0 };
        let (opened, mut opens) = mpsc::unbounded_channel();
        for number in 0..orders.slow_connections {
            let (door, beginning) = kinds[usize::try_from(number)? % kinds.len()].clone();
            let idler = Idler {
                source: Ipv4Addr::new(127, 0, 1, 1 + u8::try_from(number % SOURCES)?),
                door,
                drips: beginning.first() == HEAD.first(),
                beginning,
                reopened: Arc::clone(&crowd.reopened),
                hushed: crowd.hushed.subscribe(),
            };
            tokio::spawn(idler.idle(opened.clone()));
        }
        for _ in 0..orders.slow_connections {
            opens.recv().await.context("a slow connection is gone")?;
        }
        Ok(crowd)
    }

    pub(crate) fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    /// They say nothing more, and do not come again.
    pub(crate) fn hush(&self) {
        self.hushed.send_replace(true);
    }
}

impl Idler {
    async fn idle(mut self, opened: mpsc::UnboundedSender<()>) {
        let mut opened = Some(opened);
        while !*self.hushed.borrow() {
            let Ok(mut stream) = self.open().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            match opened.take() {
                Some(opened) => {
                    let _ = opened.send(());
                }
                None => {
                    self.reopened.fetch_add(1, Ordering::Relaxed);
                }
            }
            self.stay(&mut stream).await;
        }
    }

    async fn open(&self) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.source, 0).into())?;
        let mut stream = socket.connect(self.door).await?;
        stream.write_all(&self.beginning).await?;
        Ok(stream)
    }

    /// Returns when the server closes.
    async fn stay(&mut self, stream: &mut TcpStream) {
        let mut heard = [0; 1024];
        loop {
            let hushed = *self.hushed.borrow_and_update();
            tokio::select! {
                read = stream.read(&mut heard) => {
                    if !matches!(read, Ok(1..)) {
                        return;
                    }
                }
                () = tokio::time::sleep(DRIP), if self.drips && !hushed => {
                    if stream.write_all(b"s").await.is_err() {
                        return;
                    }
                }
                _ = self.hushed.changed(), if !hushed => {}
            }
        }
    }
}

/// What a client of TLS says first.
fn hello() -> Result<Vec<u8>> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let mut connection = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost")?)?;
    let mut hello = Vec::new();
    connection.write_tls(&mut hello)?;
    Ok(hello)
}
