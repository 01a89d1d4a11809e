//! The program on a PostgreSQL server: everything works as on a file, and the server may die.

use crate::commands::{fail, ipse};
use crate::keys::soon;
use ipse_testkit::{Connection, Postgres, Server, Visitor};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The program with a database, as an operator sets it: the URL in a variable, the password in a file.
struct Installation {
    dir: tempfile::TempDir,
    url: String,
}

impl Installation {
    fn at(url: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (begin, rest) = url.split_once("//ipse:").unwrap();
        let (_, place) = rest.split_once('@').unwrap();
        // As a person would have typed it, with the end of the line.
        fs::write(dir.path().join("password"), "a pass/word: of @tests?\n").unwrap();
        Self { dir, url: format!("{begin}//ipse@{place}") }
    }

    fn folder(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = ipse(self.folder(), arguments);
        command.env("IPSE_DATABASE", &self.url).env("IPSE_DATABASE_PASSWORD_FILE", "password");
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn serve(&self) -> Server {
        Server::start(self.command(&["serve"]), &self.folder().join("ipse-data")).unwrap()
    }
}

fn status(server: &Server, key: &str) -> u16 {
    Connection::open(server.address).unwrap().get("/api/v1/ip", Some(key)).unwrap().status
}

fn remaining(server: &Server, key: &str) -> i64 {
    let answer = Connection::open(server.address).unwrap().get("/api/v1/ip", Some(key)).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.number("x-ratelimit-remaining").unwrap()
}

/// Signs up, and is signed in then.
fn member(server: &Server) -> Visitor {
    let mut visitor = Visitor::new(server.address);
    let fields = [("email", "you@example.com"), ("password", "correct horse battery")];
    let done = visitor.submit("/signup", "/signup", &fields).unwrap();
    assert_eq!((done.status, done.header("location")), (303, Some("/dashboard")), "{}", done.body);
    visitor
}

#[test]
fn accounts_keys_and_counts_are_kept_on_the_server_and_outlive_the_program() {
    let database = Postgres::shared().unwrap().database().unwrap();
    let installation = Installation::at(&database);
    let server = installation.serve();
    let mut owner = member(&server);
    let made = owner.submit("/dashboard", "/dashboard/keys", &[("name", "shop"), ("scope", "full")]).unwrap();
    let begin = made.body.find("<code>ipse_").unwrap() + "<code>".len();
    let mine = made.body[begin..begin + 43].to_owned();
    assert_eq!(remaining(&server, &mine), 9999);
    // The operator's commands work beside it, and what they do is seen within a second.
    let theirs = installation.run(&["key", "create", "--account", "them@example.com", "--daily-limit", "5"]);
    let theirs = theirs.trim();
    assert_eq!(remaining(&server, theirs), 4);
    installation.run(&["key", "deactivate", "2"]);
    soon("deactivated", || status(&server, theirs), |status| *status == 403);
    installation.run(&["key", "activate", "2"]);
    soon("activated", || status(&server, theirs), |status| *status == 200);
    let listed: Vec<Value> = serde_json::from_str(&installation.run(&["key", "list", "--json"])).unwrap();
    assert_eq!((&listed[1]["name"], &listed[1]["used_today"]), (&"shop".into(), &1.into()), "{listed:?}");
    assert!(installation.run(&["account", "list"]).contains("you@example.com"));
    assert!(installation.run(&["doctor"]).contains("/doctor/"));
    let shown = installation.run(&["config", "show"]);
    assert!(shown.contains("postgres://ipse@127.0.0.1") && !shown.contains("pass/word"), "{shown}");

    let (code, printed) = server.stop("TERM").unwrap();
    assert_eq!(code, Some(0));
    assert!(printed.contains("Data is kept in postgres://ipse@127.0.0.1"), "{printed}");
    let server = installation.serve();
    assert_eq!(remaining(&server, &mine), 9998, "nothing is lost or withheld by a clean stop");
    let cookies = owner.cookies;
    let mut owner = Visitor::new(server.address);
    owner.cookies = cookies;
    let page = owner.get("/dashboard").unwrap();
    assert!(page.status == 200 && page.body.contains("shop"), "still signed in: {}", page.body);
    server.kill().unwrap();
    let server = installation.serve();
    assert_eq!(remaining(&server, &mine), 9997, "nor by a violent one");
    assert!(!installation.folder().join("ipse-data/ipse.db").exists(), "no records lie in the folder");
}

#[test]
fn a_database_that_cannot_be_used_is_told_in_a_sentence_without_the_password() {
    let shared = Postgres::shared().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (url, expected) in [
        (shared.url("nowhere"), "there is no database of that name"),
        (
            shared.url("postgres").replace("a%20pass", "wrong"),
            "lets us in neither with this user nor with this",
        ),
        ("postgres://ipse:pass%2Fword@127.0.0.1:1/ipse".to_owned(), "cannot be reached"),
        ("postgres://ipse:pass%2Fword@127.0.0.1".to_owned(), "does not end with the database's name"),
    ] {
        for command in [&["serve"][..], &["key", "list"], &["account", "list"]] {
            let told = fail(dir.path(), &[command, &["--database", &url]].concat(), 1);
            assert!(
                told.contains(expected) && !told.contains("word:") && !told.contains("pass%2F"),
                "{told}"
            );
        }
    }
}

#[test]
fn a_second_server_that_would_count_beside_the_first_is_refused() {
    let database = Postgres::shared().unwrap().database().unwrap();
    let (one, two) = (Installation::at(&database), Installation::at(&database));
    let server = one.serve();
    let refused = two.command(&["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains("another server counts requests") && told.contains("--counters"), "{told}");
    // What it counted last stands in its folder alone, until it has stopped in peace or is given up.
    server.kill().unwrap();
    let refused = two.command(&["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("were last counted by a server with another data folder"), "{told}");
    assert_eq!(one.serve().stop("TERM").unwrap().0, Some(0));
    two.serve().kill().unwrap();
    one.run(&["store", "forget-journal"]);
    assert_eq!(one.serve().stop("TERM").unwrap().0, Some(0));
}

#[test]
fn known_keys_are_served_while_the_database_is_killed_and_all_is_well_when_it_is_back() {
    let postgres = Postgres::start().unwrap();
    let installation = Installation::at(&postgres.database().unwrap());
    let server = installation.serve();
    let mut owner = member(&server);
    let keys: Vec<String> = (0..10)
        .map(|_| installation.run(&["key", "create", "--account", "load@example.com"]).trim().to_owned())
        .collect();
    for key in &keys {
        assert_eq!(status(&server, key), 200);
    }
    let over = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        // As many requests as no burst limit minds, all the time.
        let load: Vec<_> = keys[1..]
            .iter()
            .map(|key| {
                let (server, over) = (&server, &over);
                scope.spawn(move || {
                    let mut connection = Connection::open(server.address).unwrap();
                    let mut answers = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        answers.push(connection.get("/api/v1/ip", Some(key)).unwrap().status);
                        // waits for: the next turn of a caller who keeps to the limit of 300 a minute
                        std::thread::sleep(Duration::from_millis(205));
                    }
                    answers
                })
            })
            .collect();
        for kill in [true, false] {
            let ended = if kill { postgres.kill() } else { postgres.stop() };
            ended.unwrap();
            let page = owner.get("/dashboard").unwrap();
            assert_eq!(page.status, 503, "{}", page.body);
            assert_eq!(page.header("retry-after"), Some("5"));
            assert!(page.body.contains("Accounts and keys cannot be reached at the moment"), "{}", page.body);
            for public in ["/", "/docs"] {
                assert_eq!(owner.get(public).unwrap().status, 200);
            }
            let mut stranger = Connection::open(server.address).unwrap();
            let refused = stranger.get("/api/v1/ip", Some("ipse_no_such_key")).unwrap();
            assert_eq!(refused.status, 401, "{}", refused.body);
            postgres.start_again().unwrap();
            let mut asking = owner.clone();
            let asks = std::cell::RefCell::new(&mut asking);
            soon(
                "the dashboard is back",
                || asks.borrow_mut().get("/dashboard").unwrap().status,
                |is| *is == 200,
            );
            // Changes arrive again, by notification or by looking.
            let action = if kill { "deactivate" } else { "activate" };
            installation.run(&["key", action, "1"]);
            soon("the change is seen", || status(&server, &keys[0]), |is| (*is == 403) == kill);
        }
        over.store(true, Ordering::Relaxed);
        load.into_iter().flat_map(|load| load.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(answers.len() > 20 && answers.iter().all(|status| *status == 200), "{answers:?}");
    assert_eq!(server.stop("TERM").unwrap().0, Some(0));
    // Every answer is counted.
    let listed: Vec<Value> = serde_json::from_str(&installation.run(&["key", "list", "--json"])).unwrap();
    let used: i64 = listed[1..].iter().map(|key| key["used_today"].as_i64().unwrap()).sum();
    assert_eq!(used, i64::try_from(answers.len()).unwrap() + 9);
}

#[test]
fn an_installation_moves_to_a_server_and_back_with_its_counts() {
    let database = Postgres::shared().unwrap().database().unwrap();
    let installation = Installation::at(&database);
    let folder = installation.folder();
    let on_file = || Server::start(ipse(folder, &["serve"]), &folder.join("ipse-data")).unwrap();
    let server = on_file();
    let created = ["key", "create", "--account", "me@example.com", "--daily-limit", "500"];
    let key = crate::commands::run(folder, &created).trim().to_owned();
    assert_eq!(remaining(&server, &key), 499);
    let to_server =
        ["store", "copy", "--from", "ipse-data", "--to", &installation.url, "--to-password-file", "password"];
    let told = fail(folder, &to_server, 1);
    assert!(told.contains("in use by another ipse server"), "{told}");
    // What was counted last stands only in the journal.
    server.kill().unwrap();
    let table = crate::commands::run(folder, &to_server);
    assert!(table.contains("keys") && table.contains("usage"), "{table}");
    let told = fail(folder, &to_server, 1);
    assert!(told.contains("holds this very installation already") && !told.contains("pass/word"), "{told}");

    let server = installation.serve();
    assert_eq!(remaining(&server, &key), 498);
    let to_file = ["store", "copy", "--from", &database, "--to", "other"];
    let told = fail(folder, &to_file, 1);
    assert!(told.contains("in use by another ipse server"), "{told}");
    let elsewhere = [&to_file[..], &["--data-dir", "nowhere"]].concat();
    let told = fail(folder, &elsewhere, 1);
    assert!(told.contains("another server counts requests"), "{told}");
    server.kill().unwrap();
    crate::commands::run(folder, &to_file);
    let server = Server::start(ipse(folder, &["serve"]), &folder.join("other")).unwrap();
    assert_eq!(remaining(&server, &key), 497);
}
