//! Nodes of the simulated world: each request is the product's own code, which waits for messages.

use super::world::{Errand, Reply, World};
use ipse_model::{Charge, Day, Key, KeyId, KeyState, Now, Scope};
use ipse_store::steps::{self, Call, Engines, Lease, Minute, Verdict};
use ipse_store::{Away, Error, KeyCharge, Portion, Range, Subject};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// At most so many requests are under way at once.
const AT_ONCE: usize = 48;

type Shared = Arc<Mutex<World>>;
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One node, as the product's code sees it in one piece of work.
struct Node {
    world: Shared,
    number: usize,
    /// What the node holds for itself while the engines are away.
    lease: Arc<Lease>,
    /// The message that is waited for.
    waits_for: Arc<Mutex<Option<u64>>>,
    /// Work that nobody waits for, until it is taken up.
    begun: Arc<Mutex<Vec<Task>>>,
}

/// A piece of work, and how to learn what it waits for.
struct Task {
    node: usize,
    waits_for: Arc<Mutex<Option<u64>>>,
    begun: Arc<Mutex<Vec<Task>>>,
    work: Work,
}

impl Task {
    fn new(world: &Shared, node: usize, lease: &Arc<Lease>, work: impl FnOnce(Node) -> Work) -> Self {
        let (waits_for, begun) = (Arc::<Mutex<Option<u64>>>::default(), Arc::<Mutex<Vec<Self>>>::default());
        let engines = Node {
            world: Arc::clone(world),
            number: node,
            lease: Arc::clone(lease),
            waits_for: Arc::clone(&waits_for),
            begun: Arc::clone(&begun),
        };
        Self { node, waits_for, begun, work: work(engines) }
    }
}

/// Waits for the reply to one message.
struct Waiting<'a> {
    node: &'a Node,
    message: u64,
}

impl Future for Waiting<'_> {
    type Output = Result<Reply, Away>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match lock(&self.node.world).take_reply(self.message) {
            Some(reply) => Poll::Ready(reply),
            None => {
                *lock(&self.node.waits_for) = Some(self.message);
                Poll::Pending
            }
        }
    }
}

impl Node {
    async fn reply_to(&self, errand: Errand) -> Result<Reply, Away> {
        let message = lock(&self.world).send(errand);
        Waiting { node: self, message }.await
    }
}

impl Engines for Node {
    async fn ask(&self, subject: Subject, call: Call) -> Result<Verdict, Away> {
        let line = lock(&self.world).lines[self.number];
        let line = line.ok_or_else(|| Away::Refused("there is no connection".to_owned()))?;
        match self.reply_to(Errand::Ask(line, subject, call)).await? {
            Reply::Verdict(verdict) => Ok(verdict),
            Reply::Range(_) | Reply::Paused | Reply::Passed => Err(Away::Unreadable),
        }
    }

    async fn moment(&self) {
        let _ = self.reply_to(Errand::Moment).await;
    }

    async fn pause(&self, key: KeyId, minute: Minute) -> Result<(), Error> {
        self.reply_to(Errand::Pause(key, minute)).await.map(drop).map_err(Error::from)
    }

    async fn extend(&self, subject: Subject, day: Day, limit: u32) -> Result<(), Error> {
        match self.reply_to(Errand::Reserve(subject, day, limit, Portion::PartOfDay)).await? {
            Reply::Range(Range { from, to }) => steps::offer(self, subject, day, Range { from, to }).await,
            Reply::Verdict(_) | Reply::Paused | Reply::Passed => Err(Away::Unreadable.into()),
        }
    }

    fn extend_later(&self, subject: Subject, day: Day, limit: u32) {
        let task = Task::new(&self.world, self.number, &self.lease, |node| {
            Box::pin(async move {
                // If it fails, whoever needs the range asks for one and waits for it.
                let _ = node.extend(subject, day, limit).await;
            })
        });
        lock(&self.begun).push(task);
    }

    async fn take(&self, subject: Subject, day: Day, limit: u32) -> Result<Range, Error> {
        match self.reply_to(Errand::Reserve(subject, day, limit, Portion::Few { waiting: 1 })).await? {
            Reply::Range(range) => {
                self.lease.take(subject, day, range);
                Ok(range)
            }
            Reply::Verdict(_) | Reply::Paused | Reply::Passed => Err(Away::Unreadable.into()),
        }
    }
}

