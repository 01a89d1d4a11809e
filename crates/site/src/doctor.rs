//! The doctor's page: what the server saw of one request, for the operator who holds the link to it.
//!
//! It shows what callers and proxies sent, so nothing of it is markup: the template escapes all of it.

use crate::office::Trouble;
use crate::page::{Here, Page};
use crate::reply::{self, Keep, Private};
use askama::Template;
use http::{HeaderValue, StatusCode, header};
use ipse_edge::{Diagnosis, Peer, Reading, Remark, Reply, Visit, Weight};
use ipse_model::Links;
use std::fmt::Write;

/// What is known about how this server judges callers.
pub struct Examination<'a> {
    /// What became of this request.
    pub diagnosis: &'a Diagnosis,
    /// What is to be said about the configuration, whoever calls.
    pub setup: &'a [Remark],
    /// Header lines that a caller who lies would send.
    pub forged: &'a [String],
}

#[derive(Template)]
#[template(path = "doctor.html")]
struct Doctor<'a> {
    page: Page<'a>,
    diagnosis: &'a Diagnosis,
    setup: &'a [Remark],
    /// A command that tries to lie to this server.
    lie: String,
}

impl Doctor<'_> {
    /// How often something of this weight is said about the request itself.
    fn count(&self, weight: Weight) -> usize {
        self.diagnosis.remarks.iter().filter(|remark| remark.weight == weight).count()
    }

    /// Whether there is a list of hops to be followed.
    fn has_list(&self) -> bool {
        self.diagnosis.readings.iter().any(Reading::is_list)
    }

    /// Whether this request gave no reason to doubt.
    fn is_well(&self) -> bool {
        self.count(Weight::Warning) + self.count(Weight::Problem) == 0
    }
}

const TITLE: &str = "What this server saw";
const DESCRIPTION: &str = "How this server found out who called, and what of it could be a lie.";

