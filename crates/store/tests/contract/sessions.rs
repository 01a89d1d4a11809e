//! Who is signed in, and for how long.

use crate::{NOON, hash, later, proof, sign_up};
use ipse_store::{NewToken, Proof, Session, TokenPurpose};

#[tokio::test]
async fn a_session_is_known_by_its_hash_as_long_as_the_caller_says() {
    let store = super::store().await;
    let records = &store.records;
    let me = sign_up(records, "me@example.com").await;
    records.begin_session(&proof(me), &hash(1), "Firefox on Linux", true, NOON).await.unwrap();
    let at = NOON.unix_ms;
    let session = records.session(&hash(1), at - 1, at - 1).await.unwrap().unwrap();
    let expected = Session {
        id: session.id,
        account: me,
        device: "Firefox on Linux".to_owned(),
        created_ms: at,
        seen_ms: at,
        second_factor_due: true,
    };
    assert_eq!(session, expected);
    assert_eq!(records.session(&hash(2), 0, 0).await.unwrap(), None);
    assert_eq!(records.session(&hash(1), at, 0).await.unwrap(), None, "it was not seen for too long");
    assert_eq!(records.session(&hash(1), 0, at).await.unwrap(), None, "it was begun too long ago");
    records.touch_session(session.id, later(NOON, 60_000)).await.unwrap();
    assert!(records.session(&hash(1), at, at - 1).await.unwrap().is_some());
    assert_eq!(records.session(&hash(1), 0, at).await.unwrap(), None, "seeing it makes it no younger");
    // A clock that was set back ends nobody's session.
    records.touch_session(session.id, NOON).await.unwrap();
    assert_eq!(records.session(&hash(1), 0, 0).await.unwrap().unwrap().seen_ms, at + 60_000);
}

#[tokio::test]
async fn owners_end_their_own_sessions_and_nobody_elses() {
    let store = super::store().await;
    let records = &store.records;
    let (me, them) = (sign_up(records, "me@example.com").await, sign_up(records, "them@example.com").await);
    for number in 1..=4 {
        records
            .begin_session(&proof(me), &hash(number), "Firefox", false, later(NOON, number))
            .await
            .unwrap();
    }
    records.begin_session(&proof(them), &hash(9), "Safari", false, NOON).await.unwrap();
    let sessions = records.sessions(me, 0, 0).await.unwrap();
    let seen: Vec<i64> = sessions.iter().map(|session| session.seen_ms - NOON.unix_ms).collect();
    assert_eq!(seen, [4, 3, 2, 1], "the one seen last comes first");
    assert_eq!(records.sessions(me, NOON.unix_ms + 2, 0).await.unwrap().len(), 2);
    assert!(!records.end_session(them, sessions[0].id).await.unwrap());
    assert!(records.end_session(me, sessions[0].id).await.unwrap());
    assert!(!records.end_session(me, sessions[0].id).await.unwrap());
    records.end_session_by(&hash(3)).await.unwrap();
    assert_eq!(records.end_sessions(me, Some(&hash(1))).await.unwrap(), 1);
    assert!(records.session(&hash(1), 0, 0).await.unwrap().is_some());
    assert_eq!(records.end_sessions(me, None).await.unwrap(), 1);
    assert!(records.session(&hash(9), 0, 0).await.unwrap().is_some());
}

