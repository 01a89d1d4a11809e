//! Guesses at one account: in parallel, several on a connection, from one place and from thousands, with cookies of devices
//! that are forged or belong to somebody else.

use super::form::{Form, Sender};
use super::people::{SecondFactor, anywhere};
use anyhow::{Context, Result, anyhow, bail};
use ipse_testkit::{Connection, Random, Response, Stopwatch};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const THREADS: u64 = 8;
/// The one place from which a third of all guesses comes.
pub(crate) const ONE_PLACE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// And one network of IPv6, with more addresses than anybody can count.
const ONE_NETWORK: u128 = 0x2001_0db8_ffff_ffff << 64;
/// The others come from so many.
const PLACES: u64 = 5_000;
/// On one connection.
const MOST_GUESSES: u64 = 100;
/// Sent without waiting for an answer in between.
const MOST_AT_ONCE: u64 = 8;
const PASSWORDS: [&str; 5] = ["123456", "password", "four words in a ro", "Four words in a row", "letmein!"];

/// What is guessed.
#[derive(Clone, Copy)]
pub(crate) enum Aim<'a> {
    /// The password of whoever has this address, if anybody has.
    Password { email: &'a str },
    /// The code of an account whose password is known.
    Code(&'a SecondFactor),
}

/// How it is gone about.
pub(crate) struct Attack<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) form: Form,
    pub(crate) aim: Aim<'a>,
    /// A good mark of a device, of another account.
    pub(crate) foreign_mark: &'a str,
    pub(crate) guesses: u64,
    /// Over which they are spread.
    pub(crate) lasting: Duration,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Tally {
    /// Guesses that were looked at, and found wrong.
    pub(crate) evaluated: u64,
    /// Those that came too early.
    pub(crate) refused: u64,
    pub(crate) connections: u64,
}

impl Attack<'_> {
    /// Returns when all guesses were answered.
    pub(crate) fn run(&self, random: &mut Random) -> Result<Tally> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let share = self.guesses * (number + 1) / THREADS - self.guesses * number / THREADS;
                    let random = Random::new(random.next());
                    scope.spawn(move || self.guess(share, random))
                })
                .collect();
            let mut tally = Tally::default();
            for thread in threads {
                let Tally { evaluated, refused, connections } =
                    thread.join().map_err(|_| anyhow!("a guesser panicked"))??;
                tally.evaluated += evaluated;
                tally.refused += refused;
                tally.connections += connections;
            }
            Ok(tally)
        })
    }

    fn guess(&self, share: u64, mut random: Random) -> Result<Tally> {
        let (watch, mut tally, mut sent) = (Stopwatch::start(), Tally::default(), 0);
        while sent < share {
            let mut connection = Connection::open(self.address)?;
            tally.connections += 1;
            let until = share.min(sent + 1 + random.below(MOST_GUESSES));
            while sent < until {
                let at_once = (1 + random.below(MOST_AT_ONCE)).min(until - sent);
                let guesses = (0..at_once).map(|_| self.invent(&mut random)).collect::<Result<String>>()?;
                connection.send(guesses.as_bytes())?;
                for _ in 0..at_once {
                    tally.note(&connection.receive().context("a guess was not answered")?)?;
                }
                sent += at_once;
                let planned =
                    self.lasting.mul_f64(f64::from(u32::try_from(sent)?) / f64::from(u32::try_from(share)?));
                std::thread::sleep(planned.saturating_sub(watch.elapsed()));
            }
        }
        Ok(tally)
    }

    fn invent(&self, random: &mut Random) -> Result<String> {
        let from = match random.below(6) {
            0 | 1 => ONE_PLACE,
            2 => Ipv6Addr::from(ONE_NETWORK | u128::from(random.next())).into(),
            _ => anywhere(random, PLACES),
        };
        let digits = |random: &mut Random| format!("{:016x}", random.next());
        let device = match random.below(4) {
            0 => Some((0..6).map(|_| digits(random)).collect()),
            1 => Some(self.foreign_mark.to_owned()),
            2 => Some(digits(random)),
            _ => None,
        };
        let sender = Sender { from, device: device.as_deref() };
        Ok(match self.aim {
            Aim::Password { email } => {
                // However it is written, it is the same address.
                let email = match random.below(4) {
                    0 => email.to_uppercase(),
                    1 => format!(" {email} "),
                    _ => email.to_owned(),
                };
                let password =
                    if random.below(2) == 0 { digits(random) } else { (*random.pick(&PASSWORDS)).to_owned() };
                self.form.written(sender, &[("email", &email), ("password", &password)])
            }
            Aim::Code(factor) => {
                let code = if random.below(2) == 0 { wrong_code(factor, random)? } else { digits(random) };
                self.form.written(sender, &[("code", &code)])
            }
        })
    }
}

/// Six digits that the app does not show.
fn wrong_code(factor: &SecondFactor, random: &mut Random) -> Result<String> {
    let shown = factor.shown()?;
    loop {
        let code = format!("{:06}", random.below(1_000_000));
        if !shown.contains(&code) {
            return Ok(code);
        }
    }
}

impl Tally {
    fn note(&mut self, reply: &Response) -> Result<()> {
        let says = |sentence| reply.body.contains(sentence);
        match reply.status {
            422 if says("or the password is wrong") || says("This code is wrong") => self.evaluated += 1,
            429 => self.refused += 1,
            status => bail!("a guess was answered {status}: {}", reply.body),
        }
        Ok(())
    }
}
