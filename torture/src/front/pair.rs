//! Two servers of the same program with the same records, keys, settings and clock: one with the front, one without.

use super::agenda::demo_is_used_up;
use super::plan::{CLASSES, Class, Plan};
use crate::inside::{Inside, MadeKey, make_keys, with_records};
use crate::secret::Secret;
use anyhow::{Context, Result, anyhow, bail, ensure};
use ipse_edge::{Clock, ClockHand};
use ipse_model::{BURST_WINDOW_MS, DAILY_LIMIT, DEMO_DAILY_LIMIT, Day, Now, Scope};
use ipse_store::{DataFolder, Subject};
use ipse_testkit::{Connection, Stopwatch};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use tokio_rustls::TlsConnector;

/// At least so many keys of each class, so that the same can be tried many times at once.
pub(super) const FEWEST_KEYS: usize = 16;
/// A day of a key that ends soon.
const SMALL_DAY: u32 = 2;
/// A server hears within this time that a key is not paused any more.
const RESUME_LIMIT: Duration = Duration::from_secs(10);
/// Within this time a server notices that a caller has gone.
const GONE_WITHIN: Duration = Duration::from_secs(30);
const BEGIN: Now = Now { unix_ms: 1_790_000_000_000, boot_ms: 10 * BURST_WINDOW_MS };
const DAY_MS: u32 = 86_400_000;

/// Where callers come in to one server.
#[derive(Clone)]
pub(super) struct Doors {
    pub(super) clear: SocketAddr,
    pub(super) dual: SocketAddr,
    pub(super) tls: SocketAddr,
    pub(super) proxy: SocketAddr,
    pub(super) unix: PathBuf,
    pub(super) connector: TlsConnector,
}

pub(super) struct Pair {
    /// With the front, and without.
    servers: [Inside; 2],
    pub(super) doors: [Doors; 2],
    hand: ClockHand,
    first_day: Day,
    keys: Keys,
    folder: TempDir,
}

/// The keys by their class.
struct Keys(Vec<(Class, Vec<MadeKey>)>);

/// What cannot be compared at the end, because something depended on the moment.
#[derive(Default)]
pub(super) struct Exempt {
    /// Days on which the same was tried again and again.
    pub(super) days: BTreeSet<Day>,
    pub(super) subjects: BTreeSet<(Day, Subject)>,
}

impl Keys {
    /// Makes about so many, and some more of each class than will be asked for.
    fn make(data_dir: &Path, count: u64) -> Result<Self> {
        let of_class = |share: u64| usize::try_from(share * count / 1_000 * 5 / 4).unwrap_or(0) + FEWEST_KEYS;
        let classes: Vec<Class> =
            CLASSES.iter().flat_map(|(class, share)| std::iter::repeat_n(*class, of_class(*share))).collect();
        let limit = |class: &Class| if *class == Class::Small { SMALL_DAY } else { DAILY_LIMIT };
        let made = make_keys(data_dir, &classes.iter().map(limit).collect::<Vec<_>>())?;
        let now = Clock::system().now();
        with_records(data_dir, async |records| {
            for (class, key) in classes.iter().zip(&made) {
                match class {
                    Class::Usual(Scope::Geo) | Class::Small | Class::Lost => {}
                    Class::Usual(scope) => drop(records.set_scope(key.id, *scope).await?),
                    Class::Inactive => drop(records.set_active(key.id, false).await?),
                    Class::Paused => drop(records.pause(key.id, now).await?),
                }
            }
            Ok(())
        })?;
        let mut keys: Vec<(Class, Vec<MadeKey>)> = Vec::new();
        for (class, key) in classes.into_iter().zip(made) {
            match keys.last_mut() {
                Some((of, keys)) if *of == class => keys.push(key),
                _ => keys.push((class, vec![key])),
            }
        }
        Ok(Self(keys))
    }

    /// Those whose counts are no matter.
    fn lost(&self) -> BTreeSet<Subject> {
        let lost = self.0.iter().filter(|(class, _)| *class == Class::Lost);
        lost.flat_map(|(_, keys)| keys.iter().map(|key| Subject::Key(key.id))).collect()
    }
}

/// The loops of fronts that run in this process, by their threads.
fn front_threads() -> Result<BTreeSet<PathBuf>> {
    let mut fronts = BTreeSet::new();
    for thread in std::fs::read_dir("/proc/self/task")? {
        let thread = thread?.path();
        // One that has just ended has no name any more.
        let name = std::fs::read_to_string(thread.join("comm")).unwrap_or_default();
        if name.trim_end() == "front" {
            fronts.insert(thread);
        }
    }
    Ok(fronts)
}

