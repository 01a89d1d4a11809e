//! The one database in a vendor's `.tar.gz`.
//!
//! No name in the archive becomes a path: names are only looked at for their ending.

use super::error::DownloadError;
use flate2::read::MultiGzDecoder;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

const BLOCK: usize = 512;

/// Unpacks the only `.mmdb` file of a `.tar.gz` to `target`, which is replaced in one step or left as it was. An archive
/// that holds more than `largest_bytes` in all is refused. Returns the length of the database.
///
/// It blocks; a server calls it on a thread for that.
pub fn unpack_mmdb(archive: &Path, target: &Path, largest_bytes: u64) -> Result<u64, DownloadError> {
    let failed = |error| DownloadError::file(target, error);
    let packed = File::open(archive).map_err(|error| DownloadError::file(archive, error))?;
    let mut new = OsString::from(target);
    new.push(".unpacking");
    let mut file = File::create(&new).map_err(failed)?;
    let unpacked = copy_database(BufReader::new(packed), &mut file, largest_bytes)
        .map_err(|what| DownloadError::Archive { path: archive.to_owned(), what })
        .and_then(|length| {
            file.sync_all().map_err(failed)?;
            fs::rename(&new, target).map_err(failed)?;
            let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))
                .and_then(|folder| folder.sync_all())
                .map_err(failed)?;
            Ok(length)
        });
    if unpacked.is_err() {
        // What failed is told; that its remains may stay is not worth more.
        let _ = fs::remove_file(&new);
    }
    unpacked
}

/// Copies the database and reads on to the end, where gzip's own checksum stands.
fn copy_database(packed: impl Read, out: &mut File, largest_bytes: u64) -> Result<u64, String> {
    let mut tar = MultiGzDecoder::new(packed).take(largest_bytes.saturating_add(1));
    let mut found = None;
    let walked = walk(&mut tar, out, &mut found).and_then(|()| {
        io::copy(&mut tar, &mut io::sink()).map_err(|error| error.to_string())?;
        Ok(())
    });
    if tar.limit() == 0 {
        return Err(format!("it holds more than {largest_bytes} bytes, the most that is accepted"));
    }
    walked?;
    found.ok_or_else(|| "there is no .mmdb file in it".to_owned())
}

fn walk(tar: &mut impl Read, out: &mut File, found: &mut Option<u64>) -> Result<(), String> {
    let broken = |error: io::Error| error.to_string();
    loop {
        let mut block = [0; BLOCK];
        tar.read_exact(&mut block).map_err(broken)?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let header = Header::read(&block).ok_or("it is no tar archive, or a damaged one")?;
        let mut content = tar.take(header.length);
        let copied = if header.is_database {
            if found.is_some() {
                return Err("there is more than one .mmdb file in it".to_owned());
            }
            *found = Some(header.length);
            io::copy(&mut content, out)
        } else {
            io::copy(&mut content, &mut io::sink())
        };
        if copied.map_err(broken)? != header.length {
            return Err("it ends too early".to_owned());
        }
        let padding = header.length.next_multiple_of(BLOCK as u64) - header.length;
        io::copy(&mut tar.take(padding), &mut io::sink()).map_err(broken)?;
    }
}

/// What we need of a tar header.
struct Header {
    length: u64,
    is_database: bool,
}

impl Header {
    fn read(block: &[u8; BLOCK]) -> Option<Self> {
        let checksum: u64 = block
            .iter()
            .enumerate()
            .map(|(index, byte)| if (148..156).contains(&index) { u64::from(b' ') } else { u64::from(*byte) })
            .sum();
        if octal(&block[148..156])? != checksum {
            return None;
        }
        let length = octal(&block[124..136])?;
        // Beyond this lengths could not be rounded up to blocks.
        if length > u64::MAX / 2 {
            return None;
        }
        let name = block[..100].split(|byte| *byte == 0).next().unwrap_or_default();
        // Links and folders have no content, whatever their length says; extended headers do.
        let is_file = matches!(block[156], b'0' | 0);
        let has_content = is_file || matches!(block[156], b'x' | b'g' | b'L' | b'K');
        Some(Self {
            length: if has_content { length } else { 0 },
            is_database: is_file && name.ends_with(b".mmdb"),
        })
    }
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(if text.is_empty() { "0" } else { text }, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[156] = kind;
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block.extend_from_slice(content);
        block.resize(block.len().next_multiple_of(BLOCK), 0);
        block
    }

