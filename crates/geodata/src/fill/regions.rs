//! From the name of a region to its ISO 3166-2 code, and back.
//!
//! A code is given only where the name can mean nothing else: a wrong code is worse than none. Where a name stands for
//! a subdivision of the second level, its parent's code is given, except in countries whose first level is geography
//! rather than government (Indonesia's islands): there the code is that of the named province itself.

use super::exonyms::EXONYMS;
use super::parents::PARENTS;
use super::towns::{TOWNS, TWINS, WIDE};
use rust_iso3166::iso3166_2::SUBDIVISION_MAP;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A code, and how it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// The whole code, such as `US-CA`.
    pub code: &'static str,
    /// The rule that led to it.
    pub rule: Rule,
}

/// How a name led to a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rule {
    /// The name is written as in the standard.
    Exact,
    /// It differs from the standard's by accents, case or signs only.
    Accents,
    /// It is another name of the region: English, transliterated, or a former one.
    Exonym,
    /// It differs by generic words only, such as "Region" or "Governorate".
    GenericWords,
    /// The name is ambiguous, and the city decided.
    City,
    /// It is a subdivision of the second level; the code is that of the first.
    Parent,
}

/// The code of the region that a source calls by this name. `city` decides where a capital shares its name with the
/// land around it.
#[must_use]
pub(crate) fn code(country: [u8; 2], region: &str, city: Option<&str>) -> Option<Match> {
    let country = str::from_utf8(&country).ok()?;
    let names = NAMES.get(country)?;
    let folded = fold(region);
    if let Some(decided) = by_city(country, &folded, city) {
        return decided.map(|code| Match { code, rule: Rule::City });
    }
    if let Some(code) = names.exonyms.get(&folded) {
        return Some(Match { code, rule: Rule::Exonym });
    }
    if let Some(unit) = names.exact.get(&folded).and_then(|units| pick(country, units)) {
        let as_written = SUBDIVISION_MAP.get(unit.code).is_some_and(|entry| entry.name == region);
        return Some(unit.reached_by(if as_written { Rule::Exact } else { Rule::Accents }));
    }
    let (bare, removed) = strip(&folded);
    if bare.is_empty() {
        return None;
    }
    if let Some(code) = names.bare_exonyms.get(&bare).copied().flatten()
        && UNITS.get(code).is_some_and(|unit| fits(unit, &removed))
    {
        return Some(Match { code, rule: Rule::Exonym });
    }
    let units: Vec<&Unit> =
        names.bare.get(&bare)?.iter().copied().filter(|unit| fits(unit, &removed)).collect();
    Some(pick(country, &units)?.reached_by(Rule::GenericWords))
}

/// The standard's name of a whole code.
#[must_use]
pub(crate) fn name(code: &str) -> Option<&'static str> {
    SUBDIVISION_MAP.get(code).map(|entry| entry.name)
}

/// Whether a whole code exists in ISO 3166-2.
#[must_use]
pub(crate) fn known(code: &str) -> bool {
    SUBDIVISION_MAP.contains_key(code)
}

/// Countries whose first level in the standard is geography, planning, or a part of the country only.
const SECOND_LEVEL_GOVERNS: [&str; 10] = ["CV", "DO", "GQ", "GW", "ID", "IQ", "KN", "MH", "MW", "UG"];

/// Words that say what kind of thing a region is, and never which.
const GENERIC: &str = "administrative apskritis arrondissement autonoma autonome autonomous avtonomnaya \
    avtonomnyy borough canton capital changwat cidade city ciudad commune comunidad corporation council \
    county departamento departement department district distrikt distrito division dzongkhag emirate estado \
    federal foral gorod governorate grad greater gwangyeoksi hlavni horad il ili judet kanton kommun \
    kommune krai kraj kray lan maakond megye mesto metropolitan mintaqah muhafazah muhafazat municipal \
    municipality novads obcina oblast oblasti oblisi oblysy okrug opstina ostan parish pilseta prefecture \
    principado principality propinsi province provincia provincie provinz qalasy qark raion rajons rayon \
    regiao region regional regione republic republika respublika respublikasi sar savivaldybe shaary shahri \
    sheng shi special stadt stat state stolitsa territoire territory teukbyeolsi union urban vilayet \
    viloyat viloyati voblasc voblast voivodeship welayaty wilaya wilayat wojewodztwo zizhiqu zupanija";

/// Words that tell nothing at all.
const PARTICLES: &str = "a ad al an ar as ash at az and d da das de del der des di do dos du e el i l la le les of og \
    the und y";

/// Generic words that mean a city, not the land around one.
const CITY_WORDS: [&str; 9] =
    ["city", "cidade", "ciudad", "gorod", "grad", "horad", "qalasy", "shaary", "shahri"];

