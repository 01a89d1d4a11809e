//! Accepting connections, speaking HTTP on them, and letting them go in peace.

use crate::client::{Connection, Trust};
use crate::clock::Clock;
use crate::fault::{FaultReplies, HttpFault};
use crate::proxy::{Introduced, introduction};
use crate::reply::{Reply, finish};
use crate::rtt::RttGauge;
use crate::tls::{Tls, TlsFacts, begins_handshake};
use crate::wire::{Stream, Wire};
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Version, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use ipse_model::{Address, Client, HttpVersion, Now};
use std::convert::Infallible;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// The largest head of a request that is served, in bytes of names and values.
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// The longest path and query that is served.
const MAX_TARGET_BYTES: usize = 8 * 1024;
/// HTTP/1 reads a whole head into its buffer, the request line included.
const HTTP1_BUFFER_BYTES: usize = 32 * 1024;
const MAX_HEADERS: usize = 100;
/// Beyond [`MAX_HEADER_BYTES`] a request is refused by us, with a body; beyond this the stream is refused bare.
const HTTP2_HEADER_LIST_BYTES: u32 = 1024 * 1024;
const HTTP2_STREAMS: u32 = 64;
/// How long a connection may take to bring the head of its next request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection may go without a new request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// One request, with all that is certain about who makes it and when.
pub struct Visit {
    /// The caller.
    pub client: Client,
    /// The moment by which everything about this request is judged.
    pub now: Now,
    /// The head of the request. Nothing that is served takes a body.
    pub request: Parts,
}

/// An open door.
pub struct Door {
    /// Where callers come in.
    pub listener: TcpListener,
    /// How callers speak there.
    pub manner: Manner,
}

/// How callers speak at a door.
#[derive(Clone)]
pub enum Manner {
    /// Clear HTTP.
    Clear,
    /// TLS.
    Tls(Tls),
    /// A trusted proxy introduces each of them with the PROXY protocol; then they speak TLS, if we can, or clear HTTP.
    Introduced(Option<Tls>),
}

/// The open doors, and what stands behind them.
pub struct Edge<S> {
    /// The doors.
    pub doors: Vec<Door>,
    /// Whom to believe.
    pub trust: Trust,
    /// Where moments come from.
    pub clock: Clock,
    /// How many connections may be open at once; more wait in the kernel's queue.
    pub max_connections: usize,
    /// How long open connections may take to finish once we stop.
    pub drain: Duration,
    /// Who answers: a function from a visit to its reply.
    pub service: S,
    /// What is said where the service cannot be asked.
    pub faults: FaultReplies,
    /// What is answered to callers who speak clearly and should not.
    pub secrecy: Secrecy,
}

/// Whether callers are led from clear HTTP to HTTPS.
#[derive(Clone, Debug, Default)]
pub struct Secrecy {
    /// The port of HTTPS to which callers at a clear door are sent; `None` to serve them there.
    pub redirect_to: Option<u16>,
    /// How long browsers are told to come by HTTPS alone.
    pub hsts: Option<Duration>,
}

impl<S, F> Edge<S>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    /// Serves until `stop` is ready, then closes the doors and lets every request in progress finish, unless `hurry` is
    /// ready first.
    pub async fn run(self, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) {
        let Self { doors, trust, clock, max_connections, drain, service, faults, secrecy } = self;
        let hsts = secrecy.hsts.and_then(|time| format!("max-age={}", time.as_secs()).try_into().ok());
        let redirect_to = secrecy.redirect_to;
        let http = http_builder();
        let house = Arc::new(House { trust, clock, service, faults, drain, http, redirect_to, hsts });
        let capacity = u32::try_from(max_connections.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let connections = Arc::new(Semaphore::new(capacity as usize));
        let (stage, stages) = watch::channel(Stage::Serving);
        let doors: Vec<_> = doors
            .into_iter()
            .map(|door| {
                tokio::spawn(accept(door, Arc::clone(&house), Arc::clone(&connections), stages.clone()))
            })
            .collect();
        stop.await;
        let _ = stage.send(Stage::Draining);
        for door in doors {
            let _ = door.await;
        }
        // Every open connection holds a permit.
        let all_closed = tokio::select! {
            biased;
            _ = connections.acquire_many(capacity) => true,
            () = tokio::time::sleep(drain) => false,
            () = hurry => false,
        };
        if !all_closed {
            let left = capacity as usize - connections.available_permits();
            tracing::warn!(connections.left = left, "closing connections that are still open");
            let _ = stage.send(Stage::Ended);
            let _ = connections.acquire_many(capacity).await;
        }
    }
}

