//! How long answers take for addresses that have an account and for addresses that have none: nobody learns from it who
//! has one.
//!
//! Both are asked about in an order of chance, each after the same page was opened, so that what was asked before makes no
//! difference. What noise explains is found by dealing the same times out at random: a difference is one if hardly any
//! deal makes a greater one.

use super::form::{Form, Sender};
use super::people::anywhere;
use super::table::Table;
use anyhow::{Context, Result, ensure};
use ipse_testkit::{Connection, Mailbox, Random, Response, Stopwatch, Visitor};
use std::net::SocketAddr;

/// How often times are dealt out.
const DEALS: usize = 2_000;
/// One deal in so many makes a greater difference than noise explains, by this measure.
const ONE_IN: usize = 1_000;
/// For each of the others so many guesses that come too early.
const REFUSED_EACH: usize = 5;
/// Each asks from elsewhere.
const PLACES: u64 = 1 << 28;
/// Few times are told apart by what is far off: an answer that leaves the hash out is ten times as quick and more.
const LENIENT_TIMES: f64 = 4.0;
const WRONG_PASSWORD: &str = "not the password of anybody";

/// A form that is sent with addresses that have an account, and with addresses that have none.
struct Question<'a> {
    what: &'static str,
    page: &'static str,
    status: u16,
    /// Beside the address.
    field: Option<(&'static str, &'static str)>,
    known: &'a [String],
    unknown: &'a [String],
    /// Who gets a letter, which is waited for so that it is on nobody's way afterwards.
    letters: Letters,
    /// Whether only the hash of a password takes so long that few times tell something.
    is_slow: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Letters {
    Nobody,
    Known,
    Everybody,
}

/// Asks about each of the known addresses, which have accounts, and about as many that have none.
pub(crate) fn measure(
    address: SocketAddr,
    mailbox: &Mailbox,
    known: &[String],
    is_full: bool,
    random: &mut Random,
    table: &mut Table,
) -> Result<()> {
    let unknown: Vec<String> =
        (0..known.len()).map(|number| format!("absent-{number:04}@example.com")).collect();
    ensure!(
        known.iter().zip(&unknown).all(|(known, unknown)| known.len() == unknown.len()),
        "addresses of other lengths make other pages"
    );
    let question = |what, page, status, field, letters, is_slow| Question {
        what,
        page,
        status,
        field,
        known,
        unknown: &unknown,
        letters,
        is_slow,
    };
    let password = Some(("password", WRONG_PASSWORD));
    let asked = [
        question("a wrong password", "/signin", 422, password, Letters::Nobody, true),
        question("a forgotten password", "/reset", 200, None, Letters::Known, false),
        question("a sign-up", "/signup", 200, password, Letters::Everybody, true),
    ];
    for question in asked {
        let times = question.ask(address, mailbox, random).with_context(|| question.what)?;
        times.add_to(table, question.what, is_full, question.is_slow, random);
    }
    refused(address, &known[0], &unknown[0], known.len(), random)?.add_to(
        table,
        "a sign-in that comes too early",
        is_full,
        false,
        random,
    );
    Ok(())
}

/// Guesses at one address of each kind, with the forged mark of a device, until both have to wait; then goes on.
fn refused(
    address: SocketAddr,
    known: &str,
    unknown: &str,
    count: usize,
    random: &mut Random,
) -> Result<Times> {
    let form = Form::open(address, &mut Visitor::new(address), "/signin")?;
    let mut connection = Connection::open(address)?;
    let forged = "0123456789abcdef".repeat(6);
    let mut times = Times::default();
    for is_known in shuffled(REFUSED_EACH * count, random) {
        let email = if is_known { known } else { unknown };
        let sender = Sender { from: anywhere(random, PLACES), device: Some(&forged) };
        let request = form.written(sender, &[("email", email), ("password", WRONG_PASSWORD)]);
        let (reply, took_ms) = timed(&mut connection, "/signin", &request)?;
        match reply.status {
            429 => times.note(is_known, took_ms),
            // The first few, and one now and then that waited long enough.
            status => ensure!(status == 422, "answered {status}: {}", reply.body),
        }
    }
    Ok(times)
}

/// So many times each whether a known address is asked about, in an order of chance.
fn shuffled(each: usize, random: &mut Random) -> Vec<bool> {
    let mut order = [vec![true; each], vec![false; each]].concat();
    shuffle(&mut order, random);
    order
}

