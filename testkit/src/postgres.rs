//! A real PostgreSQL server in a folder and on a port of its own.
//!
//! A small shell watches it: when this process ends, however it ends, the server ends too and its folder is removed.

use crate::Vouched;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::JoinHandle;

/// The owner of every database, and what it takes to be let in.
const USER: &str = "ipse";
const PASSWORD: &str = "a pass/word: of @tests?";
/// The same in a URL.
const PASSWORD_IN_URL: &str = "a%20pass%2Fword%3A%20of%20%40tests%3F";
/// The user that the server runs as; it refuses to be root.
const RUNS_AS: &str = "postgres";

/// Reads what to do from its input; without any, whoever wanted the server is gone.
const WATCH: &str = r#"folder=$1; shift
"$@" & server=$!
read -r word || word=gone
case $word in
    kill) kill -KILL $server ;;
    stop) kill -INT $server ;;
    *) kill -QUIT $server ;;
esac
wait $server
if [ "$word" = gone ]; then rm -rf "$folder"; fi"#;

/// A server, which may be stopped, killed and started again. It ends when this is dropped.
pub struct Postgres {
    folder: PathBuf,
    port: u16,
    databases: AtomicU32,
    running: Mutex<Option<Running>>,
}

/// One life of the server.
struct Running {
    watch: Child,
    input: ChildStdin,
    /// Reads what the server says, and ends when the last of its processes has ended.
    listener: JoinHandle<()>,
    said: Arc<Mutex<String>>,
}