/// A folder in memory, where there is one: what is compared is what is said and charged, and not how long a disk takes.
fn folder() -> Result<TempDir> {
    Ok(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?)
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    DataFolder::create(to)?;
    for place in std::fs::read_dir(from)? {
        let place = place?;
        let (path, copied) = (place.path(), to.join(place.file_name()));
        if place.file_type()?.is_dir() {
            copy(&path, &copied)?;
        } else {
            std::fs::copy(path, copied)?;
        }
    }
    Ok(())
}

/// Keys that nobody has in hand.
pub(super) struct Deal<'a> {
    keys: &'a Keys,
    taken: Vec<usize>,
}

impl Deal<'_> {
    /// A key of this class that nobody else has; none if there are no more. What is charged to those who are lost is no matter.
    pub(super) fn take(&mut self, class: Class) -> Option<&MadeKey> {
        let place = self.keys.0.iter().position(|(of, _)| *of == class)?;
        let (keys, taken) = (&self.keys.0[place].1, &mut self.taken[place]);
        let number = if class == Class::Lost { *taken % keys.len().max(1) } else { *taken };
        *taken += 1;
        keys.get(number)
    }

    /// Takes back the last key of this class.
    pub(super) fn give_back(&mut self, class: Class) {
        if let Some(place) = self.keys.0.iter().position(|(of, _)| *of == class) {
            self.taken[place] -= 1;
        }
    }
}

impl Pair {
    /// With about so many keys, and more.
    pub(super) fn start(keys: u64) -> Result<Self> {
        let folder = folder()?;
        let keys = Keys::make(&place(&folder, 0), keys)?;
        copy(&place(&folder, 0), &place(&folder, 1))?;
        let secret = Secret::make(folder.path())?;
        let connector = TlsConnector::from(Arc::new(secret.client("http/1.1")?));
        let (clock, hand) = Clock::standing_at(BEGIN);
        let start = |number: usize| {
            let unix = folder.path().join(format!("door-{number}"));
            let listen = format!("127.0.0.1:0,[::]:0,unix:{}", unix.display());
            let settings = [
                ("listen", listen.as_str()),
                ("tls_listen", "127.0.0.1:0"),
                ("admin_listen", "127.0.0.1:0"),
                ("http3", "no"),
                ("proxy_listen", "127.0.0.1:0"),
                ("base_url", "https://ip.example.com"),
                ("trusted_proxy", "127.0.0.1/32,127.0.2.0/24"),
                ("tls_version_header", "x-tls"),
                ("tls_cipher_header", "x-cipher"),
                ("http_version_header", "x-http"),
                ("rtt_header", "x-rtt"),
                ("colo_header", "cf-ray"),
                ("max_connections_per_address", "10000"),
            ];
            let settings = [&settings[..], &secret.settings()?].concat();
            let inside =
                Inside::start_changed(&place(&folder, number), clock.clone(), &settings, |server| {
                    if number == 0 { server } else { server.without_front() }
                })?;
            let [clear, dual, tls, proxy] = inside.addresses[..] else {
                bail!("{} doors instead of four", inside.addresses.len())
            };
            let dual = (Ipv4Addr::LOCALHOST, dual.port()).into();
            // Who answers is there, with all its threads.
            let ready = Connection::open(clear)?.get("/api/v1/meta", None)?;
            ensure!(ready.status == 200, "answered {}", ready.status);
            Ok((inside, Doors { clear, dual, tls, proxy, unix, connector: connector.clone() }))
        };
        // Otherwise a server would be compared with itself. One that has a front has answered with it, so at least one of its
        // loops has its name; threads of servers that were stopped before may still be there.
        let before = front_threads()?;
        let (without, other_doors) = start(1)?;
        ensure!(front_threads()?.is_subset(&before), "the server that is to have no front has one");
        let (with, doors) = start(0)?;
        ensure!(!front_threads()?.is_subset(&before), "the server that is to have a front has none");
        let first_day = hand.now().day();
        Ok(Self { servers: [with, without], doors: [doors, other_doors], hand, first_day, keys, folder })
    }

