//! Accounts as people use them, with forms and cookies and without a script.

use crate::{House, NOON, Plan, json};
use ipse_model::Now;
use ipse_store::{NewToken, TokenPurpose};
use ipse_testkit::{Response, Visitor};
use std::time::Duration;
use totp_rs::{Builder, Secret};

pub(crate) const PASSWORD: &str = "four words in a row";

/// Somebody who has just signed up.
pub(crate) fn member(house: &House, email: &str) -> Visitor {
    let mut visitor = Visitor::new(house.address);
    let reply = visitor.submit("/signup", "/signup", &[("email", email), ("password", PASSWORD)]).unwrap();
    assert_eq!((reply.status, reply.header("location")), (303, Some("/dashboard")), "{}", reply.body);
    visitor
}

pub(crate) fn sign_in(visitor: &mut Visitor, email: &str, password: &str) -> Response {
    visitor.submit("/signin", "/signin", &[("email", email), ("password", password)]).unwrap()
}

#[track_caller]
pub(crate) fn leads_to(reply: &Response, location: &str) {
    assert_eq!((reply.status, reply.header("location")), (303, Some(location)), "{}", reply.body);
}

/// The status of a page, and the sentence beside a field of it.
#[track_caller]
fn refused(reply: &Response, status: u16, sentence: &str) {
    assert_eq!(reply.status, status, "{}", reply.body);
    assert!(reply.body.contains(sentence), "no {sentence:?} in {}", reply.body);
}

pub(crate) fn later(seconds: u64) -> Now {
    let ms = i64::try_from(seconds * 1000).unwrap();
    Now { unix_ms: NOON.unix_ms + ms, boot_ms: NOON.boot_ms + seconds * 1000 }
}

#[test]
fn somebody_signs_up_out_and_in_again() {
    let (house, _) = House::build(Plan::default());
    let mut visitor = member(&house, "You@Example.com");
    let dashboard = visitor.get("/dashboard").unwrap();
    assert_eq!(dashboard.status, 200);
    assert_eq!(dashboard.header("access-control-allow-origin"), None);
    assert_eq!(dashboard.header("cache-control"), Some("no-store"));
    leads_to(&visitor.get("/signin").unwrap(), "/dashboard");

    let out = visitor.submit("/dashboard", "/signout", &[]).unwrap();
    leads_to(&out, "/signin?signed-out");
    leads_to(&visitor.get("/dashboard").unwrap(), "/signin");
    leads_to(&visitor.get("/dashboard/keys/5").unwrap(), "/signin?next=%2Fdashboard%2Fkeys%2F5");

    refused(&sign_in(&mut visitor, "you@example.com", "wrong password"), 422, "or the password is wrong");
    let reply = sign_in(&mut visitor, " YOU@example.com", PASSWORD);
    leads_to(&reply, "/dashboard?signed-in");
    assert_eq!(visitor.follow(&reply).unwrap().status, 200);
}

#[test]
fn the_session_is_new_at_every_sign_in_and_its_cookie_well_guarded() {
    let (house, _) = House::build(Plan::default());
    let mut visitor = member(&house, "you@example.com");
    let first = visitor.cookies["__Host-ipse-session"].clone();
    let mut thief = visitor.clone();
    visitor.submit("/dashboard", "/signout", &[]).unwrap();
    leads_to(&thief.get("/dashboard").unwrap(), "/signin");

    let reply = sign_in(&mut visitor, "you@example.com", PASSWORD);
    let second = visitor.cookies["__Host-ipse-session"].clone();
    assert_ne!(first, second);
    let cookies: Vec<&str> = reply
        .headers
        .iter()
        .filter(|(name, _)| name == "set-cookie")
        .map(|(_, value)| value.as_str())
        .collect();
    let session = cookies.iter().find(|cookie| cookie.starts_with("__Host-ipse-session=")).unwrap();
    for attribute in ["; Path=/", "; HttpOnly", "; SameSite=Lax", "; Secure", "; Max-Age=2592000"] {
        assert!(session.contains(attribute), "{session}");
    }
    // Nothing that is stored opens the session.
    let mut with_hash = visitor.clone();
    let hash = ipse_model::SecretHash::of(second.parse::<ipse_model::Secret>().unwrap().reveal().as_bytes())
        .to_hex();
    with_hash.cookies.insert("__Host-ipse-session".to_owned(), hash);
    leads_to(&with_hash.get("/dashboard").unwrap(), "/signin");
}

