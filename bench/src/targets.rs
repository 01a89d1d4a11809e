//! What ipse is held to: figures against the limit, against what one would pick instead, and against itself.

use crate::figures::Figures;
use crate::growth::{Growth, Step};
use crate::http::Http;
use crate::instructions::Instructions;
use crate::ledger;
use crate::load::Seen;
use crate::peer::Peer;
use crate::rounds::Outcome;
use crate::table::{Table, quartiles};
use crate::tls::Tls;
use anyhow::{Context, Result};

/// All that one run has seen.
pub(crate) struct Run {
    pub(crate) http: Http,
    pub(crate) tls: Tls,
    pub(crate) growth: Growth,
    pub(crate) instructions: Instructions,
    /// The ledger's part of a request.
    pub(crate) ledger_percent: f64,
}

/// One figure and what it may be.
struct Target {
    what: &'static str,
    seen: Figures,
    bound: Bound,
    unit: Unit,
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// What a figure counts.
enum Unit {
    Times,
    Percent,
    Mebibytes,
    Instructions,
}

impl Target {
    /// A figure that is seen once and not in each round.
    fn once(what: &'static str, seen: f64, most: f64, unit: Unit) -> Self {
        Self { what, seen: Figures(vec![seen]), bound: Bound::AtMost(most), unit }
    }
}

impl Unit {
    fn tell(&self, figure: f64) -> String {
        match self {
            Self::Times => format!("{figure:.2} ×"),
            Self::Percent => format!("{figure:.1} %"),
            Self::Mebibytes => format!("{figure:.0} MiB"),
            Self::Instructions => format!("{figure:.0}"),
        }
    }
}

/// Every figure with its target, and how many are missed.
pub(crate) fn judge(run: &Run) -> Result<(Table, usize)> {
    let mut targets = compared(&run.http, &run.tls, &run.growth)?;
    targets.extend(seen_once(run)?);
    let mut table = Table::new("Targets", &["figure", "target", "seen", "quartiles", ""]);
    let mut missed = 0;
    for Target { what, seen, bound, unit } in targets {
        let median = seen.median();
        let (is_met, target) = match bound {
            Bound::AtMost(most) => (median <= most, format!("≤ {}", unit.tell(most))),
            Bound::AtLeast(least) => (median >= least, format!("≥ {}", unit.tell(least))),
        };
        missed += usize::from(!is_met);
        let verdict = if is_met { "met" } else { "**missed**" };
        let apart = if seen.0.len() > 1 { quartiles(&seen) } else { String::new() };
        table.row(vec![what.to_owned(), target, unit.tell(median), apart, verdict.to_owned()]);
    }
    Ok((table, missed))
}

fn seen_once(run: &Run) -> Result<[Target; 3]> {
    let Run { http, tls, .. } = run;
    let mut most_memory = 0;
    for outcomes in [&http.keep_alive, &http.fresh, &tls.keep_alive, &tls.http2, &tls.fresh, &tls.http3] {
        most_memory = most_memory.max(of(outcomes, Peer::Ipse)?.resident_bytes());
    }
    #[expect(clippy::cast_precision_loss, reason = "a fraction of a byte does not matter")]
    let most_memory = most_memory as f64 / f64::from(1 << 20);
    #[expect(clippy::cast_precision_loss, reason = "there are a few thousands")]
    let by_hyper = run.instructions.by_hyper() as f64;
    Ok([
        Target::once(
            "the ledger's part of a request",
            run.ledger_percent,
            ledger::MOST_PERCENT,
            Unit::Percent,
        ),
        Target::once(
            "memory under load, the most of all tables but growth",
            most_memory,
            200.0,
            Unit::Mebibytes,
        ),
        Target::once(
            "user instructions of a lookup that goes to hyper",
            by_hyper,
            15_000.0,
            Unit::Instructions,
        ),
    ])
}

/// What is measured in each round, against the same round of somebody else.
fn compared(http: &Http, tls: &Tls, growth: &Growth) -> Result<Vec<Target>> {
    let cost = Seen::processor_us;
    let p99 = |seen: &Seen| seen.percentile_us(99.0);
    let rate = |seen: &Seen| 1e6 / seen.processor_us();
    let at_most = |what, seen: Result<Figures>, most| {
        seen.map(|seen| Target { what, seen, bound: Bound::AtMost(most), unit: Unit::Times })
    };
    let at_least = |what, seen: Result<Figures>, least| {
        seen.map(|seen| Target { what, seen, bound: Bound::AtLeast(least), unit: Unit::Times })
    };
    let nginx = Peer::Nginx;
    let over_http3 = || {
        let (http3, http2) = (of(&tls.http3, Peer::Ipse)?, of(&tls.http2, Peer::Ipse)?);
        Ok(http3.processor_us().over(&http2.processor_us()))
    };
    [
        at_most(
            "keep-alive, CPU of a request against the limit",
            against(&http.keep_alive, Peer::Limit, cost),
            1.3,
        ),
        at_most("keep-alive, against nginx", against(&http.keep_alive, nginx, cost), 0.45),
        at_most("keep-alive, against axum by hand", against(&http.keep_alive, Peer::ByHand, cost), 0.45),
        at_most("p99 at 10,000 requests a second, against nginx", against(&http.paced, nginx, p99), 0.8),
        at_most(
            "one request for each new TLS 1.3 connection, against nginx",
            against(&tls.fresh, nginx, cost),
            0.45,
        ),
        at_most(
            "one request for each new clear connection, against nginx",
            against(&http.fresh, nginx, cost),
            1.0,
        ),
        at_most("TLS 1.3 keep-alive HTTP/1.1, against nginx", against(&tls.keep_alive, nginx, cost), 0.5),
        at_most("TLS 1.3 HTTP/2, against nginx", against(&tls.http2, nginx, cost), 0.7),
        at_least(
            "full handshakes for each CPU second, against nginx",
            against(&tls.handshakes, nginx, rate),
            2.2,
        ),
        at_least("resumed handshakes, against nginx", against(&tls.resumed, nginx, rate), 1.0),
        at_most("HTTP/3, against our own HTTP/2", over_http3(), 2.5),
        at_most("all cores, against one", last_over_first(&growth.cores), 1.1),
        at_most("1,000,000 keys, against the fewest", last_over_first(&growth.keys), 1.25),
        at_most("10,000 connections, against 64", last_over_first(&growth.connections), 1.5),
    ]
    .into_iter()
    .collect()
}

/// ipse against another peer, round by round.
fn against(outcomes: &[Outcome], other: Peer, figure: impl Fn(&Seen) -> f64) -> Result<Figures> {
    Ok(of(outcomes, Peer::Ipse)?.of(&figure).over(&of(outcomes, other)?.of(&figure)))
}

fn of(outcomes: &[Outcome], peer: Peer) -> Result<&Outcome> {
    outcomes
        .iter()
        .find(|outcome| outcome.peer == peer)
        .with_context(|| format!("nothing of {}", peer.name()))
}

fn last_over_first(steps: &[Step]) -> Result<Figures> {
    let (first, last) = steps.first().zip(steps.last()).context("no steps")?;
    Ok(last.outcome.processor_us().over(&first.outcome.processor_us()))
}
