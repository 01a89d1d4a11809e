//! The container's image, built and run by a real builder of images; and the set-up of two nodes, with the settings and
//! the proxy of the compose file, as processes of this machine.

use crate::commands::ipse;
use crate::proxies::free_port;
use crate::tls::{certificate, output};
use ipnet::IpNet;
use ipse_testkit::{Connection, Flavour, Postgres, Redis, Server};
use serde_json::Value;
use std::fs;
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/container").join(file)
}

/// An image made of the last stage of our own file, and a container of it.
struct Image {
    dir: TempDir,
}

impl Image {
    /// Builds it. In the place of the stage that builds the program stands the one that is tested, with the libraries that
    /// it needs because it is not built for images.
    fn build() -> Self {
        let image = Self { dir: tempfile::tempdir().unwrap() };
        let context = image.dir.path().join("context");
        let (files, state) = (context.join("image"), context.join("state/data"));
        fs::create_dir_all(&files).unwrap();
        fs::create_dir_all(&state).unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
        let tested = env!("CARGO_BIN_EXE_ipse");
        output(Command::new("strip").arg("-o").arg(files.join("ipse")).arg(tested));
        for library in
            output(Command::new("ldd").arg(tested)).split_whitespace().filter(|word| word.starts_with('/'))
        {
            output(
                Command::new("install").args(["-D", library]).arg(format!("{}{library}", files.display())),
            );
        }
        let ours = fs::read_to_string(deploy("Containerfile")).unwrap();
        let last = &ours[ours.rfind("\nFROM ").unwrap()..];
        let text = format!("FROM scratch AS build\nCOPY image /image\nCOPY state /state\n{last}");
        let file = image.dir.path().join("Containerfile");
        fs::write(&file, text).unwrap();
        let mut build = image.buildah("bud");
        // What it prints tells each step; only the end matters.
        build
            .args(["--isolation", "chroot", "--format", "docker", "--tag", "ipse", "--file"])
            .arg(file)
            .arg(context);
        output(&mut build);
        output(image.buildah("from").args(["--name", "it", "ipse"]));
        image
    }

    /// The builder, with images of its own.
    fn buildah(&self, command: &str) -> Command {
        let mut buildah = Command::new("buildah");
        buildah.args(["--storage-driver", "vfs", "--root"]).arg(self.dir.path().join("images"));
        buildah.arg("--runroot").arg(self.dir.path().join("run")).arg(command);
        buildah
    }

    /// A command in the container, as its user. It ends with its first process.
    fn run(&self, words: &[&str]) -> Command {
        let run = self.buildah("run");
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.arg(run.get_program()).args(run.get_args());
        command.args(["--isolation", "chroot", "it", "--"]).args(words);
        command
    }
}

#[test]
fn the_image_holds_one_program_that_serves_as_nobody_and_tells_its_health() {
    let image = Image::build();
    let told = output(image.buildah("inspect").args(["--type", "image", "ipse"]));
    let told: Value = serde_json::from_str(&told).unwrap();
    let config = &told["Docker"]["config"];
    assert_eq!(config["User"], "65532:65532", "{config}");
    assert_eq!((&config["Entrypoint"][0], &config["Cmd"][0]), (&"/ipse".into(), &"serve".into()), "{config}");
    assert_eq!(config["Healthcheck"]["Test"], serde_json::json!(["CMD", "/ipse", "health"]), "{config}");
    assert!(!image.run(&["/bin/sh", "-c", "true"]).output().unwrap().status.success(), "there is a shell");

    let admin = format!("localhost:{}", free_port());
    let health = || image.run(&["/ipse", "health", "--admin-listen", &admin]).output().unwrap();
    let nobody = health();
    assert!(!nobody.status.success());
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("no server answers"), "{nobody:?}");
    let serve = ["/ipse", "serve", "--log-format", "text", "--admin-listen", &admin];
    let server = Server::start(image.run(&serve), Path::new("/data")).unwrap();
    let answer = Connection::open(server.address).unwrap().get("/api/v1/ip/demo", None).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    let ready = health();
    assert!(ready.status.success() && ready.stdout.starts_with(b"ready"), "{ready:?}");
}

/// A proxy that ends with this value.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The compose file, as its readers see it.
fn compose() -> Value {
    output(Command::new("docker-compose").arg("-f").arg(deploy("compose.yaml")).args(["config", "--quiet"]));
    let script = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let python =
        std::env::var_os("XTASK_PYTHON").expect("XTASK_PYTHON is set: run the tests with cargo xtask test");
    let json = output(Command::new(python).args(["-c", script]).arg(deploy("compose.yaml")));
    serde_json::from_str(&json).unwrap()
}

#[test]
fn the_address_that_nodes_believe_is_the_proxys_alone() {
    let compose = compose();
    let proxy = compose["services"]["proxy"]["networks"]["inside"]["ipv4_address"].as_str().unwrap();
    for node in ["node-1", "node-2"] {
        let trusted = &compose["services"][node]["environment"]["IPSE_TRUSTED_PROXY"];
        assert_eq!(trusted.as_str().unwrap(), format!("{proxy}/32"));
    }
    let network = &compose["networks"]["inside"]["ipam"]["config"][0];
    let read = |name: &str| network[name].as_str().unwrap().parse::<IpNet>().unwrap();
    let proxy: IpAddr = proxy.parse().unwrap();
    let (all, given_out) = (read("subnet"), read("ip_range"));
    assert!(all.contains(&proxy) && all.contains(&given_out), "{network}");
    assert!(!given_out.contains(&proxy), "somebody who starts before the proxy could get its address");
    let user = compose["services"]["counters"]["user"].as_str();
    assert!(user.is_some_and(|user| user != "root"), "a shell starts it, so the image leaves root to us");
}

