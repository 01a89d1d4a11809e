//! Who is the master, as sentinels say.

use super::reach::{Entry, Plan, Trouble, connect};
use super::url::Place;
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
    // Most sentinels ask for no password. Those that do are given the user and the password of their servers.
    match told(plan, place, name, Entry::Unnamed).await {
        Err(trouble) if trouble.wants_password && plan.url.has_password() => {
            told(plan, place, name, Entry::Named).await.map_err(|trouble| match trouble.is_refusal {
                true => format!("{}, which are those of the servers", trouble.why),
                false => trouble.why,
            })
        }
        told => told.map_err(String::from),
    }
}

async fn told(plan: &Plan, place: &Place, name: &str, entry: Entry) -> Result<Place, Trouble> {
    let mut connection = connect(plan, place, entry).await?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(name);
    let told: Option<(String, u16)> = command.query_async(&mut connection).await?;
    let (host, port) = told.ok_or_else(|| format!("it watches no master of the name {name}"))?;
    Ok(Place { host, port })
}
