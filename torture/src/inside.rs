//! The whole server inside this process, behind a real socket, with a clock of the campaign's choosing.

use anyhow::{Context, Result, bail};
use ipse::Config;
use ipse_edge::{Clock, Handed};
use ipse_geo::Atlas;
use ipse_model::{KeyId, Scope};
use ipse_store::{Created, DataFolder, Email, NewKey, Records};
use std::net::SocketAddr;
use std::path::Path;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server.
pub(crate) struct Inside {
    pub(crate) address: SocketAddr,
    /// Every door: the clear ones first, those of the PROXY protocol last.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Where an operator looks, if that was set.
    pub(crate) operator: Option<SocketAddr>,
    /// The records that the server works with.
    pub(crate) records: Records,
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), ipse::Error>>,
}

impl Inside {
    pub(crate) fn start(data_dir: &Path, clock: Clock) -> Result<Self> {
        Self::start_with(data_dir, clock, &[("listen", "127.0.0.1:0")])
    }

    /// With these settings beside the folder.
    pub(crate) fn start_with(data_dir: &Path, clock: Clock, settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_changed(data_dir, clock, settings, |server| server)
    }

    /// The same after a change that no setting makes.
    pub(crate) fn start_changed(
        data_dir: &Path,
        clock: Clock,
        settings: &[(&str, &str)],
        change: impl FnOnce(ipse::Server) -> ipse::Server,
    ) -> Result<Self> {
        let data_dir = data_dir.to_str().context("the folder's name is no text")?;
        let config = Config::from_settings(
            &[&[("admin_listen", "none")], settings, &[("data_dir", data_dir)]].concat(),
        )?;
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let geo = ipse::Geo::of(Atlas::empty(), &config);
        let server = runtime.block_on(ipse::Server::start(
            config,
            clock,
            Handed::default(),
            std::future::ready(Ok(geo)),
        ))?;
        let server = change(server);
        let addresses = server.addresses().to_vec();
        let address = *addresses.first().context("the server listens nowhere")?;
        let operator = server.operator_addresses().first().copied();
        let records = server.records().clone();
        let (stop, stopped) = oneshot::channel();
        let asked_to_stop = async {
            let _ = stopped.await;
        };
        let running = runtime.spawn(server.run(asked_to_stop, std::future::pending()));
        Ok(Self { address, addresses, operator, records, runtime, stop, running })
    }

    /// Waits for something that is done beside the server.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Lets the server finish as it does when it is asked to stop.
    pub(crate) fn stop(self) -> Result<()> {
        let _ = self.stop.send(());
        Ok(self.runtime.block_on(self.running)??)
    }
}

/// A key that the server will know when it starts.
#[derive(Clone)]
pub(crate) struct MadeKey {
    pub(crate) id: KeyId,
    pub(crate) text: String,
}

/// Makes one key for each daily limit, ten to an account, before any server runs.
pub(crate) fn make_keys(data_dir: &Path, daily_limits: &[u32]) -> Result<Vec<MadeKey>> {
    with_records(data_dir, async |records| keys_in(records, daily_limits).await)
}

/// Makes one key for each daily limit, ten to an account, in records that have none yet.
pub(crate) async fn keys_in(records: &Records, daily_limits: &[u32]) -> Result<Vec<MadeKey>> {
    let now = Clock::system().now();
    let mut keys = Vec::with_capacity(daily_limits.len());
    for (number, daily_limit) in daily_limits.iter().enumerate() {
        let account: Email = format!("torture-{}@example.com", number / 10).parse()?;
        let daily_limit = Some(*daily_limit);
        let new = NewKey { account: &account, name: "torture", scope: Scope::Geo, daily_limit };
        match records.create_key(&new, now).await? {
            Created::Key { text, record } => {
                keys.push(MadeKey { id: record.id, text: text.reveal().to_owned() });
            }
            Created::AccountIsFull => bail!("an account is full after ten keys"),
        }
    }
    Ok(keys)
}

/// Works on the records of a folder while no server runs on it.
pub(crate) fn with_records<T>(data_dir: &Path, work: impl AsyncFnOnce(&Records) -> Result<T>) -> Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let records = Records::open(&DataFolder::create(data_dir)?).await?;
        let outcome = work(&records).await;
        records.close().await;
        outcome
    })
}
