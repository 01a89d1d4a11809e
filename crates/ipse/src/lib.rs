//! The program: command line, configuration, wiring, start and stop.
//!
//! It is a library as well, so that tests and fault campaigns can run the whole server with a clock of their own.

mod built_in;
mod commands;
mod config;
mod error;
mod geo;
mod logs;
mod nodes;
mod operator;
mod outages;
mod process;
mod server;
mod settings;
mod supervisor;
mod table;
mod update;

pub use commands::run;
pub use config::Config;
pub use error::Error;
pub use geo::{Geo, Origin};
pub use server::Server;
pub use update::{GeoUpdates, LicenceKey, MaxMind, Rhythm, Secret};
