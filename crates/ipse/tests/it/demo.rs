//! `GET /api/v1/ip/demo`.

use crate::lookup::{GEO, IP};
use crate::{House, MIDNIGHT, NOON, Plan, check_error, check_every_response, fields, json, rate};
use ipse_model::Now;

#[test]
fn the_demo_needs_no_key_and_has_a_fixed_set_of_fields() {
    let (house, _) = House::build(Plan::default());
    for target in ["/api/v1/ip/demo", "/api/v1/ip/demo?scope=ip", "/api/v1/ip/demo?key=nonsense"] {
        let response = house.get(target, None);
        assert_eq!(response.status, 200);
        check_every_response(&response);
        let demo = ["http_protocol", "tls_version", "rtt", "colo"];
        assert_eq!(fields(&response), [&IP[..], &GEO, &demo].concat());
    }
}

#[test]
fn all_callers_share_a_thousand_a_day_without_a_burst_limit() {
    let (house, _) = House::build(Plan::default());
    let mut connections = [house.connect(), house.connect()];
    for remaining in (0..1000).rev() {
        let caller = format!("x-forwarded-for: 203.0.113.{}", remaining % 200);
        let connection = &mut connections[remaining % 2];
        connection
            .send(format!("GET /api/v1/ip/demo HTTP/1.1\r\nhost: x\r\n{caller}\r\n\r\n").as_bytes())
            .unwrap();
        let response = connection.receive().unwrap();
        assert_eq!(
            (response.status, rate(&response)),
            (200, (1000, i64::try_from(remaining).unwrap(), MIDNIGHT))
        );
    }
    let refused = house.get("/api/v1/ip/demo", None);
    check_error(&refused, 429, "rate_limit_exceeded");
    assert_eq!(rate(&refused), (1000, 0, MIDNIGHT));
    assert_eq!(refused.number("retry-after").unwrap(), MIDNIGHT - NOON.unix_ms / 1000);
    assert_eq!(json(&refused)["signup"], format!("{}/signup", house.base_url));
    assert_eq!(json(&refused)["enterprise"], serde_json::Value::Null);
    assert_eq!(house.get("/signup", None).status, 200, "the link leads somewhere");

    house.hand.set(Now { unix_ms: MIDNIGHT * 1000, ..NOON });
    let fresh = house.get("/api/v1/ip/demo", None);
    assert_eq!((fresh.status, rate(&fresh)), (200, (1000, 999, MIDNIGHT + 86_400)));
}

#[test]
fn the_demos_quota_is_apart_from_every_keys() {
    let (house, key) = House::with_key();
    house.get("/api/v1/ip/demo", None);
    house.get("/api/v1/ip/demo", Some(&key));
    assert_eq!(rate(&house.get("/api/v1/ip", Some(&key))).1, 9999);
    assert_eq!(rate(&house.get("/api/v1/ip/demo", None)).1, 997);
}
