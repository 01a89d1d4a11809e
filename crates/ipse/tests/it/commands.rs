//! The command line, as an operator types it.

use ipse_testkit::{Connection, Server, program};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// The program, in a folder of its own, without the settings of whoever runs the tests.
pub(crate) fn ipse(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_ipse"));
    command.current_dir(folder).args(arguments);
    command
}

/// Runs a command that must succeed, and returns its standard output.
#[track_caller]
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> String {
    let output = ipse(folder, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail, and returns what it says.
#[track_caller]
pub(crate) fn fail(folder: &Path, arguments: &[&str], code: i32) -> String {
    let Output { status, stdout, stderr } = ipse(folder, arguments).output().unwrap();
    assert_eq!(status.code(), Some(code), "{arguments:?}");
    assert_eq!(String::from_utf8(stdout).unwrap(), "", "nothing on standard output");
    String::from_utf8(stderr).unwrap()
}

fn create(folder: &Path, more: &[&str]) -> String {
    let arguments = [&["key", "create", "--account", "me@example.com"], more].concat();
    run(folder, &arguments)
}

fn list(folder: &Path) -> Vec<Value> {
    serde_json::from_str(&run(folder, &["key", "list", "--json"])).unwrap()
}

#[test]
fn a_key_is_printed_alone_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let printed = create(dir.path(), &[]);
    assert_eq!(printed.len(), 44);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(dir.path().join("ipse-data/ipse.db")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600, "e-mail addresses and hashes are nobody else's business");
    assert!(printed.starts_with("ipse_") && printed.ends_with('\n'));
    for arguments in [
        &["key", "list"][..],
        &["key", "show", "1"],
        &["key", "list", "--json"],
        &["key", "show", "1", "--json"],
    ] {
        let shown = run(dir.path(), arguments);
        assert!(!shown.contains(printed.trim()) && shown.contains(&printed.trim()[39..]), "{shown}");
    }
}

#[test]
fn a_key_that_cannot_be_printed_is_not_lost_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        ipse(dir.path(), &["key", "create", "--account", "me@example.com"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("could not be printed") && error.contains("ipse key roll 1"), "{error}");
    let output = ipse(dir.path(), &["key", "roll", "1"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_eleventh_key_fails_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..10 {
        create(dir.path(), &[]);
    }
    let error = fail(dir.path(), &["key", "create", "--account", "ME@example.com"], 1);
    assert!(error.contains("me@example.com holds 10 keys already"), "{error}");
    run(dir.path(), &["key", "create", "--account", "other@example.com"]);
    run(dir.path(), &["key", "delete", "1"]);
    create(dir.path(), &[]);
}

#[test]
fn the_list_is_a_table_or_an_array_of_objects() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path(), &[]);
    create(dir.path(), &["--name", "my site", "--scope", "full", "--daily-limit", "50"]);
    let keys = list(dir.path());
    let names: Vec<&String> = keys[0].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["id", "account", "name", "scope", "state", "last_four", "created", "daily_limit", "used_today"]
    );
    assert_eq!((&keys[0]["scope"], &keys[0]["daily_limit"]), (&"geo".into(), &10_000.into()));
    assert_eq!(
        (&keys[1]["scope"], &keys[1]["daily_limit"], &keys[1]["name"]),
        (&"full".into(), &50.into(), &"my site".into())
    );
    let table = run(dir.path(), &["key", "list", "--account", "me@example.com"]);
    assert!(table.starts_with("ID  ACCOUNT") && table.lines().count() == 3, "{table}");
    assert_eq!(run(dir.path(), &["key", "list", "--account", "nobody@example.com", "--json"]).trim(), "[]");
}