#[tokio::test]
async fn a_sweep_lets_go_of_what_has_ended_and_of_nothing_else() {
    let store = super::store().await;
    let records = &store.records;
    let me = sign_up(records, "me@example.com").await;
    records.begin_session(&proof(me), &hash(1), "Firefox", false, NOON).await.unwrap();
    records.begin_session(&proof(me), &hash(2), "Firefox", false, later(NOON, 10)).await.unwrap();
    for (number, ends_ms) in [(3, 5), (4, 50)] {
        let token = NewToken {
            hash: &hash(number),
            purpose: TokenPurpose::Reset,
            account: Some(me),
            email: None,
            password: None,
            ends_ms: NOON.unix_ms + ends_ms,
        };
        records.make_token(&token, NOON).await.unwrap();
    }
    let (_, rolled) = store.key(None).await;
    records.roll(rolled.id, 5, NOON).await.unwrap().unwrap();
    let (_, kept) = store.key(None).await;
    records.roll(kept.id, 50, NOON).await.unwrap().unwrap();
    let today = i64::from(NOON.day().0);
    store.ask(&format!(
        "INSERT INTO outcomes_by_hour VALUES ({id}, {old}, 1, 0, 0), ({id}, {new}, 1, 0, 0); \
             INSERT INTO notices VALUES ({id}, 'used_up', {past}), ({id}, 'used_up', {today}), \
             ({id}, 'paused', {paused}), ({id}, 'paused', {now})",
        id = kept.id,
        old = (today - 9) * 24,
        new = (today - 8) * 24,
        past = today - 3,
        paused = NOON.unix_ms - 3 * crate::DAY_MS,
        now = NOON.unix_ms,
    ));
    records.sweep(NOON.unix_ms, 0, later(NOON, 10)).await.unwrap();
    for (table, rows) in
        [("sessions", 1), ("tokens", 1), ("old_texts", 1), ("outcomes_by_hour", 1), ("notices", 2)]
    {
        let left = store.ask(&format!("SELECT COUNT(*) FROM {table}"));
        assert_eq!(left, rows.to_string(), "{table}");
    }
    assert!(records.session(&hash(2), 0, 0).await.unwrap().is_some());
    assert!(records.key_as_owned(kept.id).await.unwrap().unwrap().old_text.is_some());
}

#[tokio::test]
async fn who_was_let_in_by_what_is_no_longer_so_gets_no_session() {
    let store = super::store().await;
    let records = &store.records;
    let me = sign_up(records, "me@example.com").await;
    let checked = proof(me);
    assert!(records.begin_session(&checked, &hash(1), "Firefox", false, NOON).await.unwrap());
    records.set_password(me, "$argon2id$two", None, NOON).await.unwrap();
    assert!(!records.begin_session(&checked, &hash(2), "Firefox", false, NOON).await.unwrap());
    let checked = Proof { password: Some("$argon2id$two"), ..checked };
    assert!(records.begin_session(&checked, &hash(3), "Firefox", false, NOON).await.unwrap());
    assert!(records.set_totp(me, "BASE32", 1, &[]).await.unwrap());
    assert!(!records.set_totp(me, "OTHER", 1, &[]).await.unwrap(), "there is one already");
    assert!(!records.begin_session(&checked, &hash(4), "Firefox", false, NOON).await.unwrap());
    let checked = Proof { totp_secret: Some("BASE32"), ..checked };
    assert!(records.begin_session(&checked, &hash(5), "Firefox", false, NOON).await.unwrap());
    assert_eq!(records.sessions(me, 0, 0).await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_account_has_fifty_sessions_and_those_halfway_are_not_listed() {
    let store = super::store().await;
    let records = &store.records;
    let me = sign_up(records, "me@example.com").await;
    for number in 0..60 {
        records.begin_session(&proof(me), &hash(number), "Firefox", number % 2 == 1, NOON).await.unwrap();
    }
    assert!(records.session(&hash(9), 0, 0).await.unwrap().is_none(), "the oldest gave way");
    assert!(records.session(&hash(11), 0, 0).await.unwrap().is_some_and(|session| session.second_factor_due));
    assert_eq!(records.sessions(me, 0, 0).await.unwrap().len(), 25);
}

#[tokio::test]
async fn a_form_is_carried_out_once() {
    let store = super::store().await;
    let me = sign_up(&store.records, "me@example.com").await;
    assert!(store.records.claim_form(&hash(1), me, NOON).await.unwrap());
    assert!(!store.records.claim_form(&hash(1), me, NOON).await.unwrap());
    assert!(store.records.claim_form(&hash(2), me, NOON).await.unwrap());
}
