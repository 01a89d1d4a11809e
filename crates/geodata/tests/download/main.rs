//! Downloads against a real server with every fault that we could think of: the outcome, the sentence, what is then on
//! the disk, and what the server was asked.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod redirects;
mod resume;
mod secure;
mod server;
mod update;

use ipse_geodata::{Checksum, Credentials, Download, Downloader, Outcome, Patience, Progress, SourceUrl};
use server::{Answer, Server, answer, written};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// The SHA-256 of `0123456789`.
const SUM: &str = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882";

/// Tries three times without waiting.
fn patience() -> Patience {
    Patience {
        attempts: 3,
        first_delay: Duration::ZERO,
        longest_delay: Duration::ZERO,
        largest_bytes: 1000,
        ..Patience::default()
    }
}

/// A cache folder with an old file, and the downloads into it.
struct Cache {
    folder: TempDir,
    patience: Patience,
}

impl Cache {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("city"), "old").unwrap();
        Self { folder, patience: patience() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("city")
    }

    fn download(&self, url: &str) -> Download {
        Download { url: SourceUrl::parse(url).unwrap(), file: self.file(), credentials: None, checksum: None }
    }

    async fn fetch(&self, download: &Download) -> Result<Outcome, String> {
        self.fetch_and_watch(download).await.0
    }

    /// Fetches, and tells the delays before further attempts.
    async fn fetch_and_watch(&self, download: &Download) -> (Result<Outcome, String>, Vec<Duration>) {
        let mut delays = Vec::new();
        let mut watch = |progress| {
            if let Progress::Waiting { delay, .. } = progress {
                delays.push(delay);
            }
        };
        let result = Downloader::new(self.patience.clone()).unwrap().fetch(download, &mut watch).await;
        (result.map_err(|error| sentence(&error)), delays)
    }

    /// All files but the lock, with the content of those that are not ours to describe.
    fn files(&self) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        entries
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
            .filter(|(name, _)| name != "city.lock")
            .map(|(name, path)| {
                let content = if name.ends_with(".meta") {
                    "…".into()
                } else {
                    std::fs::read_to_string(path).unwrap()
                };
                (name, content)
            })
            .collect()
    }

    #[track_caller]
    fn holds(&self, expected: &[(&str, &str)]) {
        let expected =
            expected.iter().map(|(name, content)| ((*name).to_owned(), (*content).to_owned())).collect();
        assert_eq!(self.files(), expected);
    }

    #[track_caller]
    fn holds_only_the_old(&self) {
        self.holds(&[("city", "old")]);
    }

    #[track_caller]
    fn holds_the_new(&self, content: &str) {
        self.holds(&[("city", content), ("city.meta", "…")]);
    }
}

/// What an error says, with the port, which differs from run to run, left out. Neither form may show a secret.
fn sentence(error: &(impl std::fmt::Display + std::fmt::Debug)) -> String {
    let text = error.to_string();
    assert!(!format!("{text}{error:?}").contains("secret"), "{error:?}");
    let mut parts = text.split("127.0.0.1:");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str("HOST");
        shown.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    }
    shown
}

const TEN: &str = "0123456789";

fn ten() -> Answer {
    answer("200 OK", &["Content-Length: 10", "ETag: \"v1\""], TEN)
}

/// One download from a server with these answers, which must fail and leave nothing new.
async fn fails(answers: Vec<Answer>, requests: usize, expected: &str) {
    let cache = Cache::new();
    let server = Server::start(answers).await;
    assert_eq!(cache.fetch(&cache.download(&server.url("/city"))).await, Err(expected.to_owned()));
    cache.holds_only_the_old();
    assert_eq!(server.requests(), vec!["GET /city"; requests]);
}

