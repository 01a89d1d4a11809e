//! Letters to the owners of accounts, through a real mail server.

use crate::accounts::{PASSWORD, later, leads_to, sign_in};
use crate::commands::ipse;
use crate::keys::{make, soon};
use crate::{House, NOON, Plan, TestKey};
use ipse_model::{BURST_LIMIT, Scope};
use ipse_store::{Created, NewKey};
use ipse_testkit::{MailDoor, MailMode, MailTls, Mailbox, Response, Server, Visitor};
use std::fs::{self, File};

const FROM: (&str, &str) = ("mail_from", "ipse <ipse@example.com>");

/// A server whose letters go to a mailbox that takes everything.
pub(crate) fn with_mailbox() -> (House, Mailbox) {
    let mailbox = Mailbox::start().unwrap();
    let server = mailbox.address.to_string();
    let settings = [("mail_server", server.as_str()), FROM];
    (House::build(Plan { settings: &settings, ..Plan::default() }).0, mailbox)
}

pub(crate) fn sign_up(house: &House, email: &str) -> (Visitor, Response) {
    let mut visitor = Visitor::new(house.address);
    let reply = visitor.submit("/signup", "/signup", &[("email", email), ("password", PASSWORD)]).unwrap();
    (visitor, reply)
}

/// Where the link of the next letter to an address leads, on our own pages.
#[track_caller]
pub(crate) fn next_link(house: &House, mailbox: &Mailbox, email: &str) -> String {
    let mail = mailbox.next(email).unwrap();
    mail.link().and_then(|link| link.strip_prefix(&house.base_url)).unwrap().to_owned()
}

/// Somebody who has signed up and opened the link.
pub(crate) fn member(house: &House, mailbox: &Mailbox, email: &str) -> Visitor {
    let (mut visitor, _) = sign_up(house, email);
    let link = next_link(house, mailbox, email);
    leads_to(&visitor.submit(&link, &link, &[("password", PASSWORD)]).unwrap(), "/dashboard");
    visitor
}

pub(crate) fn ask_for_reset(house: &House, email: &str) -> Response {
    Visitor::new(house.address).submit("/reset", "/reset", &[("email", email)]).unwrap()
}

#[test]
fn letters_reach_a_server_that_wants_tls_and_a_login() {
    for (tls, word) in [(MailTls::StartTls, "starttls"), (MailTls::Implicit, "implicit")] {
        let door = MailDoor { tls: Some(tls), login: Some(("ipse", "a secret of ours")) };
        let mailbox = Mailbox::behind(door).unwrap();
        let server = format!("localhost:{}", mailbox.address.port());
        let certificate = mailbox.certificate().to_string_lossy().into_owned();
        let settings = [
            ("mail_server", server.as_str()),
            ("mail_tls", word),
            ("mail_user", "ipse"),
            ("mail_password", "a secret of ours"),
            ("mail_ca", &certificate),
            FROM,
        ];
        let (house, _) = House::build(Plan { settings: &settings, ..Plan::default() });
        let (_, reply) = sign_up(&house, "you@example.com");
        assert_eq!(reply.status, 200, "{}", reply.body);
        let mail = mailbox.next("you@example.com").unwrap();
        assert_eq!((mail.secure, mail.user.as_deref()), (true, Some("ipse")), "{word}");
        assert_eq!(mail.from, "ipse@example.com");
        assert_eq!(mail.header("from"), Some("ipse <ipse@example.com>"));
        assert_eq!(mail.header("to"), Some("you@example.com"));
        assert!(mail.link().unwrap().starts_with(&format!("{}/verify/", house.base_url)), "{}", mail.text);
    }
}

#[test]
fn a_letter_that_is_not_taken_now_is_brought_again() {
    let (house, mut mailbox) = with_mailbox();
    mailbox.set_mode(MailMode::Defer).unwrap();
    let (mut visitor, reply) = sign_up(&house, "you@example.com");
    assert!(reply.body.contains("Look into your inbox"), "nobody waits for the mail server: {}", reply.body);
    mailbox.turned_away("you@example.com").unwrap();
    mailbox.set_mode(MailMode::Take).unwrap();
    // It comes after five seconds, and once.
    let link = next_link(&house, &mailbox, "you@example.com");
    leads_to(&visitor.submit(&link, &link, &[("password", PASSWORD)]).unwrap(), "/dashboard");
    assert_eq!(mailbox.waiting(), 0);
}

