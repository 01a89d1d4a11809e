//! The records of a snapshot as they stand in memory, and how they come out of its columns.

use crate::about::About;
use crate::column::{Cursor, from_planes};
use crate::draft::Origin;
use crate::error::Error;
use crate::file::{Column, File};
use crate::table::Table;
use ipse_model::{Degrees, Network, Place, Zone, quote_into, system_names};

/// All that is known of one spot, in eight words, so that a lookup touches one line of cache for it: latitude and
/// longitude; where city, postal code and system begin; the lengths of city and postal code; the area, and one more
/// than the zone's index or 0; the length of the system and the flags.
#[derive(Clone, Copy)]
pub(crate) struct Row(Words);

/// Such words: of a row, or those of it that tell a place, or those that tell a network, and 0 for the others.
pub(crate) type Words = [u32; 8];

/// What a spot has: one more than the indexes of its place and of its network, or 0.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spot {
    pub(crate) place: u32,
    pub(crate) network: u32,
}

/// Parts of JSON, one behind the other.
pub(crate) struct TextsBuilder(Vec<u8>);

/// The same when all are there.
pub(crate) struct Texts(Table<u8>);

/// The same while some of them are taken.
#[derive(Clone, Copy)]
pub(crate) struct OpenTexts<'a>(&'a [u8]);

/// Where a text begins and how long it is, quotes included.
#[derive(Clone, Copy, Default)]
pub(crate) struct TextAt {
    begin: u32,
    length: u16,
}

/// The text for what is not known, which is the first of all.
const NULL: TextAt = TextAt { begin: 0, length: 4 };

/// Few bytes of a hostile file can stand for many of these, and each takes much more memory than bytes. Real snapshots
/// have a few hundred, a few thousand and a few hundred.
const MOST_COUNTRIES: usize = 2_000;
const MOST_AREAS: usize = 60_000;
const MOST_ZONES: usize = 2_000;
const LONGEST_OF_COUNTRY: usize = 100;
/// Ranges name them in three bytes.
const MOST_SPOTS: usize = 1 << 24;

/// Stands for a coordinate that is not known.
pub(crate) const NO_POSITION: i32 = i32::MIN;

const IS_PLACE: u32 = 1 << 16;
const IS_NETWORK: u32 = 1 << 17;
const PROXY_SHIFT: u32 = 18;
const HOSTING_SHIFT: u32 = 20;

impl Row {
    pub(crate) fn of(words: Words) -> Self {
        Self(words)
    }

    pub(crate) fn city(self) -> TextAt {
        TextAt { begin: self.0[2], length: low_half(self.0[5]) }
    }

    pub(crate) fn postal_code(self) -> TextAt {
        TextAt { begin: self.0[3], length: low_half(self.0[5] >> 16) }
    }

    pub(crate) fn system(self) -> TextAt {
        TextAt { begin: self.0[4], length: low_half(self.0[7]) }
    }

    pub(crate) fn area(self) -> usize {
        low_half(self.0[6]).into()
    }

    pub(crate) fn zone(self) -> Option<usize> {
        usize::from(low_half(self.0[6] >> 16)).checked_sub(1)
    }

    pub(crate) fn position(self) -> Option<(Degrees, Degrees)> {
        let [latitude, longitude] = [self.0[0], self.0[1]].map(u32::cast_signed);
        (latitude != NO_POSITION)
            .then(|| (Degrees::from_millionths(latitude), Degrees::from_millionths(longitude)))
    }

    pub(crate) fn is_place(self) -> bool {
        self.0[7] & IS_PLACE != 0
    }

    pub(crate) fn is_network(self) -> bool {
        self.0[7] & IS_NETWORK != 0
    }

    pub(crate) fn proxy(self) -> Option<bool> {
        yes_no_unknown(self.0[7] >> PROXY_SHIFT)
    }

    pub(crate) fn hosting(self) -> Option<bool> {
        yes_no_unknown(self.0[7] >> HOSTING_SHIFT)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn low_half(word: u32) -> u16 {
    word as u16
}

impl Texts {
    pub(crate) fn open(&self) -> OpenTexts<'_> {
        OpenTexts(&self.0)
    }
}

impl<'a> OpenTexts<'a> {
    pub(crate) fn get(self, at: TextAt) -> &'a [u8] {
        let begin = at.begin as usize;
        &self.0[begin..begin + usize::from(at.length)]
    }

