//! What a hostile client of HTTP/2 sends on one connection. Nothing here touches a socket.
//!
//! Most of it is what a server has to bear, so that it comes far; what ends a connection comes last.

use super::path;
use crate::coding::{
    CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PREFACE, PRIORITY,
    PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, field, frame, integer, request, request_block, text,
};
use crate::mischief::header_block;
use ipse_testkit::Random;

/// Everything that goes over one connection.
pub(crate) struct Conversation {
    /// The first is the preface with the settings.
    pub(crate) frames: Vec<Vec<u8>>,
    /// How many of them go in one write.
    pub(crate) per_write: usize,
    /// A good request that comes last, if there is no reason to leave it unanswered: what came before is then heard.
    pub(crate) farewell: Option<u32>,
    pub(crate) parting: Parting,
}

/// How a client takes its leave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// It says that nothing follows, and listens to the end.
    Polite,
    /// It is gone, whatever was still to be said.
    Abrupt,
    /// It is silent, and stays.
    Never,
}

const MOST_ACTS: u64 = 8;
const LONGEST_FLOOD: u64 = 60;
/// The largest frame that a server takes that did not say otherwise.
const FRAME_BYTES: usize = 16 * 1024;
const LAST_STREAM: u32 = u32::MAX >> 1;

impl Conversation {
    pub(crate) fn invent(random: &mut Random) -> Self {
        let settings = if random.below(8) == 0 { Vec::new() } else { some_settings(random) };
        let mut frames = vec![[PREFACE, &frame(SETTINGS, 0, 0, &settings)].concat()];
        let mut stream = 1;
        for _ in 0..1 + random.below(MOST_ACTS) {
            frames.extend(to_bear(random, &mut stream));
        }
        let mut farewell = None;
        if random.below(2) == 0 {
            frames.extend(to_end(random, &mut stream));
            // What follows an offence must not matter any more.
            frames.extend(to_bear(random, &mut stream));
        } else {
            let this = next(&mut stream);
            frames.push(request(this, "/api/v1/meta"));
            farewell = Some(this);
        }
        let parting = match random.below(16) {
            0 => Parting::Never,
            1..4 => Parting::Abrupt,
            _ => Parting::Polite,
        };
        Self { frames, per_write: *random.pick(&[1, 7, 100, 1_000]), farewell, parting }
    }
}

fn next(stream: &mut u32) -> u32 {
    let this = *stream;
    *stream += 2;
    this
}