#[test]
fn a_letter_that_is_refused_breaks_nothing_and_no_log_tells_whom_it_was_for() {
    let mut mailbox = Mailbox::start().unwrap();
    mailbox.set_mode(MailMode::Refuse).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log.txt");
    let server = mailbox.address.to_string();
    let arguments = ["serve", "--log-level", "trace", "--mail-server", &server, "--mail-from", FROM.1];
    let mut command = ipse(dir.path(), &arguments);
    command.stderr(File::create(&log).unwrap());
    let server = Server::start(command, &dir.path().join("ipse-data")).unwrap();
    let logged = |sentence: &str| {
        let read = || fs::read_to_string(&log).unwrap();
        soon(sentence, read, |text| text.contains(sentence))
    };
    let mut visitor = Visitor::new(server.address);
    let mut sign_up = |email: &str| {
        let fields = [("email", email), ("password", PASSWORD)];
        let reply = visitor.submit("/signup", "/signup", &fields).unwrap();
        assert!(reply.body.contains("Look into your inbox"), "{}", reply.body);
    };
    sign_up("canary-refused@example.com");
    mailbox.turned_away("canary-refused@example.com").unwrap();
    logged("a letter was not delivered");
    mailbox.set_mode(MailMode::Take).unwrap();
    sign_up("canary-taken@example.com");
    let mail = mailbox.next("canary-taken@example.com").unwrap();
    let text = logged("a letter was delivered");
    assert!(text.contains("the mail server answered 550"), "{text}");
    let token = mail.link().unwrap().rsplit('/').next().unwrap();
    for secret in ["canary", "example.com", "takes no mail of yours", token, PASSWORD] {
        assert!(!text.contains(secret), "{secret} stands in the log: {text}");
    }
    assert_eq!(server.stop("TERM").unwrap().0, Some(0));
}

#[test]
fn nobody_learns_from_a_form_who_has_an_account() {
    let (house, mailbox) = with_mailbox();
    member(&house, &mailbox, "known@example.com");
    let told = |reply: Response, email: &str| {
        assert_eq!(reply.status, 200);
        assert!(!reply.body.contains(email), "{}", reply.body);
        let headers: Vec<_> = reply.headers.into_iter().filter(|(name, _)| name != "date").collect();
        (headers, reply.body)
    };
    let signed_up = |email: &str| told(sign_up(&house, email).1, email);
    assert_eq!(signed_up("known@example.com"), signed_up("unknown@example.com"));
    let letter = mailbox.next("known@example.com").unwrap();
    assert_eq!(letter.header("subject"), Some("You have an account already"));
    assert!(!letter.text.contains("/verify/"), "{}", letter.text);
    mailbox.next("unknown@example.com").unwrap();

    let asked = |email: &str| told(ask_for_reset(&house, email), email);
    assert_eq!(asked("nobody@example.com"), asked("known@example.com"));
    assert!(next_link(&house, &mailbox, "known@example.com").starts_with("/reset/"));
    assert_eq!(mailbox.waiting(), 0, "who has no account gets no letter");
}

#[test]
fn nobodys_mailbox_is_filled_by_others() {
    let (house, mailbox) = with_mailbox();
    member(&house, &mailbox, "you@example.com");
    let statuses: Vec<u16> = (0..8).map(|_| ask_for_reset(&house, "you@example.com").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429, 429, 429]);
}

#[test]
fn links_work_once_and_for_20_minutes() {
    let (house, mailbox) = with_mailbox();
    let mut visitor = member(&house, &mailbox, "you@example.com");
    let new = [("new_password", "another password")];
    ask_for_reset(&house, "you@example.com");
    let late = next_link(&house, &mailbox, "you@example.com");
    house.hand.set(later(20 * 60 - 1));
    assert_eq!(visitor.get(&late).unwrap().status, 200);
    house.hand.set(later(20 * 60));
    assert_eq!(visitor.get(&late).unwrap().status, 410);
    ask_for_reset(&house, "you@example.com");
    let link = next_link(&house, &mailbox, "you@example.com");
    // A link that is only looked at, as programs do that look for malware, stays good.
    for _ in 0..3 {
        assert_eq!(visitor.get(&link).unwrap().status, 200);
    }
    // Whoever came by the link is no stranger, however many guess at the same time.
    let mut anew = Visitor::new(house.address);
    leads_to(&anew.submit(&link, &link, &new).unwrap(), "/signin?reset");
    assert_eq!(visitor.get(&link).unwrap().status, 410);
    for _ in 0..8 {
        sign_in(&mut Visitor::new(house.address), "you@example.com", "a wrong password");
    }
    leads_to(&sign_in(&mut anew, "you@example.com", "another password"), "/dashboard?signed-in");
    house.hand.set(later(20 * 60 + 120));
    leads_to(&sign_in(&mut visitor, "you@example.com", "another password"), "/dashboard?signed-in");
}

