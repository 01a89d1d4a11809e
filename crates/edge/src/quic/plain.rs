//! Plain requests of HTTP/3, answered where they come in: each is a head, and all that there is on its stream. The library is shown
//! the others, and never learns of these.

use super::Outcome;
use super::capped::{Attendant, Passed, Stream};
use super::qpack::{self, Unpacked};
use crate::fault::HttpFault;
use crate::front::{Head, answer_fields, client, complete, end_of_head, reply_bytes};
use crate::http2::hpack::Block;
use crate::idle::{Idle, Open};
use crate::prompt::{Ask, Draft, Prompt, Said};
use crate::reply::Reply;
use crate::serve::{House, Line};
use crate::wire::WRITE_TIMEOUT;
use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{RecvStream, SendStream, SendStreamUnframed, StreamErrorIncoming};
use http::Version;
use ipse_model::{HttpVersion, Now};
use quinn::Connection;
use std::future::poll_fn;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// Frames by their numbers.
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// Whoever answers plain requests, and what they write on, which is used again and again by the connections of a door.
pub(super) struct Slates<P: Prompt> {
    prompt: Arc<P>,
    clean: Mutex<Vec<Box<Slate<P>>>>,
}

/// One turn: what was read and decided, and the answers.
struct Slate<P: Prompt> {
    decided: P::Turn,
    unpacked: Unpacked,
    block: Block,
    draft: Draft,
    /// The answers, one behind the other.
    output: Vec<u8>,
    due: Vec<Due>,
}

/// An answer that leaves when everything is kept.
struct Due {
    stream: Stream,
    answer: Range<usize>,
    open: Open,
}

impl<P: Prompt> Slates<P> {
    /// For those who answer at once; others are better asked for many together.
    pub(super) fn new(prompt: &Arc<P>) -> Option<Arc<Self>> {
        let slates = || Arc::new(Self { prompt: Arc::clone(prompt), clean: Mutex::default() });
        prompt.answers_at_once().then(slates)
    }

    fn take(&self) -> Box<Slate<P>> {
        let clean = self.clean.lock().unwrap_or_else(PoisonError::into_inner).pop();
        clean.unwrap_or_else(|| {
            Box::new(Slate {
                decided: P::Turn::default(),
                unpacked: Unpacked::default(),
                block: Block::default(),
                draft: Draft::default(),
                output: Vec::new(),
                due: Vec::new(),
            })
        })
    }

    fn put(&self, slate: Box<Slate<P>>) {
        self.clean.lock().unwrap_or_else(PoisonError::into_inner).push(slate);
    }
}

/// What there was no room for of an answer.
pub(super) struct Unsent {
    stream: Stream,
    rest: Bytes,
    _open: Open,
}

impl Unsent {
    /// Sends it as there is room.
    pub(super) async fn send(self) -> Outcome {
        let Self { mut stream, mut rest, _open } = self;
        let sending = poll_fn(|cx| poll_send(&mut stream, &mut rest, cx));
        if matches!(tokio::time::timeout(WRITE_TIMEOUT, sending).await, Ok(Ok(()))) {
            return Outcome::Answered;
        }
        // Else it would end as if it were whole.
        stream.reset(Code::H3_REQUEST_CANCELLED.value());
        Outcome::Nothing
    }
}

/// Sends a whole answer, and that it ends.
fn poll_send(
    stream: &mut Stream,
    rest: &mut impl Buf,
    cx: &mut Context<'_>,
) -> Poll<Result<(), StreamErrorIncoming>> {
    while rest.has_remaining() {
        ready!(stream.poll_send(cx, rest))?;
    }
    stream.poll_finish(cx)
}

/// Answers the plain requests of a connection.
pub(super) struct Porter<S, P: Prompt> {
    house: Arc<House<S>>,
    line: Arc<Line>,
    connection: Connection,
    idle: Idle,
    passed: Arc<Passed>,
    unsent: mpsc::UnboundedSender<Box<Unsent>>,
    slates: Arc<Slates<P>>,
    /// What this turn is written on, if something was asked in it.
    slate: Option<Box<Slate<P>>>,
}