#[test]
fn states_scope_limit_and_text_can_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let first = create(dir.path(), &[]);
    let state = || list(dir.path())[0]["state"].clone();
    for (command, expected) in [
        ("pause", "paused"),
        ("deactivate", "inactive"),
        ("resume", "inactive"),
        ("activate", "active"),
        ("pause", "paused"),
        ("resume", "active"),
    ] {
        run(dir.path(), &["key", command, "1"]);
        assert_eq!(state(), expected, "{command}");
    }
    // What is said is true of the key as it is then.
    run(dir.path(), &["key", "pause", "1"]);
    run(dir.path(), &["key", "deactivate", "1"]);
    let said = ipse(dir.path(), &["key", "activate", "1"]).output().unwrap().stderr;
    assert_eq!(String::from_utf8_lossy(&said), "Key 1 is activated. Its state is paused.\n");
    run(dir.path(), &["key", "resume", "1"]);
    run(dir.path(), &["key", "scope", "1", "full"]);
    run(dir.path(), &["key", "limit", "1", "77"]);
    let rolled = run(dir.path(), &["key", "roll", "1"]);
    assert!(rolled.len() == 44 && rolled != first);
    let key = &list(dir.path())[0];
    assert_eq!(
        (&key["scope"], &key["daily_limit"], &key["last_four"]),
        (&"full".into(), &77.into(), &rolled.trim()[39..].into())
    );
    run(dir.path(), &["key", "delete", "1"]);
    assert_eq!(list(dir.path()).len(), 0);
}

#[test]
fn an_old_text_can_be_kept_for_a_while_and_is_shown_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let first = create(dir.path(), &[]);
    let show =
        || -> Value { serde_json::from_str(&run(dir.path(), &["key", "show", "1", "--json"])).unwrap() };
    assert_eq!(show()["old_text"], Value::Null);
    let output = ipse(dir.path(), &["key", "roll", "1", "--keep", "24h"]).output().unwrap();
    assert_eq!(output.stdout.len(), 44);
    let said = String::from_utf8(output.stderr).unwrap();
    let old = show()["old_text"].clone();
    assert_eq!(old["last_four"], first.trim()[39..]);
    assert!(said.contains(&format!("The old one works until {}.", old["ends"].as_str().unwrap())), "{said}");
    let table = run(dir.path(), &["key", "show", "1"]);
    assert!(table.contains(&format!("…{}, works until", &first.trim()[39..])), "{table}");
    // Without --keep nothing is kept, however long the text before was to work.
    run(dir.path(), &["key", "roll", "1"]);
    assert_eq!(show()["old_text"], Value::Null);
    let error = fail(dir.path(), &["key", "roll", "1", "--keep", "2h"], 2);
    assert!(error.contains("1h, 24h, 7d"), "{error}");
}

#[test]
fn a_reset_prints_a_link_that_is_kept_as_a_hash_only() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &["account", "create", "me@example.com"]);
    let arguments = ["account", "reset", "Me@example.com", "--base-url", "https://ip.example"];
    let output = ipse(dir.path(), &arguments).output().unwrap();
    let (link, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let token = link.strip_prefix("https://ip.example/reset/").and_then(|rest| rest.strip_suffix('\n'));
    let token = token.expect(&link);
    assert!(token.parse::<ipse_model::Secret>().is_ok(), "{link}");
    assert!(
        said.contains("20 minutes") && said.contains("me@example.com") && !said.contains("base_url"),
        "{said}"
    );
    let database = std::fs::read(dir.path().join("ipse-data/ipse.db")).unwrap();
    assert!(!database.windows(token.len()).any(|window| window == token.as_bytes()));
    // Where nobody said how the server is reached, the link is a guess, and says so.
    let output = ipse(dir.path(), &["account", "reset", "me@example.com"]).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("http://localhost:8080/reset/"));
    assert!(String::from_utf8(output.stderr).unwrap().contains("base_url is not set"));
    // The second factor stays, unless the operator says that it is lost as well.
    let totp = |sql: &str| {
        let asked = Command::new("sqlite3").arg(dir.path().join("ipse-data/ipse.db")).arg(sql).output();
        asked.expect("sqlite3 is needed: cargo xtask test installs it").stdout
    };
    totp("UPDATE accounts SET totp_secret = 'BASE32'");
    run(dir.path(), &["account", "reset", "me@example.com"]);
    assert_eq!(totp("SELECT totp_secret FROM accounts"), b"BASE32\n");
    run(dir.path(), &["account", "reset", "me@example.com", "--second-factor"]);
    assert_eq!(totp("SELECT totp_secret IS NULL FROM accounts"), b"1\n");
    let error = fail(dir.path(), &["account", "reset", "nobody@example.com"], 1);
    assert!(error.contains("there is no account nobody@example.com"), "{error}");
}

