//! Conversations of HTTP/2 over TCP.

use super::http2::{Conversation, Parting};
use super::{Said, Told};
use crate::coding::{GOAWAY, HEADERS, RST_STREAM};
use crate::hostile::{is_end, judge_frames};
use anyhow::{Context, Result, anyhow};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;

/// A connection that stays open though nothing is said any more.
pub(crate) struct Silent {
    _reader: OwnedReadHalf,
    _writer: OwnedWriteHalf,
}

/// Sends everything for as long as the server listens, and judges what comes back.
pub(crate) async fn converse(
    address: SocketAddr,
    conversation: &Conversation,
    patience: Duration,
) -> Result<(Said, Option<Silent>)> {
    let stream = TcpStream::connect(address).await.context("cannot connect")?;
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.into_split();
    let mut said = Said::default();
    let mut received = Vec::new();
    let (heard_out, farewell) = oneshot::channel();
    let exchange = async {
        // Who reads nothing while the server answers a flood soon cannot write any more.
        let writing = async {
            for frames in conversation.frames.chunks(conversation.per_write) {
                match writer.write_all(&frames.concat()).await {
                    Ok(()) => said.frames += frames.len() as u64,
                    Err(error) if is_end(&error) => break,
                    Err(error) => return Err(error).context("the server takes no more bytes"),
                }
            }
            if conversation.parting == Parting::Polite {
                // What was asked is not answered any more once nothing can follow. The server may be gone already.
                let _ = farewell.await;
                let _ = writer.shutdown().await;
            }
            Ok(())
        };
        let listening = async {
            let mut heard_out = Some(heard_out);
            loop {
                if conversation.farewell.is_none_or(|stream| is_settled(&received, stream)) {
                    heard_out.take().map(|heard_out| heard_out.send(()));
                }
                match reader.read_buf(&mut received).await {
                    Ok(0) => return Ok(()),
                    Ok(_) => {}
                    Err(error) if is_end(&error) => return Ok(()),
                    Err(error) => return Err(error).context("cannot read"),
                }
            }
        };
        if conversation.parting == Parting::Polite {
            let (written, heard) = tokio::join!(writing, listening);
            return written.and(heard);
        }
        tokio::select! {
            written = writing => written,
            // The server has closed, and the rest cannot be said.
            heard = listening => heard,
        }
    };
    match tokio::time::timeout(patience, exchange).await {
        Ok(done) => done?,
        Err(_) => return Err(anyhow!("the server neither answers nor closes")),
    }
    judge_frames(&received)?;
    said.connections = 1;
    said.answers = answers(&received);
    let stays = conversation.parting == Parting::Never;
    Ok((said, stays.then_some(Silent { _reader: reader, _writer: writer })))
}

/// How many answers begin in what came back.
fn answers(received: &[u8]) -> u64 {
    frames(received).filter(|told| told.kind == HEADERS).count() as u64
}

/// Whether a request was answered or refused.
fn is_settled(received: &[u8], stream: u32) -> bool {
    let of_it = |told: &Told| told.stream == stream && [HEADERS, RST_STREAM].contains(&told.kind);
    frames(received).any(|told| of_it(&told) || told.kind == GOAWAY)
}

/// The frames in what came back, up to the first that is not whole.
pub(crate) fn frames(received: &[u8]) -> impl Iterator<Item = Told<'_>> {
    let mut rest = received;
    std::iter::from_fn(move || {
        let (head, after) = rest.split_at_checked(9)?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (payload, next) = after.split_at_checked(length)?;
        rest = next;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Told { kind: head[3], flags: head[4], stream, payload })
    })
}
