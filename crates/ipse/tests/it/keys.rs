//! Keys as their owners use them in the dashboard, with forms and without a script.

use crate::accounts::{leads_to, member};
use crate::{House, Plan, TestKey, check_error, fields};
use ipse_model::KeyId;
use ipse_testkit::{Response, Visitor, hidden_fields};
use std::time::Duration;

/// The text that a page shows, this once.
#[track_caller]
fn text_on(page: &Response) -> String {
    assert_eq!(page.status, 200, "{}", page.body);
    let begin = page.body.find("<code>ipse_").unwrap() + "<code>".len();
    page.body[begin..begin + 43].to_owned()
}

/// Makes a key and returns it.
#[track_caller]
pub(crate) fn make(owner: &mut Visitor, name: &str, scope: &str) -> TestKey {
    let fields = [("name", name), ("scope", scope)];
    let made = owner.submit("/dashboard", "/dashboard/keys", &fields).unwrap();
    let id = made.body.split("data-settle=\"/dashboard/keys/").nth(1).unwrap().split('"').next().unwrap();
    TestKey { id: KeyId(id.parse().unwrap()), text: text_on(&made) }
}

pub(crate) fn path(key: &TestKey) -> String {
    format!("/dashboard/keys/{}", key.id)
}

/// Sends a form of the key's page.
pub(crate) fn send(owner: &mut Visitor, key: &TestKey, action: &str, fields: &[(&str, &str)]) -> Response {
    owner.submit(&path(key), &format!("{}/{action}", path(key)), fields).unwrap()
}

#[track_caller]
fn shows(owner: &mut Visitor, page: &str, parts: &[&str]) -> String {
    let page = owner.get(page).unwrap();
    assert_eq!(page.status, 200, "{}", page.body);
    for part in parts {
        assert!(page.body.contains(part), "no {part:?} in {}", page.body);
    }
    page.body
}

/// Asks until the answer is as it should be: changes are seen within a second, and so are counts.
#[track_caller]
pub(crate) fn soon<T>(what: &str, ask: impl Fn() -> T, is_right: impl Fn(&T) -> bool) -> T {
    for _ in 0..500 {
        let answer = ask();
        if is_right(&answer) {
            return answer;
        }
        // waits for: the server to read a change of a key or to fold its counts, which it does about once a second
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

pub(crate) fn status(house: &House, text: &str) -> u16 {
    house.connect().get("/api/v1/ip", Some(text)).unwrap().status
}

#[test]
fn a_key_works_as_soon_as_it_is_shown_and_is_shown_once() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    shows(&mut owner, "/dashboard", &["Make your first key", "value=\"My first key\""]);
    let made =
        owner.submit("/dashboard", "/dashboard/keys", &[("name", " Shop "), ("scope", "full")]).unwrap();
    let text = text_on(&made);
    assert_eq!(status(&house, &text), 200);
    assert!(made.body.contains("Store it now: it is not shown again"));
    let curl =
        format!("curl {}/api/v1/ip \\\n  -H &#34;Authorization: Bearer {text}&#34;</code>", house.base_url);
    assert!(made.body.contains(&curl), "{}", made.body);
    assert_eq!(made.header("cache-control"), Some("no-store"));
    assert_eq!(made.header("access-control-allow-origin"), None);
    let key = made.body.split("data-settle=\"").nth(1).unwrap().split('"').next().unwrap();
    let last_four = &text[text.len() - 4..];
    for page in ["/dashboard", key, "/account/activity", "/account/export.json"] {
        let page = shows(&mut owner, page, &["Shop"]);
        assert!(!page.contains(&text[..text.len() - 4]), "{page}");
    }
    shows(
        &mut owner,
        "/dashboard",
        &["1 of 10", "Active", "<code>full</code>", last_four, "1</strong> used today"],
    );
    shows(&mut owner, "/account/activity", &["Made a key"]);
}

#[test]
fn what_cannot_be_taken_is_said_beside_its_field_and_makes_no_key() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    let long = "x".repeat(61);
    for (name, scope, sentence) in [
        ("", "full", "Give the key a name"),
        (long.as_str(), "full", "at most 60 characters; this one has 61"),
        ("a\u{2028}b", "full", "cannot be seen"),
        ("Shop", "everything", "Choose one of the three"),
    ] {
        let fields = [("name", name), ("scope", scope)];
        let reply = owner.submit("/dashboard", "/dashboard/keys", &fields).unwrap();
        assert_eq!(reply.status, 422);
        assert!(reply.body.contains(sentence), "{sentence}: {}", reply.body);
        assert_eq!(reply.body.contains("value=\"full\" checked"), scope == "full", "the choice is kept");
    }
    let fields = [("name", "Shop"), ("scope", "everything")];
    let reply = owner.submit("/dashboard", "/dashboard/keys", &fields).unwrap();
    assert!(reply.body.contains("value=\"Shop\""), "what was typed is kept");
    shows(&mut owner, "/dashboard", &["Make your first key"]);
}

