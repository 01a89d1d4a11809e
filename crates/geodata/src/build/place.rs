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

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Label<'_> = Label("first");
    const SECOND: Label<'_> = Label("second");

    fn facts(country: &[u8; 2], region: Option<&str>, city: Option<&str>) -> Facts {
        Facts {
            country: Some(*country),
            region: region.map(Box::from),
            city: city.map(Box::from),
            ..Facts::default()
        }
    }

    fn at(facts: Facts, latitude: f64, longitude: f64) -> Facts {
        Facts { latitude: Degrees::latitude(latitude), longitude: Degrees::longitude(longitude), ..facts }
    }

    fn tell<'a>(first: &'a Facts, second: &'a Facts) -> Told<'a> {
        Places::new().tell(&[(FIRST, first), (SECOND, second)])
    }

    #[test]
    fn the_first_source_that_knows_a_field_wins_and_others_fill_its_gaps() {
        let first = facts(b"DE", Some("Bavaria"), Some("Munich"));
        let second = at(facts(b"DE", Some("Bavaria"), Some("Munich")), 48.1374, 11.5755);
        let second = Facts { postal_code: Some("80331".into()), ..second };
        let told = tell(&first, &second);
        assert_eq!(told.place.postal_code.as_deref(), Some("80331"));
        assert_eq!(told.place.region_code.as_deref(), Some("DE-BY"));
        assert!(told.conflicts.is_empty());
        let why = |field| told.origins.iter().find(|(name, _)| *name == field).map(|(_, why)| why.as_str());
        assert_eq!((why("city"), why("postal_code")), (Some("first"), Some("second")));
        assert_eq!(why("timezone"), Some("coordinates and country"));
    }

    #[test]
    fn a_source_that_contradicts_the_country_has_no_say_in_the_city() {
        let first = facts(b"FR", None, None);
        let second = at(facts(b"DE", Some("Berlin"), Some("Berlin")), 52.52, 13.405);
        let told = tell(&first, &second);
        assert_eq!((told.place.country.as_deref(), told.place.city), (Some("FR"), None));
        assert_eq!(told.place.position, None);
        assert!(told.conflicts == [("country", FIRST, SECOND)]);
    }

    #[test]
    fn a_source_that_contradicts_the_city_has_no_say_in_where_it_is() {
        let first = facts(b"DE", Some("Bavaria"), Some("Munich"));
        let second = at(facts(b"DE", Some("Bavaria"), Some("Nuremberg")), 49.4521, 11.0767);
        let told = tell(&first, &second);
        assert_eq!((told.place.city.as_deref(), told.place.position), (Some("Munich"), None));
        assert!(told.conflicts == [("city", FIRST, SECOND)]);
    }

    #[test]
    fn facts_of_the_country_are_filled_in_and_members_of_the_union_known() {
        #[track_caller]
        fn check(country: &[u8; 2], name: &str, continent: &str, currency: &str, is_eu: bool) {
            let place = tell(&facts(country, None, None), &Facts::default()).place;
            assert_eq!(place.country_name.as_deref(), Some(name));
            assert_eq!(place.continent.as_deref(), Some(continent));
            assert_eq!((place.currency.as_deref(), place.is_eu), (Some(currency), Some(is_eu)));
        }
        check(b"GB", "United Kingdom", "EU", "GBP", false);
        check(b"HR", "Croatia", "EU", "EUR", true);
        check(b"RE", "Réunion", "AF", "EUR", true);
        check(b"CH", "Switzerland", "EU", "CHF", false);
    }

    #[test]
    fn codes_and_zones_of_a_source_are_taken_if_they_exist() {
        let source = |code: &str, zone: &str| Facts {
            region_code: Some(code.into()),
            zone: Some(zone.into()),
            ..facts(b"US", None, None)
        };
        let place = tell(&source("US-CA", "America/Los_Angeles"), &Facts::default()).place;
        assert_eq!(
            (place.region.as_deref(), place.region_code.as_deref()),
            (Some("California"), Some("US-CA"))
        );
        assert_eq!(place.zone.as_ref().map(Zone::name), Some("America/Los_Angeles"));
        let place = tell(&source("US-XX", "America/Nowhere"), &Facts::default()).place;
        assert_eq!((place.region, place.region_code, place.zone), (None, None, None));
    }

    #[test]
    fn a_country_with_one_zone_needs_no_coordinates() {
        let place = tell(&facts(b"NL", None, None), &Facts::default()).place;
        assert_eq!(place.zone.as_ref().map(Zone::name), Some("Europe/Amsterdam"));
        assert_eq!(tell(&facts(b"US", None, None), &Facts::default()).place.zone, None);
    }
}
