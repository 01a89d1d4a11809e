//! What hostile clients send: whole conversations made from a seed. Nothing here touches a socket.

use crate::coding::{
    CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, field, frame,
};
use ipse_testkit::Random;

/// Everything that goes over one connection.
pub(crate) struct Conversation {
    /// What is sent, each in one write.
    pub(crate) pieces: Vec<Vec<u8>>,
    /// How many requests are in it, or things in the place of one.
    pub(crate) requests: u64,
    /// Whether the client says that nothing follows. Otherwise the server is asked to close.
    pub(crate) half_close: bool,
    pub(crate) protocol: Protocol,
}

pub(crate) enum Protocol {
    Http1 {
        /// Of each request that can be answered whether it is HEAD, whose answer has no body.
        heads: Vec<bool>,
    },
    Http2,
}

/// Requests whose end everybody agrees about, so that more may follow.
const MOST_PIPELINED: u64 = 15;
const GOODBYE: &[u8] = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

impl Conversation {
    pub(crate) fn invent(random: &mut Random, key: &str) -> Self {
        if random.below(12) == 0 { http2(random) } else { http1(random, key) }
    }

    pub(crate) fn shown(&self) -> String {
        shown(&self.pieces.concat())
    }
}

fn http1(random: &mut Random, key: &str) -> Conversation {
    let mut bytes = Vec::new();
    let mut heads = Vec::new();
    for _ in 0..random.below(MOST_PIPELINED + 1) {
        let (request, is_head) = odd_request(random, key);
        bytes.extend(request);
        heads.push(is_head);
    }
    let half_close = match random.below(4) {
        0 => {
            bytes.extend_from_slice(GOODBYE);
            heads.push(false);
            false
        }
        1 => {
            let (request, _) = odd_request(random, key);
            // The last byte is always missing.
            let kept = random.index(request.len());
            bytes.extend_from_slice(&request[..kept]);
            true
        }
        2 => {
            bytes.extend(rubbish(random));
            true
        }
        _ => {
            bytes.extend(broken_request(random, key));
            true
        }
    };
    let requests = heads.len() as u64 + u64::from(half_close);
    Conversation { pieces: pieces(random, bytes), requests, half_close, protocol: Protocol::Http1 { heads } }
}

/// Cuts what is sent into a few writes, so that the server meets requests in parts.
fn pieces(random: &mut Random, bytes: Vec<u8>) -> Vec<Vec<u8>> {
    if random.below(4) != 0 || bytes.len() < 2 {
        return vec![bytes];
    }
    let mut cuts: Vec<usize> = (0..3).map(|_| random.index(bytes.len())).collect();
    cuts.sort_unstable();
    let ends = cuts.iter().copied().chain([bytes.len()]);
    let begins = [0].into_iter().chain(cuts.iter().copied());
    begins.zip(ends).map(|(begin, end)| bytes[begin..end].to_vec()).collect()
}

/// A request that is strange but whole: HTTP says where it ends. Says also whether it is HEAD.
fn odd_request(random: &mut Random, key: &str) -> (Vec<u8>, bool) {
    let method = method(random);
    let mut request = method.as_bytes().to_vec();
    request.push(b' ');
    request.extend(target(random, &method, key));
    request.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    // After a wrong one the server closes the connection, and what follows goes unread.
    let hosts: &[&[u8]] = match random.below(50) {
        0 => &[b"a b", b"\xff", b"a\r\nhost: b"],
        _ => &[b"localhost", b"", b"[::1]:80", b"evil.example"],
    };
    request.extend_from_slice(random.pick::<&[u8]>(hosts));
    request.extend_from_slice(b"\r\n");
    for _ in 0..random.below(6) {
        request.extend(odd_header(random, key));
    }
    let body = body(random, &mut request);
    request.extend_from_slice(b"\r\n");
    request.extend(body);
    (request, method == "HEAD")
}

fn method(random: &mut Random) -> String {
    const METHODS: &[&str] = &[
        "GET",
        "GET",
        "GET",
        "GET",
        "HEAD",
        "HEAD",
        "OPTIONS",
        "POST",
        "PUT",
        "DELETE",
        "PATCH",
        "TRACE",
        "PROPFIND",
        "get",
        "G",
        "M-SEARCH",
        "PRI",
        "!#$%&'*+-.^_`|~",
        "BREW",
        "NULL",
    ];
    if random.below(20) == 0 {
        let length = 1 + random.below(40);
        return (0..length).map(|_| char::from(b'A' + u8::try_from(random.below(26)).unwrap_or(0))).collect();
    }
    (*random.pick(METHODS)).to_owned()
}

