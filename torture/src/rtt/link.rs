//! A network of two machines on this one: two network namespaces, and between them a wire that holds packets back.
//!
//! Each end is a TUN device: what one namespace sends comes out of its device as a packet, waits here for as long as the
//! wire is said to be, and goes into the device of the other. The kernel need not know how to delay anything.

use anyhow::{Context, Result, ensure};
use ipse_testkit::Stopwatch;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use thread_priority::{RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};
use tun_rs::{DeviceBuilder, InterruptEvent, SyncDevice};

/// Where the server is, seen from the other end.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// More than any packet of these devices.
const PACKET_BYTES: usize = 4 * 1024;

/// The two ends and the wire. All of it is gone when this is dropped.
pub(crate) struct Link {
    server: Namespace,
    client: Namespace,
    wire: Arc<Wire>,
    threads: Vec<JoinHandle<()>>,
}

impl Link {
    pub(crate) fn make() -> Result<Self> {
        let devices = [device("s")?, device("c")?].map(Arc::new);
        let server = Namespace::make("server", &devices[0], SERVER, CLIENT)?;
        let client = Namespace::make("client", &devices[1], CLIENT, SERVER)?;
        let wire = Arc::new(Wire {
            clock: Stopwatch::start(),
            one_way_us: AtomicU64::new(0),
            late_us: Mutex::default(),
            end: InterruptEvent::new()?,
        });
        let mut link = Self { server, client, wire, threads: Vec::new() };
        for (from, to) in [(0, 1), (1, 0)] {
            let (send, receive) = mpsc::channel();
            let (from, to) = (Arc::clone(&devices[from]), Arc::clone(&devices[to]));
            let (taking, giving) = (Arc::clone(&link.wire), Arc::clone(&link.wire));
            link.threads.push(std::thread::spawn(move || taking.take(&from, &send)));
            link.threads.push(std::thread::spawn(move || giving.give(&to, &receive)));
        }
        Ok(link)
    }

    /// From now on packets take this time there and back.
    pub(crate) fn set_round_trip(&self, round_trip: Duration) {
        let one_way_us = u64::try_from(round_trip.as_micros() / 2).unwrap_or(u64::MAX);
        self.wire.one_way_us.store(one_way_us, Ordering::SeqCst);
        self.wire.late_us().clear();
    }

    /// How much longer than that packets were held back since it was set, in microseconds, in ascending order.
    pub(crate) fn late_us(&self) -> Vec<u64> {
        let mut late_us = self.wire.late_us().clone();
        late_us.sort_unstable();
        late_us
    }

    /// A program at the server's end.
    pub(crate) fn at_the_server(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.server.command(program)
    }

    /// A program at the other end.
    pub(crate) fn at_the_client(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.client.command(program)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.wire.end.trigger();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Wire {
    clock: Stopwatch,
    one_way_us: AtomicU64,
    late_us: Mutex<Vec<u64>>,
    end: InterruptEvent,
}

impl Wire {
    fn late_us(&self) -> MutexGuard<'_, Vec<u64>> {
        self.late_us.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes packets from one end, each with the moment at which it is due at the other.
    fn take(&self, from: &SyncDevice, due: &mpsc::Sender<(Duration, Vec<u8>)>) {
        go_first();
        let mut packet = vec![0; PACKET_BYTES];
        // An end is an error as well.
        while let Ok(length) = from.recv_intr(&mut packet, &self.end) {
            let one_way = Duration::from_micros(self.one_way_us.load(Ordering::SeqCst));
            if due.send((self.clock.elapsed() + one_way, packet[..length].to_vec())).is_err() {
                return;
            }
        }
    }

    /// Gives packets to the other end when they are due.
    fn give(&self, to: &SyncDevice, due: &mpsc::Receiver<(Duration, Vec<u8>)>) {
        go_first();
        while let Ok((moment, packet)) = due.recv() {
            std::thread::sleep(moment.saturating_sub(self.clock.elapsed()));
            // A packet that cannot be given is lost, as they are.
            let _ = to.send(&packet);
            let late = self.clock.elapsed().saturating_sub(moment);
            self.late_us().push(u64::try_from(late.as_micros()).unwrap_or(u64::MAX));
        }
    }
}

/// A wire does not wait for a processor. Where this is not allowed, packets are a little later.
fn go_first() {
    let _ = thread_priority::set_thread_priority_and_policy(
        thread_priority::thread_native_id(),
        ThreadPriority::Min,
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
    );
}

/// A device of this process. It goes on belonging to it when it is moved to another namespace.
fn device(end: &str) -> Result<SyncDevice> {
    let name = format!("ipse{}{end}", std::process::id());
    let device = DeviceBuilder::new().name(name).enable(false).build_sync();
    let device = device.context("this campaign needs root and /dev/net/tun, to make a wire of its own")?;
    device.set_nonblocking(true)?;
    Ok(device)
}

struct Namespace {
    name: String,
}

impl Namespace {
    fn make(end: &str, device: &SyncDevice, own: Ipv4Addr, other: Ipv4Addr) -> Result<Self> {
        let name = format!("ipse-{end}-{}", std::process::id());
        ip(&format!("netns add {name}")).context("this campaign needs root, to make network namespaces")?;
        let namespace = Self { name };
        let Self { name } = &namespace;
        let device = device.name()?;
        ip(&format!("link set dev {device} netns {name}"))?;
        ip(&format!("-n {name} link set dev lo up"))?;
        ip(&format!("-n {name} addr add {own} peer {other} dev {device}"))?;
        ip(&format!("-n {name} link set dev {device} up"))?;
        Ok(namespace)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = ipse_testkit::program("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.name));
    }
}

fn ip(arguments: &str) -> Result<()> {
    let output = Command::new("ip").args(arguments.split(' ')).output().context("cannot run ip")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {arguments}: {}", said.trim());
    Ok(())
}
