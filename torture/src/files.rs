//! The campaign `files`: hostile files for every reader. Whatever the bytes are, reading ends soon, in memory that a
//! good file of the same size could need as well, with what the file holds or with a sentence.
//!
//! What is done to files is in the modules below. Here it is counted, and what became of each file is judged. They are
//! read by a process of their own, because what is looked for may be its end.

mod damage;
mod good;
mod mmdb;
mod packing;
mod reader;
mod reading;
mod sealed;
mod tables;
mod trees;
mod yardstick;

pub(crate) use reading::read_until_end;

use crate::campaign::Options;
use anyhow::{Context, Result, bail};
use good::{Goods, Reads};
use ipse_geodata::sources::Kind;
use ipse_testkit::Random;
use reader::{Outcome, Reader};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use yardstick::Yardstick;

/// The word with which the program is told to read.
pub(crate) const READER: &str = "read-files";

const THREADS: usize = 2;
/// After so many findings the rest would not tell more.
const ENOUGH: usize = 200;
/// So many findings and sentences are printed.
const TOLD: usize = 60;

/// A file that somebody has touched.
struct Hostile {
    name: String,
    reads: Reads,
    bytes: Vec<u8>,
    packed: bool,
    /// Whether it is a snapshot that is not what it was, under the checksum of what it was.
    must_be_refused: bool,
}

impl Hostile {
    fn source(name: &str, kind: Kind, bytes: Vec<u8>) -> Self {
        let reads = Reads::Source(kind);
        Self { name: name.to_owned(), reads, bytes, packed: false, must_be_refused: false }
    }

    fn snapshot(bytes: Vec<u8>) -> Self {
        let name = "ipse.geo".to_owned();
        Self { name, reads: Reads::Snapshot, bytes, packed: false, must_be_refused: false }
    }

    fn packed(mut self) -> Self {
        self.packed = true;
        self
    }
}

/// Makes a file from the good ones. The last number counts the files of one kind.
type Make = fn(&mut Random, &Goods, u64) -> Hostile;

/// Every kind of mischief. Files have them in turn.
const KINDS: &[(&str, Make)] = &[
    ("bits flipped", damage::bits),
    ("bytes changed", damage::bytes),
    ("beginning or end changed", damage::ends),
    ("cut at every 4 KiB", damage::cut_by_pages),
    ("cut anywhere", damage::cut),
    ("chunk inserted", damage::inserted),
    ("chunk repeated", damage::repeated),
    ("chunk removed", damage::removed),
    ("chunk blotted out", damage::blotted),
    ("chunk moved", damage::moved),
    ("two files spliced", damage::spliced),
    ("no file at all", damage::noise),
    ("packed to harm", packing::bomb),
    ("MMDB: tree with cycles", trees::cycles),
    ("MMDB: tree with too many ways", trees::meshes),
    ("MMDB: pointers", trees::pointers),
    ("MMDB: absurd numbers", trees::sizes),
    ("MMDB: metadata", trees::metadata),
    ("MMDB: absurd sizes", trees::heads),
    ("MMDB: deep nesting", trees::nesting),
    ("MMDB: gigantic texts", trees::gigantic),
    ("MMDB: no UTF-8", trees::no_text),
    ("MMDB: costly records", trees::shared),
    ("MMDB: any records", trees::any_records),
    ("lines: endless", tables::long_lines),
    ("lines: columns without end", tables::many_columns),
    ("lines: zeros", tables::zeros),
    ("lines: quotes", tables::quotes),
    ("lines: overlaps", tables::overlaps),
    ("lines: odd ranges", tables::ranges),
    ("lines: as short as can be", tables::terse),
    ("lines: odd values", tables::values),
    ("sealed: bytes changed", sealed::changed),
    ("sealed: other lengths", sealed::lengths),
    ("sealed: columns exchanged", sealed::exchanged),
    ("sealed: numbers too large", sealed::numbers),
    ("sealed: ranges", sealed::ranges),
    ("sealed: zones", sealed::zones),
    ("sealed: positions", sealed::positions),
    ("sealed: promised sizes", sealed::promises),
    ("sealed: odd frames", sealed::frames),
    ("sealed: JSON", sealed::json),
    ("sealed: texts", sealed::texts),
    ("sealed: swollen columns", sealed::swollen),
];

