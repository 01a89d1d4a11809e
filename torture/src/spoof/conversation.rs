//! What is said on one connection: who connects where, who introduces whom, requests, and who each of them comes from.

use super::address::{bare, draw, rubbish, written};
use super::chain::{self, Line};
use super::introduction;
use super::model::{House, SingleName, Told};
use ipse_testkit::Random;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Where connections come from: some of these are trusted by one house and strangers to another.
const PEERS: &[IpAddr] = &[
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)),
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3)),
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 4)),
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 200)),
    IpAddr::V4(Ipv4Addr::new(127, 77, 1, 2)),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
/// An introduction holds for a whole connection, so that fewer requests follow one.
const MOST_REQUESTS: u64 = 40;
const MOST_INTRODUCED: u64 = 8;

pub(crate) struct Conversation {
    pub(crate) peer: IpAddr,
    pub(crate) door: Door,
    /// At the door that serves IPv4 and IPv6, where IPv4 arrives as IPv6 that stands for it.
    pub(crate) dual: bool,
    pub(crate) introduction: Vec<u8>,
    pub(crate) requests: Vec<Vec<u8>>,
    /// Whom each request comes from, or `None` if nobody is to be served.
    pub(crate) callers: Option<Vec<IpAddr>>,
    /// Who speaks: the peer, or whom it introduces.
    pub(crate) speaker: IpAddr,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Clear,
    /// For introductions.
    Proxy,
}

/// Of twenty introductions, those of nobody.
const SILENT: Range<u64> = 3..6;

impl Conversation {
    pub(crate) fn invent(random: &mut Random, house: &House, key: &str) -> Self {
        let mut peer = *random.pick(PEERS);
        // Those who are believed have more to tell.
        for _ in 0..2 {
            peer = if house.trusts(peer) { peer } else { *random.pick(PEERS) };
        }
        let dual = peer.is_ipv6() || random.below(3) == 0;
        let door = if random.below(2) == 0 { Door::Proxy } else { Door::Clear };
        let kind = random.below(20);
        let is_silent = door == Door::Proxy && SILENT.contains(&kind);
        let (introduction, speaker) = match (door, kind) {
            // At the wrong door it is no request either.
            (Door::Clear, 0) => {
                let forged = draw(random, house);
                (introduction::of(random, forged), None)
            }
            (Door::Clear, _) => (Vec::new(), Some(peer)),
            (Door::Proxy, 0) => (Vec::new(), None),
            (Door::Proxy, 1 | 2) => (introduction::broken(random), None),
            (Door::Proxy, _) if is_silent => (introduction::of_nobody(random), Some(peer)),
            (Door::Proxy, _) => {
                let caller = draw(random, house);
                (introduction::of(random, caller), Some(caller))
            }
        };
        // Nobody else introduces anybody.
        let speaker = speaker.filter(|_| door == Door::Clear || house.trusts(peer));
        let most = match (speaker, door) {
            (None, _) => 1,
            (Some(_), Door::Clear) => MOST_REQUESTS,
            (Some(_), Door::Proxy) => MOST_INTRODUCED,
        };
        let (mut requests, mut told) = (Vec::new(), Vec::new());
        for _ in 0..=random.below(most) {
            let (request, says) = request(random, house, key);
            requests.push(request);
            told.push(says);
        }
        // A proxy that introduces nobody is not believed about anybody.
        let caller = |speaker, told| if is_silent { speaker } else { house.caller(speaker, told) };
        let callers = speaker.map(|speaker| told.iter().map(|told| caller(speaker, told)).collect());
        Self { peer, door, dual, introduction, requests, callers, speaker: speaker.unwrap_or(peer) }
    }
}

