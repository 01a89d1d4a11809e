//! Starting, stopping, and all that can be in the way.

use crate::commands::{fail, ipse, run};
use crate::operator::check_lines;
use ipse_testkit::{Connection, Server};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::Command;

fn start(folder: &std::path::Path) -> Server {
    Server::start(ipse(folder, &["serve"]), &folder.join("ipse-data")).unwrap()
}

#[test]
fn the_start_message_names_the_urls_and_the_next_command() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let address = server.address;
    let (code, output) = server.stop("TERM").unwrap();
    assert_eq!(code, Some(0));
    assert!(output.contains(&format!("http://{address}")), "{output}");
    assert!(output.contains(&format!("curl http://localhost:{}/api/v1/ip/demo", address.port())), "{output}");
    let next = output.lines().find(|line| line.contains("key create")).unwrap();
    let words: Vec<&str> = next.split_whitespace().skip(3).collect();
    // The command is complete: it can be typed as it stands.
    let made = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(made.status.success() && made.stdout.starts_with(b"ipse_"), "{next}");
    assert!(run(dir.path(), &["key", "list"]).contains("you@example.com"));
}

#[test]
fn both_signals_stop_the_server_and_everything_is_written() {
    for signal in ["TERM", "INT"] {
        let dir = tempfile::tempdir().unwrap();
        let key = run(dir.path(), &["key", "create", "--account", "me@example.com"]).trim().to_owned();
        let server = start(dir.path());
        let mut connection = Connection::open(server.address).unwrap();
        for _ in 0..7 {
            connection.get("/api/v1/ip", Some(&key)).unwrap();
        }
        assert_eq!(server.stop(signal).unwrap().0, Some(0));
        assert!(connection.is_closed());
        // Not in the journal only: the database has it.
        let query = "SELECT used, mark FROM usage WHERE subject = 1";
        let folded = Command::new("sqlite3").arg(dir.path().join("ipse-data/ipse.db")).arg(query).output();
        let folded = folded.expect("sqlite3 is needed: cargo xtask test installs it").stdout;
        assert_eq!(String::from_utf8_lossy(&folded).trim(), "7|7");
        let server = start(dir.path());
        let next = Connection::open(server.address).unwrap().get("/api/v1/ip", Some(&key)).unwrap();
        assert_eq!(next.number("x-ratelimit-remaining").unwrap(), 9_992);
    }
}

#[test]
fn requests_in_progress_are_answered_before_the_server_stops() {
    let dir = tempfile::tempdir().unwrap();
    let create =
        |i| run(dir.path(), &["key", "create", "--account", &format!("me{i}@example.com")]).trim().to_owned();
    let keys: Vec<String> = (0..8).map(create).collect();
    let server = start(dir.path());
    let address = server.address;
    let (warm, warmed) = std::sync::mpsc::channel();
    let callers: Vec<_> = keys
        .into_iter()
        .map(|key| {
            let warm = warm.clone();
            std::thread::spawn(move || {
                let mut connection = Connection::open(address).unwrap();
                let mut answers = 0;
                // A burst would pause the key.
                while answers < 290 {
                    match connection.get("/api/v1/ip", Some(&key)) {
                        Ok(response) => assert_eq!(response.status, 200),
                        Err(_) => break,
                    }
                    answers += 1;
                    if answers == 20 {
                        warm.send(()).unwrap();
                    }
                }
                answers
            })
        })
        .collect();
    for _ in &callers {
        warmed.recv().unwrap();
    }
    assert_eq!(server.stop("TERM").unwrap().0, Some(0));
    let answered: Vec<i64> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    let keys: serde_json::Value = serde_json::from_str(&run(dir.path(), &["key", "list", "--json"])).unwrap();
    let charged: Vec<i64> =
        keys.as_array().unwrap().iter().map(|key| key["used_today"].as_i64().unwrap()).collect();
    assert_eq!(charged, answered, "whatever was charged was answered");
}

#[test]
fn a_second_signal_ends_what_does_not_end_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = ipse(dir.path(), &["serve"]);
    command.args(["--drain-seconds", "3600"]);
    let mut server = Server::start(command, &dir.path().join("ipse-data")).unwrap();
    // A caller who asks for more than fits into any buffer, and reads nothing.
    let mut deaf = Connection::open(server.address).unwrap();
    let asked = std::thread::spawn(move || {
        for _ in 0..5_000 {
            if deaf.send(b"GET /docs HTTP/1.1\r\nhost: x\r\n\r\n").is_err() {
                break;
            }
        }
        deaf
    });
    let pid = server.process.id().to_string();
    let signal = || assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    let mut idle = Connection::open(server.address).unwrap();
    idle.get("/docs", None).unwrap();
    signal();
    // An idle connection is closed when it asks no more: then the server is stopping.
    assert!(idle.is_closed());
    assert!(server.process.try_wait().unwrap().is_none(), "it waits for the caller that does not read");
    signal();
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    drop(asked.join());
}

#[test]
fn a_port_in_use_is_one_clear_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let error = fail(dir.path(), &["serve", "--listen", &address], 1);
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains(&address) && error.contains("in use") && error.contains("--listen"), "{error}");
}

