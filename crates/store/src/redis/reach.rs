//! How the shared engine is reached: one connection to each of its servers, kept open, watched, and opened again.
//!
//! A connection is there to be used only while its server has answered lately, is a master, and is the incarnation that was
//! seen when the connection was opened. While there is none nothing is sent, and whoever asks is told so at once.

use super::cluster::{self, SLOTS, slot_of};
use super::function::{Call, Script, TEXT, Tag, Verdict, command};
use super::sentinel;
use super::url::{Arrangement, CountersUrl, Place};
use crate::trust::Distrust;
use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo, RedisConnectionInfo,
    RedisError, ServerErrorKind, TlsCertificates, Value,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};

/// How often a server is asked whether it is still the one it was.
const WATCH_EVERY: Duration = Duration::from_millis(250);
/// How long it may take to say so, and to be connected to.
const WATCH_WITHIN: Duration = Duration::from_millis(500);
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// How long is waited before a connection is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How often sentinels are asked whether the master is still the same.
const SENTINEL_EVERY: Duration = Duration::from_secs(1);
/// How often members of a cluster are asked who has which slots.
const CLUSTER_EVERY: Duration = Duration::from_secs(1);
/// After so many replies in a row that did not come, the server is asked whether it is there at all.
const SILENT_AFTER: u32 = 3;
/// For so many looks a refusal says something about the next request: about ten seconds.
const REFUSES_FOR: u32 = 40;
/// What is said of a server that says nothing.
const SILENT: &str = "it does not answer";
/// The code of an error that asks for a password.
const NO_PASSWORD: &str = "NOAUTH";
/// Errors after which the same is asked once more: with the whole text, or of another server.
const ASKED_AGAIN: [ServerErrorKind; 3] =
    [ServerErrorKind::NoScript, ServerErrorKind::Moved, ServerErrorKind::Ask];
/// How often a call follows a redirection to another member of a cluster.
const REDIRECTIONS: u32 = 3;

/// Why a shared engine did not decide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Away {
    /// There is no connection, and nothing was sent.
    #[error("the shared counters at {place} cannot be reached: {why}")]
    NotReached {
        /// Where they should be.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// The engine refused, and did nothing.
    #[error("the shared counters refused to count: {0}")]
    Refused(String),
    /// It is not known whether anything was done.
    #[error("the shared counters did not answer in time")]
    NoReply,
    /// The same, and it is not known who took so long.
    #[error(
        "no decision came in time: the shared counters, or the database that they need now and then, are too slow"
    )]
    TooSlow,
    /// It came so late that nobody waited any more, and nothing was done.
    #[error("the shared counters were asked so late that they did nothing")]
    Stale,
    /// What came back is not what our function says.
    #[error("the shared counters answered with something else than our function does")]
    Unreadable,
    /// Ranges were reserved, and still there was none.
    #[error("the shared counters and the records do not agree at the moment")]
    Unsettled,
    /// The engines are away, and this node has given out its share of the minute.
    #[error("the shared counters are away, and this node has given out its share of the key's minute")]
    ShareGiven,
}

impl Away {
    /// Whether it is certain that nothing was charged.
    #[must_use]
    pub fn nothing_was_done(&self) -> bool {
        matches!(self, Self::NotReached { .. } | Self::Refused(_) | Self::Stale)
    }
}

/// What connections are made with.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) url: CountersUrl,
    /// Who vouches for the servers' certificates, PEM, instead of those whom the system trusts.
    pub(super) authority: Option<Vec<u8>>,
    /// How long a reply may take.
    pub(super) patience: Duration,
    /// What a server was told in another epoch is not to be believed.
    pub(super) epoch: String,
}

/// What the function is asked about one subject.
pub(super) struct Question {
    /// Under which the subject lies.
    pub(super) tag: Tag,
    /// The moment, where tests say it.
    pub(super) clock: Option<i64>,
    pub(super) call: Call,
}

