//! Many who sign in at the same moment: those who ask for lookups hardly notice, and neither does an owner in whose way
//! strangers stand.

use super::form::{Form, Sender};
use super::people::{PASSWORD, anywhere, closed, home, is_in, sign_in, sign_up};
use super::table::Table;
use crate::inside::MadeKey;
use crate::paced::Client;
use crate::steady::Figures;
use anyhow::{Context, Result, anyhow, bail};
use ipse_testkit::{Connection, Random, Response, Stopwatch, Visitor};
use std::net::SocketAddr;
use std::sync::Barrier;
use std::time::Duration;

/// How much slower the hundredth lookup may be than before.
const MOST_TIMES_SLOWER: f64 = 1.5;
/// How long somebody waits who signs in together with all others.
const PATIENCE: Duration = Duration::from_secs(180);
const OWNER: &str = "undisturbed@example.com";
const OWNERS_HOME: u32 = 70_010;
/// How long strangers have to get into the owner's way.
const HEAD_START: Duration = Duration::from_millis(300);
const OWNERS_VISITS: u32 = 3;
/// An owner whom strangers stand in the way of is in within this time.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Somebody who signs in, from where, and with what.
struct Person {
    email: String,
    password: String,
    sender: Sender<'static>,
}

/// Has all of them sign in at once, round by round, and compares lookups with those before.
pub(crate) fn measure_lookups(
    address: SocketAddr,
    keys: &[MadeKey],
    emails: &[String],
    (rounds, calm, is_full): (u32, Duration, bool),
    table: &mut Table,
) -> Result<()> {
    let (mut before, mut during, mut seconds, mut in_at_once) = (Vec::new(), Vec::new(), Vec::new(), 0);
    // The first requests find the server cold.
    Client::with_keys(address, keys).ask_for(calm / 4)?;
    for _ in 0..rounds {
        let people = emails.iter().zip(0..).map(|(email, number)| {
            let sender = Sender { from: home(number), device: None };
            Person { email: email.clone(), password: PASSWORD.to_owned(), sender }
        });
        let crowd = Crowd::gather(address, people.collect())?;
        before.push(Client::with_keys(address, keys).ask_for(calm)?);
        let (asked, (replies, lasted)) =
            Client::with_keys(address, keys).ask_while(|| crowd.go(|| Ok(())))?;
        during.push(asked);
        in_at_once += replies.0.iter().filter(|reply| is_in(reply)).count();
        seconds.push(lasted.as_secs_f64());
    }
    let all = emails.len() * before.len();
    let longest = seconds.iter().copied().fold(0.0, f64::max);
    let seen = format!("{in_at_once} of {all}, {} at a time; the longest took {longest:.1} s", emails.len());
    table.add("sign-ins at once that succeed", "all", seen, in_at_once == all);
    let p99 = |rounds: &[Vec<u64>]| middle(rounds.iter().map(|micros| Figures::of(micros).p99_ms).collect());
    let slower = p99(&during) / p99(&before).max(f64::MIN_POSITIVE);
    let each = |rounds: &[Vec<u64>]| {
        let figures: Vec<String> = rounds.iter().map(|micros| Figures::of(micros).to_string()).collect();
        figures.join("; ")
    };
    let seen = format!(
        "p99 {:.2} ms against {:.2} ms, {slower:.2} times\n    before {}\n    during {}\n   ",
        p99(&during),
        p99(&before),
        each(&before),
        each(&during)
    );
    let target = if is_full { format!("at most {MOST_TIMES_SLOWER} times") } else { "none".to_owned() };
    table.add("lookups meanwhile", target, seen, !is_full || slower <= MOST_TIMES_SLOWER);
    Ok(())
}

/// Has strangers from everywhere sign in to accounts that do not exist, more than can be hashed in time; an owner signs
/// in meanwhile.
pub(crate) fn measure_owner(
    address: SocketAddr,
    strangers: u32,
    random: &mut Random,
    table: &mut Table,
) -> Result<()> {
    let known = closed(sign_up(address, OWNER, home(OWNERS_HOME))?);
    let people = (0..strangers).map(|number| Person {
        email: format!("stranger-{number}@example.com"),
        password: "not the password of anybody".to_owned(),
        sender: Sender { from: anywhere(random, u64::from(u16::MAX)), device: None },
    });
    let crowd = Crowd::gather(address, people.collect())?;
    let (mut turned_away, mut longest) = (0, Duration::ZERO);
    let (replies, lasted) = crowd.go(|| {
        std::thread::sleep(HEAD_START);
        for _ in 0..OWNERS_VISITS {
            let watch = Stopwatch::start();
            let reply = sign_in(&mut known.clone(), OWNER, PASSWORD)?;
            turned_away += u32::from(!is_in(&reply));
            longest = longest.max(watch.elapsed());
        }
        Ok(())
    })?;
    let [evaluated, busy, refused] = replies.counts()?;
    let seen = format!(
        "{turned_away} of {OWNERS_VISITS} sign-ins turned away, the slowest took {:.2} s; of {strangers} strangers, who \
         were done after {:.1} s, {evaluated} evaluated, {busy} asked to come back, {refused} refused",
        longest.as_secs_f64(),
        lasted.as_secs_f64()
    );
    let is_met = turned_away == 0 && longest <= AT_ONCE;
    table.add("the owner, while strangers sign in at once", "0, within 5 s", seen, is_met);
    Ok(())
}

/// People who are at the door, each on a connection of their own, with the form filled in.
struct Crowd(Vec<(Connection, String)>);

struct Replies(Vec<Response>);

impl Crowd {
    fn gather(address: SocketAddr, people: Vec<Person>) -> Result<Self> {
        let ready = people.into_iter().map(|Person { email, password, sender }| {
            let mut visitor = Visitor::new(address).from(sender.from);
            let form = Form::open(address, &mut visitor, "/signin")?;
            let connection = Connection::open(address)?;
            connection.wait_for(PATIENCE)?;
            Ok((connection, form.written(sender, &[("email", &email), ("password", &password)])))
        });
        Ok(Self(ready.collect::<Result<Vec<_>>>()?))
    }

    /// All sign in at once, while something else is done. Returns when the last one was answered.
    fn go(self, meanwhile: impl FnOnce() -> Result<()>) -> Result<(Replies, Duration)> {
        let start = Barrier::new(self.0.len() + 1);
        std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .0
                .into_iter()
                .map(|(mut connection, request)| {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        connection.send(request.as_bytes())?;
                        connection.receive().context("a sign-in was not answered")
                    })
                })
                .collect();
            start.wait();
            let watch = Stopwatch::start();
            let done = meanwhile();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Response>>| {
                thread.join().map_err(|_| anyhow!("somebody who signs in panicked"))?
            };
            let replies = threads.into_iter().map(join).collect::<Result<Vec<_>>>()?;
            done.map(|()| (Replies(replies), watch.elapsed()))
        })
    }
}

impl Replies {
    /// How many were looked at and found wrong, how many found too many before them, and how many came too often.
    fn counts(&self) -> Result<[u32; 3]> {
        let mut counts = [0; 3];
        for reply in &self.0 {
            let index = match reply.status {
                422 => 0,
                503 => 1,
                429 => 2,
                status => bail!("a stranger is answered {status}: {}", reply.body),
            };
            counts[index] += 1;
        }
        Ok(counts)
    }
}

/// The one in the middle by size.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
