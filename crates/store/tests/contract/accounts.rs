//! Accounts as people use them: signing up and in, the second factor, and leaving without a trace.

use crate::{NOON, email, hash, later, proof, sign_up};
use ipse_model::Scope;
use ipse_store::{AccountId, Activity, Created, NewToken, TokenPurpose};

#[tokio::test]
async fn signing_up_makes_an_account_once() {
    let store = super::store().await;
    let records = &store.records;
    let address = email("me@example.com");
    let id = records.sign_up(&address, "$argon2id$one", false, NOON).await.unwrap().unwrap();
    assert_eq!(records.sign_up(&address, "$argon2id$two", true, NOON).await.unwrap(), None);
    let login = records.login(&address).await.unwrap().unwrap();
    assert_eq!((login.id, login.password.as_deref()), (id, Some("$argon2id$one")));
    assert_eq!(records.login_of(id).await.unwrap(), Some(login));
    assert_eq!(records.login(&email("you@example.com")).await.unwrap(), None);
    let profile = records.profile(id).await.unwrap().unwrap();
    assert_eq!((profile.email.as_str(), profile.created_ms), ("me@example.com", NOON.unix_ms));
    assert_eq!((profile.verified_ms, profile.has_password, profile.has_totp), (None, true, false));
    assert!(profile.mail_pause && profile.mail_quota, "who says nothing is told");
    assert_eq!(records.profile(AccountId(99)).await.unwrap(), None);
}

#[tokio::test]
async fn an_account_that_the_operator_made_belongs_to_nobody_who_signs_up() {
    let store = super::store().await;
    let address = email("me@example.com");
    store.records.create_account(&address, NOON).await.unwrap();
    assert_eq!(store.records.sign_up(&address, "$argon2id$one", true, NOON).await.unwrap(), None);
    let login = store.records.login(&address).await.unwrap().unwrap();
    assert_eq!(login.password, None);
    assert!(!store.records.profile(login.id).await.unwrap().unwrap().has_password);
}

#[tokio::test]
async fn no_debug_output_of_a_login_holds_its_secrets() {
    let store = super::store().await;
    let id = sign_up(&store.records, "me@example.com").await;
    store.records.set_totp(id, "BASE32", 1, &[]).await.unwrap();
    let shown = format!("{:?}", store.records.login_of(id).await.unwrap().unwrap());
    assert!(!shown.contains("argon2") && !shown.contains("BASE32") && !shown.contains("me@"), "{shown}");
}

#[tokio::test]
async fn another_password_ends_other_sessions_and_open_links() {
    let store = super::store().await;
    let records = &store.records;
    let (me, them) = (sign_up(records, "me@example.com").await, sign_up(records, "them@example.com").await);
    for (account, number) in [(me, 1), (me, 2), (them, 3)] {
        records.begin_session(&proof(account), &hash(number), "Firefox", false, NOON).await.unwrap();
    }
    let link = |account, hash| NewToken {
        hash,
        purpose: TokenPurpose::Reset,
        account: Some(account),
        email: None,
        password: None,
        ends_ms: NOON.unix_ms + 1000,
    };
    let (mine, theirs) = (hash(4), hash(5));
    records.make_token(&link(me, &mine), NOON).await.unwrap();
    records.make_token(&link(them, &theirs), NOON).await.unwrap();
    records.set_password(me, "$argon2id$two", Some(&hash(2)), NOON).await.unwrap();
    assert_eq!(records.login_of(me).await.unwrap().unwrap().password.unwrap(), "$argon2id$two");
    let lives = async |number| records.session(&hash(number), 0, 0).await.unwrap().is_some();
    assert!(!lives(1).await && lives(2).await && lives(3).await);
    let good = async |number| records.peek_token(&hash(number), TokenPurpose::Reset, NOON).await.unwrap();
    assert!(good(4).await.is_none() && good(5).await.is_some());
}

#[tokio::test]
async fn an_address_is_one_accounts() {
    let store = super::store().await;
    let records = &store.records;
    let (me, them) = (sign_up(records, "me@example.com").await, sign_up(records, "them@example.com").await);
    assert!(!records.set_email(me, &email("them@example.com"), true, NOON).await.unwrap());
    assert!(records.set_email(me, &email("new@example.com"), true, later(NOON, 5)).await.unwrap());
    let profile = records.profile(me).await.unwrap().unwrap();
    assert_eq!((profile.email.as_str(), profile.verified_ms), ("new@example.com", Some(NOON.unix_ms + 5)));
    assert!(
        records.set_email(them, &email("me@example.com"), false, NOON).await.unwrap(),
        "it is free again"
    );
    assert_eq!(records.profile(them).await.unwrap().unwrap().verified_ms, None);
    assert!(!records.set_email(AccountId(99), &email("x@example.com"), true, NOON).await.unwrap());
}

#[tokio::test]
async fn owners_choose_what_mail_tells() {
    let store = super::store().await;
    let me = sign_up(&store.records, "me@example.com").await;
    store.records.set_notices(me, false, true).await.unwrap();
    let profile = store.records.profile(me).await.unwrap().unwrap();
    assert!(!profile.mail_pause && profile.mail_quota);
}