/// The shared engine, as far as it can be reached.
pub(super) struct Reach {
    plan: Plan,
    shards: ArcSwap<Shards>,
    /// Somebody saw that the slots of a cluster have moved.
    moved: Notify,
    /// A connection was opened.
    opened: Arc<Notify>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// Who has which slot.
#[derive(Default)]
struct Shards {
    by_place: HashMap<Place, Arc<Shard>>,
    /// Of each slot its server; empty where one server has all.
    by_slot: Vec<Option<Arc<Shard>>>,
    only: Option<Arc<Shard>>,
    /// Why there is none.
    why: String,
}

/// One server, or the place of one.
struct Shard {
    line: ArcSwapOption<Line>,
    /// Somebody has reason to doubt the connection.
    doubt: Notify,
    /// Replies in a row that did not come.
    silent: AtomicU32,
    /// For so many looks at the connection it counts that the server refused, and why it did.
    refuses: AtomicU32,
    refusal: Mutex<String>,
    /// Why there is no connection.
    why: Mutex<String>,
    /// Where it is tried to connect to.
    place: Mutex<String>,
}

/// A connection to one incarnation of one server.
struct Line {
    connection: MultiplexedConnection,
    incarnation: String,
    /// The same in this epoch: what ranges are believed that it holds.
    believed: String,
    script: String,
    opened: Instant,
    /// How far its clock is ahead of the time since the connection was opened, in milliseconds, as it last told.
    ahead_ms: AtomicI64,
}

impl Reach {
    /// Begins to connect, and goes on doing so.
    pub(super) fn open(plan: Plan) -> Arc<Self> {
        let reach = Arc::new(Self {
            shards: ArcSwap::from_pointee(Shards::default()),
            moved: Notify::new(),
            opened: Arc::new(Notify::new()),
            tasks: Mutex::default(),
            plan,
        });
        let task = match reach.plan.url.arrangement {
            Arrangement::Cluster => tokio::spawn(follow_cluster(Arc::clone(&reach))),
            Arrangement::Single | Arrangement::Sentinel(_) => {
                let shard = Arc::new(Shard::new(&reach.plan.url.to_string()));
                reach.shards.store(Arc::new(Shards { only: Some(Arc::clone(&shard)), ..Shards::default() }));
                tokio::spawn(keep(reach.plan.clone(), shard, None, Arc::clone(&reach.opened)))
            }
        };
        reach.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        reach
    }

    /// Ends all connections.
    pub(super) fn close(&self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
        self.shards.store(Arc::new(Shards { why: "it was closed".to_owned(), ..Shards::default() }));
    }

    /// Waits until every server can be asked, or gives up.
    pub(super) async fn settle(&self, within: Duration) {
        let settled = async {
            loop {
                let opened = self.opened.notified();
                if self.missing().is_none() {
                    return;
                }
                opened.await;
            }
        };
        // Whoever is told so goes on without them.
        let _ = timeout(within, settled).await;
    }

    /// What is missing: nothing if every server can be asked.
    pub(super) fn missing(&self) -> Option<Away> {
        let shards = self.shards.load();
        let mut all = shards.by_place.values().chain(&shards.only).peekable();
        if all.peek().is_none() {
            return Some(self.not_reached(&shards.why));
        }
        all.find_map(|shard| match shard.line.load().is_none() {
            true => Some(shard.not_reached()),
            false => shard.refusal(),
        })
    }