#[test]
fn two_servers_on_one_folder_are_one_too_many() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let error = fail(dir.path(), &["serve", "--listen", "127.0.0.1:0"], 1);
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.contains("in use by another ipse server") && error.contains(&server.process.id().to_string()),
        "{error}"
    );
    assert_eq!(Connection::open(server.address).unwrap().get("/api/v1/ip/demo", None).unwrap().status, 200);
}

#[test]
fn a_damaged_database_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &["account", "create", "me@example.com"]);
    let path = dir.path().join("ipse-data/ipse.db");
    let rubbish = "rubbish ".repeat(5000);
    fs::write(&path, &rubbish).unwrap();
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["key", "list"]] {
        let error = fail(dir.path(), command, 1);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains("ipse.db is damaged") && error.contains("backup"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), rubbish);
    }
}

#[test]
fn a_database_that_is_gone_is_not_taken_for_a_new_installation() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &["key", "create", "--account", "me@example.com"]);
    start(dir.path()).kill().unwrap();
    let data = dir.path().join("ipse-data");
    for name in ["ipse.db-wal", "ipse.db-shm"] {
        let _ = fs::remove_file(data.join(name));
    }
    for empty in [true, false] {
        if empty {
            fs::write(data.join("ipse.db"), "").unwrap();
        } else {
            fs::remove_file(data.join("ipse.db")).unwrap();
        }
        for command in
            [&["serve", "--listen", "127.0.0.1:0"][..], &["key", "list"], &["account", "create", "a@b.c"]]
        {
            let error = fail(dir.path(), command, 1);
            assert!(error.lines().count() == 1 && error.contains("ipse.db is damaged"), "{error}");
            assert!(error.contains("missing or empty"), "{error}");
        }
    }
}

#[test]
fn a_damaged_journal_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &["account", "create", "me@example.com"]);
    let path = dir.path().join("ipse-data/journal/0000000009.log");
    fs::write(&path, "rubbish ".repeat(50)).unwrap();
    let error = fail(dir.path(), &["serve", "--listen", "127.0.0.1:0"], 1);
    assert!(error.lines().count() == 1 && error.contains("0000000009.log is damaged"), "{error}");
    assert!(path.exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_one_clear_sentence() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let error = fail(dir.path(), &["serve", "--data-dir", "file/data"], 1);
    assert!(error.lines().count() == 1 && error.contains("file/data"), "{error}");
}

/// A file system of its own that is unmounted when this is dropped.
struct SmallDisk<'a>(&'a std::path::Path);

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a std::path::Path) -> Self {
        fs::create_dir_all(path).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(path).status().unwrap();
        assert!(mounted.success(), "mounting a small file system needs root");
        Self(path)
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        while file.write_all(&[0]).is_ok() {}
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_one_clear_sentence_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().join("ipse-data");
    let disk = SmallDisk::mount(&mount);
    let key = run(dir.path(), &["key", "create", "--account", "me@example.com"]).trim().to_owned();
    disk.fill();
    let error = fail(dir.path(), &["serve", "--listen", "127.0.0.1:0"], 1);
    assert!(error.lines().count() == 1 && error.contains("full"), "{error}");
    let error = fail(dir.path(), &["key", "create", "--account", "me@example.com"], 1);
    assert!(error.lines().count() == 1 && error.contains("full"), "{error}");
    fs::remove_file(mount.join("filler")).unwrap();
    let server = start(dir.path());
    assert_eq!(Connection::open(server.address).unwrap().get("/api/v1/ip", Some(&key)).unwrap().status, 200);
}

#[test]
fn a_disk_that_fills_up_is_a_500_and_passes() {
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().join("ipse-data");
    let disk = SmallDisk::mount(&mount);
    let key = run(dir.path(), &["key", "create", "--account", "me@example.com"]).trim().to_owned();
    let operator = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let command = ipse(dir.path(), &["serve", "--admin-listen", &operator.to_string()]);
    let server = Server::start(command, &mount).unwrap();
    let mut connection = Connection::open(server.address).unwrap();
    let mut get = || connection.get("/api/v1/ip", Some(&key)).unwrap();
    assert_eq!(get().number("x-ratelimit-remaining").unwrap(), 9_999);
    disk.fill();
    // The page that the journal stands on may still take some records.
    let mut answered = 1;
    let failed = loop {
        let response = get();
        if response.status != 200 {
            break response;
        }
        answered += 1;
        assert!(answered < 300, "the disk is not full");
    };
    crate::check_error(&failed, 500, "internal_error");
    for _ in 0..400 {
        crate::check_error(&get(), 500, "internal_error");
    }
    let metrics = Connection::open(operator).unwrap().get("/metrics", None).unwrap().body;
    let line = |outcome: &str, count: i64| {
        format!("ipse_requests_total{{route=\"ip\",outcome=\"{outcome}\",protocol=\"HTTP/1.1\"}} {count}")
    };
    check_lines(&metrics, &[&line("answered", answered), &line("error", 401)]);
    fs::remove_file(mount.join("filler")).unwrap();
    let again = (0..200).find_map(|_| {
        // waits for: the server's next turn, once a second, in which it begins a new segment
        std::thread::sleep(std::time::Duration::from_millis(25));
        Some(get()).filter(|response| response.status == 200)
    });
    let remaining = again.expect("the server recovers by itself").number("x-ratelimit-remaining").unwrap();
    assert_eq!(remaining, 10_000 - answered - 1, "what failed was not charged, and the key is not paused");
}
