//! What every peer is given and asked: the same data, keys, addresses and certificate.

use crate::cores::Cores;
use crate::mmdb::Files;
use crate::{keys, load, truth};
use anyhow::{Context, Result};
use ipse_geo::Atlas;
use ipse_model::{Address, KeyText};
use ipse_testkit::{Authority, Random, Vouched};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use tempfile::TempDir;

/// The same in every run: how long a lookup takes depends on what is looked up.
const SEED: u64 = 7;
/// Of a run that counts.
const KEYS: usize = 20_000;
const ADDRESSES: usize = 1_000_000;
/// Of the tests.
const SHORT_KEYS: usize = 200;
const SHORT_ADDRESSES: usize = 2_000;

pub(crate) struct Stage {
    pub(crate) cores: Cores,
    pub(crate) atlas: Atlas,
    pub(crate) files: Files,
    pub(crate) keys: Vec<KeyText>,
    pub(crate) keys_file: PathBuf,
    pub(crate) addresses_file: PathBuf,
    pub(crate) certificate: Vouched,
    /// Another build of ipse, where two are compared.
    pub(crate) base: Option<PathBuf>,
    addresses: Vec<Ipv4Addr>,
    folder: TempDir,
    _authority: Authority,
}

impl Stage {
    /// With all of the default data. What is written of it is kept beside this program for the next time.
    pub(crate) fn whole() -> Result<Self> {
        Self::of_keys(KEYS)
    }

    /// The same with so many keys.
    pub(crate) fn of_keys(keys: usize) -> Result<Self> {
        Self::new(keys, ADDRESSES, |snapshot, atlas, _, _| {
            let folder = std::env::current_exe()?.with_file_name("bench-data").join(atlas.version());
            let files = Files::in_folder(&folder);
            if !(files.places.is_file() && files.networks.is_file()) {
                std::fs::create_dir_all(&folder)?;
                files.write_all(snapshot, atlas)?;
            }
            Ok(files)
        })
    }

    /// With as much of it as a few requests need.
    pub(crate) fn short() -> Result<Self> {
        Self::new(SHORT_KEYS, SHORT_ADDRESSES, |_, atlas, addresses, folder| {
            let files = Files::in_folder(folder.path());
            files.write_some(atlas, addresses)?;
            Ok(files)
        })
    }

    fn new(
        keys: usize,
        addresses: usize,
        files: impl FnOnce(&[u8], &Atlas, &[Ipv4Addr], &TempDir) -> Result<Files>,
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let variable = "XTASK_DEFAULT_DATA";
        let path = std::env::var_os(variable)
            .with_context(|| format!("{variable} is not set: start this with `cargo xtask bench`"))?;
        let snapshot = std::fs::read(&path).with_context(|| {
            format!("cannot read {}: `cargo xtask default-data` makes it", path.display())
        })?;
        let atlas = Atlas::read(&snapshot)?;
        let addresses = some_addresses(&atlas, addresses);
        let files = files(&snapshot, &atlas, &addresses, &folder)?;
        let keys = keys::texts(keys, SEED);
        let (keys_file, addresses_file) = (folder.path().join("keys"), folder.path().join("addresses"));
        load::write_lists((&keys_file, &keys), (&addresses_file, &addresses))?;
        let authority = Authority::new("ipse-bench")?;
        let certificate = authority.vouch("127.0.0.1")?;
        Ok(Self {
            cores: Cores::found()?,
            atlas,
            files,
            keys,
            keys_file,
            addresses_file,
            certificate,
            base: None,
            addresses,
            folder,
            _authority: authority,
        })
    }

    /// A folder that nobody has used.
    pub(crate) fn fresh_folder(&self) -> Result<PathBuf> {
        Ok(tempfile::tempdir_in(self.folder.path())?.keep())
    }

    /// One of the addresses that are asked for.
    pub(crate) fn address(&self, number: usize) -> Ipv4Addr {
        self.addresses[number % self.addresses.len()]
    }

    /// The zones of all addresses that are asked for, and how many seconds they are ahead of UTC now.
    pub(crate) fn zones(&self) -> BTreeMap<String, i32> {
        let now = truth::now();
        let zone = |ip: &Ipv4Addr| {
            let found = self.atlas.find(Address::new((*ip).into())).written();
            let zone = found.zone?;
            Some((zone.name().to_owned(), zone.offset_seconds(now)?))
        };
        self.addresses.iter().filter_map(zone).collect()
    }
}

/// Addresses at random, each with the same chance, out of all that something is known of.
fn some_addresses(atlas: &Atlas, count: usize) -> Vec<Ipv4Addr> {
    let mut random = Random::new(SEED);
    let mut draw = || loop {
        let [a, b, c, d, ..] = random.next().to_le_bytes();
        let ip = Ipv4Addr::new(a, b, c, d);
        if !atlas.find(Address::new(ip.into())).is_nothing() {
            return ip;
        }
    };
    (0..count).map(|_| draw()).collect()
}
