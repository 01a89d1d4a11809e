//! The wiring: store, keys, counters, API and pages behind the edge; start and stop.

use crate::config::{Config, OPEN_TO_OTHERS};
use crate::error::Error;
use crate::geo::{Geo, Origin};
use crate::nodes;
use crate::operator::{Health, History, Operator, SAMPLE_EVERY, Sights};
use crate::outages::Outages;
use crate::process;
use crate::update;
use arc_swap::ArcSwap;
use http::Method;
use ipse_api::{Api, Lookup, Replies};
use ipse_edge::{
    Acme, BindError, CertificateError, Certificates, Clock, ConnectionLimits, Door, Edge, Entrance, Handed,
    ListenAddr, Listener, Manner, Nobody, Opening, QuicDoor, Secrecy, Tls, Traffic, Trust, Visit,
};
use ipse_geo::Atlas;
use ipse_model::Now;
use ipse_site::{Desk, Examination, Site, SitePlan};
use ipse_store::{
    BootId, Claim, Counters, Counting, DataFolder, Database, DoctorLinks, Engine, FolderLock, KeyNews,
    KeyTable, Ledger, Node, Records, Shared,
};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior};

/// How often the geo data's file is looked at.
const WATCH_EVERY: Duration = Duration::from_secs(1);
const FOLD_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked for what owners of keys are to be told.
const TELL_EVERY: Duration = Duration::from_secs(2);
/// How often sessions and links that have ended are cleared away.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// How often a server that is to take over looks whether the other one has stopped.
const TAKE_OVER_EVERY: Duration = Duration::from_millis(20);
/// How long it waits: longer than the other one may take to finish.
const TAKE_OVER_WITHIN: Duration = Duration::from_secs(3700);
/// How many may be connected to the operator's listener: whoever collects metrics, a balancer, and a few people.
const OPERATORS: ConnectionLimits = ConnectionLimits { all: 64, each: 64 };

/// A server that is ready: its doors are open, and connections wait to be accepted.
pub struct Server {
    config: Config,
    clock: Clock,
    doors: Doors,
    addresses: Vec<SocketAddr>,
    urls: Vec<String>,
    operator_addresses: Vec<SocketAddr>,
    started: Now,
    base_url: String,
    records: Records,
    claim: Claim,
    counters: Arc<Engine>,
    node: Node,
    keys: Arc<KeyTable>,
    geo: Geo,
    site: Arc<Site<Engine>>,
    reload: Arc<Notify>,
    doctor_links: DoctorLinks,
    /// Whether plain lookups are answered at once where they can be.
    has_front: bool,
    /// Held until everything is written.
    _lock: FolderLock,
}

