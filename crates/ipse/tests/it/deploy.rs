//! The Debian package and its units as they are shipped, on a machine with a systemd of its own that is thrown away
//! afterwards.

use crate::keys::soon;
use anyhow::{Context, Result, ensure};
use ipse_testkit::{Connection, Machine};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Where the socket of the package listens.
const HTTP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 80);
/// How much `systemd-analyze security` may find, in tenths: the network, local sockets and the clock of its work that waits.
const EXPOSURE: &str = "--threshold=13";
/// What lintian says of packages that are not packed because they are only tried, and of those that are no answer to a
/// request of Debian's.
const NOT_OURS: &str = "initial-upload-closes-no-bugs,uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball";
/// A key may ask so often in a minute.
const BURST: u32 = 300;

/// Packs the program that is tested, as `cargo xtask deb` packs the one that is released.
fn pack(revision: u32, folder: &Path) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["run", "--quiet", "--locked", "--package", "xtask", "--", "deb"]);
    command.args(["--fast", "--revision", &revision.to_string(), "--program", env!("CARGO_BIN_EXE_ipse")]);
    let output = command.arg("--to").arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// Two packages, of which the second replaces the first. All tests share them.
fn packages() -> &'static [PathBuf; 2] {
    static PACKAGES: OnceLock<[PathBuf; 2]> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("deb");
        let _ = fs::remove_dir_all(&folder);
        [1, 2].map(|revision| pack(revision, &folder))
    })
}

/// A machine on which both packages lie, as `/tmp/1.deb` and `/tmp/2.deb`.
fn machine() -> Machine {
    let packages = packages();
    let machine = Machine::boot().unwrap();
    for (number, package) in (1..).zip(packages) {
        fs::copy(package, machine.path(&format!("/tmp/{number}.deb"))).unwrap();
    }
    machine
}

#[track_caller]
fn run(machine: &Machine, words: &[&str]) -> String {
    machine.run(words).unwrap_or_else(|error| {
        let log = machine.run(&["journalctl", "-u", "ipse*", "-o", "cat", "-n", "30"]);
        panic!("{error:#}\n{}", log.unwrap_or_default())
    })
}

/// One property of the service, as systemd tells it.
#[track_caller]
fn service(machine: &Machine, property: &str) -> String {
    run(machine, &["systemctl", "show", "--value", "-p", property, "ipse.service"])
}

/// Makes a key as an operator does.
#[track_caller]
fn create_key(machine: &Machine) -> String {
    let ipse = ["runuser", "-u", "ipse", "--", "ipse", "key", "create", "--account", "you@example.com"];
    run(machine, &[&ipse[..], &["--config", "/etc/ipse/ipse.toml"]].concat())
}

/// How much is left of a key's day after one more request.
fn remaining(machine: &Machine, key: &str) -> i64 {
    let ask = || Connection::open(HTTP)?.get("/api/v1/ip", Some(key))?.number("x-ratelimit-remaining");
    machine.with_network(ask).unwrap()
}

fn is_open(machine: &Machine) -> bool {
    machine.with_network(|| Ok(Connection::open(HTTP).is_ok())).unwrap()
}

#[test]
fn the_package_is_the_same_each_time_and_debians_own_checks_find_nothing() {
    let [first, _] = packages();
    let again = tempfile::tempdir().unwrap();
    let same = pack(1, again.path());
    assert!(fs::read(first).unwrap() == fs::read(same).unwrap(), "equal sources, and another package");
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--suppress-tags", NOT_OURS]);
    let output = lintian.arg(first).output().unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{}{}", said[0], said[1]);
}

#[test]
fn the_package_is_installed_upgraded_under_load_removed_and_purged() {
    let machine = machine();
    run(&machine, &["dpkg", "-i", "/tmp/1.deb"]);
    assert_eq!(service(&machine, "ActiveState"), "active");
    for unit in ["ipse.service", "ipse-http.socket"] {
        assert_eq!(run(&machine, &["systemctl", "is-enabled", unit]), "enabled");
    }
    let key = create_key(&machine);
    assert_eq!(remaining(&machine, &key), 9999);

    let before = service(&machine, "MainPID");
    let stop = AtomicBool::new(false);
    let keyed = machine
        .with_network(|| {
            thread::scope(|scope| {
                let keyed = scope.spawn(|| kept(&stop, Some(&key)));
                let others = [scope.spawn(|| kept(&stop, None)), scope.spawn(|| fresh(&stop))];
                let upgraded = machine.run(&["dpkg", "-i", "/tmp/2.deb"]);
                stop.store(true, Ordering::Relaxed);
                upgraded?;
                for caller in others {
                    caller.join().ok().context("a caller fell")??;
                }
                keyed.join().ok().context("the caller with the key fell")?
            })
        })
        .unwrap();
    assert_ne!(service(&machine, "MainPID"), before, "nothing was restarted");
    assert_eq!(service(&machine, "ActiveState"), "active");
    // Each request before, during and after the upgrade was counted once.
    assert_eq!(remaining(&machine, &key), 9998 - i64::from(keyed), "{keyed} were asked");

    run(&machine, &["dpkg", "-r", "ipse"]);
    assert!(!is_open(&machine), "somebody still listens");
    assert!(machine.path("/var/lib/ipse/ipse.db").exists() && machine.path("/etc/ipse/ipse.toml").exists());
    run(&machine, &["dpkg", "-i", "/tmp/2.deb"]);
    assert_eq!(remaining(&machine, &key), 9997 - i64::from(keyed), "removing lost something");

    run(&machine, &["dpkg", "--purge", "ipse"]);
    assert!(!is_open(&machine), "somebody still listens");
    for gone in ["/var/lib/ipse", "/etc/ipse", "/usr/bin/ipse"] {
        assert!(!machine.path(gone).exists(), "{gone} is left");
    }
    let left =
        run(&machine, &["find", "/etc/systemd", "/usr/lib/systemd", "/var/lib/systemd", "-name", "ipse*"]);
    assert_eq!(left, "");
}

