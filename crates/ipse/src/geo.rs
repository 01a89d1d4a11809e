//! Which geo data is served: the operator's file, the data folder's own, or the one inside the program.

use crate::built_in;
use crate::config::Config;
use crate::error::Error;
use arc_swap::ArcSwap;
use ipse_geo::{About, Atlas, Watched};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The name of the snapshot in the data folder, where updates put it.
const OWN_FILE: &str = "geo.ipse";

/// Where the served snapshot comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From a file.
    File(PathBuf),
    /// From inside the program.
    BuiltIn,
}

/// The file that a server looks for.
pub(crate) fn file(config: &Config) -> PathBuf {
    config.geo_data.clone().unwrap_or_else(|| config.data_dir.join(OWN_FILE))
}

/// What a server tells of the data that it serves as long as its file is not there.
pub(crate) fn without_file(config: &Config) -> Option<About> {
    config.geo_data.is_none().then(|| About::read(built_in::MAPPED).ok()).flatten()
}

/// The bytes of the snapshot that a server with this configuration would serve, and where they come from.
pub(crate) fn bytes(config: &Config) -> Result<(Vec<u8>, Origin), Error> {
    let path = file(config);
    if config.geo_data.is_none() && !path.exists() {
        return Ok((built_in::read().into_owned(), Origin::BuiltIn));
    }
    let bytes = ipse_geo::read_file(&path).map_err(|source| Error::snapshot(&path, source))?;
    Ok((bytes, Origin::File(path)))
}

/// The atlas that is served, and the file that may replace it.
pub struct Geo {
    /// What is served right now.
    pub atlas: Arc<ArcSwap<Atlas>>,
    /// Where it came from.
    pub origin: Origin,
    watched: Watched,
}

impl Geo {
    /// Loads the data to begin with. A file that was asked for must be right; without it, a file that is not gives way
    /// to the data inside the program.
    pub fn load(config: &Config) -> Result<Self, Error> {
        let mut watched = Watched::new(file(config));
        if watched.has_changed() || config.geo_data.is_some() {
            match ipse_geo::read_file(watched.path()).and_then(|bytes| Atlas::read_at_start(&bytes)) {
                Ok(atlas) => return Ok(Self::new(atlas, Origin::File(watched.path().to_owned()), watched)),
                Err(source) if config.geo_data.is_some() => {
                    return Err(Error::snapshot(watched.path(), source));
                }
                Err(error) => tracing::error!(
                    file = %watched.path().display(), %error,
                    "the geo data cannot be used; serving the data inside the program instead"
                ),
            }
        }
        let atlas = Atlas::read_at_start(&built_in::read())
            .map_err(|source| Error::snapshot(Path::new("the data inside the program"), source))?;
        Ok(Self::new(atlas, Origin::BuiltIn, watched))
    }

    /// Serves this atlas until the configuration's file says otherwise. For tests and fault campaigns.
    #[must_use]
    pub fn of(atlas: Atlas, config: &Config) -> Self {
        Self::new(atlas, Origin::BuiltIn, Watched::new(file(config)))
    }

    fn new(atlas: Atlas, origin: Origin, watched: Watched) -> Self {
        Self { atlas: Arc::new(ArcSwap::from_pointee(atlas)), origin, watched }
    }

    /// Takes what is in the file now, if there is another file than before or `asked`. What cannot be used is told, and
    /// the atlas stays. Everything dear happens here, beside the requests; they only see another pointer.
    ///
    /// Says whether something new is served, or could not be; `None` if there was nothing new.
    pub(crate) fn refresh(&mut self, asked: bool) -> Option<bool> {
        if !self.watched.has_changed() && !asked {
            return None;
        }
        let file = self.watched.path().display().to_string();
        let loaded = self.watched.load();
        let is_served = loaded.is_ok();
        match loaded {
            Ok(atlas) => {
                let new = Arc::new(atlas);
                let old = self.atlas.swap(Arc::clone(&new));
                tracing::info!(file, version = new.version(), "new geo data is served");
                give_back(old);
            }
            Err(error) => tracing::warn!(file, %error, "the geo data cannot be used; the old is served on"),
        }
        Some(is_served)
    }
}

/// Gives the memory back here and not during a request: those that still answer from it are soon done.
fn give_back(old: Arc<Atlas>) {
    for _ in 0..100 {
        if Arc::strong_count(&old) == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(old);
}
