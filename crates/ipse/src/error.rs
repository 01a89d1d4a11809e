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
    /// Something that was asked for and cannot be, in words.
    #[error("{0}")]
    Refused(String),
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
