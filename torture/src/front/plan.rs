//! What a caller does on one connection, whoever listens: all of it follows from one seed.

use super::request::Request;
use crate::coding::{PING, PREFACE, SETTINGS, frame};
use crate::inside::MadeKey;
use crate::mischief::{Conversation, Protocol, shown};
use crate::spoof::introduction;
use ipse_model::{BURST_LIMIT, Scope};
use ipse_testkit::Random;
use std::net::{IpAddr, Ipv4Addr};

/// Whose key is used. It follows from the seed like everything else, so that a connection can be replayed alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Usual(Scope),
    /// With a day that is soon used up.
    Small,
    Inactive,
    Paused,
    /// Of callers who go away without having heard the answer: what they are charged depends on the moment.
    Lost,
}

/// Every class, and how many keys of it there are among a thousand.
pub(super) const CLASSES: &[(Class, u64)] = &[
    (Class::Usual(Scope::Geo), 620),
    (Class::Usual(Scope::Ip), 120),
    (Class::Usual(Scope::Full), 120),
    (Class::Small, 80),
    (Class::Inactive, 20),
    (Class::Paused, 20),
    (Class::Lost, 20),
];

impl Class {
    pub(super) fn draw(random: &mut Random) -> Self {
        let mut number = random.below(1_000);
        for (class, share) in CLASSES {
            if number < *share {
                return *class;
            }
            number -= share;
        }
        Self::Lost
    }
}

/// Where a connection comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Door {
    Clear,
    /// The one of IPv6 that serves IPv4 as well.
    Dual,
    Unix,
    Tls,
    /// Where a proxy introduces who speaks, in the clear or by TLS.
    Proxy,
    ProxyTls,
}

#[derive(Clone)]
pub(super) enum Step {
    Write(Vec<u8>),
    /// So many milliseconds nothing is said; at 0 somebody else may do something first.
    Breathe(u64),
    /// Until the server has nothing more to say; at least so many answers are waited for.
    Listen(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// The caller closes their side at once, and hears the rest.
    Close,
    /// The same after everything was heard.
    ListenAndClose,
    /// The caller resets the connection after everything was heard.
    ListenAndReset,
    /// The caller is gone, at once.
    Vanish,
}

#[derive(Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) class: Class,
    pub(super) door: Door,
    pub(super) peer: IpAddr,
    /// What a proxy says first, before anything is encrypted.
    pub(super) introduction: Vec<u8>,
    pub(super) steps: Vec<Step>,
    pub(super) ending: Ending,
    pub(super) requests: u64,
    /// Whose charges they are, beside the demo's.
    pub(super) key: MadeKey,
    /// Whether it takes more than a moment.
    pub(super) is_slow: bool,
}

const MOST_REQUESTS: u64 = 8;
/// Longer than hyper keeps a connection that rests, before it is given back.
const LONG_BREATH_MS: u64 = 1_150;
/// Every server reads as much at once, if it has come in one piece.
const READ_BYTES: usize = 8 * 1024;

impl Plan {
    /// The one of a seed, with a key of the class that was drawn first.
    pub(super) fn invent(seed: u64, random: &mut Random, class: Class, key: &MadeKey) -> Self {
        let door = match random.below(100) {
            0..66 => Door::Clear,
            66..76 => Door::Dual,
            76..84 => Door::Unix,
            84..91 => Door::Tls,
            91..97 => Door::Proxy,
            _ => Door::ProxyTls,
        };
        let is_introduced = matches!(door, Door::Proxy | Door::ProxyTls);
        // Those of one network are believed, and nobody else may introduce.
        let is_trusted = random.below(2) == 0 || (is_introduced && random.below(20) > 0);
        let last = 1 + u8::try_from(random.below(250)).unwrap_or(0);
        let peer = IpAddr::V4(Ipv4Addr::new(127, 0, if is_trusted { 2 } else { 1 }, last));
        let (introduction, is_good) = if is_introduced { introduced(random) } else { (Vec::new(), true) };
        let (words, requests) = words(random, class, &key.text);
        let ending = match (class, random.below(10)) {
            (Class::Lost, _) => Ending::Vanish,
            (_, 0..3) => Ending::Close,
            (_, 3) => Ending::ListenAndReset,
            _ => Ending::ListenAndClose,
        };
        let mut steps = cut(random, &words);
        if !is_good || (is_introduced && !is_trusted) {
            // Nobody is answered.
            steps.retain(|step| !matches!(step, Step::Listen(1..)));
            steps.push(Step::Listen(0));
        }
        // Who is not introduced well cannot shake hands, and is let go after a while.
        let is_slow = (door == Door::ProxyTls && !is_good)
            || steps.iter().any(|step| matches!(step, Step::Breathe(LONG_BREATH_MS)));
        let key = key.clone();
        let plan = Self { seed, class, door, peer, introduction, steps, ending, requests, key, is_slow };
        match plan.ending {
            // What all callers share is to be charged for certain.
            Ending::ListenAndReset if plan.is_of_demo() => Self { ending: Ending::ListenAndClose, ..plan },
            _ => plan,
        }
    }

