//! Ranges of a day's numbers: each number is given out once.

use crate::{NOON, email};
use ipse_model::{Day, KeyId};
use ipse_store::{Portion, Range, Subject, Wanted};

fn wanted(subject: Subject, limit: u32) -> Wanted {
    Wanted { subject, day: NOON.day(), limit, portion: Portion::PartOfDay }
}

#[tokio::test]
async fn ranges_follow_each_other_up_to_the_limit() {
    let store = super::store().await;
    let records = &store.records;
    let (_, key) = store.key(None).await;
    let key = Subject::Key(key.id);
    assert_eq!(records.reserve(&[]).await.unwrap(), []);
    let mut ranges = Vec::new();
    for _ in 0..18 {
        let Range { from, to } = records.reserve(&[wanted(key, 150)]).await.unwrap()[0];
        ranges.push((from, to));
    }
    // Of a day a sixteenth is given out at once.
    assert_eq!(ranges[..2], [(0, 9), (9, 18)]);
    assert_eq!(ranges[15..], [(135, 144), (144, 150), (150, 150)]);
    // Another limit, another day, another subject.
    assert_eq!(records.reserve(&[wanted(key, 100)]).await.unwrap(), [Range { from: 150, to: 150 }]);
    assert_eq!(records.reserve(&[wanted(key, 152)]).await.unwrap(), [Range { from: 150, to: 152 }]);
    let tomorrow = Wanted { day: Day(NOON.day().0 + 1), ..wanted(key, 150) };
    assert_eq!(records.reserve(&[tomorrow]).await.unwrap(), [Range { from: 0, to: 9 }]);
    // Of a small day four are.
    let both = [wanted(key, 153), wanted(Subject::Demo, 10), wanted(Subject::Key(KeyId(999)), 10)];
    let expected = [Range { from: 152, to: 153 }, Range { from: 0, to: 4 }, Range { from: 0, to: 0 }];
    assert_eq!(records.reserve(&both).await.unwrap(), expected, "a key that is no more gets nothing");
    assert_eq!(records.reserve(&[wanted(key, 10_000)]).await.unwrap(), [Range { from: 153, to: 778 }]);
    let few = Wanted { portion: Portion::Few { waiting: 1 }, ..wanted(key, 10_000) };
    assert_eq!(records.reserve(&[few]).await.unwrap(), [Range { from: 778, to: 842 }]);
    let few = Wanted { portion: Portion::Few { waiting: 1 }, ..wanted(key, 900) };
    assert_eq!(records.reserve(&[few]).await.unwrap(), [Range { from: 842, to: 898 }]);
    let rows = records.usage(NOON.day()).await.unwrap();
    assert!(rows.iter().all(|row| row.used == 0) && rows.len() == 2, "nothing is used yet: {rows:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_who_ask_at_once_get_every_number_once() {
    const LIMIT: u32 = 1000;
    let store = super::store().await;
    // Nodes have connections of their own.
    let nodes = [store.records.clone(), store.open().await, store.open().await];
    let mut keys = vec![Subject::Demo];
    for number in 0..5 {
        let account = email(&format!("{number}@example.com"));
        keys.push(Subject::Key(crate::create(&store.records, &account, None).await.unwrap().1.id));
    }
    let asking = (0..100).map(|number| {
        let records = nodes[number % 3].clone();
        let mut wanted: Vec<Wanted> = keys.iter().map(|key| wanted(*key, LIMIT)).collect();
        // Each in an order of their own.
        wanted.rotate_left(number % 6);
        if number % 2 == 0 {
            wanted.reverse();
        }
        tokio::spawn(async move {
            let ranges = records.reserve(&wanted).await.unwrap();
            wanted.into_iter().map(|wanted| wanted.subject).zip(ranges).collect::<Vec<_>>()
        })
    });
    let mut given = Vec::new();
    for asked in asking.collect::<Vec<_>>() {
        given.extend(asked.await.unwrap());
    }
    for key in keys {
        let of_key = given.iter().filter(|(subject, _)| *subject == key);
        let mut numbers: Vec<u32> = of_key.flat_map(|(_, range)| range.from + 1..=range.to).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=LIMIT).collect::<Vec<_>>(), "{key:?}");
    }
}