    /// The first and the last byte of a text.
    pub(crate) fn ends(self, at: TextAt) -> [Option<u8>; 2] {
        let text = self.get(at);
        [text.first().copied(), text.last().copied()]
    }
}

impl TextsBuilder {
    pub(crate) fn new() -> Self {
        Self(b"null".to_vec())
    }

    pub(crate) fn finish(self) -> Texts {
        Texts(Table::of(&self.0))
    }

    /// Adds a text, unless it is the same as the one before it.
    fn add(&mut self, before: &mut TextAt, text: &str) -> Option<TextAt> {
        let known = before.begin as usize..before.begin as usize + usize::from(before.length);
        if self.0.get(known) != Some(text.as_bytes()) {
            let begin = u32::try_from(self.0.len()).ok()?;
            *before = TextAt { begin, length: u16::try_from(text.len()).ok()? };
            self.0.extend_from_slice(text.as_bytes());
        }
        Some(*before)
    }
}

pub(crate) fn about(file: &File<'_>) -> Result<About, Error> {
    from_json(file, Column::About)
}

pub(crate) fn origins(file: &File<'_>) -> Result<Vec<Origin>, Error> {
    from_json(file, Column::Origins)
}

pub(crate) fn zones(file: &File<'_>) -> Result<Vec<Zone>, Error> {
    let column = file.column(Column::Zones)?;
    let mut cursor = Cursor::new(Column::Zones.name(), &column);
    let mut zones = Vec::new();
    while !cursor.is_at_end() {
        let name = cursor.text()?.unwrap_or_default();
        zones.push(Zone::named(name).map_err(|_| cursor.wrong("a time zone is unknown to this program"))?);
        if zones.len() > MOST_ZONES {
            return Err(cursor.wrong("there are more time zones than on Earth"));
        }
    }
    Ok(zones)
}

/// Places of which only region and country are known. The first of them is nowhere.
pub(crate) fn area_records(file: &File<'_>) -> Result<Vec<Place>, Error> {
    let countries = countries(file)?;
    let column = file.column(Column::Areas)?;
    let mut cursor = Cursor::new(Column::Areas.name(), &column);
    let mut areas = vec![Place::default()];
    while !cursor.is_at_end() {
        let country = cursor.index(countries.len() + 1)? as usize;
        let country = country.checked_sub(1).map(|country| countries[country].clone());
        let region = cursor.text()?.map(str::to_owned);
        let region_code = cursor.text()?.map(str::to_owned);
        areas.push(Place { region, region_code, ..country.unwrap_or_default() });
        if areas.len() > MOST_AREAS {
            return Err(cursor.wrong("there are more regions than on Earth"));
        }
    }
    Ok(areas)
}

/// Places of which only the country is known.
fn countries(file: &File<'_>) -> Result<Vec<Place>, Error> {
    let column = file.column(Column::Countries)?;
    let mut cursor = Cursor::new(Column::Countries.name(), &column);
    let mut countries = Vec::new();
    while !cursor.is_at_end() {
        // Every region repeats them, so they are as short as those of real countries.
        let mut text = || match cursor.text()? {
            Some(text) if text.len() > LONGEST_OF_COUNTRY => Err(cursor.wrong("a text is too long")),
            text => Ok(text.map(str::to_owned)),
        };
        let [country, country_name, continent, currency] = [text()?, text()?, text()?, text()?];
        let is_eu = cursor.index(3)?;
        let is_eu = yes_no_unknown(is_eu);
        countries.push(Place { country, country_name, continent, currency, is_eu, ..Place::default() });
        if countries.len() > MOST_COUNTRIES {
            return Err(cursor.wrong("there are more countries than on Earth"));
        }
    }
    Ok(countries)
}

