//! The function that an engine runs for each charge: how it is asked, and what it says.
//!
//! The text itself is `function.lua`. It runs as a script, because that is what every version of Redis and Valkey knows, on
//! a single server and in a cluster, and what needs no right but to run scripts.

use super::reach::Away;
use crate::Subject;
use ipse_model::Day;
use redis::{Cmd, Value};
use std::fmt::Write;

/// The function's text.
pub const TEXT: &str = include_str!("function.lua");

/// What is asked of the function about one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Charge one request of a key.
    Charge {
        /// How often the key was resumed.
        generation: u32,
        /// Its answers per day.
        limit: u32,
    },
    /// Charge one request to the day alone.
    ChargeDay {
        /// Answers per day.
        limit: u32,
    },
    /// Take a range of a day that was reserved.
    Offer {
        /// The day.
        day: Day,
        /// The first that may be used, less one.
        from: u32,
        /// The last that may be used.
        to: u32,
    },
    /// The pause of this generation is written.
    Confirm {
        /// How often the key had been resumed before.
        generation: u32,
    },
    /// Only say how much is used.
    Look,
}

/// What the function says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request may be answered.
    Granted {
        /// The day that was charged.
        day: Day,
        /// How far it is used.
        used: u32,
        /// Whether whoever reads this is to reserve a further range.
        is_low: bool,
    },
    /// The day's quota is used up.
    UsedUp {
        /// The day.
        day: Day,
        /// How far it is used.
        used: u32,
    },
    /// One too many within the minute: the pause is to be written.
    Burst(Minute),
    /// The key is being paused, or is.
    Paused(Minute),
    /// Nothing was charged: a range of this day is to be reserved first, by whoever reads this.
    Reserve(Day),
    /// Nothing was charged: somebody else reserves a range.
    Wait,
    /// Nothing was done: nobody waited for it any more.
    Stale,
    /// It is done.
    Done,
    /// The range is of a day that is not today.
    Late,
    /// How much is used on a day; nothing if the engine does not know.
    Seen(Option<(Day, u32)>),
}

/// The minute that paused a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minute {
    /// How often the key had been resumed before.
    pub generation: u32,
    /// Its end, by the engine's clock.
    pub moment: u64,
    /// When requests came.
    pub times: Vec<u64>,
}

/// Where the state of a subject lies. What stands in braces decides the slot of a cluster, so that all of one subject
/// shares one.
#[derive(Clone, Debug)]
pub(super) struct Tag {
    /// The name of its window, which is that of its state and one letter more.
    window: String,
}

impl Tag {
    pub(super) fn new(installation: &str, subject: Subject) -> Self {
        let mut window = String::with_capacity(TAG_BYTES);
        // Writing to text cannot fail.
        let _ = write!(window, "{{ipse:{installation}:{}}}w", subject.number());
        Self { window }
    }

    /// The name of the state.
    pub(super) fn state(&self) -> &str {
        &self.window[..self.window.len() - 1]
    }
}

/// Room for the tag of nearly any subject.
const TAG_BYTES: usize = 48;
/// How many arguments a command has at most, and room for all of them but the function's text.
const ARGUMENTS: usize = 12;
const COMMAND_BYTES: usize = 320;

/// The command that asks the function, by its hash or with its whole text.
pub(super) fn command(
    script: Script<'_>,
    tag: &Tag,
    incarnation: &str,
    clock: Option<i64>,
    deadline: i64,
    call: &Call,
) -> Cmd {
    let mut command = Cmd::with_capacity(ARGUMENTS, COMMAND_BYTES);
    match script {
        Script::Hash(hash) => command.arg("EVALSHA").arg(hash),
        Script::Text => command.arg("EVAL").arg(TEXT),
    };
    command.arg(2).arg(tag.state()).arg(&tag.window);
    let wanted = match call {
        Call::Charge { .. } => "charge",
        Call::ChargeDay { .. } => "charge_day",
        Call::Offer { .. } => "offer",
        Call::Confirm { .. } => "confirm",
        Call::Look => "look",
    };
    command.arg(wanted).arg(incarnation);
    match clock {
        Some(clock) => command.arg(clock),
        None => command.arg(""),
    };
    command.arg(deadline);
    match *call {
        Call::Charge { generation, limit } => command.arg(generation).arg(limit),
        Call::ChargeDay { limit } => command.arg(0).arg(limit),
        Call::Offer { day, from, to } => command.arg(day.0).arg(from).arg(to),
        Call::Confirm { generation } => command.arg(generation),
        Call::Look => &mut command,
    };
    command
}

/// How the function is named.
#[derive(Clone, Copy, Debug)]
pub(super) enum Script<'a> {
    /// By the hash that the engine gave when it took the text.
    Hash(&'a str),
    /// By its text.
    Text,
}

impl Verdict {
    /// Reads what the function said.
    pub(super) fn read(value: Value) -> Result<Self, Away> {
        verdict(value).ok_or(Away::Unreadable)
    }
}

fn verdict(value: Value) -> Option<Verdict> {
    let mut parts = match value {
        Value::Int(granted) => return self::granted(granted),
        Value::Array(parts) => parts,
        _ => return None,
    };
    let whole = |place: usize| parts.get(place).and_then(whole);
    let day = |place| Some(Day(u32::try_from(whole(place)?).ok()?));
    let count = |place| u32::try_from(whole(place)?).ok();
    match parts.first()? {
        Value::Int(is_known) => {
            let known = *is_known == 1;
            let seen = (day(1)?, count(2)?);
            return Some(Verdict::Seen(known.then_some(seen)));
        }
        Value::BulkString(name) => match name.as_slice() {
            b"used_up" => return Some(Verdict::UsedUp { day: day(1)?, used: count(2)? }),
            b"reserve" => return Some(Verdict::Reserve(day(1)?)),
            b"wait" => return Some(Verdict::Wait),
            b"stale" => return Some(Verdict::Stale),
            b"done" => return Some(Verdict::Done),
            b"late" => return Some(Verdict::Late),
            b"burst" | b"paused" => {}
            _ => return None,
        },
        _ => return None,
    }
    let is_burst = matches!(parts.first(), Some(Value::BulkString(name)) if name == b"burst");
    let (generation, moment) = (count(1)?, u64::try_from(whole(2)?).ok()?);
    let Value::Array(times) = parts.pop()? else { return None };
    let time = |value: &Value| u64::try_from(self::whole(value)?).ok();
    let times = times.iter().map(time).collect::<Option<Vec<_>>>()?;
    let minute = Minute { generation, moment, times };
    Some(if is_burst { Verdict::Burst(minute) } else { Verdict::Paused(minute) })
}

/// The day, how far it is used, and whether a further range is to be reserved, in one number.
fn granted(number: i64) -> Option<Verdict> {
    let rest = u64::try_from(number).ok()?;
    let (is_low, rest) = (rest & 1 == 1, rest >> 1);
    let used = u32::try_from(rest & u64::from(u32::MAX)).ok()?;
    let day = Day(u32::try_from(rest >> u32::BITS).ok()?);
    Some(Verdict::Granted { day, used, is_low })
}

/// A whole number, which scripts return as a number or, from a list, as text.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}
