//! `ipse account …`

use super::{Beginning, at_desk, moment, print, print_json, say};
use crate::config::Config;
use crate::error::Error;
use crate::settings::{DataFlags, ServeFlags};
use crate::table::Table;
use clap::Subcommand;
use ipse_store::{Activity, Email, NewToken, Token, TokenPurpose, random_secret};
use serde::Serialize;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Create an account
    Create {
        /// The e-mail address that names it
        email: Email,
        #[command(flatten)]
        flags: DataFlags,
    },
    /// List all accounts
    List {
        /// Print an array of objects
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        flags: DataFlags,
    },
    /// Print a link by which the owner of an account chooses a new password
    Reset {
        /// The e-mail address that names it
        email: Email,
        /// Let the password alone do again, for an owner who has lost the second factor as well
        #[arg(long)]
        second_factor: bool,
        #[command(flatten)]
        flags: ServeFlags,
    },
    /// Delete an account, its keys and their usage
    Delete {
        /// The e-mail address that names it
        email: Email,
        #[command(flatten)]
        flags: DataFlags,
    },
}

#[derive(Serialize)]
struct Row {
    email: String,
    created: String,
    keys: u32,
}

pub(super) fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Create { email, flags } => at_desk(&flags, Beginning::MakesFolder, async |desk| {
            if !desk.records.create_account(&email, desk.now).await? {
                return Err(Error::Refused(format!("there is an account {email} already")));
            }
            say(&format!("Created the account {email}."));
            Ok(())
        }),
        Command::List { json, flags } => at_desk(&flags, Beginning::NeedsData, async |desk| {
            let accounts = desk.records.accounts().await?;
            let rows = accounts.into_iter().map(|account| Row {
                email: account.email,
                created: moment(account.created_ms),
                keys: account.keys,
            });
            if json {
                return print_json(&rows.collect::<Vec<_>>());
            }
            let mut table = Table::new(["EMAIL", "CREATED", "KEYS"]);
            rows.for_each(|row| table.row([row.email, row.created, row.keys.to_string()]));
            print(&table.to_string())
        }),
        Command::Delete { email, flags } => at_desk(&flags, Beginning::NeedsData, async |desk| {
            if !desk.records.delete_account(&email).await? {
                return Err(no_such(&email));
            }
            say(&format!("Deleted the account {email} with its keys and their usage."));
            Ok(())
        }),
        Command::Reset { email, second_factor, flags } => reset(&email, second_factor, &flags),
    }
}

/// Makes a link that is good once. Whoever has it gets in, so it is printed and nowhere kept.
fn reset(email: &Email, second_factor: bool, flags: &ServeFlags) -> Result<(), Error> {
    let (_, settings) = Config::read(&flags.0, std::env::vars_os())?;
    let (base_url, is_set) = settings.base_url();
    at_desk(&DataFlags(flags.0.clone()), Beginning::NeedsData, async |desk| {
        let (records, now) = (&desk.records, desk.now);
        let account = records.login(email).await?.ok_or_else(|| no_such(email))?;
        if second_factor && account.totp_secret.is_some() {
            records.clear_totp(account.id).await?;
            records.note_activity(account.id, Activity::TotpOff, None, Some(BY_OPERATOR), now).await?;
            say(&format!("{email} needs no second factor any longer."));
        }
        let secret = random_secret()?;
        let token = NewToken {
            hash: &secret.hash(),
            purpose: TokenPurpose::Reset,
            account: Some(account.id),
            email: None,
            password: None,
            ends_ms: now.unix_ms + Token::LIFETIME_MS,
        };
        records.make_token(&token, now).await?;
        records.note_activity(account.id, Activity::ResetAsked, None, Some(BY_OPERATOR), now).await?;
        print(&format!("{base_url}/reset/{}\n", secret.reveal()))?;
        say(&format!(
            "Whoever opens this link may choose a new password for {email}: once, and within 20 minutes (until {}). \
             Give it to nobody but the owner.",
            moment(token.ends_ms)
        ));
        if !is_set {
            say(&format!(
                "base_url is not set: write the address by which browsers reach the server in the place of {base_url}."
            ));
        }
        Ok(())
    })
}

/// What the owner reads of it.
const BY_OPERATOR: &str = "by the operator";

fn no_such(email: &Email) -> Error {
    Error::Refused(format!("there is no account {email}; `ipse account list` shows all"))
}
