//! What the answers are made from: version, date and sources of the geo data. Asking it costs nobody anything.

use ipse_geo::{About, Atlas, short_version};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// `GET /api/v1/meta`.
#[derive(Serialize, ToSchema)]
pub(crate) struct Meta<'a> {
    /// Always `success`.
    status: &'static str,
    /// Names exactly this content: equal versions give equal answers.
    #[schema(example = "9c0f5ef7a1b2")]
    version: &'a str,
    /// When the data was built; null where there is none.
    #[schema(value_type = Option<String>, format = DateTime, example = "2026-06-17T00:00:00Z")]
    built: Option<String>,
    /// What it was built from.
    sources: Vec<MetaSource<'a>>,
}

/// One source of the geo data.
#[derive(Serialize, ToSchema)]
pub(crate) struct MetaSource<'a> {
    /// What it is used for: `city`, `country`, `asn` or `anonymous`.
    #[schema(example = "city")]
    kind: &'a str,
    /// The vendor and the product.
    #[schema(example = "DB-IP City Lite")]
    name: &'a str,
    /// When the vendor built it; null if the file does not say.
    #[schema(value_type = Option<String>, format = DateTime)]
    built: Option<String>,
    /// The licence, if it is known.
    #[schema(example = "CC BY 4.0")]
    licence: Option<&'a str>,
    /// What the licence wants to be said where answers are shown.
    attribution: Option<&'a str>,
}

impl<'a> Meta<'a> {
    pub(crate) fn of(atlas: &'a Atlas) -> Self {
        let About { built, sources, .. } = atlas.about();
        Self {
            status: "success",
            version: short_version(atlas.version()),
            built: (!sources.is_empty()).then(|| moment(*built)).flatten(),
            sources: sources
                .iter()
                .map(|source| MetaSource {
                    kind: &source.kind,
                    name: &source.name,
                    built: source.built.and_then(moment),
                    licence: source.licence.as_deref(),
                    attribution: source.attribution.as_deref(),
                })
                .collect(),
        }
    }
}

fn moment(unix_seconds: i64) -> Option<String> {
    Timestamp::from_second(unix_seconds).ok().map(|moment| moment.to_string())
}
