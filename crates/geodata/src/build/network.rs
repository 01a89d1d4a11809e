//! A network out of what the sources of a chain say, and the flags that it gets.

use super::{Label, Rules};
use crate::facts::Facts;
use crate::flags::{Flags, Reason, Ruling};
use ipse_model::Network;

/// A network with the story of its fields.
#[derive(Default)]
pub(super) struct Told<'a> {
    pub(super) network: Network,
    /// For each field that is known, what gave it.
    pub(super) origins: Rules,
    /// The same, with one word for all lines of a list.
    pub(super) rules: Rules,
    /// Contradictions: the field, whom we believed, who said otherwise.
    pub(super) conflicts: Vec<(&'static str, Label<'a>, Label<'a>)>,
}

/// The network that a chain of sources tells of, the first one believed first.
pub(super) fn tell<'a>(chain: &[(Label<'a>, &'a Facts)], flags: &Flags) -> Told<'a> {
    let mut told = Told::default();
    let mut believed: Option<(u32, Label<'a>)> = None;
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
    told.rules = told.origins.clone();
    for (field, flag) in [("proxy", &proxy), ("hosting", &hosting)] {
        if let Some(flag) = flag {
            told.origins.push((field, flag.why.clone()));
            told.rules.push((field, flag.rule.clone()));
        }
    }
    told.network = Network {
        asn,
        org: org.map(str::to_owned),
        proxy: proxy.map(|flag| flag.is_set),
        hosting: hosting.map(|flag| flag.is_set),
    };
    told
}

/// A flag of a network, what decided it, and which kind of rule that was.
struct Flag {
    is_set: bool,
    why: String,
    rule: String,
}

/// The operator has the last word; an access provider and a relay are never flagged; then a source that knows this very
/// address is believed; then what is known of its network, of which a carrier is never flagged.
fn flag(ruling: Option<Ruling<'_>>, said: Option<(bool, Label<'_>)>) -> Option<Flag> {
    let by_rule = |is_set, reason: Reason<'_>| {
        let rule = match reason {
            Reason::Operator { .. } => "an operator's file",
            Reason::Listed { .. } => "the built-in lists",
            Reason::Named { .. } => "the organisation's name",
        };
        Some(Flag { is_set, why: reason.to_string(), rule: rule.to_owned() })
    };
    match (ruling, said) {
        (Some(Ruling::Flagged(reason @ Reason::Operator { .. })), _) => by_rule(true, reason),
        (Some(Ruling::Spared(reason)), _) => by_rule(false, reason),
        (_, Some((is_set, label))) => Some(Flag { is_set, why: label.text(), rule: label.text() }),
        (Some(Ruling::Carrier(reason)), None) => by_rule(false, reason),
        (Some(Ruling::Flagged(reason)), None) => by_rule(true, reason),
        (Some(Ruling::Unmentioned), None) => {
            Some(Flag { is_set: false, why: "on no list".to_owned(), rule: "on no list".to_owned() })
        }
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(asn: Option<u32>, org: Option<&str>) -> Facts {
        Facts { asn, org: org.map(Box::from), ..Facts::default() }
    }

    fn flags(operator: &str) -> Flags {
        let mut flags = Flags::built_in();
        flags.add_operator_file("own.txt", operator).unwrap();
        flags
    }

    #[track_caller]
    fn check(
        chain: &[Facts],
        operator: &str,
        expected: (Option<u32>, Option<&str>, Option<bool>, Option<bool>),
    ) {
        let chain: Vec<_> = chain.iter().map(|facts| (Label("a source"), facts)).collect();
        let network = tell(&chain, &flags(operator)).network;
        assert_eq!((network.asn, network.org.as_deref(), network.proxy, network.hosting), expected);
    }

    #[test]
    fn a_source_knows_more_of_a_carriers_customers_than_we_do() {
        let cogent = facts(Some(174), Some("Cogent Hosting"));
        check(
            std::slice::from_ref(&cogent),
            "",
            (Some(174), Some("Cogent Hosting"), Some(false), Some(false)),
        );
        let exit = Facts { proxy: Some(true), hosting: Some(true), ..cogent };
        check(std::slice::from_ref(&exit), "", (Some(174), Some("Cogent Hosting"), Some(true), Some(true)));
        check(&[exit], "allow 174 proxy", (Some(174), Some("Cogent Hosting"), Some(false), Some(true)));
    }

    #[test]
    fn the_first_source_that_knows_wins_and_the_name_is_that_of_the_number() {
        let (swisscom, other) = (facts(Some(3303), None), facts(Some(3303), Some("Swisscom")));
        check(
            &[swisscom.clone(), other.clone()],
            "",
            (Some(3303), Some("Swisscom"), Some(false), Some(false)),
        );
        let stranger = facts(Some(1), Some("Somebody else"));
        check(&[swisscom, stranger, other], "", (Some(3303), Some("Swisscom"), Some(false), Some(false)));
        check(&[Facts::default()], "", (None, None, None, None));
    }

    #[test]
    fn lists_flag_a_network_sources_refine_it_and_the_operator_has_the_last_word() {
        let amazon = facts(Some(16_509), Some("Amazon.com, Inc."));
        let not_hosting = Facts { hosting: Some(false), proxy: Some(true), ..Facts::default() };
        let flags = |proxy, hosting| (Some(16_509), Some("Amazon.com, Inc."), Some(proxy), Some(hosting));
        check(std::slice::from_ref(&amazon), "", flags(false, true));
        check(&[amazon.clone(), not_hosting.clone()], "", flags(true, false));
        check(&[amazon.clone(), not_hosting.clone()], "allow 16509 proxy", flags(false, false));
        check(&[amazon, not_hosting], "deny 16509 both", flags(true, true));
    }

    #[test]
    fn an_access_provider_and_a_relay_are_not_flagged_by_a_source_either() {
        let says_all = Facts { hosting: Some(true), proxy: Some(true), ..Facts::default() };
        let comcast = facts(Some(7922), None);
        check(&[comcast, says_all.clone()], "", (Some(7922), None, Some(false), Some(false)));
        let cloudflare = facts(Some(13_335), None);
        check(&[cloudflare, says_all], "", (Some(13_335), None, Some(false), Some(true)));
    }

    #[test]
    fn a_source_may_know_an_address_whose_network_nobody_knows() {
        let proxy = Facts { proxy: Some(true), ..Facts::default() };
        check(&[proxy], "", (None, None, Some(true), None));
    }
}
