//! Needs two crates: `cargo add ureq --features json` and `cargo add serde_json`.

use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false) // The body of an error is worth reading.
        .timeout_global(Some(Duration::from_secs(10)))
        .build()
        .into();
    let mut response = agent
        .get("BASE_URL/api/v1/ip")
        .header("Authorization", "Bearer YOUR_KEY")
        .call()?;
    let body: serde_json::Value = response.body_mut().read_json()?;
    let text = |field: &str| body[field].as_str();
    let header = |name: &str| response.headers().get(name)?.to_str().ok();

    if response.status().is_success() {
        let address = text("ip").or(text("ipv6")).unwrap_or_default();
        println!("{address}, {}", text("city").unwrap_or("somewhere"));
        println!("{} requests left today", header("X-RateLimit-Remaining").unwrap_or("?"));
        return Ok(());
    }
    let (code, message) = (text("error").unwrap_or_default(), text("message").unwrap_or_default());
    eprintln!("{} {code}: {message}", response.status().as_u16());
    if let Some(seconds) = header("Retry-After") {
        eprintln!("Retry-After: {seconds} s");
    }
    std::process::exit(1);
}
