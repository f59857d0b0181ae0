//! Debian's packages by package lists of our own, so that the machine's own neither matter nor change.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::steps::step;

/// Package lists in a directory.
pub struct Lists {
    directory: PathBuf,
}

impl Lists {
    /// Reads them anew; `sources` are lines of sources.list(5).
    pub fn read(directory: &Path, sources: &str) -> Result<Self> {
        let lists = Self {
            directory: directory.to_owned(),
        };
        let partial = lists.lists().join("partial");
        fs::create_dir_all(&partial).with_context(|| format!("making {}", partial.display()))?;
        let path = lists.sources();
        fs::write(&path, sources).with_context(|| format!("writing {}", path.display()))?;
        step(
            "reading Debian's package lists",
            lists.command("apt-get").arg("update"),
        )?;
        Ok(lists)
    }

    /// `apt-get` or `apt-cache` with these lists, in this directory.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.directory).arg("--quiet");
        let (sources, lists) = (self.sources(), self.lists());
        for (name, path) in [
            ("Dir::Etc::sourcelist", sources.as_path()),
            ("Dir::Etc::sourceparts", Path::new("-")),
            ("Dir::State::lists", &lists),
            // These would be made of the machine's own lists.
            ("Dir::Cache::pkgcache", Path::new("")),
            ("Dir::Cache::srcpkgcache", Path::new("")),
        ] {
            command.arg("-o").arg(format!("{name}={}", path.display()));
        }
        command.args(["-o", "Acquire::Languages=none", "-o", "Acquire::Retries=3"]);
        command
    }

    fn sources(&self) -> PathBuf {
        self.directory.join("sources.list")
    }

    fn lists(&self) -> PathBuf {
        self.directory.join("lists")
    }
}
