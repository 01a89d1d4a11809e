//! `Snapshot`: a file with all that it holds, for an operator who looks into it. Serving needs only the `Atlas`.

use crate::atlas::{Atlas, Found};
use crate::draft::Origin;
use crate::error::Error;
use crate::file::{Column, File};
use crate::rows::{self, Spot};

/// An atlas, and where each of its fields comes from.
pub struct Snapshot {
    /// The tables.
    pub atlas: Atlas,
    /// The bytes of each column: its name, unpacked, packed.
    pub columns: Vec<(&'static str, u64, u64)>,
    spots: Vec<Spot>,
    origins: Vec<Origin>,
    places: Vec<u32>,
    networks: Vec<u32>,
}

impl Snapshot {
    /// Reads a snapshot with the columns that serving leaves out.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let atlas = Atlas::read(bytes)?;
        let file = File::open(bytes)?;
        let origins = rows::origins(&file)?;
        let places = rows::origin_indexes(&file, Column::PlaceOrigins, origins.len())?;
        let networks = rows::origin_indexes(&file, Column::NetworkOrigins, origins.len())?;
        let spots = rows::spots(&file, places.len(), networks.len())?;
        let columns =
            file.sizes().map(|(column, unpacked, packed)| (column.name(), unpacked, packed)).collect();
        Ok(Self { atlas, columns, spots, origins, places, networks })
    }

    /// Which source and which rule gave each field of what was found.
    #[must_use]
    pub fn explain(&self, found: Found<'_>) -> Vec<(&str, &str)> {
        let Some(spot) = self.spots.get(found.spot()) else { return Vec::new() };
        let place = (spot.place as usize).checked_sub(1).and_then(|place| self.places.get(place));
        let network = (spot.network as usize).checked_sub(1).and_then(|network| self.networks.get(network));
        [place, network]
            .into_iter()
            .flatten()
            .flat_map(|origin| &self.origins[*origin as usize])
            .map(|(field, why)| (field.as_str(), why.as_str()))
            .collect()
    }
}
