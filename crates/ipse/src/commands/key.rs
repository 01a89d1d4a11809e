//! `ipse key …`

use super::{Beginning, Desk, at_desk, moment, print, print_json, say};
use crate::error::Error;
use crate::settings::DataFlags;
use crate::table::Table;
use clap::{Args, Subcommand, ValueEnum};
use ipse_model::{KEYS_PER_ACCOUNT, KeyId, KeyText, Scope};
use ipse_store::{Activity, BootId, Created, Email, KeyRecord, NewKey, OwnedKey, Subject, used_in_journal};
use serde::Serialize;
use std::collections::HashMap;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Create a key and print it, this once; makes the account if it is new
    Create {
        /// The account that holds it
        #[arg(long, value_name = "EMAIL")]
        account: Email,
        /// What its owner calls it
        #[arg(long, default_value = "", value_parser = name)]
        name: String,
        /// The widest scope it may ask for: ip, geo or full
        #[arg(long, default_value = "geo")]
        scope: Scope,
        /// Answers per day, if not the free tier's
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        daily_limit: Option<u32>,
        #[command(flatten)]
        flags: DataFlags,
    },
    /// List keys
    List {
        /// Only those of one account
        #[arg(long, value_name = "EMAIL")]
        account: Option<Email>,
        /// Print an array of objects
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        flags: DataFlags,
    },
    /// Show one key
    Show {
        /// Print an object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        one: One,
    },
    /// Pause a key, as the burst limit does
    Pause(One),
    /// Resume a paused key with a fresh minute
    Resume(One),
    /// Serve a deactivated key again
    Activate(One),
    /// Refuse a key until it is activated
    Deactivate(One),
    /// Delete a key and its usage
    Delete(One),
    /// Give a key another text and print it, this once; the old one is invalid at once, or works for a while
    Roll {
        /// How long the old text still works
        #[arg(long, value_name = "TIME")]
        keep: Option<Keep>,
        #[command(flatten)]
        one: One,
    },
    /// Change a key's scope
    Scope {
        #[command(flatten)]
        one: One,
        /// ip, geo or full
        scope: Scope,
    },
    /// Change a key's daily limit
    Limit {
        #[command(flatten)]
        one: One,
        /// Answers per day
        #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        daily_limit: u32,
    },
}

#[derive(Args)]
pub(super) struct One {
    /// The key's number, as `ipse key list` shows it
    id: KeyId,
    #[command(flatten)]
    flags: DataFlags,
}

/// How long a text works after its key was rolled: what the dashboard offers as well.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Keep {
    #[value(name = "1h")]
    Hour,
    #[value(name = "24h")]
    Day,
    #[value(name = "7d")]
    Week,
}

impl Keep {
    fn ms(self) -> i64 {
        const HOUR: i64 = 3_600_000;
        match self {
            Self::Hour => HOUR,
            Self::Day => 24 * HOUR,
            Self::Week => 7 * 24 * HOUR,
        }
    }
}

/// What `--json` prints of one key.
#[derive(Serialize)]
struct Sheet {
    #[serde(flatten)]
    row: Row,
    paused_since: Option<String>,
    /// The requests of each second of the minute that paused it.
    pause_minute: Option<Vec<u32>>,
    old_text: Option<OldText>,
}

/// A text that still works, though the key was rolled.
#[derive(Serialize)]
struct OldText {
    last_four: String,
    ends: String,
}

/// What `--json` prints of a key in a list.
#[derive(Serialize)]
struct Row {
    id: i64,
    account: String,
    name: String,
    scope: Scope,
    state: &'static str,
    last_four: String,
    created: String,
    daily_limit: u32,
    used_today: u32,
}

