//! Back-ups of a server that is answering, made and restored as the documentation says: keys work, and no part of a day
//! that was used before is served again.

use crate::commands::{ipse, run};
use ipse_testkit::{Connection, Flavour, Postgres, Redis, Server};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");
/// Less than a minute's burst, so that a key can be used up at once.
const LIMIT: u32 = 250;
/// How many of these are answered before the back-up begins.
const BEFORE: u32 = 60;
/// How many of them by the end, at most.
const IN_ALL: u32 = 150;
/// What may be withheld after it.
const WITHHELD: u32 = 64;

/// The lines of the documentation's section that begin with this word, with other places in them.
fn documented(word: &str, places: &[(&str, &str)]) -> String {
    let docs = fs::read_to_string(DOCS).unwrap();
    let section = docs.split("## Back up and restore").nth(1).unwrap().split("\n## ").next().unwrap();
    let block = section.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    let block = block.filter(|block| block.starts_with(word)).collect::<String>();
    assert!(!block.is_empty(), "the documentation says nothing of {word}");
    places.iter().fold(block, |block, (documented, here)| {
        assert!(block.contains(documented), "{documented} is not in {block}");
        block.replace(documented, here)
    })
}

#[track_caller]
fn shell(lines: &str) {
    let output = Command::new("sh").args(["-e", "-c", lines]).output().unwrap();
    assert!(output.status.success(), "{lines}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Uses a key while `back_up` is done, and returns how often it was answered in all.
fn used_during(server: &Server, key: &str, back_up: impl FnOnce()) -> u32 {
    let answered = AtomicU32::new(0);
    let ask = |most: u32| {
        let mut connection = Connection::open(server.address).unwrap();
        while answered.load(Ordering::Relaxed) < most {
            assert_eq!(connection.get("/api/v1/ip", Some(key)).unwrap().status, 200);
            answered.fetch_add(1, Ordering::Relaxed);
        }
    };
    ask(BEFORE);
    thread::scope(|scope| {
        let asking = scope.spawn(|| ask(IN_ALL));
        back_up();
        asking.join().unwrap();
    });
    answered.into_inner()
}

/// Uses a key up, and returns how often it was answered.
fn used_up(server: &Server, key: &str) -> u32 {
    let mut connection = Connection::open(server.address).unwrap();
    for answered in 0..=LIMIT {
        let answer = connection.get("/api/v1/ip", Some(key)).unwrap();
        match answer.status {
            200 => {}
            429 => {
                assert!(answer.body.contains("enterprise"), "no day's quota, but: {}", answer.body);
                return answered;
            }
            other => panic!("{other}: {}", answer.body),
        }
    }
    panic!("the key has no end");
}

/// What a server that was restored from the middle of a day may answer.
#[track_caller]
fn check(answered: u32, during: u32) {
    assert!(BEFORE + answered <= LIMIT, "{answered} beside the {BEFORE} before the back-up are too many");
    assert!(during + answered + WITHHELD >= LIMIT, "{answered} after {during} are too few");
}

/// The program on what it takes for another machine: the kernel there has another name for its start.
fn elsewhere(folder: &Path) -> Command {
    let boot = folder.join("boot");
    fs::write(&boot, "0f4c1ab2-3d5e-4f60-8192-a3b4c5d6e7f8\n").unwrap();
    let mut command = Command::new("unshare");
    let enter = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    command.args(["--mount", "sh", "-c", enter]).arg(boot).arg(env!("CARGO_BIN_EXE_ipse"));
    command.args(["serve", "--admin-listen", "none"]).current_dir(folder);
    command
}

#[test]
fn a_data_folder_is_copied_under_load_and_served_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("ipse-data"), dir.path().join("copy"));
    let server = Server::start(ipse(dir.path(), &["serve"]), &data).unwrap();
    let limit = LIMIT.to_string();
    let create = ["key", "create", "--account", "you@example.com", "--daily-limit", &limit];
    let key = run(dir.path(), &create).trim().to_owned();
    let [data_path, copy_path] = [&data, &copy].map(|path| path.to_str().unwrap());
    let lines = documented("mkdir", &[("/var/lib/ipse", data_path), ("/srv/backup/ipse", copy_path)]);
    let during = used_during(&server, &key, || shell(&lines));
    server.kill().unwrap();

    let spent = dir.path().join("spent");
    shell(&format!("cp -a {copy_path} {}", spent.display()));
    let restored = Server::start(elsewhere(dir.path()), &copy).unwrap();
    check(used_up(&restored, &key), during);
    drop(restored);

    // Who wants to be sure lets the day end.
    let command = documented("ipse store", &[("ipse store", "store")]);
    let words: Vec<&str> = command.split_whitespace().collect();
    run(dir.path(), &[&words[..], &["--data-dir", spent.to_str().unwrap()]].concat());
    let careful = Server::start(elsewhere(dir.path()), &spent).unwrap();
    assert_eq!(used_up(&careful, &key), 0);
}

#[test]
fn a_database_of_nodes_is_dumped_under_load_and_served_with_an_empty_engine() {
    let dir = tempfile::tempdir().unwrap();
    let postgres = Postgres::shared().unwrap();
    let [database, restored, careful] = [(); 3].map(|()| postgres.database().unwrap());
    let command = |database: &str, arguments: &[&str]| {
        let mut command = ipse(dir.path(), arguments);
        command.env("IPSE_DATABASE", database);
        command
    };
    let succeed = |database: &str, arguments: &[&str]| {
        let output = command(database, arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let node = |database: &str, engine: &Redis, folder: &str| {
        let mut command = command(database, &["serve", "--counters", &engine.url()]);
        // As patient as a busy machine takes it to be.
        command.args(["--outage-after-ms", "20000"]);
        Server::start(command, &dir.path().join(folder)).unwrap()
    };
    let engine = Redis::start(Flavour::Valkey).unwrap();
    let server = node(&database, &engine, "one");
    let limit = LIMIT.to_string();
    let create = ["key", "create", "--account", "you@example.com", "--daily-limit", &limit];
    let key = succeed(&database, &create);
    let file = dir.path().join("dump");
    let (documented_file, file) = ("/srv/backup/ipse.dump", file.to_str().unwrap());
    let quoted = |url: &str| format!("'{url}'");
    let at = "postgres://ipse@db.example.com/ipse";
    let dump = documented("pg_dump", &[(at, &quoted(&database)), (documented_file, file)]);
    let during = used_during(&server, &key, || shell(&dump));
    server.kill().unwrap();

    for empty in [&restored, &careful] {
        let at = "postgres://ipse@db.example.com/restored";
        shell(&documented("pg_restore", &[(at, &quoted(empty)), (documented_file, file)]));
    }
    let engine = Redis::start(Flavour::Valkey).unwrap();
    let server = node(&restored, &engine, "two");
    let answered = used_up(&server, &key);
    check(answered, during);
    drop(server);

    succeed(&careful, &["store", "spend-day", "--data-dir", "nowhere"]);
    let engine = Redis::start(Flavour::Valkey).unwrap();
    let server = node(&careful, &engine, "three");
    assert_eq!(used_up(&server, &key), 0);
}
