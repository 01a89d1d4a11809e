//! The open doors and the one way through them: whatever a caller speaks, a request comes out with its [`Client`], and a
//! reply goes back. At the end callers are let go in peace.

use crate::body::RequestBody;
use crate::client::{Arrival, Connection, Trust};
use crate::clock::{Clock, Stopwatch};
use crate::crowd::{Crowd, Seat};
use crate::fault::{FaultReplies, HttpFault};
use crate::front::{self, Entrance, Guest, Mailbox};
use crate::http2;
use crate::prompt::{Nobody, Prompt};
use crate::proxy::Introduced;
use crate::quic::{self, QuicDoor};
use crate::reply::{DateField, Reply, mark};
use crate::tcp::{self, Door, Listener, Manner, http1_builder};
use crate::tls::TlsFacts;
use crate::traffic::Traffic;
use futures_util::FutureExt;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use hyper::server::conn::http1;
use ipse_model::{Address, Client, HttpVersion, Now};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio_rustls::rustls::ServerConnection;

/// The largest head of a request that is served, in bytes of names and values.
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// The longest path and query that is served.
const MAX_TARGET_BYTES: usize = 8 * 1024;
pub(crate) const MAX_HEADERS: usize = 100;
/// How many requests may be under way at once on one connection.
pub(crate) const HTTP_STREAMS: u32 = 100;
/// How long a connection may take to bring the head of its next request.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection may go without a new request.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long callers of HTTP/1 who have asked before may begin another request after the doors were closed: it may have
/// been on its way.
const LAST_CALL: Duration = Duration::from_secs(1);
/// How long the last words on a connection may take to leave.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// One request, with all that is certain about who makes it and when.
pub struct Visit {
    /// The caller.
    pub client: Client,
    /// The moment by which everything about this request is judged.
    pub now: Now,
    /// How long ago that was, for whoever counts.
    pub stopwatch: Stopwatch,
    /// The head of the request.
    pub request: Parts,
    /// What comes behind it. Nothing of it is read before somebody does.
    pub body: RequestBody,
    /// What the connection itself told, for explaining how the caller was found.
    pub connection: Connection,
}

/// The open doors, and what stands behind them.
pub struct Edge<S, P = Nobody> {
    /// The doors.
    pub doors: Vec<Door>,
    /// The doors of HTTP/3.
    pub quic_doors: Vec<QuicDoor>,
    /// Whom to believe.
    pub trust: Trust,
    /// Where moments come from.
    pub clock: Clock,
    /// How many may be connected.
    pub limits: ConnectionLimits,
    /// How long open connections may take to finish once we stop.
    pub drain: Duration,
    /// Who answers: a function from a visit to its reply.
    pub service: S,
    /// Who answers plain requests at once, if anybody does.
    pub prompt: Option<Arc<P>>,
    /// What is said where the service cannot be asked.
    pub faults: FaultReplies,
    /// What is answered to callers who speak clearly and should not.
    pub secrecy: Secrecy,
    /// Where connections are counted.
    pub traffic: Arc<Traffic>,
}

/// How many connections may be open at once.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// In all; more wait in the kernel's queue.
    pub all: usize,
    /// From one address, or one network of IPv6 as customers get it; more are closed. Trusted proxies are not counted, but
    /// whom they introduce is.
    pub each: usize,
}

/// Whether callers are led from clear HTTP to HTTPS.
#[derive(Clone, Debug, Default)]
pub struct Secrecy {
    /// The port of HTTPS to which callers at a clear door are sent; `None` to serve them there.
    pub redirect_to: Option<u16>,
    /// The port at which callers find HTTPS, if it is another than that of its door.
    pub public_port: Option<u16>,
    /// How long browsers are told to come by HTTPS alone.
    pub hsts: Option<Duration>,
}

