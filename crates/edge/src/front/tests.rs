//! Connections that rest here: what only the front does with them.

mod http2;

use super::*;
use crate::client::{AddressHeader, Trust};
use crate::clock::{Clock, ClockHand};
use crate::facts::FactHeaders;
use crate::prompt::{Ask, Draft, Said};
use crate::serve::{ConnectionLimits, Edge, Secrecy};
use crate::tcp::{Door, Listener, Manner};
use crate::tls::HANDSHAKE_TIMEOUT;
use crate::tls::tests::tls;
use crate::traffic::Traffic;
use http::Response;
use http_body_util::Full;
use ipse_model::Now;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::runtime::Runtime;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

const BEGIN: Now = Now { unix_ms: 1_790_000_000_000, boot_ms: 600_000 };
const REQUEST: &str = "GET /at-once HTTP/1.1\r\nhost: x\r\n\r\n";
const OTHER: &str = "GET /other HTTP/1.1\r\nhost: x\r\n\r\n";
/// Sixteen answers to it are more than what the kernel keeps for a peer that does not read.
const LARGE: &str = "GET /at-once1000000 HTTP/1.1\r\nhost: x\r\n\r\n";

/// Answers what begins with `/at-once`, with as many bytes as stand behind it, and has what begins with `/elsewhere/` decided.
#[derive(Default)]
pub(crate) struct Quick {
    pub(crate) fails_to_keep: AtomicBool,
    /// How often somebody else was asked.
    asked: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct Decided {
    foreseen: Vec<Vec<u8>>,
    kept: usize,
    questions: Vec<String>,
}

impl Prompt for Quick {
    type Turn = Decided;
    type Verdict = String;

    fn answers_at_once(&self) -> bool {
        true
    }

    fn foresee<'a>(&self, asks: impl Iterator<Item = Ask<'a>>, turn: &mut Decided) {
        turn.foreseen = asks.map(|ask| ask.target.to_vec()).collect();
        assert!(!turn.foreseen.iter().any(|target| target.ends_with(b"foresee-panic")), "as asked");
    }

    fn answer(&self, ask: &Ask<'_>, turn: &mut Decided, draft: &mut Draft) -> Said {
        assert!(ask.foreseen.is_none_or(|number| turn.foreseen[number] == ask.target));
        let target = str::from_utf8(ask.target).unwrap();
        assert!(target != "/panic", "as asked");
        if let Some(question) = target.strip_prefix("/elsewhere/") {
            turn.questions.push(question.to_owned());
            draft.body.extend_from_slice(format!("{question}, quick").as_bytes());
            return Said::Body;
        }
        let Some(bytes) = target.strip_prefix("/at-once") else { return Said::Nothing };
        turn.kept += 1;
        draft.head.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        draft.body.extend(std::iter::repeat_n(b'x', bytes.parse().unwrap_or(0)));
        draft.body.extend_from_slice(b"quick");
        Said::Answer
    }

    fn keep(&self, turn: &mut Decided, _: Now) -> Result<(), Box<Reply>> {
        if std::mem::take(&mut turn.kept) > 0 && self.fails_to_keep.load(Ordering::Relaxed) {
            let mut reply = Response::new(Full::from("failed"));
            *reply.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            return Err(Box::new(reply));
        }
        Ok(())
    }

    /// As many milliseconds later as stand in the question.
    fn decide(&self, turn: &mut Decided) -> impl Future<Output = Vec<String>> + Send + 'static {
        let questions = std::mem::take(&mut turn.questions);
        self.asked.fetch_add(1, Ordering::Relaxed);
        async move {
            let longest = questions.iter().filter_map(|question| question.parse().ok()).max();
            // waits for: nothing; so long somebody else takes to decide
            tokio::time::sleep(Duration::from_millis(longest.unwrap_or(0))).await;
            questions
        }
    }

    fn conclude(&self, verdict: String, head: &mut Vec<u8>) -> Result<(), Box<Reply>> {
        assert!(verdict != "panic", "as asked");
        if verdict == "no" {
            return Err(Box::new(Response::new(Full::from("no, so not quick"))));
        }
        head.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        Ok(())
    }
}

/// A running edge with a front, and a clock that stands still.
struct Served {
    address: SocketAddr,
    hand: ClockHand,
    quick: Arc<Quick>,
    traffic: Arc<Traffic>,
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    running: tokio::task::JoinHandle<()>,
}

fn serve(limits: ConnectionLimits, drain: Duration) -> Served {
    serve_at(Manner::Clear, Runtime::new().unwrap(), limits, drain)
}

