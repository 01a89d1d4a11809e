//! What sources leave out, from tables of our own: facts of countries, codes of regions, time zones.

pub(crate) mod countries;
mod country_zones;
mod exonyms;
mod parents;
pub(crate) mod regions;
mod towns;
pub(crate) mod zones;