/// How far a stop has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// No stop was asked for.
    Serving,
    /// Requests in progress are finished, new ones are not taken.
    Draining,
    /// Time is up.
    Ended,
}

/// Returns when the stop has come this far.
async fn reached(stages: &mut watch::Receiver<Stage>, stage: Stage) {
    // Without a sender nothing runs any more.
    let _ = stages.wait_for(|reached| *reached >= stage).await;
}

/// What every connection shares.
struct House<S> {
    trust: Trust,
    clock: Clock,
    service: S,
    faults: FaultReplies,
    /// How long a connection may take to finish what it is at.
    drain: Duration,
    http: auto::Builder<TokioExecutor>,
    redirect_to: Option<u16>,
    hsts: Option<HeaderValue>,
}

fn http_builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        // Without a timer hyper's deadline does nothing.
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(HTTP1_BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HTTP2_HEADER_LIST_BYTES)
        .max_concurrent_streams(HTTP2_STREAMS)
        .keep_alive_interval(PING_INTERVAL);
    builder
}

async fn accept<S, F>(
    door: Door,
    house: Arc<House<S>>,
    connections: Arc<Semaphore>,
    mut stages: watch::Receiver<Stage>,
) where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    const FIRST_PAUSE: Duration = Duration::from_millis(10);
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);
    let Door { listener, manner } = door;
    let mut pause = FIRST_PAUSE;
    loop {
        let accepted = tokio::select! {
            biased;
            () = reached(&mut stages, Stage::Draining) => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            // A connection that broke before we took it is nobody's fault; a lack of descriptors passes.
            Err(error) if is_of_the_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(error = %error, "cannot accept connections, trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        // Beyond the limit one connection per door waits here, and the others in the kernel's queue.
        let permit = tokio::select! {
            biased;
            () = reached(&mut stages, Stage::Draining) => return,
            // The semaphore is never closed.
            permit = Arc::clone(&connections).acquire_owned() => permit.ok(),
        };
        pause = FIRST_PAUSE;
        let (house, manner, stages) = (Arc::clone(&house), manner.clone(), stages.clone());
        tokio::spawn(async move {
            greet(stream, manner, house, stages).await;
            drop(permit);
        });
    }
}

fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Finds out how a caller speaks, and serves them in that way.
async fn greet<S, F>(
    mut stream: TcpStream,
    manner: Manner,
    house: Arc<House<S>>,
    mut stages: watch::Receiver<Stage>,
) where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let (Ok(peer), Ok(local)) = (stream.peer_addr(), stream.local_addr()) else { return };
    let peer = Address::new(peer.ip());
    let _ = stream.set_nodelay(true);
    // Hyper's deadline begins with the first byte.
    let first_byte = tokio::select! {
        biased;
        readable = tokio::time::timeout(HEADER_TIMEOUT, stream.readable()) => matches!(readable, Ok(Ok(()))),
        () = reached(&mut stages, Stage::Draining) => false,
    };
    if !first_byte {
        return;
    }
    let clear = Line { peer, introduced: None, tls: None, redirect_to: None };
    let (tls, line) = match manner {
        Manner::Clear => (None, Line { redirect_to: house.redirect_to, ..clear }),
        // Who types http:// before the port of HTTPS is led to where they wanted to go.
        Manner::Tls(tls) => (Some(tls), Line { redirect_to: Some(local.port()), ..clear }),
        Manner::Introduced(tls) => {
            // From anybody else it would be a way to be whoever they like.
            if !house.trust.is_trusted(peer) {
                return;
            }
            let Ok(introduced) = introduction(&mut stream).await else { return };
            (tls, Line { introduced: Some(introduced), ..clear })
        }
    };
    let Some(tls) = tls else { return connection(stream, line, house, stages).await };
    match begins_handshake(&stream).await {
        Ok(true) => {}
        Ok(false) => return connection(stream, line, house, stages).await,
        Err(_) => return,
    }
    // Why a handshake failed is the peer's business, like the end of a connection.
    let Ok(stream) = tls.accept(stream).await else { return };
    let line = Line { tls: TlsFacts::of(stream.get_ref().1), redirect_to: None, ..line };
    connection(stream, line, house, stages).await;
}

