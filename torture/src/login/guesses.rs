//! Guesses at a password, at a code, and at an address that nobody has, all at the same time; and two owners who go on
//! signing in meanwhile.

use super::attack::{Aim, Attack, ONE_PLACE, Tally};
use super::form::{DEVICE, Form};
use super::people::{LONGEST_WAIT, PASSWORD, SecondFactor, closed, home, is_in, patiently, sign_in, sign_up};
use super::table::Table;
use crate::server;
use anyhow::{Context, Result, anyhow, ensure};
use ipse_testkit::{Random, Response, Stopwatch, Visitor};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const OWNER: &str = "owner@example.com";
const GUARDED: &str = "guarded@example.com";
const NOBODY: &str = "nobody@example.com";
const STRANGER: &str = "stranger@example.com";
const NEW_PASSWORD: &str = "five words in a row now";
/// Of all guesses at one account, so many may be looked at.
const MOST_EVALUATED: u64 = 100;
/// How often an owner comes back during the attack, at most.
const COMES_BACK: u32 = 60;
/// One code is kept for afterwards.
const CODES_DURING: usize = 9;
const OWNERS_HOME: u32 = 70_001;
const NEW_PLACE: u32 = 70_002;
const STRANGERS_HOME: u32 = 70_003;

/// How an owner fared who came back again and again.
#[derive(Default)]
struct Visits {
    tried: u32,
    turned_away: u32,
    longest: Duration,
}

impl Visits {
    fn note(&mut self, watch: &Stopwatch, reply: &Response) {
        self.tried += 1;
        self.turned_away += u32::from(!is_in(reply));
        self.longest = self.longest.max(watch.elapsed());
    }

    fn add_to(&self, table: &mut Table, what: &'static str) {
        let Self { tried, turned_away, longest } = self;
        let seen = format!(
            "{turned_away} of {tried} sign-ins turned away, the slowest took {:.2} s",
            longest.as_secs_f64()
        );
        table.add(what, "0", seen, *turned_away == 0 && *tried > 0);
    }
}

/// Does it and adds what was seen.
pub(crate) fn measure(
    address: SocketAddr,
    data_dir: &Path,
    guesses: u64,
    lasting: Duration,
    random: &mut Random,
    table: &mut Table,
) -> Result<()> {
    let known = closed(sign_up(address, OWNER, home(OWNERS_HOME))?);
    let mut guarded = sign_up(address, GUARDED, home(OWNERS_HOME))?;
    let mut factor = SecondFactor::set_up(&mut guarded)?;
    let codes = factor.recovery_codes.split_off(1);
    ensure!(codes.len() >= CODES_DURING, "there are only {} recovery codes", codes.len() + 1);
    let guarded = closed(guarded);
    let stranger = sign_up(address, STRANGER, home(STRANGERS_HOME))?;
    let foreign_mark = stranger.cookies.get(DEVICE).context("no mark of a device")?.as_str();
    let attack = |form, aim| Attack { address, form, aim, foreign_mark, guesses, lasting };
    let at_password = Form::open(address, &mut Visitor::new(address), "/signin")?;
    // Whoever guesses codes knows the password.
    let mut thief = Visitor::new(address).from(home(STRANGERS_HOME));
    sign_in(&mut thief, GUARDED, PASSWORD)?;
    let at_code = Form::open(address, &mut thief, "/signin/code")?;
    let attacks = [
        attack(at_password.clone(), Aim::Password { email: OWNER }),
        attack(at_password, Aim::Password { email: NOBODY }),
        attack(at_code, Aim::Code(&factor)),
    ];

    let is_over = AtomicBool::new(false);
    let watch = Stopwatch::start();
    let (tallies, owner, guarded_owner, new_browser) = std::thread::scope(|scope| {
        let started = attacks.each_ref().map(|attack| {
            let mut random = Random::new(random.next());
            scope.spawn(move || attack.run(&mut random))
        });
        let is_over = &is_over;
        let owner = scope.spawn(move || owner_comes_back(address, data_dir, &known, lasting, is_over));
        let guarded = scope.spawn(move || guarded_comes_back(&guarded, &codes, lasting, is_over));
        let new_browser = scope.spawn(move || {
            patiently(
                || {
                    let mut browser = Visitor::new(address).from(home(NEW_PLACE));
                    let reply = sign_in(&mut browser, OWNER, PASSWORD)?;
                    // The owner has another password, as soon as the link was used.
                    let is_another = !is_in(&reply) && reply.status != 429;
                    if is_another { sign_in(&mut browser, OWNER, NEW_PASSWORD) } else { Ok(reply) }
                },
                || is_over.load(Ordering::SeqCst),
            )
        });
        let tallies = started.map(|attack| attack.join().map_err(|_| anyhow!("an attack panicked"))?);
        is_over.store(true, Ordering::SeqCst);
        let panicked = |_| anyhow!("an owner panicked");
        anyhow::Ok((
            tallies.into_iter().collect::<Result<Vec<Tally>>>()?,
            owner.join().map_err(panicked)??,
            guarded.join().map_err(panicked)??,
            new_browser.join().map_err(panicked)??,
        ))
    })?;
    let seconds = watch.seconds();

    let aims = ["guesses at a password", "at an address that nobody has", "at a second factor"];
    for (what, Tally { evaluated, refused, connections }) in aims.into_iter().zip(tallies) {
        let all = evaluated + refused;
        let seen = format!("{evaluated} of {all} evaluated in {seconds:.0} s, on {connections} connections");
        table.add(
            what,
            format!("at most {MOST_EVALUATED}"),
            seen,
            evaluated <= MOST_EVALUATED && all == guesses,
        );
    }
    owner.known.add_to(table, "the owner, meanwhile, from a browser that was used before");
    guarded_owner.add_to(table, "the same with a second factor");
    owner.by_link.add_to(table, "from a new browser, by a link for a new password");
    let during = match new_browser {
        Some((after, _)) => format!("after {:.1} s", after.as_secs_f64()),
        None => "not before the attack was over".to_owned(),
    };
    table.add("from a new browser without a link", "none: guessers take its turns", during, true);
    // Right after the attack, as a person would.
    let password = if owner.by_link.tried > 0 { NEW_PASSWORD } else { PASSWORD };
    let after =
        patiently(|| sign_in(&mut Visitor::new(address).from(home(NEW_PLACE)), OWNER, password), || false)?;
    in_after(table, "the owner, right afterwards, from a new browser", after);
    let code = factor.recovery_codes.first().context("no code is left")?;
    let mut browser = Visitor::new(address).from(home(NEW_PLACE));
    sign_in(&mut browser, GUARDED, PASSWORD)?;
    let after = patiently(|| enter(&mut browser, code), || false)?;
    in_after(table, "the same with a second factor", after);
    Ok(())
}

