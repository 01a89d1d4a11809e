//! What is worth saying about one request.

use super::fact::{FactName, Origin};
use super::hop::Fate;
use super::remark::Remark;
use super::{Diagnosis, FORGED_ADDRESS, FORGED_FACT, Peer, joined, quoted};
use crate::client::{List, Reported, Trust, Word};
use http::{HeaderMap, HeaderName};
use std::net::IpAddr;

/// What a header tells that some proxy or other sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Topic {
    Address,
    Fact(FactName),
    /// Whether the caller came by HTTPS, and nothing more.
    Scheme,
}

/// Headers that proxies and content networks are known to send.
const KNOWN: &[(&str, Topic)] = &[
    ("x-forwarded-for", Topic::Address),
    ("forwarded", Topic::Address),
    ("x-real-ip", Topic::Address),
    ("x-client-ip", Topic::Address),
    ("x-cluster-client-ip", Topic::Address),
    ("x-original-forwarded-for", Topic::Address),
    ("true-client-ip", Topic::Address),
    ("cf-connecting-ip", Topic::Address),
    ("fastly-client-ip", Topic::Address),
    ("fly-client-ip", Topic::Address),
    ("x-azure-clientip", Topic::Address),
    ("x-envoy-external-address", Topic::Address),
    ("x-tls-version", Topic::Fact(FactName::TlsVersion)),
    ("x-ssl-protocol", Topic::Fact(FactName::TlsVersion)),
    ("x-amzn-tls-version", Topic::Fact(FactName::TlsVersion)),
    ("x-tls-cipher", Topic::Fact(FactName::TlsCipher)),
    ("x-ssl-cipher", Topic::Fact(FactName::TlsCipher)),
    ("x-amzn-tls-cipher-suite", Topic::Fact(FactName::TlsCipher)),
    ("x-http-version", Topic::Fact(FactName::HttpVersion)),
    ("cloudfront-viewer-http-version", Topic::Fact(FactName::HttpVersion)),
    ("x-rtt", Topic::Fact(FactName::Rtt)),
    ("cf-ray", Topic::Fact(FactName::Colo)),
    ("x-forwarded-proto", Topic::Scheme),
];

/// Whether a header is one that proxies tell about callers in.
pub(super) fn is_known(name: &HeaderName) -> bool {
    KNOWN.iter().any(|(known, _)| name == known)
}

pub(super) fn remarks(
    trust: &Trust,
    diagnosis: &Diagnosis,
    speaker: Peer,
    reported: Option<&Reported>,
    headers: &HeaderMap,
) -> Vec<Remark> {
    let mut remarks = Vec::new();
    if speaker.trusted_by.is_none() {
        remarks.extend(of_a_stranger(trust, speaker, headers));
    } else {
        remarks.extend(of_the_address(trust, diagnosis, speaker, reported));
        if reported.is_some() {
            remarks.extend(of_facts(trust, diagnosis, headers));
        }
        remarks.extend(hints(trust, diagnosis, reported.is_some(), headers));
    }
    remarks.sort_by_key(|remark: &Remark| remark.weight);
    remarks
}

/// A peer that nobody trusts speaks for itself.
fn of_a_stranger(trust: &Trust, speaker: Peer, headers: &HeaderMap) -> Option<Remark> {
    let read = trust.address_headers().into_iter().chain(trust.fact_headers().map(|(_, name)| name.clone()));
    let there: Vec<HeaderName> = read.filter(|name| headers.contains_key(name)).collect();
    (!there.is_empty()).then(|| {
        let (is, it) = if there.len() == 1 { ("is", "it") } else { ("are", "them") };
        let peer = speaker.address.ip();
        Remark::note(format!(
            "{} {is} there, but {peer} is no trusted proxy, so nobody looks at {it}: as it should be if {peer} is a \
             caller. If it is your proxy, add its address to `trusted_proxy`.",
            quoted(&there),
        ))
    })
}

