//! An update: vendors' files are fetched, a snapshot is built and verified, and only then put in place of the old one.
//!
//! Whatever fails leaves the target as it was, byte for byte, and the server that uses it as well. Only one update of a
//! target runs at a time, in all processes. Nothing here knows the command line or reads a clock.

mod error;
mod wanted;

pub use error::UpdateError;
pub use wanted::{Supply, Wanted, WantedError};

use crate::build::{BUILDER, Recipe, Step, build};
use crate::download::{
    Credentials, Download, DownloadError, Downloader, Progress, Vendors, checksum, dbip_urls,
    maxmind_download, unpack_mmdb,
};
use crate::flags::OperatorFiles;
use crate::sources::{self, Source};
use ipse_geo::{About, Atlas};
use ipse_model::Now;
use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an update shall bring about.
#[derive(Clone, Debug)]
pub struct UpdatePlan {
    /// What to build from, in the order in which it is believed.
    pub sources: Vec<Wanted>,
    /// Who asks `MaxMind`.
    pub maxmind: Option<Credentials>,
    /// Where the vendors that we know are.
    pub vendors: Vendors,
    /// An operator's own files of flags.
    pub flags: Vec<PathBuf>,
    /// The folder for what is downloaded. It may be emptied at any time; the next update then fetches everything.
    pub cache: PathBuf,
    /// The snapshot to replace.
    pub target: PathBuf,
    /// What is served as long as there is no target.
    pub without_target: Option<About>,
    /// Whether to build even if nothing changed, and to accept data that knows much less than the old.
    pub force: bool,
}

/// A snapshot that is in place.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// What it says of itself.
    pub about: About,
    /// The name of its content.
    pub version: String,
    /// Its length.
    pub bytes: u64,
}

/// How an update ended well.
#[derive(Clone, Debug, PartialEq)]
pub enum Updated {
    /// The target was built from these very files already.
    Unchanged(Standing),
    /// There is a new snapshot.
    Replaced {
        /// What was there before, unless there was nothing, or nothing that could be read.
        old: Option<Standing>,
        /// What is there now.
        new: Standing,
    },
}

/// What happens meanwhile. A source is told by its place in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateStep {
    /// A file arrives, or an attempt failed and will be repeated.
    Downloading(usize, Progress),
    /// A file is here, and is the newest.
    Downloaded(usize),
    /// A file is read: how much of how much.
    Reading(usize, u64, u64),
    /// The snapshot is built.
    Building(Step),
    /// The snapshot is read back and compared with the old one.
    Verifying,
}

/// Whoever wants to know what happens meanwhile.
pub type Watcher = Arc<dyn Fn(UpdateStep) + Send + Sync>;

/// A field that is known for less than this much of the old data is not missed in the new.
const WORTH_COMPARING: f64 = 0.01;

/// How large an unpacked database may be.
const LARGEST_UNPACKED_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Updates the target of a plan.
pub async fn update(
    plan: UpdatePlan,
    downloader: &Downloader,
    now: Now,
    watcher: Watcher,
) -> Result<Updated, UpdateError> {
    if plan.sources.is_empty() {
        return Err(UpdateError::NothingWanted);
    }
    let lock = lock(&plan.target)?;
    let operator = OperatorFiles::read(&plan.flags)?;
    operator.flags()?;
    let files = files(&plan, now)?;
    let mut fetched = HashSet::new();
    for (index, file) in files.iter().enumerate() {
        let Some((newest, older)) = file.downloads.split_first() else { continue };
        // One file may serve for several kinds.
        if fetched.insert(&newest.file) {
            let mut tell = |progress| watcher(UpdateStep::Downloading(index, progress));
            let arrived = downloader.fetch_first_available(newest, older, &mut tell).await;
            arrived.map_err(failed_download(&plan.sources[index]))?;
        }
        watcher(UpdateStep::Downloaded(index));
    }
    // A thread of its own: a program that ends does not wait for it, as it would for the runtime's threads, and the
    // target is safe at every moment.
    let (done, told) = tokio::sync::oneshot::channel();
    let work = move || {
        let result = replace(&plan, &files, &operator, now, &watcher);
        drop(lock);
        let _ = done.send(result);
    };
    std::thread::Builder::new().name("geo-update".to_owned()).spawn(work).map_err(|_| UpdateError::Died)?;
    told.await.unwrap_or(Err(UpdateError::Died))
}