    /// Everything that is written.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let written = |step: &Step| if let Step::Write(bytes) = step { bytes.clone() } else { Vec::new() };
        self.steps.iter().flat_map(written).collect()
    }

    /// Whether what all callers share is asked for, so that who comes first matters.
    pub(super) fn is_of_demo(&self) -> bool {
        const DEMO: &[u8] = b"/api/v1/ip/demo";
        self.bytes().windows(DEMO.len()).any(|window| window == DEMO)
    }

    /// Whether so much is asked that its key may be paused, which it stays.
    pub(super) fn may_be_paused(&self) -> bool {
        self.requests >= u64::from(BURST_LIMIT) && matches!(self.class, Class::Usual(_) | Class::Small)
    }

    /// Whether a server that ends the connection may leave something unread. Then the kernel resets it, and whether something was
    /// there at that moment is in nobody's hand. Who speaks TLS says a last word before they close.
    pub(super) fn may_be_left_unread(&self) -> bool {
        let says_last_word =
            self.door == Door::Tls && matches!(self.ending, Ending::Close | Ending::ListenAndClose);
        let writes = self.steps.iter().filter(|step| matches!(step, Step::Write(_))).count();
        writes > 1 || says_last_word || !self.introduction.is_empty() || self.bytes().len() > READ_BYTES
    }

    /// The same bytes to the same listeners, but cut, joined and paced in another way: what a server may read in one piece or in
    /// several is tried in both ways sooner or later.
    pub(super) fn rearranged(&self, random: &mut Random) -> Self {
        let (joins, pauses) = (random.below(3) == 0, *random.pick(&[0, 1, 4, 4]));
        let mut steps: Vec<Step> = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            let is_last = number + 1 == self.steps.len();
            match (step, steps.last_mut()) {
                (Step::Write(bytes), Some(Step::Write(before))) if joins => before.extend_from_slice(bytes),
                (Step::Breathe(..LONG_BREATH_MS), _) if joins => {}
                // A busy server reads only afterwards what was written before and behind it.
                (Step::Listen(0), _) if joins && !is_last => {}
                _ => steps.push(step.clone()),
            }
        }
        let mut paced = Vec::new();
        for step in steps {
            let Step::Write(bytes) = step else {
                paced.push(step);
                continue;
            };
            let cuts = random.below(4);
            let mut ends: Vec<usize> = (0..cuts).map(|_| cut_in(random, &bytes)).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let mut begin = 0;
            for end in ends {
                if end > begin {
                    paced.push(Step::Write(bytes[begin..end].to_vec()));
                    if random.below(4) < pauses {
                        paced.push(Step::Breathe(random.below(3)));
                    }
                }
                begin = end;
            }
        }
        // Who does not listen to the end has their last step left out, so that one stays the last.
        if let Some(last) = paced.pop_if(|step| matches!(step, Step::Listen(_))) {
            paced.extend([Step::Breathe(random.below(3)), last]);
        }
        Self { steps: paced, ..self.clone() }
    }

    pub(super) fn shown(&self) -> String {
        let mut text = format!("{:?} from {}, then {:?}:", self.door, self.peer, self.ending);
        if !self.introduction.is_empty() {
            text += &format!("\n    introduced {}", shown(&self.introduction));
        }
        for step in &self.steps {
            text += &match step {
                Step::Write(bytes) => format!("\n    write {}", shown(bytes)),
                Step::Breathe(ms) => format!("\n    wait {ms} ms"),
                Step::Listen(answers) => format!("\n    listen ({answers})"),
            };
        }
        text
    }
}

/// A place to cut bytes: anywhere, where buffers end, or where a head does.
fn cut_in(random: &mut Random, bytes: &[u8]) -> usize {
    const HEAD_END: &[u8] = b"\r\n\r\n";
    let anywhere = random.index(bytes.len().max(1));
    match random.below(3) {
        0 => anywhere,
        1 => {
            let (buffers, beside) = (random.index(bytes.len() / READ_BYTES + 1), random.index(200));
            (buffers * READ_BYTES + beside).saturating_sub(100).min(bytes.len())
        }
        _ => {
            let end = bytes[anywhere..].windows(HEAD_END.len()).position(|window| window == HEAD_END);
            end.map_or(anywhere, |end| anywhere + end + HEAD_END.len())
        }
    }
}