#[tokio::test]
async fn a_code_by_time_is_good_once_and_so_is_a_recovery_code() {
    let store = super::store().await;
    let records = &store.records;
    let me = sign_up(records, "me@example.com").await;
    let them = sign_up(records, "them@example.com").await;
    assert!(!records.use_totp_step(me, 100).await.unwrap(), "there is no second factor");
    records.set_totp(me, "BASE32", 100, &[hash(1), hash(2)]).await.unwrap();
    assert!(!records.use_totp_step(me, 100).await.unwrap(), "it was used when the factor was set");
    assert!(records.use_totp_step(me, 102).await.unwrap());
    assert!(!records.use_totp_step(me, 102).await.unwrap() && !records.use_totp_step(me, 101).await.unwrap());
    assert!(!records.use_recovery_code(them, &hash(1)).await.unwrap());
    assert!(records.use_recovery_code(me, &hash(1)).await.unwrap());
    assert!(!records.use_recovery_code(me, &hash(1)).await.unwrap());
    let profile = records.profile(me).await.unwrap().unwrap();
    assert_eq!((profile.has_totp, profile.recovery_codes_left), (true, 1));
    records.replace_recovery_codes(me, &[hash(3), hash(4), hash(5)]).await.unwrap();
    assert!(!records.use_recovery_code(me, &hash(2)).await.unwrap());
    assert_eq!(records.profile(me).await.unwrap().unwrap().recovery_codes_left, 3);
    records.clear_totp(me).await.unwrap();
    let profile = records.profile(me).await.unwrap().unwrap();
    assert_eq!((profile.has_totp, profile.recovery_codes_left), (false, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_use_one_code_at_once_one_gets_in() {
    let store = super::store().await;
    let me = sign_up(&store.records, "me@example.com").await;
    store.records.set_totp(me, "BASE32", 0, &[hash(1)]).await.unwrap();
    let tries = (0..40).map(|number| {
        let records = store.records.clone();
        tokio::spawn(async move {
            if number % 2 == 0 {
                records.use_totp_step(me, 7).await.unwrap()
            } else {
                records.use_recovery_code(me, &hash(1)).await.unwrap()
            }
        })
    });
    let mut admitted = 0;
    for tried in tries.collect::<Vec<_>>() {
        admitted += u32::from(tried.await.unwrap());
    }
    assert_eq!(admitted, 2, "one by time, one by the recovery code");
}

#[tokio::test]
async fn an_account_that_is_deleted_leaves_nothing_behind() {
    let store = super::store().await;
    let records = &store.records;
    let (me, them) = (sign_up(records, "me@example.com").await, sign_up(records, "them@example.com").await);
    for (account, number) in [(me, 10), (them, 20)] {
        records.begin_session(&proof(account), &hash(number), "Firefox", false, NOON).await.unwrap();
        records.set_totp(account, "BASE32", 1, &[hash(number)]).await.unwrap();
        let address = email(&format!("new{number}@example.com"));
        let (of_account, of_address) = (hash(number + 1), hash(number + 2));
        let token = NewToken {
            hash: &of_account,
            purpose: TokenPurpose::Email,
            account: Some(account),
            email: Some(&address),
            password: None,
            ends_ms: NOON.unix_ms + 1000,
        };
        records.make_token(&token, NOON).await.unwrap();
        let own = email(if account == me { "me@example.com" } else { "them@example.com" });
        let signing_up = NewToken {
            hash: &of_address,
            purpose: TokenPurpose::SignUp,
            account: None,
            email: Some(&own),
            ..token
        };
        records.make_token(&signing_up, NOON).await.unwrap();
        let Created::Key { record, .. } =
            records.create_key_of(account, "a", Scope::Geo, NOON).await.unwrap()
        else {
            panic!("the account is new")
        };
        records.note_activity(account, Activity::KeyCreated, Some(record.id), None, NOON).await.unwrap();
        records.roll_of(account, record.id, 1000, NOON).await.unwrap().unwrap();
        records.pause_for_burst(record.id, 0, &[301], NOON).await.unwrap();
        store.ask(&format!(
                "INSERT INTO outcomes_by_day VALUES ({id}, 1, 1, 1, 1); INSERT INTO usage VALUES ({id}, 1, 1, 1); \
                 INSERT INTO outcomes_by_hour VALUES ({id}, 1, 1, 1, 1)",
                id = record.id
            ),
        );
    }
    assert_eq!(records.due_notices(NOON).await.unwrap().len(), 2);
    assert!(records.delete_account_of(me).await.unwrap());
    assert!(!records.delete_account_of(me).await.unwrap());
    // Of each table half is left, which is theirs.
    for (table, rows) in [
        ("accounts", 1),
        ("recovery_codes", 1),
        ("sessions", 1),
        ("tokens", 2),
        ("activity", 2),
        ("keys", 1),
        ("old_texts", 1),
        ("outcomes_by_day", 1),
        ("outcomes_by_hour", 1),
        ("usage", 1),
        ("notices", 1),
    ] {
        let left = store.ask(&format!("SELECT COUNT(*) FROM {table}"));
        assert_eq!(left, rows.to_string(), "{table}");
    }
    assert!(records.delete_account(&email("them@example.com")).await.unwrap());
    assert_eq!(store.ask("SELECT COUNT(*) FROM activity"), "0");
}