#[test]
fn a_session_ends_when_it_is_not_used_and_when_it_is_old() {
    const DAY: u64 = 86_400;
    let (house, _) = House::build(Plan::default());
    let mut idle = member(&house, "idle@example.com");
    let mut busy = member(&house, "busy@example.com");
    for day in 1..=29 {
        house.hand.set(later(day * DAY));
        assert_eq!(busy.get("/dashboard").unwrap().status, 200, "day {day}");
        if day == 6 {
            assert_eq!(idle.get("/dashboard").unwrap().status, 200);
        }
    }
    leads_to(&idle.get("/dashboard").unwrap(), "/signin");
    house.hand.set(later(30 * DAY + 1));
    leads_to(&busy.get("/dashboard").unwrap(), "/signin");
}

#[test]
fn what_is_typed_wrongly_is_said_beside_its_field_and_kept() {
    let (house, _) = House::build(Plan::default());
    member(&house, "taken@example.com");
    let mut visitor = Visitor::new(house.address);
    let mut check = |email: &str, password: &str, sentence: &str| {
        let fields = [("email", email), ("password", password)];
        let reply = visitor.submit("/signup", "/signup", &fields).unwrap();
        refused(&reply, 422, sentence);
        assert!(!reply.body.contains(PASSWORD), "passwords are never repeated");
        reply
    };
    check("", PASSWORD, "Type your e-mail address");
    let reply = check("<script>@", PASSWORD, "This is no e-mail address");
    assert!(reply.body.contains("value=\"&#60;script&#62;@\""), "{}", reply.body);
    check("you@example.com", "", "Choose a password");
    check("you@example.com", "short", "Use at least 8 characters");
    check("you@example.com", "Password", "guessers try first");
    check("you@example.com", "you@example.com", "is made of your e-mail address");
    let reply = check("taken@example.com", PASSWORD, "There is an account with this address already");
    assert!(reply.body.contains("value=\"taken@example.com\""));
    assert!(reply.body.contains("aria-invalid=\"true\"") && reply.body.contains("email-error"));
}

#[test]
fn an_account_that_the_operator_made_is_not_taken_over_by_signing_up() {
    let (house, _) = House::with_key();
    let mut visitor = Visitor::new(house.address);
    let fields = [("email", "owner@example.com"), ("password", PASSWORD)];
    refused(&visitor.submit("/signup", "/signup", &fields).unwrap(), 422, "already");
    refused(&sign_in(&mut visitor, "owner@example.com", PASSWORD), 422, "or the password is wrong");
}

#[test]
fn sign_up_can_be_closed() {
    let (house, _) = House::build(Plan { settings: &[("open_signup", "no")], ..Plan::default() });
    let mut visitor = Visitor::new(house.address);
    let page = visitor.get("/signup").unwrap();
    assert!(page.body.contains("Ask them for one") && !page.body.contains("<form"), "{}", page.body);
    let csrf = ipse_testkit::hidden_fields(&visitor.get("/signin").unwrap().body, "/signin").unwrap();
    let csrf = csrf.iter().find(|(name, _)| name == "csrf").unwrap().1.clone();
    let fields = [("csrf", csrf.as_str()), ("email", "you@example.com"), ("password", PASSWORD)];
    assert!(visitor.post("/signup", &fields).unwrap().body.contains("Ask them for one"));
    assert!(house.runtime.block_on(house.records.accounts()).unwrap().is_empty());
}

#[test]
fn a_new_password_ends_every_other_session() {
    let (house, _) = House::build(Plan::default());
    let mut here = member(&house, "you@example.com");
    let mut there = Visitor::new(house.address);
    sign_in(&mut there, "you@example.com", PASSWORD);
    let mut change = |old: &str, new: &str| {
        here.submit("/account", "/account/password", &[("password", old), ("new_password", new)]).unwrap()
    };
    refused(&change("not it at all", "another password"), 422, "This is not your password");
    refused(&change(PASSWORD, "password"), 422, "guessers try first");
    leads_to(&change(PASSWORD, "another password"), "/account?done=password");
    assert_eq!(here.get("/account?done=password").unwrap().status, 200);
    leads_to(&there.get("/dashboard").unwrap(), "/signin");
    refused(&sign_in(&mut there, "you@example.com", PASSWORD), 422, "or the password is wrong");
    leads_to(&sign_in(&mut there, "you@example.com", "another password"), "/dashboard?signed-in");
}