impl Server {
    /// Opens the data and then the doors. The geo data may still be on its way.
    pub async fn start(
        config: Config,
        clock: Clock,
        mut handed: Handed,
        geo: impl Future<Output = Result<Geo, Error>>,
    ) -> Result<Self, Error> {
        let folder = DataFolder::create(&config.data_dir)?;
        let (lock, early) = if config.reuse_port {
            // Callers who come from now on wait for us, and no longer for whoever is about to stop.
            let doors = open_doors(&config, &mut handed, clock.now())?;
            (patient_lock(&folder).await?, Some(doors))
        } else {
            (folder.lock()?, None)
        };
        let database = match &config.database {
            Some(url) => Database::Server(url.clone()),
            None => Database::Folder(folder.clone()),
        };
        let records = database.open().await?;
        records.check().await?;
        tracing::debug!(database.version = records.engine_version().await?, "the database is open");
        let node = nodes::this(config.node_name.clone(), clock.now())?;
        let (claim, counters) = open_counters(&config, &folder, &records, clock.now()).await?;
        let keys = Arc::new(KeyTable::load(&records).await?);
        let opened = async {
            let geo = geo.await?;
            let doors = match early {
                Some(doors) => doors,
                None => open_doors(&config, &mut handed, clock.now())?,
            };
            let clear = doors.first(|manner| matches!(manner, Manner::Clear));
            let base_url = config.base_url_at(clear, doors.first(is_tls));
            let site = Site::open(SitePlan {
                links: config.links(base_url.clone()),
                operator: config.operator.clone(),
                records: records.clone(),
                counters: Arc::clone(&counters),
                keys: Arc::clone(&keys),
                mail: config.mail.clone(),
                sign_up_is_open: config.open_signup,
                stand_back: process::stand_back,
            })?;
            Ok((geo, doors, base_url, site))
        };
        let (geo, doors, base_url, site) = match opened.await {
            Ok(opened) => opened,
            Err(error) => {
                // Nothing was charged: whatever may fail here is of less interest than why no door opened.
                let _ = counters.close(clock.now()).await;
                claim.release().await;
                records.close().await;
                return Err(error);
            }
        };
        let operator_addresses = doors.operator.iter().filter_map(|door| port_of(&door.listener)).collect();
        let addresses = doors.streams.iter().filter_map(|door| port_of(&door.listener)).collect();
        let urls = doors.streams.iter().map(url).collect();
        let reload = Arc::new(Notify::new());
        Ok(Self {
            started: clock.now(),
            config,
            clock,
            doors,
            addresses,
            urls,
            operator_addresses,
            base_url,
            records,
            claim,
            counters,
            node,
            keys,
            geo,
            site: Arc::new(site),
            reload,
            doctor_links: DoctorLinks::of(&folder),
            has_front: true,
            _lock: lock,
        })
    }

    /// Where the server listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The same as people write it: what is spoken at each door, and where it is.
    #[must_use]
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Where the operator looks.
    #[must_use]
    pub fn operator_addresses(&self) -> &[SocketAddr] {
        &self.operator_addresses
    }

    /// The address under which callers reach it.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The records, for looking at and changing keys beside the running server.
    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Where the geo data comes from that is served at first.
    #[must_use]
    pub fn geo_origin(&self) -> &Origin {
        &self.geo.origin
    }

    /// What is served right now.
    #[must_use]
    pub fn atlas(&self) -> Arc<Atlas> {
        self.geo.atlas.load_full()
    }

    /// Whoever notifies this wants the geo data's file to be read again.
    #[must_use]
    pub fn reload(&self) -> Arc<Notify> {
        Arc::clone(&self.reload)
    }

    /// Has every request take the long way, from which the short one of plain lookups must not differ. For whoever holds one to
    /// the other; no setting leads here.
    #[must_use]
    pub fn without_front(self) -> Self {
        Self { has_front: false, ..self }
    }

    /// How many keys there are.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Serves until `stop` is ready; then lets requests finish, unless `hurry` is ready first, and writes everything
    /// down.
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let Self {
            config,
            clock,
            mut doors,
            base_url,
            records,
            claim,
            counters,
            node,
            keys,
            geo,
            site,
            reload,
            started,
            has_front,
            ..
        } = self;
        let doctor =
            Doctor { links: self.doctor_links, trust: config.trust.clone(), entrances: config.entrances() };
        let atlas = Arc::clone(&geo.atlas);
        let links = config.links(base_url);
        let replies = Replies::new(links.clone());
        let lookup =
            Lookup { keys: Arc::clone(&keys), counters: Arc::clone(&counters), atlas: Arc::clone(&atlas) };
        let site_of_house = Arc::clone(&site);
        let house = Arc::new(House {
            api: Arc::new(Api::new(lookup, &links)),
            site: site_of_house,
            atlas: Arc::clone(&atlas),
            doctor,
        });
        let (health, traffic) = (Arc::new(Health::default()), Arc::<Traffic>::default());
        let sights = Sights {
            requests: Arc::clone(house.api.requests()),
            visits: Arc::clone(site.visits()),
            traffic: Arc::clone(&traffic),
            keys: Arc::clone(&keys),
            atlas,
            certificates: doors.certificates.clone(),
            health: Arc::clone(&health),
            counters: Box::new({
                let counters = Arc::clone(&counters);
                move || counters.engine_report()
            }),
            requests_fail: Box::new({
                let (house, clock) = (Arc::clone(&house), clock.clone());
                move || house.api.is_failing(clock.now())
            }),
            most_connections: config.limits.all,
            started,
        };
        let overseeing =
            oversee(std::mem::take(&mut doors.operator), sights, Desk::new(links), &config, &clock);