#[test]
fn two_nodes_behind_the_proxy_of_the_compose_file_count_as_one() {
    let compose = compose();
    let dir = tempfile::tempdir().unwrap();
    let postgres = Postgres::shared().unwrap();
    let database = postgres.database().unwrap();
    let name = database.rsplit('/').next().unwrap();
    let database = format!("postgres://ipse@127.0.0.1:{}/{name}", postgres.port());
    let engine = Redis::start_with(Flavour::Valkey, &["--requirepass", "a secret"]).unwrap();
    for (secret, text) in
        [("database-password", "a pass/word: of @tests?"), ("counters-password", "a secret")]
    {
        fs::write(dir.path().join(secret), format!("{text}\n")).unwrap();
    }
    let (pem, key) = certificate(dir.path(), "it", &["ip.example.com"]);
    let secrets = format!("{}/", dir.path().display());
    let places = [
        ("postgres://ipse@database/ipse", database.as_str()),
        ("redis://counters", &engine.url()),
        ("/run/secrets/", &secrets),
        ("172.31.64.2/32", "127.0.0.1/32"),
    ];
    let settings = |node: &str| -> Vec<(String, String)> {
        let of_all = compose["services"][node]["environment"].as_object().unwrap();
        let here = |value: &Value| {
            places
                .iter()
                .fold(value.as_str().unwrap().to_owned(), |value, (there, here)| value.replace(there, here))
        };
        // Tests choose their own ports.
        of_all
            .iter()
            .filter(|(name, _)| *name != "IPSE_LISTEN")
            .map(|(name, value)| (name.clone(), here(value)))
            .collect()
    };
    let start = |node: &str, colo: &str| {
        let mut command = ipse(dir.path(), &["serve", "--colo", colo]);
        // As patient as a busy machine takes it to be.
        command.envs(settings(node)).env("IPSE_OUTAGE_AFTER_MS", "20000");
        Server::start(command, &dir.path().join(node)).unwrap()
    };
    let (first, second) = (start("node-1", "AMS"), start("node-2", "FRA"));
    let mut create = ipse(dir.path(), &["key", "create", "--account", "you@example.com", "--scope", "full"]);
    create.args([
        "--daily-limit",
        "30",
        "--database",
        &database,
        "--database-password-file",
        "database-password",
    ]);
    let api_key = output(&mut create).trim().to_owned();

    let port = free_port();
    let mut text = fs::read_to_string(deploy("nginx.conf")).unwrap();
    for (there, here) in [
        // Nodes of this machine have no names; and the nginx of Debian 12 is too old to look for names again.
        ("node-1:8080 resolve", first.address.to_string().as_str()),
        ("node-2:8080 resolve", &second.address.to_string()),
        ("/run/secrets/certificate-key", key.to_str().unwrap()),
        ("/run/secrets/certificate", pem.to_str().unwrap()),
        ("listen 443", &format!("listen {port}")),
        ("[::]:443", &format!("[::]:{port}")),
    ] {
        assert!(text.contains(there), "{there} is not in {text}");
        text = text.replace(there, here);
    }
    let file = dir.path().join("nginx.conf");
    fs::write(&file, text).unwrap();
    let mut nginx = Command::new("nginx");
    nginx.arg("-c").arg(file).arg("-p").arg(dir.path()).args(["-e", "stderr", "-g"]);
    nginx.arg(format!("daemon off; master_process off; pid {};", dir.path().join("pid").display()));
    nginx.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _proxy = Proxy(nginx.spawn().unwrap());
    for tried in 0.. {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        assert!(tried < 500, "the proxy never listened");
        // waits for: the proxy to listen
        std::thread::sleep(Duration::from_millis(20));
    }

    let ask = || -> (u16, Value) {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--noproxy", "*", "--interface", "127.0.0.2", "-w", "\n%{http_code}", "--cacert"])
            .arg(&pem);
        curl.args([
            "--resolve",
            &format!("ip.example.com:{port}:127.0.0.1"),
            "-H",
            "x-forwarded-for: 6.6.6.6",
        ]);
        curl.args(["-H", &format!("authorization: Bearer {api_key}")]);
        let said = output(curl.arg(format!("https://ip.example.com:{port}/api/v1/ip")));
        let (body, status) = said.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), serde_json::from_str(body).unwrap())
    };
    let mut served_by = Vec::new();
    for _ in 0..20 {
        let (status, body) = ask();
        assert_eq!(status, 200, "{body}");
        assert_eq!((&body["ip"], &body["http_protocol"]), (&"127.0.0.2".into(), &"HTTP/2".into()), "{body}");
        assert!(body["tls_cipher"].is_string() && body["rtt"].is_number(), "{body}");
        served_by.push(body["colo"].as_str().unwrap().to_owned());
    }
    for colo in ["AMS", "FRA"] {
        assert!(served_by.iter().any(|by| by == colo), "one node served nobody: {served_by:?}");
    }
    // What one node served counts for the other, which goes on alone.
    first.kill().unwrap();
    for _ in 0..10 {
        let (status, body) = ask();
        assert_eq!((status, &body["colo"]), (200, &"FRA".into()), "{body}");
    }
    let (status, body) = ask();
    assert_eq!(status, 429, "{body}");
    assert!(body["enterprise"].is_string(), "{body}");
}
