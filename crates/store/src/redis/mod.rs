//! Counters that many nodes share, in Redis or Valkey.
//!
//! One call of one function there decides each charge (`function`, `protocol`). The records hold what must survive the
//! engine: how far each day may have been served, and every pause. What each node saw is folded into them once a second, for
//! owners to look at.

mod cluster;
mod function;
mod lease;
mod news;
mod protocol;
mod reach;
mod reserver;
mod sentinel;
mod url;

/// How shared counters work, for whoever carries the steps out otherwise: a simulation.
pub mod steps {
    pub use super::function::{Call, Minute, TEXT as FUNCTION, Verdict};
    pub use super::lease::{Lease, lease_demo, lease_key};
    pub use super::protocol::{Engines, charge_demo, charge_key, charge_of_demo, charge_of_key, offer};
}

pub use reach::Away;
pub use url::{CountersUrl, NotACountersUrl};

use crate::counters::{Asked, Counters, KeyCharge, Subject};
use crate::records::Range;
use crate::tally::{ANSWERED, OVER_QUOTA, REFUSED};
use crate::{CountersReport, Error, Outcomes, Records};
use function::{Call, Minute, Tag, Verdict};
use futures_util::future::join_all;
use ipse_model::{Charge, DEMO_DAILY_LIMIT, Day, DayAllowance, Key, KeyId, KeyState, Now, Window};
use lease::Lease;
use news::News;
use papaya::HashMap;
use protocol::Engines;
use reach::{Plan, Question, Reach};
use reserver::{End, Wish};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How long a start waits for the engine before it goes on without it.
const SETTLE_WITHIN: Duration = Duration::from_secs(1);

/// How long a request waits for a range that another node reserves, before it asks again.
const MOMENT: Duration = Duration::from_millis(2);

/// What is done while the shared engine is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outage {
    /// Nothing is answered.
    #[default]
    Closed,
    /// Ranges are reserved in the records, and the minute is shared out.
    Lease,
    /// Everything is answered, and what is counted is not exact.
    Open,
}

/// How shared counters are opened.
#[derive(Clone, Debug)]
pub struct SharedPlan {
    /// Where they are.
    pub url: CountersUrl,
    /// Who vouches for their certificates, PEM, instead of those whom the system trusts.
    pub authority: Option<Vec<u8>>,
    /// What is done while they are away.
    pub outage: Outage,
    /// How long a decision may take before they count as away.
    pub patience: Duration,
    /// Whose clock counts: in tests the callers'.
    pub clock: SharedClock,
}

/// Whose clock days and minutes are measured by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedClock {
    /// The engine's own, which is the same for all nodes.
    #[default]
    Engine,
    /// The one that each request was judged by.
    Callers,
}

/// What shared counters have seen since they were opened, for whoever looks after them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedReport {
    /// Why they cannot be asked, if they cannot.
    pub away: Option<Away>,
    /// Why the records give them no new ranges, if they do not.
    pub records_away: Option<String>,
    /// Decisions that did not come in time, or at all, and were not made otherwise.
    pub undecided: u64,
    /// Requests that were charged to ranges of this node, because the shared engine was away.
    pub leased: u64,
    /// Requests that were answered though nothing could be charged.
    pub uncounted: u64,
}

/// The shared engine of [`Counters`].
pub struct Shared {
    engine: Arc<Engine>,
}

struct Engine {
    plan: SharedPlan,
    reach: Arc<Reach>,
    records: Records,
    /// What names of this installation begin with.
    installation: String,
    news: News,
    /// Keys that were resumed, and how often at least.
    generations: HashMap<KeyId, u32>,
    /// Pauses that are being written, or were.
    pauses: Mutex<BTreeMap<KeyId, Pausing>>,
    wishes: mpsc::UnboundedSender<Wish>,
    /// Subjects of which a further range is on its way.
    extending: Mutex<HashSet<Subject>>,
    lease: Lease,
    /// How many nodes share the minute.
    nodes: AtomicU32,
    /// Why the records gave out no range when they were last asked for one, if they did not.
    records_away: Mutex<Option<String>>,
    undecided: AtomicU64,
    leased: AtomicU64,
    uncounted: AtomicU64,
    /// How many pauses were written.
    paused: Arc<AtomicU64>,
}

#[derive(Clone)]
struct Pausing {
    generation: u32,
    done: watch::Receiver<Option<Result<(), Error>>>,
}

/// One who asks: the engines, and the moment if it is the caller's.
struct Teller<'a> {
    engine: &'a Arc<Engine>,
    clock: Option<i64>,
}

