//! The same service as one writes it in an afternoon: axum, a reader of the vendors' format, `serde_json`, and counters in a map.
//!
//! It keeps nothing on a disk, and knows neither pages nor accounts: it does less than ipse, and is written with no more care
//! than such things are.

use super::{Peer, Running, tell};
use crate::mmdb::{NetworkRecord, PlaceRecord};
use crate::stage::Stage;
use anyhow::{Context, Result};
use axum::extract::{ConnectInfo, State};
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CACHE_CONTROL};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use dashmap::DashMap;
use ipse_testkit::FullBody;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maxminddb::Reader;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

const DAILY_LIMIT: u32 = 10_000;
const BURST_LIMIT: usize = 300;
const MINUTE_MS: i64 = 60_000;
const DAY_SECONDS: i64 = 86_400;

struct Service {
    places: Reader<Vec<u8>>,
    networks: Reader<Vec<u8>>,
    keys: DashMap<String, Usage>,
}

/// What a key has used.
#[derive(Default)]
struct Usage {
    day: i64,
    count: u32,
    /// Of the last minute, in milliseconds.
    moments: VecDeque<i64>,
}

pub(super) fn start(stage: &Stage) -> Result<Running> {
    let [places, networks, keys] = [&stage.files.places, &stage.files.networks, &stage.keys_file]
        .map(|path| path.to_str().context("a path is no text"));
    Running::own(Peer::ByHand, &["by-hand", places?, networks?, keys?])
}

pub(super) fn serve(places: &Path, networks: &Path, keys: &Path) -> Result<()> {
    let service = Service {
        places: Reader::open_readfile(places)?,
        networks: Reader::open_readfile(networks)?,
        keys: std::fs::read_to_string(keys)?.lines().map(|key| (key.to_owned(), Usage::default())).collect(),
    };
    let router = Router::new().route("/api/v1/ip", get(lookup)).with_state(Arc::new(service));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        tell(listener.local_addr()?)?;
        Ok(axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await?)
    })
}

#[expect(clippy::disallowed_methods, reason = "this is somebody else's service, with a clock of its own")]
async fn lookup(
    State(service): State<Arc<Service>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Response {
    let now = Timestamp::now();
    let key = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    let Some(key) = key else { return StatusCode::UNAUTHORIZED.into_response() };
    let Some(remaining) = service.charge(key, now) else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    match service.body(client(peer, &headers), now) {
        Ok(body) => {
            let reset = (now.as_second() / DAY_SECONDS + 1) * DAY_SECONDS;
            let rate = |name, number: i64| (HeaderName::from_static(name), HeaderValue::from(number));
            let headers = [
                (ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")),
                (CACHE_CONTROL, HeaderValue::from_static("no-store")),
                rate("x-ratelimit-limit", DAILY_LIMIT.into()),
                rate("x-ratelimit-remaining", remaining.into()),
                rate("x-ratelimit-reset", reset),
            ];
            (headers, body).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Behind a proxy on the same machine, the last address that it tells.
fn client(peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
    let forwarded = headers.get("x-forwarded-for").filter(|_| peer.ip().is_loopback());
    let last = forwarded.and_then(|value| value.to_str().ok()).and_then(|value| value.rsplit(',').next());
    last.and_then(|text| text.trim().parse().ok()).unwrap_or_else(|| peer.ip())
}

impl Service {
    /// What is left of the day, if the key may ask.
    fn charge(&self, key: &str, now: Timestamp) -> Option<u32> {
        let mut usage = self.keys.get_mut(key)?;
        let (day, now_ms) = (now.as_second() / DAY_SECONDS, now.as_millisecond());
        if usage.day != day {
            (usage.day, usage.count) = (day, 0);
        }
        while usage.moments.front().is_some_and(|moment| *moment <= now_ms - MINUTE_MS) {
            usage.moments.pop_front();
        }
        if usage.moments.len() >= BURST_LIMIT || usage.count >= DAILY_LIMIT {
            return None;
        }
        usage.moments.push_back(now_ms);
        usage.count += 1;
        Some(DAILY_LIMIT - usage.count)
    }

    fn body(&self, ip: IpAddr, now: Timestamp) -> Result<Response> {
        let place: PlaceRecord<&str> = self.places.lookup(ip)?.decode()?.unwrap_or_default();
        let network: NetworkRecord<&str> = self.networks.lookup(ip)?.decode()?.unwrap_or_default();
        let zone = place.timezone.and_then(|name| TimeZone::get(name).ok());
        let body = FullBody {
            status: "success",
            ip: if let IpAddr::V4(ip) = ip { Some(ip) } else { None },
            ipv6: if let IpAddr::V6(ip) = ip { Some(ip) } else { None },
            city: place.city,
            region: place.region,
            region_code: place.region_code,
            country: place.country,
            country_name: place.country_name,
            continent: place.continent,
            latitude: place.latitude,
            longitude: place.longitude,
            timezone: place.timezone,
            timezone_offset: zone.map(|zone| zone.to_offset(now).seconds()),
            postal_code: place.postal_code,
            asn: network.asn,
            org: network.org,
            r#as: network.asn.map(|asn| format!("AS{asn} {}", network.org.unwrap_or_default())),
            is_eu: place.is_eu,
            currency: place.currency,
            http_protocol: None,
            tls_version: None,
            tls_cipher: None,
            rtt: None,
            colo: None,
            proxy: network.proxy,
            hosting: network.hosting,
        };
        Ok(Json(body).into_response())
    }
}