fn target(random: &mut Random, method: &str, key: &str) -> Vec<u8> {
    const PATHS: &[&str] = &[
        "/api/v1/ip",
        "/api/v1/ip/demo",
        "/api/v1/ip/",
        "/api/v1/ip/demo/../",
        "/api",
        "/api/",
        "/api/v2/ip",
        "//api/v1/ip",
        "/API/V1/IP",
        "/api/v1/%69p",
        "/",
        "/docs",
        "/signup",
        "/enterprise",
        "/openapi.json",
        "/../../etc/passwd",
        "/.well-known/x",
        "/%",
        "/%zz%00%ff",
        "/a;b=c",
        "/{x}|^\"",
        "/?",
        "/#x",
        "/api/v1/ip#x",
    ];
    let mut target = match random.below(12) {
        0 => b"http://localhost".to_vec(),
        1 => format!("HTTPS://user:pw@[::ffff:1.2.3.4]:{}", random.below(70_000)).into_bytes(),
        2 if method == "OPTIONS" => return b"*".to_vec(),
        _ => Vec::new(),
    };
    target.extend_from_slice(random.pick(PATHS).as_bytes());
    if random.below(40) == 0 {
        let longest = *random.pick(&[100, 5_000, 15_000]);
        let length = random.index(longest);
        target.extend(std::iter::repeat_n(b'a', length));
    }
    if random.below(2) == 0 {
        let query = match random.below(10) {
            0 => format!("?key={key}"),
            1 => format!(
                "?scope={}&key={key}",
                random.pick(&["ip", "geo", "full", "FULL", "%00", "everything"])
            ),
            2 => "?key=ipse_000000000000000000000000000000003B5SOj".to_owned(),
            3 => "?key=%ff%fe%00&key=&key".to_owned(),
            4 => format!("?{}", "&".repeat(random.index(500))),
            5 => "?key=%6".to_owned(),
            6 => format!("?{}", "key=x&".repeat(random.index(200))),
            7 => "?a=b?c=d#e".to_owned(),
            8 => "?\u{fc}=\u{1f600}".to_owned(),
            _ => "?;scope=full;key=[]{}\\".to_owned(),
        };
        target.extend(query.into_bytes());
    }
    target
}

/// One header field, with the end of its line.
fn odd_header(random: &mut Random, key: &str) -> Vec<u8> {
    const FORWARDED: &[&str] = &[
        "1.2.3.4",
        "8.8.8.8, 127.0.0.1",
        "::1",
        "[2001:db8::1]:443",
        "unknown",
        "_hidden",
        "999.999.999.999",
        "1.2.3.4:99999",
        ",,,,",
        "",
        "fe80::1%eth0",
        "::ffff:10.0.0.1",
        "0x7f.1",
        "1.2.3",
        "for=\"[2001:db8::1]\";proto=https",
        "for=_x;for=1.1.1.1, for=\"",
        "for=\"\\\\\\\"",
        "for",
        "=;=,;",
    ];
    let mut line = match random.below(12) {
        0 => format!("authorization: Bearer {key}\r\nauthorization: Bearer {key}").into_bytes(),
        1 => {
            let credentials: &[&[u8]] = &[
                b"Bearer",
                b"Bearer ",
                b"bearer\t x",
                b"Basic eDp5",
                b"Bearer \xff\xfe\x80",
                b"Bearer ipse_000000000000000000000000000000003B5SOj",
                b"Bearer ipse_",
                b"Digest username=\"\"",
            ];
            [b"Authorization: ", *random.pick(credentials)].concat()
        }
        2..6 => {
            let names =
                ["X-Forwarded-For", "forwarded", "x-real-ip", "cf-connecting-ip", "x-forwarded-proto", "via"];
            let name = random.pick(&names);
            let values: Vec<&str> = (0..=random.below(4)).map(|_| *random.pick(FORWARDED)).collect();
            format!("{name}: {}", values.join(", ")).into_bytes()
        }
        6 => {
            let mut line = b"x-bytes: ".to_vec();
            let length = random.below(200);
            // Everything that a value may hold, and that is no text.
            line.extend((0..length).map(|_| 0x80 | random.byte()));
            line
        }
        7 => format!("x-long: {}", "v".repeat(random.index(20_000))).into_bytes(),
        8 => "x-many: 1\r\n".repeat(1 + random.index(30)).trim_end().to_owned().into_bytes(),
        9 => (*random.pick(&[
            "expect: 100-continue",
            "expect: the-unexpected",
            "upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA",
            "upgrade: websocket\r\nconnection: upgrade",
            "connection: keep-alive, x, ,",
            "te: trailers, deflate;q=0.5",
            "range: bytes=0-0,-1",
            "if-none-match: *",
            "accept-encoding: *;q=0",
            "origin: null",
            "cookie: a=b; c",
        ]))
        .into(),
        10 => "accept: text/html".into(),
        _ => "access-control-request-method: GET\r\naccess-control-request-headers: authorization".into(),
    };
    line.extend_from_slice(b"\r\n");
    line
}

