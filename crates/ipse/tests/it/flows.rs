//! What people do here, in a real browser, each with its scripts and without: see `flows/`.

use crate::accounts::{PASSWORD, code, member};
use crate::browser::flow;
use crate::keys::{soon, status};
use crate::mail::with_mailbox;
use crate::operator::overseen;
use crate::{House, NOON, Plan};
use ipse_model::{BURST_LIMIT, Day, KeyId};
use ipse_store::Outcomes;
use serde_json::{Value, json};
use std::process::Command;

/// What a flow asks of the test for which nobody needs a browser.
fn answer(house: &House, question: &str, about: &Value) -> Value {
    match question {
        "later" => {
            let seconds = u32::try_from(about["seconds"].as_u64().unwrap()).unwrap();
            house.hand.advance_ms(seconds * 1000);
            Value::Null
        }
        // The status that the API answers with, as soon as it is the expected one.
        "status" => {
            let key = about["key"].as_str().unwrap();
            let is_expected = |found: &u16| json!(found) == about["status"];
            json!(soon("the key is as it should be", || status(house, key), is_expected))
        }
        // What a shell makes of a line that somebody pasted.
        "run" => {
            let line = format!("{} -s", about.as_str().unwrap());
            let output = Command::new("sh").args(["-c", &line]).output().unwrap();
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
        }
        // One request more than a minute allows, ten in each second, and none in the minute before.
        "burst" => {
            let (mut connection, key) = (house.connect(), about.as_str().unwrap());
            house.hand.advance_ms(60_000);
            let ask = |_| {
                house.hand.advance_ms(100);
                connection.get("/api/v1/ip", Some(key)).unwrap().status
            };
            let statuses: Vec<u16> = (0..=BURST_LIMIT).map(ask).collect();
            let count = |status| statuses.iter().filter(|found| **found == status).count();
            json!({ "answered": count(200), "paused": count(429) })
        }
        // Waits until so much stands in the database.
        "folded" => {
            let id = KeyId(about["key"].as_str().unwrap().parse().unwrap());
            let days = || house.runtime.block_on(house.records.outcomes_by_day(id, NOON.day())).unwrap();
            let is_there = |days: &Vec<(Day, Outcomes)>| {
                let at_least = |count, name: &str| json!(count).as_u64() >= about[name].as_u64();
                days.iter()
                    .any(|(_, day)| at_least(day.answered, "answered") && at_least(day.refused, "refused"))
            };
            json!(soon("the counts are folded", days, is_there).len())
        }
        // What an app shows at this moment.
        "code" => json!(code(about.as_str().unwrap(), house.hand.now())),
        other => panic!("nobody knows what `{other}` is"),
    }
}

/// Runs a flow whose questions are all of these.
fn run(house: &House, name: &str, javascript: bool) {
    let given = json!({ "email": "you@example.com", "password": PASSWORD });
    let flow = flow(&house.base_url, name).given(given).javascript(javascript);
    let told = flow.run_with(|question, about| Ok(answer(house, question, about)));
    told.unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn a_key_lives_its_whole_life_in_a_browser() {
    run(&House::build(Plan::default()).0, "keys", true);
}

#[test]
fn a_key_lives_its_whole_life_without_scripts() {
    run(&House::build(Plan::default()).0, "keys", false);
}

fn links_by_mail_open_an_account(javascript: bool) {
    let (house, mailbox) = with_mailbox();
    let given = json!({
        "email": "you@example.com",
        "password": PASSWORD,
        "newEmail": "new@example.com",
        "newPassword": "another four words",
    });
    let flow = flow(&house.base_url, "reset").given(given).javascript(javascript);
    let told = flow.run_with(|question, about| match question {
        "letter" => {
            let mail = mailbox.next(about.as_str().unwrap())?;
            Ok(json!({ "subject": mail.header("subject"), "link": mail.link(), "text": mail.text }))
        }
        _ => Ok(answer(&house, question, about)),
    });
    told.unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(mailbox.waiting(), 0, "no letter that nobody expected");
}

#[test]
fn links_by_mail_open_an_account_in_a_browser() {
    links_by_mail_open_an_account(true);
}

#[test]
fn links_by_mail_open_an_account_without_scripts() {
    links_by_mail_open_an_account(false);
}

/// Somebody who has an account, and an app on their phone.
fn a_second_factor_is_used(javascript: bool) {
    let (house, _) = House::build(Plan::default());
    member(&house, "you@example.com");
    run(&house, "totp", javascript);
}

#[test]
fn a_second_factor_is_used_in_a_browser() {
    a_second_factor_is_used(true);
}

#[test]
fn a_second_factor_is_used_without_scripts() {
    a_second_factor_is_used(false);
}

fn an_operator_follows_what_happens(javascript: bool) {
    let (house, key) = overseen(&[]);
    let base_url = format!("http://{}", house.operator.unwrap());
    let told = flow(&base_url, "overview").javascript(javascript).run_with(|question, about| {
        assert_eq!(question, "lookups");
        let mut connection = house.connect();
        for _ in 0..about.as_u64().unwrap() {
            connection.get("/api/v1/ip", Some(&key.text))?;
        }
        Ok(Value::Null)
    });
    told.unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn an_operator_follows_what_happens_in_a_browser() {
    an_operator_follows_what_happens(true);
}

#[test]
fn an_operator_follows_what_happens_without_scripts() {
    an_operator_follows_what_happens(false);
}
