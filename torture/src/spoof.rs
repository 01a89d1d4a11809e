//! Forged chains of forwarding headers and introductions, from peers that are trusted and peers that are not, against
//! servers of every setting: whatever is told, the address in the answer is the one that a model of the rules expects.
//!
//! The model, in `spoof/model.rs`, never sees a header: whoever writes one says what it wrote.

mod address;
mod chain;
mod conversation;
pub(crate) mod introduction;
mod model;

use crate::campaign::Options;
use crate::inside::{Inside, MadeKey, make_keys};
use anyhow::{Context, Result, anyhow, bail, ensure};
use conversation::{Conversation, Door};
use ipse_edge::{Clock, ClockHand};
use ipse_model::{BURST_WINDOW_MS, Now};
use ipse_testkit::{Connection, Random};
use model::{HOUSES, House};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpSocket;

const THREADS: usize = 4;
/// No day's quota ends the campaign.
const DAILY_LIMIT: u32 = 100_000_000;
/// A key has so much time to each of its requests, on a clock that stands still otherwise, that it is never paused: in
/// any minute there are at most 200 of them, and those of the last connection.
const MS_PER_REQUEST: u32 = 300;
/// A server that neither answers nor closes within this time hangs.
const PATIENCE: Duration = Duration::from_secs(20);
const BEGIN: Now = Now { unix_ms: 1_790_000_000_000, boot_ms: 10 * BURST_WINDOW_MS };

pub(crate) fn work(options: &Options) -> Result<String> {
    let settled = HOUSES.iter().map(Settled::start).collect::<Result<Vec<_>>>()?;
    let (next, sent, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let outcomes: Vec<Result<Tally>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (settled, next, sent, failed) = (&settled, &next, &sent, &failed);
                scope.spawn(move || {
                    let outcome = converse(options, settled, thread, next, sent, failed);
                    // The others need not go on.
                    failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    outcome
                })
            })
            .collect();
        let panicked = |_| Err(anyhow!("a thread panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    let mut tally = Tally::default();
    for outcome in outcomes {
        tally.add(&outcome?);
    }
    settled.into_iter().try_for_each(|settled| settled.inside.stop())?;
    let Tally { connections, requests, by_header, by_connection, by_introduction, unserved } = tally;
    Ok(format!(
        "{requests} requests on {connections} connections to {} servers: {by_header} callers told by a header, \
         {by_connection} by the connection alone, {by_introduction} by an introduction, {unserved} requests with a false \
         introduction unserved; 0 wrong addresses",
        HOUSES.len()
    ))
}

/// A house with a server in it.
struct Settled {
    house: &'static House,
    inside: Inside,
    hand: ClockHand,
    /// Held by whoever is in a conversation. The clock is moved when nobody is: on a busy machine a minute of it may pass before a
    /// loop has read what came, and who says nothing for so long is let go.
    conversations: RwLock<()>,
    /// One for each thread.
    keys: Vec<MadeKey>,
    _folder: TempDir,
}

impl Settled {
    fn start(house: &'static House) -> Result<Self> {
        const DOORS: &str = "127.0.0.1:0,[::]:0";
        let folder = tempfile::tempdir()?;
        let keys = make_keys(folder.path(), &[DAILY_LIMIT; THREADS])?;
        let (clock, hand) = Clock::standing_at(BEGIN);
        let settings = [
            ("listen", DOORS),
            ("proxy_listen", DOORS),
            ("client_address_header", house.setting),
            ("trusted_proxy", &house.trusted_setting()),
        ];
        let inside = Inside::start_with(folder.path(), clock, &settings)?;
        ensure!(inside.addresses.len() == 4, "{} doors instead of four", inside.addresses.len());
        Ok(Self { house, inside, hand, conversations: RwLock::default(), keys, _folder: folder })
    }

    fn door(&self, conversation: &Conversation) -> SocketAddr {
        let first = if conversation.door == Door::Clear { 0 } else { 2 };
        let port = self.inside.addresses[first + usize::from(conversation.dual)].port();
        match conversation.peer {
            IpAddr::V4(_) => (Ipv4Addr::LOCALHOST, port).into(),
            IpAddr::V6(_) => (Ipv6Addr::LOCALHOST, port).into(),
        }
    }

    /// A connection that comes from the peer's address.
    fn connect(&self, conversation: &Conversation) -> Result<TcpStream> {
        let door = self.door(conversation);
        self.inside.wait(async {
            let socket = if door.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // What a closed connection leaves of its port for a minute must not use them up.
            socket.set_reuseaddr(true)?;
            socket.bind(SocketAddr::new(conversation.peer, 0))?;
            let stream = socket.connect(door).await.context("cannot connect")?.into_std()?;
            stream.set_nonblocking(false)?;
            Ok(stream)
        })
    }
}

#[derive(Default)]
struct Tally {
    connections: u64,
    requests: u64,
    by_header: u64,
    by_connection: u64,
    by_introduction: u64,
    unserved: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.requests += other.requests;
        self.by_header += other.by_header;
        self.by_connection += other.by_connection;
        self.by_introduction += other.by_introduction;
        self.unserved += other.unserved;
    }
}