/// One connection's own facts.
struct Line {
    peer: Address,
    /// Whom the peer introduced: somebody, or itself.
    introduced: Option<Option<Introduced>>,
    /// Of our own handshake.
    tls: Option<TlsFacts>,
    /// The port of HTTPS to which requests are sent instead of an answer.
    redirect_to: Option<u16>,
}

impl Line {
    /// What is certain about the connection of a caller who speaks this version of HTTP.
    fn facts(&self, http: Option<HttpVersion>, rtt_ms: Option<u32>) -> Connection {
        match &self.introduced {
            None | Some(None) => Connection { peer: self.peer, http, tls: self.tls.clone(), rtt_ms },
            // The socket is the proxy's. What comes through TLS of ours is the caller's own word; in the clear it may be
            // the proxy's, unless it says what the caller spoke.
            Some(Some(introduced)) => Connection {
                peer: introduced.address,
                http: if self.tls.is_some() { http } else { introduced.http },
                tls: self.tls.clone().or_else(|| introduced.tls.clone()),
                rtt_ms: None,
            },
        }
    }
}

async fn connection<S, F>(
    stream: impl Stream + Send + 'static,
    line: Line,
    house: Arc<House<S>>,
    mut stages: watch::Receiver<Stage>,
) where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    // Hyper has no deadline for a connection that stalls within the preface of HTTP/2, or that has asked once and then
    // only keeps itself alive.
    let asked = Arc::new(AtomicBool::new(false));
    let idle = {
        let asked = Arc::clone(&asked);
        async move {
            loop {
                tokio::time::sleep(IDLE_TIMEOUT).await;
                if !asked.swap(false, Ordering::Relaxed) {
                    return;
                }
            }
        }
    };
    let rtt = RttGauge::new();
    let wire = Wire::new(stream, rtt.clone(), Arc::clone(&house.faults));
    let line = Arc::new(line);
    let requests = {
        let house = Arc::clone(&house);
        service_fn(move |request: Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            answer(Arc::clone(&house), Arc::clone(&line), rtt.clone(), request)
        })
    };
    let connection = house.http.serve_connection(TokioIo::new(wire), requests);
    let mut connection = std::pin::pin!(connection);
    // How a connection ends is the peer's business: nothing about it is worth a line in a log.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = idle => {}
        () = reached(&mut stages, Stage::Draining) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        _ = connection => {}
        () = tokio::time::sleep(house.drain) => {}
        () = reached(&mut stages, Stage::Ended) => {}
    }
}

