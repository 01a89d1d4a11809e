//! The operator's listener: whether the node is alive and ready, its metrics, and pages for whoever runs it.
//!
//! It changes nothing and has no password: whoever can connect may read. That is why it listens to this machine alone
//! unless the operator says otherwise, and why it answers nobody who came by a name that it does not know: a page of a
//! stranger in the operator's own browser could have that name lead here.

mod families;
mod health;
mod history;
mod metrics;
mod sights;
mod vitals;

pub(crate) use health::Health;
pub(crate) use history::{History, SAMPLE_EVERY};
pub(crate) use sights::Sights;

use families::Form;
use http::header::{self, HeaderValue};
use http::uri::Authority;
use http::{Method, StatusCode};
use ipse_edge::{Entrance, Reply, Trust, Visit};
use ipse_site::{Desk, Examination};
use std::net::IpAddr;
use std::sync::Arc;

/// Who answers at the listener.
pub(crate) struct Operator {
    pub(crate) sights: Arc<Sights>,
    pub(crate) history: Arc<History>,
    pub(crate) desk: Desk,
    /// Names beside `localhost` under which the listener is asked.
    pub(crate) hosts: Vec<String>,
    /// Whom callers of the public doors are judged by.
    pub(crate) trust: Trust,
    pub(crate) entrances: Vec<Entrance>,
}

impl Operator {
    pub(crate) fn answer(&self, visit: &Visit) -> Reply {
        let asked = &visit.request;
        if ![Method::GET, Method::HEAD].contains(&asked.method) {
            let words = "This listener is only read from: GET or HEAD.\n";
            let mut reply = self.desk.text(StatusCode::METHOD_NOT_ALLOWED, words.to_owned());
            reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return reply;
        }
        match asked.uri.path() {
            // Whoever may connect may know, by whatever name: a balancer asks by one that nobody told us.
            "/healthz" => self.desk.text(StatusCode::OK, "alive\n".to_owned()),
            "/readyz" => {
                let condition = self.sights.condition();
                let status =
                    if condition.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                self.desk.text(status, condition.lines())
            }
            path => match host(visit).filter(|host| is_known(host, &self.hosts)) {
                Some(host) => self.page(path, visit, &host),
                None => self.desk.text(StatusCode::MISDIRECTED_REQUEST, STRANGE_NAME.to_owned()),
            },
        }
    }

    fn page(&self, path: &str, visit: &Visit, host: &Authority) -> Reply {
        match path {
            "/" => self.desk.overview(visit, &self.sights.overview(&self.history, visit.now)),
            "/metrics" => self.metrics(visit),
            "/doctor" => {
                let diagnosis = &self.trust.explain(&visit.connection, &visit.request.headers);
                let (setup, forged) = (&self.trust.review(&self.entrances), &self.trust.forged_headers());
                self.desk.doctor(visit, host.as_str(), &Examination { diagnosis, setup, forged })
            }
            _ => self.desk.file(visit).unwrap_or_else(|| {
                let words = "There are / /healthz /readyz /metrics and /doctor here.\n";
                self.desk.text(StatusCode::NOT_FOUND, words.to_owned())
            }),
        }
    }

    fn metrics(&self, visit: &Visit) -> Reply {
        let mut accept = visit.request.headers.get_all(header::ACCEPT).iter();
        let names_it = |value: &HeaderValue| {
            value.to_str().is_ok_and(|value| value.contains("application/openmetrics-text"))
        };
        let (form, content_type) = if accept.any(names_it) {
            (Form::OpenMetrics, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        } else {
            (Form::Plain, "text/plain; version=0.0.4; charset=utf-8")
        };
        let Ok(text) = metrics::text(&self.sights, form, visit.now) else {
            let words = "The metrics cannot be written.\n";
            return self.desk.text(StatusCode::INTERNAL_SERVER_ERROR, words.to_owned());
        };
        let mut reply = self.desk.text(StatusCode::OK, text);
        reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        reply
    }
}

const STRANGE_NAME: &str = "This is the operator's listener of ipse. It answers to IP addresses, to localhost, and to names \
                            that --admin-host tells it.\n";

/// Whom the request is for, as the caller says.
fn host(visit: &Visit) -> Option<Authority> {
    let asked = &visit.request;
    let named = || Authority::try_from(asked.headers.get(header::HOST)?.as_bytes()).ok();
    asked.uri.authority().cloned().or_else(named)
}

/// Whether a name cannot have been made to lead here by a stranger: an address leads nowhere else, `localhost` is nobody
/// else's, and the operator vouches for the others.
fn is_known(host: &Authority, hosts: &[String]) -> bool {
    let name = host.host().trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let is_ours = |ours: &String| ours.eq_ignore_ascii_case(name);
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") || hosts.iter().any(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_can_bend_are_known() {
        #[track_caller]
        fn check(host: &str, expected: bool) {
            let hosts = ["ipse-1.internal".to_owned()];
            assert_eq!(is_known(&host.parse().unwrap(), &hosts), expected, "{host}");
        }
        for host in [
            "localhost",
            "LOCALHOST:9464",
            "localhost.",
            "127.0.0.1:9464",
            "10.0.0.7",
            "[::1]:9464",
            "[::1]",
            "ipse-1.internal",
            "IPSE-1.internal:9464",
        ] {
            check(host, true);
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1.nip.io:9464",
            "ipse-1.internal.evil.example",
            "ipse-2.internal",
            "0x7f000001",
            "2130706433",
            "evil.example:127",
        ] {
            check(host, false);
        }
    }
}