/// One request, as a node of the product handles it.
async fn charge(engines: &Node, key: &Key, nodes: usize, now: Now) -> (Result<KeyCharge, Error>, bool) {
    let charged = steps::charge_key(engines, key, None).await;
    let leases = lock(&engines.world).leases;
    match charged {
        Err(Error::Counters(away)) if leases && away.nothing_was_done() => {
            let nodes = u32::try_from(nodes).unwrap_or(1);
            (steps::lease_key(engines, &engines.lease, key, nodes, now).await, true)
        }
        charged => (charged, false),
    }
}

/// Everything that is under way.
pub(super) struct Nodes {
    world: Shared,
    /// By the message that each waits for.
    waiting: HashMap<u64, Task>,
    /// What each node knows of the keys.
    tables: Vec<Vec<(u32, bool)>>,
    /// What each node holds for itself.
    leases: Vec<Arc<Lease>>,
}

impl Nodes {
    pub(super) fn new(world: World, count: usize) -> Self {
        let keys = world.keys.iter().map(|_| (0, false)).collect::<Vec<_>>();
        Self {
            world: Arc::new(Mutex::new(world)),
            waiting: HashMap::new(),
            tables: vec![keys; count],
            leases: (0..count).map(|_| Arc::default()).collect(),
        }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.waiting.len() >= AT_ONCE
    }

    /// A caller asks a node.
    pub(super) fn request(&mut self, node: usize, place: usize) {
        let (limit, now) = {
            let mut world = self.world();
            world.seen.requests += 1;
            let now = world.now_of(node);
            world.alone[node][place].asked(now);
            (world.keys[place].limit, now)
        };
        let (resumes, is_paused) = self.tables[node][place];
        if is_paused {
            return;
        }
        let id = KeyId(i64::try_from(place).unwrap_or(0) + 1);
        let key = Key { id, scope: Scope::Geo, state: KeyState::Active, daily_limit: limit, resumes };
        let (world, nodes) = (Arc::clone(&self.world), self.leases.len());
        let task = Task::new(&self.world, node, &self.leases[node], move |engines| {
            Box::pin(async move {
                let (charged, is_leased) = charge(&engines, &key, nodes, now).await;
                let mut world = lock(&world);
                match charged {
                    Ok(KeyCharge::Charged(Charge::Granted(allowance))) => {
                        world.answered(Subject::Key(id), allowance.day, allowance.limit, allowance.remaining);
                        if is_leased {
                            world.leased(node, place, resumes, now);
                        }
                    }
                    Ok(KeyCharge::Charged(Charge::DayUsedUp(allowance))) => {
                        world.used_up(Subject::Key(id), allowance.day, allowance.limit);
                    }
                    Ok(KeyCharge::Charged(Charge::BurstExceeded) | KeyCharge::Paused) => {
                        if is_leased {
                            world.paused_alone(node, place, resumes, now);
                        }
                        let known = world.keys[place];
                        if !known.is_paused && known.resumes == key.resumes {
                            world.faults.push(format!("key {} was called paused before it was", id.0));
                        }
                    }
                    Err(_) => world.seen.unknown += 1,
                }
            })
        });
        self.run(task);
    }

    /// Takes up whatever has a reply.
    pub(super) fn go_on(&mut self) {
        loop {
            let Some(message) = self.world().ready.pop() else { return };
            if let Some(task) = self.waiting.remove(&message) {
                self.run(task);
            }
        }
    }

    /// A node dies, with everything that it was about.
    pub(super) fn kill(&mut self, node: usize) {
        self.waiting.retain(|_, task| task.node != node);
        let waiting = &self.waiting;
        let mut world = lock(&self.world);
        world.forget_waiters(|waiter| !waiting.contains_key(&waiter));
        world.lines[node] = None;
        world.forgot_minute();
        self.leases[node] = Arc::default();
    }

    /// A node does what it does once a second.
    pub(super) fn fold(&mut self, node: usize) {
        let world = lock(&self.world);
        if world.lines[node].is_some() {
            self.leases[node].rest(world.now_of(node));
        }
    }

    /// A node hears of changes of keys.
    pub(super) fn hear(&mut self, node: usize) {
        let world = lock(&self.world);
        for (known, key) in self.tables[node].iter_mut().zip(&world.keys) {
            *known = (key.resumes, key.is_paused);
        }
    }

    /// Lets work go on until it waits or ends, and whatever it began as well.
    fn run(&mut self, mut task: Task) {
        let pending = task.work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        let begun = std::mem::take(&mut *lock(&task.begun));
        let message = lock(&task.waits_for).take();
        if let Some(message) = message.filter(|_| pending) {
            self.waiting.insert(message, task);
        }
        begun.into_iter().for_each(|task| self.run(task));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
