//! What a hostile client of HTTP/3 sends on one connection. Nothing here touches a socket.
//!
//! What is wrong on a request mostly costs the whole connection, as the standard wants it, so that comes last.

use super::http2::Parting;
use super::path;
use crate::coding::{MOST, integer, text, varint};
use ipse_testkit::Random;

/// Everything that goes over one connection.
pub(crate) struct Conversation {
    /// In the order in which they are opened.
    pub(crate) streams: Vec<Stream>,
    /// What comes after the answers were heard, and may be the end.
    pub(crate) offence: Vec<Stream>,
    /// The client leaves next to no room for what it asks for, so that answers cannot be expected.
    pub(crate) stingy: bool,
    pub(crate) parting: Parting,
}

/// One stream, from its opening to its end.
pub(crate) struct Stream {
    pub(crate) direction: Direction,
    /// What is written, each at once.
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) end: End,
    pub(crate) answer: Answer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// For a request.
    Both,
    /// For the connection itself. The first thing on it says what it is for.
    Outward,
}

pub(crate) enum End {
    /// Nothing follows.
    Finished,
    /// What was sent is not to be looked at.
    Reset(u64),
    /// There is none.
    Open,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is a good request, and the answer is read.
    Expected,
    /// No answer is wanted, and the server is told so.
    Refused,
    /// It is never looked at.
    Unread,
}

const DATA: u64 = 0;
const HEADERS: u64 = 1;
const CANCEL_PUSH: u64 = 3;
const SETTINGS: u64 = 4;
const PUSH_PROMISE: u64 = 5;
const GOAWAY: u64 = 7;
const MAX_PUSH_ID: u64 = 13;
const PRIORITY_UPDATE: u64 = 0xf_0700;
/// Of frames of HTTP/2 that have no place in HTTP/3: priority, ping, window update, continuation.
const OF_HTTP2: [u64; 4] = [2, 6, 8, 9];
const CONTROL_STREAM: u64 = 0;
const PUSH_STREAM: u64 = 1;
const ENCODER_STREAM: u64 = 2;
const DECODER_STREAM: u64 = 3;
/// Why requests are called off.
const CODES: [u64; 5] = [0, 0x100, 0x10c, 0x10d, MOST];
const MOST_ACTS: u64 = 12;
/// Streams one after the other, and some of them many.
const MANY_ONE_IN: u64 = 60;
const MANY: u64 = 1_500;

impl Conversation {
    pub(crate) fn invent(random: &mut Random) -> Self {
        let mut streams = Vec::new();
        if random.below(8) != 0 {
            streams.push(control(random));
        }
        for _ in 0..1 + random.below(MOST_ACTS) {
            streams.extend(to_bear(random));
        }
        if random.below(MANY_ONE_IN) == 0 {
            for _ in 0..random.below(MANY) {
                // As many good ones as others, so that the server goes on.
                streams.push(good(random));
                streams.push(called_off(random));
            }
        }
        let mut offence = Vec::new();
        if random.below(2) == 0 {
            offence.push(to_end(random));
            offence.extend(to_bear(random));
        }
        // Now and then it comes in the middle of everything.
        if random.below(4) == 0 {
            streams.append(&mut offence);
        }
        let parting = match random.below(16) {
            0 => Parting::Never,
            1..5 => Parting::Abrupt,
            _ => Parting::Polite,
        };
        Self { streams, offence, stingy: random.below(24) == 0, parting }
    }
}

/// A good request.
pub(crate) fn good_request(path: &str) -> Vec<u8> {
    frame(HEADERS, &request_block(path))
}

/// The stream by which a client introduces itself.
pub(crate) fn introduction() -> Vec<u8> {
    [varint(CONTROL_STREAM), frame(SETTINGS, &[])].concat()
}