async fn answer<S, F>(
    house: Arc<House<S>>,
    line: Arc<Line>,
    rtt: RttGauge,
    request: Request<Incoming>,
) -> Result<Reply, Infallible>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let (request, _body) = request.into_parts();
    let method = request.method.clone();
    let fault = fault(&request);
    // A request that may be read in two ways may end in two places; and what follows chunks is not looked at any more, see
    // `strict.rs`.
    let closes =
        fault == Some(HttpFault::BadRequest) || request.headers.contains_key(header::TRANSFER_ENCODING);
    let mut reply = match (fault, line.redirect_to) {
        (Some(fault), _) => (house.faults)(fault),
        (None, Some(port)) => to_https(&request, port),
        (None, None) => {
            let connection = line.facts(http_version(request.version), rtt.rtt_ms());
            let client = house.trust.client(&connection, &request.headers);
            let visit = Visit { client, now: house.clock.now(), request };
            // The call itself may panic as well as the future that it makes.
            let answer = AssertUnwindSafe(async { (house.service)(visit).await }).catch_unwind().await;
            answer.unwrap_or_else(|_| (house.faults)(HttpFault::Panicked))
        }
    };
    if let Some(hsts) = house.hsts.as_ref().filter(|_| line.tls.is_some()) {
        reply.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
    if closes {
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(finish(reply, &method))
}

/// The same request by HTTPS, on this port of the same host.
fn to_https(request: &Parts, port: u16) -> Reply {
    let host = request.uri.host().or_else(|| {
        let host = request.headers.get(header::HOST)?.to_str().ok()?;
        // Without a port: an address of IPv6 has colons of its own, within brackets.
        host.rfind(':')
            .filter(|colon| host[*colon..].find(']').is_none())
            .map_or(Some(host), |colon| host.get(..colon))
    });
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
    let location = host.filter(|host| !host.is_empty()).map(|host| format!("https://{host}{port}{target}"));
    let mut reply = Reply::default();
    match location.and_then(|location| HeaderValue::try_from(location).ok()) {
        Some(location) => {
            *reply.status_mut() = StatusCode::PERMANENT_REDIRECT;
            reply.headers_mut().insert(header::LOCATION, location);
        }
        None => *reply.status_mut() = StatusCode::BAD_REQUEST,
    }
    reply
}

/// What is wrong with a request that hyper let pass.
fn fault(request: &Parts) -> Option<HttpFault> {
    let Parts { headers, uri, version, .. } = request;
    if headers.len() > MAX_HEADERS || header_bytes(headers) > MAX_HEADER_BYTES {
        Some(HttpFault::HeaderTooLarge)
    } else if uri.path_and_query().is_some_and(|target| target.as_str().len() > MAX_TARGET_BYTES) {
        Some(HttpFault::TargetTooLong)
    } else if *version == Version::HTTP_11 && !has_one_host(headers) {
        Some(HttpFault::BadRequest)
    } else {
        None
    }
}

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
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::AddressHeader;
    use crate::facts::FactHeaders;
    use http::Response;
    use http_body_util::Full;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Runs an edge and says what one connection gets until it is closed.
    async fn ask(
        edge: Edge<impl Fn(Visit) -> std::future::Ready<Reply> + Send + Sync + 'static>,
        request: &str,
    ) -> String {
        let address: SocketAddr = edge.doors[0].listener.local_addr().unwrap();
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

    fn edge<S>(listener: TcpListener, service: S) -> Edge<S> {
        Edge {
            doors: vec![Door { listener, manner: Manner::Clear }],
            trust: Trust {
                proxies: Vec::new(),
                header: AddressHeader::Auto,
                pretend: None,
                colo: None,
                facts: FactHeaders::default(),
            },
            clock: Clock::system(),
            max_connections: 10,
            drain: Duration::ZERO,
            service,
            faults: Arc::new(|fault| Response::new(Full::from(format!("{fault:?}")))),
            secrecy: Secrecy::default(),
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
        let address = edge.doors[0].listener.local_addr().unwrap();
        let serving = tokio::spawn(edge.run(std::future::pending(), std::future::pending()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        assert!(String::from_utf8_lossy(&received).contains("fine"), "{received:?}");
        serving.abort();
    }

    #[tokio::test]
    async fn the_last_permit_is_not_held_by_a_door_that_nobody_uses() {
        let (idle, used) = (
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        );
        let mut edge = edge(used, |_: Visit| std::future::ready(Response::new(Full::from("fine"))));
        edge.doors.push(Door { listener: idle, manner: Manner::Clear });
        edge.max_connections = 1;
        let answer = ask(edge, "GET / HTTP/1.0\r\n\r\n").await;
        assert!(answer.ends_with("fine"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_reads_nothing_is_let_go() {
        const BODY: usize = 1024 * 1024;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let edge = edge(listener, |_: Visit| std::future::ready(Response::new(Full::from(vec![b'x'; BODY]))));
        let address = edge.doors[0].listener.local_addr().unwrap();
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
