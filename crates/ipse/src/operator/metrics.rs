//! The metrics of one node, by their names. `docs/metrics.md` says what each means and what to do about it; a test holds
//! that list to this one.

use super::families::{Families, Form, Labels, Value};
use super::sights::Sights;
use super::vitals::Vitals;
use ipse_api::{ApiOutcome, ApiRoute, PROTOCOLS};
use ipse_edge::{FaultKind, Traffic, Way, WayReport};
use ipse_geo::short_version;
use ipse_model::{DURATION_BOUNDS_NS, Durations, Now};
use ipse_site::PageOutcome;
use ipse_store::CountersReport;
use std::fmt;

/// The text of all of them.
pub(super) fn text(sights: &Sights, form: Form, now: Now) -> Result<String, fmt::Error> {
    let mut families = Families::default();
    node(&mut families, sights);
    requests(&mut families, sights);
    connections(&mut families, &sights.traffic, sights.most_connections);
    counters(&mut families, sights, &(sights.counters)());
    chores(&mut families, sights);
    data(&mut families, sights, now);
    process(&mut families, &Vitals::read());
    families.text(form)
}

fn node(families: &mut Families, sights: &Sights) {
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    families.gauge(
        "ipse_build_info",
        "The version of the program; always 1.",
        [(version, Value::Level(1.0))],
    );
    let condition = sights.condition();
    families.gauge(
        "ipse_ready",
        "Whether a lookup that comes now would be answered: 1, or 0.",
        alone(switch(condition.is_ready())),
    );
    families.gauge(
        "ipse_degraded",
        "Whether something is not as it should be, though the node may be ready: 1, or 0.",
        alone(switch(!condition.worse.is_empty())),
    );
    families.gauge(
        "process_start_time_seconds",
        "When the server started, in Unix seconds.",
        alone(Value::Level(seconds(sights.started.unix_ms))),
    );
}

fn requests(families: &mut Families, sights: &Sights) {
    let label = |route: &'static str, outcome: &'static str, protocol: usize| -> Labels {
        [("route", route), ("outcome", outcome), ("protocol", PROTOCOLS[protocol])]
            .map(|(name, word)| (name, word.to_owned()))
            .to_vec()
    };
    let mut samples = Vec::new();
    for protocol in 0..PROTOCOLS.len() {
        for route in ApiRoute::ALL {
            for outcome in route.outcomes() {
                let count = Value::Count(sights.requests.count(route, *outcome, protocol));
                samples.push((label(route.word(), outcome.word(), protocol), count));
            }
        }
        for outcome in PageOutcome::ALL {
            let count = Value::Count(sights.visits.count(outcome, protocol));
            samples.push((label("page", outcome.word(), protocol), count));
        }
    }
    families.counter("ipse_requests", "Requests by what was asked, what came of it, and over what.", samples);
    let of_api = ApiRoute::ALL.map(|route| (route.word(), sights.requests.durations(route)));
    let all = of_api.into_iter().chain([("page", sights.visits.durations())]);
    families.histogram(
        "ipse_request_duration_seconds",
        "From the moment by which a request is judged until its reply is made.",
        all.map(|(route, durations)| (vec![("route", route.to_owned())], times(&durations))),
    );
    families.counter(
        "ipse_faults",
        "Requests that were none, or too large, or broke something.",
        FaultKind::ALL
            .map(|kind| (vec![("fault", kind.word().to_owned())], Value::Count(sights.traffic.faults(kind)))),
    );
    families.counter(
        "ipse_redirects",
        "Requests that were sent on from clear HTTP to HTTPS.",
        alone(Value::Count(sights.traffic.redirected())),
    );
}

fn connections(families: &mut Families, traffic: &Traffic, most: usize) {
    let by_way = |read: fn(WayReport) -> Value| {
        Way::ALL.map(|way| (vec![("way", way.word().to_owned())], read(traffic.way(way))))
    };
    families.gauge(
        "ipse_connections_open",
        "Connections that are open, by the way in.",
        by_way(|way| level(way.open)),
    );
    families.gauge(
        "ipse_connections_limit",
        "How many connections may be open.",
        alone(level(u64::try_from(most).unwrap_or(u64::MAX))),
    );
    families.counter(
        "ipse_connections_accepted",
        "Connections that were let in.",
        by_way(|way| Value::Count(way.accepted)),
    );
    let refused = Way::ALL.into_iter().flat_map(|way| {
        let report = traffic.way(way);
        [("address_limit", report.over_limit), ("full", report.full)].map(|(reason, count)| {
            let labels = vec![("way", way.word().to_owned()), ("reason", reason.to_owned())];
            (labels, Value::Count(count))
        })
    });
    families.counter(
        "ipse_connections_refused",
        "Connections that were not let in, because of their address's limit or for want of a place.",
        refused,
    );
    families.counter(
        "ipse_handshakes_failed",
        "Handshakes of TLS that came to nothing.",
        by_way(|way| Value::Count(way.failed_handshakes)),
    );
}