        let (ending, ended) = watch::channel(false);
        let tending = tokio::spawn(tend_accounts(site, Arc::clone(&health), clock.clone()));
        let tasks = || (Arc::clone(&health), clock.clone(), ended.clone());
        let mut refreshing =
            tokio::spawn(refresh_keys(keys, records.key_news(), Arc::clone(&counters), tasks()));
        let mut folding = tokio::spawn(fold(Arc::clone(&counters), tasks()));
        let gathering = tokio::spawn(nodes::gather(
            records.clone(),
            node,
            Arc::clone(&counters),
            clock.clone(),
            ended.clone(),
        ));
        let mut watching = tokio::spawn(watch_geo(geo, reload, tasks()));
        let updating = update::keep_updated(&config, &clock);
        let https = doors.first(is_tls).filter(|_| config.tls.redirect);
        let public_port = config.public_https_port();
        let refreshing_certificates =
            doors.certificates.map(|certificates| tokio::spawn(keep_fresh(certificates)));
        let obtaining_certificates = doors.acme.map(|acme| tokio::spawn(acme.run(clock.clone())));
        let edge = Edge {
            doors: doors.streams,
            quic_doors: doors.datagrams,
            trust: config.trust,
            clock: clock.clone(),
            limits: config.limits,
            drain: config.drain,
            prompt: has_front.then(|| Arc::clone(&house.api)),
            service: move |visit| {
                let house = Arc::clone(&house);
                async move { house.answer(&visit).await }
            },
            faults: Arc::new(move |fault| replies.fault(fault)),
            secrecy: Secrecy {
                redirect_to: https.map(|address| public_port.unwrap_or(address.port())),
                public_port,
                hsts: config.tls.hsts,
            },
            traffic,
        };
        // A server that no longer folds, or sees no changes of keys, must not look healthy.
        let mut failed = None;
        // Nor must two count one beside the other.
        let mut was_lost = false;
        let stop = async {
            tokio::select! {
                () = stop => {}
                _ = &mut refreshing => failed = Some("the task that reads changes of keys"),
                _ = &mut folding => failed = Some("the task that writes counts"),
                _ = &mut watching => failed = Some("the task that watches the geo data"),
                () = claim.lost() => was_lost = true,
            }
            health.stop();
        };
        edge.run(stop, hurry).await;
        let _ = ending.send(true);
        // A download goes on where it ended, and a snapshot is put in place in one step.
        updating.iter().for_each(JoinHandle::abort);
        refreshing_certificates.iter().chain(&obtaining_certificates).for_each(JoinHandle::abort);
        tending.abort();
        for task in [refreshing, folding, watching, gathering] {
            if !task.is_finished() {
                let _ = task.await;
            }
        }
        if was_lost {
            // What is in memory is of before the other one began.
            Overseeing::end(overseeing).await;
            claim.release().await;
            records.close().await;
            return Err(Error::Refused(
                "another server counts requests on this database since the connection to it was lost; this one was stopped"
                    .to_owned(),
            ));
        }
        let closed = counters.close(clock.now()).await;
        claim.release().await;
        // To the very end it is told that this node is not ready any more.
        Overseeing::end(overseeing).await;
        records.close().await;
        closed?;
        match failed {
            Some(task) => Err(Error::Refused(format!("{task} ended unexpectedly; the server was stopped"))),
            None => Ok(()),
        }
    }
}