impl<S: Send + Sync, P: Prompt> Porter<S, P> {
    /// For a connection. What there is no room for of an answer is told elsewhere.
    pub(super) fn new(
        (house, slates): (&Arc<House<S>>, &Arc<Slates<P>>),
        (connection, line): (&Connection, &Arc<Line>),
        (idle, passed): (&Idle, &Arc<Passed>),
        unsent: mpsc::UnboundedSender<Box<Unsent>>,
    ) -> Self {
        Self {
            house: Arc::clone(house),
            line: Arc::clone(line),
            connection: connection.clone(),
            idle: idle.clone(),
            passed: Arc::clone(passed),
            unsent,
            slates: Arc::clone(slates),
            slate: None,
        }
    }

    /// Writes the answer to a request, if that is plain.
    fn answer(&self, came: &[u8], slate: &mut Slate<P>) -> Option<Range<usize>> {
        let Slate { decided, unpacked, block, draft, output, .. } = slate;
        qpack::read(section(came)?, unpacked, block).ok()?;
        let head = Head::of_block(&block.bytes, &block.fields, b"https")?;
        let (now, stopwatch) = self.house.clock.begin();
        let rtt_ms = || super::rtt_ms(&self.connection);
        let client = client(&self.house, &self.line, &head, HttpVersion::Http3, rtt_ms)?;
        let outline = head.outline;
        let ask = Ask {
            version: Version::HTTP_3,
            target: outline.target.of(&block.bytes),
            authorization: outline.authorization.map(|part| part.of(&block.bytes)),
            client: &client,
            now,
            stopwatch: &stopwatch,
            foreseen: None,
        };
        let said = catch_unwind(AssertUnwindSafe(|| {
            draft.head.clear();
            draft.body.clear();
            self.slates.prompt.answer(&ask, decided, draft)
        }));
        let begin = output.len();
        match said {
            Ok(Said::Nothing) => return None,
            Ok(Said::Answer) => {
                let Draft { head, body } = draft;
                complete(head, &self.line.told, self.house.date(now).as_bytes(), body.len());
                write_answer(head, body, output);
            }
            // Who answers at once never says the first.
            Ok(Said::Body) | Err(_) => {
                self.write_reply((self.house.faults)(HttpFault::Panicked), now, output);
            }
        }
        Some(begin..output.len())
    }

    /// Writes what nobody has drafted.
    fn write_reply(&self, reply: Reply, now: Now, output: &mut Vec<u8>) {
        let reply = reply_bytes(&self.house, &self.line, self.house.date(now).as_bytes(), reply);
        let (head, body) = reply.split_at(end_of_head(&reply));
        write_answer(head, body, output);
    }
}

impl<S: Send + Sync, P: Prompt> Attendant for Porter<S, P> {
    fn attend(&mut self, mut stream: Stream, cx: &mut Context<'_>) -> Option<Stream> {
        let number = stream.recv_id().index();
        // The library counts from the first request on.
        let is_ours = number > 0 && !self.passed.is_over() && !self.house.is_closing();
        if is_ours && let Some(came) = stream.whole(cx) {
            let mut slate = self.slate.take().unwrap_or_else(|| self.slates.take());
            let answer = self.answer(&came, &mut slate);
            let slate = self.slate.insert(slate);
            if let Some(answer) = answer {
                self.passed.answer(number);
                slate.due.push(Due { stream, answer, open: self.idle.asked() });
                return None;
            }
        }
        Some(stream)
    }

    fn end_turn(&mut self, cx: &mut Context<'_>) {
        let Some(mut slate) = self.slate.take() else { return };
        if !slate.due.is_empty() {
            let now = self.house.clock.now();
            // Nobody is told what may be forgotten.
            let failure = self.slates.prompt.keep(&mut slate.decided, now).err().map(|reply| {
                let mut failure = Vec::new();
                self.write_reply(*reply, now, &mut failure);
                failure
            });
            let Slate { due, output, .. } = &mut *slate;
            for Due { mut stream, answer, open } in due.drain(..) {
                let mut rest = failure.as_deref().unwrap_or(&output[answer]);
                // Who is gone is not answered.
                if poll_send(&mut stream, &mut rest, cx).is_pending() {
                    let rest = Bytes::copy_from_slice(rest);
                    let _ = self.unsent.send(Box::new(Unsent { stream, rest, _open: open }));
                }
            }
            output.clear();
        }
        self.slates.put(slate);
    }
}