/// What rows tell of places: of none, and of each.
pub(crate) fn places(
    file: &File<'_>,
    areas: usize,
    zones: usize,
    texts: &mut TextsBuilder,
) -> Result<Vec<Words>, Error> {
    let latitudes = positions(file, Column::PlaceLatitudes, 90_000_000)?;
    let longitudes = positions(file, Column::PlaceLongitudes, 180_000_000)?;
    let columns = [Column::PlaceAreas, Column::PlaceCities, Column::PlaceZones, Column::PlacePostalCodes];
    let [in_areas, cities, in_zones, postal_codes] = columns.map(|column| file.column(column));
    let (in_areas, cities, in_zones, postal_codes) = (in_areas?, cities?, in_zones?, postal_codes?);
    let mut in_areas = Cursor::new(Column::PlaceAreas.name(), &in_areas);
    let mut cities = Cursor::new(Column::PlaceCities.name(), &cities);
    let mut in_zones = Cursor::new(Column::PlaceZones.name(), &in_zones);
    let mut postal_codes = Cursor::new(Column::PlacePostalCodes.name(), &postal_codes);
    if latitudes.len() != longitudes.len() {
        return Err(in_areas.wrong("there are more latitudes than longitudes, or fewer"));
    }
    let mut places = Vec::with_capacity(latitudes.len() + 1);
    places.push(no_place());
    let (mut area, mut city_before, mut postal_code_before) = (0, NULL, NULL);
    let mut quoted = String::new();
    for (latitude, longitude) in latitudes.into_iter().zip(longitudes) {
        if (latitude == NO_POSITION) != (longitude == NO_POSITION) {
            return Err(in_areas.wrong("a place has a latitude and no longitude, or the other way round"));
        }
        area = rising(&mut in_areas, area, areas)?;
        let city = text_at(&mut cities, texts, &mut city_before, &mut quoted)?;
        let postal_code = text_at(&mut postal_codes, texts, &mut postal_code_before, &mut quoted)?;
        places.push([
            latitude.cast_unsigned(),
            longitude.cast_unsigned(),
            city.begin,
            postal_code.begin,
            0,
            two(city.length, postal_code.length),
            // The first area is none. There are fewer than 2¹⁶ of both.
            (area + 1) | in_zones.index(zones + 1)? << 16,
            IS_PLACE,
        ]);
    }
    [in_areas, cities, in_zones, postal_codes].iter().try_for_each(Cursor::end)?;
    Ok(places)
}

/// What rows tell of networks: of none, and of each.
pub(crate) fn networks(file: &File<'_>, texts: &mut TextsBuilder) -> Result<Vec<Words>, Error> {
    let column = file.column(Column::Networks)?;
    let mut cursor = Cursor::new(Column::Networks.name(), &column);
    let mut before = TextAt::default();
    let mut networks = vec![no_network(texts)];
    while !cursor.is_at_end() {
        let asn = cursor.number()?.checked_sub(1);
        let asn = asn.map(u32::try_from).transpose().map_err(|_| cursor.wrong("a number is too large"))?;
        let org = cursor.text()?.map(str::to_owned);
        let flags = cursor.index(9)?;
        let flags = IS_NETWORK | (flags % 3) << PROXY_SHIFT | (flags / 3) << HOSTING_SHIFT;
        let system = texts.add(&mut before, &system_names(&Network { asn, org, ..Network::default() }));
        let system = system.ok_or_else(|| cursor.wrong("a text is too long"))?;
        networks.push(network_words(system, flags));
    }
    Ok(networks)
}

/// What rows tell where no place is known.
pub(crate) fn no_place() -> Words {
    let unknown = NO_POSITION.cast_unsigned();
    [unknown, unknown, NULL.begin, NULL.begin, 0, two(NULL.length, NULL.length), 0, 0]
}

/// What rows tell where no network is known.
pub(crate) fn no_network(texts: &mut TextsBuilder) -> Words {
    let system = texts.add(&mut TextAt::default(), &system_names(&Network::default()));
    network_words(system.unwrap_or_default(), 0)
}

fn network_words(system: TextAt, flags: u32) -> Words {
    [0, 0, 0, 0, system.begin, 0, 0, u32::from(system.length) | flags]
}

