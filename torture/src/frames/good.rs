//! A client that knows nothing of all this, and asks in every version of HTTP.

use super::quic::Caller;
use super::tcp::frames;
use crate::coding::{DATA, END_STREAM, HEADERS, PREFACE, SETTINGS, frame, request};
use anyhow::{Context, Result, anyhow, ensure};
use ipse_testkit::Connection;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What is asked for. It costs nobody anything.
pub(crate) const TARGET: &str = "/api/v1/meta";

/// Asks once in each version. All three answers must be right, and the same.
pub(crate) async fn well(address: SocketAddr, caller: &Caller, patience: Duration) -> Result<()> {
    let first = tokio::task::spawn_blocking(move || over_http1(address)).await??;
    let second = tokio::time::timeout(patience, over_http2(address)).await;
    let second = second.map_err(|_| anyhow!("no answer by HTTP/2"))??;
    let third = caller.ask(TARGET, patience).await?;
    ensure!(first == second && second == third, "the same question is answered in three ways");
    Ok(())
}

fn over_http1(address: SocketAddr) -> Result<Vec<u8>> {
    let response = Connection::open(address)?.get(TARGET, None).context("no answer by HTTP/1.1")?;
    ensure!(response.status == 200, "a good request by HTTP/1.1 is answered {}", response.status);
    let body: serde_json::Value = serde_json::from_str(&response.body)?;
    ensure!(body["status"] == "success", "a good request is answered {body}");
    Ok(response.body.into_bytes())
}

async fn over_http2(address: SocketAddr) -> Result<Vec<u8>> {
    const STATUS_200: u8 = 0x80 | 8;
    let mut stream = TcpStream::connect(address).await.context("cannot connect")?;
    let asked = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &request(1, TARGET)].concat();
    stream.write_all(&asked).await?;
    let mut received = Vec::new();
    loop {
        let read = stream.read_buf(&mut received).await?;
        ensure!(read > 0, "the connection of a good client of HTTP/2 was closed");
        let is_end = |flags| flags & END_STREAM != 0;
        if frames(&received).any(|told| told.kind == DATA && is_end(told.flags)) {
            break;
        }
    }
    let head = frames(&received).find(|told| told.kind == HEADERS).context("no head")?;
    ensure!(head.payload.first() == Some(&STATUS_200), "a good request by HTTP/2 is not answered 200");
    let body = frames(&received).filter(|told| told.kind == DATA).flat_map(|told| told.payload);
    Ok(body.copied().collect())
}