impl Shared {
    /// Connects to the engine, and goes on trying if it is not there: that is told by [`Shared::report`] and by every charge.
    pub async fn open(plan: SharedPlan, records: &Records) -> Result<Arc<Self>, Error> {
        let installation = records.installation().await?;
        let epoch = records.epoch().await?;
        let SharedPlan { url, authority, patience, .. } = plan.clone();
        let reach = Reach::open(Plan { url, authority, patience, epoch });
        let (wishes, receiver) = mpsc::unbounded_channel();
        let engine = Arc::new(Engine {
            plan,
            reach,
            records: records.clone(),
            installation,
            news: News::new(),
            generations: HashMap::new(),
            pauses: Mutex::default(),
            wishes,
            extending: Mutex::default(),
            lease: Lease::default(),
            nodes: AtomicU32::new(1),
            records_away: Mutex::default(),
            undecided: AtomicU64::new(0),
            leased: AtomicU64::new(0),
            uncounted: AtomicU64::new(0),
            paused: Arc::default(),
        });
        tokio::spawn(reserver::serve(Arc::downgrade(&engine), receiver));
        engine.reach.settle(SETTLE_WITHIN).await;
        Ok(Arc::new(Self { engine }))
    }

    /// Folds what this node saw into the records, or a part of it. To be called about once a second.
    pub async fn fold(&self, now: Now) -> Result<(), Error> {
        self.fold_part(now).await.map(drop)
    }

    /// Folds a part of what this node saw, and says whether there was any.
    async fn fold_part(&self, now: Now) -> Result<bool, Error> {
        let engine = &self.engine;
        if engine.reach.missing().is_none() {
            engine.lease.rest(now);
        }
        // Nobody may need a range for a while. Asking for the name is a write, which nobody sees.
        if engine.records_away().is_some() && engine.records.installation().await.is_ok() {
            engine.note_records(None);
        }
        let (rows, outcomes) = engine.news.take();
        if rows.is_empty() && outcomes.is_empty() {
            return Ok(false);
        }
        let folded = engine.records.fold(&rows, &outcomes).await;
        if folded.is_err() {
            engine.news.put_back(&rows, &outcomes);
        }
        folded.map(|()| true)
    }

    /// Folds for the last time and lets go of the engine. To be called when nothing is charged any more.
    pub async fn close(&self, now: Now) -> Result<(), Error> {
        let folded = async {
            while self.fold_part(now).await? {}
            Ok(())
        };
        let folded = folded.await;
        self.engine.reach.close();
        folded
    }

    /// What is done while the engine is away.
    #[must_use]
    pub fn outage(&self) -> Outage {
        self.engine.plan.outage
    }

    /// Tells how many nodes there are, among whom the minute is shared while the engine is away.
    pub fn shared_among(&self, nodes: u32) {
        self.engine.nodes.store(nodes.max(1), Ordering::Relaxed);
    }

    /// The slot of a cluster in which a key lies.
    #[must_use]
    pub fn slot_of(&self, key: KeyId) -> u16 {
        cluster::slot_of(Tag::new(&self.engine.installation, Subject::Key(key)).state().as_bytes())
    }