/// A request, and what its headers say.
fn request(random: &mut Random, house: &House, key: &str) -> (Vec<u8>, Told) {
    let mut told = Told::default();
    let mut headers: Vec<(&str, Vec<Line>)> = Vec::new();
    let places = chain::invent(random, house);
    if random.below(10) < 7 {
        headers.push(("X-Forwarded-For", chain::x_forwarded_for(random, house, &places)));
    }
    if random.below(10) < 6 {
        // Half of those who tell both tell the same in both.
        let places = if random.below(2) == 0 { places } else { chain::invent(random, house) };
        headers.push(("Forwarded", chain::forwarded(random, house, &places)));
    }
    for (name, lines) in &headers {
        let hops = lines.iter().flat_map(|line| line.hops.iter().copied());
        if *name == "Forwarded" { told.forwarded.extend(hops) } else { told.x_forwarded_for.extend(hops) }
    }
    for (header, name) in
        [("X-Real-IP", SingleName::XRealIp), ("CF-Connecting-IP", SingleName::CfConnectingIp)]
    {
        let lines = if random.below(2) == 0 { single(random, house) } else { Vec::new() };
        told.singles.extend(lines.iter().map(|(_, ip)| (name, *ip)));
        let lines = lines.into_iter().map(|(text, _)| Line { text, hops: Vec::new() }).collect();
        headers.push((header, lines));
    }
    if random.below(3) == 0 {
        let forged = draw(random, house);
        let text = bare(random, forged).into_bytes();
        headers.push((*random.pick(DECOYS), vec![Line { text, hops: Vec::new() }]));
    }
    let mut bytes = b"GET /api/v1/ip HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ".to_vec();
    bytes.extend(key.bytes());
    bytes.extend(b"\r\n");
    // Lines of one name keep their order; between names any order will do.
    let mut left: Vec<(&str, std::vec::IntoIter<Line>)> =
        headers.into_iter().map(|(name, lines)| (name, lines.into_iter())).collect();
    while !left.is_empty() {
        let at = random.index(left.len());
        let Some(line) = left[at].1.next() else {
            left.swap_remove(at);
            continue;
        };
        bytes.extend(cased(random, left[at].0));
        bytes.push(b':');
        bytes.extend(random.pick(&[" ", "", " ", "\t ", "   "]).bytes());
        bytes.extend(line.text);
        bytes.extend(random.pick(&["", "", "", " ", "\t"]).bytes());
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"\r\n");
    (bytes, told)
}

/// Headers that nobody was told to read.
const DECOYS: &[&str] = &[
    "X_Forwarded_For",
    "X-Forwarded",
    "X-Forwarded-Host",
    "X-Forwarded-For-",
    "Forwarded-For",
    "X-Original-Forwarded-For",
    "X-Client-IP",
    "Client-IP",
    "True-Client-IP",
    "X-Cluster-Client-IP",
    "X-Real-IP-",
    "Via",
    "Remote-Addr",
];

/// The lines of a header that holds one address, and what each of them says.
fn single(random: &mut Random, house: &House) -> Vec<(Vec<u8>, Option<IpAddr>)> {
    let (ip, other) = (draw(random, house), draw(random, house));
    let line = |random: &mut Random, ip| (written(random, ip).into_bytes(), Some(ip));
    match random.below(12) {
        0 => vec![(Vec::new(), None)],
        1 => vec![(rubbish(random, house), None)],
        2 => vec![(format!("{ip}, {other}").into_bytes(), None)],
        3 => vec![(format!("{ip},").into_bytes(), None)],
        4 => vec![(format!("\"{ip}\"").into_bytes(), None)],
        5 => vec![line(random, ip), line(random, other)],
        6 => vec![line(random, ip), line(random, ip)],
        7 => vec![(Vec::new(), None), line(random, ip)],
        _ => vec![line(random, ip)],
    }
}

/// The name, with capitals wherever they fall.
fn cased(random: &mut Random, name: &str) -> Vec<u8> {
    match random.below(4) {
        0 => name.to_ascii_lowercase().into_bytes(),
        1 => name.to_ascii_uppercase().into_bytes(),
        2 => {
            let either = |byte: u8| match random.below(2) {
                0 => byte.to_ascii_lowercase(),
                _ => byte.to_ascii_uppercase(),
            };
            name.bytes().map(either).collect()
        }
        _ => name.as_bytes().to_vec(),
    }
}
