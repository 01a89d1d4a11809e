//! `Atlas`: a snapshot in memory, and the way from an address to its place and its network.

use crate::about::About;
use crate::draft::{Draft, Origin};
use crate::error::Error;
use crate::file::{Column, File};
use crate::ranges;
use crate::rows::{self, Row, Spot, Texts, TextsBuilder, Words};
use crate::table::Table;
use crate::v4::{V4, V4Builder};
use crate::v6::{V6, V6Builder};
use ipse_model::{Address, Area, Network, Place, Written, Zone, unquoted};
use std::hint::black_box;
use std::net::IpAddr;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// As many are foreseen together.
const FORESEEN_AT_ONCE: usize = 64;

/// Everything that is known about addresses. It never changes; a reload makes another one.
pub struct Atlas {
    about: About,
    version: String,
    zones: Vec<Zone>,
    areas: Vec<Area>,
    area_records: Vec<Place>,
    texts: Texts,
    rows: Table<Words>,
    v4: V4,
    v6: V6,
}

/// What the atlas knows about one address: a light handle, from which a page or an answer takes what it needs.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    atlas: &'a Atlas,
    spot: u32,
}

impl Atlas {
    /// The atlas of an installation without data.
    #[must_use]
    pub fn empty() -> Self {
        let mut texts = TextsBuilder::new();
        let mut nowhere = V6Builder::new(1);
        nowhere.push(0, 0);
        Self {
            about: About::default(),
            version: "none".to_owned(),
            zones: Vec::new(),
            areas: vec![Area::of(&Place::default())],
            area_records: vec![Place::default()],
            rows: rows::rows(&[Spot::default()], &[rows::no_place()], &[rows::no_network(&mut texts)]),
            texts: texts.finish(),
            v4: V4Builder::new(1, 0).finish(&[]),
            v6: nowhere.finish(),
        }
    }

    /// An atlas that knows these addresses alone, in ascending order, all at the same place and on the same network: for
    /// examples and for trying things.
    #[must_use]
    pub fn of(addresses: &[IpAddr], place: Option<&Place>, network: Option<&Network>) -> Self {
        let mut draft = Draft::new(About::default());
        let place = place.map(|place| draft.place(place, Origin::new()));
        let network = network.map(|network| draft.network(network.clone(), Origin::new()));
        for address in addresses {
            // One that is not in order is not known.
            let _ = draft.range(*address, *address, place, network);
        }
        // What was just written is read.
        draft.write().ok().and_then(|snapshot| Self::read(&snapshot).ok()).unwrap_or_default()
    }

    /// Reads a snapshot whole, checks it and builds its tables, on this thread alone, beside those that answer.
    pub fn read(snapshot: &[u8]) -> Result<Self, Error> {
        let file = File::open(snapshot)?;
        let spots = spot_count(&file);
        Ok(Self {
            v4: ranges::v4(&file, spots)?,
            v6: ranges::v6(&file, spots)?,
            ..Self::without_ranges(&file)?
        })
    }

    /// The same for a start, which everybody waits for: both families of addresses have a thread of their own.
    pub fn read_at_start(snapshot: &[u8]) -> Result<Self, Error> {
        let file = File::open(snapshot)?;
        let spots = spot_count(&file);
        std::thread::scope(|scope| {
            let v4 = beside(scope, || ranges::v4(&file, spots))?;
            let v6 = beside(scope, || ranges::v6(&file, spots))?;
            let atlas = Self::without_ranges(&file)?;
            Ok(Self { v4: done(v4)?, v6: done(v6)?, ..atlas })
        })
    }

    /// An atlas whose addresses are all nowhere yet.
    fn without_ranges(file: &File<'_>) -> Result<Self, Error> {
        let zones = rows::zones(file)?;
        let mut texts = TextsBuilder::new();
        let area_records = rows::area_records(file)?;
        let areas: Vec<Area> = area_records.iter().map(Area::of).collect();
        let places = rows::places(file, areas.len() - 1, zones.len(), &mut texts)?;
        let networks = rows::networks(file, &mut texts)?;
        let spots = rows::spots(file, places.len() - 1, networks.len() - 1)?;
        Ok(Self {
            about: rows::about(file)?,
            version: file.checksum(),
            zones,
            areas,
            area_records,
            texts: texts.finish(),
            rows: rows::rows(&spots, &places, &networks),
            ..Self::empty()
        })
    }