    /// What there is to know about the engine.
    #[must_use]
    pub fn report(&self) -> SharedReport {
        let engine = &self.engine;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SharedReport {
            away: engine.reach.missing(),
            records_away: engine.records_away(),
            undecided: count(&engine.undecided),
            leased: count(&engine.leased),
            uncounted: count(&engine.uncounted),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.engine.reach.close();
    }
}

impl Engine {
    fn teller<'a>(self: &'a Arc<Self>, clock: Option<i64>) -> Teller<'a> {
        Teller { engine: self, clock }
    }

    /// The moment that a request was judged by, if it is to count.
    fn clock(&self, now: Now) -> Option<i64> {
        (self.plan.clock == SharedClock::Callers).then_some(now.unix_ms)
    }

    /// Waits for a decision as long as it may take.
    async fn decided<T>(&self, decision: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        in_time(timeout(self.plan.patience, decision).await)
    }

    /// Notes that a request was granted, and says so.
    fn granted(self: &Arc<Self>, asked: &Asked, day: Day, used: u32, is_low: bool) -> KeyCharge {
        let (subject, limit) = match &asked.key {
            Some(key) => (Subject::Key(key.id), key.daily_limit),
            None => (Subject::Demo, DEMO_DAILY_LIMIT),
        };
        let allowance = DayAllowance { limit, remaining: limit.saturating_sub(used), day };
        let charge = protocol::grant(&self.teller(self.clock(asked.now)), subject, allowance, is_low);
        self.note(subject, charge, asked.now);
        KeyCharge::Charged(charge)
    }

    /// Charges a request that its engine was asked about, with many others, and notes what came of it. Whoever asked waits
    /// until then and no longer.
    async fn settle(
        self: &Arc<Self>,
        asked: &Asked,
        heard: Option<Result<Verdict, Away>>,
        until: Instant,
    ) -> Result<KeyCharge, Error> {
        let (teller, heard) = (self.teller(self.clock(asked.now)), heard.transpose());
        if let Some(key) = &asked.key {
            let decision = async { protocol::charge_key(&teller, key, heard?).await };
            self.conclude_key(key, asked.now, in_time(timeout_at(until, decision).await)).await
        } else {
            let decision = async { protocol::charge_demo(&teller, heard?).await };
            let charged = in_time(timeout_at(until, decision).await);
            self.conclude_demo(asked.now, charged).await.map(KeyCharge::from)
        }
    }

    /// What a key's request comes to when this was decided, or nothing was.
    async fn conclude_key(
        self: &Arc<Self>,
        key: &Key,
        now: Now,
        charged: Result<KeyCharge, Error>,
    ) -> Result<KeyCharge, Error> {
        let subject = Subject::Key(key.id);
        let charged = match (charged, self.plan.outage) {
            (Err(Error::Counters(away)), Outage::Lease) if away.nothing_was_done() => {
                self.counted(self.decided(self.lease_key(key, now)).await, true)?
            }
            (Err(_), Outage::Open) => {
                let allowance = self.uncounted(subject, key.daily_limit, now);
                self.news.note(subject, now, None, ANSWERED);
                return Ok(KeyCharge::Charged(Charge::Granted(allowance)));
            }
            (charged, _) => self.counted(charged, false)?,
        };
        match charged {
            KeyCharge::Paused => self.refused(key.id, now),
            KeyCharge::Charged(charge) => self.note(subject, charge, now),
        }
        Ok(charged)
    }

    /// The same of the demo's.
    async fn conclude_demo(
        self: &Arc<Self>,
        now: Now,
        charged: Result<Result<DayAllowance, DayAllowance>, Error>,
    ) -> Result<Result<DayAllowance, DayAllowance>, Error> {
        let charged = match (charged, self.plan.outage) {
            (Err(Error::Counters(away)), Outage::Lease) if away.nothing_was_done() => {
                let teller = self.teller(None);
                let leased = self.decided(lease::lease_demo(&teller, &self.lease, now)).await;
                self.counted(leased, true)?
            }
            (Err(_), Outage::Open) => {
                return Ok(Ok(self.uncounted(Subject::Demo, DEMO_DAILY_LIMIT, now)));
            }
            (charged, _) => self.counted(charged, false)?,
        };
        if let Err(allowance) = charged {
            self.note_spent(Subject::Demo, allowance);
        }
        let (Ok(allowance) | Err(allowance)) = charged;
        self.news.note(Subject::Demo, now, Some(used(allowance)), Outcomes::default());
        Ok(charged)
    }

    /// Counts what a decision came to: one that ranges of this node decided, or none.
    fn counted<T>(&self, decided: Result<T, Error>, is_leased: bool) -> Result<T, Error> {
        match &decided {
            Ok(_) if is_leased => self.leased.fetch_add(1, Ordering::Relaxed),
            Ok(_) => 0,
            Err(_) => self.undecided.fetch_add(1, Ordering::Relaxed),
        };
        decided
    }

    /// Why the records give out no ranges, if they do not.
    fn records_away(&self) -> Option<String> {
        self.records_away.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes whether the records gave out ranges, and if not, why.
    fn note_records(&self, failure: Option<&Error>) {
        *self.records_away.lock().unwrap_or_else(PoisonError::into_inner) = failure.map(Error::to_string);
    }

    fn note(&self, subject: Subject, charge: Charge, now: Now) {
        let (used, outcome) = match charge {
            Charge::Granted(allowance) => (Some(used(allowance)), ANSWERED),
            Charge::DayUsedUp(allowance) => {
                self.note_spent(subject, allowance);
                (Some(used(allowance)), OVER_QUOTA)
            }
            Charge::BurstExceeded => (None, REFUSED),
        };
        self.news.note(subject, now, used, outcome);
    }

    /// Remembers that a day is used up, for when the engine cannot be asked; who never leases has no use for it.
    fn note_spent(&self, subject: Subject, allowance: DayAllowance) {
        if self.plan.outage == Outage::Lease {
            self.lease.note_spent(subject, allowance);
        }
    }

    fn refused(&self, key: KeyId, now: Now) {
        self.news.note(Subject::Key(key), now, None, REFUSED);
    }

    /// Whether the records say that a key is paused, and nothing later is known.
    fn is_paused(&self, key: &Key) -> bool {
        if key.resumes > 0 {
            self.generations.pin().update_or_insert(key.id, |known| key.resumes.max(*known), key.resumes);
        }
        key.state == KeyState::Paused
            && self.generations.pin().get(&key.id).is_none_or(|known| key.resumes >= *known)
    }

    /// Writes a pause in a task of its own, so that it happens even if its caller hangs up; once, whoever else asks.
    fn begin_pause(&self, key: KeyId, generation: u32, minute: [u32; 60], now: Now) -> Pausing {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pausing) = pauses.get(&key)
            && pausing.generation >= generation
            && !matches!(*pausing.done.borrow(), Some(Err(_)))
            && (pausing.done.has_changed().is_ok() || pausing.done.borrow().is_some())
        {
            return pausing.clone();
        }
        let (sender, done) = watch::channel(None);
        let pausing = Pausing { generation, done };
        pauses.insert(key, pausing.clone());
        drop(pauses);
        let (records, paused) = (self.records.clone(), Arc::clone(&self.paused));
        tokio::spawn(async move {
            let written = records.pause_for_burst(key, generation, &minute, now).await;
            // Of several nodes that find the same burst, one pauses the key.
            paused.fetch_add(u64::from(matches!(written, Ok(true))), Ordering::Relaxed);
            let _ = sender.send(Some(written.map(drop)));
        });
        pausing
    }

    /// How far a day is known to be used without asking the shared engine.
    async fn used_up_to(&self, subject: Subject, day: Day) -> Result<u32, Error> {
        let seen = self.news.used(subject, day).unwrap_or(0);
        Ok(self.records.used(subject, day).await?.max(seen))
    }

    /// Charges a key without the shared engine.
    async fn lease_key(self: &Arc<Self>, key: &Key, now: Now) -> Result<KeyCharge, Error> {
        let nodes = self.nodes.load(Ordering::Relaxed);
        lease::lease_key(&self.teller(None), &self.lease, key, nodes, now).await
    }

    /// What is answered when nothing can be charged and everything is to be answered.
    fn uncounted(&self, subject: Subject, limit: u32, now: Now) -> DayAllowance {
        self.uncounted.fetch_add(1, Ordering::Relaxed);
        let day = now.day();
        let used = self.news.used(subject, day).unwrap_or(0);
        DayAllowance { limit, remaining: limit.saturating_sub(used), day }
    }
}

