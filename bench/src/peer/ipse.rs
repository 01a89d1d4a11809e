//! ipse itself: the real program, with its ledger, its default data, and a folder on the disk.

use super::{Peer, Process, Running};
use crate::keys;
use crate::stage::Stage;
use anyhow::{Result, ensure};
use ipse_testkit::{Server, Stopwatch};
use std::path::{Path, PathBuf};

/// Names another program to measure than the one beside this.
const OTHER: &str = "IPSE_BENCH_PROGRAM";

pub(super) fn start(peer: Peer, stage: &Stage, program: &Path) -> Result<Running> {
    let data_dir = stage.fresh_folder()?.join("data");
    keys::fill(program, &data_dir, &stage.keys)?;
    let mut command = ipse_testkit::program(program);
    command.arg("serve").env("IPSE_LOG_LEVEL", "warn");
    command.args(["--tls-listen", "127.0.0.1:0"]);
    command.arg("--tls-cert").arg(&stage.certificate.certificate);
    command.arg("--tls-key").arg(&stage.certificate.key);
    let begun = Stopwatch::start();
    let server = Server::start(command, &data_dir)?;
    Ok(Running {
        peer,
        clear: server.address,
        tls: Some(server.https()?),
        begun,
        processes: vec![server.process.id()],
        _process: Process::Ipse(Box::new(server)),
    })
}

/// The program that is measured.
pub(crate) fn program() -> Result<PathBuf> {
    let program = match std::env::var_os(OTHER) {
        Some(other) => PathBuf::from(other),
        None => std::env::current_exe()?.with_file_name("ipse"),
    };
    ensure!(program.is_file(), "{} is not there: run `cargo build -p ipse` first", program.display());
    Ok(program)
}