impl<S, F, P> Edge<S, P>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
    P: Prompt,
{
    /// Serves until `stop` is ready, then closes the doors and lets every request in progress finish, unless `hurry` is
    /// ready first.
    pub async fn run(self, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) {
        let Self {
            doors,
            quic_doors,
            trust,
            clock,
            limits,
            drain,
            service,
            prompt,
            faults,
            secrecy,
            traffic,
        } = self;
        let faults = traffic.counting(faults);
        let crowd = Arc::new(Crowd::new(limits.all, limits.each));
        let house = Arc::new(House {
            trust,
            clock,
            service,
            faults,
            drain,
            http1: http1_builder(),
            http2: http2::builder(),
            date: DateField::default(),
            redirect_to: secrecy.redirect_to,
            public_port: secrecy.public_port,
            hsts: secrecy.hsts.and_then(|time| format!("max-age={}", time.as_secs()).try_into().ok()),
            quic_ports: quic_doors.iter().filter_map(|door| Some(door.local_addr().ok()?.port())).collect(),
            closing: AtomicBool::new(false),
            traffic,
            mailboxes: mailboxes(prompt.is_some()),
            turns: AtomicUsize::new(0),
        });
        let (stage, stages) = watch::channel(Stage::Serving);
        let (doors, fronts) = match &prompt {
            Some(prompt) if !house.mailboxes.is_empty() => fronts(doors, &house, &crowd, prompt, &stages),
            _ => (doors, Vec::new()),
        };
        let at = |house: &Arc<House<S>>| (Arc::clone(house), Arc::clone(&crowd), stages.clone());
        let doors: Vec<_> = doors
            .into_iter()
            .map(|door| {
                let (house, crowd, stages) = at(&house);
                tokio::spawn(tcp::accept(door, house, crowd, stages))
            })
            .collect();
        let quic_doors: Vec<_> = quic_doors
            .into_iter()
            .map(|door| {
                let (house, crowd, stages) = at(&house);
                tokio::spawn(quic::accept(door, house, crowd, prompt.clone(), stages))
            })
            .collect();
        stop.await;
        house.closing.store(true, Ordering::Relaxed);
        let _ = stage.send(Stage::LastCall);
        house.mailboxes.iter().for_each(|mailbox| mailbox.ring());
        let mut all_gone = std::pin::pin!(async {
            for door in doors {
                let _ = door.await;
            }
            for front in fronts {
                let _ = front.await;
            }
            crowd.all_gone().await;
        });
        let last_call = LAST_CALL.min(drain);
        let draining = async {
            tokio::time::sleep(last_call).await;
            let _ = stage.send(Stage::Draining);
            tokio::time::sleep(drain - last_call).await;
        };
        let in_time = tokio::select! {
            biased;
            () = all_gone.as_mut() => true,
            () = draining => false,
            () = hurry => false,
        };
        if !in_time {
            // Where no time was to be given, nobody is cut short.
            if !drain.is_zero() {
                tracing::warn!(connections.left = crowd.open(), "closing connections that are still open");
            }
            let _ = stage.send(Stage::Ended);
            all_gone.await;
        }
        let _ = stage.send(Stage::Gone);
        for door in quic_doors {
            let _ = tokio::time::timeout(LAST_WORDS, door).await;
        }
    }
}

/// One mailbox for each core, if there are loops to look into them.
fn mailboxes(has_front: bool) -> Vec<Arc<Mailbox>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let count = if has_front { cores } else { 0 };
    // Without them all goes the other way.
    (0..count).map_while(|_| Mailbox::new().ok().map(Arc::new)).collect()
}

/// Puts loops at the doors of TCP, and says which doors are left.
fn fronts<S, F, P>(
    doors: Vec<Door>,
    house: &Arc<House<S>>,
    crowd: &Arc<Crowd>,
    prompt: &Arc<P>,
    stages: &watch::Receiver<Stage>,
) -> (Vec<Door>, Vec<oneshot::Receiver<()>>)
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
    P: Prompt,
{
    let (mut entrances, mut others) = (Vec::new(), Vec::new());
    for door in doors {
        match door {
            // Where everybody is sent elsewhere, nothing is looked up.
            Door { listener: Listener::Tcp(listener), manner: Manner::Clear }
                if house.redirect_to.is_none() =>
            {
                entrances.push((listener, None));
            }
            Door { listener: Listener::Tcp(listener), manner: Manner::Tls(tls) } => {
                entrances.push((listener, Some(Arc::new(tls))));
            }
            door => others.push(door),
        }
    }
    let entrances: io::Result<Vec<_>> = entrances
        .into_iter()
        .map(|(listener, tls)| Ok(Entrance { listener: listener.into_std()?, tls }))
        .collect();
    let started = entrances.and_then(|entrances| front::start(entrances, house, crowd, prompt, stages));
    let ends = started.unwrap_or_else(|error| {
        tracing::error!(error = %error, "cannot serve connections");
        Vec::new()
    });
    (others, ends)
}