/// Writes beside the target and moves it there, durably, so that whoever watches it never sees a half.
pub fn write_snapshot(target: &Path, snapshot: &[u8]) -> io::Result<()> {
    let new = target.with_added_extension("new");
    let written = File::create(&new)
        .and_then(|mut file| {
            file.write_all(snapshot)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&new, target))
        .and_then(|()| File::open(folder_of(target))?.sync_all());
    if written.is_err() {
        // What failed is told; that its remains may stay is not worth more.
        let _ = fs::remove_file(&new);
    }
    written
}

impl Standing {
    /// What lies there, if it is a snapshot that this program can read.
    #[must_use]
    pub fn read(target: &Path) -> Option<Self> {
        Self::of(&ipse_geo::read_file(target).ok()?).ok()
    }

    fn of(snapshot: &[u8]) -> Result<Self, ipse_geo::Error> {
        let atlas = Atlas::read(snapshot)?;
        let (about, version) = (atlas.about().clone(), atlas.version().to_owned());
        Ok(Self { about, version, bytes: snapshot.len() as u64 })
    }

    /// Whether this program would build the same again from files of these kinds and sums.
    fn is_built_from(&self, files: &[(String, String)]) -> bool {
        let built_from = self.about.sources.iter().map(|source| (&source.kind, &source.sha256));
        self.about.builder == BUILDER && built_from.eq(files.iter().map(|(kind, sum)| (kind, sum)))
    }
}

/// Where a source is fetched from, and which file is then read.
struct Place {
    /// The newest first; none for a file of this machine.
    downloads: Vec<Download>,
    /// Whether what is fetched is an archive that holds the file.
    is_packed: bool,
    file: PathBuf,
}

impl Place {
    fn archive(&self) -> Option<&Path> {
        let download = self.downloads.first().filter(|_| self.is_packed)?;
        Some(&download.file)
    }
}

fn files(plan: &UpdatePlan, now: Now) -> Result<Vec<Place>, UpdateError> {
    plan.sources.iter().map(|wanted| place(plan, wanted, now)).collect()
}

fn place(plan: &UpdatePlan, wanted: &Wanted, now: Now) -> Result<Place, UpdateError> {
    let failed = failed_download(wanted);
    match &wanted.supply {
        Supply::File(path) => Ok(Place { downloads: Vec::new(), is_packed: false, file: path.clone() }),
        Supply::DbIp(edition) => {
            // Months follow each other in one place, so that old ones do not pile up.
            let file = plan.cache.join(format!("{}.mmdb.gz", wanted.supply));
            let urls = dbip_urls(&plan.vendors, *edition, now.day()).map_err(failed)?;
            let download = |url| Download { url, file: file.clone(), credentials: None, checksum: None };
            Ok(Place { downloads: urls.into_iter().map(download).collect(), is_packed: false, file })
        }
        Supply::MaxMind { edition } => {
            let Some(credentials) = plan.maxmind.clone() else {
                return Err(UpdateError::NoCredentials { wanted: wanted.to_string() });
            };
            let archive = plan.cache.join(format!("{edition}.tar.gz"));
            let download = maxmind_download(&plan.vendors, edition, credentials, &archive).map_err(failed)?;
            let file = plan.cache.join(format!("{edition}.mmdb"));
            Ok(Place { downloads: vec![download], is_packed: true, file })
        }
        Supply::Url { url, checksum } => {
            let name = url.file_name();
            // Each URL has a folder of its own, because many call their files the same.
            let folder = plan.cache.join(&url.identity()[..16]);
            let (url, checksum) = (url.clone(), checksum.as_deref().cloned());
            let download = Download { url, file: folder.join(&name), credentials: None, checksum };
            let stem = name.strip_suffix(".tar.gz").or_else(|| name.strip_suffix(".tgz"));
            let file = stem.map_or_else(|| download.file.clone(), |stem| folder.join(format!("{stem}.mmdb")));
            Ok(Place { downloads: vec![download], is_packed: stem.is_some(), file })
        }
    }
}

