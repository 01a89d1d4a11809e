//! What has to be there before every page can be visited: people, keys in every state, links, and servers with and
//! without mail.

use crate::accounts::{PASSWORD, code, leads_to, member, sign_in};
use crate::keys::{make, send, soon, status};
use crate::mail::{self, next_link, with_mailbox};
use crate::{House, NOON, Plan, TestKey, doctor, geo};
use ipse_model::{BURST_LIMIT, KEYS_PER_ACCOUNT, Now};
use ipse_testkit::{Mailbox, Visitor, hidden_fields};
use serde_json::{Value, json};

/// Servers that stay as long as their pages are looked at, and what a flow has to know of them.
pub(crate) struct Scene {
    /// Without mail, and with everything else.
    pub(crate) plain: House,
    pub(crate) with_mail: House,
    _mailbox: Mailbox,
    /// Where nobody may sign up.
    pub(crate) closed: House,
    pub(crate) given: Value,
}

impl Scene {
    pub(crate) fn set() -> Self {
        let plan = Plan {
            settings: &[("pretend_ip", "81.2.69.142"), ("admin_listen", "127.0.0.1:0")],
            atlas: geo::atlas(),
            now: Some(days_ago(29)),
            ..Plan::default()
        };
        let (plain, _) = House::build(plan);
        let (with_mail, mailbox) = with_mailbox();
        let (closed, _) = House::build(Plan { settings: &[("open_signup", "no")], ..Plan::default() });
        let keys = keys_in_every_state(&plain);
        full_account(&plain);
        member(&plain, "newcomer@example.com");
        let mut given = json!({
            "password": PASSWORD,
            "doctor": doctor::link(&plain),
            "keys": keys,
            "totp": account_with_second_factor(&plain),
            "mail": with_mail.base_url,
            "closed": closed.base_url,
            "operator": format!("http://{}", plain.operator.unwrap()),
        });
        for (name, link) in links(&with_mail, &mailbox) {
            given["links"][name] = json!(link);
        }
        Self { plain, with_mail, _mailbox: mailbox, closed, given }
    }
}

/// Noon so many days before the others.
fn days_ago(days: u32) -> Now {
    let ms = u64::from(days) * 86_400_000;
    Now { unix_ms: NOON.unix_ms - i64::try_from(ms).unwrap(), boot_ms: NOON.boot_ms + 29 * 86_400_000 - ms }
}

/// The keys of `owner@example.com`, by what there is to see on their pages.
fn keys_in_every_state(house: &House) -> Value {
    let mut owner = member(house, "owner@example.com");
    let ask = |key: &TestKey, times: u32, ms: u32| {
        let mut connection = house.connect();
        for _ in 0..times {
            house.hand.advance_ms(ms);
            connection.get("/api/v1/ip", Some(&key.text)).unwrap();
        }
    };
    let used = make(&mut owner, "Shop", "full");
    let paused = make(&mut owner, "A batch job that somebody forgot to stop", "geo");
    // Both are asked every day of a month, and every hour of today, so that nothing more could be in their charts.
    for day in (1..=29).rev() {
        house.hand.set(days_ago(day));
        ask(&used, 1 + day % 7, 500);
        ask(&paused, 1 + day % 5, 500);
    }
    let today = Now { unix_ms: NOON.unix_ms - 43_200_000, boot_ms: days_ago(0).boot_ms - 43_200_000 };
    house.hand.set(today);
    for _ in 0..12 {
        ask(&used, 2, 500);
        ask(&paused, 2, 500);
        house.hand.advance_ms(3_600_000 - 2_000);
    }
    leads_to(&sign_in(&mut owner, "owner@example.com", PASSWORD), "/dashboard?signed-in");
    let limit = async |records: &ipse_store::Records| records.set_daily_limit(used.id, 24).await.unwrap();
    house.change(limit, || status(house, &used.text) == 429);
    ask(&paused, BURST_LIMIT + 1, 199);
    let by_hand = make(&mut owner, "Paused by hand", "geo");
    assert!(house.runtime.block_on(house.records.pause(by_hand.id, house.hand.now())).unwrap());
    let inactive = make(&mut owner, &"W".repeat(60), "ip");
    send(&mut owner, &inactive, "deactivate", &[]);
    let both = make(&mut owner, "<b>Hostile</b> & paused & off", "geo");
    assert!(house.runtime.block_on(house.records.pause(both.id, house.hand.now())).unwrap());
    send(&mut owner, &both, "deactivate", &[]);
    let rolled = make(&mut owner, "Rolled", "geo");
    ask(&rolled, 3, 1000);
    send(&mut owner, &rolled, "roll", &[("keep", "24h")]);
    let unused = make(&mut owner, "Never used", "geo");
    soon(
        "the counts are folded",
        || owner_csv(&mut owner.clone(), &used),
        |csv| csv.trim_end().lines().last().is_some_and(|today| !today.contains(",0,")),
    );
    let id = |key: &TestKey| key.id.0;
    json!({
        "used": id(&used), "paused": id(&paused), "byHand": id(&by_hand), "inactive": id(&inactive),
        "both": id(&both), "rolled": id(&rolled), "unused": id(&unused),
    })
}

fn owner_csv(owner: &mut Visitor, key: &TestKey) -> String {
    owner.get(&format!("/dashboard/keys/{}/usage.csv", key.id)).unwrap().body
}

/// `full@example.com` has as many keys as an account can hold.
fn full_account(house: &House) {
    let mut owner = member(house, "full@example.com");
    for number in 1..=KEYS_PER_ACCOUNT {
        make(&mut owner, &format!("Key number {number}"), "geo");
    }
}

/// `second@example.com` is asked for a code: the secret of its app.
fn account_with_second_factor(house: &House) -> String {
    let mut owner = member(house, "second@example.com");
    let page = owner.get("/account/totp").unwrap().body;
    let hidden = hidden_fields(&page, "/account/totp").unwrap();
    let secret = hidden.iter().find(|(name, _)| name == "secret").unwrap().1.clone();
    let code = code(&secret, house.hand.now());
    let mut fields: Vec<(&str, &str)> =
        hidden.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    fields.extend([("code", code.as_str()), ("password", PASSWORD)]);
    assert_eq!(owner.post("/account/totp", &fields).unwrap().status, 200);
    secret
}

/// A link of each kind that letters hold, none of them used.
fn links(house: &House, mailbox: &Mailbox) -> Vec<(&'static str, String)> {
    let mut owner = mail::member(house, mailbox, "owner@example.com");
    let next = |email| format!("{}{}", house.base_url, next_link(house, mailbox, email));
    mail::sign_up(house, "new@example.com");
    let verify = next("new@example.com");
    mail::ask_for_reset(house, "owner@example.com");
    let reset = next("owner@example.com");
    let change = [("email", "other@example.com"), ("password", PASSWORD)];
    owner.submit("/account", "/account/email", &change).unwrap();
    vec![("verify", verify), ("reset", reset), ("email", next("other@example.com"))]
}
