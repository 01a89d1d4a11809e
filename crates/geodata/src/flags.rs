//! Whether a network is a hoster's or a proxy's, and which rule says so.
//!
//! Decided by the network's number and its organisation's name, once per network, when a snapshot is built. The
//! lists are in `data/asn`; what they do not know is left to careful rules over the name. An access provider is
//! never flagged by us: only an operator, in a file of their own, may do that.

mod files;
mod names;

pub use files::{OperatorFileError, OperatorFiles};

use std::collections::HashMap;
use std::fmt;

/// The built-in lists, and what an operator says besides.
#[derive(Clone, Debug)]
pub struct Flags {
    /// What an operator never wants flagged.
    allowed: Rules<OwnLine>,
    /// What an operator wants flagged.
    denied: Rules<OwnLine>,
    /// What we never flag.
    never: Rules<&'static str>,
    /// Carriers, of whose customers a source may know more.
    carriers: HashMap<u32, &'static str>,
    /// What we know.
    listed: Rules<&'static str>,
    /// The names of the operator's files, so that a reason can point there.
    files: Vec<Box<str>>,
}

/// What is decided about one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// Whether it is known for hosting, cloud or content delivery.
    pub hosting: Ruling<'a>,
    /// Whether it is known for VPNs, proxies or exits of Tor.
    pub proxy: Ruling<'a>,
}

/// What is decided about one flag of a network, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling<'a> {
    /// It is flagged.
    Flagged(Reason<'a>),
    /// It is not, because something says that it must not be.
    Spared(Reason<'a>),
    /// It is not by us, because it carries others' addresses; a source may know better.
    Carrier(Reason<'a>),
    /// It is not, because nothing speaks of it.
    Unmentioned,
}

/// The rule that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason<'a> {
    /// A line of an operator's file.
    Operator {
        /// The file's name, as it was given.
        file: &'a str,
        /// The line's number, counted from 1.
        line: usize,
        /// What the line says behind the flag; empty when it says nothing.
        text: &'a str,
    },
    /// A line of our own lists.
    Listed {
        /// What the line says: who runs the network, or why it is there.
        text: &'static str,
    },
    /// A word in the organisation's name.
    Named {
        /// The word, or the words, that matched.
        word: &'static str,
    },
}

/// Lines of an operator's file that cannot be understood. Nothing of that file is in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct BadLines(pub Vec<BadLine>);

/// One line that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {fault}")]
pub struct BadLine {
    /// The file's name, as it was given.
    pub file: Box<str>,
    /// The line's number, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a line, and what is expected instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It begins with neither word.
    #[error(
        "`{0}` is neither `allow` nor `deny`: expected `deny ASN hosting|proxy|both [reason]` or `allow ASN [hosting|proxy|both] [reason]`"
    )]
    Verb(Box<str>),
    /// The number is not there.
    #[error("the network is missing: expected a number such as `AS64500` or `64500`")]
    NoAsn,
    /// The number is not one.
    #[error(
        "`{0}` is not the number of a network: expected one such as `AS64500` or `64500`, from 1 to 4294967295"
    )]
    Asn(Box<str>),
    /// What to flag is not there.
    #[error("what to flag is missing: expected `hosting`, `proxy` or `both`")]
    NoFlag,
    /// What to flag is not a flag.
    #[error("`{0}` is not a flag: expected `hosting`, `proxy` or `both`")]
    Flag(Box<str>),
}

