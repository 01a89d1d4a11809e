//! The round-trip time in answers against a delay that is known: the server and its callers are at two ends of a wire
//! that holds packets back.

mod link;

use crate::campaign::Options;
use crate::server;
use anyhow::{Context, Result, bail, ensure};
use link::{Link, SERVER};
use serde_json::Value;
use std::fmt;
use std::process::Command;
use std::time::Duration;

const CLEAR_PORT: u16 = 8080;
const TLS_PORT: u16 = 8443;
/// Round trips of the full campaign, and the one of the short form.
const DELAYS_MS: &[u64] = &[10, 50, 200];
const SHORT_DELAYS_MS: &[u64] = &[20];
/// With fewer answers on a connection the campaign is the short one, for machines that do much else at the same time.
const FULL_ANSWERS: u64 = 10;
/// How far what is told may be from the delay: a part of it, and milliseconds.
const TCP: Tolerance = Tolerance { part: 0.1, ms: 0.0 };
const QUIC: Tolerance = Tolerance { part: 0.1, ms: 10.0 };
const SHORT: Tolerance = Tolerance { part: 0.5, ms: 10.0 };
/// The wire itself is to be better than what is measured with it.
const WIRE_LATE_US: u64 = 300;

pub(crate) fn work(options: &Options) -> Result<String> {
    ensure!(options.count >= 2, "the first answer of a connection does not count: ask for two or more");
    let is_full = options.count >= FULL_ANSWERS;
    let delays = if is_full { DELAYS_MS } else { SHORT_DELAYS_MS };
    let folder = tempfile::tempdir()?;
    let link = Link::make()?;
    let mut command = link.at_the_server(server::program()?);
    command.args(["serve", "--tls-self-signed", "--base-url", "http://localhost"]);
    command.args(["--listen", &format!("{SERVER}:{CLEAR_PORT}")]);
    command.args(["--tls-listen", &format!("{SERVER}:{TLS_PORT}")]);
    let server = server::start_with(command, folder.path())?;
    let mut figures = Vec::new();
    for delay_ms in delays {
        link.set_round_trip(Duration::from_millis(*delay_ms));
        let mut told = Vec::new();
        for (way, tolerance) in ways() {
            let tolerance = if is_full { tolerance } else { SHORT };
            let answers = ask(&link, &way, options.count)
                .with_context(|| format!("{} over {delay_ms} ms", way.name))?;
            let figure = Figure::of(&answers)?;
            // Where much else goes on, a caller that is kept from its turn makes its own round trips longer.
            let told_ms = if is_full { figure.median_ms } else { figure.least_ms };
            ensure!(
                tolerance.allows(*delay_ms, told_ms),
                "{} over {delay_ms} ms: {figure}, which is more than {tolerance} off",
                way.name
            );
            told.push(format!("{} {figure}", way.name));
        }
        let late_us = link.late_us();
        let middle = late_us.get(late_us.len() / 2).context("no packet took the wire")?;
        ensure!(
            !is_full || *middle < WIRE_LATE_US,
            "the wire itself is {middle} µs late: too busy a machine"
        );
        figures.push(format!("{delay_ms} ms ({middle} µs late): {}", told.join(", ")));
    }
    server.kill()?;
    Ok(format!(
        "{} answers on each connection, median (least to most): {}",
        options.count,
        figures.join("; ")
    ))
}

/// How a caller speaks.
struct Way {
    name: &'static str,
    client: Client,
    scheme: &'static str,
    port: u16,
}

enum Client {
    /// With these arguments.
    Curl(&'static [&'static str]),
    Http3,
}

fn ways() -> Vec<(Way, Tolerance)> {
    let curl =
        |name, scheme, port, arguments| (Way { name, client: Client::Curl(arguments), scheme, port }, TCP);
    let quic = Way { name: "QUIC", client: Client::Http3, scheme: "https", port: TLS_PORT };
    vec![
        curl("TCP", "http", CLEAR_PORT, &["--http1.1"]),
        curl("TLS", "https", TLS_PORT, &["--http1.1"]),
        curl("TLS with HTTP/2", "https", TLS_PORT, &["--http2"]),
        (quic, QUIC),
    ]
}

/// The round-trip times that so many answers on one connection tell.
fn ask(link: &Link, way: &Way, count: u64) -> Result<Vec<u64>> {
    let url = format!("{}://{SERVER}:{}/api/v1/ip/demo", way.scheme, way.port);
    let bodies = match way.client {
        Client::Curl(arguments) => {
            // Behind each answer, on a line of its own: how many connections were made for it.
            let mut curl = link.at_the_client("curl");
            curl.args(["-sS", "--noproxy", "*", "--insecure", "--max-time", "60"]);
            curl.args(["-w", "\n%{num_connects}\n"]).args(arguments);
            let output = output(curl.args((0..count).map(|_| url.as_str())))?;
            let lines: Vec<&str> = output.lines().filter(|line| !line.is_empty()).collect();
            let (bodies, connections): (Vec<&str>, Vec<&str>) =
                lines.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip();
            let made: u64 = connections.iter().map(|made| made.parse::<u64>()).sum::<Result<_, _>>()?;
            ensure!(made == 1, "curl made {made} connections: {output}");
            bodies.into_iter().map(str::to_owned).collect()
        }
        Client::Http3 => {
            let (python, script) = ipse_testkit::http3_client()?;
            let mut client = link.at_the_client(python);
            client.arg(script).args(["--insecure", "--timeout", "60", "--count", &count.to_string(), &url]);
            let answers = output(&mut client)?;
            let body = |line: &str| {
                let answer: Value = serde_json::from_str(line)?;
                Ok(answer["body"].as_str().context("an answer without a body")?.to_owned())
            };
            answers.lines().map(body).collect::<Result<Vec<String>>>()?
        }
    };
    ensure!(bodies.len() as u64 == count, "{} answers instead of {count}", bodies.len());
    let rtt = |body: &String| {
        let answer: Value = serde_json::from_str(body).with_context(|| format!("no JSON: {body}"))?;
        answer["rtt"].as_u64().with_context(|| format!("no round-trip time in {body}"))
    };
    bodies.iter().map(rtt).collect()
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let said = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        bail!("{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(said)
}

struct Tolerance {
    part: f64,
    ms: f64,
}

impl Tolerance {
    fn allows(&self, delay_ms: u64, told_ms: u64) -> bool {
        let far = Duration::from_millis(told_ms.abs_diff(delay_ms)).as_secs_f64();
        far <= Duration::from_millis(delay_ms).as_secs_f64() * self.part + self.ms / 1_000.0
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} % and {} ms", self.part * 100.0, self.ms)
    }
}

/// What the answers of one connection say, but for the first: when that is asked for, little is known yet.
struct Figure {
    median_ms: u64,
    least_ms: u64,
    most_ms: u64,
}

impl Figure {
    fn of(answers: &[u64]) -> Result<Self> {
        let mut rtts = answers[1..].to_vec();
        rtts.sort_unstable();
        let (Some(least), Some(most)) = (rtts.first(), rtts.last()) else { bail!("too few answers") };
        Ok(Self { median_ms: rtts[rtts.len() / 2], least_ms: *least, most_ms: *most })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms ({} to {})", self.median_ms, self.least_ms, self.most_ms)
    }
}