fn serve_at(manner: Manner, runtime: Runtime, limits: ConnectionLimits, drain: Duration) -> Served {
    let (clock, hand) = Clock::standing_at(BEGIN);
    let (quick, traffic) = (Arc::new(Quick::default()), Arc::new(Traffic::default()));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let edge = Edge {
        doors: vec![Door { listener: Listener::Tcp(listener), manner }],
        quic_doors: Vec::new(),
        trust: Trust {
            proxies: Vec::new(),
            header: AddressHeader::Auto,
            pretend: None,
            colo: None,
            facts: FactHeaders::default(),
        },
        clock,
        limits,
        drain,
        service: |visit: Visit| {
            let echo = visit.request.headers.get("x-echo").and_then(|value| value.to_str().ok());
            std::future::ready(Response::new(Full::from(echo.unwrap_or_default().to_owned() + "slow")))
        },
        prompt: Some(Arc::clone(&quick)),
        faults: Arc::new(|fault| Response::new(Full::from(format!("{fault:?}")))),
        secrecy: Secrecy::default(),
        traffic: Arc::clone(&traffic),
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let running = runtime.spawn(edge.run(stopped, std::future::pending()));
    Served { address, hand, quick, traffic, runtime, stop, running }
}

const FEW: ConnectionLimits = ConnectionLimits { all: 100, each: 100 };

impl Served {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Asks the edge to stop, and returns when it has.
    fn stop(self) {
        let _ = self.stop.send(());
        self.runtime.block_on(self.running).unwrap();
    }
}

fn ask(stream: &mut (impl Read + Write), request: &str, end: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    receive(stream, end)
}

/// Reads until what came ends like this.
fn receive(stream: &mut impl Read, end: &str) -> String {
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while !answer.ends_with(end.as_bytes()) {
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&part[..read]);
    }
    String::from_utf8(answer).unwrap()
}

/// One answer of whoever gives it.
fn receive_one(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"quick") && !answer.ends_with(b"slow") {
        let mut byte = [0; 1];
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    String::from_utf8(answer).unwrap()
}

/// What comes until the connection is closed.
fn receive_all(stream: &mut impl Read) -> String {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn answers_come_from_both_in_the_order_they_were_asked_for() {
    let served = serve(FEW, Duration::ZERO);
    let mut stream = served.connect();
    assert!(
        ask(&mut stream, REQUEST, "quick")
            .starts_with("HTTP/1.1 200 OK\r\nx-content-type-options: nosniff\r\n")
    );
    stream.write_all([REQUEST, OTHER, REQUEST].concat().as_bytes()).unwrap();
    let ends: Vec<String> = (0..3).map(|_| receive_one(&mut stream)).collect();
    // Behind what is not plain all go the other way, until the connection rests.
    let expected = ["quick", "slow", "slow"];
    assert!(ends.iter().zip(expected).all(|(answer, end)| answer.ends_with(end)), "{ends:?}");
}

#[test]
fn who_would_rather_speak_otherwise_is_answered() {
    const HEAD: &str = "POST / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n";
    // Of one worker nobody is told how sockets are while it serves somebody.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let served = serve_at(Manner::Clear, runtime, FEW, Duration::ZERO);
    for _ in 0..20 {
        let mut stream = served.connect();
        let body = "x".repeat(20_000);
        // What is behind the beginning may go unread.
        let _ = write!(stream, "{HEAD}content-length: {}\r\n\r\n{body}", body.len());
        receive(&mut stream, "slow");
    }
}

#[test]
fn http2_begins_with_a_connection_and_never_behind_a_request() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let served = serve(FEW, Duration::ZERO);
    let mut stream = served.connect();
    stream.write_all(PREFACE).unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).unwrap();
    assert_eq!(frame[3], 4, "settings");
    for is_one_write in [true, false] {
        let mut stream = served.connect();
        if is_one_write {
            stream.write_all(&[REQUEST.as_bytes(), PREFACE].concat()).unwrap();
            receive(&mut stream, "quick");
        } else {
            ask(&mut stream, REQUEST, "quick");
            stream.write_all(PREFACE).unwrap();
        }
        // Hyper says nothing to that.
        assert_eq!(receive_all(&mut stream), "");
    }
}