fn counters(families: &mut Families, sights: &Sights, report: &CountersReport) {
    let charge = |subject: &'static str, route, outcome: ApiOutcome, word: &'static str| {
        let labels = vec![("subject", subject.to_owned()), ("outcome", word.to_owned())];
        (labels, Value::Count(sights.requests.total(route, outcome)))
    };
    use ApiOutcome::{Answered, BurstExceeded, DayUsedUp, Error};
    families.counter(
        "ipse_charges",
        "Charges of keys and of the demo, by what came of them.",
        [
            charge("key", ApiRoute::Lookup, Answered, "granted"),
            charge("key", ApiRoute::Lookup, DayUsedUp, "day_used_up"),
            charge("key", ApiRoute::Lookup, BurstExceeded, "burst_exceeded"),
            charge("key", ApiRoute::Lookup, Error, "error"),
            charge("demo", ApiRoute::Demo, Answered, "granted"),
            charge("demo", ApiRoute::Demo, DayUsedUp, "day_used_up"),
            charge("demo", ApiRoute::Demo, Error, "error"),
        ],
    );
    families.counter(
        "ipse_pauses",
        "Keys that this node paused for a burst.",
        alone(Value::Count(report.pauses)),
    );
    let keys = u64::try_from(sights.keys.len()).unwrap_or(u64::MAX);
    families.gauge("ipse_keys", "Keys that there are, whatever their state.", alone(level(keys)));
    let shared = report.shared.as_ref();
    let policy = shared.map_or("none", |(policy, _)| policy.word());
    families.gauge(
        "ipse_counters_info",
        "The engine of the counters, and what happens while it is away; always 1.",
        [(
            vec![("engine", report.engine.to_owned()), ("outage_policy", policy.to_owned())],
            Value::Level(1.0),
        )],
    );
    families.gauge(
        "ipse_counters_away",
        "Whether the engine of the counters cannot be reached: 1, or 0.",
        alone(switch(shared.is_some_and(|(_, report)| report.away.is_some()))),
    );
    let Some((_, shared)) = shared else { return };
    families.gauge(
        "ipse_counters_records_away",
        "Whether the database gives no new ranges to the counters: 1, or 0.",
        alone(switch(shared.records_away.is_some())),
    );
    let without =
        [("leased", shared.leased), ("unchecked", shared.uncounted), ("undecided", shared.undecided)];
    families.counter(
        "ipse_counters_outage_decisions",
        "Lookups that were decided without the engine, or not at all.",
        without.map(|(decision, count)| (vec![("decision", decision.to_owned())], Value::Count(count))),
    );
}

fn chores(families: &mut Families, sights: &Sights) {
    let health = &sights.health;
    let all = [
        ("keys", &health.keys),
        ("counts", &health.folds),
        ("accounts", &health.accounts),
        ("geo", &health.geo),
    ];
    let label = |chore: &str| vec![("chore", chore.to_owned())];
    families.counter(
        "ipse_chores",
        "What is done again and again: how often it was.",
        all.map(|(chore, pulse)| (label(chore), Value::Count(pulse.done()))),
    );
    families.counter(
        "ipse_chores_failed",
        "What is done again and again: how often it could not be.",
        all.map(|(chore, pulse)| (label(chore), Value::Count(pulse.failed()))),
    );
    families.gauge(
        "ipse_chore_failing",
        "Whether it could not be done the last time: 1, or 0.",
        all.map(|(chore, pulse)| (label(chore), switch(pulse.failure().is_some()))),
    );
    families.gauge(
        "ipse_chore_last_timestamp_seconds",
        "When it was done for the last time, in Unix seconds.",
        all.into_iter()
            .filter_map(|(chore, pulse)| Some((label(chore), Value::Level(seconds(pulse.last_ms()?))))),
    );
}

fn data(families: &mut Families, sights: &Sights, now: Now) {
    let atlas = sights.atlas.load();
    let version = vec![("version", short_version(atlas.version()).to_owned())];
    families.gauge(
        "ipse_geo_data_info",
        "The geo data that is served; always 1.",
        [(version, Value::Level(1.0))],
    );
    let built = atlas.about().built;
    let age = u64::try_from(now.unix_seconds() - built).unwrap_or(0);
    families.gauge(
        "ipse_geo_data_age_seconds",
        "How old the geo data is that is served.",
        (built > 0).then(|| (Vec::new(), level(age))),
    );
    families.gauge(
        "ipse_certificate_expiry_timestamp_seconds",
        "When a certificate ends, in Unix seconds, by its first name.",
        sights
            .endings()
            .into_iter()
            .map(|(name, ends)| (vec![("name", name)], Value::Level(seconds(ends.saturating_mul(1000))))),
    );
}

fn process(families: &mut Families, vitals: &Vitals) {
    let given = |number: Option<u64>| number.map(|number| (Vec::new(), level(number)));
    families.gauge("process_resident_memory_bytes", "Memory of the process.", given(vitals.memory_bytes));
    families.counter(
        "process_cpu_seconds",
        "Processor time of the process.",
        alone(Value::Seconds(float(vitals.cpu_ms) / 1000.0)),
    );
    families.gauge("process_open_fds", "Files and connections that are open.", given(vitals.descriptors));
    families.gauge("process_max_fds", "How many may be open.", given(vitals.most_descriptors));
    families.gauge("process_threads", "Threads of the process.", given(vitals.threads));
}

fn alone(value: Value) -> [(Labels, Value); 1] {
    [(Vec::new(), value)]
}

fn switch(is_on: bool) -> Value {
    Value::Level(if is_on { 1.0 } else { 0.0 })
}

fn level(number: u64) -> Value {
    Value::Level(float(number))
}

/// Beyond nine thousand million millions the last digit is lost, and nobody misses it.
fn float(number: u64) -> f64 {
    number as f64
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

fn times(durations: &Durations) -> Value {
    let bounds = DURATION_BOUNDS_NS.iter().map(|ns| float(*ns) / 1e9).chain([f64::INFINITY]);
    let buckets = bounds.zip(durations.buckets).collect();
    Value::Times(buckets, float(durations.sum_ns) / 1e9)
}