/// Says also whether anybody is served who is introduced in this way.
fn introduced(random: &mut Random) -> (Vec<u8>, bool) {
    match random.below(10) {
        0 => (introduction::broken(random), false),
        1 => (introduction::of_nobody(random), true),
        _ => {
            let callers: [IpAddr; 3] =
                [[8, 8, 8, 8].into(), [127, 0, 2, 9].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()];
            let caller = *random.pick(&callers);
            (introduction::of(random, caller), true)
        }
    }
}

/// What is said, in parts of which each is whole, and how many requests that is.
fn words(random: &mut Random, class: Class, key: &str) -> (Vec<Request>, u64) {
    let unsure = |bytes: Vec<u8>| Request { bytes, is_sure: false };
    match random.below(400) {
        // Enough to be paused, or nearly.
        0 if class != Class::Lost => {
            let count = 290 + random.below(20);
            ((0..count).map(|_| Request::plain("/api/v1/ip", key)).collect(), count)
        }
        // More than is answered in one turn, and than is read at once.
        1..5 => {
            let count = 9 + random.below(60);
            ((0..count).map(|_| Request::plain("/api/v1/ip?scope=ip", key)).collect(), count)
        }
        5..9 => (preface(random, key), 1),
        // What all callers share cannot be charged to somebody who is not there any more.
        9..29 if class != Class::Lost => {
            let demo = (0..=random.below(4)).map(|_| match random.below(4) {
                0 => Request::invent(random, key),
                _ => Request::of_demo(random),
            });
            let demo: Vec<_> = demo.collect();
            let count = demo.len() as u64;
            (demo, count)
        }
        29..59 if class != Class::Lost => match Conversation::invent(random, key) {
            Conversation { pieces, requests, protocol: Protocol::Http1 { .. }, .. } => {
                (vec![unsure(pieces.concat())], requests)
            }
            Conversation { protocol: Protocol::Http2, .. } => (preface(random, key), 1),
        },
        59..63 => {
            let length = 1 + random.below(400);
            (vec![unsure((0..length).map(|_| random.byte()).collect())], 1)
        }
        _ => {
            let count = 1 + random.below(MOST_REQUESTS);
            ((0..count).map(|_| Request::invent(random, key)).collect(), count)
        }
    }
}

/// The beginning of HTTP/2, of which nothing is asked; at the beginning or behind a request, whole or not.
fn preface(random: &mut Random, key: &str) -> Vec<Request> {
    let mut words = Vec::new();
    if random.below(3) == 0 {
        words.push(Request::plain("/api/v1/ip", key));
    }
    let mut bytes = PREFACE.to_vec();
    match random.below(5) {
        0 => bytes.truncate(1 + random.index(PREFACE.len())),
        1 => {
            let at = random.index(bytes.len());
            bytes[at] = random.byte();
        }
        2 => {}
        3 => bytes.extend([frame(SETTINGS, 0, 0, &[]), frame(PING, 0, 0, &[7; 8])].concat()),
        _ => bytes.extend(frame(SETTINGS, 0, 0, &[])),
    }
    words.push(Request { bytes, is_sure: false });
    if random.below(3) == 0 {
        words.push(Request::plain("/api/v1/ip", key));
    }
    words
}

/// Cuts what is said into writes.
fn cut(random: &mut Random, words: &[Request]) -> Vec<Step> {
    let is_sure: Vec<bool> = words.iter().map(|word| word.is_sure).collect();
    // Behind what is not sure nobody knows what is answered.
    let sure_among = |count: usize| is_sure[..count].iter().take_while(|is_sure| **is_sure).count();
    let all = || words.iter().flat_map(|word| word.bytes.iter().copied()).collect::<Vec<u8>>();
    let mut steps = Vec::new();
    match random.below(20) {
        // One after the other.
        0..6 => {
            for (number, word) in words.iter().enumerate() {
                steps.push(Step::Write(word.bytes.clone()));
                if random.below(8) > 0 {
                    steps.push(Step::Listen(sure_among(number + 1)));
                }
            }
        }
        6..8 => steps.extend(words.iter().map(|word| Step::Write(word.bytes.clone()))),
        8..12 => {
            let bytes = all();
            let mut cuts: Vec<usize> = (0..=random.below(5)).map(|_| random.index(bytes.len())).collect();
            cuts.sort_unstable();
            let ends = cuts.iter().copied().chain([bytes.len()]);
            let mut begin = 0;
            for end in ends {
                if end > begin {
                    steps.push(Step::Write(bytes[begin..end].to_vec()));
                    match random.below(12) {
                        0 => steps.push(Step::Listen(0)),
                        1 => steps.push(Step::Breathe(1 + random.below(4))),
                        _ => {}
                    }
                }
                begin = end;
            }
        }
        _ => steps.push(Step::Write(all())),
    }
    if random.below(150) == 0 {
        let at = random.index(steps.len()).max(1);
        steps.insert(at, Step::Breathe(LONG_BREATH_MS));
    }
    steps.push(Step::Listen(sure_among(is_sure.len())));
    steps
}
