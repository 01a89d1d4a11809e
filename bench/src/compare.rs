//! `bench compare BASE`: this build of ipse against that of another commit, in turn.

use crate::http;
use crate::noise::Noise;
use crate::peer::Peer;
use crate::rounds::Asked;
use crate::stage::Stage;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn bench(base: &str, rounds: usize) -> Result<()> {
    let root =
        std::env::var_os("XTASK_ROOT").context("XTASK_ROOT is not set: start this with `cargo xtask`")?;
    let base = build(&PathBuf::from(root), base)?;
    let mut stage = Stage::whole()?;
    stage.base = Some(base);
    let mut asked = Vec::new();
    for peer in [Peer::Base, Peer::Ipse, Peer::Limit] {
        asked.push(Asked::new(peer.start(&stage, &stage.cores.of_server())?));
    }
    let noise = Noise::begin()?;
    let http = http::play_all(&stage, &mut asked, rounds)?;
    noise.tell(&http.keep_alive)
}

/// Builds another commit in a folder of its own below `target`, where it stays for the next time.
fn build(root: &Path, base: &str) -> Result<PathBuf> {
    let folder = root.join("target/bench-base");
    if folder.is_dir() {
        run(Command::new("git").current_dir(&folder).args(["checkout", "--quiet", "--detach", base]))?;
    } else {
        let add = ["worktree", "add", "--quiet", "--detach"];
        run(Command::new("git").current_dir(root).args(add).arg(&folder).arg(base))?;
    }
    let target = folder.join("target");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&folder).args(["build", "--release", "--locked", "-p", "ipse"]);
    run(cargo.env("CARGO_TARGET_DIR", &target))?;
    Ok(target.join("release/ipse"))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
