//! A client that asks at a steady pace, and notes how long it took.

use crate::stopwatch::Stopwatch;
use anyhow::{Context, Result, anyhow, ensure};
use ipse_testkit::Connection;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What is asked for. It costs nobody anything.
const TARGET: &str = "/api/v1/meta";
const CLIENTS: u32 = 4;
/// Of each: 200 requests a second in all.
const PERIOD: Duration = Duration::from_millis(20);
/// One of so many comes on a connection of its own.
const FRESH_ONE_IN: u64 = 10;

pub(crate) struct Client {
    address: SocketAddr,
    clock: Stopwatch,
    stopped: AtomicBool,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, clock: Stopwatch::start(), stopped: AtomicBool::new(false) }
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
        for turn in u64::from(number).. {
            if self.stopped.load(Ordering::SeqCst) {
                break;
            }
            planned += PERIOD;
            std::thread::sleep(planned.saturating_sub(self.clock.elapsed()));
            // A request that could not be sent in time because the last one was slow has waited as well.
            let begin = if answered > planned { planned } else { self.clock.elapsed() };
            let response = if turn.is_multiple_of(FRESH_ONE_IN) {
                Connection::open(self.address).and_then(|mut fresh| fresh.get(TARGET, None))
            } else {
                connection.get(TARGET, None)
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