#[tokio::test]
async fn a_file_arrives_and_is_not_fetched_again() {
    let cache = Cache::new();
    let not_modified = answer("304 Not Modified", &[], "");
    let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
    let first = answer(
        "200 OK",
        &["Content-Length: 10", "ETag: W/\"v1\"", &format!("Last-Modified: {modified}")],
        TEN,
    );
    let second = answer("200 OK", &["Content-Length: 3"], "new");
    let server = Server::start(vec![first, not_modified, second]).await;
    let download = cache.download(&server.url("/city?license_key=secret"));

    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    cache.holds_the_new(TEN);
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::NotModified));
    cache.holds_the_new(TEN);
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 3 }));
    cache.holds_the_new("new");

    let asked = "GET /city?license_key=secret";
    let conditional = format!("{asked} | if-none-match: W/\"v1\" | if-modified-since: {modified}");
    assert_eq!(server.requests(), [asked, &*conditional, &*conditional]);
    let memo = std::fs::read_to_string(cache.folder.path().join("city.meta")).unwrap();
    assert!(!memo.contains("secret"), "{memo}");
}

#[tokio::test]
async fn a_request_says_who_we_are_and_little_else() {
    let cache = Cache::new();
    let with_cookie = answer("302 Found", &["Location: /there", "Set-Cookie: a=b", "Content-Length: 0"], "");
    let server = Server::start(vec![with_cookie, ten()]).await;
    cache.fetch(&cache.download(&server.url("/city"))).await.unwrap();
    for seen in server.seen() {
        let names: Vec<_> = seen.headers.keys().map(String::as_str).collect();
        assert_eq!(names, ["accept", "accept-encoding", "host", "user-agent"]);
        assert_eq!(seen.headers["user-agent"], concat!("ipse/", env!("CARGO_PKG_VERSION")));
        assert_eq!(seen.headers["accept-encoding"], "identity");
    }
    assert_eq!(server.requests(), ["GET /city", "GET /there"]);
}

#[tokio::test]
async fn a_good_file_is_asked_for_whole_when_it_is_not_what_the_memo_says() {
    let cache = Cache::new();
    let server = Server::start(vec![ten(), ten(), ten(), ten()]).await;
    let download = cache.download(&server.url("/city"));
    cache.fetch(&download).await.unwrap();
    // Someone cut it short, another URL, another checksum: no memo helps.
    std::fs::write(cache.file(), "012").unwrap();
    cache.fetch(&download).await.unwrap();
    cache.fetch(&cache.download(&server.url("/other"))).await.unwrap();
    let pinned =
        Download { checksum: Checksum::parse(&"0".repeat(64)), ..cache.download(&server.url("/other")) };
    cache.fetch(&pinned).await.unwrap_err();
    assert_eq!(server.requests(), ["GET /city", "GET /city", "GET /other", "GET /other"]);
    cache.holds_the_new(TEN);
}

#[tokio::test]
async fn an_answer_that_no_repetition_changes_is_an_error_at_once() {
    let none = |status| vec![answer(status, &["Content-Length: 0"], "")];
    fails(none("404 Not Found"), 1, "http://HOST/city: the vendor has no such file (yet)").await;
    fails(none("410 Gone"), 1, "http://HOST/city: the vendor has no such file (yet)").await;
    fails(
        none("401 Unauthorized"),
        1,
        "http://HOST/city: the vendor does not know us; check account id and licence key",
    )
    .await;
    fails(
        none("403 Forbidden"),
        1,
        "http://HOST/city: the vendor does not allow this download; check that the account and its licence include \
         the file",
    )
    .await;
    let no_file = |status| format!("http://HOST/city: the server answered {status}, which is no file");
    fails(none("400 Bad Request"), 1, &no_file("400 Bad Request")).await;
    fails(none("204 No Content"), 1, &no_file("204 No Content")).await;
    fails(none("304 Not Modified"), 1, &no_file("304 Not Modified")).await;
    fails(none("416 Range Not Satisfiable"), 1, &no_file("416 Range Not Satisfiable")).await;
    let part = answer("206 Partial Content", &["Content-Range: bytes 0-9/20", "Content-Length: 10"], TEN);
    fails(vec![part], 1, &no_file("206 Partial Content")).await;
}

