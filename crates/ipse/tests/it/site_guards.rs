//! What other sites, other owners and hostile texts can do to accounts: nothing.

use crate::accounts::{PASSWORD, leads_to, member};
use crate::{House, Plan};
use ipse_testkit::{Response, Visitor, encode, hidden_fields};

/// Every path to which a member sends forms, with fields that would be taken. `ID` is a key's number, `SESSION` a
/// session's.
const WRITES: &[(&str, &[(&str, &str)])] = &[
    ("/dashboard/keys", &[("name", "another"), ("scope", "full")]),
    ("/dashboard/keys/ID/rename", &[("name", "renamed")]),
    ("/dashboard/keys/ID/scope", &[("scope", "ip")]),
    ("/dashboard/keys/ID/deactivate", &[]),
    ("/dashboard/keys/ID/reactivate", &[]),
    ("/dashboard/keys/ID/resume", &[]),
    ("/dashboard/keys/ID/roll", &[("keep", "now")]),
    ("/dashboard/keys/ID/delete", &[("confirm", "first key")]),
    ("/account/password", &[("password", PASSWORD), ("new_password", "another password")]),
    ("/account/email", &[("password", PASSWORD), ("email", "thief@example.com")]),
    ("/account/notices", &[]),
    ("/account/sessions/end", &[]),
    ("/account/sessions/SESSION/end", &[]),
    ("/account/totp", &[("password", PASSWORD), ("code", "000000"), ("secret", "x")]),
    ("/account/totp/off", &[("password", PASSWORD)]),
    ("/account/totp/codes", &[("password", PASSWORD)]),
    ("/account/delete", &[("password", PASSWORD), ("confirm", "you@example.com")]),
    ("/signout", &[]),
];
/// And those to which anybody does.
const OPEN_WRITES: &[(&str, &[(&str, &str)])] = &[
    ("/signup", &[("email", "new@example.com"), ("password", PASSWORD)]),
    ("/signin", &[("email", "you@example.com"), ("password", PASSWORD)]),
    ("/signin/code", &[("code", "000000")]),
    ("/reset", &[("email", "you@example.com")]),
];
/// Every page of a key.
const READS: &[&str] = &["/dashboard/keys/ID", "/dashboard/keys/ID/usage.csv"];

/// An account with one key and two sessions.
struct Owner {
    visitor: Visitor,
    /// The number of the key.
    key: String,
    csrf: String,
}

impl Owner {
    fn settle(house: &House) -> Self {
        let mut visitor = member(house, "you@example.com");
        let fields = [("name", "first key"), ("scope", "geo")];
        let made = visitor.submit("/dashboard", "/dashboard/keys", &fields).unwrap();
        assert_eq!(made.status, 200, "{}", made.body);
        let page = visitor.get("/dashboard").unwrap().body;
        let keys =
            page.split("/dashboard/keys/").skip(1).filter_map(|rest| rest.split(['"', '/', '?']).next());
        let key = keys.into_iter().find(|id| id.parse::<i64>().is_ok()).unwrap().to_owned();
        let csrf = hidden_fields(&page, "/signout").unwrap().remove(0).1;
        Self { visitor, key, csrf }
    }

    fn path(&self, path: &str) -> String {
        path.replace("ID", &self.key).replace("SESSION", "1")
    }

    /// Everything about the account that a form could change.
    fn state(&mut self) -> Vec<String> {
        let mut pages: Vec<String> = Vec::new();
        for page in ["/dashboard", "/account", "/account/totp"] {
            let page = self.visitor.get(page).unwrap();
            assert_eq!(page.status, 200, "still signed in");
            pages.push(page.body);
        }
        let key = self.path("/dashboard/keys/ID");
        pages.push(self.visitor.get(&key).unwrap().body);
        // A new secret is offered each time, and a new number for what is to be done once.
        pages[2] = pages[2].contains("Switch it on").to_string();
        pages.iter().map(|page| without_numbers(page)).collect()
    }
}

/// A page without the numbers of its forms.
fn without_numbers(page: &str) -> String {
    let mut parts = page.split("name=\"once\" value=\"");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |page, part| page + part.split_once('"').unwrap().1)
}

fn attempt(visitor: &mut Visitor, path: &str, headers: &[(&str, &str)], fields: &[(&str, &str)]) -> Response {
    visitor.send("POST", path, headers, Some(&encode(fields))).unwrap()
}