/// Something that is allowed, or that costs no more than the stream it is said on.
fn to_bear(random: &mut Random) -> Vec<Stream> {
    match random.below(14) {
        0..4 => (0..1 + random.below(12)).map(|_| good(random)).collect(),
        4 => (0..1 + random.below(12)).map(|_| called_off(random)).collect(),
        5 => {
            // Frames that nobody knows, before and after the head, and a body.
            let mut frames: Vec<Vec<u8>> = (0..random.below(20)).map(|_| unknown(random)).collect();
            frames.push(good_request(path(random)));
            frames.extend((0..random.below(20)).map(|_| unknown(random)));
            frames.extend((0..random.below(20)).map(|_| frame(DATA, &vec![b'd'; random.index(200)])));
            vec![Stream { direction: Direction::Both, frames, end: End::Finished, answer: Answer::Expected }]
        }
        6 => {
            // A head whose end is said to be far away.
            let mut endless = varint(HEADERS);
            endless.extend(varint(*random.pick(&[MOST, 1 << 30, 100_000, 20_000])));
            let mut frames = vec![endless];
            frames.extend((0..random.below(40)).map(|_| vec![0; random.index(8_000)]));
            vec![asking(random, frames)]
        }
        7 => (0..1 + random.below(4)).map(|_| meaningless(random)).collect(),
        8 => {
            // A head that was never finished, and its stream neither.
            let mut head = good_request(path(random));
            head.truncate(random.index(head.len()));
            let frames = if head.is_empty() { Vec::new() } else { vec![head] };
            (0..1 + random.below(8)).map(|_| asking(random, frames.clone())).collect()
        }
        9 => {
            // An answer that nobody wants any more.
            let frames = vec![good_request(path(random))];
            vec![Stream { direction: Direction::Both, frames, end: End::Finished, answer: Answer::Refused }]
        }
        10 => {
            let large = vec![b'v'; random.index(30_000)];
            let many: Vec<u8> = match random.below(3) {
                0 => literal(b"x-large", &large),
                1 => literal(b"x-many", b"1").repeat(random.index(1_000)),
                _ => literal(
                    random.pick::<&str>(&["connection", "te", "X-Upper", ":late", "x-\0"]).as_bytes(),
                    b"v",
                ),
            };
            vec![asking(random, vec![frame(HEADERS, &[request_block("/api/v1/meta"), many].concat())])]
        }
        11 => {
            // What encoders and decoders tell each other.
            let kind = *random.pick(&[ENCODER_STREAM, DECODER_STREAM]);
            let mut frames = vec![varint(kind)];
            frames.extend((0..random.below(20)).map(|_| instruction(random)));
            vec![outward(random, frames)]
        }
        12 => {
            // A trailer, with a body that is not as long as it was said.
            let block = [request_block("/api/v1/meta"), literal(b"content-length", b"5")].concat();
            let mut frames = vec![frame(HEADERS, &block), frame(DATA, &vec![b'd'; random.index(12)])];
            frames.push(frame(HEADERS, &[vec![0, 0], literal(b"x-trailer", b"t")].concat()));
            vec![asking(random, frames)]
        }
        _ => {
            let block = [vec![0, 0], rubbish(random)].concat();
            vec![asking(random, vec![frame(HEADERS, &block)])]
        }
    }
}

/// Something after which a server may close the connection.
fn to_end(random: &mut Random) -> Stream {
    let any = random.pick(&[0, 1, 5, 1 << 20, MOST]);
    let number = varint(*any);
    let good = good_request("/api/v1/meta");
    let on_request =
        |frames| Stream { direction: Direction::Both, frames, end: End::Finished, answer: Answer::Unread };
    match random.below(16) {
        0 => on_request(vec![frame(DATA, b"before the head"), good]),
        1 => on_request(vec![frame(*random.pick(&OF_HTTP2), &[0; 8]), good]),
        2 => on_request(vec![good, frame(*random.pick(&OF_HTTP2), &[0; 4])]),
        3 => on_request(vec![frame(SETTINGS, &settings(random)), good]),
        4 => on_request(vec![good, frame(*random.pick(&[GOAWAY, MAX_PUSH_ID, CANCEL_PUSH]), &number)]),
        5 => on_request(vec![frame(PUSH_PROMISE, &[number, request_block("/")].concat())]),
        6 => on_request(vec![good.clone(), good.clone(), good]),
        // References to a table that is empty: indexed, by name, behind the base, and of more entries than can be.
        7 => {
            let block: Vec<u8> = match random.below(5) {
                0 => [vec![0, 0], integer(0x80, 6, *any)].concat(),
                1 => [vec![0, 0], integer(0x10, 4, *any)].concat(),
                2 => [vec![0, 0], integer(0xc0, 6, *any)].concat(),
                3 => [integer(0, 8, *any), integer(random.byte() & 0x80, 7, *any), vec![0x80]].concat(),
                _ => [vec![0, 0], vec![0x27, 0xff], vec![0xff; 12]].concat(),
            };
            on_request(vec![frame(HEADERS, &block)])
        }
        // Text that Huffman never wrote.
        8 => {
            let length = random.below(60);
            let code: Vec<u8> = (0..length).map(|_| random.byte() | 0xf0).collect();
            let block = [vec![0, 0, 0xd1, 0xd7, 0x51], integer(0x80, 7, length), code].concat();
            on_request(vec![frame(HEADERS, &block)])
        }
        9 => control(random),
        10 => Stream { end: End::Finished, ..control(random) },
        11 => Stream { end: End::Reset(*random.pick(&CODES)), ..control(random) },
        12 => {
            let first = frame(*random.pick(&[DATA, HEADERS, GOAWAY, PRIORITY_UPDATE]), &number);
            outward(random, vec![[varint(CONTROL_STREAM), first].concat()])
        }
        13 => outward(random, vec![[varint(PUSH_STREAM), number].concat(), good]),
        14 => {
            let twice = frame(SETTINGS, &settings(random));
            outward(random, vec![[varint(CONTROL_STREAM), twice.clone()].concat(), twice])
        }
        _ => on_request((0..1 + random.below(5)).map(|_| rubbish(random)).collect()),
    }
}