#[test]
fn sessions_are_listed_and_ended_from_any_of_them() {
    let (house, _) = House::build(Plan::default());
    let mut here = member(&house, "you@example.com");
    let mut there = Visitor::new(house.address);
    sign_in(&mut there, "you@example.com", PASSWORD);
    let mut elsewhere = Visitor::new(house.address);
    sign_in(&mut elsewhere, "you@example.com", PASSWORD);
    let page = here.get("/account").unwrap().body;
    assert_eq!(page.matches("/end\"").count(), 3, "two others, and all at once: {page}");
    let action =
        page.split("action=\"/account/sessions/").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let reply = here.submit("/account", &format!("/account/sessions/{action}"), &[]).unwrap();
    leads_to(&reply, "/account?done=session");
    let ended = [&mut there, &mut elsewhere].map(|visitor| visitor.get("/account").unwrap().status == 303);
    assert_eq!(ended.iter().filter(|ended| **ended).count(), 1);
    leads_to(&here.submit("/account", "/account/sessions/end", &[]).unwrap(), "/account?done=sessions");
    for visitor in [&mut there, &mut elsewhere] {
        leads_to(&visitor.get("/account").unwrap(), "/signin?next=%2Faccount");
    }
    assert_eq!(here.get("/account").unwrap().status, 200);
}

#[test]
fn the_address_of_an_account_can_be_changed() {
    let (house, _) = House::build(Plan::default());
    member(&house, "taken@example.com");
    let mut visitor = member(&house, "old@example.com");
    let mut change = |email: &str, password: &str| {
        visitor.submit("/account", "/account/email", &[("email", email), ("password", password)]).unwrap()
    };
    refused(&change("new@example.com", "wrong password"), 422, "This is not your password");
    refused(&change("no address", PASSWORD), 422, "This is no e-mail address");
    refused(&change("old@example.com", PASSWORD), 422, "This is your address already");
    refused(&change("taken@example.com", PASSWORD), 422, "belongs to another account");
    leads_to(&change("new@example.com", PASSWORD), "/account?done=email");
    let mut other = Visitor::new(house.address);
    refused(&sign_in(&mut other, "old@example.com", PASSWORD), 422, "or the password is wrong");
    leads_to(&sign_in(&mut other, "new@example.com", PASSWORD), "/dashboard?signed-in");
}

/// The code that an app shows.
pub(crate) fn code(secret: &str, now: Now) -> String {
    let secret = Secret::try_from_base32(secret).unwrap();
    let totp = Builder::new().with_secret(secret).build_noncompliant();
    totp.generate(u64::try_from(now.unix_seconds()).unwrap()).to_string()
}

