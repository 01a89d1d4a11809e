//! `Atlas`: a snapshot in memory, and the way from an address to its place and its network.

use crate::about::About;
use crate::draft::{Draft, Origin};
use crate::error::Error;
use crate::file::File;
use crate::ranges;
use crate::rows::{self, Area, NetworkRow, PlaceRow, Spot, Texts};
use crate::v4::V4;
use crate::v6::V6;
use ipse_model::{Address, Network, Place, Written, WrittenNetwork, WrittenPlace, Zone, unquoted};
use std::net::IpAddr;

/// Everything that is known about addresses. It never changes; a reload makes another one.
pub struct Atlas {
    about: About,
    version: String,
    zones: Vec<Zone>,
    areas: Vec<Area>,
    places: Vec<PlaceRow>,
    texts: Texts,
    networks: Vec<NetworkRow>,
    spots: Vec<Spot>,
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
        Self {
            about: About::default(),
            version: "none".to_owned(),
            zones: Vec::new(),
            areas: Vec::new(),
            places: Vec::new(),
            texts: Texts::default(),
            networks: Vec::new(),
            spots: vec![Spot::NOWHERE],
            v4: V4::new(&[(0, 0)]),
            v6: V6::new(&[(0, 0)]),
        }
    }

    /// An atlas in which everybody is at the same place and on the same network: for examples and for trying things.
    #[must_use]
    pub fn uniform(place: Option<&Place>, network: Option<&Network>) -> Self {
        let mut draft = Draft::new(About::default());
        let place = place.map(|place| draft.place(place, Origin::new()));
        let network = network.map(|network| draft.network(network.clone(), Origin::new()));
        for (first, last) in
            [("0.0.0.0", "255.255.255.255"), ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")]
        {
            if let (Ok(first), Ok(last)) = (first.parse(), last.parse()) {
                // The only range of its family is in order.
                let _ = draft.range(first, last, place, network);
            }
        }
        // What was just written is read.
        draft.write().ok().and_then(|snapshot| Self::read(&snapshot).ok()).unwrap_or_default()
    }

    /// Reads a snapshot whole, checks it and builds its tables.
    pub fn read(snapshot: &[u8]) -> Result<Self, Error> {
        let file = File::open(snapshot)?;
        let about = rows::about(&file)?;
        let zones = rows::zones(&file)?;
        let areas = rows::areas(&file)?;
        let mut texts = Texts::default();
        let places = rows::places(&file, areas.len(), zones.len(), &mut texts)?;
        let networks = rows::networks(&file)?;
        let spots = rows::spots(&file, places.len(), networks.len())?;
        let v4 = V4::new(&ranges::v4(&file, spots.len())?);
        let v6 = V6::new(&ranges::v6(&file, spots.len())?);
        Ok(Self { about, version: file.checksum(), zones, areas, places, texts, networks, spots, v4, v6 })
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
        if !address.is_global() {
            return Found { atlas: self, spot: Spot::NOWHERE };
        }
        let spot = match address.ip() {
            IpAddr::V4(ip) => self.v4.find(ip.into()),
            IpAddr::V6(ip) => self.v6.find(ip.into()),
        };
        Found { atlas: self, spot: self.spots[spot as usize] }
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
            ..self.atlas.areas[row.area as usize].record.clone()
        })
    }

    /// The network with all its fields.
    #[must_use]
    pub fn network(self) -> Option<&'a Network> {
        self.network_row().map(|row| &row.record)
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self.spot.place == 0 && self.spot.network == 0
    }

    pub(crate) fn spot(self) -> Spot {
        self.spot
    }

    fn place_row(self) -> Option<&'a PlaceRow> {
        let index = (self.spot.place as usize).checked_sub(1)?;
        Some(&self.atlas.places[index])
    }

    fn network_row(self) -> Option<&'a NetworkRow> {
        let index = (self.spot.network as usize).checked_sub(1)?;
        Some(&self.atlas.networks[index])
    }

    fn written_network(self) -> Option<&'a WrittenNetwork> {
        self.network_row().map(|row| &row.written)
    }

    fn written_place(self, row: &'a PlaceRow) -> WrittenPlace<'a> {
        let Atlas { areas, zones, texts, .. } = self.atlas;
        WrittenPlace {
            city: texts.get(row.city),
            area: &areas[row.area as usize].written,
            position: row.position(),
            zone: usize::from(row.zone).checked_sub(1).map(|zone| &zones[zone]),
            postal_code: texts.get(row.postal_code),
        }
    }
}
