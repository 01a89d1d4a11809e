//! A network out of what the sources of a chain say, and the flags that it gets.

use super::Label;
use crate::facts::Facts;
use crate::flags::{Flags, Reason, Ruling};
use ipse_model::Network;

/// A network with the story of its fields.
#[derive(Default)]
pub(super) struct Told {
    pub(super) network: Network,
    /// For each field that is known, what gave it.
    pub(super) origins: Vec<(&'static str, String)>,
    /// Contradictions: the field, whom we believed, who said otherwise.
    pub(super) conflicts: Vec<(&'static str, Label, Label)>,
}

/// The network that a chain of sources tells of, the first one believed first.
pub(super) fn tell(chain: &[(Label, &Facts)], flags: &Flags) -> Told {
    let mut told = Told::default();
    let mut believed: Option<(u32, Label)> = None;
    let mut org: Option<&str> = None;
    for (label, facts) in chain {
        let Some(asn) = facts.asn else { continue };
        match believed {
            // The name that another source has for another number is no name of this one.
            Some((known, whom)) if known != asn => {
                told.conflicts.push(("asn", whom, *label));
                continue;
            }
            Some(_) => {}
            None => {
                believed = Some((asn, *label));
                told.origins.push(("asn", label.text()));
            }
        }
        if org.is_none()
            && let Some(name) = facts.org.as_deref()
        {
            org = Some(name);
            told.origins.push(("org", label.text()));
        }
    }
    let asn = believed.map(|(asn, _)| asn);
    let verdict = asn.map(|asn| flags.verdict(asn, org));
    let said = |pick: fn(&Facts) -> Option<bool>| {
        chain.iter().find_map(|(label, facts)| pick(facts).map(|flag| (flag, *label)))
    };
    let hosting = flag(verdict.map(|verdict| verdict.hosting), said(|facts| facts.hosting));
    let proxy = flag(verdict.map(|verdict| verdict.proxy), said(|facts| facts.proxy));
    let origins = [("proxy", &proxy), ("hosting", &hosting)];
    told.origins.extend(origins.into_iter().filter_map(|(field, flag)| Some((field, flag.as_ref()?.1.clone()))));
    told.network = Network {
        asn,
        org: org.map(str::to_owned),
        proxy: proxy.map(|(flag, _)| flag),
        hosting: hosting.map(|(flag, _)| flag),
    };
    told
}

/// The operator has the last word; then a source that knows this very address; then what is known of its network.
fn flag(ruling: Option<Ruling<'_>>, said: Option<(bool, Label)>) -> Option<(bool, String)> {
    match (ruling, said) {
        (Some(Ruling::Flagged(reason @ Reason::Operator { .. })), _) => Some((true, reason.to_string())),
        (Some(Ruling::Spared(reason @ Reason::Operator { .. })), _) => Some((false, reason.to_string())),
        (_, Some((flag, label))) => Some((flag, label.text())),
        (Some(Ruling::Flagged(reason)), None) => Some((true, reason.to_string())),
        (Some(Ruling::Spared(reason)), None) => Some((false, reason.to_string())),
        (Some(Ruling::Unmentioned), None) => Some((false, "on no list".to_owned())),
        (None, None) => None,
    }
}