/// Generic words that mean the land around a city, not the city.
const LAND_WORDS: [&str; 14] = [
    "county",
    "governorate",
    "krai",
    "kray",
    "novads",
    "oblast",
    "oblysy",
    "province",
    "provincia",
    "region",
    "republic",
    "state",
    "viloyati",
    "voblast",
];

#[derive(Debug)]
struct Unit {
    code: &'static str,
    /// The kind of subdivision, in small letters.
    kind: String,
    parent: Option<&'static str>,
}

impl Unit {
    fn reached_by(&self, rule: Rule) -> Match {
        match self.parent {
            Some(parent) if !SECOND_LEVEL_GOVERNS.contains(&&self.code[..2]) => {
                Match { code: parent, rule: Rule::Parent }
            }
            _ => Match { code: self.code, rule },
        }
    }
}

/// All names of one country, folded.
#[derive(Default)]
struct Names {
    exact: HashMap<String, Vec<&'static Unit>>,
    bare: HashMap<String, Vec<&'static Unit>>,
    exonyms: HashMap<String, &'static str>,
    /// Exonyms that have no generic words, for names that do; `None` where two codes share one.
    bare_exonyms: HashMap<String, Option<&'static str>>,
}

static UNITS: LazyLock<HashMap<&'static str, Unit>> = LazyLock::new(|| {
    let mut parents = HashMap::new();
    for (parent, ends) in PARENTS {
        for end in ends.split_whitespace() {
            parents.insert(format!("{}-{end}", &parent[..2]), *parent);
        }
    }
    SUBDIVISION_MAP
        .values()
        .map(|entry| {
            let kind = entry.subdivision_type.to_lowercase();
            (entry.code, Unit { code: entry.code, kind, parent: parents.get(entry.code).copied() })
        })
        .collect()
});

static NAMES: LazyLock<HashMap<&'static str, Names>> = LazyLock::new(|| {
    let mut names: HashMap<&'static str, Names> = HashMap::new();
    for entry in SUBDIVISION_MAP.values() {
        let unit = &UNITS[entry.code];
        let of_country = names.entry(&entry.code[..2]).or_default();
        for variant in variants(entry.name) {
            let folded = fold(&variant);
            let (bare, _) = strip(&folded);
            if !bare.is_empty() {
                add(&mut of_country.bare, bare, unit);
            }
            add(&mut of_country.exact, folded, unit);
        }
    }
    for (country, name, code) in EXONYMS {
        let of_country = names.entry(country).or_default();
        let folded = fold(name);
        let (bare, removed) = strip(&folded);
        if removed.is_empty() {
            let slot = of_country.bare_exonyms.entry(bare).or_insert(Some(code));
            if *slot != Some(code) {
                *slot = None;
            }
        }
        of_country.exonyms.insert(folded, code);
    }
    names
});

fn add(map: &mut HashMap<String, Vec<&'static Unit>>, key: String, unit: &'static Unit) {
    let units = map.entry(key).or_default();
    if !units.iter().any(|other| other.code == unit.code) {
        units.push(unit);
    }
}

/// The standard's name and its readings: "Madrid, Comunidad de" is also "Comunidad de Madrid", and where a name in a
/// second language or an explanation is added, the parts are names too.
fn variants(name: &str) -> BTreeSet<String> {
    let mut variants = BTreeSet::from([name.to_owned()]);
    for part in name.split(" / ").flat_map(|part| part.split(['[', ']', '('])) {
        let part = part.trim();
        if part.ends_with(')') || part.is_empty() {
            continue;
        }
        variants.insert(part.to_owned());
        if let Some((last, first)) = part.split_once(", ") {
            variants.insert(format!("{first} {last}"));
        }
    }
    variants
}

/// Small letters without accents, words apart by one space.
fn fold(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    for letter in name.nfkd().filter(|letter| !is_combining_mark(*letter)).flat_map(char::to_lowercase) {
        match letter {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'þ' => folded.push_str("th"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' | 'ð' => folded.push('d'),
            'ħ' => folded.push('h'),
            'ı' => folded.push('i'),
            'ə' | 'ǝ' => folded.push('a'),
            '\'' | '’' | '‘' | '`' | '´' | 'ʻ' | 'ʼ' | 'ʹ' | 'ʿ' | 'ʾ' | '′' | '.' => {}
            letter if letter.is_alphanumeric() => folded.push(letter),
            _ if folded.ends_with(' ') || folded.is_empty() => {}
            _ => folded.push(' '),
        }
    }
    folded.truncate(folded.trim_end().len());
    folded
}

/// What is left without generic words and particles, and the generic words that went.
fn strip(folded: &str) -> (String, Vec<&str>) {
    static WORDS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| GENERIC.split_whitespace().collect());
    static SMALL: LazyLock<BTreeSet<&str>> = LazyLock::new(|| PARTICLES.split_whitespace().collect());
    let mut removed = Vec::new();
    let mut left = Vec::new();
    for word in folded.split(' ') {
        if WORDS.contains(word) {
            removed.push(word);
        } else if !SMALL.contains(word) {
            left.push(word);
        }
    }
    (left.join(" "), removed)
}