/// Adds the header fields of a body, and returns the body that keeps to them.
fn body(random: &mut Random, head: &mut Vec<u8>) -> Vec<u8> {
    match random.below(16) {
        0 => {
            let longest = *random.pick(&[10, 1_000, 50_000]);
            let length = random.index(longest);
            head.extend(format!("content-length: {length}\r\n").into_bytes());
            (0..length).map(|_| random.byte()).collect()
        }
        1 => {
            head.extend_from_slice(b"transfer-encoding: chunked\r\n");
            let mut body = Vec::new();
            for _ in 0..random.below(8) {
                let length = 1 + random.index(300);
                body.extend(format!("{length:x};ext=\"x\"\r\n").into_bytes());
                body.extend((0..length).map(|_| random.byte()));
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"0\r\n\r\n");
            body
        }
        2 => {
            head.extend_from_slice(b"content-length: 0\r\n");
            Vec::new()
        }
        _ => Vec::new(),
    }
}

/// Something that begins as a request and breaks a rule, after which nobody knows where the next one begins.
fn broken_request(random: &mut Random, key: &str) -> Vec<u8> {
    let begin = |target: &str| format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n").into_bytes();
    let mut request = begin("/api/v1/ip");
    let (times, large) = (random.index(5_000), random.index(200_000));
    let tail: Vec<u8> = match random.below(25) {
        0 => "x-many: 1\r\n".repeat(times).into_bytes(),
        1 => format!("x-large: {}\r\n", "v".repeat(large)).into_bytes(),
        2 => b"x-nul: a\0b\r\n".to_vec(),
        3 => b"x-folded: a\r\n b\r\n\tc\r\n".to_vec(),
        4 => b"x-bare: a\nx-lf: b\n".to_vec(),
        5 => b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n".to_vec(),
        6 => b"content-length: 5\r\ncontent-length: 6\r\n".to_vec(),
        7 => b"content-length: -1\r\n".to_vec(),
        8 => b"content-length: 99999999999999999999999999\r\n".to_vec(),
        9 => b"transfer-encoding: chunked, identity\r\n".to_vec(),
        10 => b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n".to_vec(),
        11 => b"transfer-encoding: chunked\r\n\r\nzz\r\n".to_vec(),
        12 => b": no name\r\n".to_vec(),
        13 => b"no colon\r\n".to_vec(),
        14 => b"x-space : a\r\n".to_vec(),
        15 => b"x-\xff: a\r\n".to_vec(),
        16 => format!("authorization: Bearer {key}\r\r\n").into_bytes(),
        17 => {
            request = begin(&format!("/{}", "a".repeat(large)));
            Vec::new()
        }
        18 => {
            request = begin("/a\0b");
            Vec::new()
        }
        19 => {
            request = begin("no-slash");
            Vec::new()
        }
        20 => {
            let versions = [
                "HTTP/1.0",
                "HTTP/0.9",
                "HTTP/1.2",
                "HTTP/2.0",
                "HTTP/3",
                "HTTP/9.9",
                "HTTP/1.1.1",
                "http/1.1",
                "",
            ];
            request = format!("GET /api/v1/ip {}\r\n", random.pick(&versions)).into_bytes();
            b"connection: close\r\n".to_vec()
        }
        21 => {
            request = format!("CONNECT {} HTTP/1.1\r\n", random.pick(&["a:1", "/", "http://a/", "*", ":"]))
                .into_bytes();
            b"host: a:1\r\n".to_vec()
        }
        22 => {
            request = begin(random.pick::<&str>(&["/<script>", "/`", "/\u{7f}"]));
            Vec::new()
        }
        23 => {
            request = b"GET  /api/v1/ip   HTTP/1.1\r\n".to_vec();
            Vec::new()
        }
        _ => {
            // A good request with one byte turned into another.
            let (mut request, _) = odd_request(random, key);
            let at = random.index(request.len());
            request[at] = random.byte();
            return request;
        }
    };
    request.extend(tail);
    request.extend_from_slice(b"\r\n");
    request
}

fn rubbish(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        // The beginning of TLS, of another protocol, of nothing.
        0 => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        1 => b"\x05\x01\x00".to_vec(),
        2 => b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n\r\n".to_vec(),
        3 => b"\r\n".repeat(1 + random.index(50)),
        4 => b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec(),
        5 => b"\0".repeat(1 + random.index(5_000)),
        _ => {
            let length = 1 + random.below(2_000);
            (0..length).map(|_| random.byte()).collect()
        }
    }
}

