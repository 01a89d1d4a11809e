//! One request: most are plain, or plain but for one thing, because that is where two readers may come to differ.

use super::fields;
use ipse_testkit::Random;

/// What is asked, as bytes.
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    /// Whether everybody agrees that it is answered, and that others may follow it.
    pub(super) is_sure: bool,
}

impl Request {
    /// A lookup that is as plain as can be.
    pub(super) fn plain(target: &str, key: &str) -> Self {
        let text = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n");
        Self { bytes: text.into(), is_sure: true }
    }

    /// Any request that is made with a key.
    pub(super) fn invent(random: &mut Random, key: &str) -> Self {
        let oddity = random.below(100);
        let is_odd = |share: u64| oddity < share;
        let mut request = Parts {
            method: "GET".into(),
            target: target(random, key),
            version: "HTTP/1.1".into(),
            lines: fields::usual(random, key),
            body: Vec::new(),
            end: b"\r\n",
        };
        let is_sure = !is_odd(45);
        match oddity {
            0..12 => request.lines.extend(fields::odd(random, key)),
            12..18 => request.method = method(random),
            18..22 => request.target = odd_target(random, key),
            22..26 => request.body = body(random, &mut request),
            26..29 => request.lines = fields::without_host(random, request.lines),
            29..32 => request.version = version(random),
            32..34 => request.end = *random.pick(&[&b"\n"[..], b"\r\r\n", b" \r\n", b"\t\r\n", b"\r\n "]),
            34 => request.lines.extend(fields::many(random)),
            35 => request.lines.extend(fields::long(random)),
            36..38 => return Self { bytes: request.spoilt(random), is_sure },
            38..40 => return Self { bytes: request.spaced(random), is_sure },
            40 => return Self { bytes: request.led(random), is_sure },
            41..45 => {
                // Two things at once.
                request.lines.extend(fields::odd(random, key));
                request.lines.extend(fields::odd(random, key));
            }
            _ => {}
        }
        Self { bytes: request.bytes(), is_sure }
    }

    /// One of the demo.
    pub(super) fn of_demo(random: &mut Random) -> Self {
        let query = random.pick(&["", "", "", "?", "?scope=ip", "?key=x", "?a=%20&b"]);
        let lines: String = (0..random.below(3)).map(|_| fields::harmless(random)).collect();
        let text = format!("GET /api/v1/ip/demo{query} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
        Self { bytes: text.into(), is_sure: true }
    }
}

/// A request before it is written.
struct Parts {
    method: String,
    target: Vec<u8>,
    version: String,
    /// Each with its end.
    lines: Vec<Vec<u8>>,
    body: Vec<u8>,
    /// How the head ends.
    end: &'static [u8],
}

impl Parts {
    fn first(&self) -> Vec<u8> {
        [self.method.as_bytes(), b" ", &self.target, b" ", self.version.as_bytes(), b"\r\n"].concat()
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.first()[..], &self.lines.concat(), self.end, &self.body].concat()
    }

    /// With a byte that is another, or gone, or twice.
    fn spoilt(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.bytes();
        let at = random.index(bytes.len());
        match random.below(4) {
            0 => drop(bytes.remove(at)),
            1 => bytes.insert(at, bytes[at]),
            2 => bytes[at] = *random.pick(b"\0\r\n\t :,;%/?#\x7f\x80\xff"),
            _ => bytes[at] = random.byte(),
        }
        bytes
    }

    /// With odd whitespace in its first line.
    fn spaced(&self, random: &mut Random) -> Vec<u8> {
        let places = [" ", " ", "  ", "\t", "", " \t", "\x0b"];
        let (one, two) = (*random.pick(&places), *random.pick(&places));
        let (before, behind) = (*random.pick(&["", "", " ", "\t"]), *random.pick(&["", "", " ", "\t", "  "]));
        let ends = ["\r\n", "\r\n", "\n", "\r", "\r\r\n", " \r\n"];
        let end = *random.pick(&ends);
        let target = &self.target[..];
        let first =
            [before.as_bytes(), self.method.as_bytes(), one.as_bytes(), target, two.as_bytes()].concat();
        let first = [&first[..], self.version.as_bytes(), behind.as_bytes(), end.as_bytes()].concat();
        [&first[..], &self.lines.concat(), self.end].concat()
    }

    /// With something before it.
    fn led(&self, random: &mut Random) -> Vec<u8> {
        let leads: [&[u8]; 8] =
            [b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b"\0", b"\r\n \r\n", b"\xef\xbb\xbf"];
        [*random.pick(&leads), &self.bytes()].concat()
    }
}