fn failed_download(wanted: &Wanted) -> impl FnOnce(DownloadError) -> UpdateError {
    let wanted = wanted.to_string();
    move |source| UpdateError::Download { wanted, source }
}

/// Everything after the downloads; it blocks.
fn replace(
    plan: &UpdatePlan,
    files: &[Place],
    operator: &OperatorFiles,
    now: Now,
    watcher: &Watcher,
) -> Result<Updated, UpdateError> {
    for (wanted, file) in plan.sources.iter().zip(files) {
        if let Some(archive) = file.archive() {
            unpack_mmdb(archive, &file.file, LARGEST_UNPACKED_BYTES)
                .inspect_err(|_| forget(archive))
                .map_err(failed_download(wanted))?;
        }
    }
    let old = Standing::read(&plan.target);
    let flags = Memo { flags: checksum::hex(&operator.digest()), cache: &plan.cache };
    if let Some(old) = old.as_ref().filter(|_| !plan.force)
        && old.is_built_from(&sums(plan, files)?)
        && flags.are_those_of(&old.version)
    {
        return Ok(Updated::Unchanged(old.clone()));
    }
    let snapshot = {
        let sources = read(plan, files, watcher)?;
        let recipe = Recipe { sources: &sources, flags: &operator.flags()?, built: now.unix_seconds() };
        build(&recipe, &mut |step| watcher(UpdateStep::Building(step)))?
    };
    watcher(UpdateStep::Verifying);
    let new = Standing::of(&snapshot).map_err(UpdateError::Unreadable)?;
    if new.about.fills.iter().all(|fill| fill.records == 0) {
        return Err(UpdateError::KnowsNothing);
    }
    let worse = match (&old, &plan.without_target) {
        _ if plan.force => None,
        (Some(old), _) => step_back(&old.about, &new.about, &COMPARED),
        // Who brings other data at first may want less of it, but not next to nothing.
        (None, Some(used)) => step_back(used, &new.about, &COMPARED_AT_FIRST),
        (None, None) => None,
    };
    if let Some(error) = worse {
        return Err(error);
    }
    write_snapshot(&plan.target, &snapshot).map_err(UpdateError::file(&plan.target))?;
    flags.keep(&new.version);
    Ok(Updated::Replaced { old, new })
}

fn sums(plan: &UpdatePlan, files: &[Place]) -> Result<Vec<(String, String)>, UpdateError> {
    let sum = |wanted: &Wanted, file: &Path| {
        let sum = File::open(file).and_then(checksum::of_reader).map_err(UpdateError::file(file))?;
        Ok((wanted.kind.to_string(), checksum::hex(&sum)))
    };
    plan.sources.iter().zip(files).map(|(wanted, place)| sum(wanted, &place.file)).collect()
}

fn read(plan: &UpdatePlan, files: &[Place], watcher: &Watcher) -> Result<Vec<Source>, UpdateError> {
    let mut sources = Vec::new();
    for (index, (wanted, place)) in plan.sources.iter().zip(files).enumerate() {
        let mut tell =
            |progress: sources::Progress| watcher(UpdateStep::Reading(index, progress.done, progress.total));
        let source = sources::read(&place.file, wanted.kind, &mut tell).map_err(|source| {
            place.downloads.iter().for_each(|download| forget(&download.file));
            let is_downloaded = !place.downloads.is_empty();
            UpdateError::Source { wanted: wanted.to_string(), source, is_downloaded }
        })?;
        sources.push(source);
    }
    Ok(sources)
}

/// Has a downloaded file fetched again, even if its server thinks that we have the newest. Otherwise a file that was
/// damaged on its way would stay.
fn forget(file: &Path) {
    let _ = fs::remove_file(file.with_added_extension("meta"));
}

/// What data is compared by: a field, and the family of addresses for which it is known.
type Compared = (&'static str, &'static str);
const COMPARED: [Compared; 6] = [
    ("country", "IPv4"),
    ("country", "IPv6"),
    ("city", "IPv4"),
    ("city", "IPv6"),
    ("asn", "IPv4"),
    ("asn", "IPv6"),
];
const COMPARED_AT_FIRST: [Compared; 1] = [("country", "IPv4")];

