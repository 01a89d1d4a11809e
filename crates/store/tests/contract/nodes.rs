//! The servers that work on one database, and what tells it from others.

use crate::{DAY_MS, NOON, later};
use ipse_model::Now;
use ipse_store::Node;

fn node(id: &str, started_ms: i64) -> Node {
    let (name, version) = ("one".to_owned(), "0.1.0".to_owned());
    Node { id: id.to_owned(), name, version, started_ms, seen_ms: 0 }
}

#[tokio::test]
async fn nodes_are_known_while_they_say_that_they_are_there() {
    let store = super::store().await;
    let records = &store.records;
    records.seen(&node("b", 7), NOON).await.unwrap();
    records.seen(&node("a", 5), NOON).await.unwrap();
    records.seen(&node("a", 5), later(NOON, 10)).await.unwrap();
    let at = NOON.unix_ms;
    let expected = [Node { seen_ms: at + 10, ..node("a", 5) }, Node { seen_ms: at, ..node("b", 7) }];
    assert_eq!(records.nodes(later(NOON, 10)).await.unwrap(), expected);
    let tomorrow = Now { unix_ms: at + DAY_MS, ..NOON };
    assert_eq!(
        records.nodes(tomorrow).await.unwrap(),
        expected[..1],
        "a node that says nothing for a day is gone"
    );
    records.sweep(0, 0, tomorrow).await.unwrap();
    assert_eq!(store.ask("SELECT id FROM nodes"), "a");
    records.left("a").await.unwrap();
    assert_eq!(records.nodes(tomorrow).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_installation_is_named_once() {
    let store = super::store().await;
    let other = store.open().await;
    let naming = (0..20).map(|i| {
        let records = if i % 2 == 0 { store.records.clone() } else { other.clone() };
        tokio::spawn(async move { records.installation().await.unwrap() })
    });
    let mut names = Vec::new();
    for named in naming.collect::<Vec<_>>() {
        names.push(named.await.unwrap());
    }
    names.dedup();
    assert_eq!(names.len(), 1);
    assert!(names[0].len() == 16 && names[0].bytes().all(|byte| byte.is_ascii_hexdigit()), "{}", names[0]);
    assert_ne!(names[0], super::store().await.records.installation().await.unwrap());
}