fn shuffle<T>(things: &mut [T], random: &mut Random) {
    for place in (1..things.len()).rev() {
        things.swap(place, random.index(place + 1));
    }
}

/// Opens a page, then sends a request and says how many milliseconds the answer took.
fn timed(connection: &mut Connection, page: &str, request: &str) -> Result<(Response, f64)> {
    connection.get(page, None)?;
    let watch = Stopwatch::start();
    connection.send(request.as_bytes())?;
    let reply = connection.receive()?;
    Ok((reply, watch.seconds() * 1e3))
}

impl Question<'_> {
    fn ask(&self, address: SocketAddr, mailbox: &Mailbox, random: &mut Random) -> Result<Times> {
        let form = Form::open(address, &mut Visitor::new(address), self.page)?;
        let mut connection = Connection::open(address)?;
        let mut times = Times::default();
        let (mut known, mut unknown) = (self.known.iter(), self.unknown.iter());
        for is_known in shuffled(self.known.len(), random) {
            let email = if is_known { known.next() } else { unknown.next() };
            let email = email.context("there are too few addresses")?;
            let sender = Sender { from: anywhere(random, PLACES), device: None };
            let mut fields = vec![("email", email.as_str())];
            fields.extend(self.field);
            let (reply, took_ms) = timed(&mut connection, self.page, &form.written(sender, &fields))?;
            ensure!(reply.status == self.status, "answered {}: {}", reply.status, reply.body);
            times.note(is_known, took_ms);
            if self.letters == Letters::Everybody || self.letters == Letters::Known && is_known {
                mailbox.next(email)?;
            }
        }
        Ok(times)
    }
}

/// How many milliseconds answers took.
#[derive(Default)]
struct Times {
    known: Vec<f64>,
    unknown: Vec<f64>,
}

impl Times {
    fn note(&mut self, is_known: bool, took_ms: f64) {
        let times = if is_known { &mut self.known } else { &mut self.unknown };
        times.push(took_ms);
    }

    fn add_to(
        &self,
        table: &mut Table,
        what: &'static str,
        is_full: bool,
        is_slow: bool,
        random: &mut Random,
    ) {
        let (known, unknown) = (median(&self.known), median(&self.unknown));
        let (difference, noise) = ((known - unknown).abs(), self.noise(random));
        let seen = format!(
            "known {known:.3} ms, unknown {unknown:.3} ms, {difference:.3} ms apart; noise explains {noise:.3} ms ({} each)",
            self.known.len()
        );
        if is_full {
            table.add(what, "apart by what noise explains", seen, difference <= noise);
        } else {
            let times = (known / unknown).max(unknown / known);
            let target = if is_slow { format!("at most {LENIENT_TIMES} times") } else { "none".to_owned() };
            table.add(what, target, seen, !is_slow || times <= LENIENT_TIMES);
        }
    }

    /// How far apart the medians are if it is chance which times are of which kind.
    fn noise(&self, random: &mut Random) -> f64 {
        let mut all = [self.known.as_slice(), &self.unknown].concat();
        let mut differences: Vec<f64> = (0..DEALS)
            .map(|_| {
                shuffle(&mut all, random);
                let (one, other) = all.split_at(self.known.len());
                (median(one) - median(other)).abs()
            })
            .collect();
        differences.sort_unstable_by(f64::total_cmp);
        differences[DEALS - 1 - DEALS / ONE_IN]
    }
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { sorted[middle - 1].midpoint(sorted[middle]) } else { sorted[middle] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known ones take so many milliseconds longer, with noise of about one.
    fn is_explained(longer: f64) -> bool {
        let mut random = Random::new(7);
        let mut time = |longer: f64| 40.0 + longer + f64::from(u32::from(random.byte())) / 256.0;
        let times = Times {
            known: (0..200).map(|_| time(longer)).collect(),
            unknown: (0..200).map(|_| time(0.0)).collect(),
        };
        (median(&times.known) - median(&times.unknown)).abs() <= times.noise(&mut Random::new(8))
    }

    #[test]
    fn a_difference_is_told_from_noise() {
        assert!(is_explained(0.0));
        assert!(!is_explained(0.5));
        assert!(!is_explained(-0.5));
    }
}
