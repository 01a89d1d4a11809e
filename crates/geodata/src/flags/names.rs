//! What an organisation's name alone gives away: a hoster that calls itself one, a VPN that calls itself one.
//!
//! Only whole words count, and no word does in a name that speaks of access, of teaching or of government: a
//! telephone company's data centre is still a telephone company. A name that misleads goes into `never.txt`.

/// The words of a name, in lower case.
pub(super) fn words(name: &str) -> Vec<String> {
    name.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// The words that make a name a hoster's, if there are any.
pub(super) fn hosting(words: &[String]) -> Option<&'static str> {
    found(words, HOSTING, HOSTING_ENDINGS)
}

/// The words that make a name a proxy's, if there are any.
pub(super) fn proxy(words: &[String]) -> Option<&'static str> {
    found(words, PROXY, &[])
}

/// Each a word, or several in a row. Not here, because too many others use them too: `cloud` alone (telephony, wireless
/// access, a city), `server` (of names, of routes), `servidores` (civil servants), `colo`, `idc` and `vds`.
const HOSTING: &[&str] = &[
    "hosting",
    "hostings",
    "webhosting",
    "webhost",
    "webhoster",
    "webhosters",
    "hoster",
    "hosters",
    "hospedagem",
    "hebergement",
    "webhotel",
    "webhotell",
    "vps",
    "datacenter",
    "datacenters",
    "datacentre",
    "datacentres",
    "datacentrum",
    "data center",
    "data centers",
    "data centre",
    "data centres",
    "veri merkezi",
    "colocation",
    "cdn",
    "content delivery",
    "cloud computing",
    "cloud hosting",
    "cloud host",
    "cloud infrastructure",
    "cloud provider",
    "cloud server",
    "cloud storage",
    "public cloud",
    "dedicated server",
    "servers",
    "bare metal",
];

/// How a word ends that a hoster made its name of.
const HOSTING_ENDINGS: &[&str] = &["hosting", "hoster", "vps", "servers", "datacenter"];

const PROXY: &[&str] = &["vpn", "vpns", "proxy", "proxies"];

/// Words that speak of access, teaching, care or government: with one of these a name decides nothing.
const SPARED: &[&str] = &[
    "auth",
    "broadband",
    "cable",
    "city",
    "county",
    "eireli",
    "fiber",
    "fibre",
    "group",
    "internet",
    "isp",
    "ltda",
    "mobile",
    "national",
    "province",
    "route",
    "routeservers",
    "satellite",
    "securities",
    "state",
    "support",
    "wifi",
    "wireless",
];

/// How such words begin, where languages and grammar differ in the rest.
const SPARED_BEGINNINGS: &[&str] = &[
    "bank",
    "broadcast",
    "cernet",
    "chinanet",
    "chinatelecom",
    "cncgroup",
    "colleg",
    "communicat",
    "comunica",
    "educat",
    "fibra",
    "govern",
    "health",
    "hospital",
    "insur",
    "minist",
    "municip",
    "provedor",
    "school",
    "telco",
    "telec",
    "telef",
    "telek",
    "unicom",
    "universi",
];

fn found(
    words: &[String],
    phrases: &'static [&'static str],
    endings: &'static [&'static str],
) -> Option<&'static str> {
    if words.iter().any(|word| is_spared(word)) {
        return None;
    }
    let phrase = phrases.iter().find(|phrase| holds(words, phrase));
    let ending = || endings.iter().find(|ending| words.iter().any(|word| word.ends_with(**ending)));
    phrase.or_else(ending).copied()
}

/// Whether the phrase's words stand in a row in the name.
fn holds(words: &[String], phrase: &str) -> bool {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    words.windows(phrase.len()).any(|window| window.iter().eq(phrase.iter()))
}

fn is_spared(word: &str) -> bool {
    SPARED.contains(&word) || SPARED_BEGINNINGS.iter().any(|beginning| word.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected_hosting: Option<&str>, expected_proxy: Option<&str>) {
        let words = words(name);
        assert_eq!(hosting(&words), expected_hosting, "hosting by the name {name:?}");
        assert_eq!(proxy(&words), expected_proxy, "proxy by the name {name:?}");
    }

    #[test]
    fn a_name_that_says_it_is_believed() {
        check("Reprise Hosting", Some("hosting"), None);
        check("AHOSTING", Some("hosting"), None);
        check("MIRhosting B.V.", Some("hosting"), None);
        check("EUROHOSTER Ltd.", Some("hoster"), None);
        check("DREAM VPS LTD", Some("vps"), None);
        check("LaunchVPS, LLC", Some("vps"), None);
        check("Midwest Data Center, Inc.", Some("data center"), None);
        check("Data-center IMAQLIQ Ltd.", Some("data center"), None);
        check("Mega Colocation, Inc.", Some("colocation"), None);
        check("Cloud Computing HK Limited", Some("cloud computing"), None);
        check("Sylon Hosting GmbH", Some("hosting"), None);
        check("Castle VPN", None, Some("vpn"));
        check("Key Proxy Limited", None, Some("proxy"));
    }

    #[test]
    fn only_whole_words_count() {
        check("HAProxy Technologies, Inc.", None, None);
        check("Ghostnet GmbH", None, None);
        check("VPNET INC", None, None);
        check("Cloudwifi, SL", None, None);
        check("The Cloud Networks Limited", None, None);
        check("City of St. Cloud, MN", None, None);
        check("Central Server Informatica", None, None);
        check("Universidad Nacional de Colombia", None, None);
        check("", None, None);
    }

    #[test]
    fn a_name_that_speaks_of_access_or_the_state_decides_nothing() {
        check("CHINANET SiChuan Telecom Internet Data Center", None, None);
        check("CNCGROUP IP network of ShangHai Data Center", None, None);
        check("Deutsche Telekom Hosting", None, None);
        check("HOSTING TELECOM LTD", None, None);
        check("VPS Broadband And Telecommunications Pvt Ltd", None, None);
        check("VPS Securities Joint Stock Company", None, None);
        check("National Data Center", None, None);
        check("State Data Center - Hanoi Department of Science", None, None);
        check("Data Center of Vietnam National University", None, None);
        check("Com4 Data Center Eireli", None, None);
        check("WNet Internet y Hosting", None, None);
        check("University VPN", None, None);
    }
}