    /// Asks the function about many, each server in one step. Nothing is heard of what must be [asked](Self::ask) alone: nothing
    /// was done about it.
    pub(super) async fn ask_all(&self, questions: &[Question]) -> Vec<Option<Result<Verdict, Away>>> {
        let mut heard: Vec<_> = questions.iter().map(|_| None).collect();
        let mut by_shard: Vec<(Arc<Shard>, Vec<usize>)> = Vec::new();
        for (place, question) in questions.iter().enumerate() {
            match self.shard_of(&question.tag) {
                Err(away) => heard[place] = Some(Err(away)),
                Ok(shard) => match by_shard.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &shard)) {
                    Some((_, places)) => places.push(place),
                    None => by_shard.push((shard, vec![place])),
                },
            }
        }
        let replies = by_shard.iter().map(|(shard, places)| self.ask_shard(shard, questions, places));
        for ((shard, places), replies) in by_shard.iter().zip(join_all(replies).await) {
            match replies {
                Err(away) => places.iter().for_each(|place| heard[*place] = Some(Err(away.clone()))),
                Ok(replies) => {
                    let mut replies = replies.into_iter();
                    for place in places {
                        let replied = replies.next().map(Value::extract_error);
                        heard[*place] = replied.map_or(Some(Err(Away::Unreadable)), |replied| {
                            let is_asked_again = ASKED_AGAIN.iter().any(|kind| is(&replied, *kind));
                            (!is_asked_again).then(|| shard.verdict(replied))
                        });
                    }
                }
            }
        }
        heard
    }

    /// Asks one server about some of many.
    async fn ask_shard(
        &self,
        shard: &Shard,
        questions: &[Question],
        places: &[usize],
    ) -> Result<Vec<Value>, Away> {
        let line = shard.line.load_full().ok_or_else(|| shard.not_reached())?;
        let deadline = line.deadline(self.plan.patience);
        let mut all = redis::Pipeline::with_capacity(places.len());
        for Question { tag, clock, call } in places.iter().map(|place| &questions[*place]) {
            let script = Script::Hash(&line.script);
            all.add_command(command(script, tag, &line.believed, *clock, deadline, call));
        }
        let mut connection = line.connection.clone();
        let sent = connection.send_packed_commands(&all, 0, places.len());
        match shard.heard(timeout(self.plan.patience, sent).await)? {
            Ok(replies) => Ok(replies),
            // It is said of all of them.
            Err(error) => Err(shard.refused(&error)),
        }
    }

    /// Asks the function about what lies under a tag.
    pub(super) async fn ask(&self, tag: &Tag, clock: Option<i64>, call: &Call) -> Result<Verdict, Away> {
        let mut shard = self.shard_of(tag)?;
        let mut is_asking = false;
        for _ in 0..REDIRECTIONS {
            let line = shard.line.load_full().ok_or_else(|| shard.not_reached())?;
            let deadline = line.deadline(self.plan.patience);
            let by = |script| command(script, tag, &line.believed, clock, deadline, call);
            let mut replied = self.send(&shard, &line, &by(Script::Hash(&line.script)), is_asking).await?;
            if is(&replied, ServerErrorKind::NoScript) {
                replied = self.send(&shard, &line, &by(Script::Text), is_asking).await?;
            }
            is_asking = is(&replied, ServerErrorKind::Ask);
            let error = match replied {
                Err(error) if is_asking || error.kind() == ErrorKind::Server(ServerErrorKind::Moved) => error,
                replied => return shard.verdict(replied),
            };
            self.moved.notify_one();
            let place = error.redirect_node().and_then(|(place, _)| cluster::place(place));
            let known = place.and_then(|place| self.shards.load().by_place.get(&place).cloned());
            shard = known
                .ok_or_else(|| Away::Refused("a slot has moved to a server that is not known yet".into()))?;
        }
        Err(Away::Refused("a slot is moved from server to server".into()))
    }

    /// Sends one command. An error of its own is one that the server answered with.
    async fn send(
        &self,
        shard: &Shard,
        line: &Line,
        command: &Cmd,
        is_asking: bool,
    ) -> Result<Result<Value, RedisError>, Away> {
        let mut connection = line.connection.clone();
        let replied = if is_asking {
            let mut both = redis::pipe();
            both.cmd("ASKING").ignore().add_command(command.clone());
            timeout(self.plan.patience, async {
                connection.send_packed_commands(&both, 1, 1).await.and_then(|mut replies| {
                    replies.pop().ok_or_else(|| RedisError::from((ErrorKind::Parse, "there was no reply")))
                })
            })
            .await
        } else {
            timeout(self.plan.patience, connection.send_packed_command(command)).await
        };
        // An error that the server answers with may come as a value.
        Ok(shard.heard(replied)?.and_then(Value::extract_error))
    }

    fn shard_of(&self, tag: &Tag) -> Result<Arc<Shard>, Away> {
        let shards = self.shards.load();
        let found = match &shards.only {
            Some(shard) => Some(shard),
            None => shards.by_slot.get(usize::from(slot_of(tag.state().as_bytes()))).and_then(Option::as_ref),
        };
        found.cloned().ok_or_else(|| self.not_reached(&shards.why))
    }

    fn not_reached(&self, why: &str) -> Away {
        let why = if why.is_empty() { "it was not asked yet" } else { why };
        Away::NotReached { place: self.plan.url.to_string(), why: why.to_owned() }
    }
}

impl Shard {
    fn new(place: &str) -> Self {
        Self {
            line: ArcSwapOption::empty(),
            doubt: Notify::new(),
            silent: AtomicU32::new(0),
            refuses: AtomicU32::new(0),
            refusal: Mutex::default(),
            why: Mutex::new("it was not asked yet".to_owned()),
            place: Mutex::new(place.to_owned()),
        }
    }

    fn not_reached(&self) -> Away {
        let text = |text: &Mutex<String>| text.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Away::NotReached { place: text(&self.place), why: text(&self.why) }
    }