/// Whether a name that had these generic words may mean this unit: "Quezon City" is not the province of Quezon, "Zagreb
/// County" not the city of Zagreb, and a "Province Nord" no department of France.
fn fits(unit: &Unit, removed: &[&str]) -> bool {
    let city = unit.kind.contains("city") || unit.kind.contains("capital");
    if removed.iter().any(|word| CITY_WORDS.contains(word)) && !city && !unit.kind.contains("municipality") {
        return false;
    }
    if removed.iter().any(|word| LAND_WORDS.contains(word)) && unit.kind.contains("city") {
        return false;
    }
    // Russia's Altai is twice: a republic, and a krai, which the standard calls a territory.
    for (word, kind) in
        [("krai", "territory"), ("kray", "territory"), ("republic", "republic"), ("respublika", "republic")]
    {
        if removed.contains(&word) && !unit.kind.contains(kind) {
            return false;
        }
    }
    unit.parent.is_none() || removed.iter().all(|word| unit.kind.split(' ').any(|kind| kind == *word))
}

/// The one unit that is meant: the only one of the level that counts, else one of the other level.
fn pick<'a>(country: &str, units: &[&'a Unit]) -> Option<&'a Unit> {
    let (second, first): (Vec<&Unit>, Vec<&Unit>) = units.iter().partition(|unit| unit.parent.is_some());
    let second_governs = SECOND_LEVEL_GOVERNS.contains(&country);
    match (first.as_slice(), second.as_slice()) {
        ([_], [only]) if second_governs => Some(only),
        ([only], _) => Some(only),
        ([], [only]) => Some(only),
        ([], [one, others @ ..])
            if !second_governs && others.iter().all(|other| other.parent == one.parent) =>
        {
            Some(one)
        }
        _ => None,
    }
}

