//! Daily quotas, bursts, pauses, midnight and clocks that jump.

use crate::{House, MIDNIGHT, NOON, TestKey, check_error, json, rate};
use ipse_model::{KeyState, Now};
use ipse_testkit::Response;

const NOON_SECONDS: i64 = NOON.unix_ms / 1000;

/// Sends requests a quarter of a second apart, so that no burst comes of them.
fn calmly(house: &House, key: &TestKey, count: u32) -> Vec<Response> {
    let mut connection = house.connect();
    (0..count)
        .map(|_| {
            house.hand.advance_ms(250);
            connection.get("/api/v1/ip", Some(&key.text)).unwrap()
        })
        .collect()
}

fn at_once(house: &House, key: &TestKey, count: u32) -> Vec<Response> {
    let mut connection = house.connect();
    (0..count).map(|_| connection.get("/api/v1/ip", Some(&key.text)).unwrap()).collect()
}

#[track_caller]
fn check_burst(response: &Response, now_seconds: i64, words: &str) {
    check_error(response, 429, "rate_limit_exceeded");
    assert_eq!(rate(response), (300, 0, now_seconds + 60));
    assert_eq!(response.header("retry-after"), Some("60"));
    let body = json(response);
    assert!(body["message"].as_str().unwrap().contains(words), "{body}");
    assert!(body.get("enterprise").is_none() && body.get("signup").is_none());
}

#[test]
fn ten_thousand_are_answered_and_the_next_is_refused() {
    let (house, key) = House::with_key();
    for (response, remaining) in calmly(&house, &key, 10_000).iter().zip((0..10_000).rev()) {
        assert_eq!((response.status, rate(response)), (200, (10_000, remaining, MIDNIGHT)));
    }
    for response in calmly(&house, &key, 3) {
        check_error(&response, 429, "rate_limit_exceeded");
        assert_eq!(rate(&response), (10_000, 0, MIDNIGHT));
        assert_eq!(json(&response)["enterprise"], format!("{}/enterprise", house.base_url));
        assert!(json(&response).get("signup").is_none());
    }
    assert_eq!(house.get("/enterprise", None).status, 200, "the link leads somewhere");
}

#[test]
fn a_keys_own_daily_limit_is_the_number_in_the_header() {
    let (house, key) = House::with_limited_key(Some(3));
    for (response, remaining) in calmly(&house, &key, 3).iter().zip([2, 1, 0]) {
        assert_eq!((response.status, rate(response)), (200, (3, remaining, MIDNIGHT)));
    }
    let refused = &calmly(&house, &key, 1)[0];
    check_error(refused, 429, "rate_limit_exceeded");
    assert_eq!(rate(refused), (3, 0, MIDNIGHT));
    assert_eq!(refused.number("retry-after").unwrap(), MIDNIGHT - NOON_SECONDS - 1);
}

#[test]
fn the_quota_resets_at_midnight_to_the_millisecond() {
    let (house, key) = House::with_limited_key(Some(1));
    house.hand.set(Now { unix_ms: MIDNIGHT * 1000 - 1, ..NOON });
    let get = || house.get("/api/v1/ip", Some(&key));
    assert_eq!(get().status, 200);
    let refused = get();
    assert_eq!((refused.status, refused.number("retry-after").unwrap()), (429, 1));
    house.hand.advance_ms(1);
    let fresh = get();
    assert_eq!((fresh.status, rate(&fresh)), (200, (1, 0, MIDNIGHT + 86_400)));
}

#[test]
fn a_clock_that_is_set_back_brings_no_day_back() {
    let (house, key) = House::with_limited_key(Some(2));
    let get = || house.get("/api/v1/ip", Some(&key));
    assert_eq!(rate(&get()), (2, 1, MIDNIGHT));
    house.hand.set(Now { unix_ms: MIDNIGHT * 1000, ..NOON });
    assert_eq!(rate(&get()), (2, 1, MIDNIGHT + 86_400));
    house.hand.set(NOON);
    assert_eq!(rate(&get()), (2, 0, MIDNIGHT + 86_400));
    let refused = get();
    assert_eq!((refused.status, rate(&refused)), (429, (2, 0, MIDNIGHT + 86_400)));
    assert_eq!(refused.number("retry-after").unwrap(), MIDNIGHT + 86_400 - NOON_SECONDS);
}