/// Asks on one connection until it is told that it ends, then on the next, and returns how often a key was used. Every
/// request must be answered.
fn kept(stop: &AtomicBool, key: Option<&str>) -> Result<u32> {
    let mut connection = Connection::open(HTTP)?;
    let (mut asked, mut keyed) = (0_u32, 0);
    while !stop.load(Ordering::Relaxed) {
        // A key would be paused if it asked each time.
        let key = key.filter(|_| asked % 40 == 0 && keyed < BURST - 10);
        let path = if key.is_some() { "/api/v1/ip" } else { "/api/v1/meta" };
        let answer = connection.get(path, key).with_context(|| format!("request {asked}"))?;
        ensure!(answer.status == 200, "request {asked}: {}", answer.body);
        asked += 1;
        keyed += u32::from(key.is_some());
        if answer.header("connection") == Some("close") {
            connection = Connection::open(HTTP)?;
        }
    }
    ensure!(asked > 100, "{asked} are no load");
    Ok(keyed)
}

/// The same with a connection for each request.
fn fresh(stop: &AtomicBool) -> Result<u32> {
    let mut asked = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        let answer =
            Connection::open(HTTP)?.get("/api/v1/meta", None).with_context(|| format!("request {asked}"))?;
        ensure!(answer.status == 200, "request {asked}: {}", answer.body);
        asked += 1;
    }
    ensure!(asked > 100, "{asked} are no load");
    Ok(0)
}

#[test]
fn the_service_may_do_little_and_everything_it_does_works_within_that() {
    let machine = machine();
    run(&machine, &["dpkg", "-i", "/tmp/1.deb"]);
    let units = ["ipse.service", "ipse-http.socket", "ipse-https.socket"]
        .map(|unit| format!("/usr/lib/systemd/system/{unit}"));
    let files = units.each_ref().map(String::as_str);
    assert_eq!(run(&machine, &[&["systemd-analyze", "verify"], &files[..]].concat()), "");
    run(&machine, &["systemd-analyze", "security", "--offline=true", EXPOSURE, files[0]]);

    // What the service's user could write if it were told to, with the service's view of the machine.
    let process = service(&machine, "MainPID");
    let look = "for place in $(cut -d ' ' -f 2 /proc/self/mounts | sort -u); do \
                find $place -xdev -type d -writable 2>/dev/null; done | grep -v ^/proc | sort -u";
    let as_service = ["setpriv", "--reuid", "ipse", "--regid", "ipse", "--init-groups", "sh", "-c", look];
    let writable = run(&machine, &[&["nsenter", "-t", &process, "-m"], &as_service[..]].concat());
    assert_eq!(writable, "/var/lib/ipse\n/var/lib/ipse/journal");
    let status = run(&machine, &["cat", &format!("/proc/{process}/status")]);
    for line in ["CapBnd:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    // Nobody else looks at settings, secrets and data.
    for folder in ["/etc/ipse", "/var/lib/ipse"] {
        let looked = machine.command("runuser").args(["-u", "nobody", "--", "ls", folder]).output().unwrap();
        assert!(!looked.status.success(), "anybody may look into {folder}");
    }

    // Settings that an operator adds: HTTPS with its socket, and a secret that root alone can read.
    let settings = "tls_listen = [\"systemd:https\"]\ntls_self_signed = true\n[mail]\nserver = \"localhost:25\"\n\
                    from = \"ipse@example.com\"\nuser = \"ipse\"\n\
                    password_file = \"/run/credentials/ipse.service/mail\"\n";
    let file = machine.path("/etc/ipse/ipse.toml");
    let all = fs::read_to_string(&file).unwrap() + settings;
    fs::write(file, all).unwrap();
    fs::write(machine.path("/srv/mail"), "secret").unwrap();
    let drop_in = "/etc/systemd/system/ipse.service.d";
    fs::create_dir_all(machine.path(drop_in)).unwrap();
    fs::write(machine.path(&format!("{drop_in}/mail.conf")), "[Service]\nLoadCredential=mail:/srv/mail\n")
        .unwrap();
    run(&machine, &["chmod", "600", "/srv/mail"]);
    run(&machine, &["systemctl", "enable", "--quiet", "ipse-https.socket"]);
    run(&machine, &["systemctl", "restart", "ipse.service"]);
    let asked = run(&machine, &["curl", "-sSk", "https://localhost/api/v1/ip/demo"]);
    assert!(asked.contains(r#""http_protocol":"HTTP/2""#), "{asked}");

    let key = create_key(&machine);
    assert_eq!(remaining(&machine, &key), 9999);
    let data = run(&machine, &["curl", "-sS", "http://localhost/api/v1/meta"]);
    assert!(data.contains("DB-IP"), "{data}");
    run(&machine, &["systemctl", "reload", "ipse.service"]);
    let log = || run(&machine, &["journalctl", "-u", "ipse.service", "-o", "cat"]);
    let told = soon("a reload", log, |log| log.contains("reading the geo data again"));
    assert!(!told.contains("ERROR"), "{told}");

    // Whoever calls while a killed one is replaced is answered by the next.
    run(&machine, &["systemctl", "kill", "--signal=KILL", "ipse.service"]);
    assert_eq!(remaining(&machine, &key), 9998);
    run(&machine, &["systemctl", "stop", "ipse*"]);
    assert!(!is_open(&machine), "somebody still listens");
    assert!(log().ends_with("stopped; everything is written"), "{}", log());
}