fn good(random: &mut Random) -> Stream {
    let frames = vec![good_request(path(random))];
    Stream { direction: Direction::Both, frames, end: End::Finished, answer: Answer::Expected }
}

/// A request that is taken back, before its head or after it.
fn called_off(random: &mut Random) -> Stream {
    let mut head = good_request(path(random));
    if random.below(2) == 0 {
        head.truncate(random.index(head.len()));
    }
    let frames = if head.is_empty() { Vec::new() } else { vec![head] };
    let answer = *random.pick(&[Answer::Refused, Answer::Unread]);
    Stream { direction: Direction::Both, frames, end: End::Reset(*random.pick(&CODES)), answer }
}

/// Something on a stream for requests, which ends somehow.
fn asking(random: &mut Random, frames: Vec<Vec<u8>>) -> Stream {
    let answer = *random.pick(&[Answer::Refused, Answer::Unread]);
    Stream { direction: Direction::Both, frames, end: end(random), answer }
}

fn outward(random: &mut Random, frames: Vec<Vec<u8>>) -> Stream {
    Stream { direction: Direction::Outward, frames, end: end(random), answer: Answer::Unread }
}

fn end(random: &mut Random) -> End {
    match random.below(3) {
        0 => End::Finished,
        1 => End::Reset(*random.pick(&CODES)),
        _ => End::Open,
    }
}

/// The stream of the connection itself, with more or less sense.
fn control(random: &mut Random) -> Stream {
    let mut frames = vec![[varint(CONTROL_STREAM), frame(SETTINGS, &settings(random))].concat()];
    for _ in 0..random.below(4) {
        frames.push(match random.below(5) {
            0 => frame(MAX_PUSH_ID, &varint(random.below(100))),
            1 => frame(PRIORITY_UPDATE, &[varint(random.below(8)), b"u=1, i".to_vec()].concat()),
            2 => frame(CANCEL_PUSH, &varint(random.below(3))),
            3 => frame(GOAWAY, &varint(random.below(8))),
            _ => unknown(random),
        });
    }
    Stream { direction: Direction::Outward, frames, end: End::Open, answer: Answer::Unread }
}

/// Settings, mostly good: of the table, of blocked streams, of the head's size, and of nothing.
fn settings(random: &mut Random) -> Vec<u8> {
    (0..random.below(5))
        .flat_map(|number| {
            let name = match random.below(24) {
                // Of HTTP/2: forbidden.
                0 => 2 + random.below(4),
                // Twice the same: forbidden as well.
                1 => 6,
                _ => *[1, 7, 6, 0x33, 0x40 + random.below(100)]
                    .get(usize::try_from(number).unwrap_or(0))
                    .unwrap_or(&8),
            };
            [varint(name), varint(*random.pick(&[0, 1, 100, MOST]))].concat()
        })
        .collect()
}

/// A frame that is to be ignored.
fn unknown(random: &mut Random) -> Vec<u8> {
    let kind = match random.below(3) {
        0 => 0x21 + 0x1f * random.below(1 << 20),
        1 => MOST - random.below(1_000),
        _ => 0x40 + random.below(1_000),
    };
    frame(kind, &vec![random.byte(); random.index(100)])
}

/// A stream of a kind that nobody knows.
fn meaningless(random: &mut Random) -> Stream {
    let kind = *random.pick(&[0x21, 0x40, 0x54, MOST]);
    let mut frames = vec![varint(kind)];
    frames.extend((0..random.below(5)).map(|_| rubbish(random)));
    outward(random, frames)
}

/// Something between an encoder and a decoder of QPACK.
fn instruction(random: &mut Random) -> Vec<u8> {
    let any = *random.pick(&[0, 1, 62, 4_096, MOST]);
    match random.below(6) {
        // A capacity, an insertion by a name of ours and of theirs, a duplicate, an acknowledgement, an increment.
        0 => integer(0x20, 5, any),
        1 => [integer(0xc0, 6, any), text(b"v")].concat(),
        2 => [integer(0x40, 5, 6), b"x-name".to_vec(), text(&vec![b'v'; random.index(300)])].concat(),
        3 => integer(0, 5, any),
        4 => integer(0x80, 7, any),
        _ => integer(0, 6, any),
    }
}

fn rubbish(random: &mut Random) -> Vec<u8> {
    let length = 1 + random.below(120);
    (0..length).map(|_| random.byte()).collect()
}

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [varint(kind), varint(payload.len() as u64), payload.to_vec()].concat()
}

/// The fields of a request: GET and https from the static table, then where and what.
fn request_block(path: &str) -> Vec<u8> {
    [vec![0, 0, 0xd1, 0xd7, 0x50], text(b"localhost"), vec![0x51], text(path.as_bytes())].concat()
}

/// A header field that is spelled out.
fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    [integer(0x20, 3, name.len() as u64), name.to_vec(), text(value)].concat()
}