/// How far a stop has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// No stop was asked for.
    Serving,
    /// The doors are closed. Who is connected may still ask, once.
    LastCall,
    /// Requests in progress are finished, new ones are not taken.
    Draining,
    /// Time is up.
    Ended,
    /// Nobody is connected any more.
    Gone,
}

/// Returns when the stop has come this far.
pub(crate) async fn reached(stages: &mut watch::Receiver<Stage>, stage: Stage) {
    // Without a sender nothing runs any more.
    let _ = stages.wait_for(|reached| *reached >= stage).await;
}

/// Lets a connection to which nothing new is taken finish what it is at: until it is done, or time is up, or all stop and
/// it has nothing to finish.
pub(crate) async fn finish(
    connection: impl Future,
    is_busy: impl Fn() -> bool,
    drain: Duration,
    mut stages: watch::Receiver<Stage>,
) {
    let mut last = stages.clone();
    let nothing_left = async {
        reached(&mut stages, Stage::Draining).await;
        loop {
            tokio::time::sleep(LAST_WORDS).await;
            if !is_busy() {
                break;
            }
        }
    };
    tokio::select! {
        biased;
        _ = connection => {}
        () = nothing_left => {}
        () = tokio::time::sleep(drain) => {}
        () = reached(&mut last, Stage::Ended) => {}
    }
}

/// What every connection shares.
pub(crate) struct House<S> {
    pub(crate) trust: Trust,
    pub(crate) clock: Clock,
    service: S,
    pub(crate) faults: FaultReplies,
    /// How long a connection may take to finish what it is at.
    pub(crate) drain: Duration,
    pub(crate) http1: http1::Builder,
    pub(crate) http2: h2::server::Builder,
    date: DateField,
    pub(crate) redirect_to: Option<u16>,
    pub(crate) public_port: Option<u16>,
    pub(crate) hsts: Option<HeaderValue>,
    quic_ports: Vec<u16>,
    closing: AtomicBool,
    pub(crate) traffic: Arc<Traffic>,
    /// Of the loops that answer plain requests.
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    /// Whose turn it is to take a connection.
    turns: AtomicUsize,
}

impl<S> House<S> {
    /// Whether a connection on this line may be given to the front.
    pub(crate) fn has_front_for(&self, line: &Line) -> bool {
        !self.mailboxes.is_empty() && line.redirect_to.is_none() && !self.is_closing()
    }

    /// Notes on a line what its handshake has told.
    pub(crate) fn shaken(&self, line: &mut Line, session: &ServerConnection) {
        line.tls = TlsFacts::of(session);
        line.redirect_to = None;
        line.told = self.told_on(line);
    }

    /// A caller's line at a door of TLS with this port, as long as no hands were shaken: who types http:// before the port of HTTPS
    /// is led to where they wanted to go.
    pub(crate) fn line_before_tls(&self, peer: Address, port: u16) -> Line {
        let redirect_to = Some(self.public_port.unwrap_or(port));
        Line { redirect_to, alt_svc: self.alt_svc(port), ..Line::from(peer) }
    }

    /// What every answer on a line tells, as lines of HTTP/1.
    pub(crate) fn told_on(&self, line: &Line) -> Vec<u8> {
        let mut lines = Vec::new();
        for (name, value) in told(self, line, line.tls.is_some()) {
            lines.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        lines
    }

    /// Gives a connection that rests to one of the loops, or back if there are none any more.
    pub(crate) fn to_front(&self, guest: Guest) -> Result<(), Guest> {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        match self.mailboxes.get(turn % self.mailboxes.len().max(1)) {
            Some(mailbox) => mailbox.put(guest),
            None => Err(guest),
        }
    }

    /// A seat for one more connection of a caller, or none for a trusted proxy, which brings many; an error if the caller
    /// has as many as they may.
    pub(crate) fn seat(&self, crowd: &Arc<Crowd>, caller: Address) -> Result<Option<Seat>, TooMany> {
        if self.trust.is_trusted(caller) { Ok(None) } else { crowd.seat(caller).map(Some).ok_or(TooMany) }
    }

    /// The value of `date`.
    pub(crate) fn date(&self, now: Now) -> HeaderValue {
        self.date.at(now)
    }

    /// Whether callers of HTTP/1 are told that their connection ends with the answer.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Where callers of HTTPS at the door with this port find HTTP/3, if they do.
    pub(crate) fn alt_svc(&self, port: u16) -> Option<HeaderValue> {
        let text = format!("h3=\":{}\"; ma=86400", self.public_port.unwrap_or(port));
        if self.quic_ports.contains(&port) { HeaderValue::try_from(text).ok() } else { None }
    }
}

/// Somebody has as many connections as one may have.
pub(crate) struct TooMany;

/// One connection's own facts.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) peer: Address,
    /// Whom the peer introduced: somebody, or itself.
    pub(crate) introduced: Option<Option<Introduced>>,
    /// Of our own handshake.
    pub(crate) tls: Option<TlsFacts>,
    /// The port of HTTPS to which requests are sent instead of an answer.
    pub(crate) redirect_to: Option<u16>,
    /// Where else the same is served.
    pub(crate) alt_svc: Option<HeaderValue>,
    /// What every answer tells because of TLS, as lines of HTTP/1.
    pub(crate) told: Vec<u8>,
}

