//! Whole updates against a real server: what is then in place, what is said, and that a failure changes nothing.

use crate::sentence;
use crate::server::{Answer, Server, answer, file, written};
use flate2::Compression;
use flate2::write::GzEncoder;
use ipse_geo::{About, Atlas, Coverage};
use ipse_geodata::{
    Credentials, Downloader, Patience, Progress, UpdateError, UpdatePlan, UpdateStep, Updated, Vendors,
    Wanted, update,
};
use ipse_model::{Address, Now};
use maxminddb_writer::Database;
use maxminddb_writer::metadata::IpVersion;
use maxminddb_writer::paths::IpAddrWithMask;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// 2026-11-15 12:00 UTC.
const NOW: Now = Now { unix_ms: 1_794_744_000_000, boot_ms: 0 };

const CITY: &str = "11.0.0.0,126.255.255.255,NA,US,California,Mountain View,37.386,-122.0838\n";
const NEWER_CITY: &str = "11.0.0.0,126.255.255.255,NA,US,California,Palo Alto,37.44,-122.14\n";
const ASN: &str = "11.0.0.0,126.255.255.255,15169,Google LLC\n";
/// It is sound, and says almost nothing.
const LITTLE: &str = "81.2.69.0,81.2.69.255,NA,US,California,Mountain View,37.386,-122.0838\n";

/// An installation: its snapshot, its cache and its sources.
struct Home {
    folder: TempDir,
    plan: UpdatePlan,
}

impl Home {
    fn new(sources: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = UpdatePlan {
            sources: wanted(sources),
            maxmind: None,
            vendors: Vendors::default(),
            flags: Vec::new(),
            cache: folder.path().join("cache"),
            target: folder.path().join("geo.ipse"),
            without_target: None,
            force: false,
        };
        Self { folder, plan }
    }

    async fn update(&self) -> Result<Updated, String> {
        self.watched(Arc::new(|_| ())).await.map_err(|error| sentence(&error))
    }

    async fn watched(&self, watcher: ipse_geodata::Watcher) -> Result<Updated, UpdateError> {
        let patience = Patience {
            attempts: 3,
            first_delay: Duration::ZERO,
            longest_delay: Duration::ZERO,
            ..Patience::default()
        };
        update(self.plan.clone(), &Downloader::new(patience).unwrap(), NOW, watcher).await
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.plan.target).unwrap()
    }

    /// The city of an address that is in every source.
    fn city(&self) -> String {
        let atlas = Atlas::read(&self.bytes()).unwrap();
        let place = atlas.find(Address::new("81.2.69.142".parse().unwrap())).place().unwrap();
        place.city.unwrap().to_string()
    }

    /// An update that fails with this sentence and changes nothing.
    async fn keeps_the_old(&self, expected: &str) {
        let before = self.bytes();
        assert_eq!(self.update().await, Err(expected.to_owned()));
        assert_eq!(self.bytes(), before, "the snapshot is the old one");
        let names = names(self.folder.path());
        assert!(names.iter().all(|name| !name.ends_with(".new")), "{names:?}");
    }
}