/// Something that is allowed, or that costs no more than the stream it is said on.
fn to_bear(random: &mut Random, stream: &mut u32) -> Vec<Vec<u8>> {
    let times = 1 + random.below(LONGEST_FLOOD);
    match random.below(22) {
        0..5 => (0..1 + random.below(10)).map(|_| request(next(stream), path(random))).collect(),
        5 => (0..times).map(|_| frame(SETTINGS, 0, 0, &some_settings(random))).collect(),
        6 => (0..times).map(|_| frame(PING, 0, 0, &random.next().to_be_bytes())).collect(),
        7 => (0..times).map(|_| frame(PING, 1, 0, &[7; 8])).collect(),
        8 => (0..times).map(|_| priority(random, *stream)).collect(),
        9 => {
            // A body in which there is nothing, again and again.
            let this = next(stream);
            let mut frames = vec![frame(HEADERS, END_HEADERS, this, &request_block("/api/v1/meta"))];
            frames.extend((0..times).map(|_| frame(DATA, 0, this, &[])));
            frames.push(frame(DATA, END_STREAM, this, &[]));
            frames
        }
        10 => {
            // More to send than was asked for, and room for nothing.
            let this = next(stream);
            let increment = *random.pick(&[0, 1, 0x7fff_ffff]);
            let mut frames = vec![request(this, path(random))];
            frames.extend((0..2).map(|_| window_update(this, increment)));
            frames
        }
        11 => (0..times).map(|_| window_update(0, 1)).collect(),
        12 | 13 => {
            // Asked and called off, often before anybody looked at it: a server bears that only so often.
            let times = if random.below(4) == 0 { times } else { 1 + random.below(12) };
            let mut frames = Vec::new();
            for _ in 0..times {
                let this = next(stream);
                frames.push(request(this, path(random)));
                frames.push(reset(this));
            }
            frames
        }
        14 => {
            // One large field is kept by the peer, and then named in a byte, again and again.
            let mut block = request_block("/api/v1/meta");
            block.extend([vec![0x40], text(b"x-bomb"), text(&vec![b'b'; random.index(4_000)])].concat());
            block.extend(std::iter::repeat_n(0xbe, random.index(8_000)));
            vec![frame(HEADERS, END_STREAM | END_HEADERS, next(stream), &block)]
        }
        15 => {
            // The table is emptied and enlarged before the first field.
            let sizes = (0..random.below(3)).flat_map(|_| integer(0x20, 5, random.below(4_097)));
            let block: Vec<u8> = sizes.chain(request_block("/api/v1/ip")).collect();
            vec![frame(HEADERS, END_STREAM | END_HEADERS, next(stream), &block)]
        }
        16 => {
            // Things of HTTP/1.
            let name =
                *random.pick(&["connection", "te", "transfer-encoding", "upgrade", "keep-alive", "host"]);
            let mut block = request_block("/api/v1/meta");
            block.extend(field(
                name.as_bytes(),
                random.pick(&["chunked", "trailers", "close", "x"]).as_bytes(),
            ));
            vec![frame(HEADERS, END_STREAM | END_HEADERS, next(stream), &block)]
        }
        17 => half_closed(random, next(stream)),
        18 => (0..times)
            .map(|_| {
                // Of a kind that nobody knows: to be ignored.
                let kind = 0x10 | random.byte();
                frame(
                    kind,
                    random.byte(),
                    *random.pick(&[0, *stream]),
                    &vec![random.byte(); random.index(300)],
                )
            })
            .collect(),
        19 => vec![frame(HEADERS, END_STREAM | END_HEADERS, next(stream), &header_block(random))],
        20 => {
            // A head in many parts, all of which are needed.
            let this = next(stream);
            let mut frames = vec![frame(HEADERS, END_STREAM, this, &request_block("/docs"))];
            frames.extend(
                (0..1 + random.below(5)).map(|_| frame(CONTINUATION, 0, this, &field(b"x-part", b"p"))),
            );
            frames.push(frame(CONTINUATION, END_HEADERS, this, &[]));
            frames
        }
        _ => {
            // Requests that are begun and left.
            (0..1 + random.below(20))
                .map(|_| frame(HEADERS, END_HEADERS, next(stream), &request_block("/api/v1/ip")))
                .collect()
        }
    }
}