#[tokio::test]
async fn what_is_no_data_file_is_refused() {
    let page = answer("200 OK", &["Content-Length: 6", "Content-Type: text/html; charset=utf-8"], "<html>");
    fails(vec![page], 1, "http://HOST/city: the server sent a web page instead of a data file").await;
    fails(vec![answer("200 OK", &["Content-Length: 0"], "")], 1, "http://HOST/city: the file is empty").await;
    fails(
        vec![answer("200 OK", &["Connection: close"], TEN)],
        1,
        "http://HOST/city: the server does not say how long the file is, so a cut would go unnoticed; give a checksum",
    )
    .await;
}

#[tokio::test]
async fn a_server_that_is_down_for_a_moment_is_asked_again() {
    let cache = Cache::new();
    let down = answer("500 Internal Server Error", &["Content-Length: 0"], "");
    let server = Server::start(vec![down, answer("503 Service Unavailable", &[], ""), ten()]).await;
    let (result, delays) = cache.fetch_and_watch(&cache.download(&server.url("/city"))).await;
    assert_eq!(result, Ok(Outcome::Fetched { bytes: 10 }));
    assert_eq!(delays, [Duration::ZERO; 2]);
    assert_eq!(server.requests(), ["GET /city"; 3]);
    cache.holds_the_new(TEN);
}

#[tokio::test]
async fn a_server_that_stays_down_is_given_up() {
    let down = answer("502 Bad Gateway", &["Content-Length: 0"], "");
    fails(vec![down; 4], 3, "http://HOST/city: the server cannot answer now (502 Bad Gateway)").await;
}

#[tokio::test]
async fn a_server_is_left_alone_as_long_as_it_asks() {
    let mut cache = Cache::new();
    // Our own wait would outlast the test.
    cache.patience.first_delay = Duration::from_hours(1);
    cache.patience.longest_delay = Duration::from_hours(1);
    let busy = answer("429 Too Many Requests", &["Retry-After: 0", "Content-Length: 0"], "");
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let dated = answer(
        "503 Service Unavailable",
        &[&format!("Retry-After: {date}"), &format!("Date: {date}"), "Content-Length: 0"],
        "",
    );
    let server = Server::start(vec![busy, dated, ten()]).await;
    let (result, delays) = cache.fetch_and_watch(&cache.download(&server.url("/city"))).await;
    assert_eq!(result, Ok(Outcome::Fetched { bytes: 10 }));
    assert_eq!(delays, [Duration::ZERO; 2]);
}

#[tokio::test]
async fn a_server_that_asks_for_too_long_a_wait_is_not_waited_for() {
    let busy = answer("429 Too Many Requests", &["Retry-After: 7200", "Content-Length: 0"], "");
    fails(
        vec![busy, ten()],
        1,
        "http://HOST/city: the server cannot answer now (429 Too Many Requests) and asks to come back in 7200 seconds",
    )
    .await;
}

#[tokio::test]
async fn a_file_beyond_the_bound_is_refused() {
    let expected = "http://HOST/city: the file is larger than 1000 bytes, the most that is accepted";
    let promised = answer("200 OK", &["Content-Length: 1001", "ETag: \"v1\""], "0");
    fails(vec![promised], 1, expected).await;
    // One chunk of more than the bound, with more behind it.
    let endless = written("200 OK", &["Transfer-Encoding: chunked", "ETag: \"v1\""], "fffffff\r\n");
    fails(vec![Answer::ThenEndless(endless)], 1, expected).await;
}

#[tokio::test]
async fn what_comes_after_the_promised_length_is_not_part_of_the_file() {
    let cache = Cache::new();
    let server = Server::start(vec![answer("200 OK", &["Content-Length: 10"], "0123456789and more")]).await;
    let download = Download { checksum: Checksum::parse(SUM), ..cache.download(&server.url("/city")) };
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    cache.holds_the_new(TEN);
}