#[test]
fn a_second_factor_is_asked_for_and_each_code_is_good_once() {
    let (house, _) = House::build(Plan::default());
    let mut visitor = member(&house, "you@example.com");
    let page = visitor.get("/account/totp").unwrap().body;
    assert!(page.contains("<svg class=\"qr\"") && page.contains("aria-label=\"QR code"), "{page}");
    let hidden = ipse_testkit::hidden_fields(&page, "/account/totp").unwrap();
    let secret = hidden.iter().find(|(name, _)| name == "secret").unwrap().1.clone();
    let csrf = hidden.iter().find(|(name, _)| name == "csrf").unwrap().1.clone();
    let mut turn_on = |code: &str, password: &str| {
        let fields = [("csrf", csrf.as_str()), ("secret", &secret), ("code", code), ("password", password)];
        visitor.post("/account/totp", &fields).unwrap()
    };
    refused(&turn_on("000000", PASSWORD), 422, "not the code of this moment");
    refused(&turn_on(&code(&secret, NOON), "wrong password"), 422, "This is not your password");
    let shown = turn_on(&code(&secret, NOON), PASSWORD);
    assert_eq!(shown.status, 200, "{}", shown.body);
    let codes = shown.body.split("<code>").nth(1).unwrap().split("</code>").next().unwrap();
    let codes: Vec<String> = codes.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect();
    assert_eq!(codes.len(), 10);

    let mut other = Visitor::new(house.address);
    let halfway = sign_in(&mut other, "you@example.com", PASSWORD);
    leads_to(&halfway, "/signin/code?next=%2Fdashboard");
    leads_to(&other.get("/dashboard").unwrap(), "/signin");
    let enter = |visitor: &mut Visitor, code: &str| {
        visitor.submit("/signin/code", "/signin/code", &[("code", code)]).unwrap()
    };
    let used = code(&secret, NOON);
    refused(&enter(&mut other, &used), 422, "wrong, or was used before");
    refused(&enter(&mut other, "123"), 422, "wrong, or was used before");
    house.hand.set(later(30));
    leads_to(&enter(&mut other, &code(&secret, later(30))), "/dashboard?signed-in");
    assert_eq!(other.get("/dashboard").unwrap().status, 200);

    // Recovery codes are good once, however they are typed.
    let mut third = Visitor::new(house.address);
    sign_in(&mut third, "you@example.com", PASSWORD);
    leads_to(&enter(&mut third, &codes[3].to_uppercase()), "/dashboard?signed-in");
    let mut fourth = Visitor::new(house.address);
    sign_in(&mut fourth, "you@example.com", PASSWORD);
    refused(&enter(&mut fourth, &codes[3]), 422, "wrong, or was used before");
    assert!(third.get("/account").unwrap().body.contains("9 recovery codes left"));

    // New codes replace the old ones, and it can be switched off.
    let made = third.submit("/account/totp", "/account/totp/codes", &[("password", PASSWORD)]).unwrap();
    assert_eq!(made.status, 200);
    refused(&enter(&mut fourth, &codes[4]), 422, "wrong, or was used before");
    let off = third.submit("/account/totp", "/account/totp/off", &[("password", PASSWORD)]).unwrap();
    leads_to(&off, "/account?done=totp-off");
    leads_to(&sign_in(&mut Visitor::new(house.address), "you@example.com", PASSWORD), "/dashboard?signed-in");
}

#[test]
fn codes_of_the_second_factor_cannot_be_guessed() {
    let (house, _) = House::build(Plan::default());
    let mut visitor = member(&house, "you@example.com");
    let hidden =
        ipse_testkit::hidden_fields(&visitor.get("/account/totp").unwrap().body, "/account/totp").unwrap();
    let secret = hidden.iter().find(|(name, _)| name == "secret").unwrap().1.clone();
    let on = [("code", code(&secret, NOON)), ("password", PASSWORD.to_owned())];
    let mut fields: Vec<(&str, &str)> = on.iter().map(|(name, value)| (*name, value.as_str())).collect();
    fields.extend(hidden.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    assert_eq!(visitor.post("/account/totp", &fields).unwrap().status, 200);
    let mut guesser = Visitor::new(house.address);
    sign_in(&mut guesser, "you@example.com", PASSWORD);
    let tried = |guesser: &mut Visitor| {
        guesser.submit("/signin/code", "/signin/code", &[("code", "000000")]).unwrap().status
    };
    let statuses: Vec<u16> = (0..20).map(|_| tried(&mut guesser)).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 422).count(), 6, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 14, "{statuses:?}");
    // The owner's browser is known, and need not wait.
    visitor.submit("/dashboard", "/signout", &[]).unwrap();
    house.hand.set(later(30));
    leads_to(&sign_in(&mut visitor, "you@example.com", PASSWORD), "/signin/code?next=%2Fdashboard");
    let fields = [("code", code(&secret, later(30)))];
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let reply = visitor.submit("/signin/code", "/signin/code", &fields).unwrap();
    leads_to(&reply, "/dashboard?signed-in");
}

