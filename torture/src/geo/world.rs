//! The sources and the snapshot that was built from them, side by side.

use super::asn::AsnTable;
use super::generated;
use super::vendor::Cities;
use anyhow::{Context, Result, ensure};
use ipse_geo::Atlas;
use ipse_geodata::sources::{self, Kind};
use ipse_geodata::{Flags, Recipe};
use ipse_testkit::{Random, Stopwatch};
use maxminddb::Reader;
use std::path::{Path, PathBuf};

/// One world, as the sources tell it and as the snapshot does.
pub(crate) struct World {
    pub(crate) atlas: Atlas,
    pub(crate) cities: Cities,
    pub(crate) networks: AsnTable,
    /// Where the snapshot comes from, for the report.
    pub(crate) told: String,
}

/// What it took to read a snapshot.
pub(crate) struct Loaded {
    pub(crate) seconds: f64,
    /// By how much the process grew.
    pub(crate) mib: f64,
}

/// Vendors' files.
pub(crate) struct Files {
    pub(crate) city: Vec<PathBuf>,
    pub(crate) asn: Vec<PathBuf>,
}

impl World {
    /// The default data and what it is built from; `cargo xtask` fetches that and tells where it is.
    pub(crate) fn real() -> Result<Self> {
        let files = Files { city: paths("XTASK_GEO_CITY")?, asn: paths("XTASK_GEO_ASN")? };
        match default_data()? {
            Some(snapshot) => {
                let told = format!("{} of {} bytes", snapshot.name, snapshot.bytes.len());
                let world = Self::of(&files, &snapshot.bytes, told)?;
                world.is_of(&files)?;
                Ok(world)
            }
            None => Self::built(&files, "a snapshot built just now"),
        }
    }

    /// A small world that follows from a seed.
    pub(crate) fn generated(random: &mut Random) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        Self::built(&generated::write(folder.path(), random)?, "a generated world")
    }

    fn built(files: &Files, told: &str) -> Result<Self> {
        let read = |kind, paths: &[PathBuf]| {
            let read = |path: &PathBuf| anyhow::Ok(sources::read(path, kind, &mut |_| {})?);
            paths.iter().map(read).collect::<Result<Vec<_>>>()
        };
        let mut sources = read(Kind::City, &files.city)?;
        sources.extend(read(Kind::Asn, &files.asn)?);
        let recipe = Recipe { sources: &sources, flags: &Flags::built_in(), built: 0 };
        let snapshot = ipse_geodata::build(&recipe, &mut |_| {})?;
        let told = format!("{told}, of {} bytes", snapshot.len());
        Self::of(files, &snapshot, told)
    }

    fn of(files: &Files, snapshot: &[u8], told: String) -> Result<Self> {
        let open = |path: &PathBuf| anyhow::Ok(Reader::open_readfile(path)?);
        let cities = Cities(files.city.iter().map(open).collect::<Result<_>>()?);
        ensure!(
            cities.of_family(true).is_some() && cities.of_family(false).is_some(),
            "there is no city file of each family"
        );
        Ok(Self { atlas: Atlas::read(snapshot)?, cities, networks: AsnTable::read(&files.asn)?, told })
    }

    /// Whether the snapshot says that it was built from these files: with others nothing would be shown.
    fn is_of(&self, files: &Files) -> Result<()> {
        for path in files.city.iter().chain(&files.asn) {
            let (name, bytes) = (path.file_name().unwrap_or_default(), path.metadata()?.len());
            let same = |source: &ipse_geo::Source| *source.file == *name && source.bytes == bytes;
            ensure!(
                self.atlas.about().sources.iter().any(same),
                "the default data was not built from this {}: run `cargo xtask default-data`",
                name.display()
            );
        }
        Ok(())
    }
}

/// The default data as a file.
pub(crate) struct DefaultData {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// The default data, if there is any.
pub(crate) fn default_data() -> Result<Option<DefaultData>> {
    let path = PathBuf::from(variable("XTASK_DEFAULT_DATA")?);
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(DefaultData { name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(), bytes }))
}

/// Reads a snapshot as a server does.
pub(crate) fn load(snapshot: &[u8]) -> Result<Loaded> {
    let own = Path::new("/proc/self/status");
    let before = resident_mib(own)?;
    let watch = Stopwatch::start();
    let atlas = Atlas::read(snapshot)?;
    let seconds = watch.seconds();
    let mib = resident_mib(own)? - before;
    drop(atlas);
    Ok(Loaded { seconds, mib })
}

/// The resident memory of the process with this `status` file.
pub(crate) fn resident_mib(status: &Path) -> Result<f64> {
    let text = std::fs::read_to_string(status)?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmRSS")?;
    Ok(kib.trim().parse::<f64>()? / 1024.0)
}

fn paths(name: &str) -> Result<Vec<PathBuf>> {
    Ok(std::env::split_paths(&variable(name)?).collect())
}

fn variable(name: &str) -> Result<std::ffi::OsString> {
    std::env::var_os(name).with_context(|| {
        format!("{name} is not set: start this with `cargo xtask`, which fetches the sources")
    })
}
