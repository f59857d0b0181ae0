//! The package on an older Debian than the one that has built it: lintian looks at it, and `chroot.sh` installs, uses, upgrades and removes it.

use std::{fs, io::ErrorKind, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

use super::folder;
use crate::{fixture, paths, setup, steps::step};

/// The oldest Debian that still gets security updates; its glibc is 2.31.
const RELEASE: &str = "bullseye";
/// What is done there.
const SCRIPT: &str = "xtask/src/dist/chroot.sh";

/// Fails where lintian or that Debian has anything to complain of. Nothing stays behind, mounted or installed, but the tools themselves.
pub fn check(package: &Path) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("a chroot is made and entered by root: sudo -E cargo xtask dist --check");
    }
    setup::have(&["lintian", "debootstrap", "libcap2-bin"])?;
    step(
        "lintian",
        Command::new("lintian")
            // What is only worth knowing are misspelt words, of which it finds some in machine code.
            .args(["--fail-on", "error,warning"])
            // The package is built by root, in a tree that is his.
            .arg("--allow-root")
            .arg(package),
    )?;
    let racy = fixture::compile_static("races", "read_write")?;
    let root = folder().join("chroot");
    let _ = fs::remove_dir_all(&root);
    // What is mounted in a namespace of its own goes with it, however this ends.
    let mut script = Command::new("unshare");
    script
        .args(["--mount", "--pid", "--fork", "--kill-child"])
        .arg("sh")
        .arg(paths::root().join(SCRIPT))
        .args([RELEASE.as_ref(), root.as_os_str(), package.as_os_str()])
        .arg(racy);
    let checked = step(
        &format!("the package on Debian {RELEASE} (a minute or two)"),
        &mut script,
    );
    // What debootstrap has said comes first: where it has failed there may be no folder.
    let removed = match fs::remove_dir_all(&root) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| format!("removing {}", root.display())),
    };
    checked.and(removed)
}