fn of_the_address(
    trust: &Trust,
    diagnosis: &Diagnosis,
    speaker: Peer,
    reported: Option<&Reported>,
) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let names = quoted(&trust.address_headers());
    let peer = speaker.address.ip();
    let Some(reported) = reported else {
        let names = joined(&trust.address_headers(), "or");
        return vec![if peer.is_loopback() {
            Remark::check(format!(
                "{peer} is trusted, but names no caller. If you called from this machine itself, all is well. If it is \
                 your proxy, it does not set {names}: then every caller has the proxy's address, and a client could \
                 spoof this by sending the header itself. Have the proxy set it on every request."
            ))
        } else {
            Remark::warning(format!(
                "{peer} is trusted as a proxy, but names no caller: it does not set {names}, so the proxy's own address \
                 is answered, and by sending the header itself a client could spoof this. Have the proxy set it on \
                 every request."
            ))
        }];
    };
    if FORGED_ADDRESS.parse().is_ok_and(|forged: IpAddr| forged == reported.address.ip()) {
        remarks.push(Remark::warning(format!(
            "The address that was found, {FORGED_ADDRESS}, is the one that was made up for trying this, and it was \
             believed: a client could spoof this. Have the proxy set {names} itself, and let nobody else reach this \
             server."
        )));
    }
    if let Word::Contradiction(..) = reported.by {
        remarks.push(Remark::problem(format!(
            "{names} disagree. One is set by your proxy and the other perhaps by the caller, so neither is believed. \
             Name the one that your proxy sets in `client_address_header`, or have the proxy delete the other."
        )));
    }
    if let Word::Single(false) = reported.by {
        remarks.push(Remark::problem(format!(
            "{names} does not hold exactly one address, so it is not believed, and the proxy's own address is answered. \
             Have the proxy set it instead of adding to it."
        )));
    }
    let fates = || diagnosis.readings.iter().flat_map(|reading| &reading.hops).map(|hop| hop.fate);
    let is_list = !matches!(reported.by, Word::Single(_));
    if is_list && fates().any(|fate| fate == Fate::NoAddress) {
        remarks.push(Remark::problem(
            "An entry of the list is no address, and the walk ended there. If one of your proxies wrote it, have it \
             write its peer's address.",
        ));
    }
    if is_list && fates().any(|fate| fate == Fate::NotBelieved) {
        remarks.push(Remark::note(
            "The left part of the list came from the caller, or from somebody whom nobody vouches for. It is not \
             believed: as it should be.",
        ));
        let facts: Vec<_> = trust.fact_headers().map(|(_, name)| name).collect();
        if !facts.is_empty() {
            remarks.push(Remark::check(format!(
                "Your proxy adds to the list that a caller sends, so it passes on headers of callers. If it does the \
                 same with {}, a client could spoof this. Have it set or delete each of them on every request.",
                quoted(&facts),
            )));
        }
    }
    if fates().any(|fate| fate == Fate::Proxy) && trust.fact_headers().next().is_some() {
        remarks.push(Remark::check(
            "The request came through several proxies. Only the first, to which callers connect, knows their \
             connection: have it set the headers of facts, and the others pass them on. If the first passes on what \
             callers send, a client could spoof this.",
        ));
    }
    remarks
}

fn of_facts(trust: &Trust, diagnosis: &Diagnosis, headers: &HeaderMap) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut forged = Vec::new();
    for (_, name) in trust.fact_headers() {
        if headers.get_all(name).iter().any(|value| value.as_bytes().trim_ascii() == FORGED_FACT.as_bytes()) {
            forged.push(name);
        }
    }
    if !forged.is_empty() {
        remarks.push(Remark::warning(format!(
            "{} came through with the value that was made up for trying this, so the proxy passes on what callers send: \
             a client could spoof this. Have the proxy set or delete it on every request.",
            quoted(&forged),
        )));
    }
    for fact in &diagnosis.facts {
        let text = match &fact.origin {
            Origin::Repeated(name) => Remark::problem(format!(
                "`{name}` is there more than once. One of them may be the caller's, so none is believed. Have the proxy \
                 set it instead of adding to it."
            )),
            Origin::Missing(name) => Remark::check(format!(
                "`{name}` is set up (`{}`), but the proxy did not send it: the fact is unknown. Unless the proxy deletes \
                 it from callers' requests, a client could spoof this by sending it. Have the proxy set it.",
                fact.name.setting()
            )),
            Origin::NotUnderstood(name) if !forged.contains(&name) => Remark::problem(format!(
                "`{name}` is there, but what it holds is no {}: the fact is unknown.",
                fact.name.label()
            )),
            Origin::WithoutVersion(name) => Remark::problem(format!(
                "`{name}` is there, but the version of TLS is not known, and one without the other is left out. Set \
                 `{}`.",
                FactName::TlsVersion.setting()
            )),
            _ => continue,
        };
        remarks.push(text);
    }
    remarks
}

