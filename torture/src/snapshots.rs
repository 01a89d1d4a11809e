//! Good snapshots that differ from each other in what every known address is told, and the answers they give.
//!
//! Names of cities, regions, countries and organisations are written in other letters in each, so that an answer that
//! was made of two snapshots is equal to none.

use anyhow::{Context, Result, ensure};
use ipse_geo::{About, Atlas, Draft, Origin};
use ipse_model::{Address, Answer, Client, Degrees, Network, Now, Place, Scope, Zone};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The data that comes with the program.
const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/default.ipse");

/// Where things are in a file, as the format says.
pub(crate) const HEAD: usize = 16;
pub(crate) const ENTRY: usize = 16;
pub(crate) const COLUMNS: usize = 22;
pub(crate) const CHECKSUM: usize = 32;

/// Columns that hold names, and what stands in each of their rows.
const NAMED: [(usize, &[Field]); 4] = [
    (2, &[Field::Text, Field::Name, Field::Text, Field::Text, Field::Number]),
    (3, &[Field::Number, Field::Name, Field::Text]),
    (5, &[Field::Name]),
    (11, &[Field::Number, Field::Name, Field::Number]),
];

#[derive(Clone, Copy)]
enum Field {
    Number,
    Text,
    Name,
}

/// A snapshot that a server must take.
pub(crate) struct Snapshot {
    pub(crate) bytes: Vec<u8>,
    pub(crate) atlas: Atlas,
}

impl Snapshot {
    fn read(bytes: Vec<u8>) -> Result<Self> {
        let atlas = Atlas::read(&bytes)?;
        Ok(Self { bytes, atlas })
    }

    /// What `GET /api/v1/ip` must answer for the scope `geo`, to the byte.
    pub(crate) fn body(&self, ip: IpAddr, now: Now) -> Vec<u8> {
        let address = Address::new(ip);
        // The scope tells nothing of the connection.
        let client =
            Client { address, http: None, tls_version: None, tls_cipher: None, rtt_ms: None, colo: None };
        let found = self.atlas.find(address).written();
        Answer { client: &client, now, found }.for_scope(Scope::Geo)
    }
}

/// Three of the data that comes with the program, or of little data that is quick to read.
pub(crate) fn make(real: bool) -> Result<[Snapshot; 3]> {
    let first = if real { std::fs::read(REAL).with_context(|| REAL.to_owned())? } else { little()? };
    ensure!(column(&first, COLUMNS).0 + CHECKSUM == first.len(), "the format of snapshots has changed");
    let upper = renamed(&first, <[u8]>::make_ascii_uppercase)?;
    let lower = renamed(&first, <[u8]>::make_ascii_lowercase)?;
    Ok([Snapshot::read(first)?, Snapshot::read(upper)?, Snapshot::read(lower)?])
}

/// Puts the checksum at the end of a file that has none.
pub(crate) fn seal(bytes: &mut Vec<u8>) {
    let checksum = Sha256::digest(&*bytes);
    bytes.extend_from_slice(&checksum);
}

/// Where a packed column begins, and its bytes unpacked and packed.
pub(crate) fn column(bytes: &[u8], index: usize) -> (usize, u64, u64) {
    let long = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    let sizes = |index: usize| (long(HEAD + index * ENTRY), long(HEAD + index * ENTRY + 8));
    let before: u64 = (0..index).map(|index| sizes(index).1).sum();
    let (unpacked, packed) = sizes(index);
    (HEAD + COLUMNS * ENTRY + usize::try_from(before).unwrap_or_default(), unpacked, packed)
}

/// The same snapshot with other letters in its names.
fn renamed(bytes: &[u8], change: fn(&mut [u8])) -> Result<Vec<u8>> {
    let mut file = bytes[..HEAD].to_vec();
    let mut packed_columns = Vec::new();
    for index in 0..COLUMNS {
        let (begin, unpacked, packed) = column(bytes, index);
        let mut packed = bytes[begin..begin + usize::try_from(packed)?].to_vec();
        if let Some((_, row)) = NAMED.iter().find(|(named, _)| *named == index) {
            let mut content = zstd::bulk::decompress(&packed, usize::try_from(unpacked)?)?;
            rename(&mut content, row, change)?;
            packed = zstd::bulk::compress(&content, 1)?;
        }
        file.extend_from_slice(&unpacked.to_le_bytes());
        file.extend_from_slice(&(packed.len() as u64).to_le_bytes());
        packed_columns.push(packed);
    }
    packed_columns.iter().for_each(|packed| file.extend_from_slice(packed));
    seal(&mut file);
    Ok(file)
}

fn rename(content: &mut [u8], row: &[Field], change: fn(&mut [u8])) -> Result<()> {
    let mut at = 0;
    while at < content.len() {
        for field in row {
            let number = number(content, &mut at)?;
            let (Field::Text | Field::Name, Some(length)) = (field, number.checked_sub(1)) else { continue };
            let text = content.get_mut(at..at + length).context("a text is cut")?;
            if matches!(field, Field::Name) {
                change(text);
            }
            at += length;
        }
    }
    Ok(())
}

/// Seven bits a byte, the lowest first.
fn number(content: &[u8], at: &mut usize) -> Result<usize> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let byte = *content.get(*at).context("a number is cut")?;
        *at += 1;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    anyhow::bail!("a number is too large")
}

/// Some hundred places all over both families.
fn little() -> Result<Vec<u8>> {
    const PLACES: u32 = 400;
    let mut draft = Draft::new(About::default());
    let mut known = |number: u32, first: IpAddr, last: IpAddr| -> Result<()> {
        let place = Place {
            city: Some(format!("Little Town {number}")),
            region: Some("Somewhere".to_owned()),
            country: Some("GB".to_owned()),
            country_name: Some("United Kingdom".to_owned()),
            position: Degrees::latitude(51.5).zip(Degrees::longitude(f64::from(number) / 10.0)),
            zone: Some(Zone::named("Europe/London")?),
            ..Place::default()
        };
        let network =
            Network { asn: Some(number + 1), org: Some("Example Org".to_owned()), ..Network::default() };
        let (place, network) = (draft.place(&place, Origin::new()), draft.network(network, Origin::new()));
        Ok(draft.range(first, last, Some(place), Some(network))?)
    };
    let step = u32::MAX / PLACES;
    for number in 0..PLACES {
        let first = number * step;
        known(number, Ipv4Addr::from(first).into(), Ipv4Addr::from(first + step / 2).into())?;
    }
    for number in 0..PLACES {
        let first = u128::from(0x2000_0000 + number * (0x2000_0000 / PLACES)) << 96;
        known(number, Ipv6Addr::from(first).into(), Ipv6Addr::from(first + (1 << 116)).into())?;
    }
    Ok(draft.write()?)
}