#[test]
fn no_other_site_changes_anything() {
    let (house, _) = House::build(Plan::default());
    let mut owner = Owner::settle(&house);
    let before = owner.state();
    let right = owner.csrf.clone();
    let origins: &[&[(&str, &str)]] = &[
        &[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")],
        &[("sec-fetch-site", "cross-site"), ("origin", "null")],
        &[("sec-fetch-site", "same-site"), ("origin", "https://sub.example")],
        &[("sec-fetch-site", "none")],
        &[("origin", "https://evil.example")],
        &[("origin", "http://127.0.0.1:1")],
    ];
    let mut tried = 0;
    for (path, fields) in WRITES.iter().chain(OPEN_WRITES) {
        let path = owner.path(path);
        // From elsewhere, even with the right secret.
        for origin in origins {
            let mut fields = fields.to_vec();
            fields.push(("csrf", &right));
            assert_eq!(attempt(&mut owner.visitor, &path, origin, &fields).status, 403, "{path} {origin:?}");
            tried += 1;
        }
        // From here, or from nobody knows where, without the right secret.
        for origin in [&[("sec-fetch-site", "same-origin")][..], &[("origin", "null")], &[]] {
            for csrf in ["", "0", &right[1..], &right.to_uppercase(), &"0".repeat(64)] {
                let mut fields = fields.to_vec();
                fields.push(("csrf", csrf));
                assert_eq!(attempt(&mut owner.visitor, &path, origin, &fields).status, 403, "{path} {csrf}");
                tried += 1;
            }
        }
        // What forms of other sites can send, but ours never do.
        for kind in ["text/plain", "multipart/form-data; boundary=x", "application/json", ""] {
            let headers = [("content-type", kind)];
            let mut fields = fields.to_vec();
            fields.push(("csrf", &right));
            assert_eq!(attempt(&mut owner.visitor, &path, &headers, &fields).status, 400, "{path} {kind}");
            tried += 1;
        }
        // By a link or a picture.
        let with_query = format!("{path}?csrf={right}&{}", encode(fields));
        assert!([200, 303].contains(&owner.visitor.get(&with_query).unwrap().status), "{path}");
    }
    assert_eq!(tried, (WRITES.len() + OPEN_WRITES.len()) * (6 + 15 + 4));
    assert_eq!(owner.state(), before);
    let accounts = house.runtime.block_on(house.records.accounts()).unwrap();
    assert_eq!(accounts.len(), 1);
}

#[test]
fn a_secret_of_another_session_is_worth_nothing() {
    let (house, _) = House::build(Plan::default());
    let mut owner = Owner::settle(&house);
    let mut other = member(&house, "other@example.com");
    let csrf = hidden_fields(&other.get("/dashboard").unwrap().body, "/signout").unwrap().remove(0).1;
    for (path, fields) in WRITES {
        let path = owner.path(path);
        let mut fields = fields.to_vec();
        fields.push(("csrf", &csrf));
        assert_eq!(attempt(&mut owner.visitor, &path, &[], &fields).status, 403, "{path}");
    }
}

#[test]
fn what_belongs_to_another_owner_is_not_there() {
    let (house, _) = House::build(Plan::default());
    let mut owner = Owner::settle(&house);
    let before = owner.state();
    let mut other = member(&house, "other@example.com");
    let csrf = hidden_fields(&other.get("/dashboard").unwrap().body, "/signout").unwrap().remove(0).1;
    for path in READS {
        let reply = other.get(&owner.path(path)).unwrap();
        let never = other.get("/dashboard/keys/999999").unwrap();
        assert_eq!((reply.status, &reply.body), (404, &never.body), "{path}: as if it had never been");
    }
    for (path, fields) in WRITES.iter().filter(|(path, _)| path.contains("ID") || path.contains("SESSION")) {
        let path = owner.path(path);
        let mut fields = fields.to_vec();
        fields.push(("csrf", &csrf));
        assert_eq!(attempt(&mut other, &path, &[], &fields).status, 404, "{path}");
    }
    assert_eq!(owner.state(), before);
}

#[test]
fn guests_see_and_change_nothing() {
    let (house, _) = House::build(Plan::default());
    let mut owner = Owner::settle(&house);
    let before = owner.state();
    let mut guest = Visitor::new(house.address);
    let csrf = hidden_fields(&guest.get("/signin").unwrap().body, "/signin").unwrap();
    let csrf = csrf.into_iter().find(|(name, _)| name == "csrf").unwrap().1;
    let pages = ["/dashboard", "/account", "/account/activity", "/account/export.json", "/account/totp"];
    for path in READS.iter().chain(&pages) {
        let reply = guest.get(&owner.path(path)).unwrap();
        assert!(reply.header("location").is_some_and(|to| to.starts_with("/signin")), "{path}");
        assert_eq!(reply.body, "");
    }
    for (path, fields) in WRITES {
        let path = owner.path(path);
        let mut fields = fields.to_vec();
        fields.push(("csrf", &csrf));
        leads_to(&attempt(&mut guest, &path, &[], &fields), "/signin");
    }
    assert_eq!(owner.state(), before);
}

#[test]
fn hostile_names_are_refused_or_stay_text() {
    let (house, _) = House::build(Plan::default());
    let mut owner = Owner::settle(&house);
    let long = "x".repeat(10_000);
    let hostile = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "{{7*7}}{% include %}",
        "=HYPERLINK(\"https://evil.example\")",
        "a\u{2028}b\u{2029}c",
        "a\u{202e}b",
        "\u{0}null",
        "line\r\nSet-Cookie: a=b",
        "'; DROP TABLE keys; --",
        &long,
    ];
    for name in hostile {
        let rename = owner.path("/dashboard/keys/ID/rename");
        let page = owner.path("/dashboard/keys/ID");
        let reply = owner.visitor.submit(&page, &rename, &[("name", name)]).unwrap();
        assert!([303, 422].contains(&reply.status), "{name:?}: {}", reply.status);
        for page in ["/dashboard", &page, "/account/activity"] {
            let html = owner.visitor.get(page).unwrap().body;
            for part in ["<script>alert", "<img src=x", "onerror=alert(1)>\"", "\u{202e}", "\u{2028}"] {
                assert!(!html.contains(part), "{name:?} on {page}: {part}");
            }
            assert!(html.len() < 60_000, "{name:?} makes {page} large");
        }
        let csv = owner.visitor.get(&owner.path("/dashboard/keys/ID/usage.csv")).unwrap();
        assert_eq!(csv.status, 200);
        assert!(!csv.headers.iter().any(|(name, _)| name == "set-cookie"), "{:?}", csv.headers);
        assert!(!csv.body.contains("=HYPERLINK"), "{}", csv.body);
    }
    // A form that is larger than any of ours is not read at all.
    let rename = owner.path("/dashboard/keys/ID/rename");
    let huge = "x".repeat(100_000);
    let fields = [("csrf", owner.csrf.as_str()), ("name", &huge)];
    assert_eq!(attempt(&mut owner.visitor, &rename, &[], &fields).status, 413);
}