/// The first of these of which the new data knows less than half as much as the old.
fn step_back(old: &About, new: &About, compared: &[Compared]) -> Option<UpdateError> {
    compared.iter().find_map(|&(field, family)| {
        let [old, new] = [old, new].map(|about| share(about, field).unwrap_or_default());
        let (old, new) = if family == "IPv4" { (old.0, new.0) } else { (old.1, new.1) };
        let is_worse = old >= WORTH_COMPARING && new < old / 2.0;
        is_worse.then(|| UpdateError::KnowsLess { field: field.to_owned(), family, new, old })
    })
}

/// The shares of IPv4 and IPv6 that a field is known for.
fn share(about: &About, field: &str) -> Option<(f64, f64)> {
    let row = about.coverage.iter().find(|row| row.field == field && row.within.is_none())?;
    Some((row.v4, row.v6))
}

/// Which flags of an operator the target was built with: a snapshot itself tells of its sources only.
struct Memo<'a> {
    flags: String,
    cache: &'a Path,
}

impl Memo<'_> {
    fn path(&self) -> PathBuf {
        self.cache.join("last-build")
    }

    fn text(&self, version: &str) -> String {
        format!("{version} {}\n", self.flags)
    }

    fn are_those_of(&self, version: &str) -> bool {
        fs::read_to_string(self.path()).is_ok_and(|text| text == self.text(version))
    }

    /// Without it the next update builds once more, which does no harm.
    fn keep(&self, version: &str) {
        let _ = fs::create_dir_all(self.cache).and_then(|()| fs::write(self.path(), self.text(version)));
    }
}

/// Held while a target is updated, until it is dropped, however the process ends.
fn lock(target: &Path) -> Result<File, UpdateError> {
    let folder = folder_of(target);
    fs::create_dir_all(folder).map_err(UpdateError::file(folder))?;
    let path = target.with_added_extension("lock");
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(UpdateError::file(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(UpdateError::Busy(target.to_owned())),
        Err(TryLockError::Error(error)) => Err(UpdateError::file(&path)(error)),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipse_geo::Coverage;

    fn about(rows: &[(&str, f64, f64)]) -> About {
        let row = |(field, v4, v6): &(&str, f64, f64)| Coverage {
            field: (*field).to_owned(),
            within: None,
            v4: *v4,
            v6: *v6,
        };
        About { coverage: rows.iter().map(row).collect(), ..About::default() }
    }

    #[track_caller]
    fn check(old: &[(&str, f64, f64)], new: &[(&str, f64, f64)], expected: Option<&str>) {
        let found = step_back(&about(old), &about(new), &COMPARED).map(|error| error.to_string());
        let expected = expected.map(|what| {
            format!(
                "the new data knows {what}: it is not used; look at the sources, and if it is right, run `ipse data \
                 update --force`"
            )
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn data_that_knows_less_than_half_is_a_step_back() {
        check(&[("country", 0.9, 0.9)], &[("country", 0.45, 0.45)], None);
        check(&[], &[("country", 0.1, 0.0)], None);
        check(&[("postal_code", 0.9, 0.9)], &[], None);
        check(&[("city", 0.009, 0.0)], &[], None);
        check(
            &[("country", 0.9, 0.9)],
            &[("country", 0.44, 0.9)],
            Some("country of 44.00 % of IPv4 addresses, and the data in use of 90.00 %"),
        );
        check(
            &[("country", 0.9, 0.9), ("asn", 0.8, 0.9)],
            &[("country", 0.9, 0.9)],
            Some("asn of 0.00 % of IPv4 addresses, and the data in use of 80.00 %"),
        );
        check(
            &[("city", 0.9, 0.5)],
            &[("city", 0.9, 0.2)],
            Some("city of 20.00 % of IPv6 addresses, and the data in use of 50.00 %"),
        );
    }

    #[test]
    fn a_snapshot_is_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("geo.ipse");
        write_snapshot(&target, b"one").unwrap();
        write_snapshot(&target, b"two").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"two");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names(), 1, "nothing else is left behind");
        let blocked = folder.path().join("blocked");
        fs::create_dir_all(blocked.join("full")).unwrap();
        assert!(write_snapshot(&blocked, b"two").is_err());
        assert_eq!(names(), 2, "nothing else is left behind");
    }
}
