//! Who counts requests on a database that several machines reach: one server with a ledger of its own, or any number
//! that count together.
//!
//! The claim is a lock that PostgreSQL keeps for one connection, and a fact that names who had it last. A server that
//! lost the connection takes the lock again when it can; if somebody else had it meanwhile, it must stop.

use super::engine::{Engine, Hold};
use super::{Records, installation};
use crate::Error;
use sqlx::{AnyConnection, Connection, Row};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// How often it is looked whether the lock is still ours.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a server that has just died may still seem to hold the lock.
const WAIT_AT_MOST: u32 = 30;
const WAIT_EVERY: Duration = Duration::from_millis(100);

/// How requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// By this server, in a ledger of its own: by no other at the same time.
    Alone,
    /// Together with others, in an engine that all of them ask.
    Together,
}

/// Held by a server for as long as it counts.
#[derive(Debug)]
pub struct Claim {
    lost: watch::Receiver<bool>,
    /// Whoever holds the lock, and how it is asked to let go. None where the lock of the data folder does it all.
    keeper: Option<(JoinHandle<()>, oneshot::Sender<()>)>,
}

impl Claim {
    /// Waits until the claim is lost to another server. With most claims that is never.
    pub async fn lost(&self) {
        let mut lost = self.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Gives the claim up, so that another server may have it at once.
    pub async fn release(mut self) {
        if let Some((keeper, stop)) = self.keeper.take() {
            let _ = stop.send(());
            let _ = keeper.await;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((keeper, _)) = &self.keeper {
            keeper.abort();
        }
    }
}

/// A connection that holds the lock.
struct Held {
    connection: AnyConnection,
    process: i64,
}

impl Records {
    /// Claims the counting of requests. A database in a file is claimed with its folder already.
    pub async fn claim(&self, counting: Counting) -> Result<Claim, Error> {
        let (tell_lost, lost) = watch::channel(false);
        if self.engine.is_file() {
            // Nobody tells, so nobody ever loses it.
            return Ok(Claim { lost, keeper: None });
        }
        let name = installation::drawn()?;
        let mut keeper = Keeper { engine: Arc::clone(&self.engine), counting, name };
        let mut held = keeper.take().await?.ok_or_else(|| Error::Claimed(self.engine.name()))?;
        if counting == Counting::Together {
            // A ledger that died has counted something that only its journal knows.
            self.check_journal().await?;
            // Whoever counts on in an epoch that is over must stop, though others count together again.
            keeper.name = format!("together{}", self.epoch().await?);
        }
        keeper.sign(&mut held.connection).await.map_err(|error| self.engine.failed(error))?;
        let (stop, stopped) = oneshot::channel();
        let keeper = tokio::spawn(keeper.keep(held, tell_lost, stopped));
        Ok(Claim { lost, keeper: Some((keeper, stop)) })
    }
}

struct Keeper {
    engine: Arc<Engine>,
    counting: Counting,
    /// What the fact says while we count.
    name: String,
}

impl Keeper {
    /// Takes the lock; `None` if another server keeps it.
    async fn take(&self) -> Result<Option<Held>, Error> {
        let taking = async {
            let mut connection = self.engine.connect_plainly().await?;
            let process: i64 = sqlx::query("SELECT CAST(pg_backend_pid() AS BIGINT)")
                .fetch_one(&mut connection)
                .await?
                .try_get(0)?;
            for _ in 0..WAIT_AT_MOST {
                if Hold::try_lock(&mut connection, self.counting == Counting::Together).await? {
                    return Ok(Some(Held { connection, process }));
                }
                tokio::time::sleep(WAIT_EVERY).await;
            }
            Ok(None)
        };
        self.engine.within(taking).await
    }

    /// Writes down that it is we who count now.
    async fn sign(&self, connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
        sqlx::query(
            "INSERT INTO facts (name, value) VALUES ('counting', $1) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE facts.value <> excluded.value",
        )
        .bind(self.name.as_str())
        .execute(connection)
        .await
        .map(drop)
    }

    /// Whether nobody else has counted since we did.
    async fn is_ours(&self, connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
        let fact = sqlx::query("SELECT value FROM facts WHERE name = 'counting'").fetch_optional(connection);
        Ok(fact.await?.map(|row| row.try_get::<String, _>(0)).transpose()?.as_ref() == Some(&self.name))
    }

    async fn keep(self, held: Held, lost: watch::Sender<bool>, mut stopped: oneshot::Receiver<()>) {
        let mut process = held.process;
        let mut connection = Some(held.connection);
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => {
                    if let Some(mut connection) = connection {
                        // A lock that is let go by itself is free before we go on, and not only soon.
                        let _ = self.engine.within(Hold::unlock_all(&mut connection)).await;
                        let _ = self.engine.within(connection.close()).await;
                    }
                    return;
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if let Some(lives) = &mut connection
                && self.engine.within(lives.ping()).await.is_ok()
            {
                continue;
            }
            connection = None;
            // Our own connection may still seem to live over there.
            match self.take_again(process).await {
                Ok(Some(held)) => {
                    process = held.process;
                    connection = Some(held.connection);
                }
                Ok(None) => {
                    let _ = lost.send(true);
                    return;
                }
                // The server is away, for everybody: until it is back, nobody else can take the lock either.
                Err(_) => {}
            }
        }
    }

    /// Takes the lock after the connection was lost; `None` if somebody else counts, or did meanwhile.
    async fn take_again(&self, process: i64) -> Result<Option<Held>, Error> {
        let ending = async {
            let mut connection = self.engine.connect_plainly().await?;
            Hold::end_process(&mut connection, process).await?;
            connection.close().await
        };
        self.engine.within(ending).await?;
        let Some(mut held) = self.take().await? else { return Ok(None) };
        let ours = self.engine.within(self.is_ours(&mut held.connection)).await?;
        Ok(ours.then_some(held))
    }
}
