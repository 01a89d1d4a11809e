//! The description of the interface, held against the running server by tools that nobody here wrote.

use crate::{House, Plan, json};
use ipse_model::Scope;
use std::process::Command;

/// A program of the Python environment that `cargo xtask test` prepares.
fn python(module: &str) -> Command {
    let python = std::env::var_os("XTASK_PYTHON")
        .expect("XTASK_PYTHON names a Python with schemathesis: run the tests with cargo xtask test");
    let mut command = Command::new(python);
    command.args(["-m", module]);
    command
}

#[track_caller]
fn check_success(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_description_is_valid_and_names_its_version() {
    let (house, _) = House::build(Plan::default());
    let response = house.get("/openapi.json", None);
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    let document = json(&response);
    assert_eq!((&document["openapi"], &document["info"]["version"]), (&"3.1.0".into(), &"1.1.0".into()));
    let file = house.dir.path().join("openapi.json");
    std::fs::write(&file, &response.body).unwrap();
    check_success(python("openapi_spec_validator").arg(&file));
}

#[test]
fn every_error_has_an_example_that_the_server_really_says() {
    let (house, keys) = House::build(Plan { keys: &[(Scope::Ip, None)], ..Plan::default() });
    let document = json(&house.get("/openapi.json", None));
    let mut codes = Vec::new();
    for path in document["paths"].as_object().unwrap().values() {
        for (status, response) in path["get"]["responses"].as_object().unwrap() {
            if status == "200" {
                continue;
            }
            let examples = response["content"]["application/json"]["examples"].as_object().unwrap();
            assert!(!examples.is_empty(), "{status}");
            codes.extend(examples.keys().cloned());
        }
    }
    codes.sort();
    codes.dedup();
    let expected = [
        "bad_request",
        "burst_limit",
        "daily_quota",
        "demo_quota",
        "header_too_large",
        "inactive_api_key",
        "internal_error",
        "invalid_api_key",
        "missing_api_key",
        "paused_key",
        "uri_too_long",
    ];
    assert_eq!(codes, expected);
    for (name, code) in [("NotFound", "not_found"), ("MethodNotAllowed", "method_not_allowed")] {
        let response = &document["components"]["responses"][name];
        assert_eq!(response["content"]["application/json"]["examples"][code]["value"]["error"], code);
    }
    let example = |status: &str, name: &str| {
        let responses = &document["paths"]["/api/v1/ip"]["get"]["responses"];
        responses[status]["content"]["application/json"]["examples"][name]["value"].clone()
    };
    let key = &keys[0];
    let refused: Vec<serde_json::Value> =
        (0..302).map(|_| json(&house.get("/api/v1/ip", Some(key)))).skip(300).collect();
    let large = format!("x-large: {}", "x".repeat(20_000));
    let long = format!("/api/v1/ip?{}", "x".repeat(9_000));
    for (status, name, said) in [
        ("401", "missing_api_key", json(&house.get("/api/v1/ip", None))),
        ("401", "invalid_api_key", json(&house.get("/api/v1/ip?key=x", None))),
        ("429", "burst_limit", refused[0].clone()),
        ("429", "paused_key", refused[1].clone()),
        ("400", "bad_request", json(&house.send("NOT/ALLOWED", "/", &[]))),
        ("414", "uri_too_long", json(&house.get(&long, None))),
        ("431", "header_too_large", json(&house.send("GET", "/", &[&large]))),
    ] {
        assert_eq!(said, example(status, name), "{name}");
    }
}

#[test]
fn the_description_has_exactly_the_fields_of_the_answers() {
    let (house, keys) = House::with_scopes();
    let document = json(&house.get("/openapi.json", None));
    let described = |name: &str| -> Vec<String> {
        let schema = &document["components"]["schemas"][name];
        let names: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(schema["required"], serde_json::json!(names), "every field is always present");
        names
    };
    for (name, key) in ["IpAnswer", "GeoAnswer", "FullAnswer"].into_iter().zip(&keys) {
        assert_eq!(described(name), crate::fields(&house.get("/api/v1/ip", Some(key))));
    }
    assert_eq!(described("DemoAnswer"), crate::fields(&house.get("/api/v1/ip/demo", None)));
}

#[test]
fn schemathesis_finds_nothing_that_the_description_does_not_say() {
    // A limit that no run reaches, and a clock that stands would pause the key: so one key per run, with the demo's
    // and the key's refusals among the answers.
    for scope in Scope::ALL {
        let (house, keys) = House::build(Plan { keys: &[(scope, None)], ..Plan::default() });
        check_success(
            python("schemathesis.cli")
                // It leaves notes of its own where it stands.
                .current_dir(house.dir.path())
                .arg("run")
                .arg(format!("http://{}/openapi.json", house.address))
                .args(["--url", &format!("http://{}", house.address)])
                .args(["-H", &format!("Authorization: Bearer {}", keys[0].text)])
                .args(["--checks", "all", "--max-examples", "40", "--seed", "1", "--no-color"]),
        );
    }
}