/// Something after which a server may send everybody on this connection away.
fn to_end(random: &mut Random, stream: &mut u32) -> Vec<Vec<u8>> {
    let (this, good) = (*stream, request_block("/api/v1/meta"));
    match random.below(26) {
        0 => {
            // A head that never ends.
            let mut frames = vec![frame(HEADERS, 0, this, &good)];
            let more = field(b"x-more", &vec![b'v'; random.index(8_000)]);
            frames.extend((0..random.below(100)).map(|_| frame(CONTINUATION, 0, this, &more)));
            frames
        }
        1 => {
            // Neither does this one, and there is nothing in it.
            let mut frames = vec![frame(HEADERS, 0, this, &good)];
            frames.extend((0..random.below(300)).map(|_| frame(CONTINUATION, 0, this, &[])));
            frames
        }
        2 => vec![window_update(0, 0)],
        3 => vec![window_update(0, 0x7fff_ffff), window_update(0, 0x7fff_ffff)],
        4 => vec![frame(SETTINGS, 0, 0, &setting(4, 0x8000_0000))],
        5 => vec![frame(SETTINGS, 0, 0, &setting(5, *random.pick(&[0, 16_383, 1 << 24])))],
        6 => vec![frame(SETTINGS, 1, 0, &some_settings(random))],
        7 => vec![frame(SETTINGS, 0, this, &[])],
        8 => vec![frame(SETTINGS, 0, 0, &vec![0; 1 + random.index(5)])],
        9 => vec![frame(PING, 0, 0, &vec![0; random.index(8)])],
        10 => vec![frame(PING, 0, this, &[0; 8])],
        11 => vec![frame(DATA, 0, 0, &[0; 10])],
        12 => vec![frame(DATA, 0, this + 2, &[0; 10])],
        13 => vec![request(this + 2, "/"), request(this, "/")],
        14 => vec![request(*random.pick(&[0, 2, LAST_STREAM - 1]), "/")],
        15 => {
            // Both were closed, the second by ourselves.
            *stream += 2;
            vec![request(this, "/"), reset(this), request(this, "/"), frame(DATA, 0, this, &[0; 10])]
        }
        16 => vec![frame(DATA, 0, this, &vec![0; FRAME_BYTES + 1 + random.index(50_000)])],
        17 => vec![frame(PUSH_PROMISE, END_HEADERS, this, &[[0, 0, 0, 2].as_slice(), &good].concat())],
        18 => vec![frame(CONTINUATION, END_HEADERS, this, &good)],
        19 => vec![frame(HEADERS, END_STREAM | END_HEADERS | PADDED, this, &[0xff, 0x82])],
        20 => {
            let block: Vec<u8> = match random.below(5) {
                0 => integer(0x20, 5, 1 << 30),
                1 => integer(0x80, 7, random.next()),
                2 => vec![0x80],
                // More to follow than there is, and a code that has no end.
                3 => [vec![0x00, 0x85], vec![0xff; 5]].concat(),
                _ => (0..random.index(400)).map(|_| random.byte()).collect(),
            };
            vec![frame(HEADERS, END_STREAM | END_HEADERS, this, &block)]
        }
        21 => {
            let last = *random.pick(&[0, LAST_STREAM]);
            let words = [last.to_be_bytes(), 11_u32.to_be_bytes()].concat();
            (0..1 + random.below(20))
                .map(|_| frame(GOAWAY, 0, 0, &[&words, b"mad".as_slice()].concat()))
                .collect()
        }
        22 => vec![frame(SETTINGS, 1, 0, &[]); 3],
        23 => vec![frame(PRIORITY, 0, this, &[this.to_be_bytes().as_slice(), &[0]].concat())],
        24 => vec![frame(random.byte() % 10, random.byte(), this, &vec![random.byte(); random.index(9)])],
        _ => {
            // The length says more than comes.
            let mut cut = request(this, "/api/v1/meta");
            cut.truncate(9 + random.index(cut.len() - 9));
            vec![cut]
        }
    }
}

/// What may be said on a stream after its end was said, or was not.
fn half_closed(random: &mut Random, this: u32) -> Vec<Vec<u8>> {
    let trailers = frame(HEADERS, END_STREAM | END_HEADERS, this, &field(b"x-trailer", b"t"));
    let mut block = request_block("/api/v1/meta");
    let length = random.below(30).to_string();
    block.extend(field(b"content-length", length.as_bytes()));
    let data = frame(DATA, 0, this, &vec![b'd'; random.index(30)]);
    let mut frames = vec![frame(HEADERS, END_HEADERS, this, &block), data.clone()];
    match random.below(5) {
        0 => frames.push(trailers),
        1 => frames.extend([trailers, data]),
        2 => frames.push(frame(DATA, END_STREAM | PADDED, this, &[3, b'd', 0, 0, 0])),
        3 => frames.extend([frame(DATA, END_STREAM, this, b"d"), window_update(this, 5), reset(this)]),
        _ => frames.extend([reset(this), data, window_update(this, 5)]),
    }
    frames
}

fn some_settings(random: &mut Random) -> Vec<u8> {
    // The size of the peer's table, whether it may push, how many streams, windows and frames, and what nobody knows.
    (0..random.below(5))
        .flat_map(|_| match random.below(6) {
            0 => setting(1, *random.pick(&[0, 1, 4_096, u32::MAX])),
            1 => setting(2, 0),
            2 => setting(3, *random.pick(&[0, 1, u32::MAX])),
            3 => setting(4, *random.pick(&[0, 1, 65_535, 0x7fff_ffff])),
            4 => setting(5, *random.pick(&[16_384, 0x00ff_ffff])),
            _ => setting(u16::from(random.byte()) + 16, 7),
        })
        .collect()
}

fn setting(name: u16, value: u32) -> Vec<u8> {
    [name.to_be_bytes().as_slice(), &value.to_be_bytes()].concat()
}

/// Says of any stream that it hangs on another.
fn priority(random: &mut Random, stream: u32) -> Vec<u8> {
    let (of, on) = (*random.pick(&[1, 2, stream]), *random.pick(&[0, stream + 2, LAST_STREAM]));
    frame(PRIORITY, 0, of, &[on.to_be_bytes().as_slice(), &[random.byte()]].concat())
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}
