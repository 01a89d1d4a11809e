//! Guesses by the thousand, and sign-ins by the hundred: guessers learn nothing, owners get in, and whoever asks for lookups
//! hardly notices.

mod attack;
mod form;
mod guesses;
pub(crate) mod people;
mod table;
mod timing;
mod together;

use crate::campaign::Options;
use crate::inside::make_keys;
use crate::paced;
use crate::server;
use anyhow::{Result, ensure};
use ipse_testkit::vitals::allow_descriptors;
use ipse_testkit::{Mailbox, Random};
use std::time::Duration;
use table::Table;

/// With fewer guesses than these the campaign is the short one, which holds no time to a target.
const FULL_GUESSES: u64 = 5_000;

/// How large it is.
struct Size {
    /// People who sign in at once, and about whom is asked whether they have an account.
    people: u32,
    /// Those who sign in to accounts that are not there. More of them than places in the queue of passwords.
    strangers: u32,
    rounds: u32,
    calm: Duration,
    /// The waits of guessers double until they are a minute, so it takes longer than that to see the longest.
    attack: Duration,
}

const FULL: Size = Size {
    people: 200,
    strangers: 600,
    rounds: 5,
    calm: Duration::from_secs(10),
    attack: Duration::from_secs(90),
};

const SHORT: Size =
    Size { people: 8, strangers: 8, rounds: 1, calm: Duration::from_secs(1), attack: Duration::from_secs(2) };

pub(crate) fn work(options: &Options) -> Result<String> {
    let is_full = options.count >= FULL_GUESSES;
    let size = if is_full { FULL } else { SHORT };
    allow_descriptors(u64::from(size.strangers) + 200)?;
    let mut random = Random::new(options.seed);
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let keys = make_keys(&data_dir, &paced::daily_limits())?;
    let emails: Vec<String> =
        (0..size.people).map(|number| format!("member-{number:04}@example.com")).collect();
    let mut table = Table::default();

    let server = server::start(&data_dir)?;
    people::sign_up_all(server.address, &emails)?;
    let rounds = (size.rounds, size.calm, is_full);
    together::measure_lookups(server.address, &keys, &emails, rounds, &mut table)?;
    together::measure_owner(server.address, size.strangers, &mut random, &mut table)?;
    guesses::measure(server.address, &data_dir, options.count, size.attack, &mut random, &mut table)?;
    server.stop("TERM")?;

    // The same accounts, and from now on letters.
    let mailbox = Mailbox::start()?;
    let mut command = ipse_testkit::program(server::program()?);
    let mail = mailbox.address.to_string();
    command.args(["serve", "--mail-server", &mail, "--mail-from", "ipse@example.com"]);
    let server = server::start_with(command, &data_dir)?;
    timing::measure(server.address, &mailbox, &emails, is_full, &mut random, &mut table)?;
    server.stop("TERM")?;
    ensure!(table.is_met(), "a target is missed:\n  {table}");
    Ok(table.to_string())
}