#[test]
fn who_closes_their_side_is_answered_and_then_closed() {
    let served = serve(FEW, Duration::ZERO);
    for request in [REQUEST.to_owned(), REQUEST.repeat(16)] {
        let mut stream = served.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(receive_all(&mut stream).matches("quick").count(), request.matches("GET").count());
    }
    // One that rests.
    let mut stream = served.connect();
    ask(&mut stream, REQUEST, "quick");
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(receive_all(&mut stream), "");
}

#[test]
fn a_caller_that_reads_slowly_gets_every_answer() {
    let served = serve(FEW, Duration::ZERO);
    let mut stream = served.connect();
    // What follows goes the other way, behind it.
    stream.write_all([&LARGE.repeat(16), OTHER].concat().as_bytes()).unwrap();
    // waits for: the answers to be more than there is room for
    std::thread::sleep(Duration::from_millis(300));
    let all = receive(&mut stream, "slow");
    assert_eq!(all.matches("quick").count(), 16);
}

#[test]
fn a_caller_that_reads_nothing_is_let_go() {
    let served = serve(FEW, Duration::ZERO);
    let mut stream = served.connect();
    stream.write_all(LARGE.repeat(16).as_bytes()).unwrap();
    for _ in 0..12 {
        // waits for: the answers to be more than there is room for, and then for sweeps
        std::thread::sleep(Duration::from_millis(300));
        served.hand.advance_ms(10_000);
    }
    let read = receive_all(&mut stream);
    assert!(!read.is_empty() && read.matches("quick").count() < 16, "{}", read.len());
}

#[test]
fn who_says_nothing_is_let_go_sooner_than_who_has_asked() {
    let served = serve(FEW, Duration::ZERO);
    let (mut silent, mut asked) = (served.connect(), served.connect());
    ask(&mut asked, REQUEST, "quick");
    served.hand.advance_ms(31_000);
    assert_eq!(receive_all(&mut silent), "");
    ask(&mut asked, REQUEST, "quick");
    served.hand.advance_ms(59_000);
    ask(&mut asked, REQUEST, "quick");
    served.hand.advance_ms(61_000);
    assert_eq!(receive_all(&mut asked), "");
}

#[test]
fn nobody_stays_for_ever() {
    let served = serve(FEW, Duration::ZERO);
    let mut stream = served.connect();
    for _ in 0..3_600 / 50 {
        ask(&mut stream, REQUEST, "quick");
        served.hand.advance_ms(50_000);
    }
    assert_eq!(receive_all(&mut stream), "");
}

#[test]
fn one_address_has_so_many_connections_and_no_more() {
    let served = serve(ConnectionLimits { all: 100, each: 2 }, Duration::ZERO);
    let mut held = [served.connect(), served.connect()];
    held.iter_mut().for_each(|stream| drop(ask(stream, REQUEST, "quick")));
    assert_eq!(receive_all(&mut served.connect()), "");
    // One that was with hyper meanwhile still counts.
    ask(&mut held[0], OTHER, "slow");
    assert_eq!(receive_all(&mut served.connect()), "");
    let [first, _second] = held;
    drop(first);
    let again = (0..200).any(|_| {
        let mut stream = served.connect();
        let is_answered =
            stream.write_all(REQUEST.as_bytes()).is_ok() && matches!(stream.read(&mut [0; 16]), Ok(1..));
        if !is_answered {
            // waits for: the server to see that the first is gone
            std::thread::sleep(Duration::from_millis(10));
        }
        is_answered
    });
    assert!(again, "a connection that ended counts no more");
}