impl From<Address> for Line {
    fn from(peer: Address) -> Self {
        Self { peer, introduced: None, tls: None, redirect_to: None, alt_svc: None, told: Vec::new() }
    }
}

impl Line {
    /// What is certain about the connection of a caller who speaks this version of HTTP.
    pub(crate) fn facts(&self, http: Option<HttpVersion>, rtt_ms: Option<u32>) -> Connection {
        match &self.introduced {
            None => {
                Connection { peer: self.peer, arrival: Arrival::Socket, http, tls: self.tls.clone(), rtt_ms }
            }
            Some(None) => {
                Connection { peer: self.peer, arrival: Arrival::Silent, http: None, tls: None, rtt_ms: None }
            }
            // The socket is the proxy's. What comes through TLS of ours is the caller's own word; in the clear it may be
            // the proxy's, unless it says what the caller spoke.
            Some(Some(introduced)) => Connection {
                peer: introduced.address,
                arrival: Arrival::Introduced { by: self.peer, own_tls: self.tls.is_some() },
                http: if self.tls.is_some() { http } else { introduced.http },
                tls: self.tls.clone().or_else(|| introduced.tls.clone()),
                rtt_ms: None,
            },
        }
    }
}

/// Answers one request that came over a connection with these facts.
pub(crate) async fn answer<S, F>(
    house: &House<S>,
    line: &Line,
    rtt_ms: Option<u32>,
    request: Parts,
    body: RequestBody,
) -> Reply
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let (method, version) = (request.method.clone(), request.version);
    let fault = fault(&request);
    // A request that may be read in two ways may end in two places; and what follows chunks is not looked at any more, see
    // `strict.rs`.
    let closes = fault == Some(HttpFault::BadRequest)
        || request.headers.contains_key(header::TRANSFER_ENCODING)
        || house.is_closing();
    let (now, stopwatch) = house.clock.begin();
    let is_trusted = house.trust.is_trusted(line.peer);
    let elsewhere = line.redirect_to.filter(|_| is_to_be_redirected(&request, is_trusted));
    let is_secret = line.tls.is_some() || (is_trusted && came_by_https(&request));
    let mut reply = match (fault, elsewhere) {
        (Some(fault), _) => (house.faults)(fault),
        (None, Some(port)) => {
            house.traffic.redirect();
            to_https(&request, port).unwrap_or_else(|| (house.faults)(HttpFault::BadRequest))
        }
        (None, None) => {
            let connection = line.facts(http_version(version), rtt_ms);
            let client = house.trust.client(&connection, &request.headers);
            let visit = Visit { client, now, stopwatch, request, body, connection };
            // The call itself may panic as well as the future that it makes.
            let answer = AssertUnwindSafe(async { (house.service)(visit).await }).catch_unwind().await;
            answer.unwrap_or_else(|_| (house.faults)(HttpFault::Panicked))
        }
    };
    tell(house, line, is_secret, &mut reply);
    if closes && version < Version::HTTP_2 {
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    // For HTTP/1 hyper does it.
    if version >= Version::HTTP_2 {
        reply.headers_mut().insert(header::DATE, house.date(now));
    }
    mark(reply, &method)
}

