//! Keys by the thousand: made at once, and known to every peer before it starts.

use anyhow::{Context, Result, ensure};
use ipse_model::KeyText;
use ipse_testkit::Random;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Numbers below belong to what the program makes itself.
const FIRST_ID: usize = 1_000;

/// Texts that follow from a seed. Nobody keeps anything behind them.
pub(crate) fn texts(count: usize, seed: u64) -> Vec<KeyText> {
    let mut random = Random::new(seed);
    let mut text = || {
        let made = KeyText::from_random(|bytes| {
            bytes.fill_with(|| random.byte());
            Ok::<_, std::convert::Infallible>(())
        });
        made.unwrap_or_else(|never| match never {})
    };
    (0..count).map(|_| text()).collect()
}

/// Has a folder of a program know these keys: ten to an account, the widest scope, the usual day.
pub(crate) fn fill(program: &Path, data_dir: &Path, keys: &[KeyText]) -> Result<()> {
    // The first account makes the folder and its database.
    let made = ipse_testkit::program(program)
        .args(["account", "create", "bench@example.com", "--data-dir"])
        .arg(data_dir)
        .output()?;
    ensure!(made.status.success(), "no account: {}", String::from_utf8_lossy(&made.stderr));
    // One statement each would be synced each: this is one transaction.
    let mut filling = Command::new("sqlite3")
        .arg(data_dir.join("ipse.db"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("sqlite3 is needed: cargo xtask test installs it")?;
    let mut sql = filling.stdin.take().context("no input")?;
    sql.write_all(b"PRAGMA synchronous = OFF; BEGIN;\n")?;
    let mut lines = String::new();
    for (index, key) in keys.iter().enumerate() {
        let (id, account) = (FIRST_ID + index, FIRST_ID + index / 10);
        if index % 10 == 0 {
            writeln!(
                lines,
                "INSERT INTO accounts (id, email, created_ms) VALUES ({account}, '{account}@example.com', 0);"
            )?;
        }
        writeln!(
            lines,
            "INSERT INTO keys (id, account_id, name, hash, last_four, scope, daily_limit, active, paused_ms, resumes, \
             created_ms) VALUES ({id}, {account}, 'bench', '{}', '{}', 'full', 10000, 1, NULL, 0, 0);",
            key.hash().to_hex(),
            key.last_four()
        )?;
        if lines.len() > 1 << 20 {
            sql.write_all(lines.as_bytes())?;
            lines.clear();
        }
    }
    sql.write_all(lines.as_bytes())?;
    sql.write_all(b"COMMIT;\n")?;
    drop(sql);
    ensure!(filling.wait()?.success(), "sqlite3 failed");
    Ok(())
}
