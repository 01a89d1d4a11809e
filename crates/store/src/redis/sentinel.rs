//! Who is the master, as sentinels say.

use super::reach::{Plan, connect, in_words};
use super::url::Place;
use redis::aio::MultiplexedConnection;
use std::time::Duration;
use tokio::time::timeout;

const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// Asks one sentinel after the other, until one knows.
pub(super) async fn master(plan: &Plan, name: &str) -> Result<Place, String> {
    let mut why = String::new();
    for place in &plan.url.places {
        match timeout(ANSWER_WITHIN, ask(plan, place, name)).await {
            Ok(Ok(master)) => return Ok(master),
            Ok(Err(error)) => why = format!("the sentinel at {place}: {error}"),
            Err(_) => why = format!("the sentinel at {place}: it does not answer"),
        }
    }
    Err(why)
}

async fn ask(plan: &Plan, place: &Place, name: &str) -> Result<Place, String> {
    // Most sentinels ask for no password, and some of those that do are given the one of their servers.
    let told = match connect(plan, place, false).await {
        Ok(connection) => master_of(connection, name).await,
        Err(error) => Err(error),
    };
    match told {
        Err(error) if error.starts_with("NOAUTH") => master_of(connect(plan, place, true).await?, name).await,
        told => told,
    }
}

async fn master_of(mut connection: MultiplexedConnection, name: &str) -> Result<Place, String> {
    let mut command = redis::cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(name);
    let told: Option<(String, u16)> =
        command.query_async(&mut connection).await.map_err(|error| in_words(&error))?;
    let (host, port) = told.ok_or_else(|| format!("it watches no master of the name {name}"))?;
    Ok(Place { host, port })
}