/// Adds what is told with every answer on such a line.
pub(crate) fn tell<S>(house: &House<S>, line: &Line, is_secret: bool, reply: &mut Reply) {
    for (name, value) in told(house, line, is_secret) {
        reply.headers_mut().insert(name, value.clone());
    }
}

/// What is told with every answer on such a line.
fn told<'a, S>(
    house: &'a House<S>,
    line: &'a Line,
    is_secret: bool,
) -> impl Iterator<Item = (HeaderName, &'a HeaderValue)> {
    let hsts = house.hsts.as_ref().filter(|_| is_secret);
    let alt_svc = line.alt_svc.as_ref().filter(|_| line.tls.is_some());
    [(header::STRICT_TRANSPORT_SECURITY, hsts), (header::ALT_SVC, alt_svc)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
}

/// Whether a request belongs elsewhere. A preflight does not: browsers follow no redirect of one; nor does what a trusted
/// proxy has received by HTTPS.
fn is_to_be_redirected(request: &Parts, is_trusted: bool) -> bool {
    request.method != Method::OPTIONS && !(is_trusted && came_by_https(request))
}

/// Whether a proxy says that the caller speaks HTTPS.
fn came_by_https(request: &Parts) -> bool {
    request.headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https")
}

/// The same request by HTTPS, on this port of the same host; `None` if it names none.
fn to_https(request: &Parts, port: u16) -> Option<Reply> {
    let named = || Authority::try_from(request.headers.get(header::HOST)?.as_bytes()).ok();
    let authority = request.uri.authority().cloned().or_else(named)?;
    let host = authority.host();
    let is_host = !host.is_empty() && (host.starts_with('[') || !host.contains(':'));
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
    let location = HeaderValue::try_from(format!("https://{host}{port}{target}")).ok().filter(|_| is_host)?;
    let mut reply = Reply::default();
    *reply.status_mut() = StatusCode::PERMANENT_REDIRECT;
    let headers = reply.headers_mut();
    headers.insert(header::LOCATION, location);
    // Pages of other origins follow it only if they may see it.
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(reply)
}

/// What is wrong with a request that hyper let pass.
fn fault(request: &Parts) -> Option<HttpFault> {
    let Parts { headers, uri, version, .. } = request;
    if headers.len() > MAX_HEADERS || header_bytes(headers) > MAX_HEADER_BYTES {
        Some(HttpFault::HeaderTooLarge)
    } else if uri.path_and_query().is_some_and(|target| target.as_str().len() > MAX_TARGET_BYTES) {
        Some(HttpFault::TargetTooLong)
    } else if (*version == Version::HTTP_11 && !has_one_host(headers))
        || (*version >= Version::HTTP_2 && OF_HTTP_1.iter().any(|name| headers.contains_key(name)))
    {
        Some(HttpFault::BadRequest)
    } else {
        None
    }
}

/// What is said about a connection of HTTP/1 has no meaning since HTTP/2, and must not be passed on as if it had.
const OF_HTTP_1: [HeaderName; 3] = [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE];

/// HTTP/1.1 asks for exactly one `Host`, so that two who read a request cannot read two different ones.
fn has_one_host(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::HOST).iter();
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(byte);
    match (lines.next(), lines.next()) {
        (Some(host), None) => host.as_bytes().iter().all(allowed),
        _ => false,
    }
}

fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

