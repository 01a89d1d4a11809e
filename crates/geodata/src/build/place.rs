//! A place out of what the sources of a chain say, and what our own tables add.

use super::{Label, Rules};
use crate::facts::Facts;
use crate::fill::regions::Rule;
use crate::fill::{countries, regions, zones::Zones};
use ipse_model::{Degrees, Place, Zone};
use std::collections::HashMap;

/// A place with the story of its fields.
#[derive(Default)]
pub(super) struct Told<'a> {
    pub(super) place: Place,
    /// For each field that is known, what gave it.
    pub(super) origins: Rules,
    /// Contradictions: the field, whom we believed, who said otherwise.
    pub(super) conflicts: Vec<(&'static str, Label<'a>, Label<'a>)>,
}

/// Merges places. It keeps what is dear to find again.
pub(super) struct Places {
    zones: Zones,
    known_zones: HashMap<&'static str, Option<Zone>>,
}

/// What has been believed so far, and whom.
#[derive(Default)]
struct Merged<'a> {
    country: Option<([u8; 2], Label<'a>)>,
    region: Option<(&'a str, Label<'a>)>,
    region_code: Option<(&'a str, Label<'a>)>,
    city: Option<(&'a str, Label<'a>)>,
    position: Option<((Degrees, Degrees), Label<'a>)>,
    zone: Option<(&'a str, Label<'a>)>,
    postal_code: Option<(&'a str, Label<'a>)>,
}

impl Places {
    pub(super) fn new() -> Self {
        Self { zones: Zones::new(), known_zones: HashMap::new() }
    }

    /// The place that a chain of sources tells of, the first one believed first.
    pub(super) fn tell<'a>(&mut self, chain: &[(Label<'a>, &'a Facts)]) -> Told<'a> {
        let mut merged = Merged::default();
        let mut told = Told::default();
        for (label, facts) in chain {
            merged.add(*label, facts, &mut told.conflicts);
        }
        self.fill(&merged, &mut told);
        told
    }

    fn fill(&mut self, merged: &Merged<'_>, told: &mut Told<'_>) {
        let Told { place, origins, .. } = told;
        if let Some((code, label)) = merged.country {
            place.country = str::from_utf8(&code).ok().map(str::to_owned);
            origins.push(("country", label.text()));
            if let Some(country) = countries::country(code) {
                place.country_name = Some(country.name.to_owned());
                place.continent = Some(country.continent.to_owned());
                place.currency = country.currency.map(str::to_owned);
                place.is_eu = Some(country.is_eu);
                for field in ["country_name", "continent", "is_eu"] {
                    origins.push((field, "the table of countries".to_owned()));
                }
                if country.currency.is_some() {
                    origins.push(("currency", "the table of countries".to_owned()));
                }
            }
        }
        if let Some((city, label)) = merged.city {
            place.city = Some(city.to_owned());
            origins.push(("city", label.text()));
        }
        fill_region(merged, place, origins);
        if let Some((position, label)) = merged.position {
            place.position = Some(position);
            origins.push(("latitude", label.text()));
            origins.push(("longitude", label.text()));
        }
        if let Some((postal_code, label)) = merged.postal_code {
            place.postal_code = Some(postal_code.to_owned());
            origins.push(("postal_code", label.text()));
        }
        self.fill_zone(merged, place, origins);
    }

    fn fill_zone(&mut self, merged: &Merged<'_>, place: &mut Place, origins: &mut Rules) {
        if let Some((name, label)) = merged.zone
            && let Ok(zone) = Zone::named(name)
        {
            place.zone = Some(zone);
            origins.push(("timezone", label.text()));
            return;
        }
        let country = merged.country.map(|(country, _)| country);
        let (found, why) = match merged.position {
            Some(((latitude, longitude), _)) => {
                (self.zones.find(country, latitude, longitude), "coordinates and country")
            }
            None => (
                country.and_then(|country| self.zones.find_without_coordinates(country)),
                "the country's only zone",
            ),
        };
        let zone = found
            .and_then(|name| self.known_zones.entry(name).or_insert_with(|| Zone::named(name).ok()).clone());
        if zone.is_some() {
            place.zone = zone;
            origins.push(("timezone", why.to_owned()));
        }
    }
}

fn fill_region(merged: &Merged<'_>, place: &mut Place, origins: &mut Rules) {
    if let Some((region, label)) = merged.region {
        place.region = Some(region.to_owned());
        origins.push(("region", label.text()));
    }
    if let Some((code, label)) = merged.region_code.filter(|(code, _)| regions::known(code)) {
        place.region_code = Some(code.to_owned());
        origins.push(("region_code", label.text()));
    } else if let (Some((country, _)), Some((region, _))) = (merged.country, merged.region)
        && let Some(found) = regions::code(country, region, merged.city.map(|(city, _)| city))
    {
        place.region_code = Some(found.code.to_owned());
        origins.push(("region_code", format!("the region's name, {}", rule_text(found.rule))));
    }
    if place.region.is_none()
        && let Some(name) = place.region_code.as_deref().and_then(regions::name)
    {
        place.region = Some(name.to_owned());
        origins.push(("region", "the name of its code in ISO 3166-2".to_owned()));
    }
}

fn rule_text(rule: Rule) -> &'static str {
    match rule {
        Rule::Exact => "as in ISO 3166-2",
        Rule::Accents => "but for accents and case",
        Rule::Exonym => "by another name of the region",
        Rule::GenericWords => "but for words such as Region or County",
        Rule::City => "with the help of the city",
        Rule::Parent => "as a part of the region with this code",
    }
}

impl<'a> Merged<'a> {
    /// Takes from a source what is not known yet, from the coarse to the fine. A source that contradicts what is
    /// believed already has nothing more to say: its city would be in another country.
    fn add(
        &mut self,
        label: Label<'a>,
        facts: &'a Facts,
        conflicts: &mut Vec<(&'static str, Label<'a>, Label<'a>)>,
    ) {
        let mut agrees = |field, believed: Option<Label<'a>>, same: bool| match believed {
            Some(believed) if !same => {
                conflicts.push((field, believed, label));
                false
            }
            _ => true,
        };
        if let Some(country) = facts.country {
            let same = self.country.is_none_or(|(known, _)| known == country);
            if !agrees("country", self.country.map(|(_, label)| label), same) {
                return;
            }
            self.country.get_or_insert((country, label));
        }
        let (region, code) = (facts.region.as_deref(), facts.region_code.as_deref());
        let same_code = self.region_code.zip(code).map(|((known, _), code)| known == code);
        let same_name = self.region.zip(region).map(|((known, _), region)| known == region);
        let believed = self.region_code.or(self.region).map(|(_, label)| label);
        if !agrees("region", believed, same_code.or(same_name) != Some(false)) {
            return;
        }
        take(&mut self.region, region, label);
        take(&mut self.region_code, code, label);
        let city = facts.city.as_deref();
        let same = self.city.zip(city).is_none_or(|((known, _), city)| known == city);
        if !agrees("city", self.city.map(|(_, label)| label), same) {
            return;
        }
        take(&mut self.city, city, label);
        take(&mut self.position, facts.latitude.zip(facts.longitude), label);
        take(&mut self.zone, facts.zone.as_deref(), label);
        take(&mut self.postal_code, facts.postal_code.as_deref(), label);
    }
}

fn take<'a, T>(known: &mut Option<(T, Label<'a>)>, said: Option<T>, label: Label<'a>) {
    if known.is_none() {
        *known = said.map(|said| (said, label));
    }
}
