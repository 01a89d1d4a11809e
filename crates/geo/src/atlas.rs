//! `Atlas`: a snapshot in memory, and the way from an address to its place and its network.

use crate::about::About;
use crate::draft::{Draft, Origin};
use crate::error::Error;
use crate::file::{Column, File};
use crate::ranges;
use crate::rows::{self, Area, NetworkRow, PlaceRow, Spot, Texts, TextsBuilder};
use crate::table::Table;
use crate::v4::{V4, V4Builder};
use crate::v6::{V6, V6Builder};
use ipse_model::{Address, Network, Place, Written, WrittenNetwork, WrittenPlace, Zone, unquoted};
use std::net::IpAddr;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Everything that is known about addresses. It never changes; a reload makes another one.
pub struct Atlas {
    about: About,
    version: String,
    zones: Vec<Zone>,
    areas: Vec<Area>,
    area_records: Vec<Place>,
    places: Table<[u32; 8]>,
    texts: Texts,
    networks: Vec<NetworkRow>,
    spots: Table<[u32; 2]>,
    v4: V4,
    v6: V6,
}

/// What the atlas knows about one address: a light handle, from which a page or an answer takes what it needs.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    atlas: &'a Atlas,
    spot: Spot,
}

impl Atlas {
    /// The atlas of an installation without data.
    #[must_use]
    pub fn empty() -> Self {
        let mut nothing = V6Builder::new(1);
        nothing.push(0, 0);
        Self {
            about: About::default(),
            version: "none".to_owned(),
            zones: Vec::new(),
            areas: Vec::new(),
            area_records: Vec::new(),
            places: Table::zeros(0),
            texts: TextsBuilder::default().finish(),
            networks: Vec::new(),
            spots: Table::zeros(1),
            v4: V4Builder::new().finish(&[]),
            v6: nothing.finish(),
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

    /// Reads a snapshot whole, checks it and builds its tables. Both families of addresses have a thread of their own, so
    /// that a start takes half as long where there are two cores.
    pub fn read(snapshot: &[u8]) -> Result<Self, Error> {
        let file = File::open(snapshot)?;
        let spot_count = file.unpacked_length(Column::SpotNetworks) / 3;
        std::thread::scope(|scope| {
            let v4 = beside(scope, || ranges::v4(&file, spot_count))?;
            let v6 = beside(scope, || ranges::v6(&file, spot_count))?;
            let about = rows::about(&file)?;
            let zones = rows::zones(&file)?;
            let mut texts = TextsBuilder::default();
            let area_records = rows::area_records(&file)?;
            let areas = rows::areas(&area_records, &mut texts)?;
            let places = rows::places(&file, areas.len(), zones.len(), &mut texts)?;
            let networks = rows::networks(&file, &mut texts)?;
            let spots = rows::spots(&file, places.len(), networks.len())?;
            let texts = texts.finish();
            let version = file.checksum();
            let (v4, v6) = (done(v4)?, done(v6)?);
            Ok(Self { about, version, zones, areas, area_records, places, texts, networks, spots, v4, v6 })
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
    pub fn find(&self, address: Address) -> Found<'_> {
        let spot = match address.ip() {
            // What is not global was taken out of the table.
            IpAddr::V4(ip) => self.v4.find(ip.into()),
            IpAddr::V6(_) if !address.is_global() => return Found { atlas: self, spot: Spot::NOWHERE },
            IpAddr::V6(ip) => self.v6.find(ip.into()),
        };
        self.at(spot)
    }

    /// What is known at a spot.
    pub(crate) fn at(&self, spot: u32) -> Found<'_> {
        Found { atlas: self, spot: Spot::of(self.spots[spot as usize]) }
    }

    pub(crate) fn spot_count(&self) -> usize {
        self.spots.len()
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
    pub fn written(self) -> Written<'a> {
        Written {
            place: self.place_row().map(|row| self.written_place(row)),
            network: self.written_network(),
        }
    }

    /// The place with all its fields.
    #[must_use]
    pub fn place(self) -> Option<Place> {
        let row = self.place_row()?;
        let written = self.written_place(row);
        Some(Place {
            city: written.city.map(unquoted),
            position: written.position,
            zone: written.zone.cloned(),
            postal_code: written.postal_code.map(unquoted),
            ..self.atlas.area_records[row.area()].clone()
        })
    }

    /// The network with all its fields.
    #[must_use]
    pub fn network(self) -> Option<Network> {
        let WrittenNetwork { system, proxy, hosting } = self.written_network()?;
        let (asn, org) = system_parts(system)?;
        Some(Network { asn, org, proxy, hosting })
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self.spot.place == 0 && self.spot.network == 0
    }

    pub(crate) fn spot(self) -> Spot {
        self.spot
    }

    fn place_row(self) -> Option<PlaceRow> {
        let index = (self.spot.place as usize).checked_sub(1)?;
        Some(PlaceRow::of(self.atlas.places[index]))
    }

    fn network_row(self) -> Option<&'a NetworkRow> {
        let index = (self.spot.network as usize).checked_sub(1)?;
        Some(&self.atlas.networks[index])
    }

    fn written_network(self) -> Option<WrittenNetwork<'a>> {
        let NetworkRow { system, proxy, hosting } = self.network_row()?;
        let system = self.atlas.texts.get(*system).unwrap_or_default();
        Some(WrittenNetwork { system, proxy: *proxy, hosting: *hosting })
    }

    fn written_place(self, row: PlaceRow) -> WrittenPlace<'a> {
        let Atlas { areas, zones, texts, .. } = self.atlas;
        let area = &areas[row.area()];
        WrittenPlace {
            city: texts.get(row.city()),
            area: texts.get(area.names).unwrap_or_default(),
            country: texts.get(area.country).unwrap_or_default(),
            position: row.position(),
            zone: row.zone().map(|zone| &zones[zone]),
            postal_code: texts.get(row.postal_code()),
        }
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
