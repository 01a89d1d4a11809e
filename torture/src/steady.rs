//! Clients that ask at a steady pace, compare every answer with the snapshots, and note how long it took.

use crate::inside::MadeKey;
use crate::snapshots::Snapshot;
use anyhow::{Context, Result, ensure};
use ipse_edge::Clock;
use ipse_model::Address;
use ipse_testkit::{Connection, Random, Stopwatch};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const CLIENTS: usize = 6;
/// Of each client: 300 requests a second in all.
const PERIOD: Duration = Duration::from_millis(20);
/// Each is asked for 150 times a minute, half of what is allowed.
const KEYS: usize = 120;
const PHASES: usize = 3;

/// What happens while requests are asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Something that is not measured.
    Other,
    /// Nothing.
    Calm,
    /// A good snapshot is read.
    Reload,
}

/// What all clients share.
pub(crate) struct Steady<'a> {
    address: SocketAddr,
    snapshots: &'a [Snapshot],
    clock: Stopwatch,
    /// The phase in the lowest byte; above it a bit for each snapshot that may be served.
    state: AtomicU64,
    stopped: AtomicBool,
    failed: AtomicBool,
}

/// How long requests took, in microseconds, by phase.
#[derive(Default)]
pub(crate) struct Latencies([Vec<u64>; PHASES]);

/// What is said of the requests of one phase.
pub(crate) struct Figures {
    count: usize,
    p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

/// The limits of the keys to ask with; no day's quota ends a campaign.
pub(crate) fn daily_limits() -> Vec<u32> {
    vec![10_000_000; KEYS]
}

impl<'a> Steady<'a> {
    /// The first snapshot is served.
    pub(crate) fn new(address: SocketAddr, snapshots: &'a [Snapshot]) -> Self {
        Self {
            address,
            snapshots,
            clock: Stopwatch::start(),
            state: AtomicU64::new(state(Phase::Other, &[0])),
            stopped: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    /// From now on it is this phase, and answers may come from these snapshots.
    pub(crate) fn enter(&self, phase: Phase, allowed: &[usize]) {
        self.state.store(state(phase, allowed), Ordering::SeqCst);
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// One client's part, until it is stopped.
    pub(crate) fn ask(&self, number: usize, keys: &[MadeKey], mut random: Random) -> Result<Latencies> {
        let keys: Vec<&MadeKey> = keys.iter().skip(number).step_by(CLIENTS).collect();
        let mut latencies = Latencies::default();
        let outcome = self.ask_on(number, &keys, &mut random, &mut latencies);
        self.failed.fetch_or(outcome.is_err(), Ordering::SeqCst);
        outcome.map(|()| latencies)
    }

    fn ask_on(
        &self,
        number: usize,
        keys: &[&MadeKey],
        random: &mut Random,
        latencies: &mut Latencies,
    ) -> Result<()> {
        let mut connection = Connection::open(self.address)?;
        let wall = Clock::system();
        let mut planned = self.clock.elapsed() + PERIOD * u32::try_from(number)? / u32::try_from(CLIENTS)?;
        let mut answered = planned;
        for key in keys.iter().cycle() {
            if self.stopped.load(Ordering::SeqCst) {
                break;
            }
            planned += PERIOD;
            std::thread::sleep(planned.saturating_sub(self.clock.elapsed()));
            let ip = any_global(random);
            let request = format!(
                "GET /api/v1/ip HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nx-forwarded-for: {ip}\r\n\r\n",
                key.text
            );
            let before = self.state.load(Ordering::SeqCst);
            // A request that could not be sent in time because the last one was slow has waited as well.
            let begin = if answered > planned { planned } else { self.clock.elapsed() };
            connection.send(request.as_bytes())?;
            let response = connection.receive().context("a request was not answered")?;
            answered = self.clock.elapsed();
            let after = self.state.load(Ordering::SeqCst);
            ensure!(response.status == 200, "a request was answered {}: {}", response.status, response.body);
            let now = wall.now();
            let right = self.snapshots.iter().enumerate().any(|(index, snapshot)| {
                (before | after) & bit(index) != 0 && snapshot.body(ip, now) == response.body.as_bytes()
            });
            ensure!(
                right,
                "an answer is of no snapshot that may be served (states {before:#x} and {after:#x}, {} ms): {}",
                (answered - begin).as_millis(),
                response.body
            );
            latencies.note(before, after, answered - begin)?;
        }
        Ok(())
    }
}

impl Latencies {
    fn note(&mut self, before: u64, after: u64, lasted: Duration) -> Result<()> {
        let is = |state: u64, phase: Phase| state & 0xff == phase as u64;
        // A request that met any part of a reload belongs to it.
        let phase = if is(before, Phase::Reload) || is(after, Phase::Reload) {
            Phase::Reload
        } else if is(before, Phase::Calm) && is(after, Phase::Calm) {
            Phase::Calm
        } else {
            Phase::Other
        };
        self.0[phase as usize].push(u64::try_from(lasted.as_micros())?);
        Ok(())
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(ours, theirs)| ours.extend(theirs));
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    pub(crate) fn figures(&self, phase: Phase) -> Figures {
        Figures::of(&self.0[phase as usize])
    }
}

impl Figures {
    /// Of requests that took so many microseconds.
    #[expect(clippy::cast_precision_loss, reason = "microseconds of requests")]
    pub(crate) fn of(micros: &[u64]) -> Self {
        let mut sorted = micros.to_vec();
        sorted.sort_unstable();
        let at = |hundredths: usize| {
            let index = (sorted.len() * hundredths / 100).min(sorted.len().saturating_sub(1));
            sorted.get(index).map_or(0.0, |micros| *micros as f64 / 1e3)
        };
        Self { count: sorted.len(), p50_ms: at(50), p99_ms: at(99), max_ms: at(100) }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, p50_ms, p99_ms, max_ms } = self;
        write!(f, "p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms, at most {max_ms:.2} ms ({count} requests)")
    }
}

fn state(phase: Phase, allowed: &[usize]) -> u64 {
    allowed.iter().fold(phase as u64, |state, index| state | bit(*index))
}

fn bit(index: usize) -> u64 {
    0x100 << index
}

/// Any address that somebody on the internet could have.
fn any_global(random: &mut Random) -> IpAddr {
    loop {
        let ip: IpAddr = if random.below(4) == 0 {
            let network = *random.pick(&[0x2001u16, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2c00, 0x2a02, 0x2409]);
            let rest = (u128::from(random.next()) << 64 | u128::from(random.next())) >> 16;
            Ipv6Addr::from(u128::from(network) << 112 | rest).into()
        } else {
            let [a, b, c, d, ..] = random.next().to_le_bytes();
            Ipv4Addr::new(a, b, c, d).into()
        };
        if Address::new(ip).is_global() {
            return ip;
        }
    }
}
