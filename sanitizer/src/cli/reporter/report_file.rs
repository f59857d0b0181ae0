//! The file of `-o`, which is opened anew when it was moved away (logrotate(8)).

use std::path::PathBuf;

use crate::kernel::rights::as_caller;
use crate::report::{SharedFile, reopen_output};

/// See the module.
pub(super) struct ReportFile {
    path: PathBuf,
    file: SharedFile,
}

impl ReportFile {
    /// Nothing where it is no file that could be moved away.
    pub(super) fn new(path: PathBuf, file: SharedFile) -> Option<Self> {
        file.is_regular().then_some(Self { path, file })
    }

    /// Opens it anew, with the same distrust as the first time. If that fails the old one stays, and it is told.
    pub(super) fn reopen(&self) {
        let name = self.path.display();
        let opened = as_caller(|| reopen_output(&self.path)).map_err(anyhow::Error::from);
        match opened.and_then(|opened| Ok(opened?)) {
            Ok(file) => {
                self.file.exchange(file);
                tracing::info!("{name} was opened anew");
            }
            Err(error) => tracing::error!("{error}; reports still go to the file that was open"),
        }
    }
}