/// Headers that are there and not read, where something is missing that they may tell.
fn hints(trust: &Trust, diagnosis: &Diagnosis, is_reported: bool, headers: &HeaderMap) -> Vec<Remark> {
    let read = trust.address_headers();
    let unknown = |wanted: FactName| {
        diagnosis.facts.iter().any(|fact| fact.name == wanted && matches!(fact.origin, Origin::NotSetUp(_)))
    };
    let hint = |(name, topic): &(&str, Topic)| {
        if !headers.contains_key(*name) || read.iter().any(|header| header == name) {
            return None;
        }
        let text = match topic {
            Topic::Address if !is_reported => {
                let value = if *name == List::XForwardedFor.name() || *name == List::Forwarded.name() {
                    "a list of addresses"
                } else {
                    "the caller's address"
                };
                format!(
                    "`{name}` is there, in which some proxies report {value}, but it is not read. If your proxy sets it \
                     on every request, set `client_address_header` to `{name}`."
                )
            }
            Topic::Fact(fact) if is_reported && unknown(*fact) => format!(
                "`{name}` is there, but it is not read. If your proxy sets it on every request, set `{}` to `{name}`, \
                 and the {} is known.",
                fact.setting(),
                fact.label(),
            ),
            Topic::Scheme if is_reported && unknown(FactName::TlsVersion) => format!(
                "`{name}` is there, but it tells only whether the caller came by HTTPS. For version and cipher have the \
                 proxy set headers of their own, and name them in `tls_version_header` and `tls_cipher_header`."
            ),
            _ => return None,
        };
        Some(Remark::note(text))
    };
    KNOWN.iter().filter_map(hint).collect()
}

#[cfg(test)]
mod tests {
    use super::super::remark::Weight::{self, Check, Note, Problem, Warning};
    use super::super::tests::explain;

    const TLS: (&str, &str) = ("x-tls-version", "TLSv1.3");
    const RTT: (&str, &str) = ("x-rtt", "7");

    /// All remarks, each by its weight and a part of it.
    #[track_caller]
    fn check(header: &str, peer: &str, headers: &[(&str, &str)], expected: &[(Weight, &str)]) {
        let remarks = explain(header, peer, headers).remarks;
        assert_eq!(remarks.len(), expected.len(), "{remarks:#?}");
        for (remark, (weight, part)) in remarks.iter().zip(expected) {
            assert!(remark.weight == *weight && remark.text.contains(part), "{part}: {remarks:#?}");
            let is_spoofable = remark.text.contains("a client could spoof this");
            assert_eq!(is_spoofable, [Warning, Check].contains(weight), "{}", remark.text);
        }
    }

    #[test]
    fn all_is_well() {
        check("x-forwarded-for", "127.0.0.1", &[("x-forwarded-for", "8.8.8.8"), TLS, RTT], &[]);
        check("x-forwarded-for", "198.51.100.1", &[], &[]);
        check("x-real-ip", "10.0.0.1", &[("x-real-ip", "8.8.8.8"), TLS, RTT], &[]);
    }

