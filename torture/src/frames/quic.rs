//! Conversations of HTTP/3 over QUIC.

use super::Said;
use super::http2::Parting;
use super::http3::{Answer, Conversation, Direction, End, Stream};
use crate::secret::Secret;
use anyhow::{Context, Result, anyhow, bail, ensure};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, TransportConfig, VarInt};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// How long a stream may take to be opened, and something to be written on it. A server that has had enough of somebody
/// lets them wait.
const BRIEFLY: Duration = Duration::from_millis(500);
/// The datagram with which a server ends a connection may be lost. Who goes on to say something is told again.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
const LONGEST_ANSWER: usize = 4 * 1024 * 1024;
/// So much of an answer fits into the window of somebody who has no room.
const STINGY_WINDOW: u32 = 10;
const NO_ERROR: u32 = 0x100;
const REQUEST_CANCELLED: u32 = 0x10c;

/// Where conversations begin.
pub(crate) struct Caller {
    endpoint: Endpoint,
    server: SocketAddr,
    open: ClientConfig,
    /// Lets the server open no stream, and send next to nothing.
    stingy: ClientConfig,
}

/// A connection that stays open though nothing is said any more.
pub(crate) struct Silent {
    _connection: Connection,
    _streams: Vec<Kept>,
}

/// What is left of a stream, so that it does not end by itself.
type Kept = (Option<SendStream>, Option<RecvStream>);

impl Caller {
    /// Must be called within a runtime.
    pub(crate) fn new(secret: &Secret, server: SocketAddr) -> Result<Self> {
        let tls = QuicClientConfig::try_from(secret.client("h3")?)?;
        let mut open = ClientConfig::new(Arc::new(tls));
        let mut transport = TransportConfig::default();
        transport.keep_alive_interval(Some(KEEP_ALIVE));
        open.transport_config(Arc::new(transport));
        let mut stingy = open.clone();
        let mut transport = TransportConfig::default();
        transport.keep_alive_interval(Some(KEEP_ALIVE));
        transport.max_concurrent_uni_streams(VarInt::from_u32(0));
        transport.stream_receive_window(VarInt::from_u32(STINGY_WINDOW));
        stingy.transport_config(Arc::new(transport));
        let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { endpoint, server, open, stingy })
    }

    async fn connect(&self, config: &ClientConfig, patience: Duration) -> Result<Connection> {
        let name = self.server.ip().to_string();
        let connecting = self.endpoint.connect_with(config.clone(), self.server, &name)?;
        let connected = tokio::time::timeout(patience, connecting).await;
        connected.map_err(|_| anyhow!("the server does not shake hands"))?.context("cannot connect by QUIC")
    }

    /// Sends everything for as long as the server listens, and judges what comes back.
    pub(crate) async fn converse(
        &self,
        conversation: &Conversation,
        patience: Duration,
    ) -> Result<(Said, Option<Silent>)> {
        let config = if conversation.stingy { &self.stingy } else { &self.open };
        let connection = self.connect(config, patience).await?;
        let mut said = Said { connections: 1, ..Said::default() };
        let mut kept = Vec::new();
        for streams in [&conversation.streams, &conversation.offence] {
            let expected = say(&connection, streams, &mut said, &mut kept).await?;
            if conversation.parting == Parting::Abrupt || conversation.stingy {
                continue;
            }
            for receiver in expected {
                said.answers += u64::from(is_answered(receiver, patience).await?);
            }
        }
        Ok(match conversation.parting {
            Parting::Never => (said, Some(Silent { _connection: connection, _streams: kept })),
            Parting::Polite | Parting::Abrupt => {
                connection.close(VarInt::from_u32(NO_ERROR), b"");
                (said, None)
            }
        })
    }

    /// Says goodbye on every connection that is left.
    pub(crate) async fn leave(&self) {
        self.endpoint.close(VarInt::from_u32(NO_ERROR), b"");
        let _ = tokio::time::timeout(BRIEFLY, self.endpoint.wait_idle()).await;
    }

    /// Asks as a client that knows nothing of all this, and returns the body of an answer that is 200.
    pub(crate) async fn ask(&self, path: &str, patience: Duration) -> Result<Vec<u8>> {
        let connection = self.connect(&self.open, patience).await?;
        let asking = async {
            let mut control = connection.open_uni().await?;
            control.write_all(&super::http3::introduction()).await?;
            let (mut sender, mut receiver) = connection.open_bi().await?;
            sender.write_all(&super::http3::good_request(path)).await?;
            sender.finish()?;
            let received = receiver.read_to_end(LONGEST_ANSWER).await?;
            connection.close(VarInt::from_u32(NO_ERROR), b"");
            anyhow::Ok(received)
        };
        let received = tokio::time::timeout(patience, asking).await;
        let received = received.map_err(|_| anyhow!("no answer by HTTP/3"))??;
        let (status, body) = answer(&received)?;
        ensure!(status == Status::Ok, "a good request by HTTP/3 is answered {status:?}");
        Ok(body)
    }
}