/// One thread's part: conversation after conversation, until enough requests were sent.
fn converse(
    options: &Options,
    settled: &[Settled],
    thread: usize,
    next: &AtomicU64,
    sent: &AtomicU64,
    failed: &AtomicBool,
) -> Result<Tally> {
    let mut tally = Tally::default();
    while sent.load(Ordering::Relaxed) < options.count && !failed.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        // Each conversation follows from the seed and its number, whichever thread has it; but for the key.
        let mut random = Random::new(Random::new(options.seed).next() ^ Random::new(number).next());
        let settled = random.pick(settled);
        let conversation = Conversation::invent(&mut random, settled.house, &settled.keys[thread].text);
        let requests = u32::try_from(conversation.requests.len())?;
        sent.fetch_add(requests.into(), Ordering::Relaxed);
        {
            let _nobody = settled.conversations.write().unwrap_or_else(PoisonError::into_inner);
            settled.hand.advance_ms(MS_PER_REQUEST * requests);
        }
        let _somebody = settled.conversations.read().unwrap_or_else(PoisonError::into_inner);
        let told = || {
            let House { setting, .. } = settled.house;
            let trusted = settled.house.trusted_setting();
            format!("conversation {number} from {} with {setting}, trusting {trusted}", conversation.peer)
        };
        match &conversation.callers {
            Some(callers) => served(settled, &conversation, callers, &mut tally).with_context(told)?,
            None => unserved(settled, &conversation).with_context(told)?,
        }
        tally.connections += 1;
        tally.requests += u64::from(requests);
        tally.unserved += if conversation.callers.is_none() { requests.into() } else { 0 };
    }
    Ok(tally)
}

/// Sends everything at once, and compares each answer with who must have asked.
fn served(
    settled: &Settled,
    conversation: &Conversation,
    callers: &[IpAddr],
    tally: &mut Tally,
) -> Result<()> {
    let mut connection = Connection::over(settled.connect(conversation)?)?;
    connection.send(&[&conversation.introduction[..], &conversation.requests.concat()].concat())?;
    for (request, caller) in conversation.requests.iter().zip(callers) {
        let told = || {
            let introduced = conversation.introduction.escape_ascii();
            format!("{caller} asks: introduction {introduced}, request {}", request.escape_ascii())
        };
        let response = connection.receive().with_context(told)?;
        ensure!(response.status == 200, "{} {}: {}", response.status, response.body, told());
        let body: serde_json::Value = serde_json::from_str(&response.body).with_context(told)?;
        let text = caller.to_string();
        let (ip, ipv6) = if caller.is_ipv4() { (Some(&*text), None) } else { (None, Some(&*text)) };
        let found = (body["ip"].as_str(), body["ipv6"].as_str());
        ensure!(found == (ip, ipv6), "a wrong address, {found:?}: {}", told());
        ensure!(
            body["ip"].is_null() != body["ipv6"].is_null(),
            "not one address: {}: {}",
            response.body,
            told()
        );
        let by = if *caller != conversation.speaker {
            &mut tally.by_header
        } else if *caller == conversation.peer {
            &mut tally.by_connection
        } else {
            &mut tally.by_introduction
        };
        *by += 1;
    }
    Ok(())
}

/// Nobody is answered who comes without a true introduction, or with one to where none is asked for.
fn unserved(settled: &Settled, conversation: &Conversation) -> Result<()> {
    let mut stream = settled.connect(conversation)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let said = [&conversation.introduction[..], &conversation.requests.concat()].concat();
    let mut received = Vec::new();
    let ended = stream
        .write_all(&said)
        .and_then(|()| stream.shutdown(Shutdown::Write))
        .and_then(|()| stream.read_to_end(&mut received).map(|_| ()));
    match ended {
        Ok(()) => {}
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected
            ) => {}
        Err(error) => bail!("the server neither answers nor closes: {error}: {}", said.escape_ascii()),
    }
    // At a clear door an introduction is refused as the bad request that it is.
    let is_refusal =
        received.is_empty() || (conversation.door == Door::Clear && received.starts_with(b"HTTP/1.1 400 "));
    ensure!(is_refusal, "{} is answered {}", said.escape_ascii(), received.escape_ascii());
    let answers = String::from_utf8_lossy(&received).matches("HTTP/1.1 ").count();
    ensure!(answers <= 1, "{} is answered {answers} times", said.escape_ascii());
    Ok(())
}