    /// Notes whether a reply came at all. An error of its own is one that the server answered with.
    fn heard<T>(
        &self,
        replied: Result<Result<T, RedisError>, Elapsed>,
    ) -> Result<Result<T, RedisError>, Away> {
        match replied {
            Ok(Ok(reply)) => {
                if self.silent.load(Ordering::Relaxed) > 0 {
                    self.silent.store(0, Ordering::Relaxed);
                }
                Ok(Ok(reply))
            }
            Ok(Err(error)) if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) => {
                Ok(Err(error))
            }
            Ok(Err(_)) => {
                self.doubt.notify_one();
                Err(Away::NoReply)
            }
            Err(_) => {
                if self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT_AFTER {
                    self.doubt.notify_one();
                }
                Err(Away::NoReply)
            }
        }
    }

    /// What came of a question.
    fn verdict(&self, replied: Result<Value, RedisError>) -> Result<Verdict, Away> {
        let value = replied.map_err(|error| self.refused(&error))?;
        if self.refuses.load(Ordering::Relaxed) > 0 {
            self.refuses.store(0, Ordering::Relaxed);
        }
        Verdict::read(value)
    }

    /// It was made a replica, is loading, or has no memory left: whatever it is, nothing was done.
    fn refused(&self, error: &RedisError) -> Away {
        self.doubt.notify_one();
        let why = in_words(error);
        Shard::set(&self.refusal, why.clone());
        self.refuses.store(REFUSES_FOR, Ordering::Relaxed);
        Away::Refused(why)
    }

    /// Why it refused to count a short while ago, if it did and has not counted since.
    fn refusal(&self) -> Option<Away> {
        let refused = self.refuses.load(Ordering::Relaxed) > 0;
        refused.then(|| Away::Refused(self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }

    fn set(text: &Mutex<String>, to: String) {
        *text.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

/// Keeps a connection to one server: always to the one of `place`, or to whichever is the master now.
async fn keep(plan: Plan, shard: Arc<Shard>, place: Option<Place>, opened: Arc<Notify>) {
    loop {
        let opening = async {
            let place = match (&place, &plan.url.arrangement) {
                (Some(place), _) => place.clone(),
                (None, Arrangement::Sentinel(name)) => sentinel::master(&plan, name).await?,
                (None, _) => plan.url.places[0].clone(),
            };
            Shard::set(&shard.place, place.to_string());
            Line::open(&plan, &place).await.map(|line| (place, line))
        };
        match opening.await {
            Ok((place, line)) => {
                let line = Arc::new(line);
                shard.silent.store(0, Ordering::Relaxed);
                shard.line.store(Some(Arc::clone(&line)));
                opened.notify_waiters();
                let why = tokio::select! {
                    why = watch(&shard, &line) => why,
                    why = succeeded(&plan, &place) => why,
                };
                shard.line.store(None);
                Shard::set(&shard.why, why);
            }
            Err(why) => Shard::set(&shard.why, why),
        }
        sleep(TRY_AGAIN_AFTER).await;
    }
}

/// Waits until sentinels name another master than this one, and says so. One that was cut off from them is told last that it
/// is none any more, and what it counts until then is lost.
async fn succeeded(plan: &Plan, place: &Place) -> String {
    let Arrangement::Sentinel(name) = &plan.url.arrangement else { return std::future::pending().await };
    loop {
        if let Ok(master) = sentinel::master(plan, name).await
            && master != *place
        {
            return format!("the sentinels have made {master} the master");
        }
        sleep(SENTINEL_EVERY).await;
    }
}

/// Looks at a connection until there is something wrong with it, and says what.
async fn watch(shard: &Shard, line: &Line) -> String {
    let mut connection = line.connection.clone();
    loop {
        // Either is a reason to look.
        let _ = timeout(WATCH_EVERY, shard.doubt.notified()).await;
        let _ = shard.refuses.try_update(Ordering::Relaxed, Ordering::Relaxed, |looks| looks.checked_sub(1));
        match timeout(WATCH_WITHIN, look_at(&mut connection, line.opened)).await {
            Ok(Ok((incarnation, ahead_ms))) if incarnation == line.incarnation => {
                line.ahead_ms.store(ahead_ms, Ordering::Relaxed);
            }
            Ok(Ok(_)) => return "it has become another one".to_owned(),
            Ok(Err(why)) => return why,
            Err(_) => return SILENT.to_owned(),
        }
    }
}

impl Line {
    async fn open(plan: &Plan, place: &Place) -> Result<Self, String> {
        let mut connection = connect(plan, place, Entry::ToDatabase).await?;
        let opened = now();
        let set_up = async {
            let (incarnation, ahead_ms) = look_at(&mut connection, opened).await?;
            let load = redis::cmd("SCRIPT").arg("LOAD").arg(TEXT).to_owned();
            let loaded = connection.send_packed_command(&load).await.map_err(|error| in_words(&error))?;
            let script = redis::from_redis_value(loaded).map_err(|error| error.to_string())?;
            Ok::<_, String>((incarnation, ahead_ms, script))
        };
        let (incarnation, ahead_ms, script) =
            timeout(CONNECT_WITHIN, set_up).await.map_err(|_| SILENT.to_owned())??;
        let believed = format!("{incarnation}{}", plan.epoch);
        Ok(Self { connection, incarnation, believed, script, opened, ahead_ms: ahead_ms.into() })
    }

    /// The moment by the server's clock after which nobody waits for what is sent now.
    fn deadline(&self, patience: Duration) -> i64 {
        let patience = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        milliseconds_since(self.opened)
            .saturating_add(self.ahead_ms.load(Ordering::Relaxed))
            .saturating_add(patience)
    }
}

/// Time on this machine is only ever compared with itself here: to know what a server's clock shows now.
#[expect(clippy::disallowed_methods, reason = "no request's moment, but the age of what a server told")]
fn now() -> Instant {
    Instant::now()
}

fn milliseconds_since(moment: Instant) -> i64 {
    i64::try_from(now().saturating_duration_since(moment).as_millis()).unwrap_or(i64::MAX)
}

/// How somebody introduces themselves to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Not at all.
    Unnamed,
    /// With user and password, if there are any.
    Named,
    /// The same, and with the database that is meant. Sentinels know none.
    ToDatabase,
}

/// Why a server was not asked, or did not say what it was asked for.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) why: String,
    /// It tells nothing to those who do not name themselves.
    pub(super) wants_password: bool,
    /// It does not accept those who do.
    pub(super) is_refusal: bool,
}

impl From<RedisError> for Trouble {
    fn from(error: RedisError) -> Self {
        Self {
            why: in_words(&error),
            wants_password: error.code() == Some(NO_PASSWORD),
            is_refusal: error.kind() == ErrorKind::AuthenticationFailed,
        }
    }
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self { why, wants_password: false, is_refusal: false }
    }
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> Self {
        trouble.why
    }
}