#[test]
fn a_key_gets_another_name_and_another_scope() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    let key = make(&mut owner, "Shop", "full");
    leads_to(
        &send(&mut owner, &key, "rename", &[("name", "Shop 2")]),
        &format!("{}?done=renamed", path(&key)),
    );
    shows(&mut owner, &format!("{}?done=renamed", path(&key)), &["<bdi>Shop 2</bdi>", "has its new name"]);
    let reply = send(&mut owner, &key, "rename", &[("name", "")]);
    assert_eq!(reply.status, 422);
    assert!(reply.body.contains("Give the key a name") && reply.body.contains("<bdi>Shop 2</bdi>"));

    leads_to(&send(&mut owner, &key, "scope", &[("scope", "ip")]), &format!("{}?done=scope", path(&key)));
    let answer = || house.get("/api/v1/ip", Some(&key));
    let answer = soon("the scope changes", answer, |answer| fields(answer).len() == 3);
    assert_eq!(fields(&answer), ["status", "ip", "ipv6"]);
    assert_eq!(send(&mut owner, &key, "scope", &[("scope", "all")]).status, 422);
    shows(&mut owner, &path(&key), &["value=\"ip\" checked"]);
    shows(
        &mut owner,
        "/account/activity",
        &["Renamed a key", "Shop → Shop 2", "Changed a key’s scope", "Shop 2: ip"],
    );
}

#[test]
fn a_key_is_switched_off_and_on() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    let key = make(&mut owner, "Shop", "geo");
    let done = |what| format!("{}?done={what}", path(&key));
    leads_to(&send(&mut owner, &key, "deactivate", &[]), &done("deactivated"));
    let refused = soon("it is off", || house.get("/api/v1/ip", Some(&key)), |reply| reply.status == 403);
    check_error(&refused, 403, "inactive_api_key");
    let page =
        shows(&mut owner, &done("deactivated"), &["Inactive", "This key is switched off", "Reactivate"]);
    assert!(!page.contains("/deactivate\""));
    leads_to(&send(&mut owner, &key, "reactivate", &[]), &done("reactivated"));
    soon("it is on", || status(&house, &key.text), |status| *status == 200);
    shows(&mut owner, &done("reactivated"), &["switched on again", "/deactivate\""]);
    shows(&mut owner, "/account/activity", &["Deactivated a key", "Reactivated a key"]);
}

#[test]
fn a_rolled_key_has_both_texts_until_the_old_one_ends() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    let key = make(&mut owner, "Shop", "geo");
    for (keep, words, hours) in [
        ("1h", "13:00 UTC", 1_u32),
        ("24h", "16 November 2026, 13:00 UTC", 24),
        ("7d", "23 November 2026", 168),
    ] {
        let old = match keep {
            "1h" => key.text.clone(),
            _ => text_on(&send(&mut owner, &key, "roll", &[("keep", "now")])),
        };
        let rolled = send(&mut owner, &key, "roll", &[("keep", keep)]);
        let new = text_on(&rolled);
        assert!(rolled.body.contains(words), "{words}: {}", rolled.body);
        assert_ne!(old, new);
        for text in [&old, &new] {
            soon("both texts work", || status(&house, text), |status| *status == 200);
        }
        let old_four = format!("<code>{}</code> works until", &old[39..]);
        shows(&mut owner, &path(&key), &[&old_four]);

        house.hand.advance_ms(hours * 3_600_000 - 1);
        assert_eq!((status(&house, &old), status(&house, &new)), (200, 200), "{keep}");
        house.hand.advance_ms(1);
        assert_eq!((status(&house, &old), status(&house, &new)), (401, 200), "{keep}");
        // A session that nobody uses ends after seven days as well.
        if keep != "7d" {
            let page = shows(&mut owner, &path(&key), &[&new[39..]]);
            assert!(!page.contains("works until"), "{page}");
        }
    }
}