#[test]
fn those_beyond_the_limit_wait_for_their_turn() {
    let served = serve(ConnectionLimits { all: 2, each: 100 }, Duration::ZERO);
    let mut held: Vec<TcpStream> = (0..2).map(|_| served.connect()).collect();
    held.iter_mut().for_each(|stream| drop(ask(stream, REQUEST, "quick")));
    let mut waiting: Vec<TcpStream> = (0..6).map(|_| served.connect()).collect();
    for stream in &mut waiting {
        stream.write_all(REQUEST.as_bytes()).unwrap();
        stream.set_nonblocking(true).unwrap();
    }
    // waits for: nothing to happen
    std::thread::sleep(Duration::from_millis(200));
    assert!(
        waiting.iter_mut().all(|stream| stream.read(&mut [0; 1]).is_err()),
        "nobody is answered too early"
    );
    drop(held);
    // Two loops accept, so nobody knows whose turn is next; who was answered makes room.
    for _ in 0..10_000 {
        waiting.retain_mut(|stream| {
            if stream.peek(&mut [0; 1]).is_err() {
                return true;
            }
            stream.set_nonblocking(false).unwrap();
            receive(stream, "quick");
            false
        });
        if waiting.is_empty() {
            return;
        }
        // waits for: the next answer
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{} still wait", waiting.len());
}

#[test]
fn who_rests_here_at_a_stop_is_told_with_their_next_answer() {
    let served = serve(FEW, Duration::from_secs(10));
    let mut streams = [served.connect(), served.connect()];
    streams.iter_mut().for_each(|stream| drop(ask(stream, REQUEST, "quick")));
    let stopping = std::thread::spawn(move || served.stop());
    let [asking, silent] = &mut streams;
    // Whoever is quicker: an answer without a word is from before the stop.
    let mut answers = std::iter::repeat_with(|| {
        asking.write_all(REQUEST.as_bytes()).unwrap();
        receive_one(asking)
    });
    let last = answers.find(|answer| answer.contains("connection: close")).unwrap();
    assert!(last.ends_with("slow"), "{last}");
    assert_eq!(receive_all(asking), "");
    assert_eq!(receive_all(silent), "");
    stopping.join().unwrap();
}

#[test]
fn what_could_not_be_sent_before_a_stop_is_sent_all_the_same() {
    let served = serve(FEW, Duration::from_secs(20));
    let mut stream = served.connect();
    stream.write_all(LARGE.repeat(16).as_bytes()).unwrap();
    // waits for: the answers to be more than there is room for
    std::thread::sleep(Duration::from_millis(300));
    let stopping = std::thread::spawn(move || served.stop());
    // waits for: the time in which callers may ask once more to be over
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(receive_all(&mut stream).matches("quick").count(), 16);
    stopping.join().unwrap();
}

#[test]
fn who_panics_while_answering_harms_nobody_else() {
    let served = serve(FEW, Duration::ZERO);
    let mut stream = served.connect();
    let panic = "GET /panic HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all([REQUEST, panic, REQUEST].concat().as_bytes()).unwrap();
    let ends = [receive_one(&mut stream), receive_one(&mut stream)];
    assert!(ends[1].contains("Panicked") && ends[1].ends_with("quick"), "{ends:?}");
    ask(&mut served.connect(), REQUEST, "quick");
}

#[test]
fn who_panics_while_foreseeing_harms_nobody() {
    let served = serve(FEW, Duration::ZERO);
    let mut streams: Vec<TcpStream> = (0..50).map(|_| served.connect()).collect();
    for request in ["GET /at-once?foresee-panic HTTP/1.1\r\nhost: x\r\n\r\n", REQUEST] {
        // Many at once, because one alone is not foreseen.
        streams.iter_mut().for_each(|stream| stream.write_all(request.as_bytes()).unwrap());
        streams.iter_mut().for_each(|stream| drop(receive(stream, "quick")));
    }
}

#[test]
fn those_who_ask_at_once_are_answered_each_on_their_own() {
    let served = serve(FEW, Duration::ZERO);
    let mut streams: Vec<TcpStream> = (0..50).map(|_| served.connect()).collect();
    for (length, stream) in streams.iter_mut().enumerate() {
        let request = format!("GET /at-once{length} HTTP/1.1\r\nhost: x\r\n\r\n");
        let slow = "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n";
        let more = if length % 3 == 0 { [slow, REQUEST].concat() } else { request.clone() };
        stream.write_all([request, more].concat().as_bytes()).unwrap();
    }
    for (length, stream) in streams.iter_mut().enumerate() {
        let body = format!("\r\n\r\n{}quick", "x".repeat(length));
        assert!(receive_one(stream).ends_with(&body), "{length}");
        if length % 3 == 0 {
            let others = [receive_one(stream), receive_one(stream)];
            assert!(others.iter().all(|answer| answer.ends_with("\r\n\r\nslow")), "{length}");
        } else {
            assert!(receive_one(stream).ends_with(&body), "{length}");
        }
    }
}

#[test]
fn nobody_is_answered_what_could_not_be_kept() {
    let served = serve(FEW, Duration::ZERO);
    let mut stream = served.connect();
    served.quick.fails_to_keep.store(true, Ordering::Relaxed);
    stream.write_all([REQUEST, REQUEST, OTHER].concat().as_bytes()).unwrap();
    let all = receive(&mut stream, "slow");
    assert_eq!((all.matches("HTTP/1.1 500 ").count(), all.matches("quick").count()), (2, 0), "{all}");
    assert_eq!(all.matches("failed").count(), 2);
    served.quick.fails_to_keep.store(false, Ordering::Relaxed);
    ask(&mut served.connect(), REQUEST, "quick");
}

fn elsewhere(question: &str) -> String {
    format!("GET /elsewhere/{question} HTTP/1.1\r\nhost: x\r\n\r\n")
}

#[test]
fn what_is_decided_elsewhere_is_answered_in_the_order_it_was_asked_for() {
    let served = serve(FEW, Duration::from_secs(5));
    let mut stream = served.connect();
    let answer = ask(&mut stream, &elsewhere("20"), "20, quick");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nx-content-type-options: nosniff\r\n"), "{answer}");
    let several = [&elsewhere("30"), &elsewhere("1"), REQUEST, OTHER, &elsewhere("2")].concat();
    stream.write_all(several.as_bytes()).unwrap();
    // What comes behind a request for hyper, hyper answers too.
    for end in ["30, quick", "1, quick", "quick", "slow", "slow"] {
        assert!(receive_one(&mut stream).ends_with(end), "{end}");
    }
    let mut stream = served.connect();
    let answer = ask(&mut stream, &elsewhere("no"), "quick");
    assert!(answer.ends_with("\r\n\r\nno, so not quick"), "{answer}");
    stream.write_all(elsewhere("panic").as_bytes()).unwrap();
    assert!(ask(&mut stream, REQUEST, "quick").contains("\r\n\r\nPanickedHTTP/1.1 200 OK\r\n"));
    served.stop();
}

#[test]
fn a_loop_goes_on_while_somebody_waits_for_a_verdict() {
    let served = serve(FEW, Duration::from_secs(5));
    let (mut patient, mut other) = (served.connect(), served.connect());
    patient.write_all(elsewhere("400").as_bytes()).unwrap();
    // Who says more meanwhile, and closes, is answered first.
    patient.write_all(REQUEST.as_bytes()).unwrap();
    patient.shutdown(Shutdown::Write).unwrap();
    for _ in 0..20 {
        ask(&mut other, REQUEST, "quick");
        ask(&mut other, &elsewhere("1"), "1, quick");
    }
    let asked = served.quick.asked.load(Ordering::Relaxed);
    assert_eq!(asked, 21, "every question was put once");
    let answers = receive_all(&mut patient);
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    assert!(answers.contains("400, quick") && answers.ends_with("\r\n\r\nquick"), "{answers}");
    served.stop();
}

#[test]
fn who_waits_for_a_verdict_at_the_end_hears_it() {
    let served = serve(FEW, Duration::from_secs(5));
    let mut stream = served.connect();
    stream.write_all([elsewhere("200"), elsewhere("0")].concat().as_bytes()).unwrap();
    while served.quick.asked.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    let waiting = std::thread::spawn(move || receive_all(&mut stream));
    served.stop();
    let answers = waiting.join().unwrap();
    // What was not asked yet, hyper answers.
    assert!(answers.contains("200, quick") && answers.ends_with("slow"), "{answers}");
}

#[test]
fn who_has_asked_and_closes_their_side_is_answered() {
    let served = serve(FEW, Duration::from_secs(5));
    for requests in [vec![OTHER], vec![REQUEST, OTHER], vec![OTHER, OTHER, REQUEST]] {
        let mut stream = served.connect();
        stream.write_all(requests.concat().as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let answers = receive_all(&mut stream);
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), requests.len(), "{answers}");
    }
    served.stop();
}