impl Flags {
    /// Our own lists, and nothing of an operator's.
    #[must_use]
    pub fn built_in() -> Self {
        let mut flags = Self {
            allowed: Rules::default(),
            denied: Rules::default(),
            never: Rules::default(),
            carriers: HashMap::new(),
            listed: Rules::default(),
            files: Vec::new(),
        };
        for (asn, text) in lines_of(HOSTING).filter_map(|(_, line)| listed_line(line)) {
            flags.listed.set(asn, Which::Hosting, text);
        }
        for (asn, text) in lines_of(PROXY).filter_map(|(_, line)| listed_line(line)) {
            flags.listed.set(asn, Which::Proxy, text);
        }
        for (asn, which, text) in lines_of(NEVER).filter_map(|(_, line)| never_line(line)) {
            match which {
                Never::Carrier => drop(flags.carriers.insert(asn, text)),
                Never::Flag(which) => flags.never.set(asn, which, text),
            }
        }
        flags
    }

    /// Adds what an operator's file says. Lines are `deny ASN hosting|proxy|both [reason]` and
    /// `allow ASN [hosting|proxy|both] [reason]`, where `allow` alone means both flags; `#` begins a comment.
    /// An `allow` wins over every `deny`; of two that say the same, the later one gives the reason.
    ///
    /// # Errors
    ///
    /// Every line that cannot be understood, with its number and what is expected. The file then changes nothing.
    pub fn add_operator_file(&mut self, name: &str, text: &str) -> Result<(), BadLines> {
        let mut rules = Vec::new();
        let mut bad = Vec::new();
        for (line, content) in lines_of(text) {
            match operator_line(content) {
                Ok(rule) => rules.push((line, rule)),
                Err(fault) => bad.push(BadLine { file: name.into(), line, fault }),
            }
        }
        if !bad.is_empty() {
            return Err(BadLines(bad));
        }
        let file = self.files.len();
        self.files.push(name.into());
        for (line, rule) in rules {
            let own = OwnLine { file, line, text: rule.text.into() };
            match rule.verb {
                Verb::Allow => self.allowed.set(rule.asn, rule.which, own),
                Verb::Deny => self.denied.set(rule.asn, rule.which, own),
            }
        }
        Ok(())
    }

    /// What is decided about a network. The first that speaks of it wins: the operator's `allow`, the operator's
    /// `deny`, what we never flag, our lists, the organisation's name.
    #[must_use]
    pub fn verdict(&self, asn: u32, organisation: Option<&str>) -> Verdict<'_> {
        let words = organisation.map(names::words).unwrap_or_default();
        let decide = |which| self.ruling(asn, which, &words);
        Verdict { hosting: decide(Which::Hosting), proxy: decide(Which::Proxy) }
    }

    fn ruling(&self, asn: u32, which: Which, words: &[String]) -> Ruling<'_> {
        if let Some(own) = self.allowed.get(asn, which) {
            return Ruling::Spared(self.operator(own));
        }
        if let Some(own) = self.denied.get(asn, which) {
            return Ruling::Flagged(self.operator(own));
        }
        if let Some(text) = self.never.get(asn, which) {
            return Ruling::Spared(Reason::Listed { text });
        }
        if let Some(text) = self.carriers.get(&asn) {
            return Ruling::Carrier(Reason::Listed { text });
        }
        if let Some(text) = self.listed.get(asn, which) {
            return Ruling::Flagged(Reason::Listed { text });
        }
        let named = match which {
            Which::Proxy => names::proxy(words),
            Which::Hosting | Which::Both => names::hosting(words),
        };
        named.map_or(Ruling::Unmentioned, |word| Ruling::Flagged(Reason::Named { word }))
    }

    fn operator<'a>(&'a self, own: &'a OwnLine) -> Reason<'a> {
        Reason::Operator { file: &self.files[own.file], line: own.line, text: &own.text }
    }
}

impl Ruling<'_> {
    /// Whether the flag is set.
    #[must_use]
    pub fn is_flagged(&self) -> bool {
        matches!(self, Self::Flagged(_))
    }
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator { file, line, text: "" } => write!(f, "{file}, line {line}"),
            Self::Operator { file, line, text } => write!(f, "{file}, line {line}: {text}"),
            Self::Listed { text } => write!(f, "the built-in list: {text}"),
            Self::Named { word } => write!(f, "the organisation's name: \"{word}\""),
        }
    }
}