/// What is asked for: nearly always a lookup.
fn target(random: &mut Random, key: &str) -> Vec<u8> {
    let scope = *random.pick(&["ip", "geo", "full", "GEO", "", "all", "geo%20", "%67eo", "geo+", "geo,ip"]);
    let encoded = || key.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let target = match random.below(24) {
        0..11 => "/api/v1/ip".to_owned(),
        11 => format!("/api/v1/ip?scope={scope}"),
        12 => format!("/api/v1/ip?key={key}"),
        13 => format!("/api/v1/ip?key={key}&scope={scope}"),
        14 => format!("/api/v1/ip?scope={scope}&scope=geo&key={key}&key={key}"),
        15 => format!("/api/v1/ip?key={}", encoded()),
        16 => {
            format!("/api/v1/ip?{}", random.pick(&["", "&", "&&=&", "scope", "key", "key=", "=x", "?", "%"]))
        }
        17 => format!("/api/v1/ip?x={}", "a".repeat(random.index(300))),
        18 => (*random.pick(&["/", "/docs", "/openapi.json", "/api/v1/meta", "/robots.txt", "/nothing"]))
            .to_owned(),
        19 => (*random.pick(&["/api/v1/ip/", "/api/v1", "/api/v1/ip/x", "/API/v1/ip", "//api/v1/ip"]))
            .to_owned(),
        20 => {
            (*random.pick(&["/api/v1/%69p", "/api/v1/../v1/ip", "/./api/v1/ip", "/api/v1/ip;a"])).to_owned()
        }
        21 => format!("/api/v1/ip?Key={key}&SCOPE={scope}"),
        _ => "/api/v1/ip".to_owned(),
    };
    target.into()
}

/// A target of another form, with other bytes, or of a length where a limit is near.
fn odd_target(random: &mut Random, key: &str) -> Vec<u8> {
    let padded = |random: &mut Random, near: usize| {
        let length = near + random.index(40) - 20;
        format!("/api/v1/ip?x={}", "a".repeat(length.saturating_sub(13))).into_bytes()
    };
    match random.below(12) {
        0 => b"http://localhost/api/v1/ip".to_vec(),
        1 => format!("http://user@other.example:81/api/v1/ip?key={key}").into_bytes(),
        2 => random
            .pick(&["*", "localhost:80", "api/v1/ip", "", "?", "#", "http://", "https:///x"])
            .as_bytes()
            .to_vec(),
        3 => b"/api/v1/ip#fragment".to_vec(),
        4 => padded(random, 2_048),
        5 => padded(random, 8_192),
        6 => padded(random, 7_900),
        7 => {
            // Between 32 and 64 KiB hyper goes by the pieces in which a head comes.
            let length = *random.pick(&[9_000, 70_000]) + random.index(20_000);
            [b"/api/v1/ip?x=".to_vec(), vec![b'a'; length]].concat()
        }
        _ => {
            let mut target = b"/api/v1/ip?scope=geo&x=".to_vec();
            let odd = b"!$'()*;@[]{}|\\^`\"<> \x7f\x80\xc3\xa4\xff\0#";
            target.extend((0..=random.below(2)).map(|_| *random.pick(odd)));
            target
        }
    }
}

fn method(random: &mut Random) -> String {
    let methods = [
        "HEAD", "HEAD", "HEAD", "OPTIONS", "OPTIONS", "POST", "PUT", "DELETE", "TRACE", "get", "GETT", "G",
        "CONNECT",
    ];
    (*random.pick(&methods)).to_owned()
}

fn version(random: &mut Random) -> String {
    let versions = [
        "HTTP/1.0",
        "HTTP/1.0",
        "HTTP/1.0",
        "HTTP/1.2",
        "HTTP/2.0",
        "HTTP/0.9",
        "http/1.1",
        "HTTP/1.1.",
        "HTTP/1",
        "",
    ];
    (*random.pick(&versions)).to_owned()
}

/// A body and the lines that tell of it, which may not agree; sometimes with another method, which has one more often.
fn body(random: &mut Random, request: &mut Parts) -> Vec<u8> {
    if random.below(3) == 0 {
        request.method = (*random.pick(&["POST", "PUT", "HEAD", "OPTIONS"])).to_owned();
    }
    let chunked: &[u8] = b"5\r\nhello\r\n0\r\n\r\n";
    let tells: &[(&str, &[u8])] = &[
        ("content-length: 0", b""),
        ("content-length: 0", b""),
        ("Content-Length: 5", b"hello"),
        ("Content-Length: 5", b"hel"),
        ("Content-Length: 5", b"hello, you"),
        ("content-length: 5\r\ncontent-length: 5", b"hello"),
        ("content-length: 5, 5", b"hello"),
        ("content-length: +5", b"hello"),
        ("content-length: five", b"hello"),
        ("content-length: -1", b""),
        ("content-length:", b""),
        ("content-length: 99999999999999999999", b""),
        ("transfer-encoding: chunked", chunked),
        ("Transfer-Encoding: CHUNKED", b"0\r\n\r\n"),
        ("transfer-encoding: gzip, chunked", chunked),
        ("transfer-encoding: identity", b""),
        ("transfer-encoding: chunked\r\ncontent-length: 5", chunked),
        ("transfer-encoding: chunked", b"zz\r\n"),
        ("content-length: 5\r\nexpect: 100-continue", b"hello"),
        ("expect: 100-continue", b""),
    ];
    let (lines, body) = *random.pick(tells);
    request.lines.push(format!("{lines}\r\n").into_bytes());
    body.to_vec()
}