#[test]
fn all_that_is_stored_can_be_taken_along_and_deleted() {
    let (house, _) = House::build(Plan::default());
    let mut visitor = member(&house, "you@example.com");
    let made =
        visitor.submit("/dashboard", "/dashboard/keys", &[("name", "site"), ("scope", "full")]).unwrap();
    assert_eq!(made.status, 200, "{}", made.body);
    let key = made.body.split("ipse_").nth(1).unwrap()[..38].to_owned();
    let key = format!("ipse_{key}");
    assert_eq!(house.connect().get("/api/v1/ip", Some(&key)).unwrap().status, 200);

    let export = visitor.get("/account/export.json").unwrap();
    assert_eq!(export.header("content-disposition"), Some("attachment; filename=\"ipse-account.json\""));
    let document = json(&export);
    assert_eq!(document["account"]["email"], "you@example.com");
    assert_eq!(document["keys"][0]["name"], "site");
    assert_eq!(document["keys"][0]["used_today"], 1);
    assert_eq!(document["sessions"].as_array().unwrap().len(), 1);
    let done: Vec<&str> =
        document["activity"].as_array().unwrap().iter().map(|row| row["what"].as_str().unwrap()).collect();
    assert_eq!(done, ["data_exported", "key_created", "signed_up"]);
    for secret in [&key, "127.0.0.1", "argon2", &visitor.cookies["__Host-ipse-session"]] {
        assert!(!export.body.contains(secret), "{}", export.body);
    }
    let activity = visitor.get("/account/activity").unwrap().body;
    assert!(activity.contains("Made a key") && activity.contains("Signed up"), "{activity}");

    let mut delete = |confirm: &str, password: &str| {
        let fields = [("confirm", confirm), ("password", password)];
        visitor.submit("/account", "/account/delete", &fields).unwrap()
    };
    refused(&delete("you", PASSWORD), 422, "Type you@example.com to confirm");
    refused(&delete("you@example.com", "wrong password"), 422, "This is not your password");
    leads_to(&delete("You@example.com", PASSWORD), "/signin?deleted");
    refused(&sign_in(&mut visitor, "you@example.com", PASSWORD), 422, "or the password is wrong");
    assert!(house.runtime.block_on(house.records.accounts()).unwrap().is_empty());
    for _ in 0..500 {
        if house.connect().get("/api/v1/ip", Some(&key)).unwrap().status == 401 {
            return;
        }
        // waits for: the server to read the change, which it promises within a second
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the key of a deleted account still works");
}

#[test]
fn guessers_are_slowed_down_and_the_owner_gets_in() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    owner.submit("/dashboard", "/signout", &[]).unwrap();
    let mut statuses = Vec::new();
    for number in 0..60_u8 {
        // Each from an address of its own.
        let mut guesser = Visitor::new(house.address).from([198, 51, 100, number].into());
        statuses.push(sign_in(&mut guesser, "you@example.com", "a wrong password").status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 422).count(), 6, "{statuses:?}");
    // The owner's browser is known; and strangers may try again within a minute.
    leads_to(&sign_in(&mut owner, "you@example.com", PASSWORD), "/dashboard?signed-in");
    let mut stranger = Visitor::new(house.address);
    let refusal = sign_in(&mut stranger, "you@example.com", PASSWORD);
    refused(&refusal, 429, "Too many tries");
    assert_eq!(refusal.number("retry-after").unwrap(), 1);
    house.hand.set(later(60));
    leads_to(&sign_in(&mut stranger, "you@example.com", PASSWORD), "/dashboard?signed-in");
}

#[test]
fn a_guesser_behind_the_same_address_does_not_keep_the_owner_out() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    owner.submit("/dashboard", "/signout", &[]).unwrap();
    let guess = |number: u8| {
        let email = format!("somebody-{number}@example.com");
        sign_in(&mut Visitor::new(house.address), &email, "a wrong password").status
    };
    let statuses: Vec<u16> = (0..40).map(guess).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 422).count(), 31, "{statuses:?}");
    refused(&sign_in(&mut Visitor::new(house.address), "you@example.com", PASSWORD), 429, "Too many tries");
    for _ in 0..3 {
        leads_to(&sign_in(&mut owner, "you@example.com", PASSWORD), "/dashboard?signed-in");
        owner.submit("/dashboard", "/signout", &[]).unwrap();
    }
    // What the owner does from there is no excuse for the guesser.
    refused(&sign_in(&mut Visitor::new(house.address), "me@example.com", PASSWORD), 429, "Too many tries");
    // And whoever guesses on the owner's own device has to wait as well.
    let statuses: Vec<u16> =
        (0..8).map(|_| sign_in(&mut owner, "you@example.com", "a wrong password").status).collect();
    assert_eq!(statuses, [422, 422, 422, 422, 422, 422, 429, 429]);
}