fn two(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// The rows of spots, of what rows tell of places and networks.
pub(crate) fn rows(spots: &[Spot], places: &[Words], networks: &[Words]) -> Table<Words> {
    let mut rows = Table::zeros(spots.len());
    for (row, spot) in rows.iter_mut().zip(spots) {
        let (place, network) = (places[spot.place as usize], networks[spot.network as usize]);
        *row = std::array::from_fn(|word| place[word] | network[word]);
    }
    rows
}

/// What each spot has, of that many places and networks.
pub(crate) fn spots(file: &File<'_>, places: usize, networks: usize) -> Result<Vec<Spot>, Error> {
    let (in_places, in_networks) = (file.column(Column::SpotPlaces)?, file.column(Column::SpotNetworks)?);
    let mut in_places = Cursor::new(Column::SpotPlaces.name(), &in_places);
    let mut in_networks = Cursor::new(Column::SpotNetworks.name(), &in_networks);
    let mut spots = Vec::new();
    let mut place = 0;
    while !in_networks.is_at_end() {
        place = rising(&mut in_places, place, places + 1)?;
        let network = in_networks.three_bytes()?;
        spots.push(Spot { place, network: in_networks.below(network.into(), networks + 1)? });
        if spots.len() > MOST_SPOTS {
            return Err(in_networks.wrong("there are more spots than ranges can name"));
        }
    }
    in_places.end()?;
    // Tables begin with the first spot everywhere.
    match spots.first() {
        Some(Spot { place: 0, network: 0 }) => Ok(spots),
        _ => Err(in_places.wrong("the first spot is somewhere")),
    }
}

/// The origins of places or of networks, one for each.
pub(crate) fn origin_indexes(file: &File<'_>, column: Column, origins: usize) -> Result<Vec<u32>, Error> {
    let bytes = file.column(column)?;
    let mut cursor = Cursor::new(column.name(), &bytes);
    let mut indexes = Vec::new();
    while !cursor.is_at_end() {
        indexes.push(cursor.index(origins)?);
    }
    Ok(indexes)
}

fn from_json<T: serde::de::DeserializeOwned>(file: &File<'_>, column: Column) -> Result<T, Error> {
    let bytes = file.column(column)?;
    serde_json::from_slice(&bytes)
        .map_err(|_| Error::Column { column: column.name(), what: "it is not the JSON that is expected" })
}

/// The next of indexes that never fall, written as differences.
fn rising(cursor: &mut Cursor<'_>, before: u32, limit: usize) -> Result<u32, Error> {
    let more = cursor.number()?;
    cursor.below(more.saturating_add(before.into()), limit)
}

fn positions(file: &File<'_>, column: Column, limit: i32) -> Result<Vec<i32>, Error> {
    let positions = from_planes(column.name(), &file.column(column)?)?;
    if positions.iter().all(|at| *at == NO_POSITION || (-limit..=limit).contains(at)) {
        Ok(positions)
    } else {
        Err(Error::Column { column: column.name(), what: "a place is not on Earth" })
    }
}

/// The next text as a JSON string. `quoted` is room that is used again and again.
fn text_at(
    cursor: &mut Cursor<'_>,
    texts: &mut TextsBuilder,
    before: &mut TextAt,
    quoted: &mut String,
) -> Result<TextAt, Error> {
    let Some(text) = cursor.text()? else { return Ok(NULL) };
    quoted.clear();
    quote_into(quoted, text);
    texts.add(before, quoted).ok_or_else(|| cursor.wrong("a text is too long"))
}

fn yes_no_unknown(value: u32) -> Option<bool> {
    const MEANINGS: [Option<bool>; 4] = [None, Some(false), Some(true), None];
    MEANINGS[value as usize & 3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;

    #[track_caller]
    fn check(column: Column, bytes: Vec<u8>, read: impl Fn(&File<'_>) -> Option<Error>, expected: &str) {
        let mut columns: [Vec<u8>; Column::ALL.len()] = Default::default();
        columns[column as usize] = bytes;
        let file = file::write(&columns);
        let error = read(&File::open(&file).unwrap()).unwrap();
        assert!(error.to_string().ends_with(expected), "{error}");
    }

    #[test]
    fn few_bytes_do_not_become_much_memory() {
        let areas = |file: &File<'_>| area_records(file).err();
        check(Column::Areas, vec![0; 3 << 19], areas, "there are more regions than on Earth");
        check(Column::Countries, vec![0; 5 << 14], areas, "there are more countries than on Earth");
        let long = [vec![0xff, 1], vec![b'x'; 254], vec![0; 4]].concat();
        check(Column::Countries, long, areas, "a text is too long");
        let zones = |file: &File<'_>| zones(file).err();
        check(Column::Zones, b"\x04UTC".repeat(3_000), zones, "there are more time zones than on Earth");
    }
}
