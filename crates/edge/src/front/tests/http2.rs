//! HTTP/2 at the front, spoken by the library's own client, and by hand where that would not.

use super::*;
use crate::http2::frame::{self, Begins, Frame, PREFACE};
use bytes::Bytes;
use futures_util::future::join_all;
use h2::client::{Builder, SendRequest};
use http::{Request, StatusCode};
use proptest::prelude::*;
use tokio_rustls::TlsConnector;

/// More than what every peer has room for.
const LARGE_WINDOW: u32 = 1 << 20;

fn speaking_http2(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// A caller who has room for so much.
async fn caller(address: SocketAddr, config: &ClientConfig, window: u32) -> SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let connector = TlsConnector::from(speaking_http2(config));
    let stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    let mut builder = Builder::new();
    builder.initial_connection_window_size(window);
    let (caller, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    caller.ready().await.unwrap()
}

/// Asks for all of these at once; the answers stand in their order.
async fn ask_all(caller: &mut SendRequest<Bytes>, paths: &[&str]) -> Vec<(Response<()>, String)> {
    let mut asked = Vec::new();
    for path in paths {
        let request = Request::get(format!("https://localhost{path}")).header("authorization", "Bearer x");
        let (answer, _) = caller.send_request(request.body(()).unwrap(), true).unwrap();
        asked.push(receive(answer));
    }
    join_all(asked).await
}

async fn receive(answer: h2::client::ResponseFuture) -> (Response<()>, String) {
    let (head, mut body) = answer.await.unwrap().into_parts();
    let mut text = Vec::new();
    while let Some(part) = body.data().await {
        let part = part.unwrap();
        body.flow_control().release_capacity(part.len()).unwrap();
        text.extend_from_slice(&part);
    }
    (Response::from_parts(head, ()), String::from_utf8(text).unwrap())
}

async fn bodies(caller: &mut SendRequest<Bytes>, paths: &[&str]) -> Vec<String> {
    ask_all(caller, paths).await.into_iter().map(|(_, body)| body).collect()
}

/// What an edge with a door of TLS says to such a caller.
fn with_caller(window: u32, talk: impl AsyncFnOnce(&Served, SendRequest<Bytes>)) {
    let (served, config) = serve_tls(Duration::from_secs(5));
    let handle = served.runtime.handle().clone();
    handle.block_on(async {
        let caller = caller(served.address, &config, window).await;
        talk(&served, caller).await;
    });
}

#[test]
fn many_requests_at_once_are_answered_each_on_its_stream() {
    with_caller(LARGE_WINDOW, async |_, mut caller| {
        let paths: Vec<String> = (0..90).map(|length| format!("/at-once{length}")).collect();
        for _ in 0..3 {
            let all = ask_all(&mut caller, &paths.iter().map(String::as_str).collect::<Vec<_>>()).await;
            for (length, (head, body)) in all.into_iter().enumerate() {
                assert_eq!(body, "x".repeat(length) + "quick");
                let field = |name| head.headers().get(name).unwrap().to_str().unwrap();
                assert_eq!(head.status(), StatusCode::OK);
                assert_eq!(
                    (field("content-length"), field("x-content-type-options")),
                    (&*body.len().to_string(), "nosniff")
                );
                assert!(field("date").ends_with(" GMT"));
            }
        }
    });
}

#[test]
fn what_is_not_plain_goes_to_the_library_and_the_connection_with_it() {
    with_caller(LARGE_WINDOW, async |_, mut caller| {
        assert_eq!(bodies(&mut caller, &["/at-once", "/at-once1"]).await, ["quick", "xquick"]);
        let both = bodies(&mut caller, &["/at-once", "/other", "/at-once"]).await;
        assert_eq!(both, ["quick", "slow", "slow"]);
        for _ in 0..3 {
            assert_eq!(bodies(&mut caller, &["/at-once", "/other"]).await, ["slow", "slow"]);
        }
        // A body, larger than what it has room for before it is told of more.
        let (answer, mut sending) =
            caller.send_request(Request::post("https://localhost/at-once").body(()).unwrap(), false).unwrap();
        sending.send_data(Bytes::from(vec![0; 30_000]), true).unwrap();
        assert_eq!(receive(answer).await.1, "slow");
    });
}

#[test]
fn who_begins_with_something_else_is_answered_by_the_library() {
    with_caller(LARGE_WINDOW, async |_, mut caller| {
        assert_eq!(bodies(&mut caller, &["/other"]).await, ["slow"]);
        assert_eq!(bodies(&mut caller, &["/at-once"]).await, ["slow"]);
    });
}

#[test]
fn who_has_little_room_is_answered_by_the_library() {
    with_caller(65_535, async |_, mut caller| {
        assert_eq!(bodies(&mut caller, &["/at-once", "/at-once"]).await, ["slow", "slow"]);
    });
}

#[test]
fn room_that_was_used_is_not_used_again() {
    // Two answers of 16 KiB fit beside what is never used, and then there is less than one more may take.
    with_caller(65_535 + 40_000, async |_, mut caller| {
        let path = "/at-once16379";
        let lengths = async |caller: &mut SendRequest<Bytes>| {
            bodies(caller, &[path; 3]).await.iter().map(String::len).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&mut caller).await, [16_384, 16_384, 4]);
    });
}