/// The preface of HTTP/2, and then anything.
fn http2(random: &mut Random) -> Conversation {
    let mut bytes = PREFACE.to_vec();
    let mut requests = 0;
    if random.below(8) != 0 {
        bytes.extend(frame(SETTINGS, 0, 0, &[]));
    }
    let mut stream = 1;
    for _ in 0..1 + random.below(20) {
        bytes.extend(odd_frame(random, stream));
        stream += 2;
        requests += 1;
    }
    if random.below(4) == 0 {
        bytes.extend(rubbish(random));
        requests += 1;
    }
    Conversation { pieces: pieces(random, bytes), requests, half_close: true, protocol: Protocol::Http2 }
}

fn odd_frame(random: &mut Random, stream: u32) -> Vec<u8> {
    let any_stream = *random.pick(&[0, 1, 2, stream, u32::MAX >> 1]);
    match random.below(12) {
        0..4 => frame(HEADERS, END_STREAM | END_HEADERS, stream, &header_block(random)),
        4 => {
            // A request that is called off at once.
            let mut both = frame(HEADERS, END_STREAM | END_HEADERS, stream, &header_block(random));
            both.extend(frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
            both
        }
        5 => {
            let mut flood = frame(HEADERS, END_STREAM, stream, &header_block(random));
            for _ in 0..random.below(40) {
                let more = field(b"x-more", &vec![b'v'; random.index(8_000)]);
                flood.extend(frame(CONTINUATION, 0, stream, &more));
            }
            flood.extend(frame(CONTINUATION, END_HEADERS, stream, &[]));
            flood
        }
        6 => {
            let length = random.index(3) * 6 + random.index(2);
            let payload: Vec<u8> = (0..length).map(|_| random.byte()).collect();
            frame(SETTINGS, random.byte() & 1, any_stream, &payload)
        }
        7 => frame(PING, 0, 0, &[0; 8]).repeat(1 + random.index(100)),
        8 => frame(
            WINDOW_UPDATE,
            0,
            any_stream,
            &u32::try_from(random.below(1 << 32)).unwrap_or(0).to_be_bytes(),
        ),
        9 => frame(DATA, random.byte(), any_stream, &vec![0; random.index(2_000)]),
        10 => frame(GOAWAY, 0, 0, &[0xff; 8]),
        _ => {
            let length = random.index(100);
            let payload: Vec<u8> = (0..length).map(|_| random.byte()).collect();
            frame(random.byte(), random.byte(), any_stream, &payload)
        }
    }
}

pub(crate) fn header_block(random: &mut Random) -> Vec<u8> {
    let mut block = Vec::new();
    let paths: [&[u8]; 6] = [b"/api/v1/ip", b"/api/v1/ip/demo", b"/", b"", b"*", b"/\xff\0"];
    let methods: [&[u8]; 5] = [b"GET", b"HEAD", b"OPTIONS", b"CONNECT", b""];
    for pseudo in 0..4 {
        // Now and then one is missing, or comes twice.
        for _ in 0..*random.pick(&[1, 1, 1, 1, 1, 1, 1, 1, 0, 2]) {
            block.extend(match pseudo {
                0 => field(b":method", random.pick::<&[u8]>(&methods)),
                1 => field(b":path", random.pick::<&[u8]>(&paths)),
                2 => field(b":scheme", random.pick::<&[u8]>(&[b"http", b"https", b"", b"gopher"])),
                _ => field(b":authority", random.pick::<&[u8]>(&[b"localhost", b"", b"a b", b"\xff"])),
            });
        }
    }
    match random.below(8) {
        0 => block.extend(field(b"X-Upper", b"a")),
        1 => block.extend(field(b"connection", b"keep-alive")),
        2 => block.extend(field(b"x-nul", b"a\0b\r\nc")),
        3 => block.extend(field(b"x-large", &vec![b'v'; random.index(12_000)])),
        4 => block.extend((0..random.index(300)).flat_map(|_| field(b"x-many", b"1"))),
        5 => block.extend((0..random.index(60)).map(|_| random.byte())),
        6 => block.extend(field(b"forwarded", b"for=\"")),
        _ => {}
    }
    block
}

/// The beginning of some bytes, for people.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 800;
    let more = if bytes.len() > LONGEST { format!("… ({} bytes)", bytes.len()) } else { String::new() };
    format!("{}{more}", bytes[..bytes.len().min(LONGEST)].escape_ascii())
}