pub(crate) fn work(options: &Options) -> Result<String> {
    let goods = Goods::make(options.seed, options.count)?;
    let folder = tempfile::tempdir()?;
    let yardstick = Yardstick::measure(&goods, &mut Reader::new(folder.path()))?;
    println!("  good files and their memory: {}", yardstick.shown());
    let (next, findings) = (AtomicU64::new(0), AtomicU64::new(0));
    let outcomes: Vec<Result<Tally>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (goods, yardstick, next, findings) = (&goods, &yardstick, &next, &findings);
                let folder = folder.path().join(thread.to_string());
                scope.spawn(move || torture(options, goods, yardstick, &folder, next, findings))
            })
            .collect();
        let panicked = |_| Err(anyhow::anyhow!("a thread panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    let mut tally = Tally::default();
    for outcome in outcomes {
        tally.add(outcome?);
    }
    tally.tell();
    if !tally.findings.is_empty() {
        tally.findings.sort();
        for (number, finding) in tally.findings.iter().take(TOLD) {
            println!("  finding: file {number}: {finding}");
        }
        bail!("{} of {} files", tally.findings.len(), tally.files);
    }
    Ok(format!(
        "{} files, {} accepted and {} refused with a sentence; no crash, no hang, no damaged snapshot accepted; \
         slowest {}; most memory {}",
        tally.files, tally.accepted, tally.refused, tally.slowest.1, tally.hungriest.1
    ))
}

/// What happened.
#[derive(Default)]
struct Tally {
    files: u64,
    accepted: u64,
    refused: u64,
    /// By kind of mischief: accepted and refused.
    kinds: BTreeMap<&'static str, (u64, u64)>,
    /// By sentence.
    sentences: BTreeMap<String, u64>,
    /// Milliseconds, and what file it was.
    slowest: (f64, String),
    /// Thousandths of what it might take, and what file it was.
    hungriest: (u64, String),
    /// By number of the file.
    findings: Vec<(u64, String)>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.accepted += other.accepted;
        self.refused += other.refused;
        for (kind, (accepted, refused)) in other.kinds {
            let sum = self.kinds.entry(kind).or_default();
            *sum = (sum.0 + accepted, sum.1 + refused);
        }
        for (sentence, count) in other.sentences {
            *self.sentences.entry(sentence).or_default() += count;
        }
        if other.slowest.0 > self.slowest.0 {
            self.slowest = other.slowest;
        }
        if other.hungriest.0 > self.hungriest.0 {
            self.hungriest = other.hungriest;
        }
        self.findings.extend(other.findings);
    }

    fn tell(&self) {
        for (kind, _) in KINDS {
            let (accepted, refused) = self.kinds.get(kind).copied().unwrap_or_default();
            println!("  {kind}: {accepted} accepted, {refused} refused");
        }
        let mut sentences: Vec<(&String, &u64)> = self.sentences.iter().collect();
        sentences.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (sentence, count) in sentences.iter().take(TOLD) {
            println!("  {count} × {sentence}");
        }
        if let Some(rest) = sentences.get(TOLD..) {
            let count: u64 = rest.iter().map(|(_, count)| **count).sum();
            println!("  {count} × one of {} other sentences", rest.len());
        }
    }
}

/// One thread's part: file after file.
fn torture(
    options: &Options,
    goods: &Goods,
    yardstick: &Yardstick,
    folder: &Path,
    next: &AtomicU64,
    findings: &AtomicU64,
) -> Result<Tally> {
    std::fs::create_dir_all(folder)?;
    let mut reader = Reader::new(folder);
    let mut tally = Tally::default();
    while findings.load(Ordering::Relaxed) < ENOUGH as u64 {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= options.count {
            break;
        }
        // Each file follows from the seed and its number, whichever thread has it.
        let mut random = Random::new(Random::new(options.seed).next() ^ Random::new(number).next());
        let kinds = KINDS.len() as u64;
        let (kind, make) = KINDS[usize::try_from(number % kinds).unwrap_or(0)];
        let file = make(&mut random, goods, number / kinds);
        tally.files += 1;
        let finding = one(&file, number, kind, yardstick, &mut reader, &mut tally)
            .with_context(|| format!("file {number}, {kind}"))?;
        if let Some(finding) = finding {
            let kept = keep(options.seed, number, &file)?;
            findings.fetch_add(1, Ordering::Relaxed);
            tally.findings.push((number, format!("{kind}: {finding}; kept as {}", kept.display())));
        }
    }
    Ok(tally)
}

