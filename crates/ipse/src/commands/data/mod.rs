//! `ipse data …`

mod build;
mod look;
mod progress;
mod report;
mod update;

use crate::error::Error;
use clap::Subcommand;
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Build a snapshot from vendors' files
    Build(build::Build),
    /// Print what a snapshot was built from and how much it knows
    Info {
        /// Print an object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: look::Which,
    },
    /// Print what is known about addresses, as JSON
    Lookup {
        /// The addresses
        #[arg(required = true, value_name = "IP")]
        addresses: Vec<IpAddr>,
        /// Say which source and which rule gave each field
        #[arg(long)]
        explain: bool,
        #[command(flatten)]
        which: look::Which,
    },
    /// Say whether a snapshot is whole
    Verify {
        /// The snapshot
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print what changed from one snapshot to another
    Diff {
        /// The older one
        #[arg(value_name = "BEFORE")]
        before: PathBuf,
        /// The newer one
        #[arg(value_name = "AFTER")]
        after: PathBuf,
    },
    /// Fetch vendors' newest files and put a new snapshot in place
    Update(update::Update),
}

pub(super) fn run(command: &Command) -> Result<(), Error> {
    match command {
        Command::Build(command) => build::run(command),
        Command::Info { json, which } => look::info(which, *json),
        Command::Lookup { addresses, explain, which } => look::lookup(which, addresses, *explain),
        Command::Verify { file } => look::verify(file),
        Command::Diff { before, after } => look::difference(before, after),
        Command::Update(command) => update::run(command),
    }
}