pub(super) fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Create { account, name, scope, daily_limit, flags } => {
            at_desk(&flags, Beginning::MakesFolder, async |desk| {
                let new = NewKey { account: &account, name: &name, scope, daily_limit };
                match desk.records.create_key(&new, desk.now).await? {
                    Created::Key { text, record } => {
                        reveal(&text, record.id)?;
                        say(&format!(
                            "Key {} of {account}, scope {scope}. It is shown only this once.",
                            record.id
                        ));
                        Ok(())
                    }
                    Created::AccountIsFull => Err(Error::Refused(format!(
                        "{account} holds {KEYS_PER_ACCOUNT} keys already, which is the most an account may hold; delete \
                         one first (`ipse key list --account {account}` shows them)"
                    ))),
                }
            })
        }
        Command::List { account, json, flags } => at_desk(&flags, Beginning::NeedsData, async |desk| {
            let used = used_today(desk).await?;
            let keys = desk.records.keys(account.as_ref()).await?;
            let rows = keys.into_iter().map(|key| row(key, &used));
            if json {
                return print_json(&rows.collect::<Vec<_>>());
            }
            let mut table = Table::new([
                "ID",
                "ACCOUNT",
                "NAME",
                "SCOPE",
                "STATE",
                "LAST FOUR",
                "CREATED",
                "DAILY LIMIT",
                "USED TODAY",
            ]);
            rows.for_each(|row| {
                table.row([
                    row.id.to_string(),
                    row.account,
                    row.name,
                    row.scope.to_string(),
                    row.state.to_owned(),
                    row.last_four,
                    row.created,
                    row.daily_limit.to_string(),
                    row.used_today.to_string(),
                ]);
            });
            print(&table.to_string())
        }),
        Command::Show { json, one } => at_desk(&one.flags, Beginning::NeedsData, async |desk| {
            let key = desk.records.key_as_owned(one.id).await?.ok_or_else(|| no_such(one.id))?;
            let OwnedKey { record, pause_minute, old_text, .. } = key;
            let sheet = Sheet {
                paused_since: record.paused_ms.map(moment),
                row: row(record, &used_today(desk).await?),
                pause_minute,
                old_text: old_text
                    .filter(|old| old.ends_ms > desk.now.unix_ms)
                    .map(|old| OldText { last_four: old.last_four, ends: moment(old.ends_ms) }),
            };
            if json {
                return print_json(&sheet);
            }
            let Sheet { row, paused_since, pause_minute, old_text } = sheet;
            let mut table = Table::new(["KEY", &row.id.to_string()]);
            table.row(["account".to_owned(), row.account]);
            table.row(["name".to_owned(), row.name]);
            table.row(["scope".to_owned(), row.scope.to_string()]);
            table.row(["state".to_owned(), row.state.to_owned()]);
            if let Some(paused) = paused_since {
                table.row(["paused since".to_owned(), paused]);
            }
            if let Some(minute) = pause_minute {
                let seconds = minute.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
                table.row(["its last minute".to_owned(), seconds]);
            }
            table.row(["last four".to_owned(), row.last_four]);
            if let Some(old) = old_text {
                table.row(["old text".to_owned(), format!("…{}, works until {}", old.last_four, old.ends)]);
            }
            table.row(["created".to_owned(), row.created]);
            table.row(["daily limit".to_owned(), row.daily_limit.to_string()]);
            table.row(["used today".to_owned(), row.used_today.to_string()]);
            print(&table.to_string())
        }),
        Command::Pause(one) => {
            change(&one, "is paused", "was paused before", Some(Activity::KeyPaused), async |desk| {
                desk.records.pause(one.id, desk.now).await
            })
        }
        Command::Resume(one) => {
            change(&one, "is resumed", "was not paused", Some(Activity::KeyResumed), async |desk| {
                desk.records.resume(one.id).await
            })
        }
        Command::Activate(one) => change(
            &one,
            "is activated",
            "was not deactivated",
            Some(Activity::KeyReactivated),
            async |desk| desk.records.set_active(one.id, true).await,
        ),
        Command::Deactivate(one) => change(
            &one,
            "is deactivated",
            "was deactivated before",
            Some(Activity::KeyDeactivated),
            async |desk| desk.records.set_active(one.id, false).await,
        ),
        Command::Delete(one) => at_desk(&one.flags, Beginning::NeedsData, async |desk| {
            tell_owner(desk, one.id, Activity::KeyDeleted).await?;
            if !desk.records.delete_key(one.id).await? {
                return Err(no_such(one.id));
            }
            say(&format!("Key {} is deleted with its usage.", one.id));
            Ok(())
        }),
        Command::Roll { keep, one } => at_desk(&one.flags, Beginning::NeedsData, async |desk| {
            let keep_ms = keep.map_or(0, Keep::ms);
            let text = desk.records.roll(one.id, keep_ms, desk.now).await?.ok_or_else(|| no_such(one.id))?;
            tell_owner(desk, one.id, Activity::KeyRolled).await?;
            reveal(&text, one.id)?;
            let old = match keep {
                Some(_) => format!("works until {}", moment(desk.now.unix_ms + keep_ms)),
                None => "is invalid".to_owned(),
            };
            say(&format!("Key {} has a new text, shown only this once. The old one {old}.", one.id));
            Ok(())
        }),
        Command::Scope { one, scope } => {
            let (now, before) = (format!("has the scope {scope}"), format!("had the scope {scope} already"));
            change(&one, &now, &before, Some(Activity::KeyScopeChanged), async |desk| {
                desk.records.set_scope(one.id, scope).await
            })
        }
        Command::Limit { one, daily_limit } => {
            let now = format!("may make {daily_limit} requests a day");
            let before = format!("had the daily limit {daily_limit} already");
            change(&one, &now, &before, None, async |desk| {
                desk.records.set_daily_limit(one.id, daily_limit).await
            })
        }
    }
}