#[test]
fn who_panics_or_says_too_much_harms_nobody_else() {
    with_caller(LARGE_WINDOW, async |_, mut caller| {
        let all = bodies(&mut caller, &["/at-once", "/panic", "/at-once20000", "/at-once"]).await;
        assert_eq!(all, ["quick", "Panicked", "Panicked", "quick"]);
    });
}

#[test]
fn nobody_is_answered_what_could_not_be_kept() {
    with_caller(LARGE_WINDOW, async |served, mut caller| {
        assert_eq!(bodies(&mut caller, &["/at-once"]).await, ["quick"]);
        served.quick.fails_to_keep.store(true, Ordering::Relaxed);
        for (head, body) in ask_all(&mut caller, &["/at-once", "/at-once900"]).await {
            assert_eq!((head.status(), body.as_str()), (StatusCode::INTERNAL_SERVER_ERROR, "failed"));
        }
        served.quick.fails_to_keep.store(false, Ordering::Relaxed);
        assert_eq!(bodies(&mut caller, &["/at-once"]).await, ["quick"]);
    });
}

#[test]
fn who_rests_at_a_stop_is_told_so() {
    for path in ["/at-once", "/other"] {
        let (served, config) = serve_tls(Duration::from_secs(5));
        let handle = served.runtime.handle().clone();
        let mut caller = handle.block_on(async {
            let mut caller = caller(served.address, &config, LARGE_WINDOW).await;
            bodies(&mut caller, &[path]).await;
            caller
        });
        let _ = served.stop.send(());
        served.runtime.block_on(served.running).unwrap();
        let refused = handle.block_on(async { std::future::poll_fn(|cx| caller.poll_ready(cx)).await });
        let request = Request::get("https://localhost/").body(()).unwrap();
        assert!(refused.is_err() || caller.send_request(request, true).is_err(), "{path}");
    }
}

/// One who speaks frames.
struct ByHand {
    stream: StreamOwned<ClientConnection, TcpStream>,
    came: Vec<u8>,
    /// What waits until all of it is said at once.
    unsaid: Option<Vec<u8>>,
}

/// A caller who was answered once, so that `:authority` is kept by its number.
fn answered_once() -> (Served, ByHand) {
    let (served, config) = serve_tls(Duration::ZERO);
    let mut caller = ByHand::new(&served, &config);
    caller.begin();
    caller.ask(1, "/at-once");
    caller.hear_until(frame::DATA);
    (served, caller)
}

/// What is heard: the kind of a frame, its flags and its stream, and what it says.
type Heard = (u8, u8, u32, Vec<u8>);

impl ByHand {
    fn new(served: &Served, config: &ClientConfig) -> Self {
        let config = speaking_http2(config);
        let stream = StreamOwned::new(session(&config), served.connect());
        Self { stream, came: Vec::new(), unsaid: None }
    }

    /// Says all of this in one step, when hands are shaken.
    fn say_at_once(&mut self, say: impl FnOnce(&mut Self)) {
        while self.stream.conn.is_handshaking() {
            self.stream.conn.complete_io(&mut self.stream.sock).unwrap();
        }
        self.unsaid = Some(Vec::new());
        say(self);
        self.stream.write_all(&self.unsaid.take().unwrap()).unwrap();
    }

