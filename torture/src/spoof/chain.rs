//! Chains of hops, and how they are written into headers: honest, careless, and with malice.
//!
//! A chain is made first, then written; nothing here reads a header.

use super::address::{draw, rubbish, written};
use super::model::{Hop, House};
use ipse_testkit::Random;
use std::net::IpAddr;

/// Bytes of one header, over all of its lines; three of these stay below the limit of a head.
const MOST_BYTES: usize = 4_500;
const LONGEST_USUAL: u64 = 6;
/// One chain in so many is as long as a head can hold.
const LONG_ONE_IN: u64 = 60;
const LONGEST: u64 = 400;

/// One place of a list, whichever way it is written.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// Nothing between two commas.
    Empty,
    Unknown,
    Address(IpAddr),
}

/// A header's line, and what it says.
pub(crate) struct Line {
    pub(crate) text: Vec<u8>,
    pub(crate) hops: Vec<Hop>,
}

pub(crate) fn invent(random: &mut Random, house: &House) -> Vec<Place> {
    let is_long = random.below(LONG_ONE_IN) == 0;
    let length = if is_long { LONGEST / 4 + random.below(LONGEST) } else { random.below(LONGEST_USUAL + 1) };
    // A long chain is of use if the walk over it is long as well.
    let is_trusted = |ip| house.trusts(ip);
    (0..length)
        .map(|_| match random.below(if is_long { 200 } else { 20 }) {
            0 => Place::Unknown,
            1 => Place::Empty,
            2 => Place::Unknown,
            _ => {
                let ip = draw(random, house);
                let again = is_long && !is_trusted(ip);
                Place::Address(if again { draw(random, house) } else { ip })
            }
        })
        .collect()
}

pub(crate) fn x_forwarded_for(random: &mut Random, house: &House, places: &[Place]) -> Vec<Line> {
    let mut writer = Writer::new(random);
    for place in places {
        let text = match place {
            Place::Empty => Vec::new(),
            Place::Unknown if writer.random.below(6) == 0 => {
                // The quotes of the other header mean nothing here.
                let ip = draw(writer.random, house);
                format!("\"{ip}\"").into_bytes()
            }
            Place::Unknown => rubbish(writer.random, house),
            Place::Address(ip) => written(writer.random, *ip).into_bytes(),
        };
        if !writer.add(&text, hop(*place)) {
            break;
        }
    }
    writer.lines
}

pub(crate) fn forwarded(random: &mut Random, house: &House, places: &[Place]) -> Vec<Line> {
    let mut writer = Writer::new(random);
    for place in places {
        let text = element(writer.random, house, *place);
        if !writer.add(&text, hop(*place)) {
            break;
        }
    }
    let mut lines = writer.lines;
    if random.below(8) == 0 {
        let at = random.index(lines.len() + 1);
        lines.insert(at, Line { text: malformed(random, house), hops: vec![Hop::Unknown] });
    }
    lines
}

fn hop(place: Place) -> Option<Hop> {
    match place {
        Place::Empty => None,
        Place::Unknown => Some(Hop::Unknown),
        Place::Address(ip) => Some(Hop::Address(ip)),
    }
}

/// Joins elements to lines.
struct Writer<'a> {
    random: &'a mut Random,
    lines: Vec<Line>,
    bytes: usize,
    /// One line in so many elements.
    line_one_in: u64,
}

impl<'a> Writer<'a> {
    const MOST_LINES: usize = 20;

    fn new(random: &'a mut Random) -> Self {
        let line_one_in = *random.pick(&[1, 2, 5, 1_000]);
        Self { random, lines: Vec::new(), bytes: 0, line_one_in }
    }

    /// Whether there was room.
    fn add(&mut self, text: &[u8], hop: Option<Hop>) -> bool {
        const BETWEEN: &[&str] = &[",", ", ", ", ", " ,", "\t,\t", ",   ", " , "];
        self.bytes += text.len() + 4;
        if self.bytes > MOST_BYTES {
            return false;
        }
        let is_new = self.random.below(self.line_one_in) == 0 && self.lines.len() < Self::MOST_LINES;
        match self.lines.last_mut().filter(|_| !is_new) {
            Some(line) => {
                line.text.extend(self.random.pick(BETWEEN).bytes());
                line.text.extend(text);
                line.hops.extend(hop);
            }
            None => self.lines.push(Line { text: text.to_vec(), hops: hop.into_iter().collect() }),
        }
        true
    }
}