/// Lets one file be read, and says what is wrong with how it was.
fn one(
    file: &Hostile,
    number: u64,
    kind: &'static str,
    yardstick: &Yardstick,
    reader: &mut Reader,
    tally: &mut Tally,
) -> Result<Option<String>> {
    let most = yardstick.most(file.reads, file.packed, file.bytes.len() as u64);
    let mut outcome = reader.read(file)?;
    if matches!(&outcome, Outcome::Read(account) if account.peak_bytes > most) {
        // The process may have kept something of the files before; a fresh one has not.
        reader.refresh()?;
        outcome = reader.read(file)?;
        reader.refresh()?;
    }
    let account = match outcome {
        Outcome::Died(words) => return Ok(Some(format!("the reader died: {words}"))),
        Outcome::Hung => return Ok(Some("the reader hangs".to_owned())),
        Outcome::Read(account) => account,
    };
    let told = format!("file {number} ({kind}, {} bytes)", file.bytes.len());
    let (milliseconds, peak) = (account.milliseconds, account.peak_bytes);
    if milliseconds > tally.slowest.0 {
        tally.slowest = (milliseconds, format!("{milliseconds:.0} ms for {told}"));
    }
    let share = peak * 1000 / most;
    if share > tally.hungriest.0 {
        let most = most / 1000;
        tally.hungriest = (share, format!("{} KB of {most} KB that {told} might take", peak / 1000));
    }
    let by_kind = tally.kinds.entry(kind).or_default();
    match &account.refusal {
        None => {
            tally.accepted += 1;
            by_kind.0 += 1;
        }
        Some(sentence) => {
            tally.refused += 1;
            by_kind.1 += 1;
            *tally.sentences.entry(pattern(sentence)).or_default() += 1;
        }
    }
    Ok(if peak > most {
        Some(format!("{} bytes take {peak} bytes of memory, more than {most}", file.bytes.len()))
    } else if let Some(sentence) = account.refusal.as_ref().filter(|sentence| !is_sentence(sentence)) {
        Some(format!("refused with no sentence: {sentence:?}"))
    } else if account.refusal.is_none() && file.must_be_refused {
        Some("a damaged snapshot is accepted".to_owned())
    } else {
        account.complaint
    })
}

/// Words for people: some, not endless, and nothing that a programmer prints to find a mistake.
fn is_sentence(text: &str) -> bool {
    const DUMPS: [&str; 9] =
        ["Some(", "Ok(", "Err(", "Error(", "Error {", "Os {", "Custom {", "Utf8Error", "called `"];
    text.contains(' ')
        && text.len() < 4_000
        && !text.chars().any(char::is_control)
        && !DUMPS.iter().any(|dump| text.contains(dump))
}

/// A sentence without what is different in each file.
fn pattern(sentence: &str) -> String {
    let mut pattern = String::new();
    let mut quote = None;
    for letter in sentence.chars() {
        if let Some(end) = quote {
            if letter == end {
                pattern.push('…');
                pattern.push(letter);
                quote = None;
            }
        } else if letter.is_ascii_digit() {
            if !pattern.ends_with('N') {
                pattern.push('N');
            }
        } else {
            pattern.push(letter);
            quote = Some(letter).filter(|letter| ['"', '`'].contains(letter));
        }
    }
    // What follows are the names of fields in the file.
    match pattern.split_once("what it has is ") {
        Some((before, _)) => format!("{before}what it has is …"),
        None => pattern,
    }
}

/// Keeps a file for whoever looks into it.
fn keep(seed: u64, number: u64, file: &Hostile) -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.parent().and_then(Path::parent).context("no target folder")?;
    let folder = target.join("torture");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("files-{seed}-{number}-{}", file.name));
    std::fs::write(&path, &file.bytes)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_told_from_dumps() {
        assert!(is_sentence("its checksum does not match its content: it is damaged"));
        for dump in ["", "damaged", "it is Error { kind: Other }", "it is\nbroken", "it is Some(3)"] {
            assert!(!is_sentence(dump), "{dump}");
        }
    }

    #[test]
    fn sentences_that_differ_in_numbers_and_names_are_one() {
        assert_eq!(pattern("its column `zones` ends at 123"), "its column `…` ends at N");
        assert_eq!(pattern("line 1: what it has is a, b2"), "line N: what it has is …");
    }
}
