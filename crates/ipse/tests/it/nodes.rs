//! Several nodes of the program on one PostgreSQL and one Redis: they count as one, and any of them may die.

use crate::commands::ipse;
use crate::keys::soon;
use crate::proxies::free_port;
use ipse_testkit::{Connection, Flavour, Postgres, Redis, Response, Server, Visitor};
use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;

/// One installation, with a folder for each of its nodes.
struct House {
    dir: TempDir,
    database: String,
    engine: Redis,
    /// More settings, as variables.
    settings: Vec<(&'static str, &'static str)>,
}

impl House {
    fn with(settings: &[(&'static str, &'static str)]) -> Self {
        let database = Postgres::shared().unwrap().database().unwrap();
        let engine = Redis::start(Flavour::Redis).unwrap();
        Self { dir: tempfile::tempdir().unwrap(), database, engine, settings: settings.to_vec() }
    }

    /// A house whose nodes are as patient as a busy machine takes them to be.
    fn patient() -> Self {
        Self::with(&[("IPSE_OUTAGE_AFTER_MS", "20000")])
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = ipse(self.dir.path(), arguments);
        command.env("IPSE_DATABASE", &self.database).env("IPSE_COUNTERS", self.engine.url());
        command.envs(self.settings.iter().copied());
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let mut command = self.command(arguments);
        // Other commands need no engine, and know no setting of it.
        command.env_remove("IPSE_COUNTERS").env_remove("IPSE_OUTAGE_AFTER_MS").env_remove("IPSE_OUTAGE");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn key(&self, more: &[&str]) -> String {
        let arguments = [&["key", "create", "--account", "you@example.com"], more].concat();
        self.run(&arguments).trim().to_owned()
    }

    fn node(&self, name: &str) -> Server {
        Server::start(self.command(&["serve", "--node-name", name]), &self.dir.path().join(name)).unwrap()
    }
}

fn ask(node: &Server, key: &str) -> Response {
    Connection::open(node.address).unwrap().get("/api/v1/ip", Some(key)).unwrap()
}

fn remaining(node: &Server, key: &str) -> i64 {
    let answer = ask(node, key);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.number("x-ratelimit-remaining").unwrap()
}

#[test]
fn nodes_share_quotas_and_see_changes_of_keys_within_a_second() {
    let house = House::patient();
    let nodes = ["one", "two", "three"].map(|name| house.node(name));
    let key = house.key(&["--daily-limit", "30"]);
    for left in (0..30).rev() {
        let node = &nodes[usize::try_from(left).unwrap() % 3];
        assert_eq!(remaining(node, &key), left);
    }
    for node in &nodes {
        let refused = ask(node, &key);
        assert_eq!((refused.status, refused.number("x-ratelimit-remaining").unwrap()), (429, 0));
        assert!(refused.body.contains("enterprise"), "{}", refused.body);
    }
    // The demo is one for all.
    let demo = |node: &Server| {
        let answer = Connection::open(node.address).unwrap().get("/api/v1/ip/demo", None).unwrap();
        answer.number("x-ratelimit-remaining").unwrap()
    };
    assert_eq!([demo(&nodes[0]), demo(&nodes[1]), demo(&nodes[2])], [999, 998, 997]);
    for (action, expected) in [("deactivate", 403), ("activate", 429)] {
        house.run(&["key", action, "1"]);
        for node in &nodes {
            soon(action, || ask(node, &key).status, |status| *status == expected);
        }
    }
    // What each node saw is written down about once a second.
    let used = || serde_json::from_str::<Vec<Value>>(&house.run(&["key", "list", "--json"])).unwrap();
    soon("the count is folded", used, |listed| listed[0]["used_today"] == 30);
}

#[test]
fn a_burst_over_several_nodes_pauses_the_key_on_all_of_them_and_its_owner_resumes_it() {
    let house = House::patient();
    let nodes = ["one", "two"].map(|name| house.node(name));
    let mut owner = Visitor::new(nodes[0].address);
    let fields = [("email", "you@example.com"), ("password", "correct horse battery")];
    assert_eq!(owner.submit("/signup", "/signup", &fields).unwrap().status, 303);
    let key = house.key(&[]);
    let mut connections = nodes.each_ref().map(|node| Connection::open(node.address).unwrap());
    for number in 0..300 {
        let answer = connections[number % 2].get("/api/v1/ip", Some(&key)).unwrap();
        assert_eq!(answer.status, 200, "{number}: {}", answer.body);
    }
    let burst = connections[0].get("/api/v1/ip", Some(&key)).unwrap();
    assert_eq!((burst.status, burst.number("x-ratelimit-limit").unwrap()), (429, 300), "{}", burst.body);
    let paused = connections[1].get("/api/v1/ip", Some(&key)).unwrap();
    assert!(paused.status == 429 && paused.body.contains("paused"), "{}", paused.body);
    let page = owner.get("/dashboard/keys/1").unwrap();
    assert!(page.body.contains("Resume"), "{}", page.body);
    let resumed = owner.submit("/dashboard/keys/1", "/dashboard/keys/1/resume", &[]).unwrap();
    assert_eq!(resumed.status, 303, "{}", resumed.body);
    for node in &nodes {
        soon("resumed", || ask(node, &key).status, |status| *status == 200);
    }
}

#[test]
fn without_its_engine_a_node_says_so_and_nobody_is_refused_or_paused_for_it() {
    let mut house = House::with(&[]);
    let node = house.node("one");
    let key = house.key(&[]);
    soon("the first answer", || ask(&node, &key).status, |status| *status == 200);
    for is_killed in [true, false] {
        if is_killed {
            house.engine.kill();
        } else {
            house.engine.freeze(true).unwrap();
        }
        for _ in 0..20 {
            let answer = ask(&node, &key);
            assert_eq!(answer.status, 500, "{}", answer.body);
            assert!(answer.body.contains("internal_error"), "{}", answer.body);
        }
        if is_killed {
            house.engine.run().unwrap();
        } else {
            house.engine.freeze(false).unwrap();
        }
        soon("it is back", || ask(&node, &key).status, |status| *status == 200);
    }
    let listed: Vec<Value> = serde_json::from_str(&house.run(&["key", "list", "--json"])).unwrap();
    assert_eq!(listed[0]["state"], "active", "{listed:?}");
}

#[test]
fn a_node_whose_database_could_only_be_read_says_so_and_goes_on_by_itself() {
    let house = House::patient();
    let admin = format!("127.0.0.1:{}", free_port());
    let serve = house.command(&["serve", "--admin-listen", &admin]);
    let node = Server::start(serve, &house.dir.path().join("one")).unwrap();
    let keys = [house.key(&[]), house.key(&[])];
    soon("the key is known", || ask(&node, &keys[0]).status, |status| *status == 200);
    let name = house.database.rsplit('/').next().unwrap();
    let postgres = Postgres::shared().unwrap();
    let set = |is_read_only: &str| {
        let sql = format!("ALTER DATABASE {name} SET default_transaction_read_only = {is_read_only}");
        postgres.ask("postgres", &sql).unwrap();
    };
    set("on");
    let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    postgres.ask("postgres", &end).unwrap();
    // Its day has no range yet. The other one has.
    soon("there is none to be had", || ask(&node, &keys[1]).status, |status| *status == 500);
    assert_eq!(ask(&node, &keys[0]).status, 200);
    let ready = || Connection::open(admin.parse().unwrap()).unwrap().get("/readyz", None).unwrap();
    let is_told = |told: &Response| {
        told.body.contains(
            "degraded: Lookups that need a new range of their day are answered with 500: the database ",
        ) && told.body.contains("can only be read")
    };
    let told = soon("it says why", ready, is_told);
    assert_eq!(told.status, 200, "{}", told.body);
    // Connections that are open stay as they were made.
    set("off");
    soon("it goes on", || ask(&node, &keys[1]).status, |status| *status == 200);
    soon("nothing is missing", ready, |told| told.body == "ready\n");
}

#[test]
fn nodes_that_lease_go_on_without_the_engine_and_serve_no_number_twice() {
    let mut house = House::with(&[("IPSE_OUTAGE", "lease"), ("IPSE_OUTAGE_AFTER_MS", "20000")]);
    let nodes = ["one", "two"].map(|name| house.node(name));
    let key = house.key(&["--daily-limit", "500"]);
    let mut seen = vec![remaining(&nodes[0], &key), remaining(&nodes[1], &key)];
    house.engine.kill();
    for number in 0..60 {
        // The first of them may have been on its way when the engine died.
        let node = &nodes[number % 2];
        let answer = soon("leased", || ask(node, &key), |answer| answer.status == 200);
        seen.push(answer.number("x-ratelimit-remaining").unwrap());
    }
    house.engine.run().unwrap();
    soon(
        "the engine counts again",
        || house.engine.say(&["DBSIZE"]).unwrap(),
        |size| {
            let _ = ask(&nodes[0], &key);
            size != ":0\r\n"
        },
    );
    for node in &nodes {
        seen.push(remaining(node, &key));
    }
    let mut distinct = seen.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), seen.len(), "{seen:?}");
}

#[test]
fn a_node_that_counted_alone_takes_its_counts_along() {
    let house = House::patient();
    let key = house.key(&["--daily-limit", "200"]);
    let mut alone = house.command(&["serve"]);
    alone.env_remove("IPSE_COUNTERS").env_remove("IPSE_OUTAGE_AFTER_MS");
    let node = Server::start(alone, &house.dir.path().join("one")).unwrap();
    assert_eq!([remaining(&node, &key), remaining(&node, &key)], [199, 198]);
    // While it counts alone, nobody counts beside it.
    let told = house.command(&["serve", "--listen", "127.0.0.1:0", "--data-dir", "two"]).output().unwrap();
    let told = String::from_utf8(told.stderr).unwrap();
    assert!(told.contains("another server counts requests"), "{told}");
    node.kill().unwrap();
    let node = house.node("one");
    let left = remaining(&node, &key);
    assert!((198 - 64 - 1..198).contains(&left), "{left}");
}