/// Opens one stream after the other and says what belongs there. Returns those on which an answer is expected.
async fn say(
    connection: &Connection,
    streams: &[Stream],
    said: &mut Said,
    kept: &mut Vec<Kept>,
) -> Result<Vec<RecvStream>> {
    let mut expected = Vec::new();
    for stream in streams {
        let Some((mut sender, mut receiver)) = open(connection, stream.direction).await else {
            match stream.direction {
                // It lets nobody ask, or is gone.
                Direction::Both => break,
                Direction::Outward => continue,
            }
        };
        said.frames += write(&mut sender, stream).await;
        // A stream that the server stopped has no end any more, and no answer.
        let sender = match stream.end {
            End::Open => Some(sender),
            End::Finished => {
                let _ = sender.finish();
                None
            }
            End::Reset(code) => {
                let _ = sender.reset(VarInt::from_u64(code)?);
                None
            }
        };
        match (stream.answer, receiver.as_mut()) {
            (Answer::Expected, Some(_)) => expected.extend(receiver.take()),
            (Answer::Refused, Some(receiver)) => {
                let _ = receiver.stop(VarInt::from_u32(REQUEST_CANCELLED));
            }
            _ => {}
        }
        kept.push((sender, receiver));
    }
    Ok(expected)
}

/// Opens a stream if the server allows it soon. Without a way back there is nothing to receive.
async fn open(connection: &Connection, direction: Direction) -> Option<(SendStream, Option<RecvStream>)> {
    match direction {
        Direction::Both => {
            let (sender, receiver) = tokio::time::timeout(BRIEFLY, connection.open_bi()).await.ok()?.ok()?;
            Some((sender, Some(receiver)))
        }
        // Those that are ignored are not given back for long, so nobody waits for another.
        Direction::Outward => tokio::select! {
            biased;
            sender = connection.open_uni() => Some((sender.ok()?, None)),
            () = std::future::ready(()) => None,
        },
    }
}

/// Writes what belongs on a stream, up to where the server stops it. Says how many frames were taken.
async fn write(sender: &mut SendStream, stream: &Stream) -> u64 {
    let mut taken = 0;
    for frame in &stream.frames {
        match tokio::time::timeout(BRIEFLY, sender.write_all(frame)).await {
            Ok(Ok(())) => taken += 1,
            _ => break,
        }
    }
    taken
}

/// Whether a good request was answered; it is not if somebody else's fault took the connection away.
async fn is_answered(mut receiver: RecvStream, patience: Duration) -> Result<bool> {
    match tokio::time::timeout(patience, receiver.read_to_end(LONGEST_ANSWER)).await {
        Err(_) => bail!("a good request by HTTP/3 is neither answered nor refused"),
        Ok(Err(_)) => Ok(false),
        Ok(Ok(received)) if received.is_empty() => Ok(false),
        Ok(Ok(received)) => {
            let (status, _) = answer(&received)?;
            ensure!(status != Status::InternalError, "an answer of HTTP/3 is 500");
            Ok(true)
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Status {
    Ok,
    InternalError,
    Other,
}

/// Reads the frames of an answer: a head, and a body.
fn answer(received: &[u8]) -> Result<(Status, Vec<u8>)> {
    // Without a table of its own a server begins each head with two zeros; then comes the status, which the static table
    // has as entries 25 and 71.
    const STATUS_200: &[u8] = &[0, 0, 0xc0 | 25];
    const STATUS_500: &[u8] = &[0, 0, 0xff, 71 - 63];
    let (mut status, mut body) = (None, Vec::new());
    let mut rest = received;
    while !rest.is_empty() {
        let kind = number(&mut rest).context("a frame without a kind")?;
        let length = number(&mut rest).and_then(|length| usize::try_from(length).ok());
        let payload = length.and_then(|length| rest.split_off(..length)).context("a frame that is cut")?;
        match kind {
            0 => body.extend_from_slice(payload),
            1 if payload.starts_with(STATUS_200) => status = Some(Status::Ok),
            1 if payload.starts_with(STATUS_500) => status = Some(Status::InternalError),
            1 => status = Some(Status::Other),
            _ => {}
        }
    }
    Ok((status.context("an answer without a head")?, body))
}

/// Takes a number as QUIC writes it from the beginning.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let first = *rest.first()?;
    let bytes = rest.split_off(..1 << (first >> 6))?;
    let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some(value & (u64::MAX >> (66 - 8 * bytes.len())))
}