/// An edge with one door of TLS, and how to shake hands there.
fn serve_tls(drain: Duration) -> (Served, Arc<ClientConfig>) {
    let (tls, client) = tls();
    (serve_at(Manner::Tls(tls), Runtime::new().unwrap(), FEW, drain), client)
}

fn session(config: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(Arc::clone(config), "localhost".try_into().unwrap()).unwrap()
}

/// What a caller begins a handshake with.
fn hello(config: &Arc<ClientConfig>) -> (ClientConnection, Vec<u8>) {
    let (mut session, mut hello) = (session(config), Vec::new());
    session.write_tls(&mut hello).unwrap();
    (session, hello)
}

#[test]
fn hands_are_shaken_and_requests_are_answered_here() {
    let (served, config) = serve_tls(Duration::ZERO);
    let mut stream = StreamOwned::new(session(&config), served.connect());
    for _ in 0..3 {
        ask(&mut stream, REQUEST, "quick");
    }
    ask(&mut stream, OTHER, "slow");
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    assert_eq!(receive_all(&mut stream), "", "the last word is said on both sides");
    assert_eq!(served.traffic.way(Way::Tls).failed_handshakes, 0);
}

#[test]
fn of_a_body_that_nobody_wants_as_much_is_read_as_hyper_reads_of_a_channel() {
    let (served, config) = serve_tls(Duration::ZERO);
    // Up to 16 KiB are sealed together, and hyper takes them in two pieces.
    for (length, goes_on) in [(9_000, true), (16_000, true), (18_658, false), (24_000, false)] {
        let mut stream = StreamOwned::new(session(&config), served.connect());
        ask(&mut stream, REQUEST, "quick");
        let head = format!("POST /other HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        let behind = "GET /other HTTP/1.1\r\nhost: x\r\nx-echo: behind-\r\nconnection: close\r\n\r\n";
        // Who is closed on may find that out while writing.
        let _ = stream.write_all([&head, &"x".repeat(length), behind].concat().as_bytes());
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        let heard = String::from_utf8(heard).unwrap();
        assert_eq!(heard.contains("behind-slow"), goes_on, "{length}: {heard}");
    }
}

#[test]
fn a_handshake_may_come_in_pieces() {
    let (served, config) = serve_tls(Duration::ZERO);
    let (session, hello) = hello(&config);
    let mut stream = served.connect();
    stream.set_nodelay(true).unwrap();
    hello.chunks(40).for_each(|piece| stream.write_all(piece).unwrap());
    ask(&mut StreamOwned::new(session, stream), REQUEST, "quick");
}

#[test]
fn who_speaks_clearly_at_a_door_of_tls_is_led_to_https() {
    let (served, _) = serve_tls(Duration::ZERO);
    let mut stream = served.connect();
    for _ in 0..2 {
        let answer = ask(&mut stream, REQUEST, "\r\n\r\n");
        assert!(
            answer.starts_with("HTTP/1.1 308 ") && answer.contains("\r\nlocation: https://x"),
            "{answer}"
        );
    }
}

#[test]
fn what_is_no_handshake_is_told_so_and_counted() {
    let (served, config) = serve_tls(Duration::ZERO);
    let mut stream = served.connect();
    stream.write_all(b"\x16\x03\x01\0\x04\x01\0\0\0").unwrap();
    let mut alert = Vec::new();
    let _ = stream.read_to_end(&mut alert);
    assert_eq!(alert.first(), Some(&0x15), "an alert: {alert:?}");
    let (_, hello) = hello(&config);
    let mut stream = served.connect();
    stream.write_all(&hello[..hello.len() / 2]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(receive_all(&mut stream), "");
    assert_eq!(served.traffic.way(Way::Tls).failed_handshakes, 2);
}

#[test]
fn a_handshake_that_takes_too_long_is_let_go() {
    let (served, config) = serve_tls(Duration::ZERO);
    let (mut silent, mut slow) = (served.connect(), served.connect());
    let (_, hello) = hello(&config);
    slow.write_all(&hello[..hello.len() / 2]).unwrap();
    // Who comes later is answered, so the others were let in.
    ask(&mut StreamOwned::new(session(&config), served.connect()), REQUEST, "quick");
    served.hand.advance_ms(u32::try_from(HANDSHAKE_TIMEOUT.as_millis()).unwrap());
    assert_eq!(receive_all(&mut slow), "");
    assert_eq!(served.traffic.way(Way::Tls).failed_handshakes, 1);
    served.hand.advance_ms(u32::try_from(HEADER_TIMEOUT.as_millis()).unwrap());
    assert_eq!(receive_all(&mut silent), "");
    assert_eq!(served.traffic.way(Way::Tls).failed_handshakes, 1, "nobody began one");
}

#[test]
fn a_handshake_that_has_begun_before_a_stop_goes_on() {
    let (served, config) = serve_tls(Duration::from_secs(20));
    let (session, hello) = hello(&config);
    let mut begun = served.connect();
    begun.write_all(&hello[..hello.len() / 2]).unwrap();
    let waiting = served.connect();
    ask(&mut StreamOwned::new(self::session(&config), served.connect()), REQUEST, "quick");
    let Served { stop, running, runtime, .. } = served;
    stop.send(()).unwrap();
    begun.write_all(&hello[hello.len() / 2..]).unwrap();
    let mut streams = [StreamOwned::new(session, begun), StreamOwned::new(self::session(&config), waiting)];
    for stream in &mut streams {
        let answer = ask(stream, OTHER, "slow");
        assert!(answer.contains("connection: close"), "{answer}");
    }
    runtime.block_on(running).unwrap();
}
