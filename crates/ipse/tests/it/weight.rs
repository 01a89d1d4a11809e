//! Every page for every line and screen: how much is loaded and from where, and whether it stays in its place.

use crate::browser::{PageVisit, check_visits};

/// All that is loaded for one page, as it comes over the wire: 80 kB.
const MOST_BYTES: f64 = 80_000.0;
/// No more than what rounding makes of nothing. Where things are seen to jump, it is a hundred times that.
pub(crate) const MOST_SHIFT: f64 = 0.001;

fn weight(visit: &PageVisit) -> f64 {
    visit.requests.iter().map(|request| request.bytes).sum()
}

#[test]
fn no_page_is_heavier_than_80_kilobytes() {
    check_visits(|visit| {
        let (weight, mut faults) = (weight(visit), Vec::new());
        if weight > MOST_BYTES {
            let parts = visit.requests.iter().map(|request| format!("{} {}", request.url, request.bytes));
            faults.push(format!("{weight} bytes: {}", parts.collect::<Vec<_>>().join(", ")));
        }
        // The page and its stylesheet have some weight; without it nothing was measured.
        if weight < 1_000.0 || visit.requests.len() < 2 {
            faults.push(format!("{weight} bytes in {} requests", visit.requests.len()));
        }
        faults
    });
}

#[test]
fn no_page_asks_another_host() {
    check_visits(|visit| {
        let own = &visit.requests[0].url;
        let own = &own[..own.match_indices('/').nth(2).map_or(own.len(), |(at, _)| at)];
        let others = visit.requests.iter().filter(|request| !request.url.starts_with(own));
        others.map(|request| format!("a request to {}", request.url)).collect()
    });
}

#[test]
fn no_page_scrolls_sideways_from_320_to_2560_pixels() {
    check_visits(|visit| visit.sideways.clone());
}

#[test]
fn nothing_jumps_while_a_page_loads() {
    check_visits(|visit| {
        let shifted = (visit.shifted > MOST_SHIFT)
            .then(|| format!("things jump by {}: {}", visit.shifted, visit.shifted_what.join(", ")));
        shifted.into_iter().collect()
    });
}
