//! This node among the others: it says that it is there, and looks who else is.

use crate::error::Error;
use crate::server::{every, next};
use ipse_edge::Clock;
use ipse_model::Now;
use ipse_store::{Engine, Node, Records, random_secret};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const SAY_EVERY: Duration = Duration::from_secs(2);
/// A node that has said nothing for so long takes no part in what is shared out.
const SILENT_AFTER_MS: i64 = 10_000;

/// Who this node is, from this start on.
pub(crate) fn this(name: Option<String>, now: Now) -> Result<Node, Error> {
    let name = name.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    Ok(Node {
        id: random_secret()?.reveal().chars().take(16).collect(),
        name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_ms: now.unix_ms,
        seen_ms: now.unix_ms,
    })
}

/// Says that this node is there, until it is not, and tells the counters among how many a minute is to be shared.
pub(crate) async fn gather(
    records: Records,
    node: Node,
    counters: Arc<Engine>,
    clock: Clock,
    mut ended: watch::Receiver<bool>,
) {
    let mut ticks = every(SAY_EVERY);
    while next(&mut ticks, &mut ended).await {
        let now = clock.now();
        // A database that is away is told of by whoever needs it for more than this.
        if records.seen(&node, now).await.is_err() {
            continue;
        }
        let Engine::Shared(shared) = &*counters else { continue };
        if let Ok(nodes) = records.nodes(now).await {
            let there = nodes.iter().filter(|node| now.unix_ms - node.seen_ms < SILENT_AFTER_MS).count();
            shared.shared_among(u32::try_from(there).unwrap_or(u32::MAX));
        }
    }
    let _ = records.left(&node.id).await;
}
