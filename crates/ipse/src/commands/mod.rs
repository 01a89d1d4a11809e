//! The command line: what can be typed, and who does it.

mod account;
mod data;
mod doctor;
mod health;
mod key;
mod serve;
mod store;

use crate::config::Config;
use crate::error::Error;
use crate::settings::{DataFlags, Flags, ServeFlags};
use crate::{process, update};
use clap::{Parser, Subcommand};
use ipse_edge::Clock;
use ipse_geodata::{OperatorFiles, UpdateError};
use ipse_model::Now;
use ipse_store::{DataFolder, Database, Records};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// The IP lookup service that anyone can run.
#[derive(Parser)]
#[command(name = "ipse", version, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Line {
    #[command(flatten)]
    flags: ServeFlags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve (the same as `ipse` alone)
    Serve {
        #[command(flatten)]
        flags: ServeFlags,
    },
    /// Create, list and delete accounts
    #[command(subcommand)]
    Account(account::Command),
    /// Create, list and change API keys
    #[command(subcommand)]
    Key(key::Command),
    /// Build, look at and update geo data
    #[command(subcommand)]
    Data(data::Command),
    /// Move accounts, keys and counts to another database
    #[command(subcommand)]
    Store(store::Command),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Ask the running server whether it is ready; the code tells
    Health {
        #[command(flatten)]
        flags: ServeFlags,
    },
    /// Say who is believed about callers' addresses, who could lie about them, and what became of one request
    Doctor(doctor::Doctor),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Say whether the configuration is valid, and what is wrong with it
    Check {
        #[command(flatten)]
        flags: ServeFlags,
    },
    /// Print every setting with its value and where it came from
    Show {
        #[command(flatten)]
        flags: ServeFlags,
    },
}

/// Runs one command line. Answers go to standard output, everything else to standard error.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let line = match Line::try_parse_from(arguments) {
        Ok(line) => line,
        // A wrong command line ends with 2, a request for help with 0.
        Err(error) => error.exit(),
    };
    process::keep_files_private();
    match dispatch(line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "ipse: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(line: Line) -> Result<(), Error> {
    match line.command.unwrap_or(Command::Serve { flags: line.flags }) {
        Command::Serve { flags } => {
            let config = read(&flags.0)?;
            check_updates(&config)?;
            serve::serve(config)
        }
        Command::Account(command) => account::run(command),
        Command::Key(command) => key::run(command),
        Command::Data(command) => data::run(&command),
        Command::Store(command) => store::run(command),
        Command::Doctor(command) => doctor::run(&command),
        Command::Health { flags } => health::run(&flags),
        Command::Config(ConfigCommand::Check { flags }) => {
            check_updates(&read(&flags.0)?)?;
            say("The configuration is valid.");
            Ok(())
        }
        Command::Config(ConfigCommand::Show { flags }) => {
            let (_, settings) = Config::read(&flags.0, std::env::vars_os())?;
            print(&settings.table().to_string())
        }
    }
}

fn read(flags: &Flags) -> Result<Config, Error> {
    Config::read(flags, std::env::vars_os()).map(|(config, _)| config)
}

/// Whether updates that a server shall make by itself could begin: what is wrong is better told now than in an hour.
fn check_updates(config: &Config) -> Result<(), Error> {
    if config.geo_updates.rhythm.is_some() {
        let plan = update::plan(config, false)?;
        OperatorFiles::read(&plan.flags).and_then(|files| files.flags()).map_err(UpdateError::Flags)?;
    }
    Ok(())
}

/// What a command that looks at the data works with.
struct Desk {
    folder: DataFolder,
    records: Records,
    now: Now,
}

/// Whether a command may be the first to use a data folder.
#[derive(Clone, Copy)]
enum Beginning {
    MakesFolder,
    NeedsData,
}

/// Opens the data that `flags` name, runs `work` on it and closes it.
fn at_desk<T>(
    flags: &DataFlags,
    beginning: Beginning,
    work: impl AsyncFnOnce(&Desk) -> Result<T, Error>,
) -> Result<T, Error> {
    let config = read(&flags.0)?;
    let folder = match (beginning, &config.database) {
        // The folder may be another machine's; its journal is looked at if it is ours.
        (_, Some(_)) => DataFolder::named(&config.data_dir),
        (Beginning::MakesFolder, None) => {
            if !config.data_dir.exists() {
                let made = config.data_dir.display();
                say(&format!(
                    "Making the new data folder {made}; the server must use the same (--data-dir)."
                ));
            }
            DataFolder::create(&config.data_dir)?
        }
        (Beginning::NeedsData, None) => DataFolder::existing(&config.data_dir)?,
    };
    let database = match config.database {
        Some(url) => Database::Server(url),
        None => Database::Folder(folder.clone()),
    };
    runtime()?.block_on(async {
        let records = database.open().await?;
        let desk = Desk { folder, records, now: Clock::system().now() };
        let done = work(&desk).await;
        desk.records.close().await;
        done
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Runtime::new()
        .map_err(|source| Error::System { what: "cannot start the runtime", source })
}

/// Writes to standard output. If nobody reads it any more, that is their choice; any other failure is told.
fn print(text: &str) -> Result<(), Error> {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::System { what: "cannot write to standard output", source })
        }
        _ => Ok(()),
    }
}

fn print_json(value: &impl Serialize) -> Result<(), Error> {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    print(&text)
}

/// Tells a person something that a script would not want in its input.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A moment as people and programs read it.
fn moment(unix_ms: i64) -> String {
    let seconds = jiff::Timestamp::from_second(unix_ms.div_euclid(1000));
    seconds.map(|timestamp| timestamp.to_string()).unwrap_or_default()
}
