//! A key as its owner sees it: its state with the reason, and what of today’s quota is used.

use crate::charts::grouped;
use crate::key_name::called;
use crate::utc::{self, Moment};
use ipse_model::{BURST_LIMIT, Day, KeyId, KeyState, Now, Scope};
use ipse_store::{KeyRecord, OwnedKey};

/// What the list and the key’s own page show of a key.
#[derive(Debug)]
pub(crate) struct KeyView {
    pub(crate) id: KeyId,
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) scope: Scope,
    pub(crate) last_four: String,
    pub(crate) created: String,
    pub(crate) last_used: String,
    pub(crate) usage: Usage,
}

/// Whether a key is served, and if not, why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) word: &'static str,
    /// The class of the tag around the word.
    pub(crate) class: &'static str,
    /// What stands behind the word; empty where there is nothing to explain.
    pub(crate) reason: String,
}

/// How much of a day’s quota is used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) used: String,
    pub(crate) left: String,
    pub(crate) limit: String,
    /// The length of the bar, in thousandths.
    pub(crate) length: u64,
    /// The class of the bar: it changes its colour where the quota runs out.
    pub(crate) class: &'static str,
}

impl KeyView {
    /// A key of which so many requests were charged today.
    pub(crate) fn new(key: &OwnedKey, used: u32, now: Now) -> Self {
        let today = now.day();
        let OwnedKey { record, last_used, pause_minute, .. } = key;
        // The counters know of today’s requests a moment before the records do.
        let last_used = if used > 0 { Some(today) } else { *last_used };
        Self {
            id: record.id,
            name: called(&record.name, record.id),
            state: state(record, pause_minute.is_some(), used, today),
            scope: record.scope,
            last_four: record.last_four.clone(),
            created: utc::lately(utc::day_of(record.created_ms), today),
            last_used: last_used.map_or_else(|| "never".to_owned(), |day| utc::lately(day, today)),
            usage: Usage::new(used, record.daily_limit),
        }
    }
}

impl Usage {
    fn new(used: u32, limit: u32) -> Self {
        // The ledger never charges more than the limit, but a limit may be lowered while the day is going on.
        let left = limit.saturating_sub(used);
        let length = match u64::from(used) * 1_000 / u64::from(limit.max(1)) {
            // The first request is seen, and so is the last one that is left.
            ..10 if used > 0 => 10,
            991.. if left > 0 => 990,
            length => length.min(1_000),
        };
        let class = match length {
            1_000 => "bar-alarm",
            800.. => "bar-warn",
            _ => "",
        };
        Self { used: grouped(used), left: grouped(left), limit: grouped(limit), length, class }
    }
}

/// Why a key is paused, as a part of a sentence. Only the burst limit leaves the counts of its minute behind.
pub(crate) fn pause_reason(has_minute: bool) -> String {
    if has_minute { format!("more than {BURST_LIMIT} requests in a minute") } else { "by hand".to_owned() }
}