#[test]
fn a_key_rolled_now_has_one_text() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    let key = make(&mut owner, "Shop", "geo");
    assert_eq!(send(&mut owner, &key, "roll", &[("keep", "8d")]).status, 422);
    assert_eq!(status(&house, &key.text), 200, "nothing was rolled");
    let kept = text_on(&send(&mut owner, &key, "roll", &[("keep", "24h")]));
    let rolled = send(&mut owner, &key, "roll", &[("keep", "now")]);
    assert!(rolled.body.contains("no longer works"), "{}", rolled.body);
    let new = text_on(&rolled);
    assert_eq!(status(&house, &new), 200);
    // At once, and not only when the server next looks for changes.
    for text in [&key.text, &kept] {
        assert_eq!(status(&house, text), 401);
    }
}

#[test]
fn a_page_that_shows_a_text_makes_no_other_when_it_is_loaded_anew() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    let again = |owner: &mut Visitor, page: &str, action: &str, more: &[(&str, &str)]| {
        let hidden = hidden_fields(&owner.get(page).unwrap().body, action).unwrap();
        let mut fields: Vec<(&str, &str)> =
            hidden.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        fields.extend(more);
        let (first, second) = (owner.post(action, &fields).unwrap(), owner.post(action, &fields).unwrap());
        assert_eq!((first.status, second.status), (200, 303), "{action}: {}", second.body);
        text_on(&first)
    };
    let text = again(&mut owner, "/dashboard", "/dashboard/keys", &[("name", "Shop"), ("scope", "geo")]);
    shows(&mut owner, "/dashboard", &["1 of 10"]);
    assert_eq!(status(&house, &text), 200);
    let page = owner.get("/dashboard").unwrap().body;
    let ids = page.split("/dashboard/keys/").skip(1).filter_map(|rest| rest.split(['"', '/', '?']).next());
    let id = ids.into_iter().find(|id| id.parse::<i64>().is_ok()).unwrap().to_owned();
    let path = format!("/dashboard/keys/{id}");
    let rolled = again(&mut owner, &path, &format!("{path}/roll"), &[("keep", "7d")]);
    for text in [&text, &rolled] {
        assert_eq!(status(&house, text), 200, "both work for seven days, as was promised");
    }
}

#[test]
fn a_burst_pauses_a_key_and_its_owner_resumes_it() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    let key = make(&mut owner, "Shop", "geo");
    let mut connection = house.connect();
    for count in 1..=301 {
        // Ten requests in each second.
        house.hand.advance_ms(100);
        let reply = connection.get("/api/v1/ip", Some(&key.text)).unwrap();
        assert_eq!(reply.status, if count == 301 { 429 } else { 200 }, "{count}");
    }
    shows(&mut owner, "/dashboard", &["Paused", "since 12:00 UTC: more than 300 requests in a minute"]);
    let page = shows(
        &mut owner,
        &path(&key),
        &[
            "datetime=\"2026-11-15T12:00:30Z\">12:00 UTC</time>",
            "301 requests within 60 seconds; most in one second: 10",
            "Look for a loop",
        ],
    );
    assert_eq!(page.matches("/resume\"").count(), 1, "one button");
    assert_eq!(connection.get("/api/v1/ip", Some(&key.text)).unwrap().status, 429, "waiting does not help");
    leads_to(&send(&mut owner, &key, "resume", &[]), &format!("{}?done=resumed", path(&key)));
    soon("it works again", || status(&house, &key.text), |status| *status == 200);
    let page = shows(&mut owner, &format!("{}?done=resumed", path(&key)), &["works again", "Active"]);
    assert!(!page.contains("/resume\""));
    shows(&mut owner, "/account/activity", &["A key was paused", "Resumed a key"]);
    // It has a fresh minute: the next pause takes 300 more.
    for _ in 0..298 {
        assert_eq!(connection.get("/api/v1/ip", Some(&key.text)).unwrap().status, 200);
    }
}