#[test]
fn the_301st_request_within_a_minute_pauses_the_key() {
    let (house, key) = House::with_key();
    assert!(at_once(&house, &key, 300).iter().all(|response| response.status == 200));
    house.hand.advance_ms(59_999);
    let responses = at_once(&house, &key, 3);
    check_burst(&responses[0], NOON_SECONDS + 59, "is now paused");
    let record = house.runtime.block_on(house.records.key(key.id)).unwrap().unwrap();
    assert_eq!(record.state, KeyState::Paused, "the pause is durable before its answer leaves");
    for paused in &responses[1..] {
        check_burst(paused, NOON_SECONDS + 59, "is paused");
    }
}

#[test]
fn three_hundred_in_any_sixty_seconds_pass() {
    let (house, key) = House::with_key();
    assert!(at_once(&house, &key, 300).iter().all(|response| response.status == 200));
    house.hand.advance_ms(60_000);
    assert!(at_once(&house, &key, 300).iter().all(|response| response.status == 200));
}

#[test]
fn waiting_does_not_resume_a_paused_key_and_its_owner_does() {
    let (house, key) = House::with_key();
    at_once(&house, &key, 301);
    house.hand.advance_ms(3_600_000);
    let paused = house.get("/api/v1/ip", Some(&key));
    check_burst(&paused, NOON_SECONDS + 3600, "is paused");
    let message = json(&paused)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("Waiting does not help") && message.contains("#paused_key"), "{message}");

    let resumed = || house.get("/api/v1/ip", Some(&key));
    let mut first = None;
    let seen = std::cell::RefCell::new(&mut first);
    house.change(
        async |records| records.resume(key.id).await.unwrap(),
        || {
            let response = resumed();
            let answered = response.status == 200;
            **seen.borrow_mut() = Some(response);
            answered
        },
    );
    // 300 answers and the one that went over the limit are charged; requests while it was paused are not.
    assert_eq!(rate(&first.unwrap()), (10_000, 9_698, MIDNIGHT));
    // A fresh minute: 299 more pass, then the key is paused again.
    let responses = at_once(&house, &key, 300);
    assert!(responses[..299].iter().all(|response| response.status == 200));
    check_burst(&responses[299], NOON_SECONDS + 3600, "is now paused");
}

#[test]
fn requests_over_the_quota_count_towards_the_burst_limit() {
    let (house, key) = House::with_limited_key(Some(1));
    let responses = at_once(&house, &key, 301);
    assert_eq!(responses[0].status, 200);
    assert!(responses[1..300].iter().all(|response| rate(response) == (1, 0, MIDNIGHT)));
    check_burst(&responses[300], NOON_SECONDS, "is now paused");
}

#[test]
fn a_wall_clock_that_jumps_does_not_move_the_burst_window() {
    let (house, key) = House::with_key();
    at_once(&house, &key, 150);
    house.hand.set(Now { unix_ms: NOON.unix_ms + 3_600_000, boot_ms: NOON.boot_ms + 1 });
    assert!(at_once(&house, &key, 150).iter().all(|response| response.status == 200));
    house.hand.set(Now { unix_ms: NOON.unix_ms - 3_600_000, boot_ms: NOON.boot_ms + 2 });
    check_burst(&at_once(&house, &key, 1)[0], NOON_SECONDS - 3600, "is now paused");
}

#[test]
fn one_keys_burst_is_not_anothers() {
    let (house, keys) = House::with_scopes();
    at_once(&house, &keys[0], 301);
    assert_eq!(house.get("/api/v1/ip", Some(&keys[0])).status, 429);
    assert_eq!(house.get("/api/v1/ip", Some(&keys[1])).status, 200);
}

#[test]
fn a_key_is_paused_and_resumed_by_hand() {
    let (house, key) = House::with_key();
    let status = || house.get("/api/v1/ip", Some(&key)).status;
    house.change(async |records| records.pause(key.id, NOON).await.unwrap(), || status() == 429);
    check_burst(&house.get("/api/v1/ip", Some(&key)), NOON_SECONDS, "is paused");
    house.change(async |records| records.resume(key.id).await.unwrap(), || status() == 200);
}

#[test]
fn an_inactive_key_is_inactive_even_while_it_is_paused() {
    let (house, key) = House::with_key();
    at_once(&house, &key, 301);
    let status = || house.get("/api/v1/ip", Some(&key)).status;
    house.change(async |records| records.set_active(key.id, false).await.unwrap(), || status() == 403);
    house.change(async |records| records.set_active(key.id, true).await.unwrap(), || status() == 429);
}
