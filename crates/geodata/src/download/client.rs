//! One download from its first request to the good file.

use super::answer;
use super::checksum::{self, Checksum};
use super::error::DownloadError;
use super::patience::Patience;
use super::shelf::{Memo, Shelf};
use super::url::{Credentials, SourceUrl, clear_user, is_loopback, redacted, same_origin};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const MAX_REDIRECTS: u32 = 10;
/// An attempt that brought this much was no failure of the line.
const PROGRESS_BYTES: u64 = 1024 * 1024;
/// Checksums of all files of a large vendor fit in.
const LARGEST_CHECKSUM_BYTES: usize = 64 * 1024;

/// What to fetch, and where to put it.
#[derive(Clone, Debug)]
pub struct Download {
    /// Where it lies. Two files of one name, such as this month's and the last one's, may follow each other in one
    /// place; a part of one is never joined with a part of the other.
    pub url: SourceUrl,
    /// Where it shall lie. Its folder is made if it is not there.
    pub file: PathBuf,
    /// For HTTP basic authentication; they win over the URL's own. They go to the URL's host and to no other, and over
    /// plain HTTP only to this machine.
    pub credentials: Option<Credentials>,
    /// How it is verified before it replaces the old one.
    pub checksum: Option<Checksum>,
}

/// How a download ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is a new file.
    Fetched {
        /// Its length.
        bytes: u64,
    },
    /// The file that is there is the newest.
    NotModified,
}

/// What happens meanwhile, for whoever wants to show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So much is here.
    Bytes {
        /// What has arrived, earlier attempts included.
        done: u64,
        /// The length of the whole, where the server said it.
        total: Option<u64>,
    },
    /// An attempt failed and will be repeated.
    Waiting {
        /// How long from now.
        delay: Duration,
        /// The sentence of its error.
        why: String,
    },
}

/// The HTTP client for vendors' files.
#[derive(Clone)]
pub struct Downloader {
    http: reqwest::Client,
    /// For this machine, which no proxy stands before: it would be the one to read a password sent over plain HTTP.
    direct: reqwest::Client,
    patience: Patience,
}

/// The library's own would show the proxies of the environment, passwords included.
impl fmt::Debug for Downloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Downloader").field("patience", &self.patience).finish_non_exhaustive()
    }
}

/// How one attempt ended, errors apart.
enum Attempt {
    Whole(Memo),
    NotModified,
    /// The server does not know the part that we have.
    StartOver,
}

impl Downloader {
    /// A client with bounds of its own.
    pub fn new(patience: Patience) -> Result<Self, DownloadError> {
        let builder = || {
            reqwest::Client::builder()
                .user_agent(concat!("ipse/", env!("CARGO_PKG_VERSION")))
                // The library compares each redirect only with the one before, and starts each from the first
                // request's headers, so that a second redirect on a foreign host would bring it our password. `follow`
                // does it instead.
                .redirect(reqwest::redirect::Policy::none())
                // A `Referer` would carry the query of the URL to whomever it leads to.
                .referer(false)
                .retry(reqwest::retry::never())
                .connect_timeout(patience.connect)
                // Requests are rare; a kept connection would only be a dead one.
                .pool_max_idle_per_host(0)
        };
        let http = builder().build().map_err(|error| DownloadError::setup(&error))?;
        let direct = builder().no_proxy().build().map_err(|error| DownloadError::setup(&error))?;
        Ok(Self { http, direct, patience })
    }

