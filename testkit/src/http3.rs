//! A client of HTTP/3 that nobody here wrote, behind a small script of ours.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The Python to run, and the script `h3client.py` to give it. What the script takes and prints stands in its beginning.
pub fn http3_client() -> Result<(PathBuf, PathBuf)> {
    let python = std::env::var_os("XTASK_PYTHON")
        .context("XTASK_PYTHON names a Python with aioquic: start this with `cargo xtask`")?;
    Ok((python.into(), Path::new(env!("CARGO_MANIFEST_DIR")).join("h3client.py")))
}
