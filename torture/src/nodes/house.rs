//! One installation of several nodes: a database of its own, its keys, and nodes that are the real program.

use crate::inside::{MadeKey, keys_in};
use crate::server;
use anyhow::Result;
use ipse_store::{Database, Records};
use ipse_testkit::{Postgres, Server};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// As many nodes share what is tried over several.
pub(crate) const NODES: usize = 3;
/// For campaigns that ask what is decided, and not how long a busy machine takes to.
pub(crate) const PATIENT: (&str, &str) = ("IPSE_OUTAGE_AFTER_MS", "20000");

pub(crate) struct House {
    pub(crate) postgres: Postgres,
    url: String,
    /// The records, as another node would have them.
    pub(crate) records: Records,
    runtime: Runtime,
    folder: TempDir,
    settings: Vec<(&'static str, &'static str)>,
}

impl House {
    /// Nodes get these settings beside the database and the counters, as variables.
    pub(crate) fn new(settings: &[(&'static str, &'static str)]) -> Result<Self> {
        let postgres = Postgres::start()?;
        let url = postgres.database()?;
        let runtime = Runtime::new()?;
        let records = runtime.block_on(Database::Server(url.parse()?).open())?;
        Ok(Self {
            postgres,
            url,
            records,
            runtime,
            folder: tempfile::tempdir()?,
            settings: settings.to_vec(),
        })
    }

    /// Makes one key for each daily limit.
    pub(crate) fn keys(&self, daily_limits: &[u32]) -> Result<Vec<MadeKey>> {
        self.wait(keys_in(&self.records, daily_limits))
    }

    /// Starts a node, or starts it again, that counts there.
    pub(crate) fn node(&self, number: usize, counters: &str) -> Result<Server> {
        let mut command = ipse_testkit::program(server::program()?);
        command.args(["serve", "--node-name", &number.to_string()]);
        command.env("IPSE_DATABASE", &self.url).env("IPSE_COUNTERS", counters);
        command.envs(self.settings.iter().copied());
        server::start_with(command, &self.folder.path().join(number.to_string()))
    }

    /// Waits for something that is done with the records.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}
