//! Slow connections by the thousand and requests that are called off at once, together: whoever asks well hardly notices.
//!
//! The attackers are a process of their own with the lowest priority. They are on the same machine, and otherwise it
//! would be measured how much processor time they take from the server as neighbours, not what they do to it.

mod attacker;
mod resets;
mod slow;

pub(crate) use attacker::{ATTACKER, attack};

use crate::campaign::Options;
use crate::paced::Client;
use crate::server;
use crate::steady::Figures;
use anyhow::{Result, ensure};
use attacker::{Attackers, Orders};
use ipse_testkit::vitals::{allow_descriptors, descriptors};
use ipse_testkit::{Random, Server, Stopwatch};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};

/// With fewer resets than these the campaign is the short one, which holds no time to a target.
const FULL_RESETS: u64 = 100_000;
/// How much slower the hundredth request may be than before.
const MOST_TIMES_SLOWER: f64 = 2.0;
/// Whom the server lets go of last is a connection that stalls within HTTP/2, after a minute.
const LET_GO_WITHIN: Duration = Duration::from_secs(75);
/// Descriptors that come and go: of a database, and of a good client.
const OTHER_DESCRIPTORS: usize = 16;
/// From where somebody opens more connections than one may.
const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 3, 1);
const PATIENCE: Duration = Duration::from_secs(20);

/// How large it is.
struct Size {
    slow_connections: u64,
    /// Before and during, so often in turn: a noisy machine is noisy in both.
    rounds: u64,
    calm: Duration,
    /// At least; it goes on until all resets of the round were sent.
    flood: Duration,
    connections_per_address: usize,
}

const FULL: Size = Size {
    slow_connections: 5_000,
    rounds: 3,
    calm: Duration::from_secs(10),
    flood: Duration::from_secs(20),
    connections_per_address: 256,
};

const SHORT: Size = Size {
    slow_connections: 100,
    rounds: 1,
    calm: Duration::from_millis(300),
    flood: Duration::from_millis(700),
    connections_per_address: 16,
};

pub(crate) fn work(options: &Options) -> Result<String> {
    let is_full = options.count >= FULL_RESETS;
    let size = if is_full { FULL } else { SHORT };
    // The server has one for each connection, and so has the attacker.
    allow_descriptors(size.slow_connections + 2_000)?;
    let folder = tempfile::tempdir()?;
    let mut command = ipse_testkit::program(server::program()?);
    command.args(["serve", "--tls-listen", "127.0.0.1:0", "--tls-self-signed", "--trusted-proxy", "none"]);
    command.args(["--max-connections", "10000", "--max-connections-per-address"]);
    command.arg(size.connections_per_address.to_string());
    let mut server = server::start_with(command, folder.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut random = Random::new(options.seed);
    // The first requests find the server cold.
    Client::new(server.address).ask_for(size.calm / 2)?;
    let base = descriptors(&server)?;
    let (mut before, mut during) = (Vec::new(), Vec::new());
    let mut tally = attacker::Tally::default();
    let mut let_go_after = 0.0;
    for round in 1..=size.rounds {
        before.push(Client::new(server.address).ask_for(size.calm)?);
        let orders = Orders {
            clear: server.address,
            tls: server.https()?,
            slow_connections: size.slow_connections,
            resets: options.count * round / size.rounds - options.count * (round - 1) / size.rounds,
            lasting: size.flood,
            seed: random.next() >> 1,
        };
        let mut attackers = Attackers::start(&orders)?;
        // Some may still wait in the kernel's queue.
        wait_for_descriptors(&server, "too few descriptors are open for the slow connections", |open| {
            open as u64 >= size.slow_connections
        })?;
        let (asked, done) = Client::new(server.address).ask_while(|| {
            runtime.block_on(is_greed_refused(server.address, size.connections_per_address))?;
            attackers.wait()
        })?;
        during.push(asked);
        tally.add(&done);
        let watch = Stopwatch::start();
        if is_full && round == size.rounds {
            // They say nothing more and stay: the server has to let go of them by itself.
            attackers.hush()?;
            all_let_go(&server, base)?;
            let_go_after = watch.seconds();
            attackers.leave()?;
        } else {
            attackers.leave()?;
            all_let_go(&server, base)?;
        }
    }
    let ended = server.process.try_wait()?;
    ensure!(ended.is_none(), "the server ended: {ended:?}");
    let p99 = |rounds: &[Vec<u64>]| middle(rounds.iter().map(|micros| Figures::of(micros).p99_ms).collect());
    let slower = p99(&during) / p99(&before).max(f64::MIN_POSITIVE);
    let each = |rounds: &[Vec<u64>]| {
        let lines: Vec<String> = rounds.iter().map(|micros| Figures::of(micros).to_string()).collect();
        lines.join("; ")
    };
    let let_go =
        if is_full { format!("; let go of everybody after {let_go_after:.0} s") } else { String::new() };
    let figure = format!(
        "{} slow connections, opened again {} times, and {} resets on {} connections, in {} rounds: every good request \
         answered\n  before {}\n  during {}\n  p99 {slower:.2} times{let_go}",
        size.slow_connections,
        tally.reopened,
        tally.resets,
        tally.connections,
        size.rounds,
        each(&before),
        each(&during)
    );
    ensure!(!is_full || slower <= MOST_TIMES_SLOWER, "good clients wait too long: {figure}");
    Ok(figure)
}

/// The one in the middle by size.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Opens more connections from one address than it may have: those beyond are closed, and no others.
async fn is_greed_refused(server: SocketAddr, limit: usize) -> Result<()> {
    let mut streams = Vec::new();
    for _ in 0..limit + limit / 4 {
        let socket = TcpSocket::new_v4()?;
        socket.bind((GREEDY, 0).into())?;
        // Who is closed on at once may find that out while connecting.
        streams.push(socket.connect(server).await.ok());
    }
    let is_open = |stream: &Option<TcpStream>| {
        let read = stream.as_ref().map(|stream| stream.try_read(&mut [0]));
        matches!(read, Some(Err(error)) if error.kind() == ErrorKind::WouldBlock)
    };
    // Two loops accept, so it is not always the last ones that are closed.
    let watch = Stopwatch::start();
    loop {
        let open = streams.iter().filter(|stream| is_open(stream)).count();
        ensure!(open >= limit, "one address may not have {limit} connections, only {open}");
        if open == limit {
            return Ok(());
        }
        ensure!(watch.elapsed() < PATIENCE, "one address has {open} connections, more than {limit}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn all_let_go(server: &Server, base: usize) -> Result<()> {
    let otherwise = format!("descriptors are still open after the flood, and {base} were before");
    wait_for_descriptors(server, &otherwise, |open| open <= base + OTHER_DESCRIPTORS)
}

fn wait_for_descriptors(server: &Server, otherwise: &str, is_right: impl Fn(usize) -> bool) -> Result<()> {
    let watch = Stopwatch::start();
    loop {
        let open = descriptors(server)?;
        if is_right(open) {
            return Ok(());
        }
        ensure!(watch.elapsed() < LET_GO_WITHIN, "{otherwise}: {open}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
