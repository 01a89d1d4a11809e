//! What can go wrong between a vendor and our disk, in words for the operator.

use reqwest::StatusCode;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file did not arrive. What was there before is untouched.
///
/// URLs stand here as they are shown: without passwords and queries.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The configured text is no URL that we fetch from. It is not repeated, since it may hold a secret.
    #[error("this is no URL of a file: {why}")]
    BadUrl {
        /// What is wrong with it.
        why: String,
    },
    /// The system has no usable certificates, or proxies that make no sense.
    #[error("the HTTP client cannot be set up: {cause}")]
    Setup {
        /// What the library says.
        cause: String,
    },
    /// A password would be readable on its way.
    #[error("{url}: a password is not sent over plain HTTP; use https://")]
    PlainPassword {
        /// Where to.
        url: String,
    },
    /// A redirect goes from HTTPS to something else.
    #[error("{url} redirects to {to}, which is not HTTPS; it was not followed")]
    Downgrade {
        /// What was asked for.
        url: String,
        /// Where it leads.
        to: String,
    },
    /// A redirect leads nowhere.
    #[error("{url} redirects without saying where to")]
    LostRedirect {
        /// What was asked for.
        url: String,
    },
    /// More redirects than anybody needs.
    #[error("{url} redirects more than {limit} times, perhaps in a circle")]
    TooManyRedirects {
        /// What was asked for.
        url: String,
        /// How many are followed.
        limit: u32,
    },
    /// No connection came about.
    #[error("cannot connect to the server of {url}: {cause}")]
    Connect {
        /// What was asked for.
        url: String,
        /// What the system says.
        cause: String,
    },
    /// The server could not prove who it is, or does not speak TLS.
    #[error("no secure connection to the server of {url}: {cause}")]
    Insecure {
        /// What was asked for.
        url: String,
        /// What the library says.
        cause: String,
    },
    /// The connection ended before the answer did, or what came was no HTTP.
    #[error("{url}: the transfer broke after {done_bytes} bytes: {cause}")]
    Cut {
        /// What was asked for.
        url: String,
        /// How much of the file is here.
        done_bytes: u64,
        /// What the library says.
        cause: String,
    },
    /// Nothing came for too long.
    #[error("{url}: nothing came for {} seconds, after {done_bytes} bytes", stall.as_secs_f64())]
    Stalled {
        /// What was asked for.
        url: String,
        /// How much of the file is here.
        done_bytes: u64,
        /// How long was waited.
        stall: Duration,
    },
    /// Something came all the time, but never enough.
    #[error("{url}: the download was given up after {} seconds; the next one goes on from there", whole.as_secs_f64())]
    Overdue {
        /// What was asked for.
        url: String,
        /// How long was waited.
        whole: Duration,
    },
    /// 404 or 410.
    #[error("{url}: the vendor has no such file (yet)")]
    NotFound {
        /// What was asked for.
        url: String,
    },
    /// 401.
    #[error("{url}: the vendor does not know us; check account id and licence key")]
    Unauthorized {
        /// What was asked for.
        url: String,
    },
    /// 403.
    #[error(
        "{url}: the vendor does not allow this download; check that the account and its licence include the file"
    )]
    Forbidden {
        /// What was asked for.
        url: String,
    },
    /// 408, 429 or 5xx.
    #[error("{url}: the server cannot answer now ({status}){}", later(*retry_after))]
    Unavailable {
        /// What was asked for.
        url: String,
        /// What it said.
        status: StatusCode,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// Any other answer that is no file.
    #[error("{url}: the server answered {status}, which is no file")]
    Status {
        /// What was asked for.
        url: String,
        /// What it said.
        status: StatusCode,
    },
    /// A login form or an apology, sent as if it were the file.
    #[error("{url}: the server sent a web page instead of a data file")]
    WebPage {
        /// What was asked for.
        url: String,
    },
    /// A part of the file that we did not ask for.
    #[error(
        "{url}: the server sent another part of the file than the one asked for ({what}); the next download starts over"
    )]
    WrongRange {
        /// What was asked for.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// Neither a length nor chunks nor a checksum: a cut would look like the end.
    #[error(
        "{url}: the server does not say how long the file is, so a cut would go unnoticed; give a checksum"
    )]
    NoLength {
        /// What was asked for.
        url: String,
    },
    /// Nothing in it.
    #[error("{url}: the file is empty")]
    Empty {
        /// What was asked for.
        url: String,
    },
    /// More than we are ready to store.
    #[error("{url}: the file is larger than {limit_bytes} bytes, the most that is accepted")]
    TooLarge {
        /// What was asked for.
        url: String,
        /// The bound.
        limit_bytes: u64,
    },
    /// More than the server itself had said.
    #[error("{url}: the server sent more than the {promised_bytes} bytes that it promised")]
    TooLong {
        /// What was asked for.
        url: String,
        /// What it said.
        promised_bytes: u64,
    },
    /// The file is not the one that the vendor made.
    #[error("{url}: the file's SHA-256 is {found}, but should be {expected}; it was thrown away")]
    WrongChecksum {
        /// What was asked for.
        url: String,
        /// The vendor's, in hexadecimal.
        expected: String,
        /// The file's.
        found: String,
    },
    /// The vendor's checksum is no checksum.
    #[error("{url}: there is no SHA-256 of the file in the vendor's checksum")]
    NoChecksum {
        /// Where it was looked for.
        url: String,
    },
    /// Another process, or another task, downloads the same file.
    #[error("{path} is being downloaded already", path = .0.display())]
    InUse(PathBuf),
    /// The disk did not do what it was asked.
    #[error("cannot read or write {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An archive that is damaged, or holds something else than one database.
    #[error("{path} cannot be unpacked: {what}", path = path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl DownloadError {
    /// Whether the same request may succeed in a moment without anybody doing anything.
    #[must_use]
    pub fn transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Cut { .. } | Self::Stalled { .. } | Self::Unavailable { .. } => true,
            Self::BadUrl { .. }
            | Self::Setup { .. }
            | Self::PlainPassword { .. }
            | Self::Downgrade { .. }
            | Self::LostRedirect { .. }
            | Self::TooManyRedirects { .. }
            | Self::Insecure { .. }
            | Self::Overdue { .. }
            | Self::NotFound { .. }
            | Self::Unauthorized { .. }
            | Self::Forbidden { .. }
            | Self::Status { .. }
            | Self::WebPage { .. }
            | Self::WrongRange { .. }
            | Self::NoLength { .. }
            | Self::Empty { .. }
            | Self::TooLarge { .. }
            | Self::TooLong { .. }
            | Self::WrongChecksum { .. }
            | Self::NoChecksum { .. }
            | Self::InUse(_)
            | Self::File { .. }
            | Self::Archive { .. } => false,
        }
    }

    pub(super) fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }

    pub(super) fn setup(error: &reqwest::Error) -> Self {
        Self::Setup { cause: innermost(error) }
    }

    /// Names what the HTTP library means. Its own words hold the URL with all secrets, so only the innermost cause,
    /// which comes from below HTTP, is repeated.
    pub(super) fn transfer(url: String, done_bytes: u64, error: &reqwest::Error) -> Self {
        let cause = innermost(error);
        let insecure = causes(error).filter_map(|cause| cause.downcast_ref()).any(is_invalid_data);
        match (error.is_connect(), insecure) {
            (true, true) => Self::Insecure { url, cause },
            (true, false) => Self::Connect { url, cause },
            (false, _) => Self::Cut { url, done_bytes, cause },
        }
    }
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

fn innermost(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| "no reason given".to_owned(), ToString::to_string)
}

/// The TLS library's refusals are invalid data to the layers above it, which wrap it once more.
fn is_invalid_data(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
        || error.get_ref().and_then(|inner| inner.downcast_ref()).is_some_and(is_invalid_data)
}

fn later(retry_after: Option<Duration>) -> String {
    retry_after
        .map_or_else(String::new, |delay| format!(" and asks to come back in {} seconds", delay.as_secs()))
}
