//! The Debian package, made by cargo-deb as `sanitizer/Cargo.toml` says, of the program and what the program prints: manual pages
//! and completions.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{TARGET, folder, licences, tool};
use crate::{
    paths,
    steps::{answer, cargo, step},
};

/// The version of cargo-deb that the package is made with.
const VERSION: &str = "3.8.0";
/// Of the package, where the version is the same.
const REVISION: u32 = 1;
/// Shells, and the files in which they look for what completes a command called gwp-race.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "gwp-race"),
    ("zsh", "_gwp-race"),
    ("fish", "gwp-race.fish"),
];

/// Makes it, and returns its path.
pub fn build(program: &Path) -> Result<PathBuf> {
    completions(program)?;
    let pages = fresh("man")?;
    step("manual pages", Command::new(program).arg("man").arg(&pages))?;
    let time = last_change()?;
    let changelog = folder().join("changelog");
    fs::write(
        &changelog,
        changelog_text(env!("CARGO_PKG_VERSION"), &time)?,
    )
    .with_context(|| format!("writing {}", changelog.display()))?;

    licences::build()?;

    let cargo_deb = tool("cargo-deb", VERSION, &[])?;
    let cargo_deb = cargo_deb.parent().context("cargo-deb is in no folder")?;
    let package = folder().join(format!(
        "gwp-race_{}-{REVISION}_amd64.deb",
        env!("CARGO_PKG_VERSION")
    ));
    let mut command = cargo();
    command
        .args([
            "deb",
            "--package",
            "gwp-race",
            "--no-build",
            "--no-dbgsym",
            "--no-strip",
        ])
        .args(["--profile", "dist", "--target", TARGET, "--output"])
        .arg(&package)
        .env("PATH", with_first(cargo_deb)?)
        // The same tree makes the same package.
        .env("SOURCE_DATE_EPOCH", &time);
    step("making the Debian package", &mut command)?;
    Ok(package)
}

fn completions(program: &Path) -> Result<()> {
    let into = fresh("completions")?;
    for (shell, name) in COMPLETIONS {
        let text = answer(Command::new(program).args(["completions", shell]))
            .with_context(|| format!("`gwp-race completions {shell}` fails"))?;
        fs::write(into.join(name), text).with_context(|| format!("writing {name}"))?;
    }
    Ok(())
}

/// An empty folder of this name.
fn fresh(name: &str) -> Result<PathBuf> {
    let path = folder().join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
    Ok(path)
}

/// When the tree was last changed, in seconds since 1970.
fn last_change() -> Result<String> {
    let mut git = Command::new("git");
    git.current_dir(paths::root())
        .args(["log", "-1", "--format=%ct"]);
    let time = answer(&mut git)
        .context("the package is dated by the last commit, and there is no git tree")?;
    Ok(time.trim().to_owned())
}

/// Debian's changelog (deb-changelog(5)), which refers to ours.
fn changelog_text(version: &str, time: &str) -> Result<String> {
    let date =
        answer(Command::new("date").args(["--utc", "--rfc-email", "--date", &format!("@{time}")]))
            .context("date(1) fails")?;
    Ok(format!(
        "gwp-race ({version}-{REVISION}) unstable; urgency=medium\n\n  \
         * What has changed is in NEWS.md, beside this file.\n\n \
         -- {}  {}\n",
        "the gwp-race authors <gwp-race@packages.example.org>",
        date.trim()
    ))
}

/// `PATH` with this folder before all others.
fn with_first(folder: &Path) -> Result<std::ffi::OsString> {
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&others));
    Ok(std::env::join_paths(all)?)
}