fn http_version(version: Version) -> Option<HttpVersion> {
    match version {
        Version::HTTP_10 => Some(HttpVersion::Http10),
        Version::HTTP_11 => Some(HttpVersion::Http11),
        Version::HTTP_2 => Some(HttpVersion::Http2),
        Version::HTTP_3 => Some(HttpVersion::Http3),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::client::AddressHeader;
    use crate::facts::FactHeaders;
    use crate::tcp::{Listener, Manner};
    use http::Response;
    use http_body_util::Full;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    /// Runs an edge and says what one connection gets until it is closed.
    async fn ask(
        edge: Edge<impl Fn(Visit) -> std::future::Ready<Reply> + Send + Sync + 'static>,
        request: &str,
    ) -> String {
        let address = address(&edge);
        let serving = tokio::spawn(edge.run(std::future::pending(), std::future::pending()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // HTTP/2 answers in frames, which are no text.
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        answer.push_str(&String::from_utf8_lossy(&bytes));
        serving.abort();
        answer
    }

    pub(crate) fn address<S>(edge: &Edge<S>) -> SocketAddr {
        match &edge.doors[0].listener {
            Listener::Tcp(listener) => listener.local_addr().unwrap(),
            Listener::Unix(_) => panic!("no port"),
        }
    }

    pub(crate) fn edge<S>(listener: TcpListener, service: S) -> Edge<S> {
        Edge {
            doors: vec![Door { listener: Listener::Tcp(listener), manner: Manner::Clear }],
            quic_doors: Vec::new(),
            trust: Trust {
                proxies: Vec::new(),
                header: AddressHeader::Auto,
                pretend: None,
                colo: None,
                facts: FactHeaders::default(),
            },
            clock: Clock::system(),
            limits: ConnectionLimits { all: 10, each: 10 },
            drain: Duration::ZERO,
            service,
            prompt: None,
            faults: Arc::new(|fault| Response::new(Full::from(format!("{fault:?}")))),
            secrecy: Secrecy::default(),
            traffic: Arc::default(),
        }
    }

    #[tokio::test]
    async fn a_service_that_panics_is_a_fault_and_not_a_dead_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let edge = edge(listener, |visit: Visit| {
            assert!(visit.request.uri.path() != "/panic", "as asked");
            std::future::ready(Response::new(Full::from("fine")))
        });
        let two =
            "GET /panic HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let answer = ask(edge, two).await;
        assert!(answer.contains("Panicked") && answer.ends_with("fine"), "{answer}");
    }

    #[tokio::test]
    async fn a_visit_tells_the_moment_the_caller_and_the_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let edge = edge(listener, |visit: Visit| {
            let told =
                format!("{} {:?} {:?}", visit.client.address.ip(), visit.client.http, visit.client.rtt_ms);
            std::future::ready(Response::new(Full::from(told)))
        });
        let answer = ask(edge, "GET / HTTP/1.0\r\n\r\n").await;
        assert!(answer.contains("127.0.0.1 Some(Http10) Some("), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_never_brings_a_request_is_closed() {
        for beginning in
            ["", "G", "GET / HTTP/1.1\r\nhost", "P", "PRI * HT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let edge = edge(listener, |_: Visit| std::future::ready(Response::new(Full::from("fine"))));
            // While everybody waits, the paused clock runs ahead to the next deadline.
            let answer = ask(edge, beginning).await;
            assert!(!answer.contains("fine"), "{beginning:?}: {answer}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_asked_once_and_only_stays_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let edge = edge(listener, |_: Visit| std::future::ready(Response::new(Full::from("fine"))));
        // The preface of HTTP/2, empty settings, and GET / on stream 1.
        let request = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x03\x01\x05\0\0\0\x01\u{82}";
        let mut bytes: Vec<u8> = request.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        bytes.extend([0x84, 0x86]);
        let address = address(&edge);
        let serving = tokio::spawn(edge.run(std::future::pending(), std::future::pending()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        assert!(String::from_utf8_lossy(&received).contains("fine"), "{received:?}");
        serving.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_stalls_before_http_does_not_hold_up_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut edge = edge(listener, |_: Visit| std::future::ready(Response::new(Full::from("fine"))));
        edge.doors[0].manner = Manner::Introduced(None);
        edge.trust.proxies = vec!["127.0.0.1/32".parse().unwrap()];
        let address = address(&edge);
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { _ = stopped.await };
        let serving = tokio::spawn(edge.run(stopped, std::future::pending()));
        let mut stalled = TcpStream::connect(address).await.unwrap();
        stalled.write_all(b"PROXY").await.unwrap();
        // Who comes later is answered, so the first one was let in.
        let mut later = TcpStream::connect(address).await.unwrap();
        let introduced = "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.0\r\n\r\n";
        later.write_all(introduced.as_bytes()).await.unwrap();
        let mut answer = String::new();
        later.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("fine"), "{answer}");
        stop.send(()).unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(1), serving).await;
        assert!(ended.is_ok(), "nobody is waited for when there is no time for it");
    }

    /// Reads until the answer to a request is whole.
    async fn receive(stream: &mut TcpStream) -> String {
        let mut answer = Vec::new();
        while !answer.ends_with(b"fine") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "{}", String::from_utf8_lossy(&answer));
        }
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_of_http1_rests_between_requests_and_goes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let edge = edge(listener, |_: Visit| std::future::ready(Response::new(Full::from("fine"))));
        let address = address(&edge);
        let serving = tokio::spawn(edge.run(std::future::pending(), std::future::pending()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        for pause_ms in [0, 10, 10, 500, 1_500, 10, 40_000, 10, 0] {
            stream.write_all(request).await.unwrap();
            receive(&mut stream).await;
            // waits for: nothing, on a paused clock; so long nobody asks
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        // Two at once, and a third that comes in pieces.
        stream.write_all(&[&request[..], request, b"GET / HT"].concat()).await.unwrap();
        let two = receive(&mut stream).await;
        let two = if two.matches("fine").count() == 2 { two } else { two + &receive(&mut stream).await };
        assert_eq!(two.matches("fine").count(), 2);
        // waits for: nothing, on a paused clock; so long the rest of the request takes
        tokio::time::sleep(Duration::from_secs(3)).await;
        stream.write_all(b"TP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        receive(&mut stream).await;
        // Nobody asks any more.
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
        serving.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_has_begun_must_be_whole_in_time_after_a_rest_too() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let edge = edge(listener, |_: Visit| std::future::ready(Response::new(Full::from("fine"))));
        let address = address(&edge);
        let serving = tokio::spawn(edge.run(std::future::pending(), std::future::pending()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        receive(&mut stream).await;
        let head = b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: xxxxxxxx\r\n\r\n";
        for byte in head {
            if stream.write_all(&[*byte]).await.is_err() {
                break;
            }
            // waits for: nothing, on a paused clock; so slowly bytes come
            tokio::time::sleep(2 * HEADER_TIMEOUT / u32::try_from(head.len()).unwrap()).await;
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.ends_with(b"fine"), "a head may not take longer than its deadline");
        serving.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_be_read_in_two_ways_is_refused_in_whatever_pieces_it_comes() {
        const HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\n";
        for cut in 1..=HEAD.len() {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let edge = edge(listener, |_: Visit| std::future::ready(Response::new(Full::from("fine"))));
            let address = address(&edge);
            let serving = tokio::spawn(edge.run(std::future::pending(), std::future::pending()));
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&HEAD[..cut]).await.unwrap();
            // waits for: nothing, on a paused clock; the first piece is read alone
            tokio::time::sleep(Duration::from_millis(1)).await;
            stream.write_all(&HEAD[cut..]).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with("BadRequest"), "cut at {cut}: {answer}");
            serving.abort();
        }
    }

    #[tokio::test]
    async fn the_last_permit_is_not_held_by_a_door_that_nobody_uses() {
        let (idle, used) = (
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        );
        let mut edge = edge(used, |_: Visit| std::future::ready(Response::new(Full::from("fine"))));
        edge.doors.push(Door { listener: Listener::Tcp(idle), manner: Manner::Clear });
        edge.limits.all = 1;
        let answer = ask(edge, "GET / HTTP/1.0\r\n\r\n").await;
        assert!(answer.ends_with("fine"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_reads_nothing_is_let_go() {
        const BODY: usize = 1024 * 1024;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let edge = edge(listener, |_: Visit| std::future::ready(Response::new(Full::from(vec![b'x'; BODY]))));
        let address = address(&edge);
        let serving = tokio::spawn(edge.run(std::future::pending(), std::future::pending()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = "GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(50);
        stream.write_all(request.as_bytes()).await.unwrap();
        // waits for: more than the deadline, which the paused clock reaches as soon as nobody can go on
        tokio::time::sleep(Duration::from_secs(120)).await;
        let mut read = Vec::new();
        let _ = stream.read_to_end(&mut read).await;
        assert!(read.len() < 50 * BODY, "the connection was closed before all was written");
        serving.abort();
    }

    #[track_caller]
    fn check_host(lines: &[&'static str], one: bool) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::HOST, HeaderValue::from_static(line));
        }
        assert_eq!(has_one_host(&headers), one, "{lines:?}");
    }

    #[test]
    fn a_request_has_one_host() {
        check_host(&["example.com"], true);
        check_host(&["[::1]:8080"], true);
        check_host(&[""], true);
        check_host(&[], false);
        check_host(&["a", "b"], false);
        check_host(&["a b"], false);
        check_host(&["a/b"], false);
        check_host(&["<script>"], false);
    }
}