impl Pausing {
    async fn written(mut self) -> Result<(), Error> {
        match self.done.wait_for(Option::is_some).await {
            Ok(written) => written.clone().unwrap_or(Ok(())),
            Err(_) => Err(Away::NoReply.into()),
        }
    }
}

impl Engines for Teller<'_> {
    async fn ask(&self, subject: Subject, call: Call) -> Result<Verdict, Away> {
        let tag = Tag::new(&self.engine.installation, subject);
        self.engine.reach.ask(&tag, self.clock, &call).await
    }

    async fn moment(&self) {
        sleep(MOMENT).await;
    }

    async fn pause(&self, key: KeyId, minute: Minute) -> Result<(), Error> {
        let Minute { generation, moment, times } = minute;
        let mut window = Window::default();
        for time in times {
            window.admit(time);
        }
        let mut seconds = window.last_minute(moment);
        // The one that was too many did not get into the window.
        seconds[seconds.len() - 1] += 1;
        let unix_ms = i64::try_from(moment).unwrap_or(i64::MAX);
        let now = Now { unix_ms, boot_ms: moment };
        self.engine.begin_pause(key, generation, seconds, now).written().await
    }

    async fn extend(&self, subject: Subject, day: Day, limit: u32) -> Result<(), Error> {
        let (sender, receiver) = oneshot::channel();
        let wish = Wish { subject, day, limit, clock: self.clock, end: End::Offer(Some(sender)) };
        let _ = self.engine.wishes.send(wish);
        receiver.await.unwrap_or(Err(Away::Unsettled.into()))
    }

    fn extend_later(&self, subject: Subject, day: Day, limit: u32) {
        let mut extending = self.engine.extending.lock().unwrap_or_else(PoisonError::into_inner);
        if extending.insert(subject) {
            let wish = Wish { subject, day, limit, clock: self.clock, end: End::Offer(None) };
            let _ = self.engine.wishes.send(wish);
        }
    }

    async fn take(&self, subject: Subject, day: Day, limit: u32) -> Result<Range, Error> {
        let (sender, receiver) = oneshot::channel();
        let wish = Wish { subject, day, limit, clock: None, end: End::Take(sender) };
        let _ = self.engine.wishes.send(wish);
        receiver.await.unwrap_or(Err(Away::Unsettled.into()))
    }
}

