//! Any origin may call, and a browser is told so before it does.

use crate::{House, check_every_response};

#[test]
fn a_preflight_is_answered_without_a_key_and_without_a_body() {
    let (house, _) = House::with_key();
    for path in ["/api/v1/ip", "/api/v1/ip/demo"] {
        let headers = [
            "origin: https://example.com",
            "access-control-request-method: GET",
            "access-control-request-headers: authorization",
        ];
        for headers in [&headers[..], &[]] {
            let response = house.send("OPTIONS", path, headers);
            assert_eq!((response.status, response.body.as_str()), (204, ""));
            check_every_response(&response);
            assert_eq!(response.header("access-control-allow-methods"), Some("GET, OPTIONS"));
            assert_eq!(response.header("access-control-allow-headers"), Some("Authorization"));
            assert_eq!(response.header("access-control-max-age"), Some("86400"));
            assert_eq!(response.header("content-type"), None);
        }
    }
}

#[test]
fn real_answers_expose_the_rate_headers_and_errors_are_open_too() {
    let (house, key) = House::with_key();
    for response in [
        house.get("/api/v1/ip", Some(&key)),
        house.get("/api/v1/ip/demo", None),
        house.get("/api/v1/ip", None),
        house.get("/api/nowhere", None),
        house.send("POST", "/api/v1/ip", &[]),
    ] {
        check_every_response(&response);
        assert_eq!(
            response.header("access-control-expose-headers"),
            Some("Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset")
        );
    }
}

#[test]
fn pages_are_open_to_every_origin_as_well() {
    let (house, _) = House::with_key();
    for path in [
        "/",
        "/docs",
        "/openapi.json",
        "/nowhere",
        "/assets/style.css",
        "/signin",
        "/signup",
        "/reset",
        "/reset/x",
    ] {
        check_every_response(&house.get(path, None));
    }
    // But for those of members, which other origins do not even learn the existence of.
    for path in ["/dashboard", "/account", "/dashboard/keys/1"] {
        assert_eq!(house.get(path, None).header("access-control-allow-origin"), None, "{path}");
    }
}
