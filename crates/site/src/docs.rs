//! The documentation, on one page.

use crate::errors::{SECTIONS, Section};
use crate::examples::{EXAMPLES, Example};
use crate::fields::{FIELDS, Field};
use crate::page::{Here, Page};
use crate::reply::{self, Keep};
use crate::visitor::pretty;
use askama::Template;
use ipse_edge::Reply;
use ipse_geo::Atlas;
use ipse_model::{
    Address, Answer, Client, Degrees, HttpVersion, Links, Network, Now, Place, Scope, TlsVersion, Zone,
};
use std::net::{IpAddr, Ipv4Addr};

#[derive(Template)]
#[template(path = "docs.html")]
struct Docs<'a> {
    page: Page<'a>,
    fields: &'a [Field],
    problems: &'a [Section],
    examples: &'a [Example],
    /// The program's own version, which is another than the interface's.
    version: &'static str,
    /// An answer of the broadest scope, written by the same code as the API's.
    sample: String,
}

impl Docs<'_> {
    fn example(&self, section: &Section) -> String {
        serde_json::to_string_pretty(&section.problem.body(self.page.links)).unwrap_or_default()
    }
}

pub(crate) fn answer(links: &Links) -> Reply {
    let title = "Documentation";
    let description = "The ipse API: quick start, examples in seven languages, authentication, every field and scope, \
                      limits, and every error.";
    let page = Page::public(links, Here::Docs, title, description);
    let sample = pretty(&Sample::new().answer(Scope::Full));
    let version = env!("CARGO_PKG_VERSION");
    let docs = Docs { page, fields: &FIELDS, problems: &SECTIONS, examples: &EXAMPLES, version, sample };
    reply::page(links, Keep::Checked, &docs)
}

/// A caller that does not exist, so that examples are made by the same code as answers.
struct Sample {
    client: Client,
    atlas: Atlas,
}

impl Sample {
    fn new() -> Self {
        let text = |text: &str| Some(text.to_owned());
        let place = Place {
            city: text("London"),
            region: text("England"),
            region_code: text("GB-ENG"),
            country: text("GB"),
            country_name: text("United Kingdom"),
            continent: text("EU"),
            position: Degrees::latitude(51.5142).zip(Degrees::longitude(-0.0931)),
            zone: Zone::named("Europe/London").ok(),
            postal_code: text("EC2V"),
            is_eu: Some(false),
            currency: text("GBP"),
        };
        let (proxy, hosting) = (Some(false), Some(false));
        let network = Network { asn: Some(20_712), org: text("Andrews & Arnold Ltd"), proxy, hosting };
        let ip = IpAddr::V4(Ipv4Addr::new(81, 2, 69, 142));
        Self {
            client: Client {
                address: Address::new(ip),
                http: Some(HttpVersion::Http2),
                tls_version: Some(TlsVersion::Tls13),
                tls_cipher: Some("TLS_AES_128_GCM_SHA256".into()),
                rtt_ms: Some(12),
                colo: "AMS".parse().ok(),
            },
            atlas: Atlas::of(&[ip], Some(&place), Some(&network)),
        }
    }

    fn answer(&self, scope: Scope) -> Vec<u8> {
        /// A day in July, so that the example shows daylight saving.
        const JULY: Now = Now { unix_ms: 1_784_116_800_000, boot_ms: 0 };
        let found = self.atlas.find(self.client.address).written();
        Answer { client: &self.client, now: JULY, found }.for_scope(scope)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample_json(scope: Scope) -> serde_json::Value {
        serde_json::from_slice(&Sample::new().answer(scope)).unwrap()
    }

    #[test]
    fn the_sample_shows_a_value_in_every_field_but_the_other_address() {
        let json = sample_json(Scope::Full);
        let empty: Vec<&String> =
            json.as_object().unwrap().iter().filter(|(_, v)| v.is_null()).map(|(k, _)| k).collect();
        assert_eq!(empty, ["ipv6"]);
        assert_eq!(json["timezone_offset"], 3600);
    }
}