    /// What the snapshot says about itself.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The name of exactly this content.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What is known about an address. An address that nobody can have on the internet is nowhere.
    #[must_use]
    #[inline]
    pub fn find(&self, address: Address) -> Found<'_> {
        let spot = match address.v4() {
            // What is not global was taken out of the table.
            Some(number) => self.v4.find(number),
            None if address.is_global() => self.v6.find(address.number()),
            None => 0,
        };
        self.at(spot)
    }

    /// Looks at what is known about several addresses, a step at a time for all of them. Whoever [finds](Self::find) them next
    /// has it at hand.
    pub fn foresee(&self, addresses: impl Iterator<Item = Address>) {
        let (mut spots, mut sixes) = ([0; FORESEEN_AT_ONCE], [0; FORESEEN_AT_ONCE]);
        let (mut count, mut count_of_sixes) = (0, 0);
        for address in addresses.take(FORESEEN_AT_ONCE) {
            if let Some(number) = address.v4() {
                spots[count] = self.v4.find(number);
                count += 1;
            } else if address.is_global() {
                sixes[count_of_sixes] = address.number();
                count_of_sixes += 1;
            }
        }
        self.v6.find_all(&sixes[..count_of_sixes], |spot| {
            spots[count] = spot;
            count += 1;
        });
        let (mut rows, texts) = ([Words::default(); FORESEEN_AT_ONCE], self.texts.open());
        for (row, spot) in rows.iter_mut().zip(&spots[..count]) {
            *row = self.rows[*spot as usize];
        }
        for row in rows[..count].iter().map(|words| Row::of(*words)) {
            black_box([row.city(), row.postal_code(), row.system()].map(|text| texts.ends(text)));
            black_box(self.areas[row.area()].ends());
        }
    }

    /// What is known at a spot.
    pub(crate) fn at(&self, spot: u32) -> Found<'_> {
        Found { atlas: self, spot }
    }

    pub(crate) fn spot_count(&self) -> usize {
        self.rows.len()
    }
}

impl Default for Atlas {
    fn default() -> Self {
        Self::empty()
    }
}

impl<'a> Found<'a> {
    /// The form for answers.
    #[must_use]
    #[inline]
    pub fn written(self) -> Written<'a> {
        let Atlas { areas, zones, .. } = self.atlas;
        let texts = self.atlas.texts.open();
        let row = self.row();
        Written {
            city: texts.get(row.city()),
            area: &areas[row.area()],
            position: row.position(),
            zone: row.zone().map(|zone| &zones[zone]),
            postal_code: texts.get(row.postal_code()),
            system: texts.get(row.system()),
            proxy: row.proxy(),
            hosting: row.hosting(),
        }
    }

    /// The place with all its fields.
    #[must_use]
    pub fn place(self) -> Option<Place> {
        let Written { city, position, zone, postal_code, .. } = self.written();
        self.row().is_place().then(|| Place {
            city: unquoted(city),
            position,
            zone: zone.cloned(),
            postal_code: unquoted(postal_code),
            ..self.atlas.area_records[self.row().area()].clone()
        })
    }

    /// The network with all its fields.
    #[must_use]
    pub fn network(self) -> Option<Network> {
        let Written { system, proxy, hosting, .. } = self.written();
        let (asn, org) = system_parts(system)?;
        self.row().is_network().then_some(Network { asn, org, proxy, hosting })
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        !self.row().is_place() && !self.row().is_network()
    }

    /// Its number in the snapshot: the same where the same is known.
    #[must_use]
    pub fn spot(self) -> usize {
        self.spot as usize
    }

    fn row(self) -> Row {
        Row::of(self.atlas.rows[self.spot as usize])
    }
}

/// The number and the name out of the part of JSON that holds them.
fn system_parts(system: &[u8]) -> Option<(Option<u32>, Option<String>)> {
    let json = [b"{", system.strip_prefix(b",")?, b"}"].concat();
    let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&json).ok()?;
    let asn = fields.get("asn").and_then(serde_json::Value::as_u64).and_then(|asn| u32::try_from(asn).ok());
    let org = match fields.remove("org") {
        Some(serde_json::Value::String(org)) => Some(org),
        _ => None,
    };
    Some((asn, org))
}

fn spot_count(file: &File<'_>) -> usize {
    file.unpacked_length(Column::SpotNetworks) / 3
}

type Beside<'scope, T> = ScopedJoinHandle<'scope, Result<T, Error>>;

fn beside<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'scope,
) -> Result<Beside<'scope, T>, Error> {
    Ok(Builder::new().name("geo-data".to_owned()).spawn_scoped(scope, work)?)
}

fn done<T>(work: Beside<'_, T>) -> Result<T, Error> {
    let failed = Error::Column { column: "ranges", what: "reading them failed" };
    work.join().unwrap_or(Err(failed))
}