    fn write(&mut self, bytes: &[u8]) {
        match &mut self.unsaid {
            Some(unsaid) => unsaid.extend_from_slice(bytes),
            None => self.stream.write_all(bytes).unwrap(),
        }
    }

    fn say(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut bytes = Vec::new();
        Frame { kind, flags, stream, payload }.write(&mut bytes);
        self.write(&bytes);
    }

    /// Begins as everybody does, with much room.
    fn begin(&mut self) {
        self.write(PREFACE);
        self.say(frame::SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]);
        self.say(frame::WINDOW_UPDATE, 0, 0, &LARGE_WINDOW.to_be_bytes());
    }

    /// Asks for this path.
    fn ask(&mut self, stream: u32, path: &str) {
        let mut block = vec![0x82, 0x87, 0x41, 1, b'x', 0x04, u8::try_from(path.len()).unwrap()];
        block.extend_from_slice(path.as_bytes());
        self.say(frame::HEADERS, frame::END_HEADERS | frame::END_STREAM, stream, &block);
    }

    fn hear(&mut self) -> Option<Heard> {
        loop {
            if let Begins::With(Frame { kind, flags, stream, payload }, length) = Frame::read(&self.came) {
                let heard = (kind, flags, stream, payload.to_vec());
                self.came.drain(..length);
                return Some(heard);
            }
            let mut part = [0; 4096];
            match self.stream.read(&mut part) {
                Ok(read) if read > 0 => self.came.extend_from_slice(&part[..read]),
                _ => return None,
            }
        }
    }

    /// Hears until a frame of this kind.
    #[track_caller]
    fn hear_until(&mut self, kind: u8) -> Heard {
        while let Some(heard) = self.hear() {
            if heard.0 == kind {
                return heard;
            }
        }
        panic!("it never came");
    }

    /// How the connection ended: the last stream that was answered, and why.
    fn hear_end(&mut self) -> Option<(u32, u32)> {
        let (.., payload) =
            std::iter::from_fn(|| self.hear()).filter(|heard| heard.0 == frame::GO_AWAY).last()?;
        let part = |from: usize| u32::from_be_bytes(payload[from..from + 4].try_into().unwrap());
        Some((part(0), part(4)))
    }
}

#[test]
fn settings_and_pings_are_answered_before_anything_is_asked() {
    let (served, config) = serve_tls(Duration::ZERO);
    let mut caller = ByHand::new(&served, &config);
    for byte in PREFACE {
        caller.stream.write_all(&[*byte]).unwrap();
        caller.stream.flush().unwrap();
    }
    caller.say(frame::SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]);
    let (kind, flags, ..) = caller.hear().unwrap();
    assert_eq!((kind, flags), (frame::SETTINGS, 0), "before anything else");
    assert_eq!(caller.hear().unwrap(), (frame::SETTINGS, frame::ACKNOWLEDGED, 0, vec![]));
    caller.say(frame::SETTINGS, frame::ACKNOWLEDGED, 0, &[]);
    caller.say(frame::PING, 0, 0, b"12345678");
    assert_eq!(caller.hear().unwrap(), (frame::PING, frame::ACKNOWLEDGED, 0, b"12345678".to_vec()));
    caller.say(frame::WINDOW_UPDATE, 0, 0, &LARGE_WINDOW.to_be_bytes());
    caller.ask(1, "/at-once");
    assert_eq!(caller.hear().unwrap().0, frame::HEADERS);
    let quick = (frame::DATA, frame::END_STREAM, 1, b"quick".to_vec());
    assert_eq!(caller.hear().unwrap(), quick);
    // What is said about an answer that has left is no fault.
    caller.say(frame::WINDOW_UPDATE, 0, 1, &9_u32.to_be_bytes());
    caller.say(frame::RESET, 0, 1, &8_u32.to_be_bytes());
    caller.ask(3, "/at-once");
    assert_eq!(caller.hear_until(frame::DATA), (frame::DATA, frame::END_STREAM, 3, b"quick".to_vec()));
    // By somebody else, who says nothing again that was said.
    caller.ask(5, "/other");
    let heard: Vec<Heard> =
        std::iter::from_fn(|| caller.hear()).take_while(|heard| heard.0 != frame::DATA).collect();
    assert!(heard.iter().all(|heard| heard.0 != frame::SETTINGS), "{heard:?}");
    caller.say(frame::PING, 0, 0, b"12345678");
    assert_eq!(caller.hear_until(frame::PING).1, frame::ACKNOWLEDGED);
    // New settings are heard by whoever is there.
    caller.say(frame::SETTINGS, 0, 0, &[0, 4, 0, 2, 0, 0]);
    assert_eq!(caller.hear_until(frame::SETTINGS).1, frame::ACKNOWLEDGED);
}