#[test]
fn usage_is_told_by_outcome_and_can_be_downloaded() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    let key = make(&mut owner, "Shop", "geo");
    let page =
        shows(&mut owner, &path(&key), &["Nothing to show yet", "Bearer YOUR_KEY", "No requests today"]);
    assert!(!page.contains("usage.csv"));
    assert!(house.runtime.block_on(house.records.set_daily_limit(key.id, 3)).unwrap());
    let limit = |reply: &Response| reply.header("x-ratelimit-limit") == Some("3");
    soon("the limit is seen", || house.get("/api/v1/ip", Some(&key)), limit);
    let answered =
        soon("the day is used up", || house.get("/api/v1/ip", Some(&key)), |reply| reply.status == 429);
    check_error(&answered, 429, "rate_limit_exceeded");
    shows(&mut owner, "/dashboard", &["<strong>0</strong> left", "today’s quota is used up"]);
    let csv = format!("{}/usage.csv", path(&key));
    let counted =
        |file: &Response| file.body.contains("\r\n2026-11-15,") && !file.body.ends_with(",0,0,0\r\n");
    let owner = std::cell::RefCell::new(owner);
    let file = soon("the counts are folded", || owner.borrow_mut().get(&csv).unwrap(), counted);
    assert_eq!(file.header("content-type"), Some("text/csv; charset=utf-8"));
    let disposition = format!("attachment; filename=\"ipse-key-{}-usage.csv\"", key.id);
    assert_eq!(file.header("content-disposition"), Some(disposition.as_str()));
    assert_eq!(file.body.lines().count(), 31);
    assert!(
        file.body.starts_with("day,answered,over_quota,refused\r\n2026-10-17,0,0,0\r\n"),
        "{}",
        file.body
    );
    shows(
        &mut owner.borrow_mut(),
        &path(&key),
        &["<title>15 November 2026: ", "<title>12:00 to 12:59: ", "usage.csv"],
    );
}

#[test]
fn a_key_is_deleted_by_its_name_alone() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    let key = make(&mut owner, "Shop  & <b>more</b>", "geo");
    for typed in ["", "shop & <b>more</b>", "Shop"] {
        let reply = send(&mut owner, &key, "delete", &[("confirm", typed)]);
        assert_eq!(reply.status, 422, "{typed}");
        assert!(reply.body.contains("Nothing was deleted"), "{}", reply.body);
    }
    assert_eq!(status(&house, &key.text), 200);
    let reply = send(&mut owner, &key, "delete", &[("confirm", "Shop & <b>more</b>")]);
    leads_to(&reply, "/dashboard?done=deleted");
    shows(&mut owner, "/dashboard?done=deleted", &["The key is deleted", "Make your first key"]);
    soon("it is gone", || status(&house, &key.text), |status| *status == 401);
    assert_eq!(owner.get(&path(&key)).unwrap().status, 404);
    shows(&mut owner, "/account/activity", &["Deleted a key", "Shop  &#38; &#60;b&#62;more&#60;/b&#62;"]);
}

#[test]
fn a_hundred_at_once_make_exactly_ten_keys() {
    let (house, _) = House::build(Plan::default());
    let mut owner = member(&house, "you@example.com");
    let page = owner.get("/dashboard").unwrap().body;
    let csrf = hidden_fields(&page, "/dashboard/keys").unwrap().remove(0).1;
    let create = |number: usize| {
        let (mut visitor, name) = (owner.clone(), format!("Key number {number}"));
        let fields = [("csrf", csrf.as_str()), ("name", &name), ("scope", "geo")];
        visitor.post("/dashboard/keys", &fields).unwrap()
    };
    let replies: Vec<Response> = std::thread::scope(|scope| {
        let create = &create;
        let threads: Vec<_> = (0..100).map(|number| scope.spawn(move || create(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let made: Vec<String> = replies.iter().filter(|reply| reply.status == 200).map(text_on).collect();
    assert_eq!(made.len(), 10);
    for refused in replies.iter().filter(|reply| reply.status != 200) {
        assert_eq!(refused.status, 422);
        assert!(refused.body.contains("No key was made"), "{}", refused.body);
    }
    assert!(made.iter().all(|text| status(&house, text) == 200));
    let page = shows(&mut owner, "/dashboard", &["10 of 10", "at most 10 keys"]);
    assert_eq!(page.matches("class=\"card key-row\"").count(), 10);
    assert!(hidden_fields(&page, "/dashboard/keys").is_none(), "no form that could not be taken");
}
