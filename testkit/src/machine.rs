//! A machine to throw away: this one's files under a layer that takes all changes, with processes, a network and a real
//! systemd of its own.
//!
//! A small shell watches it: when this process ends, however it ends, the machine ends too and nothing of it is left. The
//! kernel is that of this machine, so its settings cannot be written from there.

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// How often it is looked whether the machine has come up, and how long each time.
const TRIES: u32 = 3000;
const BETWEEN: Duration = Duration::from_millis(20);

/// Ends the machine when whoever wanted it is gone, and removes its control group.
const WATCH: &str = r#"folder=$1 name=$2
unshare --mount --pid --net --uts --ipc --fork --kill-child sh -ec "$3" boot "$folder" "$name" "$4" </dev/null &
echo $! > "$folder/watched.new"; mv "$folder/watched.new" "$folder/watched"
read -r word
kill -KILL $!
wait $!
unshare --mount sh -c '
mount -t cgroup2 none "$0/cgroup"
own="$0/cgroup$(sed -n "s/^0:://p" /proc/self/cgroup)/$1"
# The last of its processes may take a moment to die.
for try in $(seq 100); do find "$own" -depth -type d -exec rmdir {} + && break; sleep 0.05; done' "$folder" "$name"
"#;

/// Makes a control group for the machine, which is to take it for the root of all.
const GROUP: &str = r#"folder=$1 name=$2
mount -t cgroup2 none "$folder/cgroup"
own=$(sed -n 's/^0:://p' /proc/self/cgroup)
mkdir -p "$folder/cgroup$own/$name"
echo 0 > "$folder/cgroup$own/$name/cgroup.procs"
umount "$folder/cgroup"
exec unshare --cgroup sh -ec "$3" boot "$folder""#;

/// Puts the machine together and starts its first process.
const BOOT: &str = r#"cd "$1"
mount -t tmpfs none layer
mkdir layer/changes layer/work layer/root
mount -t overlay none -o lowerdir=/,upperdir=layer/changes,workdir=layer/work layer/root
cd layer/root
mount -t proc none proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro none sys
mount -t cgroup2 none sys/fs/cgroup
mount -t tmpfs -o mode=755 none run
mount -t tmpfs none tmp
mount -t tmpfs -o mode=755 none dev
mkdir dev/shm dev/pts
for device in null zero full random urandom tty; do touch dev/$device; mount --bind /dev/$device dev/$device; done
mount -t devpts -o newinstance,ptmxmode=666 none dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ip link set lo up
# Images that containers are made of forbid packages to start anything.
rm -f usr/sbin/policy-rc.d
# The index of manuals would be made anew with each package.
rm -f var/lib/man-db/auto-update
mkdir -p before
pivot_root . before
umount -l before
# What systemd mounts for a service beside it would not be seen by the service.
mount --make-rshared /
exec env -i container=ipse-tests PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=sysinit.target --show-status=0 --log-target=kmsg --log-level=warning >/dev/null 2>&1"#;

/// A machine that is up. It ends with this value.
pub struct Machine {
    watch: Child,
    input: Option<ChildStdin>,
    /// The number of its first process among ours.
    first: u32,
    folder: TempDir,
}

impl Machine {
    /// Boots one, as far as the basic system.
    pub fn boot() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ipse-machine-").tempdir()?;
        for name in ["cgroup", "layer"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let name = folder.path().file_name().context("no name")?.to_owned();
        let mut watch = Command::new("sh");
        watch.args(["-c", WATCH, "watch"]).arg(folder.path()).arg(name).args([GROUP, BOOT]);
        let log = File::create(folder.path().join("log"))?;
        watch.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log.try_clone()?);
        let mut watch = watch.spawn().context("cannot start a shell")?;
        let input = watch.stdin.take();
        let mut machine = Self { watch, input, first: 0, folder };
        for _ in 0..TRIES {
            if machine.find_first() && machine.is_up() {
                return Ok(machine);
            }
            // waits for: systemd to come up, of which it tells nobody outside
            thread::sleep(BETWEEN);
        }
        let folder = machine.folder.path().join("log");
        bail!("systemd did not come up: {}", fs::read_to_string(folder).unwrap_or_default())
    }

    /// A command in the machine, as its root.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.first.to_string());
        command.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]);
        command.args(["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"]);
        command.args(["DEBIAN_FRONTEND=noninteractive", "SYSTEMD_PAGER=", program]).stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed, and returns what it says.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        let (program, arguments) = words.split_first().context("no command")?;
        let output = self.command(program).args(arguments).output().context("cannot enter the machine")?;
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        ensure!(output.status.success(), "{words:?}: {}{}", said[0], said[1]);
        Ok(said[0].trim_end().to_owned())
    }

    /// Where a file of the machine is for us. Links in the way lead out of it.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.first))
    }

    /// Does something in a thread that sees the machine's network and not ours.
    pub fn with_network<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let network = File::open(format!("/proc/{}/ns/net", self.first))?;
        thread::scope(|scope| {
            let entered = scope.spawn(move || {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
                work()
            });
            entered.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Looks for the machine's first process: the one child of the process that the shell watches.
    fn find_first(&mut self) -> bool {
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let watched = read(self.folder.path().join("watched"));
        let children = read(PathBuf::from(format!("/proc/{watched}/task/{watched}/children")));
        self.first = children.parse().unwrap_or(0);
        self.first != 0
    }

    fn is_up(&self) -> bool {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.first)).unwrap_or_default();
        // A degraded one lacks something that only this kind of machine has.
        let state = || self.command("systemctl").arg("is-system-running").output();
        let is_up = |said: &[u8]| said.starts_with(b"running") || said.starts_with(b"degraded");
        name.trim() == "systemd" && state().is_ok_and(|output| is_up(&output.stdout))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut input) = self.input.take() {
            let _ = writeln!(input, "end");
        }
        let _ = self.watch.wait();
    }
}