impl Postgres {
    /// The one server that all tests of this process share.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Postgres>> = OnceLock::new();
        match SHARED.get_or_init(Self::start) {
            Ok(server) => Ok(server),
            Err(error) => bail!("{error:#}"),
        }
    }

    /// Starts a server of one's own, without any database yet.
    pub fn start() -> Result<Self> {
        Self::start_as(None)
    }

    /// The same with a certificate, for those who want to speak TLS.
    pub fn start_secure(files: &Vouched) -> Result<Self> {
        Self::start_as(Some(files))
    }

    fn start_as(files: Option<&Vouched>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ipse-postgres-").tempdir()?.keep();
        let made = make(&folder).and_then(|()| files.map_or(Ok(()), |files| secure(&folder, files)));
        if made.is_err() {
            let _ = std::fs::remove_dir_all(&folder);
        }
        made?;
        // Whoever else wants a port at this moment gets another one.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Self { folder, port, databases: AtomicU32::new(0), running: Mutex::new(None) };
        server.start_again()?;
        Ok(server)
    }

    /// Starts it again after it was stopped or killed.
    pub fn start_again(&self) -> Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(running.is_none(), "the server runs already");
        *running = Some(run(&self.folder, self.port)?);
        Ok(())
    }

    /// Stops it as an operator would, and waits until it has.
    pub fn stop(&self) -> Result<()> {
        self.end("stop")
    }

    /// Kills it with -9, and waits until none of its processes is left.
    pub fn kill(&self) -> Result<()> {
        self.end("kill")
    }

    /// Where it listens on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The numbers of its processes at this moment.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let told = std::fs::read_to_string(self.folder.join("data/postmaster.pid"))?;
        let first: u32 = told.lines().next().unwrap_or_default().trim().parse()?;
        let children = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children"))?;
        let children = children.split_whitespace().filter_map(|number| number.parse().ok());
        Ok(std::iter::once(first).chain(children).collect())
    }

    /// Makes an empty database and gives its URL, password included.
    pub fn database(&self) -> Result<String> {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.ask("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.url(&name))
    }

    /// The URL of a database, which may not be there.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("postgres://{USER}:{PASSWORD_IN_URL}@127.0.0.1:{}/{name}", self.port)
    }

    /// Says something to a database, by its name or its URL, past all programs that work on it.
    pub fn ask(&self, database: &str, sql: &str) -> Result<String> {
        let name = database.rsplit('/').next().unwrap_or(database);
        let mut psql = Command::new("psql");
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            "127.0.0.1",
            "-U",
            USER,
            "-d",
            name,
        ]);
        psql.args(["-p", &self.port.to_string(), "-c", sql]).env("PGPASSWORD", PASSWORD);
        let output = psql.output().context("psql is needed: cargo xtask test installs it")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    }

    /// All that the server has written to its log since it was started.
    #[must_use]
    pub fn log(&self) -> String {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let said = running.as_ref().map(|running| Arc::clone(&running.said));
        said.map(|said| said.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    fn end(&self, word: &str) -> Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Running { mut watch, mut input, listener, .. } =
            running.take().context("the server does not run")?;
        writeln!(input, "{word}")?;
        watch.wait()?;
        let _ = listener.join();
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { mut watch, input, .. }) = running {
            drop(input);
            let _ = watch.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Makes a cluster of databases whose texts are ordered otherwise than by their bytes, as many are.
fn make(folder: &Path) -> Result<()> {
    let password = folder.join("password");
    std::fs::write(&password, PASSWORD)?;
    let mut initdb = as_server_user(&program("initdb")?, folder)?;
    initdb.args(["-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--no-sync", "--no-instructions"]);
    initdb.args(["--locale=C", "--locale-provider=icu", "--icu-locale=en-US"]);
    initdb.arg("--pwfile").arg(&password).arg("-D").arg(folder.join("data"));
    let output = initdb.output().context("PostgreSQL is needed: cargo xtask test installs it")?;
    ensure!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Gives it a certificate, whose key nobody else may read.
fn secure(folder: &Path, files: &Vouched) -> Result<()> {
    for (file, name) in [(&files.certificate, "server.crt"), (&files.key, "server.key")] {
        let place = folder.join(name);
        std::fs::copy(file, &place)?;
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

fn run(folder: &Path, port: u16) -> Result<Running> {
    let mut server = as_server_user(&program("postgres")?, folder)?;
    server.arg("-D").arg(folder.join("data")).arg("-k").arg(folder).args(["-p", &port.to_string()]);
    // What has been written outlives the server in the page cache; tests do not cut the power.
    for setting in
        ["listen_addresses=127.0.0.1", "fsync=off", "max_connections=300", "deadlock_timeout=100ms"]
    {
        server.args(["-c", setting]);
    }
    let key = folder.join("server.key");
    if key.exists() {
        for (setting, file) in [("ssl_key_file", key), ("ssl_cert_file", folder.join("server.crt"))] {
            server.arg("-c").arg(format!("{setting}={}", file.display()));
        }
        server.args(["-c", "ssl=on"]);
    }
    let mut watch = Command::new("sh");
    watch.args(["-c", WATCH, "watch"]).arg(folder).arg(server.get_program()).args(server.get_args());
    let mut watch =
        watch.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let input = watch.stdin.take().context("no input")?;
    let output = BufReader::new(watch.stderr.take().context("no output")?);
    let said = Arc::new(Mutex::new(String::new()));
    let (ready, is_ready) = mpsc::channel();
    let heard = Arc::clone(&said);
    let listener = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if line.contains("ready to accept connections") {
                let _ = ready.send(());
            }
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.push_str(&line);
            heard.push('\n');
        }
    });
    let running = Running { watch, input, listener, said };
    if is_ready.recv().is_err() {
        let said = running.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        bail!("PostgreSQL did not start: {said}");
    }
    Ok(running)
}

/// Debian keeps the server's programs out of the path.
fn program(name: &str) -> Result<PathBuf> {
    let mut homes: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    homes.sort_unstable();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = homes.into_iter().rev().chain(std::env::split_paths(&path));
    places
        .map(|place| place.join(name))
        .find(|file| file.is_file())
        .with_context(|| format!("{name} of PostgreSQL is needed: cargo xtask test installs it"))
}

/// A command as the user that the server runs as, who gets the folder. Who is not root runs it as themselves.
fn as_server_user(program: &Path, folder: &Path) -> Result<Command> {
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(Command::new(program));
    }
    let number = |flag: &str| -> Result<u32> {
        let output = Command::new("id").args([flag, RUNS_AS]).output()?;
        ensure!(output.status.success(), "there is no user {RUNS_AS}: cargo xtask test installs PostgreSQL");
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    };
    let (user, group) = (number("-u")?, number("-g")?);
    chown(folder, Some(user), Some(group))?;
    for entry in std::fs::read_dir(folder)? {
        chown(entry?.path(), Some(user), Some(group))?;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", RUNS_AS, "--regid", RUNS_AS, "--init-groups"]).arg(program).current_dir("/");
    Ok(command)
}
