//! `ipse store …`

use super::{Beginning, at_desk, print, runtime, say};
use crate::error::Error;
use crate::settings::DataFlags;
use crate::table::Table;
use clap::{Args, Subcommand};
use ipse_edge::Clock;
use ipse_model::Now;
use ipse_store::{BootId, Counting, DataFolder, Database, DatabaseUrl, FolderLock, Ledger, Records};
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Copy everything from one database to another that is empty; the one that it is copied from stays as it is
    Copy(Box<Copy>),
    /// Let another server count on a database though the data folder of the one before is lost
    ForgetJournal {
        #[command(flatten)]
        flags: DataFlags,
    },
    /// After a restore: answer no key, and no demo, before midnight UTC, because what was answered since the backup is not
    /// known
    SpendDay {
        #[command(flatten)]
        flags: DataFlags,
    },
}

#[derive(Args)]
pub(super) struct Copy {
    /// Where everything is: a data folder, or the URL of a PostgreSQL database
    #[arg(long, value_name = "PLACE")]
    from: Place,
    /// Where it shall be: a data folder or a database that holds nothing yet
    #[arg(long, value_name = "PLACE")]
    to: Place,
    /// A file that holds the password for --from
    #[arg(long, value_name = "FILE")]
    from_password_file: Option<PathBuf>,
    /// A file that holds the password for --to
    #[arg(long, value_name = "FILE")]
    to_password_file: Option<PathBuf>,
    /// The data folder of the server that counted on the database of --from: what only its journal knows is copied too
    #[arg(long, value_name = "DIR", default_value = "./ipse-data")]
    data_dir: PathBuf,
}

/// A folder or a server.
#[derive(Clone)]
enum Place {
    Folder(PathBuf),
    Server(DatabaseUrl),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // What looks like a URL is one, or a mistake; nobody has a folder of that name.
        if text.contains("://") {
            return text.parse().map(Self::Server).map_err(|why: ipse_store::NotADatabase| why.to_string());
        }
        Ok(Self::Folder(PathBuf::from(text)))
    }
}

impl Place {
    fn with_password(self, file: Option<&Path>) -> Result<Self, Error> {
        let Some(file) = file else { return Ok(self) };
        let password = std::fs::read_to_string(file)
            .map_err(|source| Error::System { what: "cannot read the file of the password", source })?;
        match self {
            Self::Server(url) => Ok(Self::Server(url.with_password(password.trim_end()))),
            Self::Folder(_) => Err(Error::Refused("a data folder has no password".to_owned())),
        }
    }
}

pub(super) fn run(command: Command) -> Result<(), Error> {
    let Copy { from, to, from_password_file, to_password_file, data_dir } = match command {
        Command::Copy(copy) => *copy,
        Command::ForgetJournal { flags } => {
            return at_desk(&flags, Beginning::NeedsData, async |desk| {
                let claim = desk.records.claim(Counting::Alone).await?;
                let forgotten = desk.records.forget_journal().await;
                claim.release().await;
                say(if forgotten? {
                    "Any server may count now. What only the lost journal knew may be served again today."
                } else {
                    "There is no journal to forget: any server may count."
                });
                Ok(())
            });
        }
        Command::SpendDay { flags } => {
            return at_desk(&flags, Beginning::NeedsData, async |desk| {
                // A server that counts would go on from what it remembers.
                let lock = desk.folder.path().is_dir().then(|| desk.folder.lock()).transpose()?;
                let claim = desk.records.claim(Counting::Alone).await?;
                let spent = desk.records.spend_day(desk.now.day()).await;
                claim.release().await;
                drop(lock);
                spent?;
                say(
                    "Today is used up, for every key and for the demo. At midnight UTC everybody has a whole day again.",
                );
                Ok(())
            });
        }
    };
    let from = from.with_password(from_password_file.as_deref())?;
    let to = to.with_password(to_password_file.as_deref())?;
    runtime()?.block_on(copy(&from, &to, &data_dir, Clock::system().now()))
}

async fn copy(from: &Place, to: &Place, data_dir: &Path, now: Now) -> Result<(), Error> {
    // Nobody serves from either, and nobody begins to before we are done.
    let (folder, lock) = journal_of(from, data_dir)?;
    let source = match from {
        Place::Folder(path) => Database::Folder(DataFolder::existing(path)?),
        Place::Server(url) => Database::Server(url.clone()),
    };
    let records = source.open().await?;
    records.check().await?;
    let claim = records.claim(Counting::Alone).await?;
    if let Some(folder) = folder.as_ref().filter(|folder| folder.has_journal()) {
        // Counts that only the journal knows.
        Ledger::open(folder, &records, BootId::current(), now).await?.close(now).await?;
    } else {
        records.check_journal().await?;
    }
    let (target, place, _lock) = open_target(to, &records, folder.as_ref()).await?;
    let copied = records.copy_to(&target).await;
    claim.release().await;
    target.close().await;
    records.close().await;
    let copied = copied?;
    drop(lock);
    let mut table = Table::new(["TABLE", "ROWS"]);
    copied.iter().for_each(|copied| table.row([copied.name.to_owned(), copied.rows.to_string()]));
    print(&table.to_string())?;
    say(&format!(
        "Everything of {source} is in {place} now, and was compared. Start the server there, and never on both: \
         nothing of {source} was deleted."
    ));
    Ok(())
}

/// The folder whose journal belongs to the source, if there is one, and the lock that keeps servers away.
fn journal_of(from: &Place, data_dir: &Path) -> Result<(Option<DataFolder>, Option<FolderLock>), Error> {
    let folder = match from {
        Place::Folder(path) => DataFolder::existing(path)?,
        Place::Server(_) if DataFolder::named(data_dir).has_journal() => DataFolder::named(data_dir),
        Place::Server(_) => return Ok((None, None)),
    };
    let lock = folder.lock()?;
    Ok((Some(folder), Some(lock)))
}

async fn open_target(
    to: &Place,
    source: &Records,
    locked: Option<&DataFolder>,
) -> Result<(Records, Database, Option<FolderLock>), Error> {
    match to {
        Place::Server(url) => {
            let place = Database::Server(url.clone());
            let target = place.open().await?;
            if target.are_of(&source.installation().await?).await? {
                return Err(Error::Refused(format!(
                    "{place} holds this very installation already, and nothing is ever copied over: name a database or a folder that holds nothing yet"
                )));
            }
            Ok((target, place, None))
        }
        Place::Folder(path) => {
            let folder = DataFolder::create(path)?;
            let is_locked = locked.is_some_and(|locked| is_same(locked.path(), path));
            let lock = if is_locked { None } else { Some(folder.lock()?) };
            let records = Records::open_for_copy(&folder, &source.installation().await?).await?;
            Ok((records, Database::Folder(folder), lock))
        }
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