#[tokio::test]
async fn a_file_of_the_wrong_checksum_is_thrown_away() {
    let cache = Cache::new();
    let wrong = answer("200 OK", &["Content-Length: 10", "ETag: \"v1\""], "0123456780");
    let server = Server::start(vec![wrong, ten()]).await;
    let download = Download { checksum: Checksum::parse(SUM), ..cache.download(&server.url("/city")) };
    let found = "387861473bdec7ee98095a4a03910b86a8a442c2f6f3f251fee1c865a74b44aa";
    let said =
        format!("http://HOST/city: the file's SHA-256 is {found}, but should be {SUM}; it was thrown away");
    assert_eq!(cache.fetch(&download).await, Err(said));
    cache.holds_only_the_old();
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    cache.holds_the_new(TEN);
    assert_eq!(server.requests(), ["GET /city", "GET /city"]);
}

#[tokio::test]
async fn a_checksum_is_fetched_from_the_vendor_with_the_same_credentials() {
    let cache = Cache::new();
    let sum = format!("{SUM}  GeoLite2-City_20260101.tar.gz\n");
    let sum = answer("200 OK", &[&format!("Content-Length: {}", sum.len())], &sum);
    let down = answer("500 Internal Server Error", &["Content-Length: 0"], "");
    let server = Server::start(vec![ten(), down, sum]).await;
    let download = Download {
        credentials: Some(Credentials::new("42", "secret")),
        checksum: Some(Checksum::At(SourceUrl::parse(&server.url("/city?suffix=sha256")).unwrap())),
        ..cache.download(&server.url("/city"))
    };
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    cache.holds_the_new(TEN);
    let basic = "authorization: Basic NDI6c2VjcmV0";
    let of_sum = format!("GET /city?suffix=sha256 | {basic}");
    assert_eq!(server.requests(), [format!("GET /city | {basic}"), of_sum.clone(), of_sum]);
}

#[tokio::test]
async fn a_file_that_has_not_changed_is_held_to_the_checksum_of_today() {
    let cache = Cache::new();
    let sum = |sum: &str| answer("200 OK", &["Content-Length: 64"], sum);
    let (good, bad) = (sum(SUM), sum(&"0".repeat(64)));
    let (city, same) = (server::file("v1", TEN.as_bytes()), answer("304 Not Modified", &[], ""));
    let answers = vec![city.clone(), good.clone(), same.clone(), good, same, bad.clone(), city, bad];
    let server = Server::start(answers).await;
    let download = Download {
        checksum: Some(Checksum::At(SourceUrl::parse(&server.url("/sum")).unwrap())),
        ..cache.download(&server.url("/city"))
    };
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::NotModified));
    let error = cache.fetch(&download).await.unwrap_err();
    assert!(error.contains("the file's SHA-256 is "), "{error}");
    assert_eq!(server.requests().len(), 8, "it was fetched anew before it was refused");
}

#[tokio::test]
async fn a_checksum_elsewhere_is_fetched_without_credentials() {
    let cache = Cache::new();
    let elsewhere = Server::start(vec![answer("200 OK", &["Content-Length: 64"], SUM)]).await;
    let server = Server::start(vec![ten()]).await;
    let url = server.url("/city").replace("http://", "http://42:secret@");
    let download = Download {
        checksum: Some(Checksum::At(SourceUrl::parse(&elsewhere.url("/sum")).unwrap())),
        ..cache.download(&url)
    };
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    assert_eq!(server.requests(), ["GET /city | authorization: Basic NDI6c2VjcmV0"]);
    assert_eq!(elsewhere.requests(), ["GET /sum"]);
}