/// So many requests with a key, a hundred milliseconds apart.
fn ask(house: &House, key: &TestKey, times: u32) {
    let mut connection = house.connect();
    for _ in 0..times {
        house.hand.advance_ms(100);
        connection.get("/api/v1/ip", Some(&key.text)).unwrap();
    }
}

/// A key of ten answers a day, which the operator has made.
fn limited_key(house: &House, email: &str, name: &str) -> TestKey {
    let account = email.parse().unwrap();
    let new = NewKey { account: &account, name, scope: Scope::Geo, daily_limit: Some(10) };
    match house.runtime.block_on(house.records.create_key(&new, NOON)).unwrap() {
        Created::Key { text, record } => TestKey { id: record.id, text: text.reveal().to_owned() },
        Created::AccountIsFull => panic!("the account is full"),
    }
}

#[test]
fn owners_are_told_of_a_pause_and_of_their_day_once_each_and_only_if_they_want() {
    let (house, mailbox) = with_mailbox();
    let mut owner = member(&house, &mailbox, "you@example.com");
    let mut quiet = member(&house, &mailbox, "quiet@example.com");
    leads_to(&quiet.submit("/account", "/account/notices", &[]).unwrap(), "/account?done=notices");
    let told = |subject: &str, parts: &[&str]| {
        let mail = mailbox.next("you@example.com").unwrap();
        assert_eq!(mail.header("subject"), Some(subject), "{}", mail.text);
        for part in parts {
            assert!(mail.text.contains(part), "no {part:?} in {}", mail.text);
        }
        assert!(mail.text.contains(&format!("switch these letters off: {}/account", house.base_url)));
    };

    let pairs =
        [limited_key(&house, "you@example.com", "Shop"), limited_key(&house, "quiet@example.com", "Secret")];
    for key in &pairs {
        ask(&house, key, 8);
    }
    let page = format!("{}/dashboard/keys/{}", house.base_url, pairs[0].id);
    told("Your key “Shop” has used 80 % of its day", &["has used 8 of its 10 requests of today", &page]);
    for key in &pairs {
        ask(&house, key, 3);
    }
    told("Your key “Shop” has used up its day", &["has used all 10 requests of today", &page]);

    let pairs = [make(&mut owner, "Loop", "geo"), make(&mut quiet, "Secret loop", "geo")];
    for key in &pairs {
        ask(&house, key, BURST_LIMIT + 5);
    }
    let page = format!("{}/dashboard/keys/{}", house.base_url, pairs[0].id);
    told("Your key “Loop” is paused", &["more than 300 requests within 60 seconds", &page]);

    // Whatever is told after all of that comes alone: nothing was told twice, and nothing to who wants no letters.
    let last = make(&mut owner, "Last", "geo");
    ask(&house, &last, BURST_LIMIT + 1);
    told("Your key “Last” is paused", &[]);
    assert_eq!(mailbox.waiting(), 0);
    assert!(quiet.get("/dashboard").unwrap().body.contains("since 12:0"), "it was paused all the same");
}

#[test]
fn a_new_address_is_confirmed_by_its_owner_alone_and_the_old_one_is_told_in_time() {
    let (house, mailbox) = with_mailbox();
    let mut owner = member(&house, &mailbox, "old@example.com");
    let fields = [("email", "new@example.com"), ("password", PASSWORD)];
    leads_to(&owner.submit("/account", "/account/email", &fields).unwrap(), "/account?done=email-sent");
    let warning = mailbox.next("old@example.com").unwrap();
    assert!(warning.text.contains("asked for another e-mail address"), "{}", warning.text);
    let link = next_link(&house, &mailbox, "new@example.com");
    // Somebody to whom the letter went by mistake, or who has an account of their own.
    let mut stranger = Visitor::new(house.address);
    assert!(
        stranger.get(&link).unwrap().header("location").is_some_and(|to| to.starts_with("/signin?next="))
    );
    let mut other = member(&house, &mailbox, "other@example.com");
    assert_eq!(other.get(&link).unwrap().status, 410);
    leads_to(&owner.submit(&link, &link, &[]).unwrap(), "/account?done=email");
    let told = mailbox.next("old@example.com").unwrap();
    assert!(!told.text.contains("/reset"), "it would be of no use to the old address: {}", told.text);
    assert!(told.header("message-id").is_some() && told.header("mime-version") == Some("1.0"));
    leads_to(&sign_in(&mut stranger, "new@example.com", PASSWORD), "/dashboard?signed-in");
}