/// All open doors, and the certificates that are shown there.
struct Doors {
    streams: Vec<Door>,
    datagrams: Vec<QuicDoor>,
    /// Those of the operator alone.
    operator: Vec<Door>,
    certificates: Option<Arc<Certificates>>,
    acme: Option<Acme>,
}

impl Doors {
    /// Where the first door is at which callers speak in this manner.
    fn first(&self, is: impl Fn(&Manner) -> bool) -> Option<SocketAddr> {
        self.streams.iter().find(|door| is(&door.manner)).and_then(|door| port_of(&door.listener))
    }
}

/// Reads the certificates, if there is a door of HTTPS, and prepares for the authority that issues one.
fn open_certificates(config: &Config, now: Now) -> Result<(Option<Arc<Certificates>>, Option<Acme>), Error> {
    let Some(certificates) = config.tls.read_certificates()? else { return Ok((None, None)) };
    let Some(plan) = config.tls.acme.clone() else { return Ok((Some(Arc::new(certificates)), None)) };
    let (acme, certificates) = Acme::open(plan, &config.data_dir.join("acme"), certificates, now)?;
    Ok((Some(certificates), Some(acme)))
}

/// Opens all doors; those that speak TLS show the certificates.
fn open_doors(config: &Config, handed: &mut Handed, now: Now) -> Result<Doors, Error> {
    let (certificates, acme) = open_certificates(config, now)?;
    let tls = certificates.as_ref().map(Tls::new);
    let tls = tls.transpose().map_err(CertificateError::Made)?;
    let (streams, datagrams, operator) = (Vec::new(), Vec::new(), Vec::new());
    let mut doors = Doors { streams, datagrams, operator, certificates, acme };
    let mut open = |addresses: &[ListenAddr], datagrams: bool, manner: Manner| {
        let opened = ipse_edge::bind(addresses, Opening { datagrams, shared: config.reuse_port }, handed)?;
        let with_manner = |listener| Door { listener, manner: manner.clone() };
        doors.streams.extend(opened.streams.into_iter().map(with_manner));
        Ok::<_, BindError>(opened.datagrams)
    };
    open(&config.listen, false, Manner::Clear)?;
    let mut sockets = Vec::new();
    if let Some(tls) = &tls {
        sockets = open(&config.tls.listen, config.tls.http3, Manner::Tls(tls.clone()))?;
    }
    open(&config.proxy_listen, false, Manner::Introduced(tls.clone()))?;
    for (socket, tls) in sockets.into_iter().zip(tls.iter().cycle()) {
        let quic = |source| Error::System { what: "cannot open a door for HTTP/3", source };
        doors.datagrams.push(QuicDoor::open(socket, tls).map_err(quic)?);
    }
    doors.operator = open_operators_doors(config, handed)?;
    Ok(doors)
}

/// Opens the operator's listener. Where nobody asked for it and another program is there, perhaps a second server of this
/// kind, it is done without.
fn open_operators_doors(config: &Config, handed: &mut Handed) -> Result<Vec<Door>, Error> {
    let admin = &config.admin;
    let opening = Opening { datagrams: false, shared: config.reuse_port };
    let opened = match ipse_edge::bind(&admin.listen, opening, handed) {
        Err(BindError::InUse(address)) if admin.is_default => {
            tracing::warn!(
                "{address} is in use, so there is no operator's listener; choose another address with --admin-listen, or none"
            );
            return Ok(Vec::new());
        }
        opened => opened?.streams,
    };
    // Of sockets that were handed over it is only known now where they are.
    let outside =
        opened.iter().filter_map(port_of).find(|address| !address.ip().to_canonical().is_loopback());
    match outside {
        Some(address) if !admin.is_open => {
            Err(Error::Refused(format!("the operator's listener at {address} {OPEN_TO_OTHERS}")))
        }
        Some(address) => {
            tracing::warn!(
                "the operator's listener at {address} is open to others than this machine, without a password"
            );
            Ok(clear(opened))
        }
        None => Ok(clear(opened)),
    }
}

