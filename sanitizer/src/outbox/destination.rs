//! Where messages go, and who the agent is there.

use std::path::PathBuf;

use crate::http::Server;

/// See the module. Files are in PEM, but for the token, which is a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The collector.
    pub server: Server,
    /// The file of the token by which it knows that it is meant.
    pub token: Option<PathBuf>,
    /// The file of those whom it is signed by; where there is none, whom this machine believes.
    pub authorities: Option<PathBuf>,
    /// The files of the agent's own certificate, and of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}