    fn packed(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&entries.concat()).unwrap();
        gzip.write_all(&[0; 2 * BLOCK]).unwrap();
        gzip.finish().unwrap()
    }

    fn usual() -> Vec<u8> {
        packed(&[
            entry("pax_global_header", b'g', b"52 comment=a.mmdb\n"),
            entry("GeoLite2-City_20260101/", b'5', b""),
            entry("GeoLite2-City_20260101/LICENSE.txt", b'0', &[b'l'; 700]),
            entry("GeoLite2-City_20260101/GeoLite2-City.mmdb", b'0', &[b'm'; 1025]),
            entry("GeoLite2-City_20260101/COPYRIGHT.txt", b'0', b"c"),
        ])
    }

    /// Unpacks over an old database and returns the result with what is then there.
    fn unpack(archive: &[u8], largest_bytes: u64) -> (Result<u64, String>, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["city.tar.gz", "city.mmdb"].map(|name| folder.path().join(name));
        fs::write(&from, archive).unwrap();
        fs::write(&to, b"old").unwrap();
        let result = unpack_mmdb(&from, &to, largest_bytes);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left behind");
        let shown = result.map_err(|error| error.to_string().replace(&from.display().to_string(), "ARCHIVE"));
        (shown, fs::read(&to).unwrap())
    }

    #[test]
    fn the_database_comes_out_alone() {
        assert_eq!(unpack(&usual(), 100_000), (Ok(1025), vec![b'm'; 1025]));
    }

    #[track_caller]
    fn refused(archive: &[u8], why: &str) {
        let (result, there) = unpack(archive, 100_000);
        assert_eq!(result, Err(format!("ARCHIVE cannot be unpacked: {why}")));
        assert_eq!(there, b"old");
    }

    #[test]
    fn anything_else_is_refused_and_leaves_the_old_one() {
        refused(&packed(&[entry("a/LICENSE.txt", b'0', b"l")]), "there is no .mmdb file in it");
        refused(&packed(&[entry("a.mmdb", b'2', b"")]), "there is no .mmdb file in it");
        refused(
            &packed(&[entry("a.mmdb", b'0', b"a"), entry("b.mmdb", b'0', b"b")]),
            "there is more than one .mmdb file in it",
        );
        refused(b"no gzip at all", "invalid gzip header");
        refused(&packed(&[vec![7; BLOCK]]), "it is no tar archive, or a damaged one");
        let usual = usual();
        refused(&usual[..usual.len() - 4], "unexpected end of file");
        let mut damaged = usual.clone();
        let checksum_of_gzip = damaged.len() - 8;
        damaged[checksum_of_gzip] ^= 1;
        refused(&damaged, "corrupt gzip stream does not have a matching checksum");
    }

    #[test]
    fn a_name_is_never_a_path() {
        let (result, there) = unpack(&packed(&[entry("../../../escaped.mmdb", b'0', b"x")]), 100_000);
        assert_eq!((result, there), (Ok(1), b"x".to_vec()));
    }

    #[test]
    fn a_small_archive_cannot_fill_the_disk() {
        let bomb = packed(&[entry("a.mmdb", b'0', &vec![0; 1_000_000])]);
        assert!(bomb.len() < 20_000, "{}", bomb.len());
        let (result, there) = unpack(&bomb, 4096);
        let why = "it holds more than 4096 bytes, the most that is accepted";
        assert_eq!(result, Err(format!("ARCHIVE cannot be unpacked: {why}")));
        assert_eq!(there, b"old");
    }
}