#[test]
fn accounts_are_created_listed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &["account", "create", "Me@Example.com"]);
    assert!(fail(dir.path(), &["account", "create", "me@example.com"], 1).contains("already"));
    create(dir.path(), &[]);
    let accounts: Value = serde_json::from_str(&run(dir.path(), &["account", "list", "--json"])).unwrap();
    assert_eq!((&accounts[0]["email"], &accounts[0]["keys"]), (&"me@example.com".into(), &1.into()));
    assert!(run(dir.path(), &["account", "list"]).starts_with("EMAIL"));
    run(dir.path(), &["account", "delete", "me@example.com"]);
    assert!(fail(dir.path(), &["account", "delete", "me@example.com"], 1).contains("no account"));
    assert_eq!(list(dir.path()).len(), 0);
}

#[test]
fn wrong_input_is_answered_with_what_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    assert!(fail(dir.path(), &["key", "list"], 1).contains("no data"));
    assert!(!dir.path().join("ipse-data").exists(), "looking makes no folder");
    create(dir.path(), &[]);
    for command in ["pause", "resume", "activate", "deactivate", "delete", "roll", "show"] {
        assert!(fail(dir.path(), &["key", command, "99"], 1).contains("there is no key 99"), "{command}");
    }
    for (arguments, words) in [
        (&["key", "create", "--account", "me"][..], "e-mail address"),
        (&["key", "create", "--account", "me@example.com", "--scope", "all"], "ip, geo or full"),
        (&["key", "create", "--account", "me@example.com", "--daily-limit", "0"], "0 is not in 1.."),
        (&["key", "create", "--account", "me@example.com", "--name", "a\nb"], "no control characters"),
        (&["key", "create"], "--account"),
        (&["key", "scope", "1", "all"], "ip, geo or full"),
        (&["key", "show", "one"], "invalid digit"),
        (&["frobnicate"], "unrecognized subcommand"),
        (&["serve", "--frobnicate"], "unexpected argument"),
    ] {
        let error = fail(dir.path(), arguments, 2);
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
}

#[test]
fn a_running_server_sees_changes_of_the_command_line_within_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("ipse-data");
    let server = Server::start(ipse(dir.path(), &["serve"]), &data).unwrap();
    let mut connection = Connection::open(server.address).unwrap();
    let mut late = 0;
    let mut expect = |key: &str, status: u16| {
        let seen = (0..500).position(|_| {
            // waits for: the server to read the change, which it promises within a second
            std::thread::sleep(Duration::from_millis(10));
            connection.get("/api/v1/ip", Some(key)).unwrap().status == status
        });
        late += u32::from(seen.expect("the change was never seen") >= 100);
    };
    let key = create(dir.path(), &[]).trim().to_owned();
    expect(&key, 200);
    for (command, status) in [("deactivate", 403), ("activate", 200), ("pause", 429), ("resume", 200)] {
        run(dir.path(), &["key", command, "1"]);
        expect(&key, status);
    }
    let rolled = run(dir.path(), &["key", "roll", "1", "--keep", "1h"]).trim().to_owned();
    expect(&rolled, 200);
    expect(&key, 200);
    let rolled_again = run(dir.path(), &["key", "roll", "1"]).trim().to_owned();
    expect(&rolled_again, 200);
    expect(&rolled, 401);
    expect(&key, 401);
    run(dir.path(), &["key", "delete", "1"]);
    expect(&rolled_again, 401);
    // A machine that is busy with other things may stall once.
    assert!(late <= 1, "{late} changes of eleven were seen later than after a second");
}

#[test]
fn what_was_used_today_is_shown_even_if_the_server_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let key = create(dir.path(), &[]).trim().to_owned();
    let server = Server::start(ipse(dir.path(), &["serve"]), &dir.path().join("ipse-data")).unwrap();
    let mut connection = Connection::open(server.address).unwrap();
    for _ in 0..5 {
        assert_eq!(connection.get("/api/v1/ip", Some(&key)).unwrap().status, 200);
    }
    assert_eq!(list(dir.path())[0]["used_today"], 5);
    server.kill().unwrap();
    assert_eq!(list(dir.path())[0]["used_today"], 5);
}
