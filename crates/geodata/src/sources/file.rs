//! A file's bytes: hashed as they lie there, unpacked as they are read, never more of them than is sane.

use super::Fault;
use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

/// No vendor's file is larger, and a search tree could not point further.
const MAXIMUM_BYTES: u64 = 4 << 30;

/// Real files are packed to a tenth.
const MAXIMUM_RATIO: u64 = 24;

/// Small files may be packed better than that, and may be unpacked without harm.
const ALWAYS_FINE: u64 = 8 << 20;

/// The largest window of zstd that is kept in memory, as a power of two: what its own tool allows.
const MAXIMUM_WINDOW: u32 = 27;

/// How much is looked at to tell a format.
const HEAD: u64 = 4096;

pub(super) enum Format {
    Mmdb,
    Lines,
}

/// Opens a file, packed or not.
pub(super) fn open(path: &Path) -> Result<Content, Fault> {
    // The type is asked for first: to open a pipe would wait for its other end.
    let about = std::fs::metadata(path).map_err(Fault::Open)?;
    if about.is_dir() {
        return Err(Fault::NotAFile("a folder"));
    }
    if !about.is_file() {
        return Err(Fault::NotAFile("a device or a pipe"));
    }
    if about.len() > MAXIMUM_BYTES {
        return Err(Fault::TooLarge { limit: MAXIMUM_BYTES });
    }
    let file = File::open(path).map_err(Fault::Open)?;
    let raw =
        Rc::new(RefCell::new(Raw { file, hash: Sha256::new(), offset: 0, failed: false, head: Vec::new() }));
    let magic = raw.borrow_mut().peek().map_err(|source| Fault::Read { offset: 0, source })?;
    if magic.is_empty() {
        return Err(Fault::Empty);
    }
    let tap = Tap(Rc::clone(&raw));
    let bytes = about.len();
    let (unpacked, limit): (Box<dyn Read>, u64) = if magic.starts_with(&[0x1f, 0x8b]) {
        (Box::new(MultiGzDecoder::new(BufReader::new(tap))), packed_limit(bytes))
    } else if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut decoder = zstd::stream::read::Decoder::new(tap).map_err(Fault::Open)?;
        decoder.window_log_max(MAXIMUM_WINDOW).map_err(Fault::Open)?;
        (Box::new(decoder), packed_limit(bytes))
    } else {
        (Box::new(tap), MAXIMUM_BYTES)
    };
    let limited = Limited { inner: unpacked, left: limit, exceeded: false };
    let head = Cursor::new(Vec::new());
    Ok(Content { raw, head, unpacked: BufReader::with_capacity(1 << 17, limited), bytes, limit })
}

fn packed_limit(bytes: u64) -> u64 {
    bytes.saturating_mul(MAXIMUM_RATIO).clamp(ALWAYS_FINE, MAXIMUM_BYTES)
}

/// The unpacked bytes of a file.
pub(super) struct Content {
    raw: Rc<RefCell<Raw>>,
    /// What was looked at to tell the format; it is read again before the rest.
    head: Cursor<Vec<u8>>,
    unpacked: BufReader<Limited>,
    bytes: u64,
    limit: u64,
}

impl Content {
    /// What the unpacked bytes are, by the first of them.
    pub(super) fn format(&mut self) -> Result<Format, Fault> {
        let mut head = Vec::new();
        self.unpacked.by_ref().take(HEAD).read_to_end(&mut head).map_err(|error| self.fault(error))?;
        let format = tell(&head);
        self.head = Cursor::new(head);
        format
    }

    /// The file's size as it lies there.
    pub(super) fn size(&self) -> u64 {
        self.bytes
    }

    /// How many bytes of the file have been read.
    pub(super) fn offset(&self) -> u64 {
        self.raw.borrow().offset
    }

    /// About how many bytes are still to come, to reserve memory for; never more than the file itself has.
    pub(super) fn expected(&self) -> usize {
        usize::try_from(self.bytes.min(self.limit)).unwrap_or(0)
    }

    /// What an error of reading means.
    pub(super) fn fault(&self, error: io::Error) -> Fault {
        let raw = self.raw.borrow();
        if self.unpacked.get_ref().exceeded {
            Fault::Expands { bytes: self.bytes, limit: self.limit }
        } else if raw.failed {
            Fault::Read { offset: raw.offset, source: error }
        } else {
            Fault::Compressed { offset: raw.offset, why: error.to_string() }
        }
    }