    /// Fetches the file unless the one that is there is the newest. A cut download goes on where it ended, in this call
    /// or in a later one. Only one download of a file runs at a time.
    pub async fn fetch(
        &self,
        download: &Download,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Outcome, DownloadError> {
        let whole = self.patience.whole;
        timeout(whole, self.fetch_patiently(download, progress))
            .await
            .unwrap_or_else(|_| Err(DownloadError::Overdue { url: download.url.to_string(), whole }))
    }

    /// Fetches the first of the files that its vendor has, and says which one that was, counted from 0. Only "no such
    /// file" leads on to an older one.
    pub async fn fetch_first_available(
        &self,
        newest: &Download,
        older: &[Download],
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(usize, Outcome), DownloadError> {
        let mut result = self.fetch(newest, progress).await;
        for (index, download) in older.iter().enumerate() {
            if !matches!(result, Err(DownloadError::NotFound { .. })) {
                return Ok((index, result?));
            }
            result = self.fetch(download, progress).await;
        }
        Ok((older.len(), result?))
    }

    async fn fetch_patiently(
        &self,
        download: &Download,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Outcome, DownloadError> {
        let shelf = Shelf::open(&download.file).await?;
        let mut failures = 0;
        let mut started_over = false;
        let memo = loop {
            let kept_before = shelf.arriving().await.map_or(0, |memo| memo.kept);
            match self.attempt(download, &shelf, progress).await {
                Ok(Attempt::Whole(memo)) => break memo,
                Ok(Attempt::NotModified) => {
                    if self.is_still_published(download, &shelf, progress).await? {
                        return Ok(Outcome::NotModified);
                    }
                    // Fetched anew, it is either right or refused.
                    shelf.doubt().await?;
                }
                Ok(Attempt::StartOver) => {
                    shelf.discard().await?;
                    if std::mem::replace(&mut started_over, true) {
                        let status = StatusCode::RANGE_NOT_SATISFIABLE;
                        return Err(DownloadError::Status { url: download.url.to_string(), status });
                    }
                }
                Err(error) => {
                    let kept = shelf.arriving().await.map_or(0, |memo| memo.kept);
                    failures = if kept >= kept_before + PROGRESS_BYTES { 1 } else { failures + 1 };
                    self.wait_or_give_up(error, failures, progress).await?;
                }
            }
        };
        let expected = match &download.checksum {
            None => None,
            Some(Checksum::Sha256(sum)) => Some(*sum),
            Some(Checksum::At(url)) => Some(self.published_checksum(url, download, progress).await?),
        };
        let bytes = shelf.seal(expected, &download.url.to_string(), memo).await?;
        Ok(Outcome::Fetched { bytes })
    }

    /// One request for the file, or for the rest of it.
    async fn attempt(
        &self,
        download: &Download,
        shelf: &Shelf,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Attempt, DownloadError> {
        let shown = || download.url.to_string();
        let limit_bytes = self.patience.largest_bytes;
        let identity = download.url.identity();
        let part = shelf.arriving().await.filter(|memo| memo.url == identity);
        let good = match &part {
            // The part is newer than the good file.
            Some(_) => None,
            None => shelf.finished().await.filter(|memo| memo.url == identity && fits(memo, download)),
        };
        // Of a part that is whole the last byte is asked for again, to learn whether it is still the newest.
        let offset = part.as_ref().map(|memo| match memo.length {
            Some(length) => memo.kept.min(length.saturating_sub(1)),
            None => memo.kept,
        });
        let offset = offset.filter(|offset| *offset > 0);

        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let (Some(memo), Some(offset)) = (&part, offset) {
            insert(&mut headers, header::RANGE, Some(&format!("bytes={offset}-")));
            insert(&mut headers, header::IF_RANGE, memo.if_range.as_deref());
        } else if let Some(memo) = &good {
            insert(&mut headers, header::IF_NONE_MATCH, memo.etag.as_deref());
            insert(&mut headers, header::IF_MODIFIED_SINCE, memo.last_modified.as_deref());
        }
        let credentials = download.credentials.as_ref().or(download.url.credentials());
        let mut response = self.follow(&download.url, credentials, &headers).await?;

        let offset = match (response.status(), offset) {
            (StatusCode::OK, _) => 0,
            (StatusCode::PARTIAL_CONTENT, Some(offset)) => offset,
            (StatusCode::NOT_MODIFIED, _) if good.is_some() => return Ok(Attempt::NotModified),
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => return Ok(Attempt::StartOver),
            _ => return Err(refusal(shown(), &response)),
        };
        let memo = if offset == 0 {
            if answer::is_web_page(response.headers()) {
                return Err(DownloadError::WebPage { url: shown() });
            }
            if answer::ends_with_connection(&response) && download.checksum.is_none() {
                return Err(DownloadError::NoLength { url: shown() });
            }
            Memo {
                url: identity,
                etag: answer::text(response.headers(), &header::ETAG).map(str::to_owned),
                last_modified: answer::text(response.headers(), &header::LAST_MODIFIED).map(str::to_owned),
                if_range: answer::strong_validator(response.headers()),
                length: response.content_length(),
                kept: 0,
                sha256: None,
            }
        } else {
            match joined(part.unwrap_or_default(), offset, &response) {
                Ok(memo) => memo,
                Err(what) => {
                    shelf.discard().await?;
                    return Err(DownloadError::WrongRange { url: shown(), what });
                }
            }
        };
        let total = memo.length;
        if total.is_some_and(|total| total > limit_bytes) {
            return Err(DownloadError::TooLarge { url: shown(), limit_bytes });
        }

        let mut arrival = shelf.write_from(memo, offset).await?;
        progress(Progress::Bytes { done: offset, total });
        let stall = self.patience.stall;
        let failure = loop {
            let done_bytes = arrival.done();
            match timeout(stall, response.chunk()).await {
                Err(_) => break DownloadError::Stalled { url: shown(), done_bytes, stall },
                Ok(Err(error)) => break DownloadError::transfer(shown(), done_bytes, &error),
                Ok(Ok(None)) if done_bytes == 0 => {
                    shelf.discard().await?;
                    return Err(DownloadError::Empty { url: shown() });
                }
                Ok(Ok(None)) => match total {
                    Some(total) if total != done_bytes => {
                        let cause = format!("the server ended before the {total} bytes that it promised");
                        break DownloadError::Cut { url: shown(), done_bytes, cause };
                    }
                    _ => return Ok(Attempt::Whole(arrival.finish().await?)),
                },
                Ok(Ok(Some(bytes))) => {
                    let too_many = done_bytes + bytes.len() as u64 > total.unwrap_or(limit_bytes);
                    if too_many {
                        shelf.discard().await?;
                        return Err(match total {
                            Some(promised_bytes) => DownloadError::TooLong { url: shown(), promised_bytes },
                            None => DownloadError::TooLarge { url: shown(), limit_bytes },
                        });
                    }
                    arrival.write(&bytes).await?;
                    progress(Progress::Bytes { done: arrival.done(), total });
                }
            }
        };
        arrival.pause().await?;
        Err(failure)
    }

    /// Sends a request and follows where it leads. Credentials stay behind for good as soon as it leaves their host.
    async fn follow(
        &self,
        url: &SourceUrl,
        mut credentials: Option<&Credentials>,
        headers: &HeaderMap,
    ) -> Result<Response, DownloadError> {
        let shown = || url.to_string();
        let mut here = url.as_url().clone();
        if credentials.is_some() && here.scheme() != "https" && !is_loopback(&here) {
            return Err(DownloadError::PlainPassword { url: shown() });
        }
        let wait = self.patience.connect + self.patience.stall;
        for _ in 0..=MAX_REDIRECTS {
            let client = if is_loopback(&here) { &self.direct } else { &self.http };
            let mut request = client.get(here.clone()).headers(headers.clone());
            if let Some(Credentials { user, password }) = credentials {
                request = request.basic_auth(user, Some(password));
            }
            let response = match timeout(wait, request.send()).await {
                Err(_) => return Err(DownloadError::Stalled { url: shown(), done_bytes: 0, stall: wait }),
                Ok(Err(error)) => return Err(DownloadError::transfer(shown(), 0, &error)),
                Ok(Ok(response)) => response,
            };
            if !answer::is_redirect(response.status()) {
                return Ok(response);
            }
            let location = answer::text(response.headers(), &header::LOCATION);
            let next = next_hop(&here, location.unwrap_or_default(), url)?;
            if !same_origin(&here, &next) {
                credentials = None;
            }
            here = next;
        }
        Err(DownloadError::TooManyRedirects { url: shown(), limit: MAX_REDIRECTS })
    }

    /// Whether the file that is there is the one whose checksum is published now, if one is.
    async fn is_still_published(
        &self,
        download: &Download,
        shelf: &Shelf,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<bool, DownloadError> {
        let Some(Checksum::At(url)) = &download.checksum else { return Ok(true) };
        let published = self.published_checksum(url, download, progress).await?;
        Ok(shelf.finished().await.and_then(|memo| memo.sha256) == Some(published))
    }

    async fn published_checksum(
        &self,
        url: &SourceUrl,
        download: &Download,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<[u8; 32], DownloadError> {
        let shared = download.credentials.as_ref().or(download.url.credentials());
        let shared = shared.filter(|_| same_origin(url.as_url(), download.url.as_url()));
        let credentials = url.credentials().or(shared);
        let name = download.url.as_url().path().rsplit('/').next().unwrap_or_default();
        let mut failures = 0;
        loop {
            match self.small_text(url, credentials).await {
                Ok(text) => {
                    return checksum::find(&text, name)
                        .ok_or_else(|| DownloadError::NoChecksum { url: url.to_string() });
                }
                Err(error) => {
                    failures += 1;
                    self.wait_or_give_up(error, failures, progress).await?;
                }
            }
        }
    }

    async fn small_text(
        &self,
        url: &SourceUrl,
        credentials: Option<&Credentials>,
    ) -> Result<String, DownloadError> {
        let mut response = self.follow(url, credentials, &HeaderMap::new()).await?;
        if response.status() != StatusCode::OK {
            return Err(refusal(url.to_string(), &response));
        }
        let stall = self.patience.stall;
        let mut body = Vec::new();
        loop {
            let done_bytes = body.len() as u64;
            match timeout(stall, response.chunk()).await {
                Err(_) => return Err(DownloadError::Stalled { url: url.to_string(), done_bytes, stall }),
                Ok(Err(error)) => return Err(DownloadError::transfer(url.to_string(), done_bytes, &error)),
                Ok(Ok(None)) => return Ok(String::from_utf8_lossy(&body).into_owned()),
                Ok(Ok(Some(bytes))) if body.len() + bytes.len() > LARGEST_CHECKSUM_BYTES => {
                    return Err(DownloadError::NoChecksum { url: url.to_string() });
                }
                Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
            }
        }
    }

    /// Returns after the wait, or at once with the error if there shall be no further attempt.
    async fn wait_or_give_up(
        &self,
        error: DownloadError,
        failures: u32,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), DownloadError> {
        let Some(delay) = self.patience.delay(&error, failures) else {
            return Err(error);
        };
        progress(Progress::Waiting { delay, why: error.to_string() });
        sleep(delay).await;
        Ok(())
    }
}

/// Where a redirect leads, if it may be followed.
fn next_hop(here: &Url, location: &str, asked: &SourceUrl) -> Result<Url, DownloadError> {
    let next = if location.is_empty() { None } else { here.join(location).ok() };
    let mut next = next.ok_or_else(|| DownloadError::LostRedirect { url: asked.to_string() })?;
    clear_user(&mut next);
    match (here.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => Ok(next),
        _ => Err(DownloadError::Downgrade { url: asked.to_string(), to: redacted(&next) }),
    }
}

/// Whether a good file with this memo is one that the download would accept.
fn fits(memo: &Memo, download: &Download) -> bool {
    match &download.checksum {
        Some(Checksum::Sha256(sum)) => memo.sha256 == Some(*sum),
        Some(Checksum::At(_)) | None => true,
    }
}

/// The part's memo if the answer is the rest of it, or what is wrong.
fn joined(mut part: Memo, offset: u64, response: &Response) -> Result<Memo, String> {
    let headers = response.headers();
    let said = answer::text(headers, &header::CONTENT_RANGE).unwrap_or("no range");
    let Some(range) = answer::content_range(headers) else {
        return Err(format!("asked for bytes {offset}-, got {said}"));
    };
    let length = range.last - range.first + 1;
    if range.first != offset
        || part.length.is_some_and(|total| total != range.total)
        || response.content_length().is_some_and(|promised| promised != length)
    {
        return Err(format!("asked for bytes {offset}-, got {said}"));
    }
    let etag = answer::text(headers, &header::ETAG);
    if etag.is_some() && part.etag.is_some() && etag != part.etag.as_deref() {
        return Err("of another version".to_owned());
    }
    part.length = Some(range.total);
    Ok(part)
}

/// What an answer that is no file means.
fn refusal(url: String, response: &Response) -> DownloadError {
    let status = response.status();
    match status.as_u16() {
        401 => DownloadError::Unauthorized { url },
        403 => DownloadError::Forbidden { url },
        404 | 410 => DownloadError::NotFound { url },
        408 | 429 | 500..=599 => {
            DownloadError::Unavailable { url, status, retry_after: answer::retry_after(response.headers()) }
        }
        _ => DownloadError::Status { url, status },
    }
}

/// What we remember was a header once; a memo that someone edited is left out.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: Option<&str>) {
    if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn leads(from: &str, location: &str, expected: Result<&str, &str>) {
        let asked = SourceUrl::parse("https://vendor.example/city?license_key=secret").unwrap();
        let next = next_hop(&from.parse().unwrap(), location, &asked);
        assert_eq!(
            next.map(String::from).map_err(|error| error.to_string()),
            expected.map(str::to_owned).map_err(|end| format!("https://vendor.example/city?… {end}"))
        );
    }

    #[test]
    fn a_redirect_never_leaves_https() {
        leads("https://a.example/b", "/c?d=e", Ok("https://a.example/c?d=e"));
        leads("https://a.example/b", "//b.example/", Ok("https://b.example/"));
        leads("https://a.example/b", "https://me:pw@b.example/", Ok("https://b.example/"));
        leads("http://a.example/b", "https://a.example/b", Ok("https://a.example/b"));
        leads("http://a.example/b", "http://b.example/", Ok("http://b.example/"));
        leads(
            "https://a.example/b",
            "http://me:pw@a.example/b?token=secret",
            Err("redirects to http://a.example/b?…, which is not HTTPS; it was not followed"),
        );
        leads(
            "https://a.example/b",
            "http://127.0.0.1/",
            Err("redirects to http://127.0.0.1/, which is not HTTPS; it was not followed"),
        );
        leads(
            "http://a.example/b",
            "file:///etc/passwd",
            Err("redirects to file:///etc/passwd, which is not HTTPS; it was not followed"),
        );
        leads("https://a.example/b", "", Err("redirects without saying where to"));
        leads("https://a.example/b", "https://", Err("redirects without saying where to"));
    }
}