/// Changes one key and says what is now true of it, or was true before.
fn change(
    one: &One,
    now: &str,
    before: &str,
    activity: Option<Activity>,
    work: impl AsyncFnOnce(&Desk) -> Result<bool, ipse_store::Error>,
) -> Result<(), Error> {
    at_desk(&one.flags, Beginning::NeedsData, async |desk| {
        let changed = work(desk).await?;
        if let Some(activity) = activity.filter(|_| changed) {
            tell_owner(desk, one.id, activity).await?;
        }
        let told = if changed { now } else { before };
        let key = desk.records.key(one.id).await?.ok_or_else(|| no_such(one.id))?;
        say(&format!("Key {} {told}. Its state is {}.", one.id, key.state.as_str()));
        Ok(())
    })
}

/// Notes what was done where the key's owner can read it.
async fn tell_owner(desk: &Desk, id: KeyId, activity: Activity) -> Result<(), Error> {
    Ok(desk.records.note_of_key(id, activity, Some("by the operator"), desk.now).await?)
}

/// Prints a key alone, the only time that it can be.
fn reveal(text: &KeyText, id: KeyId) -> Result<(), Error> {
    print(&format!("{}\n", text.reveal())).map_err(|error| {
        Error::Refused(format!(
            "key {id} was made but could not be printed ({error}); `ipse key roll {id}` gives it another text"
        ))
    })
}

fn no_such(id: KeyId) -> Error {
    Error::Refused(format!("there is no key {id}; `ipse key list` shows all"))
}

/// The day's counts: those of the database, and those that a server has not folded into it yet.
async fn used_today(desk: &Desk) -> Result<HashMap<Subject, u32>, Error> {
    let today = desk.now.day();
    let mut used = used_in_journal(&desk.folder, BootId::current(), today)?;
    for row in desk.records.usage(today).await? {
        let count = used.entry(row.subject).or_default();
        *count = row.used.max(*count);
    }
    Ok(used)
}

fn row(key: KeyRecord, used: &HashMap<Subject, u32>) -> Row {
    Row {
        id: key.id.0,
        account: key.account,
        name: key.name,
        scope: key.scope,
        state: key.state.as_str(),
        last_four: key.last_four,
        created: moment(key.created_ms),
        daily_limit: key.daily_limit,
        used_today: used.get(&Subject::Key(key.id)).copied().unwrap_or(0),
    }
}

fn name(text: &str) -> Result<String, &'static str> {
    if text.chars().count() <= 100 && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("a name has at most 100 characters and no control characters")
    }
}
