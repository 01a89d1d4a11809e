//! What sources leave out, from tables of our own: facts of countries, codes of regions, time zones.

pub mod countries;
mod country_zones;
mod exonyms;
mod parents;
pub mod regions;
mod towns;
pub mod zones;
