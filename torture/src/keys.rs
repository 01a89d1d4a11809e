//! `bench keys`: what a server's table of a million keys takes, in memory and in time, from either engine.
//!
//! Each is measured in a process of its own, so that nothing of one is in the figure of the other.

use anyhow::{Context, Result, bail, ensure};
use ipse_store::{DataFolder, Database, KeyTable};
use ipse_testkit::vitals::resident_bytes_of;
use ipse_testkit::{Postgres, Stopwatch};
use std::process::Command;

/// How this program is started again to load a table.
pub(crate) const LOADER: &str = "keys-loader";

const KEYS: u32 = 1_000_000;
const MOST_BYTES: f64 = 160.0;
const MOST_SECONDS: f64 = 3.0;
const SHORT_KEYS: u32 = 20_000;
const RUNS: usize = 3;

/// The measurement, held to its targets.
pub(crate) fn bench() -> Result<()> {
    measure(KEYS, RUNS, Some((MOST_BYTES, MOST_SECONDS)))
}

/// A few keys, held to nothing but that all of them arrive.
pub(crate) fn bench_short() -> Result<()> {
    measure(SHORT_KEYS, 1, None)
}

fn measure(keys: u32, runs: usize, targets: Option<(f64, f64)>) -> Result<()> {
    println!("bench keys: {keys} keys, {runs} runs each; replay with: cargo xtask bench keys");
    let dir = tempfile::tempdir()?;
    let folder = DataFolder::create(&dir.path().join("data"))?;
    let runtime = tokio::runtime::Runtime::new()?;
    let postgres = Postgres::start()?;
    let url = postgres.database()?;
    for database in [Database::Folder(folder.clone()), Database::Server(url.parse()?)] {
        runtime.block_on(async {
            database.open().await?.close().await;
            anyhow::Ok(())
        })?;
    }
    fill_sqlite(&folder, keys)?;
    fill_postgres(&postgres, &url, keys)?;
    let mut missed = Vec::new();
    for (name, place) in
        [("SQLite", folder.path().to_string_lossy().into_owned()), ("PostgreSQL", url.clone())]
    {
        let mut loads = (0..runs).map(|_| load_apart(&place, keys)).collect::<Result<Vec<Load>>>()?;
        loads.sort_unstable_by(|one, other| one.seconds.total_cmp(&other.seconds));
        let median = &loads[runs / 2];
        let most = loads.iter().map(|load| load.bytes_per_key).fold(0.0, f64::max);
        println!(
            "  {name}: {most:.0} bytes of resident memory for each key, loaded in {:.2} s (median of {runs})",
            median.seconds
        );
        if let Some((bytes, seconds)) = targets {
            println!("    targets: at most {bytes:.0} bytes, at most {seconds:.0} s");
            if most > bytes || median.seconds > seconds {
                missed.push(name);
            }
        }
    }
    ensure!(missed.is_empty(), "bench keys: not met with {}", missed.join(" and "));
    Ok(())
}

/// What one loading took.
struct Load {
    bytes_per_key: f64,
    seconds: f64,
}

fn load_apart(place: &str, keys: u32) -> Result<Load> {
    let output = Command::new(std::env::current_exe()?).args([LOADER, place]).output()?;
    let said = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [count, bytes, seconds] = numbers[..] else { bail!("the loader said {said:?}") };
    ensure!(count == f64::from(keys), "{count} of {keys} keys were loaded");
    Ok(Load { bytes_per_key: bytes / count, seconds })
}

/// Loads a table, and says how many keys it holds, by how much the process has grown, and how long it took.
pub(crate) fn load(place: &str) -> Result<()> {
    let database = match place.parse() {
        Ok(url) => Database::Server(url),
        Err(_) => Database::Folder(DataFolder::existing(place.as_ref())?),
    };
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let records = database.open().await?;
        records.check().await?;
        let before = resident_bytes_of(std::process::id())?;
        let watch = Stopwatch::start();
        let table = KeyTable::load(&records).await?;
        let seconds = watch.seconds();
        println!(
            "{} {} {seconds}",
            table.len(),
            resident_bytes_of(std::process::id())?.saturating_sub(before)
        );
        records.close().await;
        Ok(())
    })
}

/// Ten keys an account, each with a text of its own; one of fifty was rolled and keeps the old one.
fn fill_sqlite(folder: &DataFolder, keys: u32) -> Result<()> {
    let sql = format!(
        "PRAGMA synchronous = OFF; BEGIN; \
         INSERT INTO accounts (id, email, created_ms) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
         WHERE i < {accounts}) SELECT i, i || '@example.com', 0 FROM n; \
         INSERT INTO keys (id, account_id, name, hash, last_four, scope, daily_limit, active, paused_ms, resumes, \
         created_ms) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {keys}) \
         SELECT i, 1 + (i - 1) / 10, 'key', lower(hex(randomblob(32))), 'abcd', 'geo', 10000, 1, NULL, 0, 0 FROM n; \
         INSERT INTO old_texts SELECT lower(hex(randomblob(32))), id, 'abcd', 4102444800000 FROM keys WHERE id % 50 = 0; \
         COMMIT;",
        accounts = keys.div_ceil(10),
    );
    let status = Command::new("sqlite3").arg(folder.database()).arg(sql).status();
    ensure!(status.context("sqlite3 is needed: cargo xtask test installs it")?.success(), "sqlite3 failed");
    Ok(())
}

fn fill_postgres(postgres: &Postgres, url: &str, keys: u32) -> Result<()> {
    let random = "md5(random()::text) || md5(random()::text)";
    let sql = format!(
        "INSERT INTO accounts (id, email, created_ms) SELECT i, i || '@example.com', 0 FROM generate_series(1, {accounts}) i; \
         INSERT INTO keys (id, account_id, name, hash, last_four, scope, daily_limit, active, paused_ms, resumes, \
         created_ms) SELECT i, 1 + (i - 1) / 10, 'key', {random}, 'abcd', 'geo', 10000, 1, NULL, 0, 0 \
         FROM generate_series(1, {keys}) i; \
         INSERT INTO old_texts SELECT {random}, id, 'abcd', 4102444800000 FROM keys WHERE id % 50 = 0; \
         ANALYZE;",
        accounts = keys.div_ceil(10),
    );
    postgres.ask(url, &sql).map(drop)
}