/// People get a page, and programs the same as text.
pub(crate) fn answer(links: &Links, visit: &Visit, examination: &Examination<'_>) -> Reply {
    let mut reply = if reply::names_html(&visit.request.headers) {
        let page = Page::public(links, Here::Elsewhere, TITLE, DESCRIPTION);
        let Examination { diagnosis, setup, forged } = *examination;
        let lie = lie(forged, &format!("{}{}", links.base_url, visit.request.uri.path()));
        reply::page(links, Keep::Never, &Doctor { page, diagnosis, setup, lie })
    } else {
        reply::text(Keep::Never, examination_as_text(examination))
    };
    reply
        .headers_mut()
        .insert(header::HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex"));
    reply
}

/// The same at the operator's own listener, which needs no link. `host` is where that was asked.
pub(crate) fn answer_operator(
    links: &Links,
    visit: &Visit,
    host: &str,
    examination: &Examination<'_>,
) -> Result<Reply, Trouble> {
    if !reply::names_html(&visit.request.headers) {
        return Ok(reply::private_text(StatusCode::OK, examination_as_text(examination)));
    }
    let page = Page::operators(links, Here::Doctor, TITLE, DESCRIPTION);
    let Examination { diagnosis, setup, forged } = *examination;
    let lie = lie(forged, &format!("http://{host}/doctor"));
    reply::private(Private::OK, &Doctor { page, diagnosis, setup, lie })
}

/// A command that sends all these header lines to an address.
#[must_use]
pub fn lie(forged: &[String], url: &str) -> String {
    let headers: String = forged.iter().map(|line| format!(" \\\n  -H '{line}'")).collect();
    format!("curl{headers} \\\n  {url}")
}

/// All that the page shows, for a terminal.
#[must_use]
pub fn examination_as_text(examination: &Examination<'_>) -> String {
    let Diagnosis { client, why, pretended_for, socket, introduced, readings, facts, remarks, headers } =
        examination.diagnosis;
    let mut text = format!("The caller is {}\n", client.address.ip());
    paragraph(&mut text, "  ", why);
    if let Some(found) = pretended_for {
        let sentence = format!("`pretend_ip` stands in for {}, which is not global.", found.ip());
        paragraph(&mut text, "  ", &sentence);
    }
    let mut rows = vec![["Peer".to_owned(), peer(socket)]];
    if let Some(introduced) = introduced {
        rows.push(["Introduced".to_owned(), format!("{}, with the PROXY protocol", peer(introduced))]);
    }
    section(&mut text, "Connection", &rows);
    for reading in readings {
        let rows: Vec<_> = reading
            .hops
            .iter()
            .map(|hop| {
                let address = hop.address.map_or_else(|| "-".to_owned(), |address| address.ip().to_string());
                [address, hop.fate.label().to_owned(), hop.why.clone()]
            })
            .collect();
        let lines: Vec<String> =
            reading.lines.iter().map(|line| format!("{}: {line}", reading.header)).collect();
        section(&mut text, &lines.join("\n"), &rows);
    }
    let rows: Vec<_> = facts
        .iter()
        .map(|fact| {
            let value = fact.value.clone().unwrap_or_else(|| "unknown".to_owned());
            [fact.name.label().to_owned(), value, fact.origin.to_string()]
        })
        .collect();
    section(&mut text, "Facts", &rows);
    remarks_as_text(&mut text, "About this request", remarks);
    remarks_as_text(&mut text, "About the configuration", examination.setup);
    let lines: String = headers
        .iter()
        .map(|line| format!("  {}: {}\n", line.name, line.value.as_deref().unwrap_or("(hidden)")))
        .collect();
    if !lines.is_empty() {
        let _ = write!(text, "\nHeaders of the request\n{lines}");
    }
    text
}

/// Remarks under a heading; without remarks there is no heading either.
pub fn remarks_as_text(text: &mut String, heading: &str, remarks: &[Remark]) {
    let rows: Vec<_> =
        remarks.iter().map(|remark| [remark.weight.label().to_owned(), remark.text.clone()]).collect();
    if !rows.is_empty() {
        section(text, heading, &rows);
    }
}

fn peer(peer: &Peer) -> String {
    match peer.trusted_by {
        Some(network) => format!("{}, a trusted proxy (in {network})", peer.address.ip()),
        None => format!("{}, no trusted proxy", peer.address.ip()),
    }
}

/// How wide a line may be.
const WIDTH: usize = 100;

/// A heading, and below it columns as wide as they need to be; the last is broken into lines.
fn section<const N: usize>(text: &mut String, heading: &str, rows: &[[String; N]]) {
    let _ = writeln!(text, "\n{heading}");
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let mut before = "  ".to_owned();
        for (cell, width) in row.iter().zip(&widths).take(N - 1) {
            let _ = write!(before, "{cell:width$}  ");
        }
        paragraph(text, &before, &row[N - 1]);
    }
}