/// Whatever is wrong, the connection ends for the same reason, whoever was there, and nothing that was answered is denied.
#[track_caller]
fn check_end(wrong: impl Fn(&mut ByHand)) {
    let (served, config) = serve_tls(Duration::ZERO);
    let ends: Vec<_> = (0..3)
        .map(|asks| {
            let mut caller = ByHand::new(&served, &config);
            caller.begin();
            let mut answered = 0;
            for request in 0..asks {
                answered = 2 * request + 1;
                caller.ask(answered, "/at-once");
                caller.hear_until(frame::DATA);
            }
            wrong(&mut caller);
            let (last, reason) = caller.hear_end()?;
            assert!(last >= answered, "{last} after {answered}");
            Some(reason)
        })
        .collect();
    assert!(ends[0] > Some(0) && ends[1..] == [ends[0]; 2], "{ends:?}");
}

#[test]
fn what_is_wrong_is_said_by_the_library() {
    let whole = frame::END_HEADERS | frame::END_STREAM;
    check_end(|caller| caller.say(frame::DATA, 0, 0, b"x"));
    check_end(|caller| caller.say(frame::WINDOW_UPDATE, 0, 0, &[0; 4]));
    check_end(|caller| caller.say(frame::CONTINUATION, frame::END_HEADERS, 9, &[0x82]));
    check_end(|caller| caller.say(frame::PING, 0, 0, b"short"));
    check_end(|caller| caller.say(frame::DATA, 0, 9, &vec![0; 16_385]));
    check_end(|caller| caller.say(frame::HEADERS, whole, 9, &[0x80]));
    check_end(|caller| caller.say(frame::HEADERS, whole, 9, &[0xc5]));
    check_end(|caller| caller.say(frame::WINDOW_UPDATE, 0, 1, &[0; 4]));
    check_end(|caller| caller.say(frame::RESET, 0, 1, b"odd"));
    // A block that is not whole, and then something else.
    check_end(|caller| {
        caller.say(frame::HEADERS, frame::END_STREAM, 9, &[0x82]);
        caller.say(frame::PING, 0, 0, b"12345678");
    });
}

#[test]
fn who_says_nothing_for_long_is_told_what_was_answered() {
    let (served, mut caller) = answered_once();
    served.hand.advance_ms(u32::try_from(IDLE_TIMEOUT.as_millis()).unwrap());
    assert_eq!(caller.hear_end(), Some((1, 0)));
}

#[test]
fn who_rests_at_a_stop_is_told_what_was_answered() {
    let (served, config) = serve_tls(Duration::from_secs(5));
    let mut caller = ByHand::new(&served, &config);
    caller.begin();
    for stream in [1, 3] {
        caller.ask(stream, "/at-once");
        caller.hear_until(frame::DATA);
    }
    let _ = served.stop.send(());
    let (.., ping) = caller.hear_until(frame::PING);
    caller.say(frame::PING, frame::ACKNOWLEDGED, 0, &ping);
    assert_eq!(caller.hear_end(), Some((3, 0)));
}

#[test]
fn what_the_library_answers_is_told_at_the_end_too() {
    let (_served, mut caller) = answered_once();
    caller.ask(3, "/other");
    assert_eq!(caller.hear_until(frame::DATA).3, b"slow");
    caller.say(frame::PING, 0, 0, b"short");
    assert_eq!(caller.hear_end().map(|(last, _)| last), Some(3));
}

#[test]
fn settings_are_heard_before_anybody_is_answered() {
    let (served, config) = serve_tls(Duration::ZERO);
    let mut caller = ByHand::new(&served, &config);
    caller.say_at_once(|caller| {
        caller.begin();
        caller.ask(1, "/at-once");
        caller.say(frame::PING, 0, 0, b"12345678");
        caller.ask(3, "/at-once");
    });
    let kinds: Vec<u8> = (0..7).map(|_| caller.hear().unwrap().0).collect();
    let answer = [frame::HEADERS, frame::DATA];
    let settings = [frame::SETTINGS, frame::SETTINGS];
    assert_eq!(kinds, [&settings[..], &answer, &[frame::PING], &answer].concat());
}

