//! What can end a command, in a sentence for whoever typed it.

use ipse_edge::BindError;
use ipse_store::Error as StoreError;

/// A failure of a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong in these ways.
    #[error("the configuration is not valid:\n{}", .0.join("\n"))]
    Config(Vec<String>),
    /// Storage.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A door that could not be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A certificate that cannot be shown.
    #[error(transparent)]
    Certificate(#[from] ipse_edge::CertificateError),
    /// Pages that cannot be served.
    #[error(transparent)]
    Site(#[from] ipse_site::SiteError),
    /// Something that was asked for and cannot be, in words.
    #[error("{0}")]
    Refused(String),
    /// Geo data that was not updated.
    #[error(transparent)]
    Update(#[from] ipse_geodata::UpdateError),
    /// A file that is no snapshot, or a damaged one.
    #[error("{file} cannot be used as geo data: {source}")]
    Snapshot {
        /// Which file.
        file: String,
        /// What is wrong with it.
        #[source]
        source: ipse_geo::Error,
    },
    /// The system.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn snapshot(path: &std::path::Path, source: ipse_geo::Error) -> Self {
        Self::Snapshot { file: path.display().to_string(), source }
    }
}