/// Words in lines that are not too wide; the first begins with `before`, the others with as many blanks.
fn paragraph(text: &mut String, before: &str, words: &str) {
    let indent = before.chars().count();
    let mut line = before.to_owned();
    let mut length = indent;
    for (index, word) in words.split(' ').enumerate() {
        let size = word.chars().count();
        if index > 0 && length + 1 + size > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(indent);
            length = indent;
        } else if index > 0 {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += size;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::tests::links;
    use http::{HeaderMap, HeaderName, Request};
    use ipse_edge::{Connection, FactHeaders, RequestBody, Stopwatch, Trust};
    use ipse_model::Now;
    use std::str::FromStr;

    fn trust() -> Trust {
        Trust {
            proxies: vec!["127.0.0.0/8".parse().unwrap(), "10.0.0.0/8".parse().unwrap()],
            header: "x-forwarded-for".parse().unwrap(),
            pretend: None,
            colo: None,
            facts: FactHeaders { rtt: Some(HeaderName::from_static("x-rtt")), ..FactHeaders::default() },
        }
    }

    fn ask(accept: &str, peer: &str, headers: &[(&str, &str)]) -> (HeaderMap, String) {
        let mut request = Request::builder().uri("/doctor/token?key=canary").header("accept", accept);
        for (name, value) in headers {
            request = request.header(HeaderName::from_str(name).unwrap(), *value);
        }
        let (trust, request) = (trust(), request.body(()).unwrap().into_parts().0);
        let connection = Connection::imagined(peer.parse().unwrap());
        let diagnosis = trust.explain(&connection, &request.headers);
        let now = Now { unix_ms: 0, boot_ms: 0 };
        let (client, stopwatch) = (diagnosis.client.clone(), Stopwatch::begun());
        let visit = Visit { client, now, stopwatch, request, body: RequestBody::empty(), connection };
        let examination =
            Examination { diagnosis: &diagnosis, setup: &trust.review(&[]), forged: &trust.forged_headers() };
        let (head, body) = ipse_edge::whole(answer(&links(), &visit, &examination));
        (head.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn the_page_and_the_text_are_for_one_pair_of_eyes() {
        for (accept, content_type) in
            [("text/html", "text/html; charset=utf-8"), ("*/*", "text/plain; charset=utf-8")]
        {
            let (headers, body) = ask(accept, "127.0.0.1", &[]);
            for (name, value) in [
                ("content-type", content_type),
                ("cache-control", "no-store"),
                ("referrer-policy", "no-referrer"),
                ("x-robots-tag", "noindex"),
            ] {
                assert_eq!(headers.get(name).unwrap(), value);
            }
            assert!(!body.contains("canary"), "{body}");
        }
    }

    #[test]
    fn both_tell_the_same() {
        let headers = [
            ("x-forwarded-for", "6.6.6.6, 81.2.69.142"),
            ("x-rtt", "12"),
            ("authorization", "Bearer canary"),
        ];
        for accept in ["text/html", "*/*"] {
            let (_, body) = ask(accept, "127.0.0.1", &headers);
            for part in [
                "81.2.69.142",
                "not believed",
                "the caller",
                "12 ms",
                "in 127.0.0.0/8",
                "as it should be",
                "(hidden)",
                "a client could spoof this",
            ] {
                assert!(body.replace('\n', " ").contains(part), "{part}: {body}");
            }
            assert!(!body.contains("canary"), "{body}");
        }
    }

    #[test]
    fn what_callers_send_stays_text() {
        let hostile = "<script>alert(1)</script>\"&'`";
        let headers = [("x-forwarded-for", hostile), ("x-rtt", hostile), ("x-else", hostile)];
        let (_, html) = ask("text/html", "127.0.0.1", &headers);
        assert!(!html.contains("<script>") && html.contains("&#60;script&#62;"), "{html}");
        for part in ["<style", " style=", " onclick=", "<form"] {
            assert!(!html.contains(part), "{part}");
        }
    }

    #[test]
    fn a_lie_can_be_tried() {
        let (_, html) = ask("text/html", "127.0.0.1", &[]);
        assert!(html.contains("x-forwarded-for: 192.0.2.66"), "{html}");
        assert!(html.contains("https://ip.example/doctor/token</code>"), "{html}");
        let forged = ["a: 1".to_owned(), "b: 2".to_owned()];
        assert_eq!(lie(&forged, "http://x/"), "curl \\\n  -H 'a: 1' \\\n  -H 'b: 2' \\\n  http://x/");
    }

    #[test]
    fn long_sentences_are_broken_below_their_column() {
        let mut text = String::new();
        section(
            &mut text,
            "Heading",
            &[["a".to_owned(), "word ".repeat(30)], ["bc".to_owned(), String::new()]],
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["", "Heading"]);
        assert!(lines[2].starts_with("  a   word") && lines[3].starts_with("      word"), "{text}");
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{text}");
        assert_eq!(lines.last(), Some(&"  bc"));
    }
}