#[test]
fn who_asks_for_much_and_closes_their_side_is_answered() {
    let (served, config) = serve_tls(Duration::ZERO);
    let mut caller = ByHand::new(&served, &config);
    caller.say_at_once(|caller| {
        caller.begin();
        for request in 0..40 {
            caller.ask(2 * request + 1, "/at-once");
        }
    });
    caller.stream.sock.shutdown(Shutdown::Write).unwrap();
    let answered = std::iter::from_fn(|| caller.hear()).filter(|heard| heard.0 == frame::DATA).count();
    assert_eq!(answered, 40);
}

#[test]
fn fields_in_several_frames_are_read_by_the_library() {
    let (_served, mut caller) = answered_once();
    caller.say(frame::HEADERS, frame::END_STREAM, 3, &[0x82, 0x87]);
    caller.say(frame::CONTINUATION, 0, 3, &[0xbe]);
    caller.say(frame::CONTINUATION, frame::END_HEADERS, 3, &[0x84]);
    assert_eq!(caller.hear_until(frame::DATA), (frame::DATA, frame::END_STREAM, 3, b"slow".to_vec()));
    // Padded, and with a priority.
    let flags = frame::END_HEADERS | frame::END_STREAM | frame::PADDED | frame::PRIORITY;
    caller.say(frame::HEADERS, flags, 5, &[2, 0, 0, 0, 0, 7, 0x82, 0x87, 0xbe, 0x84, 0, 0]);
    assert_eq!(caller.hear_until(frame::DATA), (frame::DATA, frame::END_STREAM, 5, b"slow".to_vec()));
}

/// What a caller does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Asks for as many bytes at once.
    AtOnce(usize),
    /// Asks for something that is not answered at once.
    Other,
    /// Sends as many bytes.
    Post(usize),
    /// Asks with a field that has to be thought about.
    Unusual,
}

fn step() -> impl Strategy<Value = (Step, usize, bool)> {
    let step = prop_oneof![
        12 => (0..3_000_usize).prop_map(Step::AtOnce),
        1 => Just(Step::Other),
        1 => (0..40_000_usize).prop_map(Step::Post),
        1 => Just(Step::Unusual),
    ];
    // Which of some values a field has, and whether the answer is waited for before the next step.
    (step, 0..6_usize, any::<bool>())
}

/// Does the step, and says which end its answer must have here, and which there.
fn take(
    caller: &mut SendRequest<Bytes>,
    step: Step,
    echo: &str,
) -> (h2::client::ResponseFuture, [String; 2]) {
    let path = match step {
        Step::AtOnce(length) => format!("/at-once{length}"),
        Step::Other | Step::Post(_) | Step::Unusual => "/other".to_owned(),
    };
    let mut request = Request::get(format!("https://localhost{path}")).header("x-echo", echo);
    if let Step::Unusual = step {
        request = request.header("te", "trailers");
    }
    if let Step::Post(_) = step {
        request = request.method("POST");
    }
    let body = if let Step::Post(bytes) = step { Some(bytes) } else { None };
    let (answer, mut sending) = caller.send_request(request.body(()).unwrap(), body.is_none()).unwrap();
    if let Some(bytes) = body {
        sending.send_data(Bytes::from(vec![0; bytes]), true).unwrap();
    }
    let quick = match step {
        Step::AtOnce(length) => "x".repeat(length) + "quick",
        _ => String::new(),
    };
    (answer, [quick, format!("{echo}slow")])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn whatever_is_asked_is_answered_once_and_rightly(
        steps in prop::collection::vec(step(), 1..60),
        window in prop_oneof![Just(65_535_u32), 65_535..300_000_u32, Just(LARGE_WINDOW)],
    ) {
        let echoes = ["", "a", "b b", "Bearer c", &"d".repeat(300), &"e".repeat(4_100)];
        with_caller(window, async |_, mut caller| {
            let mut is_taken_over = false;
            let mut waiting = Vec::new();
            let last = steps.len() - 1;
            for (number, (step, echo, waits)) in steps.iter().enumerate() {
                caller = caller.ready().await.unwrap();
                waiting.push(take(&mut caller, *step, echoes[*echo]));
                if !*waits && number < last && waiting.len() < 20 {
                    continue;
                }
                let expected: Vec<[String; 2]> = waiting.iter().map(|(_, ends)| ends.clone()).collect();
                let answers = join_all(waiting.drain(..).map(|(answer, _)| receive(answer))).await;
                for ((head, body), [quick, slow]) in answers.into_iter().zip(expected) {
                    assert_eq!(head.status(), StatusCode::OK);
                    // Once somebody else has taken over, nobody else answers.
                    is_taken_over |= body != quick;
                    assert_eq!(body, if is_taken_over { slow } else { quick });
                }
            }
        });
    }
}