#[test]
fn a_link_for_a_new_password_leads_past_those_who_guess() {
    let (house, _) = House::build(Plan::default());
    member(&house, "you@example.com");
    let email = "you@example.com".parse().unwrap();
    let account = house.runtime.block_on(house.records.login(&email)).unwrap().unwrap().id;
    let secret: ipse_model::Secret = "5a".repeat(32).parse().unwrap();
    let token = NewToken {
        hash: &secret.hash(),
        purpose: TokenPurpose::Reset,
        account: Some(account),
        email: None,
        password: None,
        ends_ms: later(60).unix_ms,
    };
    house.runtime.block_on(house.records.make_token(&token, NOON)).unwrap();
    let mut owner = Visitor::new(house.address);
    let page = format!("/reset/{}", secret.reveal());
    let reply = owner.submit(&page, &page, &[("new_password", "another password")]).unwrap();
    leads_to(&reply, "/signin?reset");
    let guess = |number: u8| {
        let mut guesser = Visitor::new(house.address).from([198, 51, 100, number].into());
        sign_in(&mut guesser, "you@example.com", "a wrong password").status
    };
    assert_eq!((0..8).map(guess).collect::<Vec<_>>()[5..], [422, 429, 429]);
    let mut stranger = Visitor::new(house.address);
    refused(&sign_in(&mut stranger, "you@example.com", "another password"), 429, "Too many tries");
    leads_to(&sign_in(&mut owner, "you@example.com", "another password"), "/dashboard?signed-in");
}

#[test]
fn known_and_unknown_addresses_are_answered_alike() {
    let (house, _) = House::build(Plan::default());
    member(&house, "known@example.com");
    let answer = |email: &str| {
        let mut visitor = Visitor::new(house.address);
        let reply = sign_in(&mut visitor, email, "a wrong password");
        let body = reply.body.replace(email, "ADDRESS");
        let csrf = ipse_testkit::hidden_fields(&body, "/signin").unwrap();
        let csrf = csrf.iter().find(|(name, _)| name == "csrf").unwrap().1.clone();
        (reply.status, body.replace(&csrf, "SECRET"))
    };
    for _ in 0..8 {
        assert_eq!(answer("known@example.com"), answer("unknown@example.com"));
    }
}

#[test]
fn a_guesser_of_codes_does_not_keep_the_owner_out() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    let hidden =
        ipse_testkit::hidden_fields(&owner.get("/account/totp").unwrap().body, "/account/totp").unwrap();
    let secret = hidden.iter().find(|(name, _)| name == "secret").unwrap().1.clone();
    let first = code(&secret, NOON);
    let mut fields: Vec<(&str, &str)> =
        hidden.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    fields.extend([("code", first.as_str()), ("password", PASSWORD)]);
    assert_eq!(owner.post("/account/totp", &fields).unwrap().status, 200);
    owner.submit("/account", "/signout", &[]).unwrap();
    // Somebody has learned the password, and tries codes.
    let mut guesser = Visitor::new(house.address);
    sign_in(&mut guesser, "you@example.com", PASSWORD);
    for _ in 0..10 {
        guesser.submit("/signin/code", "/signin/code", &[("code", "000000")]).unwrap();
    }
    house.hand.set(later(30));
    sign_in(&mut owner, "you@example.com", PASSWORD);
    let reply = owner.submit("/signin/code", "/signin/code", &[("code", &code(&secret, later(30)))]).unwrap();
    leads_to(&reply, "/dashboard?signed-in");
    // Whoever waits halfway is in no list, and may give up.
    assert_eq!(owner.get("/account").unwrap().body.matches("/end\"").count(), 0);
    let given_up = guesser.post("/signout", &[]).unwrap();
    assert_eq!(given_up.status, 403, "even that takes the secret of the form");
}

#[test]
fn what_is_deleted_is_not_left_in_the_files() {
    let (mut house, _) = House::build(Plan::default());
    let mut visitor = member(&house, "forgotten-person@example.com");
    visitor.submit("/dashboard", "/dashboard/keys", &[("name", "forgotten key"), ("scope", "ip")]).unwrap();
    let fields = [("confirm", "forgotten-person@example.com"), ("password", PASSWORD)];
    leads_to(&visitor.submit("/account", "/account/delete", &fields).unwrap(), "/signin?deleted");
    house.end();
    let mut files = 0;
    for entry in std::fs::read_dir(house.dir.path().join("data")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            assert!(!text.contains("forgotten"), "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 0);
}