/// One element of `Forwarded`: pairs with semicolons between them.
fn element(random: &mut Random, house: &House, place: Place) -> Vec<u8> {
    const BESIDE: &[&str] = &[
        "proto=https",
        "PROTO=http",
        "host=example.com",
        "by=_gateway",
        "by=10.0.0.1",
        "by=\"[2001:db8::1]:443\"",
        "fort=6.6.6.6",
        "x-for=6.6.6.6",
        "ext=\"quoted, for=6.6.6.6; and \\\"more\\\"\"",
        "ext=\"\"",
        "ext=\", for=6.6.6.6\"",
        "",
    ];
    let node = match place {
        Place::Empty => return random.pick(&[&b""[..], b"", b";", b";;"]).to_vec(),
        // An element that tells of a hop, and not who it is.
        Place::Unknown if random.below(4) == 0 => None,
        Place::Unknown => Some(nobody(random, house)),
        Place::Address(ip) => {
            let text = written(random, ip).into_bytes();
            Some(if random.below(3) == 0 { text } else { quoted(random, &text) })
        }
    };
    let mut pairs: Vec<Vec<u8>> =
        (0..random.below(4)).map(|_| random.pick(BESIDE).as_bytes().to_vec()).collect();
    match node {
        Some(node) => {
            let name = random.pick(&["for=", "for=", "For=", "FOR=", "fOr="]);
            let at = random.index(pairs.len() + 1);
            pairs.insert(at, [name.as_bytes(), &node].concat());
        }
        None => pairs.push(b"proto=http".to_vec()),
    }
    pairs.join(&b';')
}

/// A node that follows the grammar and names no address.
fn nobody(random: &mut Random, house: &House) -> Vec<u8> {
    match random.below(4) {
        0 => b"unknown".to_vec(),
        1 => random.pick(&[&b"_hidden"[..], b"_a.b-c", b"\"_hidden:_port\"", b"\"unknown:80\""]).to_vec(),
        2 => {
            let traps: [&[u8]; 5] = [b", for=6.6.6.6", b"a,b;c", b";for=6.6.6.6", b"\"6.6.6.6\"", b""];
            let trap = *random.pick(&traps);
            quoted(random, trap)
        }
        _ => {
            let rubbish = rubbish(random, house);
            quoted(random, &rubbish)
        }
    }
}

/// In quotes, with backslashes where they must be and where they may be.
fn quoted(random: &mut Random, text: &[u8]) -> Vec<u8> {
    let careful = random.below(5) == 0;
    let mut quoted = vec![b'"'];
    for byte in text {
        let may = byte.is_ascii_graphic() && careful && random.below(4) == 0;
        if may || b"\"\\".contains(byte) {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    quoted
}

/// A line that does not follow the grammar: where its elements begin and end is anybody's guess.
fn malformed(random: &mut Random, house: &House) -> Vec<u8> {
    let (ip, other) = (draw(random, house), draw(random, house));
    let (ip, other) = (written(random, ip), written(random, other));
    match random.below(14) {
        0 => ip,
        1 => "for=".to_owned(),
        2 => format!("for={ip};For={other}"),
        3 => format!("for={ip};by=\""),
        // A caller opens quotes that the proxy behind them would have to close.
        4 => format!("for={ip};by=\", for={other}"),
        5 => format!("for={ip};by=\", for=\"{other}\", for={other}"),
        6 => format!("for={ip};by=\"\\"),
        7 => format!("for=\"{ip}\"x"),
        8 => format!("for =\"{ip}\""),
        9 => format!("for= {ip}, for={other}"),
        10 => format!("f(r={ip}, for={other}"),
        11 => format!("={ip}"),
        12 => format!("for={ip}/32, for={other}"),
        _ => format!("for={ip} for={other}"),
    }
    .into_bytes()
}
