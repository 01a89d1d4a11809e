//! The lines of a head, usual ones and odd ones.

use ipse_testkit::Random;

/// `Host`, who asks, and some that nobody minds.
pub(super) fn usual(random: &mut Random, key: &str) -> Vec<Vec<u8>> {
    let name = *random.pick(&["host", "Host", "HOST"]);
    let host =
        *random.pick(&["localhost", "localhost", "127.0.0.1:8080", "[::1]:80", "ip.example.com", "a_b", "*"]);
    let mut lines = vec![format!("{name}: {host}\r\n").into_bytes()];
    if random.below(12) > 0 {
        lines.push(authorization(random, key));
    }
    for _ in 0..random.below(5) {
        let line = if random.below(2) == 0 { forwarding(random) } else { harmless(random) };
        let at = random.index(lines.len() + 1);
        lines.insert(at, line.into());
    }
    lines
}

fn authorization(random: &mut Random, key: &str) -> Vec<u8> {
    let name = *random.pick(&["authorization", "Authorization", "AUTHORIZATION"]);
    let blank = *random.pick(&[" ", " ", " ", "", "\t", "   "]);
    let value = match random.below(24) {
        0 => format!("bearer {key}"),
        1 => format!("BEARER  {key}"),
        2 => format!("Bearer {key} "),
        3 => format!("Bearer {key}\t "),
        4 => format!("Bearer {}", &key[..random.index(key.len())]),
        5 => "Bearer ipse_000000000000000000000000000000003B5SOj".to_owned(),
        6 => format!("Basic {key}"),
        7 => key.to_owned(),
        8 => String::new(),
        _ => format!("Bearer {key}"),
    };
    format!("{name}:{blank}{value}\r\n").into_bytes()
}

/// Lines that callers send and that change nothing. None asks for gzip, in which nothing could be masked.
pub(super) fn harmless(random: &mut Random) -> String {
    let lines = [
        "accept: */*",
        "Accept: text/html,application/xhtml+xml;q=0.9",
        "accept-encoding: deflate, br, zstd",
        "Accept-Encoding: *;q=0",
        "user-agent: curl/8.5.0",
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0)",
        "origin: https://example.com",
        "Origin: null",
        "if-none-match: \"x\", W/\"y\"",
        "If-None-Match: *",
        "if-modified-since: Sun, 15 Nov 2026 02:00:00 GMT",
        "range: bytes=0-3",
        "cookie: a=b; c=d",
        "connection: keep-alive",
        "Connection: Keep-Alive",
        "keep-alive: timeout=5",
        "cache-control: no-cache",
        "x-empty:",
        "x-blank:   ",
        "X-Dash_Score: 1",
        "dnt: 1",
        "sec-fetch-mode: cors",
        "access-control-request-method: GET",
        "priority: u=0, i",
    ];
    format!("{}\r\n", random.pick(&lines))
}