fn clear(listeners: Vec<Listener>) -> Vec<Door> {
    listeners.into_iter().map(|listener| Door { listener, manner: Manner::Clear }).collect()
}

/// What answers the operator, and takes samples for the overview.
struct Overseeing {
    sampling: JoinHandle<()>,
    answering: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Overseeing {
    /// Ends both, and waits until nobody is answered any more.
    async fn end(this: Option<Self>) {
        let Some(Self { sampling, answering, stop }) = this else { return };
        sampling.abort();
        drop(stop);
        let _ = answering.await;
    }
}

/// Answers the operator, if there is a door for them.
fn oversee(
    doors: Vec<Door>,
    sights: Sights,
    desk: Desk,
    config: &Config,
    clock: &Clock,
) -> Option<Overseeing> {
    if doors.is_empty() {
        return None;
    }
    let (sights, history) = (Arc::new(sights), Arc::new(History::default()));
    let sampling = tokio::spawn({
        let (sights, history, clock) = (Arc::clone(&sights), Arc::clone(&history), clock.clone());
        async move {
            let mut ticks = every(SAMPLE_EVERY);
            loop {
                ticks.tick().await;
                history.take(sights.sample(), clock.now());
            }
        }
    });
    let operator = Arc::new(Operator {
        sights,
        history,
        desk,
        hosts: config.admin.hosts.clone(),
        trust: config.trust.clone(),
        entrances: config.entrances(),
    });
    let replies = Replies::new(config.links(String::new()));
    let edge = Edge {
        doors,
        quic_doors: Vec::new(),
        trust: config.trust.clone(),
        clock: clock.clone(),
        limits: OPERATORS,
        drain: Duration::ZERO,
        service: move |visit| {
            let operator = Arc::clone(&operator);
            async move { operator.answer(&visit) }
        },
        prompt: None::<Arc<Nobody>>,
        faults: Arc::new(move |fault| replies.fault(fault)),
        secrecy: Secrecy::default(),
        traffic: Arc::default(),
    };
    let (stop, stopped) = oneshot::channel();
    let stopped = async { _ = stopped.await };
    let answering = tokio::spawn(edge.run(stopped, std::future::pending()));
    Some(Overseeing { sampling, answering, stop })
}

/// Waits for whoever serves from this folder to stop: we were started to take over.
async fn patient_lock(folder: &DataFolder) -> Result<FolderLock, Error> {
    let mut ticks = every(TAKE_OVER_EVERY);
    let mut waited = Duration::ZERO;
    loop {
        ticks.tick().await;
        match folder.lock() {
            Err(ipse_store::Error::InUse { .. }) if waited < TAKE_OVER_WITHIN => {
                if waited.is_zero() {
                    tracing::info!(
                        "asking the server that uses the data folder to stop, to take over from it"
                    );
                    // Callers may come to our doors already, and wait: the sooner it stops, the better.
                    if !folder.holder().is_some_and(process::ask_to_stop) {
                        tracing::warn!("it cannot be asked: stop it, because callers wait");
                    }
                }
                waited += TAKE_OVER_EVERY;
            }
            locked => return Ok(locked?),
        }
    }
}

fn port_of(listener: &Listener) -> Option<SocketAddr> {
    match listener {
        Listener::Tcp(listener) => listener.local_addr().ok(),
        Listener::Unix(_) => None,
    }
}

fn url(door: &Door) -> String {
    let place = match &door.listener {
        Listener::Tcp(listener) => {
            listener.local_addr().map(|address| address.to_string()).unwrap_or_default()
        }
        Listener::Unix(listener) => {
            let path =
                listener.local_addr().ok().and_then(|address| address.as_pathname().map(Path::to_owned));
            format!("unix:{}", path.unwrap_or_default().display())
        }
    };
    match (&door.manner, &door.listener) {
        (Manner::Clear, Listener::Tcp(_)) => format!("http://{place}"),
        (Manner::Tls(_), Listener::Tcp(_)) => format!("https://{place}"),
        (Manner::Introduced(_), _) => format!("{place} for the PROXY protocol"),
        (_, Listener::Unix(_)) => place,
    }
}

fn is_tls(manner: &Manner) -> bool {
    matches!(manner, Manner::Tls(_))
}

/// Looks at the files of certificates again and again.
async fn keep_fresh(certificates: Arc<Certificates>) {
    let mut ticks = every(WATCH_EVERY);
    loop {
        ticks.tick().await;
        let certificates = Arc::clone(&certificates);
        let _ = tokio::task::spawn_blocking(move || certificates.refresh()).await;
    }
}

/// What stands behind the door.
struct House {
    api: Arc<Api<Engine>>,
    site: Arc<Site<Engine>>,
    atlas: Arc<ArcSwap<Atlas>>,
    doctor: Doctor,
}

/// What the doctor needs to examine a request.
struct Doctor {
    links: DoctorLinks,
    trust: Trust,
    entrances: Vec<Entrance>,
}

impl House {
    async fn answer(&self, visit: &Visit) -> ipse_edge::Reply {
        let path = visit.request.uri.path();
        let api = Api::<Engine>::owns(path);
        let reply = if api {
            self.api.answer(visit).await
        } else if let Some(token) = path.strip_prefix("/doctor/")
            && Box::pin(self.doctor.admits(token, visit)).await
        {
            let Doctor { trust, entrances, .. } = &self.doctor;
            let diagnosis = &trust.explain(&visit.connection, &visit.request.headers);
            let (setup, forged) = (&trust.review(entrances), &trust.forged_headers());
            self.site.examine(visit, &Examination { diagnosis, setup, forged })
        } else {
            // Who has no link that is good learns no more than that there is nothing.
            let atlas = self.atlas.load_full();
            // In a box, because every lookup has room for what may be waited for here, and is moved with it.
            Box::pin(self.site.answer(visit, &atlas)).await
        };
        // No path: it could hold anything, and the query holds keys.
        tracing::debug!(api, http.status = reply.status().as_u16(), "answered");
        reply
    }
}

impl Doctor {
    /// Whether somebody came by a link that an operator made, and that has not ended.
    async fn admits(&self, token: &str, visit: &Visit) -> bool {
        let reads = [Method::GET, Method::HEAD].contains(&visit.request.method);
        let (links, token, now) = (self.links.clone(), token.to_owned(), visit.now);
        reads && tokio::task::spawn_blocking(move || links.admit(&token, now)).await.unwrap_or(false)
    }
}

/// What every task has that does something again and again: where it tells how that goes, the clock, and the end.
type Task = (Arc<Health>, Clock, watch::Receiver<bool>);

async fn refresh_keys(
    keys: Arc<KeyTable>,
    news: KeyNews,
    counters: Arc<Engine>,
    (health, clock, mut ended): Task,
) {
    let mut ticks = every(news.look_every());
    let mut failing = false;
    loop {
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => return,
            () = news.heard() => {}
            _ = ticks.tick() => {}
        }
        let refreshed = keys.refresh(clock.now()).await;
        health.keys.beat(&refreshed, clock.now());
        match refreshed {
            Ok(()) => {
                keys.take_gone().into_iter().for_each(|id| counters.forget(id));
                if std::mem::replace(&mut failing, false) {
                    tracing::info!("changes of keys are read again");
                }
            }
            // Told once, until it works again.
            Err(error) if !std::mem::replace(&mut failing, true) => {
                tracing::error!(error = %error, "cannot read changes of keys, serving those that are known");
            }
            Err(_) => {}
        }
    }
}

