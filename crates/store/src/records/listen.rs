//! Who hears at once that a key has changed, instead of asking again and again.

use super::Records;
use super::engine::{CHANNEL, Engine};
use sqlx::postgres::{PgListener, PgPoolOptions};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How long to wait before a server that is away is called again.
const CALL_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// How often it is looked whether the line is dead.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// News of keys that have changed. Where nobody tells, as with a database in a file, there is never any: whoever
/// listens also has to look by themselves, now and then.
#[derive(Debug)]
pub struct KeyNews {
    news: Arc<Notify>,
    /// None where nobody tells.
    listening: Option<JoinHandle<()>>,
    look_every: Duration,
}

impl KeyNews {
    /// Waits until keys may have changed since the last time.
    pub async fn heard(&self) {
        self.news.notified().await;
    }

    /// How often to look without having heard anything.
    #[must_use]
    pub fn look_every(&self) -> Duration {
        self.look_every
    }
}

impl Drop for KeyNews {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

impl Records {
    /// Begins to listen for changes of keys, and goes on by itself when the server was away.
    #[must_use]
    pub fn key_news(&self) -> KeyNews {
        let news = Arc::new(Notify::new());
        let (engine, heard) = (Arc::clone(&self.engine), Arc::clone(&news));
        let listening = (!engine.is_file()).then(|| {
            tokio::spawn(async move {
                loop {
                    // Whatever ended it: what happened meanwhile nobody has told us.
                    let _ = listen(&engine, &heard).await;
                    tokio::time::sleep(CALL_AGAIN_AFTER).await;
                }
            })
        });
        KeyNews { news, listening, look_every: self.engine.look_every() }
    }
}

/// Listens until the line is dead.
async fn listen(engine: &Engine, news: &Notify) -> Result<(), sqlx::Error> {
    let Some(options) = engine.postgres_options()? else { return Ok(()) };
    let pool = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let pool = pool.acquire_timeout(LOOK_EVERY).connect_lazy_with(options);
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(CHANNEL).await?;
    // What changed before we listened.
    news.notify_one();
    loop {
        match tokio::time::timeout(LOOK_EVERY, listener.try_recv()).await {
            Ok(Ok(Some(_))) => news.notify_one(),
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let asked = sqlx::query("SELECT 1").execute(&mut listener);
                tokio::time::timeout(LOOK_EVERY, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))?;
            }
        }
    }
}
