//! The sources of other people's programs: Debian's packages, with package lists of our own, so that the machine need not
//! know where sources are.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{apt::Lists, paths, setup, steps::step};

/// What makes the metadata, besides optimization and line tables. The last one is for links, which get these flags too where nothing else is
/// compiled, and where warnings may be errors.
pub const METADATA_FLAGS: &str = "-O2 -g -fexperimental-sanitize-metadata=atomics -mllvm -enable-tail-merge=0 \
     -mllvm -x86-promote-anyext-load=0 -Wno-unused-command-line-argument";

/// What makes calls of the recorder (`tests/fixtures/trace/recorder.c`), which is linked in the place of ThreadSanitizer: each access has one of its own.
pub const RECORDED_FLAGS: &str = "-O2 -g -fsanitize=thread -fno-sanitize-link-runtime -mllvm -enable-tail-merge=0 \
     -Wno-unused-command-line-argument";

/// An unpacked source package.
pub struct Tree(PathBuf);

impl Tree {
    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Does something that is to be done once to this tree.
    pub fn once(&self, what: &str, action: impl FnOnce() -> Result<()>) -> Result<()> {
        let done = self.0.with_extension(what);
        if !done.exists() {
            action()?;
            fs::write(&done, "").with_context(|| format!("writing {}", done.display()))?;
        }
        Ok(())
    }

    /// A command in this tree, at low priority.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nice");
        command.args(["-n", "10", program]).current_dir(&self.0);
        command
    }
}

/// Downloads and unpacks a package below `target`, in a room of its own, unless that was done before. Installs what it needs
/// to be built.
pub fn fetch(room: &str, package: &str, needs: &[&str]) -> Result<Tree> {
    setup::have(&[&["dpkg-dev"], needs].concat())?;
    let directory = paths::target().join(room).join(package);
    let tree = Tree(directory.join("source"));
    if tree.0.is_dir() {
        return Ok(tree);
    }
    let line = format!("deb-src http://deb.debian.org/debian {} main\n", release()?);
    let lists = Lists::read(&directory, &line)?;
    step(
        &format!("downloading the source of {package}"),
        lists
            .command("apt-get")
            .args(["source", "--download-only", package]),
    )?;
    step(
        "unpacking it",
        Command::new("dpkg-source")
            .args(["--no-check", "--extract"])
            .arg(description(&directory)?)
            .arg(&tree.0),
    )?;
    Ok(tree)
}

/// The name of this Debian release.
fn release() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let field = |name: &str| {
        let mut values = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        Some(values.next()?.trim_matches('"').to_owned())
    };
    match (field("ID").as_deref(), field("VERSION_CODENAME")) {
        (Some("debian"), Some(release)) => Ok(release),
        _ => bail!("this builds programs from Debian's sources; run it on Debian"),
    }
}

/// The file that describes the downloaded package.
fn description(directory: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "dsc") {
            return Ok(path);
        }
    }
    bail!("apt-get has left no .dsc file in {}", directory.display())
}
