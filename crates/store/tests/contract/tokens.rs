//! One-time links.

use crate::{NOON, email, hash, later, sign_up};
use ipse_store::{AccountId, Email, NewToken, TokenPurpose, random_secret};

fn reset(account: AccountId, hash: &ipse_model::SecretHash, ends_ms: i64) -> NewToken<'_> {
    let account = Some(account);
    NewToken { hash, purpose: TokenPurpose::Reset, account, email: None, password: None, ends_ms }
}

#[tokio::test]
async fn a_link_is_good_once_for_its_purpose_until_it_ends() {
    let store = super::store().await;
    let records = &store.records;
    let me = sign_up(records, "me@example.com").await;
    let secret = random_secret().unwrap();
    let ends = NOON.unix_ms + 1000;
    records.make_token(&reset(me, &secret.hash(), ends), NOON).await.unwrap();
    let purpose = TokenPurpose::Reset;
    let last = later(NOON, 999);
    let found = records.peek_token(&secret.hash(), purpose, last).await.unwrap().unwrap();
    assert_eq!((found.account, found.email.clone(), found.ends_ms), (Some(me), None, ends));
    for wrong in [TokenPurpose::Email, TokenPurpose::SignUp] {
        assert_eq!(records.peek_token(&secret.hash(), wrong, NOON).await.unwrap(), None);
        assert_eq!(records.take_token(&secret.hash(), wrong, NOON).await.unwrap(), None);
    }
    let late = later(NOON, 1000);
    assert_eq!(records.peek_token(&secret.hash(), purpose, late).await.unwrap(), None);
    assert_eq!(records.take_token(&secret.hash(), purpose, late).await.unwrap(), None);
    assert_eq!(records.take_token(&secret.hash(), purpose, last).await.unwrap(), Some(found));
    assert_eq!(records.take_token(&secret.hash(), purpose, last).await.unwrap(), None);
    assert_eq!(records.peek_token(&secret.hash(), purpose, last).await.unwrap(), None);
}

#[tokio::test]
async fn a_sign_up_waits_in_its_link() {
    let store = super::store().await;
    let address = email("me@example.com");
    let token = NewToken {
        hash: &hash(1),
        purpose: TokenPurpose::SignUp,
        account: None,
        email: Some(&address),
        password: Some("$argon2id$one"),
        ends_ms: NOON.unix_ms + 1000,
    };
    store.records.make_token(&token, NOON).await.unwrap();
    assert!(store.records.login(&address).await.unwrap().is_none(), "there is no account yet");
    let taken = store.records.take_token(&hash(1), TokenPurpose::SignUp, NOON).await.unwrap().unwrap();
    assert!(!format!("{taken:?}").contains("argon2"));
    assert_eq!(
        (taken.account, taken.email, taken.password),
        (None, Some(address), Some("$argon2id$one".into()))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_use_a_link_at_once_one_does() {
    let store = super::store().await;
    let me = sign_up(&store.records, "me@example.com").await;
    store.records.make_token(&reset(me, &hash(1), NOON.unix_ms + 1000), NOON).await.unwrap();
    let tries = (0..30).map(|_| {
        let records = store.records.clone();
        tokio::spawn(async move { records.take_token(&hash(1), TokenPurpose::Reset, NOON).await.unwrap() })
    });
    let mut taken = 0;
    for tried in tries.collect::<Vec<_>>() {
        taken += u32::from(tried.await.unwrap().is_some());
    }
    assert_eq!(taken, 1);
}

#[tokio::test]
async fn at_most_five_links_of_a_purpose_are_open_for_one_account_or_address() {
    let store = super::store().await;
    let records = &store.records;
    let (me, them) = (sign_up(records, "me@example.com").await, sign_up(records, "them@example.com").await);
    let good =
        async |number, purpose| records.peek_token(&hash(number), purpose, NOON).await.unwrap().is_some();
    records.make_token(&reset(them, &hash(99), NOON.unix_ms + 1), NOON).await.unwrap();
    for number in 1..=7 {
        let ends_ms = NOON.unix_ms + 1000 + i64::from(number);
        records.make_token(&reset(me, &hash(number), ends_ms), NOON).await.unwrap();
    }
    for number in 1..=7 {
        assert_eq!(good(number, TokenPurpose::Reset).await, number > 2, "{number}");
    }
    assert!(good(99, TokenPurpose::Reset).await, "others are not touched");

    let address = |text: &str| -> Email { text.parse().unwrap() };
    let (mine, theirs) = (address("a@example.com"), address("b@example.com"));
    for number in 11..=17 {
        for (offset, email) in [(0, &mine), (20, &theirs)] {
            let token = NewToken {
                hash: &hash(number + offset),
                purpose: TokenPurpose::SignUp,
                account: None,
                email: Some(email),
                password: None,
                ends_ms: NOON.unix_ms + i64::from(number),
            };
            records.make_token(&token, NOON).await.unwrap();
        }
    }
    for number in 11..=17 {
        for offset in [0, 20] {
            assert_eq!(good(number + offset, TokenPurpose::SignUp).await, number > 12, "{number}");
        }
    }
}

#[tokio::test]
async fn making_a_link_forgets_those_that_have_ended() {
    let store = super::store().await;
    let me = sign_up(&store.records, "me@example.com").await;
    store.records.make_token(&reset(me, &hash(1), NOON.unix_ms + 1000), NOON).await.unwrap();
    store.records.make_token(&reset(me, &hash(2), NOON.unix_ms + 9000), later(NOON, 1000)).await.unwrap();
    assert_eq!(store.ask("SELECT COUNT(*) FROM tokens"), "1");
}