#[test]
fn more_than_is_read_at_once_is_answered_all_the_same() {
    with_caller(LARGE_WINDOW, async |_, mut caller| {
        for _ in 0..5 {
            let mut asked = Vec::new();
            for number in 0..96 {
                // Of which nothing is remembered, so that each is long.
                let mut pad = http::HeaderValue::from_str(&format!("{number}{}", "v".repeat(900))).unwrap();
                pad.set_sensitive(true);
                let request = Request::get("https://localhost/at-once7").header("x-pad", pad);
                let (answer, _) = caller.send_request(request.body(()).unwrap(), true).unwrap();
                asked.push(receive(answer));
            }
            assert!(join_all(asked).await.into_iter().all(|(_, body)| body == "xxxxxxxquick"));
        }
    });
}

#[test]
fn who_remembers_less_is_told_that_this_was_heard() {
    let (_served, mut caller) = answered_once();
    caller.say(frame::SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]);
    assert_eq!(caller.hear_until(frame::SETTINGS).1, frame::ACKNOWLEDGED);
    caller.ask(3, "/at-once");
    let (.., fields) = caller.hear_until(frame::HEADERS);
    assert_eq!(fields.first(), Some(&0x20), "the size of what is remembered");
}

#[test]
fn what_comes_late_about_an_answer_is_no_fault_for_anybody() {
    let (_served, mut caller) = answered_once();
    caller.ask(3, "/at-once");
    caller.hear_until(frame::DATA);
    // For somebody else to read.
    caller.say(frame::PRIORITIZE, 0, 7, &[0, 0, 0, 0, 7]);
    caller.say(frame::RESET, 0, 1, &8_u32.to_be_bytes());
    caller.say(frame::WINDOW_UPDATE, 0, 3, &9_u32.to_be_bytes());
    caller.say(frame::PRIORITIZE, 0, 3, &[0, 0, 0, 0, 7]);
    caller.ask(5, "/other");
    assert_eq!(caller.hear_until(frame::DATA), (frame::DATA, frame::END_STREAM, 5, b"slow".to_vec()));
    // But nothing begins there again.
    caller.ask(1, "/at-once");
    assert_eq!(caller.hear_end().map(|(_, reason)| reason), Some(1));
}

#[test]
fn fields_that_say_much_with_little_are_refused() {
    let (_served, mut caller) = answered_once();
    let mut block = vec![0x82, 0x87, 0xbe, 0x84, 0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
    block.extend_from_slice(&[b'y'; 4_000]);
    caller.say(frame::HEADERS, frame::END_HEADERS | frame::END_STREAM, 3, &block);
    assert_eq!(caller.hear_until(frame::DATA).2, 3);
    for stream in (5..25).step_by(2) {
        let block = [&[0x82, 0x87, 0x41, 1, b'x', 0x84][..], &[0xbf; 300]].concat();
        caller.say(frame::HEADERS, frame::END_HEADERS | frame::END_STREAM, stream, &block);
    }
    // However it is refused, others are answered.
    caller.ask(25, "/at-once");
    let answered = std::iter::from_fn(|| caller.hear()).find(|heard| heard.0 == frame::DATA && heard.2 == 25);
    assert_eq!(answered.map(|heard| heard.3), Some(b"slow".to_vec()));
}

#[test]
fn who_only_pings_is_let_go_like_who_says_nothing() {
    let (served, mut caller) = answered_once();
    served.hand.advance_ms(u32::try_from(IDLE_TIMEOUT.as_millis()).unwrap() - 1_000);
    caller.say(frame::PING, 0, 0, b"12345678");
    caller.hear_until(frame::PING);
    served.hand.advance_ms(1_000);
    assert_eq!(caller.hear_end(), Some((1, 0)));
}