    pub(super) fn deal(&self) -> Deal<'_> {
        Deal { keys: &self.keys, taken: vec![0; self.keys.0.len()] }
    }

    /// Begins a day on which nobody has used anything, and no key is paused that was not from the beginning. For some plans the
    /// demo is used up.
    pub(super) fn fresh_day<'a>(&self, plans: impl IntoIterator<Item = &'a Plan>) -> Result<()> {
        // What a caller asked who has gone since is charged to the day on which the server comes to it.
        self.servers.iter().try_for_each(wait_for_nobody)?;
        self.hand.advance_ms(DAY_MS);
        let plans: Vec<&Plan> = plans.into_iter().collect();
        let paused: Vec<&&Plan> = plans.iter().filter(|plan| plan.may_be_paused()).collect();
        if !paused.is_empty() {
            // Each takes a while to be heard of.
            std::thread::scope(|scope| {
                let mut resuming = Vec::new();
                for server in &self.servers {
                    resuming.extend(paused.iter().map(|plan| scope.spawn(|| resume(server, &plan.key))));
                }
                let mut resumed = resuming.into_iter().map(ScopedJoinHandle::join);
                resumed.try_for_each(|resumed| resumed.map_err(|_| anyhow!("resuming a key panicked"))?)
            })?;
            self.hand.advance_ms(DAY_MS);
        }
        if plans.iter().any(|plan| demo_is_used_up(plan.seed) && plan.is_of_demo()) {
            self.servers.iter().try_for_each(use_up_demo)?;
        }
        Ok(())
    }

    pub(super) fn today(&self) -> Day {
        self.hand.now().day()
    }

    /// Stops both, and compares what they have charged to whom on every day; says how much that was.
    pub(super) fn settle(self, exempt: &Exempt) -> Result<u64> {
        let Self { servers, hand, first_day, keys, folder, .. } = self;
        let (last_day, lost) = (hand.now().day(), keys.lost());
        for server in servers {
            server.stop()?;
        }
        let is_compared = |day: Day, subject: Subject| {
            !lost.contains(&subject) && !exempt.subjects.contains(&(day, subject))
        };
        let charged = |number: usize| {
            with_records(&place(&folder, number), async |records| {
                let mut all = BTreeMap::new();
                let days = (first_day.0..=last_day.0).map(Day);
                for day in days.filter(|day| !exempt.days.contains(day)) {
                    let rows = records.usage(day).await?.into_iter();
                    let rows = rows.filter(|row| row.used > 0 && is_compared(day, row.subject));
                    all.extend(rows.map(|row| ((day, row.subject), row.used)));
                }
                Ok(all)
            })
        };
        let (with, without) = (charged(0)?, charged(1)?);
        let different = with.keys().chain(without.keys()).find(|place| with.get(place) != without.get(place));
        if let Some((day, subject)) = different {
            let [one, other] = [&with, &without].map(|charged| charged.get(&(*day, *subject)));
            bail!("{subject:?} was charged {one:?} on day {} with the front, and {other:?} without", day.0);
        }
        Ok(with.values().map(|used| u64::from(*used)).sum())
    }
}

/// Asks until the key is answered. Every server has then answered once, so a day on which that happened is no fresh one.
fn resume(server: &Inside, key: &MadeKey) -> Result<()> {
    let mut connection = Connection::open(server.address)?;
    let watch = Stopwatch::start();
    while connection.get("/api/v1/ip", Some(&key.text))?.status != 200 {
        ensure!(watch.elapsed() < RESUME_LIMIT, "a key is still paused");
        // When it was not paused for good yet, it will be the next time.
        server.wait(server.records.resume(key.id))?;
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Waits until no connection is open.
fn wait_for_nobody(server: &Inside) -> Result<()> {
    let mut operator = Connection::open(server.operator.context("there is no operator's listener")?)?;
    let watch = Stopwatch::start();
    loop {
        let metrics = operator.get("/metrics", None)?.body;
        let open = metrics.lines().filter_map(|line| line.strip_prefix("ipse_connections_open{"));
        let is_some = |line: &&str| !line.ends_with("} 0.0");
        let open: Vec<&str> = open.filter(is_some).collect();
        if open.is_empty() {
            return Ok(());
        }
        ensure!(watch.elapsed() < GONE_WITHIN, "callers who have gone are still there: {open:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn use_up_demo(server: &Inside) -> Result<()> {
    let mut connection = Connection::open(server.address)?;
    for _ in 0..=DEMO_DAILY_LIMIT {
        if connection.get("/api/v1/ip/demo", None)?.status != 200 {
            return Ok(());
        }
    }
    bail!("the demo is not used up after {DEMO_DAILY_LIMIT} answers")
}

fn place(folder: &TempDir, number: usize) -> PathBuf {
    folder.path().join(format!("data-{number}"))
}