const HOSTING: &str = include_str!("../../../data/asn/hosting.txt");
const PROXY: &str = include_str!("../../../data/asn/proxy.txt");
const NEVER: &str = include_str!("../../../data/asn/never.txt");

/// Which flags a line speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Hosting,
    Proxy,
    Both,
}

impl Which {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "hosting" => Some(Self::Hosting),
            "proxy" => Some(Self::Proxy),
            "both" => Some(Self::Both),
            _ => None,
        }
    }
}

/// For each network, what is said about either flag.
#[derive(Clone, Debug)]
struct Rules<T> {
    hosting: HashMap<u32, T>,
    proxy: HashMap<u32, T>,
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self { hosting: HashMap::new(), proxy: HashMap::new() }
    }
}

impl<T: Clone> Rules<T> {
    fn set(&mut self, asn: u32, which: Which, what: T) {
        if which != Which::Proxy {
            self.hosting.insert(asn, what.clone());
        }
        if which != Which::Hosting {
            self.proxy.insert(asn, what);
        }
    }

    fn get(&self, asn: u32, which: Which) -> Option<&T> {
        match which {
            Which::Proxy => self.proxy.get(&asn),
            Which::Hosting | Which::Both => self.hosting.get(&asn),
        }
    }
}

/// Where an operator says something, and what.
#[derive(Clone, Debug)]
struct OwnLine {
    /// The index into `Flags::files`.
    file: usize,
    line: usize,
    text: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Allow,
    Deny,
}

struct OperatorRule<'a> {
    verb: Verb,
    asn: u32,
    which: Which,
    text: &'a str,
}

/// The lines that say something, without comments, each with its number.
fn lines_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split('#').next().unwrap_or_default().trim()))
        .filter(|(_, line)| !line.is_empty())
}

/// A line of `hosting.txt` or `proxy.txt`.
fn listed_line(line: &'static str) -> Option<(u32, &'static str)> {
    let (asn, text) = first_word(line);
    (!text.is_empty()).then_some((parse_asn(asn)?, text))
}

/// How a line of `never.txt` spares a network.
enum Never {
    Flag(Which),
    Carrier,
}

/// A line of `never.txt`.
fn never_line(line: &'static str) -> Option<(u32, Never, &'static str)> {
    let (asn, rest) = first_word(line);
    let (which, text) = first_word(rest);
    let which = if which == "carrier" { Never::Carrier } else { Never::Flag(Which::parse(which)?) };
    (!text.is_empty()).then_some((parse_asn(asn)?, which, text))
}

fn operator_line(line: &str) -> Result<OperatorRule<'_>, Fault> {
    let (word, rest) = first_word(line);
    let verb = match word {
        "allow" => Verb::Allow,
        "deny" => Verb::Deny,
        other => return Err(Fault::Verb(other.into())),
    };
    let (word, rest) = first_word(rest);
    if word.is_empty() {
        return Err(Fault::NoAsn);
    }
    let asn = parse_asn(word).ok_or_else(|| Fault::Asn(word.into()))?;
    let (word, text) = first_word(rest);
    match (Which::parse(word), verb) {
        (Some(which), _) => Ok(OperatorRule { verb, asn, which, text }),
        (None, Verb::Allow) => Ok(OperatorRule { verb, asn, which: Which::Both, text: rest }),
        (None, Verb::Deny) if word.is_empty() => Err(Fault::NoFlag),
        (None, Verb::Deny) => Err(Fault::Flag(word.into())),
    }
}

fn first_word(line: &str) -> (&str, &str) {
    line.split_once(char::is_whitespace).map_or((line, ""), |(word, rest)| (word, rest.trim_start()))
}

