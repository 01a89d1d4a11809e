//! A client that asks at a steady pace, and notes how long it took.

use crate::inside::MadeKey;
use anyhow::{Context, Result, anyhow, ensure};
use ipse_testkit::{Connection, Stopwatch};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What is asked for without a key. It costs nobody anything.
const META: &str = "/api/v1/meta";
const LOOKUP: &str = "/api/v1/ip";
const CLIENTS: u32 = 4;
/// Of each: 200 requests a second in all.
const PERIOD: Duration = Duration::from_millis(20);
/// One of so many comes on a connection of its own.
const FRESH_ONE_IN: u64 = 10;
/// Each is asked with 200 times a minute, of 300 that are allowed.
const KEYS: usize = 60;

pub(crate) struct Client<'a> {
    address: SocketAddr,
    /// What lookups are asked for with, if they are.
    keys: &'a [MadeKey],
    clock: Stopwatch,
    stopped: AtomicBool,
}

/// The limits of the keys to ask with; no day's quota ends a campaign.
pub(crate) fn daily_limits() -> Vec<u32> {
    vec![10_000_000; KEYS]
}

impl<'a> Client<'a> {
    /// Asks without a key, and for no lookup.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self::with_keys(address, &[])
    }

    /// Asks for lookups with these keys in turn; they have to be as many as [`daily_limits`] says.
    pub(crate) fn with_keys(address: SocketAddr, keys: &'a [MadeKey]) -> Self {
        Self { address, keys, clock: Stopwatch::start(), stopped: AtomicBool::new(false) }
    }

    /// Asks for so long, and says how many microseconds each request took.
    pub(crate) fn ask_for(&self, lasting: Duration) -> Result<Vec<u64>> {
        let waiting = || {
            std::thread::sleep(lasting);
            Ok(())
        };
        Ok(self.ask_while(waiting)?.0)
    }

    /// Asks while something else is done, and says how many microseconds each request took.
    pub(crate) fn ask_while<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(Vec<u64>, T)> {
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || self.ask(number))).collect();
            let done = work();
            self.stopped.store(true, Ordering::SeqCst);
            let mut micros = Vec::new();
            for client in clients {
                micros.extend(client.join().map_err(|_| anyhow!("a good client panicked"))??);
            }
            Ok((micros, done?))
        })
    }

    fn ask(&self, number: u32) -> Result<Vec<u64>> {
        let mut connection = Connection::open(self.address)?;
        let mut micros = Vec::new();
        let mut planned = self.clock.elapsed() + PERIOD * number / CLIENTS;
        let mut answered = planned;
        let mut keys =
            self.keys.iter().skip(usize::try_from(number)?).step_by(usize::try_from(CLIENTS)?).cycle();
        for turn in u64::from(number).. {
            if self.stopped.load(Ordering::SeqCst) {
                break;
            }
            planned += PERIOD;
            std::thread::sleep(planned.saturating_sub(self.clock.elapsed()));
            // A request that could not be sent in time because the last one was slow has waited as well.
            let begin = if answered > planned { planned } else { self.clock.elapsed() };
            let key = keys.next().map(|key| key.text.as_str());
            let target = if key.is_some() { LOOKUP } else { META };
            let response = if turn.is_multiple_of(FRESH_ONE_IN) {
                Connection::open(self.address).and_then(|mut fresh| fresh.get(target, key))
            } else {
                connection.get(target, key)
            };
            let response = response.context("a good request was not answered")?;
            answered = self.clock.elapsed();
            ensure!(
                response.status == 200,
                "a good request was answered {}: {}",
                response.status,
                response.body
            );
            micros.push(u64::try_from((answered - begin).as_micros())?);
        }
        Ok(micros)
    }
}
