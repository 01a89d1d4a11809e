//! Real servers of Redis and Valkey, each on a port and in a folder of its own: alone, with a replica and a sentinel, or as
//! a cluster.

use crate::Vouched;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const TRIES: u32 = 1_500;
const BETWEEN: Duration = Duration::from_millis(20);

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// `redis-server`.
    Redis,
    /// `valkey-server`.
    Valkey,
}

impl Flavour {
    fn server(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Valkey => "valkey-server",
        }
    }
}

/// A server that keeps nothing on the disk. It ends with this value.
pub struct Redis {
    flavour: Flavour,
    arguments: Vec<String>,
    child: Option<Child>,
    folder: TempDir,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Redis {
    /// Starts one.
    pub fn start(flavour: Flavour) -> Result<Self> {
        Self::start_with(flavour, &[])
    }

    /// Starts one with further settings, as on its command line.
    pub fn start_with(flavour: Flavour, arguments: &[&str]) -> Result<Self> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let (folder, address) = (tempfile::tempdir()?, free_port()?);
        let mut server = Self { flavour, arguments, child: None, folder, address };
        server.run()?;
        Ok(server)
    }

    /// Starts one that also listens for those who speak TLS, with further settings.
    pub fn start_secure(flavour: Flavour, files: &Vouched, arguments: &[&str]) -> Result<Self> {
        let port = free_port()?.port().to_string();
        let (certificate, key) = (files.certificate.to_string_lossy(), files.key.to_string_lossy());
        let mut all = vec!["--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        // It must name somebody, and asks no client for a certificate.
        all.extend(["--tls-ca-cert-file", &certificate, "--tls-auth-clients", "no"]);
        all.extend(arguments);
        Self::start_with(flavour, &all)
    }

    /// The port at which it speaks TLS.
    pub fn secure_port(&self) -> Result<u16> {
        let mut arguments = self.arguments.iter().skip_while(|argument| *argument != "--tls-port");
        Ok(arguments.nth(1).context("it does not speak TLS")?.parse()?)
    }

    /// Its address as `--counters` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Starts it again at the same place, empty, after it was killed.
    pub fn run(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "it runs already");
        let mut command = Command::new(self.flavour.server());
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.args(["--port", &self.address.port().to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no", "--dir"]).arg(self.folder.path()).args(&self.arguments);
        let program = self.flavour.server();
        let child = command.spawn().with_context(|| format!("{program}: cargo xtask test installs it"))?;
        self.child = Some(child);
        self.wait_until_ready()
    }

    /// The number of its process.
    pub fn id(&self) -> Result<u32> {
        Ok(self.child.as_ref().context("it does not run")?.id())
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops it where it stands, so that connections are taken and nobody answers; or lets it go on.
    pub fn freeze(&self, is_frozen: bool) -> Result<()> {
        let child = self.child.as_ref().context("it does not run")?;
        let signal = if is_frozen { "-STOP" } else { "-CONT" };
        let done = Command::new("kill").args([signal, &child.id().to_string()]).status()?;
        ensure!(done.success(), "kill {signal} failed");
        Ok(())
    }

    /// Says something to it, and returns what it says, as it says it.
    pub fn say(&self, words: &[&str]) -> Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.write_all(request.as_bytes())?;
        let mut reply = Vec::new();
        let mut part = vec![0; 65_536];
        while length_of(&reply).is_none() {
            let length = stream.read(&mut part)?;
            ensure!(length > 0, "it hung up");
            reply.extend_from_slice(&part[..length]);
        }
        Ok(String::from_utf8_lossy(&reply).into_owned())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        for _ in 0..TRIES {
            if self
                .say(&["PING"])
                .is_ok_and(|reply| reply.starts_with("+PONG") || reply.starts_with("-NOAUTH"))
            {
                return Ok(());
            }
            let child = self.child.as_mut().context("it does not run")?;
            ensure!(child.try_wait()?.is_none(), "{} ended while it started", self.flavour.server());
            // waits for: the server to open its port, of which it tells nobody.
            thread::sleep(BETWEEN);
        }
        anyhow::bail!("{} did not start", self.flavour.server())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A master with a replica, and a sentinel that makes the replica the master when the other one is gone.
pub struct Watched {
    /// The two, in the order in which they were masters.
    pub servers: [Redis; 2],
    sentinel: Redis,
}

impl Watched {
    /// Starts all three.
    pub fn start(flavour: Flavour) -> Result<Self> {
        let master = Redis::start(flavour)?;
        let port = master.address.port().to_string();
        let replica = Redis::start_with(flavour, &["--replicaof", "127.0.0.1", &port])?;
        until("the replica follows", || Ok(master.say(&["INFO", "replication"])?.contains("state=online")))?;
        let (folder, address) = (tempfile::tempdir()?, free_port()?);
        let settings = format!(
            "sentinel monitor main 127.0.0.1 {port} 1\nsentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 2000\n"
        );
        let file = folder.path().join("sentinel.conf");
        fs::write(&file, settings)?;
        let path = file.to_string_lossy().into_owned();
        let mut sentinel = Redis { flavour, arguments: Vec::new(), child: None, folder, address };
        let mut command = Command::new(flavour.server());
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.args([&path, "--sentinel", "--port", &address.port().to_string(), "--bind", "127.0.0.1"]);
        sentinel.child = Some(command.spawn()?);
        sentinel.wait_until_ready()?;
        until("the sentinel knows the replica", || {
            Ok(sentinel.say(&["SENTINEL", "replicas", "main"])?.contains("slave"))
        })?;
        Ok(Self { servers: [master, replica], sentinel })
    }

    /// Its address as `--counters` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis-sentinel://{}/main", self.sentinel.address)
    }

    /// Which of the two the sentinel says is the master.
    pub fn master(&self) -> Result<usize> {
        let told = self.sentinel.say(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"])?;
        let is_named = |server: &Redis| told.contains(&format!("\r\n{}\r\n", server.address.port()));
        self.servers.iter().position(is_named).with_context(|| format!("the sentinel says {told:?}"))
    }

    /// Has the sentinel tell nothing any more to those who do not know this password, us included.
    pub fn want_password(&self, password: &str) -> Result<()> {
        let told = self.sentinel.say(&["ACL", "SETUSER", "default", "resetpass", &format!(">{password}")])?;
        ensure!(told.starts_with("+OK"), "{told}");
        Ok(())
    }

    /// Has the sentinel make the other one the master, though this one is well.
    pub fn fail_over(&self) -> Result<()> {
        // So soon after another change it refuses.
        until("the sentinel hands over", || {
            Ok(self.sentinel.say(&["SENTINEL", "FAILOVER", "main"])?.starts_with("+OK"))
        })
    }

    /// Waits until the sentinel has made this one the master, and it knows.
    pub fn wait_for_master(&self, which: usize) -> Result<()> {
        until("the other one becomes the master", || {
            let told = self.servers[which].say(&["INFO", "replication"])?;
            Ok(self.master()? == which && told.contains("role:master"))
        })
    }

    /// Waits until the one that is not the master follows the other.
    pub fn settle(&self) -> Result<()> {
        until("the other one follows the master", || {
            let master = &self.servers[self.master()?];
            Ok(master.say(&["INFO", "replication"])?.contains("state=online"))
        })
    }
}

/// Three servers that share the slots.
pub struct Cluster {
    /// All of them.
    pub members: Vec<Redis>,
}

impl Cluster {
    /// Starts them, and waits until they agree.
    pub fn start(flavour: Flavour) -> Result<Self> {
        let settings = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];
        let members: Vec<Redis> =
            (0..3).map(|_| Redis::start_with(flavour, &settings)).collect::<Result<_>>()?;
        let shares = [(0, 5460), (5461, 10_922), (10_923, 16_383)];
        for (member, (first, last)) in members.iter().zip(shares) {
            let told = member.say(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
            ensure!(told.starts_with("+OK"), "{told}");
            let port = members[0].address.port().to_string();
            let told = member.say(&["CLUSTER", "MEET", "127.0.0.1", &port])?;
            ensure!(told.starts_with("+OK"), "{told}");
        }
        let cluster = Self { members };
        until("the cluster agrees", || {
            let mut agree = true;
            for member in &cluster.members {
                let told = member.say(&["CLUSTER", "INFO"])?;
                agree &= told.contains("cluster_state:ok") && told.contains("cluster_size:3");
            }
            Ok(agree)
        })?;
        Ok(cluster)
    }

    /// Its address as `--counters` takes it: one member is enough.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis-cluster://{}", self.members[0].address)
    }
}

/// How long the first reply among these bytes is, if all of it is there.
fn length_of(reply: &[u8]) -> Option<usize> {
    let line = reply.windows(2).position(|end| end == b"\r\n")? + 2;
    let number = || std::str::from_utf8(&reply[1..line - 2]).ok()?.parse::<i64>().ok();
    match reply[0] {
        b'$' => {
            let whole = usize::try_from(number()?).map_or(line, |length| line + length + 2);
            (reply.len() >= whole).then_some(whole)
        }
        b'*' => (0..number()?).try_fold(line, |place, _| Some(place + length_of(reply.get(place..)?)?)),
        _ => Some(line),
    }
}

/// A port that nobody has at this moment. Somebody else may take it before it is used; the server then says so.
fn free_port() -> Result<SocketAddr> {
    // A member of a cluster also takes the port ten thousand above its own.
    loop {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let bus = address.port().checked_add(10_000);
        if bus.is_some_and(|bus| TcpListener::bind((Ipv4Addr::LOCALHOST, bus)).is_ok()) {
            return Ok(address);
        }
    }
}

fn until(what: &str, mut is: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..TRIES {
        if is().unwrap_or(false) {
            return Ok(());
        }
        // waits for: servers that talk among themselves, and tell nobody when they are done.
        thread::sleep(BETWEEN);
    }
    anyhow::bail!("{what}: not within {} s", (BETWEEN * TRIES).as_secs())
}