/// `AS64500` or `64500`; 0 is no network.
fn parse_asn(word: &str) -> Option<u32> {
    let digits = word.get(..2).filter(|start| start.eq_ignore_ascii_case("AS")).map_or(word, |_| &word[2..]);
    // `u32` would also take a sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|asn| *asn != 0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The largest access providers of the world, and carriers, by the addresses they announce.
    const ACCESS: &[(u32, &str)] = &[
        (4134, "Chinanet"),
        (7018, "AT&T Enterprises, LLC"),
        (7922, "Comcast Cable Communications, LLC"),
        (4837, "CHINA UNICOM China169 Backbone"),
        (4766, "Korea Telecom"),
        (701, "Verizon Business"),
        (17676, "SoftBank Corp."),
        (3320, "Deutsche Telekom AG"),
        (4713, "NTT Communications Corporation"),
        (3356, "Level 3 Communications, Inc."),
        (174, "Cogent Communications"),
        (3269, "Telecom Italia S.p.A."),
        (3215, "Orange S.A."),
        (2516, "KDDI CORPORATION"),
        (9808, "China Mobile"),
        (6167, "Verizon Business"),
        (15557, "Societe Francaise Du Radiotelephone - SFR SA"),
        (209, "CenturyLink Communications, LLC"),
        (9318, "SK Broadband Co Ltd"),
        (21928, "T-Mobile USA, Inc."),
        (22394, "Verizon Business"),
        (2856, "British Telecommunications PLC"),
        (8151, "Uninet S.A. de C.V."),
        (1221, "Telstra Limited"),
        (9394, "China TieTong Telecommunications Corporation"),
        (20115, "Charter Communications"),
        (3209, "Vodafone GmbH"),
        (22773, "Cox Communications Inc."),
        (3462, "Chunghwa Telecom Co., Ltd."),
        (26599, "TELEFONICA BRASIL S.A"),
        (3352, "TELEFONICA DE ESPANA S.A.U."),
        (5650, "Frontier Communications of America, Inc."),
        (17858, "LG POWERCOMM"),
        (7029, "Windstream Communications LLC"),
        (28573, "Claro NXT Telecomunicacoes Ltda"),
        (26615, "TIM S/A"),
        (12322, "Free SAS"),
        (12389, "PJSC Rostelecom"),
        (5089, "Virgin Media Limited"),
        (7303, "Telecom Argentina S.A."),
        (6805, "Telefonica Germany GmbH & Co.OHG"),
        (3786, "LG DACOM Corporation"),
        (4812, "China Telecom (Group)"),
        (4808, "China Unicom Beijing Province Network"),
        (45899, "VNPT Corp"),
        (8452, "TE-AS"),
        (1136, "KPN B.V."),
        (10796, "Charter Communications Inc"),
        (1267, "WIND TRE S.P.A."),
        (9644, "SK Telecom"),
        (5410, "Bouygues Telecom SA"),
        (12479, "Orange Espagne SA"),
        (5607, "Sky UK Limited"),
        (3301, "Telia Company AB"),
        (9121, "Turk Telekomunikasyon Anonim Sirketi"),
        (577, "Bell Canada"),
        (1257, "Tele2 Sverige AB"),
        (33915, "Vodafone Libertel B.V."),
        (6713, "Itissalat Al-MAGHRIB"),
        (36992, "ETISALAT MISR"),
        (9829, "Bharat Sanchar Nigam Ltd"),
        (23693, "PT. Telekomunikasi Selular"),
        (812, "Rogers Communications Canada Inc."),
        (55836, "Reliance Jio Infocomm Limited"),
        (45609, "Bharti Airtel Limited"),
        (5617, "Orange Polska Spolka Akcyjna"),
        (3257, "GTT Communications Inc."),
        (1299, "Arelion Sweden AB"),
        (6939, "Hurricane Electric LLC"),
        (14593, "Space Exploration Technologies Corporation"),
    ];

    /// What `hosting.txt` must never lose.
    const HOSTERS: &[u32] = &[
        16509, 14618, 8075, 15169, 396_982, 31898, 36351, 37963, 45102, 45090, 132_203, 55990, 136_907,
        14061, 16276, 24940, 63949, 20940, 20473, 51167, 60781, 12876, 8560, 26496, 47583, 13335, 54113,
        60068, 49505, 9123, 200_350, 7684, 9009, 62240, 54825, 40509,
    ];

    const FILE: &str = "flags.txt";

    fn with_operator(text: &str) -> Flags {
        let mut flags = Flags::built_in();
        flags.add_operator_file(FILE, text).expect("every line of the test is understood");
        flags
    }

    #[track_caller]
    fn check(flags: &Flags, asn: u32, name: Option<&str>, expected_hosting: bool, expected_proxy: bool) {
        let verdict = flags.verdict(asn, name);
        assert_eq!(
            verdict.hosting.is_flagged(),
            expected_hosting,
            "hosting of AS{asn} {name:?}: {verdict:?}"
        );
        assert_eq!(verdict.proxy.is_flagged(), expected_proxy, "proxy of AS{asn} {name:?}: {verdict:?}");
    }

    #[track_caller]
    fn check_fault(text: &str, expected: &str) {
        let mut flags = Flags::built_in();
        let error = flags.add_operator_file(FILE, text).expect_err("the line is bad");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn every_line_of_the_lists_is_understood_and_none_repeats_another() {
        for (file, text) in [("hosting.txt", HOSTING), ("proxy.txt", PROXY)] {
            let mut seen = HashSet::new();
            for (line, content) in lines_of(text) {
                let (asn, _) =
                    listed_line(content).unwrap_or_else(|| panic!("{file}, line {line}: {content}"));
                assert!(seen.insert(asn), "{file}, line {line}: AS{asn} is there twice");
            }
            assert!(seen.len() > 50, "{file} has only {} networks", seen.len());
        }
        let mut seen = HashSet::new();
        for (line, content) in lines_of(NEVER) {
            let (asn, ..) =
                never_line(content).unwrap_or_else(|| panic!("never.txt, line {line}: {content}"));
            assert!(seen.insert(asn), "never.txt, line {line}: AS{asn} is there twice");
        }
    }

    #[test]
    fn no_list_says_what_another_denies() {
        let flags = Flags::built_in();
        for asn in flags.never.hosting.keys() {
            assert!(!flags.listed.hosting.contains_key(asn), "AS{asn} is in hosting.txt and in never.txt");
        }
        for asn in flags.carriers.keys() {
            let listed = flags.listed.hosting.contains_key(asn) || flags.listed.proxy.contains_key(asn);
            assert!(!listed, "AS{asn} is in a list and a carrier in never.txt");
        }
        for asn in flags.never.proxy.keys() {
            assert!(!flags.listed.proxy.contains_key(asn), "AS{asn} is in proxy.txt and in never.txt");
        }
    }

    #[test]
    fn access_providers_and_carriers_are_never_flagged() {
        let flags = Flags::built_in();
        for &(asn, name) in ACCESS {
            check(&flags, asn, Some(name), false, false);
            // Not even when they rename themselves.
            check(&flags, asn, Some("VPN Hosting"), false, false);
        }
    }

    #[test]
    fn relays_of_phones_and_browsers_are_not_proxies() {
        let flags = Flags::built_in();
        check(&flags, 714, Some("Apple Inc."), false, false);
        check(&flags, 6185, Some("Apple Inc."), false, false);
        check(&flags, 36183, Some("Akamai Technologies, Inc."), false, false);
        check(&flags, 13335, Some("Cloudflare, Inc."), true, false);
        check(&flags, 54113, Some("Fastly, Inc."), true, false);
        check(&flags, 13335, Some("Cloudflare VPN"), true, false);
    }

    #[test]
    fn known_networks_are_flagged() {
        let flags = Flags::built_in();
        for &asn in HOSTERS {
            assert!(flags.verdict(asn, None).hosting.is_flagged(), "AS{asn} is a hoster's");
        }
        check(&flags, 9009, None, true, true);
        check(&flags, 212_238, None, true, true);
        check(&flags, 136_787, None, false, true);
        check(&flags, 39351, None, false, true);
        check(&flags, 64500, None, false, false);
        check(&flags, 64500, Some("Example Hosting"), true, false);
        check(&flags, 64500, Some("Example VPN"), false, true);
    }

    #[test]
    fn the_operator_wins() {
        let flags = with_operator(
            "# ours\n\
             deny AS3320 hosting  a customer of ours\n\
             deny 64500 both\n\
             deny as64501 proxy # a comment\n\
             allow 16509\n\
             allow AS9009 proxy our office\n\
             deny 9009 both\n\
             allow 64502 we know them\n",
        );
        check(&flags, 3320, Some("Deutsche Telekom AG"), true, false);
        check(&flags, 64500, None, true, true);
        check(&flags, 64501, None, false, true);
        check(&flags, 16509, Some("Amazon.com, Inc."), false, false);
        check(&flags, 9009, Some("M247 Europe SRL"), true, false);
        check(&flags, 64502, Some("VPN Hosting"), false, false);
    }

    #[test]
    fn a_ruling_tells_which_rule_decided() {
        let flags = with_operator("deny AS3320 hosting  a customer of ours\ndeny 64500 both\nallow 16509\n");
        let reason = |asn, name| match flags.verdict(asn, name).hosting {
            Ruling::Flagged(reason) => format!("flagged, {reason}"),
            Ruling::Spared(reason) => format!("spared, {reason}"),
            Ruling::Carrier(reason) => format!("carrier, {reason}"),
            Ruling::Unmentioned => "unmentioned".to_owned(),
        };
        assert_eq!(reason(3320, None), "flagged, flags.txt, line 1: a customer of ours");
        assert_eq!(reason(64500, None), "flagged, flags.txt, line 2");
        assert_eq!(reason(16509, None), "spared, flags.txt, line 3");
        assert_eq!(reason(7922, None), "spared, the built-in list: Comcast");
        assert_eq!(reason(24940, None), "flagged, the built-in list: Hetzner");
        assert_eq!(reason(64501, Some("Example VPS")), "flagged, the organisation's name: \"vps\"");
        assert_eq!(reason(64501, Some("Example")), "unmentioned");
    }

    #[test]
    fn a_bad_line_is_explained() {
        let shape =
            "expected `deny ASN hosting|proxy|both [reason]` or `allow ASN [hosting|proxy|both] [reason]`";
        check_fault(
            "64500 both",
            &format!("flags.txt, line 1: `64500` is neither `allow` nor `deny`: {shape}"),
        );
        check_fault(
            "\n# a comment\ndeny",
            "flags.txt, line 3: the network is missing: expected a number such as `AS64500` or `64500`",
        );
        for word in ["ASX", "0", "4294967296", "+64500", "AS", "AS-1", "1.2"] {
            check_fault(
                &format!("allow {word}"),
                &format!(
                    "flags.txt, line 1: `{word}` is not the number of a network: expected one such as `AS64500` or \
                     `64500`, from 1 to 4294967295"
                ),
            );
        }
        check_fault(
            "deny 64500",
            "flags.txt, line 1: what to flag is missing: expected `hosting`, `proxy` or `both`",
        );
        check_fault(
            "deny 64500 hostng\ndeny 64501 vpn",
            "flags.txt, line 1: `hostng` is not a flag: expected `hosting`, `proxy` or `both`\n\
             flags.txt, line 2: `vpn` is not a flag: expected `hosting`, `proxy` or `both`",
        );
    }

    #[test]
    fn a_file_with_a_bad_line_changes_nothing() {
        let mut flags = Flags::built_in();
        assert!(flags.add_operator_file(FILE, "deny 64500 both\ndeny 64501\n").is_err());
        check(&flags, 64500, None, false, false);
    }
}
