//! Whose address is answered, over real sockets.

use crate::{House, Plan, json};
use ipse_model::Scope;
use ipse_testkit::{Connection, Response};

fn demo(house: &House, headers: &[&str]) -> serde_json::Value {
    json(&house.send("GET", "/api/v1/ip/demo", headers))
}

fn build(settings: &[(&str, &str)]) -> House {
    House::build(Plan { settings, ..Plan::default() }).0
}

#[test]
fn without_a_proxy_the_sockets_peer_is_the_caller() {
    let house = build(&[]);
    let body = demo(&house, &[]);
    assert_eq!((&body["ip"], &body["ipv6"]), (&"127.0.0.1".into(), &().into()));
    assert_eq!(body["http_protocol"], "HTTP/1.1");
    assert!(body["rtt"].as_u64().is_some_and(|rtt| rtt < 1000), "{body}");
    assert_eq!(body["tls_version"], serde_json::Value::Null);
}

#[test]
fn over_ipv6_the_address_is_in_ipv6() {
    let house = build(&[("listen", "[::1]:0")]);
    let body = demo(&house, &[]);
    assert_eq!((&body["ip"], &body["ipv6"]), (&().into(), &"::1".into()));
}

#[test]
fn an_ipv4_caller_of_an_ipv6_socket_is_an_ipv4_caller() {
    let (house, _) = House::build(Plan { settings: &[("listen", "[::]:0")], ..Plan::default() });
    let v4 = format!("127.0.0.1:{}", house.address.port()).parse().unwrap();
    let body = json(&Connection::open(v4).unwrap().get("/api/v1/ip/demo", None).unwrap());
    assert_eq!((&body["ip"], &body["ipv6"]), (&"127.0.0.1".into(), &().into()));
}

#[test]
fn loopback_is_trusted_by_default_and_speaks_for_callers() {
    let house = build(&[]);
    let body = demo(&house, &["X-Forwarded-For: 6.6.6.6, 81.2.69.142"]);
    assert_eq!(body["ip"], "81.2.69.142");
    assert_eq!(demo(&house, &["Forwarded: for=\"[2001:db8::7]:4711\";proto=https"])["ipv6"], "2001:db8::7");
    assert_eq!(
        demo(&house, &["X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 81.2.69.142"])["ip"],
        "81.2.69.142"
    );
    // The connection that we see is the proxy's own.
    assert_eq!((&body["http_protocol"], &body["rtt"]), (&().into(), &().into()));
    // A header with one address counts only where it is configured.
    assert_eq!(demo(&house, &["X-Real-IP: 6.6.6.6"])["ip"], "127.0.0.1");
}

#[test]
fn nobody_is_believed_if_nobody_is_trusted() {
    let house = build(&[("trusted_proxy", "none")]);
    for header in [
        "X-Forwarded-For: 6.6.6.6",
        "Forwarded: for=6.6.6.6",
        "X-Real-IP: 6.6.6.6",
        "CF-Connecting-IP: 6.6.6.6",
    ] {
        let body = demo(&house, &[header]);
        assert_eq!(
            (&body["ip"], &body["http_protocol"]),
            (&"127.0.0.1".into(), &"HTTP/1.1".into()),
            "{header}"
        );
    }
}

#[test]
fn a_chain_is_walked_over_the_configured_proxies() {
    let house = build(&[("trusted_proxy", "127.0.0.0/8,10.0.0.0/8,2001:db8:1::/48")]);
    assert_eq!(demo(&house, &["X-Forwarded-For: 6.6.6.6, 81.2.69.142, 10.1.2.3"])["ip"], "81.2.69.142");
    assert_eq!(
        demo(&house, &["X-Forwarded-For: 81.2.69.142, 2001:db8:1::5, ::ffff:10.0.0.1"])["ip"],
        "81.2.69.142"
    );
    assert_eq!(demo(&house, &["X-Forwarded-For: 81.2.69.142, rubbish, 10.1.2.3"])["ip"], "10.1.2.3");
}

#[test]
fn one_configured_header_is_read_instead() {
    let house = build(&[("client_address_header", "CF-Connecting-IP")]);
    assert_eq!(
        demo(&house, &["CF-Connecting-IP: 81.2.69.142", "X-Forwarded-For: 6.6.6.6"])["ip"],
        "81.2.69.142"
    );
    assert_eq!(demo(&house, &["X-Forwarded-For: 6.6.6.6"])["ip"], "127.0.0.1");
}

#[test]
fn a_pretended_address_replaces_one_that_is_not_global() {
    let house = build(&[("pretend_ip", "81.2.69.142")]);
    assert_eq!(demo(&house, &[])["ip"], "81.2.69.142");
    assert_eq!(demo(&house, &["X-Forwarded-For: 192.168.1.1"])["ip"], "81.2.69.142");
    assert_eq!(demo(&house, &["X-Forwarded-For: 8.8.8.8"])["ip"], "8.8.8.8");
}

#[test]
fn the_colo_is_the_one_that_was_configured() {
    let plan = Plan { settings: &[("colo", "ams")], keys: &[(Scope::Full, None)], ..Plan::default() };
    let (house, keys) = House::build(plan);
    let colo = |response: &Response| json(response)["colo"].clone();
    assert_eq!(colo(&house.get("/api/v1/ip", Some(&keys[0]))), "AMS");
    assert_eq!(colo(&house.send("GET", "/api/v1/ip/demo", &["X-Forwarded-For: 8.8.8.8"])), "AMS");
}