/// Tells owners what happened to their keys, and clears away what has ended.
async fn tend_accounts(site: Arc<Site<Engine>>, health: Arc<Health>, clock: Clock) {
    let mut ticks = every(TELL_EVERY);
    let mut since_swept = SWEEP_EVERY;
    let mut failing = false;
    loop {
        ticks.tick().await;
        let now = clock.now();
        since_swept += TELL_EVERY;
        let done = match site.tell_owners(now).await {
            Ok(()) if since_swept >= SWEEP_EVERY => {
                since_swept = Duration::ZERO;
                site.sweep(now).await
            }
            told => told,
        };
        health.accounts.beat(&done, now);
        match done {
            Ok(()) => failing = false,
            // Told once, until it works again.
            Err(error) if !std::mem::replace(&mut failing, true) => {
                tracing::error!(error = %error, "cannot read what owners are to be told, trying again");
            }
            Err(_) => {}
        }
    }
}

async fn fold(counters: Arc<Engine>, (health, clock, mut ended): Task) {
    let mut ticks = every(FOLD_EVERY);
    let mut failing = false;
    let mut outages = Outages::default();
    while next(&mut ticks, &mut ended).await {
        if let Engine::Shared(shared) = &*counters {
            outages.tell(shared);
        }
        let folded = counters.fold(clock.now()).await;
        health.folds.beat(&folded, clock.now());
        match folded {
            Ok(()) => {
                if std::mem::replace(&mut failing, false) {
                    tracing::info!("counts are written to the database again");
                }
            }
            // Told once, until it works again.
            Err(error) if !std::mem::replace(&mut failing, true) => {
                tracing::error!(error = %error, "cannot write counts to the database, trying again each second");
            }
            Err(_) => {}
        }
    }
}

