//! Whether answers are right: every peer is held to what the snapshot says, before and while it is measured.

use crate::mmdb::tame;
use anyhow::{Context, Result, ensure};
use ipse_geo::Atlas;
use ipse_model::{Address, Answer, Client, Now, Scope};
use serde_json::Value;
use std::net::IpAddr;

/// The nearest that a coordinate may come by the way of another format.
const COORDINATE: f64 = 1e-5;

/// How an answer of a keyed `full` lookup behind a proxy that reports nothing must read.
pub(crate) fn expected(atlas: &Atlas, ip: IpAddr) -> Result<Value> {
    let address = Address::new(ip);
    let client =
        Client { address, http: None, tls_version: None, tls_cipher: None, rtt_ms: None, colo: None };
    let now = now();
    let found = atlas.find(address).written();
    Ok(serde_json::from_slice(&Answer { client: &client, now, found }.for_scope(Scope::Full))?)
}

/// Right now: what zones are ahead of UTC depends on it.
#[expect(clippy::disallowed_methods, reason = "no request is served here")]
pub(crate) fn now() -> Now {
    Now { unix_ms: jiff::Timestamp::now().as_millisecond(), boot_ms: 0 }
}

/// Compares field by field. Texts of peers are tame, and they may say that nothing is known with an empty one.
pub(crate) fn compare(body: &[u8], expected: &Value) -> Result<()> {
    let told = || String::from_utf8_lossy(body).into_owned();
    let answer: Value = serde_json::from_slice(body).with_context(told)?;
    let (answer, expected) =
        (answer.as_object().with_context(told)?, expected.as_object().context("no object")?);
    ensure!(
        answer.len() == expected.len(),
        "{} fields instead of {}: {}",
        answer.len(),
        expected.len(),
        told()
    );
    for (name, wanted) in expected {
        let seen = answer.get(name).with_context(|| format!("no {name} in {}", told()))?;
        ensure!(is_same(seen, wanted), "{name} is {seen} instead of {wanted} in {}", told());
    }
    Ok(())
}

fn is_same(seen: &Value, wanted: &Value) -> bool {
    match (seen, wanted) {
        (Value::String(seen), Value::Null) => seen.is_empty(),
        (Value::String(seen), Value::String(wanted)) => seen == wanted || *seen == tame(wanted),
        (Value::Number(seen), Value::Number(wanted)) => {
            let apart = seen.as_f64().zip(wanted.as_f64()).map(|(seen, wanted)| (seen - wanted).abs());
            apart.is_some_and(|apart| apart < COORDINATE)
        }
        _ => seen == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_is_named() {
        let wanted = json!({"city": "Say \"Oslo\"", "asn": 1, "latitude": 59.9127, "org": null});
        let check = |body: &str| compare(body.as_bytes(), &wanted);
        assert!(check(r#"{"city":"Say 'Oslo'","asn":1,"latitude":59.912700,"org":""}"#).is_ok());
        for (body, what) in [
            (r#"{"city":"Bergen","asn":1,"latitude":59.9127,"org":null}"#, "city is"),
            (r#"{"city":"Say 'Oslo'","asn":2,"latitude":59.9127,"org":null}"#, "asn is"),
            (r#"{"city":"Say 'Oslo'","latitude":59.9127,"org":null}"#, "3 fields"),
            (r#"{"city":"Say "Oslo"","asn":1}"#, "Oslo"),
        ] {
            let error = format!("{:#}", check(body).expect_err("it differs"));
            assert!(error.contains(what), "{error}");
        }
    }
}
