//! What can be wrong with the file of a snapshot, and what the server must say about it.

use crate::snapshots::{CHECKSUM, COLUMNS, ENTRY, HEAD, column, seal};
use ipse_testkit::Random;

/// A file that no server may take.
pub(crate) struct Damage {
    pub(crate) content: Content,
    /// A part of what the server must say, by which it is told from other kinds of damage.
    pub(crate) says: String,
}

/// What is put in the place of the file.
pub(crate) enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The first good snapshot with other bytes here and there, and perhaps more of them.
    Changed { patches: Vec<(u64, Vec<u8>)>, added: u64 },
    /// A folder.
    Folder,
    /// A file that nobody may read.
    Forbidden,
    /// Nothing at all.
    Nothing,
}

const FOREIGN: &str = "it is no snapshot of ipse";
const CHANGED: &str = "its checksum does not match";
/// What operators put there by mistake: pages of errors, archives, other vendors' data.
const FOREIGN_BEGINNINGS: [&[u8]; 6] = [
    b"",
    b"<!doctype html><title>404</title>",
    b"\x1f\x8b\x08",
    b"PK\x03\x04",
    b"\xab\xcd\xefMaxMind.com",
    b"ipse",
];
/// Columns that say where records come from. A server does not read them, and nothing it answers depends on them.
const NEVER_READ: [usize; 3] = [10, 12, 13];
const LONGEST_FOREIGN: u64 = 100_000;
const LONGEST_MIX: u64 = 200_000;

impl Damage {
    /// Some damage to the good snapshot, which is said in other words than `before`: only so is it certain which file a
    /// line of the log is about.
    pub(crate) fn invent(good: &[u8], other: &[u8], before: &str, random: &mut Random) -> Self {
        loop {
            let damage = Self::any(good, other, random);
            if damage.says != before {
                return damage;
            }
        }
    }

    fn any(good: &[u8], other: &[u8], random: &mut Random) -> Self {
        let length = good.len() as u64;
        let changed = |patches: Vec<(u64, Vec<u8>)>| Content::Changed { patches, added: 0 };
        match random.below(12) {
            0 | 1 => {
                // Half of them lack only the end, as after a download that broke off.
                let most = if random.below(2) == 0 { length } else { length.min(5_000) };
                let kept = (length - 1 - random.below(most)).max(8);
                let bytes = good[..usize::try_from(kept).unwrap_or_default()].to_vec();
                Self::new(Content::Bytes(bytes), &format!("and has {kept}:"))
            }
            2 | 3 => {
                // Half of them in the head, where each field is told in its own words.
                let most = if random.below(2) == 0 { length } else { (HEAD + COLUMNS * ENTRY) as u64 };
                let (at, bit) = (random.below(most), random.below(8));
                let place = usize::try_from(at).unwrap_or_default();
                let flipped = good[place] ^ (1 << bit);
                Self::new(changed(vec![(at, vec![flipped])]), &said_of_flip(place, bit, length))
            }
            4 => {
                let mut bytes = random.pick(&FOREIGN_BEGINNINGS).to_vec();
                bytes.extend((0..random.below(LONGEST_FOREIGN)).map(|_| random.next().to_le_bytes()[0]));
                Self::new(Content::Bytes(bytes), FOREIGN)
            }
            5 => {
                let version = u32::try_from(2 + random.below(1_000)).unwrap_or(2);
                let patches = vec![(8, version.to_le_bytes().to_vec())];
                Self::new(changed(patches), &format!("it is of format {version},"))
            }
            6 => Self::new(Content::Bytes(Vec::new()), FOREIGN),
            7 => Self::new(Content::Folder, "it is a folder, a device or a pipe, and no file"),
            8 => Self::new(Content::Forbidden, "Permission denied"),
            9 => Self::new(Content::Nothing, "No such file"),
            10 => {
                let added = 1 + random.below(5_000);
                let content = Content::Changed { patches: Vec::new(), added };
                Self::new(content, &format!("and has {}:", length + added))
            }
            _ if random.below(4) == 0 => wrong_column(good, random),
            _ => {
                // Parts of two good ones, as when two programs write at the same time.
                let first = (HEAD + COLUMNS * ENTRY) as u64;
                let end = length.min(other.len() as u64);
                let begin = first + random.below(end - first - CHECKSUM as u64);
                let range = begin..end.min(begin + 1 + random.below(LONGEST_MIX));
                let [from, to] = [range.start, range.end].map(|at| usize::try_from(at).unwrap_or_default());
                if good[from..to] == other[from..to] {
                    return Self::any(good, other, random);
                }
                Self::new(changed(vec![(begin, other[from..to].to_vec())]), CHANGED)
            }
        }
    }

    fn new(content: Content, says: &str) -> Self {
        Self { content, says: says.to_owned() }
    }

    /// Whether a file that is written piece by piece is never told in the same words before it is finished.
    pub(crate) fn can_grow(&self) -> bool {
        self.says != FOREIGN
    }
}

/// A file whose checksum is right, so that the columns themselves have to be looked at.
fn wrong_column(good: &[u8], random: &mut Random) -> Damage {
    let read: Vec<usize> = (0..COLUMNS).filter(|index| !NEVER_READ.contains(index)).collect();
    let (begin, ..) = column(good, *random.pick(&read));
    let mut bytes = good[..good.len() - CHECKSUM].to_vec();
    // Packed columns begin with the mark of their packer.
    bytes[begin] ^= 0xff;
    let patch = (begin as u64, vec![bytes[begin]]);
    seal(&mut bytes);
    let end = good.len() - CHECKSUM;
    let patches = vec![patch, (end as u64, bytes[end..].to_vec())];
    Damage::new(Content::Changed { patches, added: 0 }, "is wrong: it cannot be unpacked")
}

fn said_of_flip(at: usize, bit: u64, length: u64) -> String {
    match at {
        0..8 => FOREIGN.to_owned(),
        8..12 => format!("it is of format {},", 1 ^ (1u32 << (8 * (at - 8)) << bit)),
        12..HEAD => "it has another number of columns".to_owned(),
        // How long a column is when it is packed counts for the length of the file.
        _ if at < HEAD + COLUMNS * ENTRY && (at - HEAD) % ENTRY >= 8 => format!("and has {length}:"),
        _ => CHANGED.to_owned(),
    }
}