impl Counters for Shared {
    async fn charge_key(&self, key: &Key, now: Now) -> Result<KeyCharge, Error> {
        let engine = &self.engine;
        if engine.is_paused(key) {
            engine.refused(key.id, now);
            return Ok(KeyCharge::Paused);
        }
        let teller = engine.teller(engine.clock(now));
        let charged = engine.decided(protocol::charge_key(&teller, key, None)).await;
        engine.conclude_key(key, now, charged).await
    }

    async fn charge_demo(&self, now: Now) -> Result<Result<DayAllowance, DayAllowance>, Error> {
        let engine = &self.engine;
        let teller = engine.teller(engine.clock(now));
        let charged = engine.decided(protocol::charge_demo(&teller, None)).await;
        engine.conclude_demo(now, charged).await
    }

    fn asks_elsewhere(&self) -> bool {
        true
    }

    async fn charge_all(&self, asked: Vec<Asked>) -> Vec<Result<KeyCharge, Error>> {
        let engine = &self.engine;
        // Nobody sleeps: it tells the moment until which may be waited.
        let until = sleep(engine.plan.patience).deadline();
        let mut charged: Vec<Option<Result<KeyCharge, Error>>> = Vec::with_capacity(asked.len());
        let mut places = Vec::with_capacity(asked.len());
        let mut questions = Vec::with_capacity(asked.len());
        for (place, Asked { key, now }) in asked.iter().enumerate() {
            let (subject, call) = match key {
                Some(key) if engine.is_paused(key) => {
                    engine.refused(key.id, *now);
                    charged.push(Some(Ok(KeyCharge::Paused)));
                    continue;
                }
                Some(key) => (Subject::Key(key.id), protocol::charge_of_key(key)),
                None => (Subject::Demo, protocol::charge_of_demo()),
            };
            let tag = Tag::new(&engine.installation, subject);
            questions.push(Question { tag, clock: engine.clock(*now), call });
            charged.push(None);
            places.push(place);
        }
        let mut others = Vec::new();
        for (place, heard) in places.into_iter().zip(engine.reach.ask_all(&questions).await) {
            let asked = &asked[place];
            match heard {
                Some(Ok(Verdict::Granted { day, used, is_low })) => {
                    charged[place] = Some(Ok(engine.granted(asked, day, used, is_low)));
                }
                heard => others.push(async move { (place, engine.settle(asked, heard, until).await) }),
            }
        }
        for (place, settled) in join_all(others).await {
            charged[place] = Some(settled);
        }
        charged.into_iter().map(|charged| charged.unwrap_or(Err(Away::NoReply.into()))).collect()
    }

    fn note_refusal(&self, key: KeyId, now: Now) {
        self.engine.refused(key, now);
    }

    async fn used(&self, subject: Subject, day: Day) -> Result<u32, Error> {
        let engine = &self.engine;
        match engine.teller(None).ask(subject, Call::Look).await {
            Ok(Verdict::Seen(Some((seen, used)))) if seen == day => Ok(used),
            // What is folded once a second is near enough for whoever only looks.
            _ => engine.used_up_to(subject, day).await,
        }
    }

    fn forget(&self, key: KeyId) {
        let engine = &self.engine;
        engine.news.forget(Subject::Key(key));
        engine.generations.pin().remove(&key);
        engine.pauses.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    fn engine_report(&self) -> CountersReport {
        CountersReport {
            engine: "redis",
            pauses: self.engine.paused.load(Ordering::Relaxed),
            shared: Some((self.engine.plan.outage, self.report())),
        }
    }
}

/// What was decided, if it was in time.
fn in_time<T>(decided: Result<Result<T, Error>, Elapsed>) -> Result<T, Error> {
    decided.unwrap_or_else(|_| Err(Away::TooSlow.into()))
}

/// How far a day is used, of which so much remains.
fn used(allowance: DayAllowance) -> (Day, u32) {
    (allowance.day, allowance.limit.saturating_sub(allowance.remaining))
}
