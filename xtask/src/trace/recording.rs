//! A recording while it is made: the recorder is told by the environment what to do.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::paths;

/// How long writing may take after the end.
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// One that is removed in the end.
pub struct Recording {
    folder: PathBuf,
    megabytes: u64,
}

impl Recording {
    /// One of at most so many megabytes, below `target/trace`.
    pub fn new(program: impl std::fmt::Debug, megabytes: u64) -> Result<Self> {
        let folder = paths::target().join(format!("trace/{program:?}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Self { folder, megabytes })
    }

    /// Where it is written.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Has a program recorded from so long after its start on, for so long.
    pub fn prepare(&self, command: &mut Command, after: Duration, lasts: Duration) {
        command
            .env("TRACE_FOLDER", &self.folder)
            .env("TRACE_AFTER", after.as_millis().to_string())
            .env("TRACE_FOR", lasts.as_millis().to_string())
            .env("TRACE_MEGABYTES", self.megabytes.to_string());
    }

    /// Waits until all of it is written.
    pub fn wait_until_written(&self) -> Result<()> {
        let begun = Instant::now();
        while !self.folder.join("complete").exists() {
            if begun.elapsed() > LIMIT {
                bail!(
                    "the program has written no recording into {}",
                    self.folder.display()
                );
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