    #[test]
    fn a_stranger_is_not_believed() {
        let told = "`x-forwarded-for` is there, but 198.51.100.1 is no trusted proxy";
        check("auto", "198.51.100.1", &[("x-forwarded-for", "8.8.8.8")], &[(Note, told)]);
        check("auto", "198.51.100.1", &[TLS, RTT], &[(Note, "`x-tls-version` and `x-rtt` are there")]);
        check("auto", "198.51.100.1", &[("x-real-ip", "8.8.8.8")], &[]);
    }

    #[test]
    fn a_proxy_that_names_nobody_lets_callers_name_themselves() {
        check(
            "x-forwarded-for",
            "10.0.0.1",
            &[],
            &[(Warning, "10.0.0.1 is trusted as a proxy, but names no")],
        );
        check("x-forwarded-for", "127.0.0.1", &[], &[(Check, "If you called from this machine itself")]);
    }

    #[test]
    fn contradictions_are_told() {
        let both = [("x-forwarded-for", "8.8.8.8"), ("forwarded", "for=6.6.6.6"), TLS, RTT];
        check("auto", "127.0.0.1", &both, &[(Problem, "disagree")]);
        let single = [("x-real-ip", "8.8.8.8, 6.6.6.6"), TLS, RTT];
        check("x-real-ip", "127.0.0.1", &single, &[(Problem, "not hold exactly one address")]);
        let rubbish = [("x-forwarded-for", "unknown"), TLS, RTT];
        check("auto", "127.0.0.1", &rubbish, &[(Problem, "is no address")]);
    }

    #[test]
    fn a_list_that_was_added_to_passes_on_headers() {
        let list = [("x-forwarded-for", "6.6.6.6, 8.8.8.8"), TLS, RTT];
        check("auto", "127.0.0.1", &list, &[(Check, "adds to the list"), (Note, "as it should be")]);
        let chain = [("x-forwarded-for", "8.8.8.8, 10.1.1.1"), TLS, RTT];
        check("auto", "127.0.0.1", &chain, &[(Check, "several proxies")]);
    }

    #[test]
    fn facts_that_are_missing_doubled_or_rubbish_are_told() {
        let list = ("x-forwarded-for", "8.8.8.8");
        let missing = "`x-tls-version` is set up (`tls_version_header`), but the proxy did not send it";
        check("auto", "127.0.0.1", &[list, RTT], &[(Check, missing)]);
        check(
            "auto",
            "127.0.0.1",
            &[list, TLS, TLS, RTT],
            &[(Problem, "`x-tls-version` is there more than once")],
        );
        let rubbish = ("x-tls-version", "SSLv3");
        check("auto", "127.0.0.1", &[list, rubbish, RTT], &[(Problem, "what it holds is no TLS version")]);
    }

    #[test]
    fn lies_that_come_through_are_warned_of() {
        let forged = ("x-forwarded-for", "192.0.2.66");
        check("auto", "127.0.0.1", &[forged, TLS, RTT], &[(Warning, "192.0.2.66")]);
        let list = ("x-forwarded-for", "8.8.8.8");
        let lie = ("x-tls-version", "forged");
        check("auto", "127.0.0.1", &[list, lie, RTT], &[(Warning, "`x-tls-version` came through")]);
        let told = [(Warning, "`x-tls-version` came through"), (Problem, "more than once")];
        check("auto", "127.0.0.1", &[list, lie, TLS, RTT], &told);
    }

    #[test]
    fn headers_that_are_not_read_are_hinted_at() {
        let list = ("x-forwarded-for", "8.8.8.8");
        let cloudflare = ("cf-connecting-ip", "8.8.8.8");
        let hint = "set `client_address_header` to `cf-connecting-ip`";
        check("auto", "10.0.0.1", &[cloudflare], &[(Warning, "names no caller"), (Note, hint)]);
        check("auto", "127.0.0.1", &[list, cloudflare, TLS, RTT], &[]);
        let version = ("x-http-version", "HTTP/2");
        let hint = "set `http_version_header` to `x-http-version`";
        check("auto", "127.0.0.1", &[list, version, TLS, RTT], &[(Note, hint)]);
        check("auto", "127.0.0.1", &[list, ("x-forwarded-proto", "https"), TLS, RTT], &[]);
    }
}