/// The fields of a request whose head is all that came.
fn section(came: &[u8]) -> Option<&[u8]> {
    let (length, section) = match came {
        [HEADERS, length @ ..0x40, section @ ..] => (u16::from(*length), section),
        [HEADERS, high @ 0x40..0x80, low, section @ ..] => (u16::from_be_bytes([high & 0x3f, *low]), section),
        _ => return None,
    };
    (section.len() == usize::from(length)).then_some(section)
}

/// Writes an answer that was drafted as HTTP/1 has it.
fn write_answer(head: &[u8], body: &[u8], output: &mut Vec<u8>) {
    const LENGTH_BYTES: usize = 4;
    output.push(HEADERS);
    let begin = output.len();
    output.extend_from_slice(&[0; LENGTH_BYTES]);
    qpack::begin(output);
    answer_fields(head).for_each(|(name, value)| qpack::write(output, name, value));
    let length = length(output.len() - begin - LENGTH_BYTES);
    output[begin..][..LENGTH_BYTES].copy_from_slice(&length);
    if !body.is_empty() {
        output.push(DATA);
        output.extend_from_slice(&self::length(body.len()));
        output.extend_from_slice(body);
    }
}

/// A length of less than a gigabyte.
fn length(bytes: usize) -> [u8; 4] {
    const OF_FOUR_BYTES: u32 = 0x8000_0000;
    (OF_FOUR_BYTES | u32::try_from(bytes).unwrap_or_default()).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{client, edge_until};
    use super::*;
    use crate::front::tests::Quick;
    use crate::serve::Visit;
    use http::{HeaderValue, Method, Response, header};
    use http_body_util::Full;
    use ipse_model::Client;
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};
    use quinn::{RecvStream, SendStream, VarInt};
    use std::cell::RefCell;
    use std::net::SocketAddr;
    use std::ops::Deref;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;
    use tokio::sync::oneshot;
    use tokio_rustls::rustls::pki_types::CertificateDer;

    const LONG: usize = 1_000_000;

    /// A caller who speaks HTTP/3 by hand, to somebody who answers some requests at once.
    struct ByHand {
        caller: Caller,
        quick: Arc<Quick>,
        stop: oneshot::Sender<()>,
    }

    struct Caller {
        connection: Connection,
        _endpoint: quinn::Endpoint,
    }

    /// An answer: its fields, and its body.
    type Answer = (Vec<(String, String)>, String);

    impl ByHand {
        async fn new() -> Self {
            let quick = Arc::new(Quick::default());
            let (stop, stopped) = oneshot::channel();
            let service = |visit: Visit| {
                let mut reply = Response::new(Full::from("slow"));
                reply
                    .headers_mut()
                    .extend(visit.request.headers.get("te").map(|te| (header::TE, te.clone())));
                std::future::ready(reply)
            };
            let stopped = async { drop(stopped.await) };
            let (door, certificate) = edge_until(stopped, service, Some(Arc::clone(&quick)));
            let caller = Caller::new(door, &certificate).await;
            // The first request is the library's.
            assert_eq!(caller.ask("/at-once", &[]).await.1, "slow");
            Self { caller, quick, stop }
        }
    }

    impl Deref for ByHand {
        type Target = Caller;

        fn deref(&self) -> &Caller {
            &self.caller
        }
    }

    impl Caller {
        async fn new(door: SocketAddr, certificate: &CertificateDer<'static>) -> Self {
            let endpoint = client(certificate);
            let connection = endpoint.connect(door, "localhost").unwrap().await.unwrap();
            Self { connection, _endpoint: endpoint }
        }

        async fn open(&self) -> (SendStream, RecvStream) {
            self.connection.open_bi().await.unwrap()
        }

        async fn ask(&self, path: &str, more: &[(&str, &str)]) -> Answer {
            let (mut sending, receiving) = self.open().await;
            sending.write_all(&request(path, more)).await.unwrap();
            sending.finish().unwrap();
            hear(receiving).await
        }
    }

    fn request(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
        let fields = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
        head(&[&fields, more].concat())
    }

    fn head(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut section = Vec::new();
        qpack::begin(&mut section);
        for (name, value) in fields {
            qpack::write(&mut section, name.as_bytes(), value.as_bytes());
        }
        let length = u16::try_from(section.len()).unwrap() | 0x4000;
        [&[HEADERS], &length.to_be_bytes()[..], &section].concat()
    }

    async fn hear(mut receiving: RecvStream) -> Answer {
        answer(&receiving.read_to_end(2 * LONG).await.unwrap())
    }

    fn answer(came: &[u8]) -> Answer {
        let (mut rest, mut fields, mut body) = (came, Vec::new(), Vec::new());
        while !rest.is_empty() {
            let (kind, length) = (number(&mut rest), number(&mut rest));
            let (payload, behind) = rest.split_at(usize::try_from(length).unwrap());
            rest = behind;
            match u8::try_from(kind) {
                Ok(HEADERS) => {
                    let mut block = Block::default();
                    qpack::read(payload, &mut Unpacked::default(), &mut block).unwrap();
                    let text = |part: crate::fields::Part| {
                        String::from_utf8(part.of(&block.bytes).to_vec()).unwrap()
                    };
                    fields = block.fields.iter().map(|field| (text(field.name), text(field.value))).collect();
                }
                Ok(DATA) => body.extend_from_slice(payload),
                // The library says something that means nothing with its first answer.
                _ => {}
            }
        }
        (fields, String::from_utf8(body).unwrap())
    }

    /// A number as QUIC writes them.
    fn number(rest: &mut &[u8]) -> u64 {
        let bytes = 1 << (rest[0] >> 6);
        let (number, behind) = rest.split_at(bytes);
        *rest = behind;
        number
            .iter()
            .enumerate()
            .fold(0, |sum, (place, byte)| sum << 8 | u64::from(if place == 0 { byte & 0x3f } else { *byte }))
    }

    fn status(answer: &Answer) -> &str {
        let (name, value) = &answer.0[0];
        assert_eq!(name, ":status");
        value
    }

    #[tokio::test]
    async fn what_is_plain_is_answered_at_once_and_as_the_library_would() {
        let caller = ByHand::new().await;
        let (mut quick, body) = caller.ask("/at-once", &[("accept", "*/*")]).await;
        assert_eq!(body, "quick");
        let (slow, body) = caller.ask("/at-once", &[("te", "trailers")]).await;
        assert_eq!(body, "slow");
        assert_eq!(slow[1], ("te".to_owned(), "trailers".to_owned()));
        // The one has been told a length of its own, and both tell the time.
        let names =
            |fields: &[(String, String)]| fields.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&quick), [":status", "date", "x-content-type-options", "content-length"]);
        let mut without_te = slow;
        without_te.remove(1);
        assert_eq!(names(&quick), names(&without_te));
        let length = quick.pop();
        assert_eq!(length, Some(("content-length".to_owned(), "5".to_owned())));
        assert_eq!(quick[2], without_te[2]);
        for (path, more) in
            [("/other", &[][..]), ("/at-once", &[("content-length", "0")]), ("/at-once", &[("expect", "x")])]
        {
            assert_eq!(caller.ask(path, more).await.1, "slow", "{path} {more:?}");
        }
    }

    #[tokio::test]
    async fn many_are_answered_each_on_their_own_stream() {
        let caller = ByHand::new().await;
        let asking = (0..100).map(|number| {
            let (caller, path) = (&caller, if number % 3 == 0 { "/other" } else { "/at-once" });
            async move { (path, caller.ask(path, &[]).await.1) }
        });
        let mut quick = 0;
        for (path, body) in futures_util::future::join_all(asking).await {
            quick += usize::from(body == "quick");
            assert!(body == "slow" || (body == "quick" && path == "/at-once"), "{body} for {path}");
        }
        // One that begins at the end of a datagram comes in pieces.
        assert!(quick > 33, "{quick}");
    }

    #[tokio::test]
    async fn what_comes_in_pieces_or_with_more_is_for_the_library() {
        let caller = ByHand::new().await;
        let plain = request("/at-once", &[]);
        let (mut sending, receiving) = caller.open().await;
        sending.write_all(&plain).await.unwrap();
        // What comes next on another stream is answered, so the beginning has come.
        caller.ask("/at-once", &[]).await;
        sending.finish().unwrap();
        assert_eq!(hear(receiving).await.1, "slow");
        // A frame that means nothing before, and a body behind.
        for came in [[&[0x21, 0][..], &plain].concat(), [&plain, &[DATA, 1, b'x'][..]].concat()] {
            let (mut sending, receiving) = caller.open().await;
            sending.write_all(&came).await.unwrap();
            sending.finish().unwrap();
            assert_eq!(hear(receiving).await.1, "slow");
        }
        // A request that was taken back is not answered.
        let (mut sending, mut receiving) = caller.open().await;
        sending.write_all(&plain[..10]).await.unwrap();
        sending.reset(VarInt::from_u64(Code::H3_REQUEST_CANCELLED.value()).unwrap()).unwrap();
        let answer = receiving.read_to_end(LONG).await;
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.is_empty()));
        assert_eq!(caller.ask("/at-once", &[]).await.1, "quick");
    }

    #[tokio::test]
    async fn an_answer_for_which_there_is_no_room_comes_as_there_is() {
        let caller = ByHand::new().await;
        let (fields, body) = caller.ask(&format!("/at-once{LONG}"), &[]).await;
        assert_eq!((status(&(fields, String::new())), body.len()), ("200", LONG + "quick".len()));
    }

    #[tokio::test]
    async fn nobody_is_told_what_could_not_be_kept_and_who_panics_harms_nobody_else() {
        let caller = ByHand::new().await;
        let panicked = caller.ask("/panic", &[]).await;
        assert_eq!(panicked.1, "Panicked");
        caller.quick.fails_to_keep.store(true, Ordering::Relaxed);
        let failed = caller.ask("/at-once", &[]).await;
        assert_eq!((status(&failed), failed.1.as_str()), ("500", "failed"));
        caller.quick.fails_to_keep.store(false, Ordering::Relaxed);
        assert_eq!(caller.ask("/at-once", &[]).await.1, "quick");
    }

    /// The streams that a server names when it goes away, each the first that was not answered.
    async fn named_at_the_end(connection: &Connection) -> Vec<u64> {
        const GO_AWAY: u64 = 7;
        const CONTROL: u8 = 0;
        let mut control = loop {
            let mut stream = connection.accept_uni().await.unwrap();
            let mut kind = [0; 1];
            stream.read_exact(&mut kind).await.unwrap();
            if kind == [CONTROL] {
                break stream;
            }
        };
        let mut came = Vec::new();
        while let Ok(Some(chunk)) = control.read_chunk(LONG, true).await {
            came.extend_from_slice(&chunk.bytes);
        }
        let (mut rest, mut named) = (came.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (kind, length) = (number(&mut rest), number(&mut rest));
            let (mut payload, behind) = rest.split_at(usize::try_from(length).unwrap());
            rest = behind;
            if kind == GO_AWAY {
                named.push(number(&mut payload));
            }
        }
        named
    }

    #[tokio::test]
    async fn at_a_stop_nothing_that_was_answered_is_denied() {
        for last in ["/at-once", "/other"] {
            let caller = ByHand::new().await;
            for _ in 0..200 {
                assert_eq!(caller.ask("/at-once", &[]).await.1, "quick");
            }
            caller.ask(last, &[]).await;
            caller.stop.send(()).unwrap();
            let named = named_at_the_end(&caller.caller.connection).await;
            // The last of them was on the stream before this one.
            assert!(
                named.last() == Some(&(202 * 4)) && named.is_sorted_by(|one, next| one >= next),
                "{named:?}"
            );
        }
    }

    #[tokio::test]
    async fn nor_is_it_when_the_caller_goes_away() {
        let caller = ByHand::new().await;
        for _ in 0..5 {
            assert_eq!(caller.ask("/at-once", &[]).await.1, "quick");
        }
        let mut control = caller.connection.open_uni().await.unwrap();
        // What the stream is for, settings, and that nothing will be taken.
        control.write_all(&[0, 4, 0, 7, 1, 0]).await.unwrap();
        assert_eq!(named_at_the_end(&caller.connection).await, [6 * 4]);
    }

    /// Says who asks for what, and counts how often.
    #[derive(Default)]
    struct Echo(AtomicU64);

    fn echo(target: &str, authorization: Option<&[u8]>, client: &Client) -> String {
        let key = authorization.map(String::from_utf8_lossy);
        let Client { address, http, tls_version, tls_cipher, .. } = client;
        format!("{target} {key:?} {address:?} {http:?} {tls_version:?} {tls_cipher:?}")
    }

    impl Prompt for Echo {
        type Turn = ();
        type Verdict = ();

        fn answers_at_once(&self) -> bool {
            true
        }

        fn foresee<'a>(&self, _: impl Iterator<Item = Ask<'a>>, (): &mut ()) {}

        fn answer(&self, ask: &Ask<'_>, (): &mut (), draft: &mut Draft) -> Said {
            let target = str::from_utf8(ask.target).unwrap();
            if !target.starts_with("/echo") {
                return Said::Nothing;
            }
            self.0.fetch_add(1, Ordering::Relaxed);
            draft.head.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
            draft.body.extend_from_slice(echo(target, ask.authorization, ask.client).as_bytes());
            Said::Answer
        }

        fn keep(&self, (): &mut (), _: Now) -> Result<(), Box<Reply>> {
            Ok(())
        }

        fn decide(&self, (): &mut ()) -> impl Future<Output = Vec<()>> + Send + 'static {
            std::future::ready(Vec::new())
        }

        fn conclude(&self, (): (), _: &mut Vec<u8>) -> Result<(), Box<Reply>> {
            Ok(())
        }
    }

    /// What somebody sends on a stream: pieces, each when something else was answered, and what becomes of it.
    #[derive(Clone, Debug)]
    struct Sent {
        pieces: Vec<Vec<u8>>,
        is_finished: bool,
    }

    /// Fields that are mostly plain.
    fn fields() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
        let pseudo = (
            prop_oneof![12 => Just("GET"), 1 => prop::sample::select(vec!["HEAD", "POST", "get", "", "OPTIONS"])],
            prop_oneof![12 => Just("https"), 1 => prop::sample::select(vec!["http", "", "HTTPS"])],
            prop_oneof![
                12 => Just("localhost"),
                4 => prop::sample::select(vec!["", "a:443", "[::1]", "a@b", "a:", "a:65536", "A.b", "a b", "a/b"]),
            ],
            prop_oneof![
                12 => prop::sample::select(vec!["/echo", "/echo?scope=geo&key=a%20b", "/echo/", "/echo;x='y'"]),
                4 => prop::sample::select(vec!["/", "", "*", "/echo#x", "/echo<", "//echo", "/echo x", "echo", "/echo\"", "/\u{e4}"]),
            ],
        );
        let regular = prop::sample::select(vec![
            ("accept", "*/*"),
            ("user-agent", "x/1 (y; z)"),
            ("authorization", "Bearer key"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-for", "203.0.113.9, 10.0.0.1"),
            ("forwarded", "for=203.0.113.7"),
            ("x-forwarded-proto", "https"),
            ("priority", "u=1, i"),
            ("cookie", "a=b; c=d"),
            ("dnt", ""),
        ]);
        let odd = prop::sample::select(vec![
            ("te", "trailers"),
            ("te", "gzip"),
            ("connection", "close"),
            ("keep-alive", "1"),
            ("proxy-connection", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "x"),
            ("host", "localhost"),
            ("host", "other"),
            ("content-length", "0"),
            ("content-length", "5"),
            ("expect", "100-continue"),
            ("trailer", "x"),
            ("X-Upper", "x"),
            ("x y", "z"),
            ("", "z"),
            ("x", " y"),
            ("x", "y\t"),
            ("x", "\u{e4}"),
            ("x", "\u{7f}"),
            (":path", "/echo"),
            (":protocol", "websocket"),
            (":status", "200"),
        ]);
        let more = prop::collection::vec(prop_oneof![8 => regular, 1 => odd], 0..6);
        (pseudo, more, 0..60_usize).prop_map(|((method, scheme, authority, path), more, change)| {
            let pseudo =
                [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)];
            let mut all = [&pseudo[..], &more].concat();
            // Now and then one is missing, stands twice, or stands elsewhere.
            match change {
                0..4 => drop(all.remove(change)),
                4..8 => all.push(all[change - 4]),
                8..12 => all.swap(change - 8, 3),
                12 => all.reverse(),
                _ => {}
            }
            all
        })
    }

    fn sent() -> impl Strategy<Value = Sent> {
        (fields(), 0..40_u8, any::<prop::sample::Index>()).prop_map(|(fields, shape, at)| {
            let plain = head(&fields);
            let (one, other) = plain.split_at(at.index(plain.len()));
            let pieces = match shape {
                0 => vec![one.to_vec(), other.to_vec()],
                1 => vec![one.to_vec()],
                2 => vec![plain, Vec::new()],
                3 => vec![[&[0x21, 1, b'x'][..], &plain].concat()],
                4 => vec![[&plain, &[DATA, 1, b'x'][..]].concat()],
                5 => vec![[&plain[..], &plain].concat()],
                6 => vec![[&plain, &[HEADERS, 2, 0, 0][..]].concat()],
                7 => vec![Vec::new()],
                _ => vec![plain],
            };
            Sent { pieces, is_finished: shape != 8 }
        })
    }

    /// What somebody hears who has sent this, or why they hear nothing.
    async fn heard(caller: &Caller, sent: &Sent) -> Result<Answer, String> {
        let heard = heard_there(caller, sent).await;
        let is_silent = matches!(&heard, Ok((fields, _)) if fields.is_empty() && sent.is_finished);
        if is_silent {
            // Its stream may end a moment before all of them do.
            let _ = tokio::time::timeout(Duration::from_secs(20), caller.connection.closed()).await;
        }
        match caller.connection.close_reason() {
            Some(reason) => Err(format!("{reason:?}")),
            None => heard,
        }
    }

    async fn heard_there(caller: &Caller, sent: &Sent) -> Result<Answer, String> {
        let lost = |error: &dyn std::fmt::Debug| format!("{error:?}");
        let (mut sending, mut receiving) = caller.connection.open_bi().await.map_err(|error| lost(&error))?;
        for (place, piece) in sent.pieces.iter().enumerate() {
            if place > 0 {
                // Whatever was sent before has come when this is answered.
                let (mut other, mut answer) =
                    caller.connection.open_bi().await.map_err(|error| lost(&error))?;
                let _ = other.write_all(&request("/", &[])).await;
                let _ = other.finish();
                let _ = answer.read_to_end(LONG).await;
            }
            if sending.write_all(piece).await.is_err() {
                break;
            }
        }
        if !sent.is_finished {
            let _ = sending.reset(VarInt::from_u64(Code::H3_REQUEST_CANCELLED.value()).unwrap());
            return Ok(Answer::default());
        }
        let _ = sending.finish();
        let came = receiving.read_to_end(LONG).await.map_err(|error| lost(&error))?;
        let (mut fields, body) = answer(&came);
        fields.retain(|(name, _)| name != "date");
        Ok((fields, body))
    }

    #[test]
    fn what_callers_hear_does_not_tell_who_has_answered() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let service = |visit: Visit| {
            let Visit { request, client, .. } = visit;
            let target = request.uri.path_and_query().map_or("", |target| target.as_str());
            let told = match request.method {
                Method::GET if target.starts_with("/echo") => {
                    let authorization = request.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
                    echo(target, authorization, &client)
                }
                _ => "other".to_owned(),
            };
            std::future::ready(Response::new(Full::from(told)))
        };
        let quick = Arc::new(Echo::default());
        let doors = {
            let _inside = runtime.enter();
            let with = edge_until(std::future::pending(), service, Some(Arc::clone(&quick)));
            [with, edge_until(std::future::pending(), service, None::<Arc<Echo>>)]
        };
        let connect = async || {
            let [with, without] = [&doors[0], &doors[1]].map(|(door, certificate)| async {
                let caller = Caller::new(*door, certificate).await;
                caller.ask("/", &[]).await;
                caller
            });
            [with.await, without.await]
        };
        let mut callers = runtime.block_on(connect());
        let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
        let callers = RefCell::new(&mut callers);
        runner
            .run(&prop::collection::vec(sent(), 1..8), |all| {
                let mut callers = callers.borrow_mut();
                let outcomes = runtime.block_on(async {
                    let mut outcomes = [Vec::new(), Vec::new()];
                    for (caller, outcomes) in callers.iter().zip(&mut outcomes) {
                        for sent in &all {
                            outcomes.push(heard(caller, sent).await);
                        }
                    }
                    if callers.iter().any(|caller| caller.connection.close_reason().is_some()) {
                        **callers = connect().await;
                    }
                    outcomes
                });
                let [with, without] = outcomes;
                prop_assert_eq!(with, without);
                Ok(())
            })
            .unwrap();
        // Otherwise the library would be compared with itself.
        assert!(quick.0.load(Ordering::Relaxed) > 100);
    }
}