/// Connects to one server.
pub(super) async fn connect(
    plan: &Plan,
    place: &Place,
    entry: Entry,
) -> Result<MultiplexedConnection, Trouble> {
    let (host, port) = (place.host.clone(), place.port);
    let address = if plan.url.is_tls {
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    };
    let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    if entry == Entry::ToDatabase {
        settings = settings.set_db(plan.url.database);
    }
    if entry != Entry::Unnamed {
        if let Some(user) = &plan.url.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &plan.url.password {
            settings = settings.set_password(password);
        }
    }
    let info = address.into_connection_info().map(|info| info.set_redis_settings(settings));
    let info = info?;
    let client = match &plan.authority {
        Some(authority) if plan.url.is_tls => {
            let certificates = TlsCertificates { client_tls: None, root_cert: Some(authority.clone()) };
            Client::build_with_tls(info, certificates)
        }
        _ => Client::open(info),
    };
    // Each call has its own patience.
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_WITHIN)).set_response_timeout(None);
    let client = client?;
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    let connected = match timeout(2 * CONNECT_WITHIN, connecting).await {
        Ok(connected) => connected.map_err(Trouble::from),
        Err(_) => Err(SILENT.to_owned().into()),
    };
    connected.map_err(|mut trouble| {
        // A server that does not speak TLS waits for the end of what it takes for a command.
        if plan.url.is_tls && trouble.why == SILENT {
            trouble.why.push_str("; does it speak TLS there?");
        }
        trouble
    })
}

/// Which process this is, and since it was last made a master: what was counted by another one is not to be believed. And how
/// far its clock is ahead of the time since `opened`; at least so far, because asking takes a while.
async fn look_at(connection: &mut MultiplexedConnection, opened: Instant) -> Result<(String, i64), String> {
    let asked = milliseconds_since(opened);
    let time = redis::cmd("TIME").query_async::<(i64, i64)>(connection).await;
    let (seconds, micros) = time.map_err(|error| in_words(&error))?;
    let ahead_ms = seconds.saturating_mul(1_000).saturating_add(micros / 1_000 + 1).saturating_sub(asked);
    let mut tell = async |section: &str| {
        let told = redis::cmd("INFO").arg(section).query_async::<String>(connection).await;
        told.map_err(|error| in_words(&error))
    };
    let (server, replication) = (tell("server").await?, tell("replication").await?);
    let find = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim));
        line.map(str::to_owned).ok_or_else(|| format!("it does not tell its {name}"))
    };
    match find(&replication, "role")?.as_str() {
        "master" => {}
        role => return Err(format!("it is a {role}, and only a master can count")),
    }
    let (run, history) = (find(&server, "run_id")?, find(&replication, "master_replid")?);
    let part = |id: &str| id.chars().take(16).collect::<String>();
    Ok((part(&run) + &part(&history), ahead_ms))
}

