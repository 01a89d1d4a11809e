//! `ipse account …`

use super::{Beginning, at_desk, moment, print, print_json, say};
use crate::error::Error;
use crate::settings::DataFlags;
use crate::table::Table;
use clap::Subcommand;
use ipse_store::Email;
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
                return Err(Error::Refused(format!(
                    "there is no account {email}; `ipse account list` shows all"
                )));
            }
            say(&format!("Deleted the account {email} with its keys and their usage."));
            Ok(())
        }),
    }
}