/// Opens the engine that requests are counted with.
async fn open_counters(
    config: &Config,
    folder: &DataFolder,
    records: &Records,
    now: Now,
) -> Result<(Claim, Arc<Engine>), Error> {
    let ledger = || Ledger::open(folder, records, BootId::current(), now);
    let Some(plan) = config.counters.clone() else {
        let claim = records.claim(Counting::Alone).await?;
        return Ok((claim, Arc::new(Engine::Ledger(ledger().await?))));
    };
    if folder.has_journal() {
        // It counted alone until now: what it counted is taken along, while nobody else counts.
        let claim = records.claim(Counting::Alone).await?;
        ledger().await?.close(now).await?;
        folder.leave_journal()?;
        claim.release().await;
    }
    let claim = records.claim(Counting::Together).await?;
    Ok((claim, Arc::new(Engine::Shared(Shared::open(plan, records).await?))))
}

/// Looks at the file of the geo data each second, and when it is asked to.
async fn watch_geo(mut geo: Geo, reload: Arc<Notify>, (health, clock, mut ended): Task) {
    let (ask, asks) = std::sync::mpsc::channel();
    let (tell, mut told) = tokio::sync::mpsc::channel(1);
    // Reading a snapshot takes a part of a second of one core, which no request must wait for: a thread of its own can
    // give way to those that answer, and one of a pool could never be made as quick again as it was.
    let reader = std::thread::Builder::new().name("geo-data".to_owned()).spawn(move || {
        process::give_way();
        while let Ok(asked) = asks.recv() {
            if let Some(is_served) = geo.refresh(asked) {
                health.geo.beat(&is_served.then_some(()).ok_or("the log says why"), clock.now());
            }
            if tell.blocking_send(()).is_err() {
                break;
            }
        }
    });
    if let Err(error) = reader {
        tracing::error!(%error, "cannot start the thread that reads geo data");
        return;
    }
    let mut ticks = every(WATCH_EVERY);
    loop {
        let asked = tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => return,
            () = reload.notified() => true,
            _ = ticks.tick() => false,
        };
        if ask.send(asked).is_err() {
            return;
        }
        // A disk that does not answer must not keep the server from stopping.
        let told = tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => return,
            told = told.recv() => told,
        };
        if told.is_none() {
            return;
        }
    }
}

pub(crate) fn every(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for the next turn; `false` when there is none. A turn that has begun is always finished.
pub(crate) async fn next(ticks: &mut Interval, ended: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        biased;
        _ = ended.wait_for(|ended| *ended) => false,
        _ = ticks.tick() => true,
    }
}
