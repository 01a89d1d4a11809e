//! `ipse data …`

mod build;
mod progress;
mod report;

use crate::error::Error;
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Build a snapshot from vendors' files
    Build(build::Build),
}

pub(super) fn run(command: &Command) -> Result<(), Error> {
    match command {
        Command::Build(command) => build::run(command),
    }
}
