//! Campaigns against several real nodes on one real PostgreSQL and one real Redis or Valkey.

mod burst;
pub(crate) mod cost;
mod day;
mod engine;
mod house;
mod outage;
mod spread;

pub(crate) use burst::work as burst;
pub(crate) use day::work as day;
pub(crate) use outage::work as outage;
pub(crate) use spread::work as spread;