/// What a proxy tells, or somebody who would like to be one.
fn forwarding(random: &mut Random) -> String {
    let chains = [
        "8.8.8.8",
        "8.8.8.8, 127.0.2.7",
        "1.1.1.1,8.8.4.4 , 127.0.2.1",
        "2001:4860:4860::8888",
        "[2001:db8::1]:443",
        "10.0.0.1:80",
        "unknown",
        "",
        ",",
        "999.1.1.1",
        "::ffff:9.9.9.9",
        "\"8.8.8.8\"",
    ];
    let parts = [
        "for=8.8.8.8",
        "for=\"[2001:db8::1]:80\"",
        "for=1.1.1.1;proto=https",
        "For=9.9.9.9, for=127.0.2.1",
        "for=",
    ];
    let line = match random.below(14) {
        0..5 => format!("X-Forwarded-For: {}", random.pick(&chains)),
        5 => {
            format!("x-forwarded-for: {}\r\nX-Forwarded-For: {}", random.pick(&chains), random.pick(&chains))
        }
        6 | 7 => format!("Forwarded: {}", random.pick(&parts)),
        8 => format!("X-Real-IP: {}", random.pick(&chains)),
        9 => format!("CF-Connecting-IP: {}", random.pick(&chains)),
        10 => format!("X-Forwarded-Proto: {}", random.pick(&["http", "https", "HTTPS", "https, http", ""])),
        11 => format!("X-Tls: {}", random.pick(&["TLSv1.3", "TLSv1.2", "none", ""])),
        12 => format!(
            "X-Cipher: {}",
            random.pick(&["TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "x"])
        ),
        _ => {
            (*random.pick(&["X-Http: HTTP/2.0", "X-Rtt: 12400us", "X-Rtt: 7", "CF-Ray: 8a-AMS", "X-Http: 1"]))
                .to_owned()
        }
    };
    format!("{line}\r\n")
}

/// Lines over which one may stumble.
pub(super) fn odd(random: &mut Random, key: &str) -> Vec<Vec<u8>> {
    let lines: [&[u8]; 50] = [
        b"connection: close",
        b"Connection: close",
        b"connection: Close",
        b"connection: keep-alive, close",
        b"connection: close, keep-alive",
        b"connection: keep-alive\r\nconnection: close",
        b"connection: keep-alive\r\nconnection: keep-alive",
        b"connection: keep-alive, te",
        b"connection: upgrade",
        b"connection: Upgrade\r\nupgrade: websocket",
        b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA",
        b"connection:",
        b"connection: ,",
        b"connection: keep-alive ",
        b"upgrade: h2c",
        b"upgrade: websocket",
        b"expect: 100-continue",
        b"Expect: 100-Continue",
        b"expect: the-unexpected",
        b"te: trailers",
        b"trailer: x",
        b"http2-settings: x",
        b"proxy-connection: keep-alive",
        b"x-folded: a\r\n b",
        b"x-folded: a\r\n\tb",
        b" x-first: folded",
        b"no colon",
        b": no name",
        b"x-space : a",
        b"x space: a",
        b"x\ttab: a",
        b"x: a\tb",
        b"x:\ta\t",
        b"x: \xc3\xa4",
        b"x: \xff\x80",
        b"x: a\0b",
        b"x: a\x01b",
        b"x: a\x7fb",
        b"x: a\rb",
        b"x: a\nb: c",
        b"x: a\n",
        b"x\xc3\xa4: a",
        b"x!#$%&'*+.^_`|~9: a",
        b"x(: a",
        b"x\0: a",
        b"host: localhost",
        b"Host: other.example",
        b"x-forwarded-proto: https\r\nx-forwarded-proto: http",
        b"x-forwarded-proto: http\r\nx-forwarded-proto: https",
        b"content-type: text/plain",
    ];
    let line = match random.below(60) {
        0..50 => random.pick(&lines).to_vec(),
        50..53 => format!("authorization: Bearer {key}").into_bytes(),
        53 => b"authorization: Basic x".to_vec(),
        54 => b"authorization: Bearer \xff\xfe".to_vec(),
        55 => format!("authorization: Bearer\t{key}").into_bytes(),
        56 => format!("authorization : Bearer {key}").into_bytes(),
        57 => format!("x-forwarded-for: {}", "8.8.8.8, ".repeat(random.index(80))).into_bytes(),
        _ => {
            let length = random.index(60);
            [b"x-any: ".to_vec(), (0..length).map(|_| random.byte()).collect()].concat()
        }
    };
    vec![[&line[..], b"\r\n"].concat()]
}

/// The same lines without `Host`, or with one that is strange.
pub(super) fn without_host(random: &mut Random, lines: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let hosts: [&[u8]; 16] = [
        b"",
        b"host:\r\n",
        b"host: \r\n",
        b"host: a b\r\n",
        b"host: a/b\r\n",
        b"host: user@a\r\n",
        b"host: <a>\r\n",
        b"host: \xff\r\n",
        b"host: a,b\r\n",
        b"host: a!$&'()*+;=%41\r\n",
        b"host: a\tb\r\n",
        b"host:a\r\n",
        b"host: a \r\n",
        b"host: a\r\nhost: a\r\n",
        b"hosts: a\r\n",
        b"host : a\r\n",
    ];
    let rest = lines.into_iter().skip(1).collect::<Vec<_>>();
    [vec![random.pick(&hosts).to_vec()], rest].concat()
}

/// As many as there may be, or about.
pub(super) fn many(random: &mut Random) -> Vec<Vec<u8>> {
    let near = *random.pick(&[29, 97, 250]);
    (0..near + random.index(6)).map(|number| format!("x-{number}: y\r\n").into_bytes()).collect()
}

/// One that is as long as a buffer is, or about. A head between 32 and 64 KiB hyper takes or leaves by the pieces in which it
/// comes, so there is none.
pub(super) fn long(random: &mut Random) -> Vec<Vec<u8>> {
    let near = *random.pick(&[1_000, 7_900, 8_100, 16_200, 30_000, 70_000]);
    vec![format!("x-long: {}\r\n", "v".repeat(near + random.index(200))).into_bytes()]
}