fn in_after(table: &mut Table, what: &'static str, after: Option<(Duration, Duration)>) {
    let (after, told) = after.unwrap_or_default();
    let seen = format!("after {:.1} s, told to wait for {} s", after.as_secs_f64(), told.as_secs());
    // A wait is told in whole seconds, and the sign-in itself takes its time.
    let is_met = told <= LONGEST_WAIT && after <= LONGEST_WAIT + Duration::from_secs(5);
    table.add(what, "within a minute", seen, is_met);
}

#[derive(Default)]
struct Owner {
    known: Visits,
    by_link: Visits,
}

/// Comes back from the browser that was used before, and towards the end with a new one and a link from the operator.
fn owner_comes_back(
    address: SocketAddr,
    data_dir: &Path,
    known: &Visitor,
    lasting: Duration,
    is_over: &AtomicBool,
) -> Result<Owner> {
    let (watch, mut owner) = (Stopwatch::start(), Owner::default());
    while owner.known.tried == 0 || (watch.elapsed() < lasting * 2 / 3 && !is_over.load(Ordering::SeqCst)) {
        // Every other time from where most guesses come from: a guesser may share an address with the owner.
        let from: IpAddr = if owner.known.tried.is_multiple_of(2) { home(OWNERS_HOME) } else { ONE_PLACE };
        let mut browser = known.clone().from(from);
        let try_watch = Stopwatch::start();
        let reply = sign_in(&mut browser, OWNER, PASSWORD)?;
        owner.known.note(&try_watch, &reply);
        std::thread::sleep(lasting / COMES_BACK);
    }
    let link = server::ipse(data_dir, &["account", "reset", OWNER])?;
    let (_, token) = link.rsplit_once("/reset/").context("no link")?;
    let page = format!("/reset/{token}");
    let mut browser = Visitor::new(address).from(ONE_PLACE);
    let reply = browser.submit(&page, &page, &[("new_password", NEW_PASSWORD)])?;
    ensure!(reply.status == 303, "a new password was answered {}: {}", reply.status, reply.body);
    let try_watch = Stopwatch::start();
    let reply = sign_in(&mut browser, OWNER, NEW_PASSWORD)?;
    owner.by_link.note(&try_watch, &reply);
    Ok(owner)
}

fn guarded_comes_back(
    known: &Visitor,
    codes: &[String],
    lasting: Duration,
    is_over: &AtomicBool,
) -> Result<Visits> {
    let mut visits = Visits::default();
    for code in codes.iter().take(CODES_DURING) {
        if visits.tried > 0 && is_over.load(Ordering::SeqCst) {
            break;
        }
        let mut browser = known.clone();
        let watch = Stopwatch::start();
        let halfway = sign_in(&mut browser, GUARDED, PASSWORD)?;
        // Who does not get as far as the code is turned away as well.
        let reply = if halfway.status == 303 { enter(&mut browser, code)? } else { halfway };
        visits.note(&watch, &reply);
        std::thread::sleep(lasting / u32::try_from(2 * CODES_DURING)?);
    }
    Ok(visits)
}

fn enter(browser: &mut Visitor, code: &str) -> Result<Response> {
    browser.submit("/signin/code", "/signin/code", &[("code", code)])
}