fn wanted(sources: &[String]) -> Vec<Wanted> {
    sources.iter().map(|text| text.parse().unwrap()).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn not_modified() -> Answer {
    answer("304 Not Modified", &[], "")
}

fn is_new(updated: &Result<Updated, String>) -> bool {
    matches!(updated, Ok(Updated::Replaced { .. }))
}

fn is_unchanged(updated: &Result<Updated, String>) -> bool {
    matches!(updated, Ok(Updated::Unchanged(_)))
}

fn mmdb() -> Vec<u8> {
    let mut database = Database::default();
    database.metadata.ip_version = IpVersion::V4;
    database.metadata.database_type = "GeoLite2-City".to_owned();
    database.metadata.binary_format_major_version = 2;
    database.metadata.build_epoch = 1_700_000_000;
    let record = json!({"country": {"iso_code": "US"}, "city": {"names": {"en": "Mountain View"}}});
    let record = database.insert_value(&record).unwrap();
    database.insert_node("64.0.0.0/3".parse::<IpAddrWithMask>().unwrap(), record);
    let mut bytes = Vec::new();
    database.write_to(&mut bytes).unwrap();
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An archive with one database, as `MaxMind` sends it.
fn archive() -> Vec<u8> {
    let content = mmdb();
    let mut block = vec![0; 512];
    let name = b"GeoLite2-City_20261113/GeoLite2-City.mmdb";
    block[..name.len()].copy_from_slice(name);
    block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    block[156] = b'0';
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block.extend_from_slice(&content);
    block.resize(block.len().next_multiple_of(512) + 1024, 0);
    gzip(&block)
}

/// A home whose city comes from a server with these answers, after a first update that went well.
async fn settled(more: Vec<Answer>) -> (Home, Server) {
    let server = Server::start([vec![file("v1", CITY.as_bytes())], more].concat()).await;
    let home = Home::new(&[format!("city:{}", server.url("/city.csv"))]);
    assert!(is_new(&home.update().await));
    (home, server)
}

#[tokio::test]
async fn an_update_fetches_builds_and_is_not_repeated_for_nothing() {
    let server = Server::start(vec![
        file("c1", &mmdb()),
        file("a1", &gzip(ASN.as_bytes())),
        not_modified(),
        not_modified(),
        not_modified(),
        not_modified(),
        file("c2", NEWER_CITY.as_bytes()),
        not_modified(),
    ])
    .await;
    let sources =
        [format!("city:{}", server.url("/city.mmdb")), format!("asn:{}", server.url("/asn.csv.gz?k=secret"))];
    let mut home = Home::new(&sources);

    let Ok(Updated::Replaced { old: None, new }) = home.update().await else { panic!("a first snapshot") };
    assert_eq!(new.about.built, NOW.unix_seconds());
    let told: Vec<_> = new.about.sources.iter().map(|source| (&*source.kind, &*source.file)).collect();
    assert_eq!(told, [("city", "city.mmdb"), ("asn", "asn.csv.gz")]);
    assert_eq!(home.city(), "Mountain View");
    assert_eq!(names(home.folder.path()), ["cache", "geo.ipse", "geo.ipse.lock"]);

    let before = home.bytes();
    assert_eq!(home.update().await, Ok(Updated::Unchanged(new.clone())));
    assert_eq!(home.bytes(), before);
    home.plan.force = true;
    assert!(is_new(&home.update().await), "whoever asks for it gets another");
    home.plan.force = false;

    let Ok(Updated::Replaced { old: Some(old), new }) = home.update().await else { panic!("a newer one") };
    assert_ne!(old.version, new.version);
    assert_eq!(home.city(), "Palo Alto");

    let (city, asn) = ("GET /city.mmdb", "GET /asn.csv.gz?k=secret");
    let again = |asked: &str, etag: &str| format!("{asked} | if-none-match: \"{etag}\"");
    let mut expected = vec![city.to_owned(), asn.to_owned()];
    (0..3).for_each(|_| expected.extend([again(city, "c1"), again(asn, "a1")]));
    assert_eq!(server.requests(), expected);
}

#[tokio::test]
async fn a_target_that_is_gone_or_damaged_is_built_again() {
    let (home, _server) = settled(vec![not_modified(), not_modified()]).await;
    std::fs::remove_file(&home.plan.target).unwrap();
    assert!(is_new(&home.update().await));
    std::fs::write(&home.plan.target, "damaged").unwrap();
    assert!(matches!(home.update().await, Ok(Updated::Replaced { old: None, .. })));
    assert_eq!(home.city(), "Mountain View");
}

#[tokio::test]
async fn a_cut_download_is_gone_on_with() {
    let newer = NEWER_CITY.as_bytes();
    let length = newer.len();
    let head = format!("Content-Length: {length}");
    let cut = [&written("200 OK", &[&head, "ETag: \"v2\""], ""), &newer[..20]].concat();
    let range = format!("Content-Range: bytes 20-{}/{length}", length - 1);
    let head = format!("Content-Length: {}", length - 20);
    let rest = [&written("206 Partial Content", &[&head, &range, "ETag: \"v2\""], ""), &newer[20..]].concat();
    let (home, server) = settled(vec![Answer::Bytes(cut), Answer::Bytes(rest)]).await;
    assert!(is_new(&home.update().await));
    assert_eq!(home.city(), "Palo Alto");
    assert_eq!(
        server.requests()[1..],
        ["GET /city.csv | if-none-match: \"v1\"", "GET /city.csv | range: bytes=20- | if-range: \"v2\""]
    );
}

#[tokio::test]
async fn whatever_a_vendor_sends_the_old_snapshot_stays() {
    let none = answer("404 Not Found", &["Content-Length: 0"], "");
    let page = answer("200 OK", &["Content-Length: 6", "Content-Type: text/html"], "<html>");
    let cut = answer("200 OK", &["Content-Length: 100"], "11.0.0.0,");
    let (home, _server) =
        settled(vec![none, page, cut.clone(), cut.clone(), cut, file("v2", LITTLE.as_bytes())]).await;
    let source = "city:http://HOST/city.csv: ";
    let url = "http://HOST/city.csv";
    home.keeps_the_old(&format!("{source}{url}: the vendor has no such file (yet)")).await;
    home.keeps_the_old(&format!("{source}{url}: the server sent a web page instead of a data file")).await;
    home.keeps_the_old(&format!(
        "{source}{url}: the transfer broke after 9 bytes: end of file before message length reached"
    ))
    .await;
    let before = home.bytes();
    let error = home.update().await.unwrap_err();
    assert!(
        error.starts_with("the new data knows country of 0.00 % of IPv4 addresses, and the data"),
        "{error}"
    );
    assert!(error.ends_with("run `ipse data update --force`"), "{error}");
    assert_eq!(home.bytes(), before);
}

#[tokio::test]
async fn a_first_snapshot_does_not_know_next_to_nothing() {
    let server = Server::start(vec![file("v1", LITTLE.as_bytes()), not_modified()]).await;
    let mut home = Home::new(&[format!("city:{}", server.url("/city.csv"))]);
    let country = Coverage { field: "country".to_owned(), within: None, v4: 1.0, v6: 1.0 };
    home.plan.without_target = Some(About { coverage: vec![country], ..About::default() });
    let error = home.update().await.unwrap_err();
    assert!(error.starts_with("the new data knows country of 0.00 % of IPv4 addresses"), "{error}");
    assert!(!home.plan.target.exists());
    home.plan.force = true;
    assert!(is_new(&home.update().await));
}

#[tokio::test]
async fn a_wrong_checksum_keeps_the_old() {
    let (mut home, server) = settled(vec![file("v2", NEWER_CITY.as_bytes())]).await;
    let sum = "0".repeat(64);
    home.plan.sources = wanted(&[format!("city:{}#sha256={sum}", server.url("/city.csv"))]);
    let before = home.bytes();
    let error = home.update().await.unwrap_err();
    assert!(error.contains("the file's SHA-256 is ") && error.contains(&sum), "{error}");
    assert_eq!(home.bytes(), before);
}

#[tokio::test]
async fn a_file_that_is_no_data_is_fetched_again_next_time() {
    let page = b"<!DOCTYPE html><html><body>Please log in</body></html>";
    let (home, server) = settled(vec![file("v2", page), file("v2", NEWER_CITY.as_bytes())]).await;
    let before = home.bytes();
    let error = home.update().await.unwrap_err();
    assert!(error.starts_with("city:http://HOST/city.csv: city.csv: "), "{error}");
    assert!(error.ends_with("; the next update fetches it again"), "{error}");
    assert_eq!(home.bytes(), before);
    assert!(is_new(&home.update().await));
    assert_eq!(server.requests()[2], "GET /city.csv", "nothing was remembered of the bad one");
}

#[tokio::test]
async fn much_less_than_before_is_taken_only_by_force() {
    let (mut home, _server) = settled(vec![file("v2", LITTLE.as_bytes()), not_modified()]).await;
    assert!(home.update().await.is_err());
    home.plan.force = true;
    assert!(is_new(&home.update().await));
}

#[tokio::test]
async fn two_updates_of_one_target_do_not_run_at_once() {
    let length = format!("Content-Length: {}", CITY.len());
    let silent = Answer::ThenSilence(written("200 OK", &[&length], "11.0"));
    let server = Server::start(vec![silent, file("v1", CITY.as_bytes())]).await;
    let home = Arc::new(Home::new(&[format!("city:{}", server.url("/city.csv"))]));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let first = tokio::spawn({
        let home = Arc::clone(&home);
        async move { home.watched(Arc::new(move |step| tell.send(step).unwrap_or_default())).await }
    });
    let step = told.recv().await;
    assert!(matches!(step, Some(UpdateStep::Downloading(0, Progress::Bytes { .. }))), "{step:?}");
    let busy = format!("another update of {} is running; wait until it is done", home.plan.target.display());
    assert_eq!(home.update().await, Err(busy));
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert!(is_new(&home.update().await), "one that was ended is in nobody's way");
}

#[tokio::test]
async fn dbip_has_last_months_file_until_the_new_one_is_there() {
    let none = || answer("404 Not Found", &["Content-Length: 0"], "");
    let server = Server::start(vec![none(), file("oct", &gzip(&mmdb())), none(), not_modified()]).await;
    let mut home = Home::new(&["city:dbip-city-lite".to_owned()]);
    home.plan.vendors.dbip = server.url("");
    assert!(is_new(&home.update().await));
    assert!(is_unchanged(&home.update().await));
    let [this, last] = ["11", "10"].map(|month| format!("GET /free/dbip-city-lite-2026-{month}.mmdb.gz"));
    let again = format!("{last} | if-none-match: \"oct\"");
    assert_eq!(server.requests(), [&*this, &*last, &*this, &*again]);
}

#[tokio::test]
async fn maxmind_is_asked_with_the_key_and_unpacked() {
    let packed = archive();
    let sum = "0".repeat(64);
    let denied = answer("401 Unauthorized", &["Content-Length: 0"], "");
    let wrong = answer("200 OK", &["Content-Length: 64"], &sum);
    let server = Server::start(vec![denied, file("v1", &packed), wrong]).await;
    let mut home = Home::new(&["city:maxmind:GeoLite2-City".to_owned()]);
    home.plan.vendors.maxmind = server.url("");
    assert_eq!(
        home.update().await,
        Err("city:maxmind:GeoLite2-City needs an account with MaxMind: set maxmind_account and maxmind_key_file"
            .to_owned())
    );
    home.plan.maxmind = Some(Credentials::new("42", "secret"));
    assert_eq!(
        home.update().await,
        Err("city:maxmind:GeoLite2-City: http://HOST/geoip/databases/GeoLite2-City/download?…: the vendor does not \
             know us; check account id and licence key"
            .to_owned())
    );
    assert!(home.update().await.unwrap_err().contains("the file's SHA-256 is "));
    assert!(!home.plan.target.exists());

    // With the right sum, which the vendor publishes beside the archive.
    let found = sha256(&packed);
    let right = answer("200 OK", &["Content-Length: 64"], &found);
    let server = Server::start(vec![file("v1", &packed), right.clone(), not_modified(), right]).await;
    home.plan.vendors.maxmind = server.url("");
    assert!(is_new(&home.update().await));
    assert_eq!(home.city(), "Mountain View");
    assert!(is_unchanged(&home.update().await));
    // base64 of 42:secret
    let asked = "GET /geoip/databases/GeoLite2-City/download?suffix=tar.gz";
    let user = "authorization: Basic NDI6c2VjcmV0";
    assert_eq!(
        server.requests(),
        [
            format!("{asked} | {user}"),
            format!("{asked}.sha256 | {user}"),
            format!("{asked} | {user} | if-none-match: \"v1\""),
            format!("{asked}.sha256 | {user}"),
        ]
    );
    for name in names(&home.plan.cache) {
        let content = std::fs::read(home.plan.cache.join(&name)).unwrap();
        assert!(!String::from_utf8_lossy(&content).contains("secret"), "{name}");
    }
}

#[tokio::test]
async fn an_operators_flags_are_part_of_what_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let own: PathBuf = folder.path().join("own.txt");
    let asn = folder.path().join("asn.csv");
    std::fs::write(&asn, "11.0.0.0,126.255.255.255,64500,Nobody in particular\n").unwrap();
    let mut home = Home::new(&[format!("asn:{}", asn.display())]);
    let hosting = |home: &Home| {
        let atlas = Atlas::read(&home.bytes()).unwrap();
        atlas.find(Address::new("81.2.69.142".parse().unwrap())).network().unwrap().hosting
    };
    assert!(is_new(&home.update().await));
    assert_eq!(hosting(&home), Some(false));
    home.plan.flags = vec![own.clone()];
    home.keeps_the_old(&format!(
        "cannot read the flags in {}: No such file or directory (os error 2)",
        own.display()
    ))
    .await;
    std::fs::write(&own, "deny 64500 hosting\n").unwrap();
    assert!(is_new(&home.update().await));
    assert_eq!(hosting(&home), Some(true));
    assert!(is_unchanged(&home.update().await));
    std::fs::write(&own, "allow 64500\n").unwrap();
    assert!(is_new(&home.update().await));
    assert_eq!(hosting(&home), Some(false));
    std::fs::write(&own, "deny\n").unwrap();
    let error = format!(
        "{}, line 1: the network is missing: expected a number such as `AS64500` or `64500`",
        own.display()
    );
    home.keeps_the_old(&error).await;
}

#[tokio::test]
async fn a_file_of_this_machine_that_is_missing_is_named() {
    let (mut home, _server) = settled(Vec::new()).await;
    home.plan.sources = wanted(&["city:/nowhere/city.csv".to_owned()]);
    home.keeps_the_old("cannot read or write /nowhere/city.csv: No such file or directory (os error 2)")
        .await;
    home.plan.sources = Vec::new();
    home.keeps_the_old("no source of geo data is set: name one with geo_source").await;
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