/// Asks members of a cluster again and again who has which slots.
async fn follow_cluster(reach: Arc<Reach>) {
    let mut keepers: HashMap<Place, Keeper> = HashMap::new();
    loop {
        let known: Vec<Place> = reach.shards.load().by_place.keys().cloned().collect();
        let mut learned = Err("no member of the cluster can be reached".to_owned());
        for place in known.iter().chain(&reach.plan.url.places) {
            learned = cluster::slots(&reach.plan, place).await;
            if learned.is_ok() {
                break;
            }
        }
        match learned {
            Ok(ranges) => {
                keepers.retain(|place, _| ranges.iter().any(|range| range.place == *place));
                let mut shards = Shards { by_slot: vec![None; usize::from(SLOTS)], ..Shards::default() };
                for range in ranges {
                    let keeper = keepers.entry(range.place.clone()).or_insert_with(|| {
                        Keeper::start(&reach.plan, &range.place, Arc::clone(&reach.opened))
                    });
                    for slot in range.first..=range.last {
                        if let Some(place) = shards.by_slot.get_mut(usize::from(slot)) {
                            *place = Some(Arc::clone(&keeper.shard));
                        }
                    }
                    shards.by_place.insert(range.place, Arc::clone(&keeper.shard));
                }
                shards.why = "nobody in the cluster has the slot".to_owned();
                reach.shards.store(Arc::new(shards));
            }
            Err(why) if reach.shards.load().by_place.is_empty() => {
                reach.shards.store(Arc::new(Shards { why, ..Shards::default() }));
            }
            // Who can still be asked, is; the rest is found out by asking.
            Err(_) => sleep(TRY_AGAIN_AFTER).await,
        }
        let _ = timeout(CLUSTER_EVERY, reach.moved.notified()).await;
        sleep(TRY_AGAIN_AFTER).await;
    }
}

/// A server of a cluster, and the task that keeps the connection to it.
struct Keeper {
    shard: Arc<Shard>,
    task: JoinHandle<()>,
}

impl Keeper {
    fn start(plan: &Plan, place: &Place, opened: Arc<Notify>) -> Self {
        let shard = Arc::new(Shard::new(&place.to_string()));
        let task = tokio::spawn(keep(plan.clone(), Arc::clone(&shard), Some(place.clone()), opened));
        Self { shard, task }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
        self.shard.line.store(None);
    }
}

fn is(replied: &Result<Value, RedisError>, kind: ServerErrorKind) -> bool {
    replied.as_ref().is_err_and(|error| error.kind() == ErrorKind::Server(kind))
}

/// What an engine or its connection says, without what we said to it.
pub(super) fn in_words(error: &RedisError) -> String {
    match error.kind() {
        ErrorKind::AuthenticationFailed => "it does not accept the user or the password".to_owned(),
        ErrorKind::Parse => "what answers there is neither Redis nor Valkey".to_owned(),
        ErrorKind::Server(_) | ErrorKind::Extension if error.code() == Some(NO_PASSWORD) => {
            "it wants a password, which --counters-password-file can hold".to_owned()
        }
        ErrorKind::Server(_) | ErrorKind::Extension => {
            let (code, detail) = (error.code().unwrap_or("ERR"), error.detail().unwrap_or_default());
            format!("{code} {detail}").trim().trim_end_matches('.').to_owned()
        }
        ErrorKind::Io if error.is_connection_refusal() => "nobody listens there".to_owned(),
        ErrorKind::Io if error.is_timeout() => SILENT.to_owned(),
        _ => {
            let text = error.to_string();
            let Some(distrust) = Distrust::find(&text) else { return text };
            let remedy = match distrust {
                Distrust::Unknown => "--counters-ca names who does",
                Distrust::Name => "--counters must name it as its certificate does",
                Distrust::Time => "renew it, or set the clock of this machine",
                Distrust::NoTls => "redis:// is for servers that do not",
            };
            format!("{}; {remedy}", distrust.in_words())
        }
    }
}