fn state(record: &KeyRecord, has_minute: bool, used: u32, today: Day) -> State {
    match (record.state, record.paused_ms) {
        (KeyState::Active, _) if used >= record.daily_limit => State {
            word: "Active",
            class: "tag-warn",
            reason: "today’s quota is used up; it starts afresh at midnight UTC".to_owned(),
        },
        (KeyState::Active, _) => State { word: "Active", class: "tag-success", reason: String::new() },
        (KeyState::Paused, since) => {
            let since = since.map(|since| format!("since {}: ", Moment::new(since, today).words));
            let reason = format!("{}{}", since.unwrap_or_default(), pause_reason(has_minute));
            State { word: "Paused", class: "tag-warn", reason }
        }
        (KeyState::Inactive, None) => {
            State { word: "Inactive", class: "tag-off", reason: "it is switched off".to_owned() }
        }
        (KeyState::Inactive, Some(_)) => State {
            word: "Inactive",
            class: "tag-off",
            reason: "it is switched off, and paused as well".to_owned(),
        },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// 15 November 2026, 14:30 UTC.
    pub(crate) const NOW: Now = Now { unix_ms: 1_794_753_000_000, boot_ms: 0 };
    const MINUTE_MS: i64 = 60_000;

    pub(crate) fn key(name: &str) -> OwnedKey {
        let record = KeyRecord {
            id: KeyId(7),
            account: "me@example.com".to_owned(),
            name: name.to_owned(),
            scope: Scope::Geo,
            state: KeyState::Active,
            last_four: "x9Qz".to_owned(),
            created_ms: NOW.unix_ms - 40 * 86_400_000,
            daily_limit: 10_000,
            paused_ms: None,
        };
        OwnedKey { record, last_used: Some(NOW.day()), pause_minute: None, old_text: None }
    }

    pub(crate) fn paused(mut key: OwnedKey, minute: Option<Vec<u32>>) -> OwnedKey {
        key.record.state = KeyState::Paused;
        key.record.paused_ms = Some(NOW.unix_ms - 27 * MINUTE_MS);
        key.pause_minute = minute;
        key
    }

    #[test]
    fn every_state_says_why() {
        #[track_caller]
        fn check(key: &OwnedKey, used: u32, word: &'static str, class: &'static str, reason: &str) {
            let expected = State { word, class, reason: reason.to_owned() };
            assert_eq!(KeyView::new(key, used, NOW).state, expected);
        }
        check(&key("a"), 9_999, "Active", "tag-success", "");
        check(
            &key("a"),
            10_000,
            "Active",
            "tag-warn",
            "today’s quota is used up; it starts afresh at midnight UTC",
        );
        check(
            &paused(key("a"), Some(vec![301])),
            0,
            "Paused",
            "tag-warn",
            "since 14:03 UTC: more than 300 requests in a minute",
        );
        check(&paused(key("a"), None), 10_000, "Paused", "tag-warn", "since 14:03 UTC: by hand");
        let mut old = paused(key("a"), Some(vec![301]));
        old.record.paused_ms = Some(NOW.unix_ms - 5 * 86_400_000);
        check(
            &old,
            0,
            "Paused",
            "tag-warn",
            "since 10 November 2026, 14:30 UTC: more than 300 requests in a minute",
        );
        old.record.state = KeyState::Inactive;
        check(&old, 0, "Inactive", "tag-off", "it is switched off, and paused as well");
        old.record.paused_ms = None;
        check(&old, 10_000, "Inactive", "tag-off", "it is switched off");
    }

    #[test]
    fn the_bar_is_never_empty_nor_full_without_being_so() {
        #[track_caller]
        fn check(used: u32, limit: u32, left: &str, length: u64, class: &str) {
            let usage = Usage::new(used, limit);
            assert_eq!(
                (usage.left.as_str(), usage.length, usage.class),
                (left, length, class),
                "{used} of {limit}"
            );
        }
        check(0, 10_000, "10,000", 0, "");
        check(1, 10_000, "9,999", 10, "");
        check(2_500, 10_000, "7,500", 250, "");
        check(7_999, 10_000, "2,001", 799, "");
        check(8_000, 10_000, "2,000", 800, "bar-warn");
        check(9_999, 10_000, "1", 990, "bar-warn");
        check(10_000, 10_000, "0", 1_000, "bar-alarm");
        check(500, 100, "0", 1_000, "bar-alarm");
        check(u32::MAX, u32::MAX, "0", 1_000, "bar-alarm");
    }

    #[test]
    fn days_are_told_and_nothing_finer() {
        let view = KeyView::new(&key(""), 0, NOW);
        assert_eq!((view.name.as_str(), view.created.as_str()), ("Key 7", "6 Oct 2026"));
        assert_eq!(view.last_used, "today");
        let unused = OwnedKey { last_used: None, ..key("") };
        assert_eq!(KeyView::new(&unused, 0, NOW).last_used, "never");
    }
}