#[tokio::test]
async fn a_checksum_that_is_missing_keeps_the_whole_file_for_the_next_time() {
    let cache = Cache::new();
    let none = answer("404 Not Found", &["Content-Length: 0"], "");
    let nonsense = answer("200 OK", &["Content-Length: 2"], "ok");
    let last_byte = answer(
        "206 Partial Content",
        &["Content-Range: bytes 9-9/10", "Content-Length: 1", "ETag: \"v1\""],
        "9",
    );
    let sum = answer("200 OK", &["Content-Length: 64"], SUM);
    let answers = vec![ten(), none, last_byte.clone(), nonsense, last_byte, sum];
    let server = Server::start(answers).await;
    let download = Download {
        checksum: Some(Checksum::At(SourceUrl::parse(&server.url("/sum")).unwrap())),
        ..cache.download(&server.url("/city"))
    };
    let whole = [("city", "old"), ("city.part", TEN), ("city.part.meta", "…")];
    assert_eq!(
        cache.fetch(&download).await,
        Err("http://HOST/sum: the vendor has no such file (yet)".into())
    );
    cache.holds(&whole);
    let no_sum = "http://HOST/sum: there is no SHA-256 of the file in the vendor's checksum";
    assert_eq!(cache.fetch(&download).await, Err(no_sum.into()));
    cache.holds(&whole);
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    cache.holds_the_new(TEN);
    let rest = "GET /city | range: bytes=9- | if-range: \"v1\"";
    assert_eq!(server.requests(), ["GET /city", "GET /sum", rest, "GET /sum", rest, "GET /sum"]);
}

#[tokio::test]
async fn a_password_is_not_sent_over_plain_http_to_another_machine() {
    let cache = Cache::new();
    let said = "http://vendor.invalid/city: a password is not sent over plain HTTP; use https://";
    let in_url = cache.download("http://me:secret@vendor.invalid/city");
    assert_eq!(cache.fetch(&in_url).await, Err(said.into()));
    cache.holds_only_the_old();
}

#[tokio::test]
async fn nobody_listening_is_an_error_after_all_attempts() {
    let cache = Cache::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/city?license_key=secret", listener.local_addr().unwrap());
    drop(listener);
    let (result, delays) = cache.fetch_and_watch(&cache.download(&url)).await;
    let said = "cannot connect to the server of http://HOST/city?…: Connection refused (os error 111)";
    assert_eq!(result, Err(said.to_owned()));
    assert_eq!(delays.len(), 2);
    cache.holds_only_the_old();
}

#[tokio::test]
async fn what_is_no_http_is_refused() {
    let garbage = Answer::Bytes(b"220 ready for mail\r\n\r\n".to_vec());
    fails(
        vec![garbage; 3],
        3,
        "http://HOST/city: the transfer broke after 0 bytes: invalid HTTP version parsed",
    )
    .await;
}

#[tokio::test]
async fn the_month_before_is_fetched_while_the_new_one_is_not_there() {
    let cache = Cache::new();
    let none = || answer("404 Not Found", &["Content-Length: 0"], "");
    let not_modified = answer("304 Not Modified", &[], "");
    let new = answer("200 OK", &["Content-Length: 3"], "new");
    let denied = answer("403 Forbidden", &["Content-Length: 0"], "");
    let server = Server::start(vec![none(), ten(), none(), not_modified, new, denied, none(), none()]).await;
    let [newest, older] = ["/city-11", "/city-10"].map(|path| cache.download(&server.url(path)));
    let client = Downloader::new(patience()).unwrap();
    let mut ignored = |_| {};
    let mut fetch = async || {
        let result = client.fetch_first_available(&newest, std::slice::from_ref(&older), &mut ignored).await;
        result.map_err(|error| sentence(&error))
    };
    assert_eq!(fetch().await, Ok((1, Outcome::Fetched { bytes: 10 })));
    assert_eq!(fetch().await, Ok((1, Outcome::NotModified)));
    assert_eq!(fetch().await, Ok((0, Outcome::Fetched { bytes: 3 })));
    assert!(fetch().await.unwrap_err().contains("does not allow"));
    assert_eq!(fetch().await.unwrap_err(), "http://HOST/city-10: the vendor has no such file (yet)");
    cache.holds_the_new("new");
    assert_eq!(
        server.requests(),
        [
            "GET /city-11",
            "GET /city-10",
            "GET /city-11",
            "GET /city-10 | if-none-match: \"v1\"",
            "GET /city-11",
            "GET /city-11",
            "GET /city-11",
            "GET /city-10",
        ]
    );
}