#[test]
fn pages_of_members_are_for_them_alone() {
    let (house, _) = House::build(Plan::default());
    let mut owner = Owner::settle(&house);
    let key = owner.path("/dashboard/keys/ID");
    let pages =
        ["/dashboard", &key, "/account", "/account/activity", "/account/totp", "/account/export.json"];
    for page in pages {
        let headers = [("origin", "https://evil.example"), ("accept-encoding", "gzip")];
        let reply = owner.visitor.send("GET", page, &headers, None).unwrap();
        assert_eq!(reply.status, 200, "{page}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "{page}");
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{page}");
        assert_eq!(reply.header("content-encoding"), None, "{page}: secrets are not compressed");
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"), "{page}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{page}");
        let policy = reply.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"]
        {
            assert!(policy.contains(part), "{page}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{page}: {policy}");
    }
}

#[test]
fn links_come_from_the_base_url_whatever_host_was_asked_for() {
    let (house, _) =
        House::build(Plan { settings: &[("base_url", "https://ip.example.com")], ..Plan::default() });
    let mut connection = house.connect();
    for path in ["/signin", "/signup", "/reset", "/docs", "/"] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\naccept: text/html\r\n\r\n");
        connection.send(request.as_bytes()).unwrap();
        assert!(!connection.receive().unwrap().body.contains("evil.example"), "{path}");
    }
}