/// What the city decides: `None` where the region's name is clear without it, `Some(None)` where not even the city
/// tells.
fn by_city(country: &str, region: &str, city: Option<&str>) -> Option<Option<&'static str>> {
    let city = city.map(|city| fold(city.split('(').next().unwrap_or(city)));
    if let Some(twin) = TWINS.iter().find(|twin| twin.country == country && fold(twin.region) == region) {
        return Some(match city {
            Some(city) if city == fold(twin.city) => Some(twin.inside),
            Some(_) => twin.outside,
            None => None,
        });
    }
    WIDE.iter().find(|(of, name)| *of == country && fold(name) == region)?;
    let city = city?;
    Some(TOWNS.iter().find(|(of, name, _)| *of == country && fold(name) == city).map(|(_, _, code)| *code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(country: &str, region: &str, expected: Option<(&str, Rule)>) {
        check_city(country, region, None, expected);
    }

    #[track_caller]
    fn check_city(country: &str, region: &str, city: Option<&str>, expected: Option<(&str, Rule)>) {
        let country: [u8; 2] = country.as_bytes().try_into().unwrap();
        let found = code(country, region, city).map(|found| (found.code, found.rule));
        assert_eq!(found, expected, "{region}");
    }

    #[test]
    fn the_standards_own_names() {
        check("US", "California", Some(("US-CA", Rule::Exact)));
        check("US", "new york", Some(("US-NY", Rule::Accents)));
        check("BR", "Sao Paulo", Some(("BR-SP", Rule::Accents)));
        check("FR", "Ile-de-France", Some(("FR-IDF", Rule::Accents)));
        check("DE", "Baden-Wurttemberg", Some(("DE-BW", Rule::Accents)));
        check("JP", "Tokyo", Some(("JP-13", Rule::Exact)));
        check("GB", "England", Some(("GB-ENG", Rule::Exact)));
        check("IE", "Leinster", Some(("IE-L", Rule::Exact)));
        check("VN", "Thanh Hoa", Some(("VN-21", Rule::Accents)));
    }

    #[test]
    fn other_names() {
        check("DE", "Bavaria", Some(("DE-BY", Rule::Exonym)));
        check("DE", "Hesse", Some(("DE-HE", Rule::Exonym)));
        check("IT", "Lombardy", Some(("IT-25", Rule::Exonym)));
        check("ES", "Andalusia", Some(("ES-AN", Rule::Exonym)));
        check("BE", "Flanders", Some(("BE-VLG", Rule::Exonym)));
        check("FR", "Rhône-Alpes", Some(("FR-ARA", Rule::Exonym)));
        check("RU", "Novosibirsk Oblast", Some(("RU-NVS", Rule::Exonym)));
        check("RU", "Moscow", Some(("RU-MOW", Rule::Exonym)));
        check("RU", "Moscow Oblast", Some(("RU-MOS", Rule::Exonym)));
        check("KR", "Seoul", Some(("KR-11", Rule::Exonym)));
        check("IR", "Isfahan", Some(("IR-10", Rule::Exonym)));
        check("LV", "Jelgava Municipality", Some(("LV-041", Rule::Exonym)));
    }

    #[test]
    fn generic_words_do_not_count() {
        check("CN", "Guangdong", Some(("CN-GD", Rule::GenericWords)));
        check("TR", "Ankara Province", Some(("TR-06", Rule::GenericWords)));
        check("HU", "Pest County", Some(("HU-PE", Rule::GenericWords)));
        check("LV", "Jelgava", Some(("LV-JEL", Rule::Exact)));
        check("AZ", "Yevlax Rayon", None);
        check("KG", "Osh Region", Some(("KG-O", Rule::GenericWords)));
        check("SI", "Urban Municipality of Maribor", Some(("SI-070", Rule::GenericWords)));
        check("IR", "Qom Province", Some(("IR-25", Rule::GenericWords)));
    }

    #[test]
    fn the_second_level_leads_to_the_first_or_stands_for_itself() {
        check("GB", "Kent", Some(("GB-ENG", Rule::Parent)));
        check("IT", "Milano", Some(("IT-25", Rule::Parent)));
        check("FR", "Finistère", Some(("FR-BRE", Rule::Parent)));
        check("ES", "Madrid", Some(("ES-MD", Rule::Exonym)));
        check("ES", "Sevilla", Some(("ES-AN", Rule::Parent)));
        check("LT", "Vilnius", Some(("LT-VL", Rule::Exonym)));
        check("ID", "West Java", Some(("ID-JB", Rule::Exonym)));
        check("ID", "Papua", Some(("ID-PA", Rule::Exact)));
        check("ID", "Riau Islands", Some(("ID-KR", Rule::Exonym)));
        check("IQ", "Erbil", Some(("IQ-AR", Rule::Exonym)));
    }

    #[test]
    fn the_city_decides_between_a_capital_and_its_land() {
        check_city("UA", "Kyiv", Some("Kyiv"), Some(("UA-30", Rule::City)));
        check_city("UA", "Kyiv", Some("Boryspil"), Some(("UA-32", Rule::City)));
        check_city("UA", "Kyiv", None, None);
        check_city("BY", "Minsk", Some("Minsk (Frunzienski rajon)"), Some(("BY-HM", Rule::City)));
        check_city("AR", "Buenos Aires", Some("La Plata"), Some(("AR-B", Rule::City)));
        check_city("TW", "Taiwan", Some("Taipei"), Some(("TW-TPE", Rule::City)));
        check_city("TW", "Taipei", Some("Banqiao District"), Some(("TW-NWT", Rule::City)));
        check_city("TW", "Taiwan", Some("Somewhere"), None);
        check_city("RS", "Central Serbia", Some("Belgrade (Vracar)"), Some(("RS-00", Rule::City)));
    }

    #[test]
    fn nothing_is_guessed() {
        check("PH", "Quezon City", None);
        check("FR", "Province Nord", None);
        check("RU", "Altai", None);
        check("RU", "Altay Kray", Some(("RU-ALT", Rule::Exonym)));
        check("MC", "Commune de Monaco", None);
        check("RU", "Crimea", None);
        check("HK", "Kowloon", None);
        check("NO", "Akershus", None);
        check("US", "", None);
        check("US", "Region", None);
        check("ZZ", "California", None);
    }

    #[test]
    fn no_exonym_contradicts_the_standard() {
        for (country, name, code) in EXONYMS {
            let Some(units) = NAMES[country].exact.get(&fold(name)) else { continue };
            if let Some(unit) = pick(country, units) {
                assert_eq!(unit.reached_by(Rule::Exact).code, *code, "{country} {name}");
            }
        }
    }

    #[test]
    fn every_name_of_the_first_level_finds_its_own_or_nothing() {
        let mut found = 0;
        for unit in UNITS.values().filter(|unit| unit.parent.is_none()) {
            let country = unit.code.as_bytes()[..2].try_into().unwrap();
            let expected = name(unit.code);
            if let Some(itself) = code(country, expected.unwrap(), None) {
                assert_eq!(name(itself.code), expected, "{} by {:?}", unit.code, itself.rule);
                found += 1;
            }
        }
        assert!(found > 3_500, "{found}");
    }

    #[test]
    fn a_code_has_its_name() {
        assert_eq!(name("US-CA"), Some("California"));
        assert_eq!(name("US-XX"), None);
        assert!(known("GB-ENG") && !known("GB") && !known(""));
    }
}