    /// Reads what is left of the file, and tells the hash of all of it.
    pub(super) fn finish(self) -> Result<[u8; 32], Fault> {
        let mut raw = self.raw.borrow_mut();
        let mut rest = vec![0; 1 << 16];
        loop {
            match raw.read(&mut rest) {
                Ok(0) => return Ok(raw.hash.clone().finalize().into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Fault::Read { offset: raw.offset, source }),
            }
        }
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.head.read(buffer)? {
            0 => self.unpacked.read(buffer),
            count => Ok(count),
        }
    }
}

impl BufRead for Content {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let unread = usize::try_from(self.head.position()).unwrap_or(usize::MAX) < self.head.get_ref().len();
        if unread { self.head.fill_buf() } else { self.unpacked.fill_buf() }
    }

    fn consume(&mut self, amount: usize) {
        let unread = usize::try_from(self.head.position()).unwrap_or(usize::MAX) < self.head.get_ref().len();
        if unread {
            self.head.consume(amount);
        } else {
            self.unpacked.consume(amount);
        }
    }
}

/// The file as it lies there.
struct Raw {
    file: File,
    hash: Sha256,
    offset: u64,
    failed: bool,
    /// Bytes that were peeked at and not yet read.
    head: Vec<u8>,
}

impl Raw {
    fn peek(&mut self) -> io::Result<Vec<u8>> {
        (&self.file).take(8).read_to_end(&mut self.head)?;
        Ok(self.head.clone())
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = if self.head.is_empty() {
            self.file
                .read(buffer)
                .inspect_err(|error| self.failed |= error.kind() != io::ErrorKind::Interrupted)?
        } else {
            let count = buffer.len().min(self.head.len());
            buffer[..count].copy_from_slice(&self.head[..count]);
            self.head.drain(..count);
            count
        };
        self.hash.update(&buffer[..count]);
        self.offset += count as u64;
        Ok(count)
    }
}

struct Tap(Rc<RefCell<Raw>>);

impl Read for Tap {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(buffer)
    }
}

/// Refuses to give more bytes than it may.
struct Limited {
    inner: Box<dyn Read>,
    left: u64,
    exceeded: bool,
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                self.exceeded = true;
                return Err(io::Error::other("more bytes than allowed"));
            }
        }
        Ok(count)
    }
}

/// Tells a format by its first bytes.
fn tell(head: &[u8]) -> Result<Format, Fault> {
    const UNPACK: &str = "unpack it first";
    const OTHER: &str = "give the vendor's MMDB or CSV file";
    const DOWNLOAD: &str = "the download has failed and saved a message instead";
    let foreign = |what, advice| Err(Fault::Foreign { what, advice });
    let known: [(&[u8], &str, &str); 13] = [
        (b"\x89PNG", "a PNG image", OTHER),
        (b"GIF8", "a GIF image", OTHER),
        (b"\xff\xd8\xff", "a JPEG image", OTHER),
        (b"%PDF", "a PDF document", OTHER),
        (b"PK\x03\x04", "a ZIP archive", UNPACK),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
        (b"\xfd7zXZ", "packed with xz", UNPACK),
        (b"BZh", "packed with bzip2", UNPACK),
        (b"\x1f\x8b", "packed twice", UNPACK),
        (b"SQLite format 3", "an SQLite database", OTHER),
        (b"PAR1", "a Parquet file", OTHER),
        (b"\xff\xfe", "text in UTF-16", "save it as UTF-8"),
        (b"\x7fELF", "a program", OTHER),
    ];
    if let Some((_, what, advice)) = known.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return foreign(what, advice);
    }
    if head.len() > 262 && head[257..].starts_with(b"ustar") {
        return foreign("a tar archive", UNPACK);
    }
    if head.is_empty() {
        return Err(Fault::Empty);
    }
    // A search tree begins with small numbers and so with zeros; text has none.
    if head.contains(&0) {
        return Ok(Format::Mmdb);
    }
    match head.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'<') => foreign("a web page", DOWNLOAD),
        Some(b'{' | b'[') => foreign("JSON", OTHER),
        _ => Ok(Format::Lines),
    }
}
