//! The toolchain for the eBPF object. The `core` library must come from the same release as
//! the compiler, and stable toolchains carry none for BPF. Two ways lead there: a rustup nightly
//! with rust-src, which builds `core` itself, or Debian's rustc with its prebuilt BPF library.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    paths,
    steps::{answer, cargo, step},
};

/// The version of bpf-linker that the object is built with.
const LINKER_VERSION: &str = "0.13.0";
/// The LLVM that bpf-linker is built on; it reads bitcode of this release and older ones.
const LLVM: u32 = 22;
/// Where Debian keeps it.
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";
/// Debian's compiler, which `rustc` of rustup hides in PATH.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
/// The target, and the processor version that has atomic operations (fetch-and-add and others).
const TARGET: &str = "bpfel-unknown-none";
const RUSTFLAGS: [&str; 2] = ["-Clink-arg=--btf", "-Ctarget-cpu=v3"];

/// A compiler that can build the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// `cargo +nightly build -Z build-std=core`.
    Nightly,
    /// Debian's packages.
    Debian,
}

impl Toolchain {
    /// The nightly where it can do it, Debian's compiler otherwise.
    pub fn choose() -> Self {
        if nightly_is_usable() {
            Self::Nightly
        } else {
            Self::Debian
        }
    }

    /// The Debian packages that this way needs besides bpf-linker.
    pub const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Nightly => &[],
            Self::Debian => &["rustc-web", "libstd-rust-web-dev-bpf"],
        }
    }

    /// The cargo command that builds the object.
    fn build_command(self) -> Command {
        let mut command = match self {
            Self::Nightly => {
                let mut command = cargo();
                command.args(["+nightly", "build", "-Zbuild-std=core"]);
                command
            }
            Self::Debian => {
                let mut command = cargo();
                command
                    .arg("build")
                    .env("RUSTC", DEBIAN_RUSTC)
                    .env("RUSTC_BOOTSTRAP", "1");
                command
            }
        };
        command.args(["--release", "--target", TARGET, "--bins"]);
        command
            .current_dir(paths::ebpf_crate())
            .env_remove("CARGO_TARGET_DIR");
        command
    }
}

/// Debian packages that building bpf-linker needs.
pub const LINKER_PACKAGES: [&str; 2] = ["llvm-22-dev", "libpolly-22-dev"];

/// The objects, of which [`build`] returns the first one's path: the others are beside it.
pub const OBJECTS: [&str; 4] = ["gates", "descent", "discovery", "probes"];

/// Builds the object and returns its path.
pub fn build() -> Result<PathBuf> {
    let linker = find_linker().context("bpf-linker is missing: run `cargo xtask setup`")?;
    let toolchain = Toolchain::choose();
    let mut flags = OsString::from("-Clinker=");
    flags.push(&linker);
    for flag in RUSTFLAGS {
        // The separator of CARGO_ENCODED_RUSTFLAGS, which unlike RUSTFLAGS bears spaces in paths.
        flags.push("\u{1f}");
        flags.push(flag);
    }
    let way = match toolchain {
        Toolchain::Nightly => "rustup's nightly",
        Toolchain::Debian => "Debian's rustc",
    };
    step(
        &format!("building the eBPF gates with {way}"),
        toolchain
            .build_command()
            .env("CARGO_ENCODED_RUSTFLAGS", flags),
    )?;
    Ok(paths::ebpf_object())
}

/// Checks the gates with clippy, where there is one for the compiler that builds them.
pub fn clippy_command() -> Option<Command> {
    if Toolchain::choose() != Toolchain::Nightly {
        return None;
    }
    answer(Command::new("cargo").args(["+nightly", "clippy", "--version"]))?;
    let mut command = cargo();
    command.args([
        "+nightly",
        "clippy",
        "-Zbuild-std=core",
        "--release",
        "--target",
        TARGET,
    ]);
    command.args(["--bins", "--", "-D", "warnings"]);
    command
        .current_dir(paths::ebpf_crate())
        .env_remove("CARGO_TARGET_DIR");
    Some(command)
}

/// A bpf-linker of the right version: the tree's own, or one in PATH.
pub fn find_linker() -> Option<PathBuf> {
    let own = paths::tools().join("bin/bpf-linker");
    [Some(own), paths::find_program("bpf-linker")]
        .into_iter()
        .flatten()
        .find(|path| is_right_version(path))
}

fn is_right_version(linker: &Path) -> bool {
    answer(Command::new(linker).arg("--version")).is_some_and(|version| {
        version
            .split_whitespace()
            .any(|word| word == LINKER_VERSION)
    })
}

/// Builds bpf-linker into the tree's own directory.
pub fn install_linker() -> Result<()> {
    let mut command = cargo();
    command
        .args([
            "install",
            "bpf-linker",
            "--version",
            LINKER_VERSION,
            "--locked",
        ])
        .args([
            "--no-default-features",
            "--features",
            &format!("llvm-{LLVM}"),
            "--root",
        ])
        .arg(paths::tools())
        .env("LLVM_PREFIX", LLVM_PREFIX)
        .env_remove("CARGO_TARGET_DIR");
    step("building bpf-linker (a minute or two)", &mut command)
}

/// A nightly can build the object if it has the source of `core` and writes bitcode that
/// bpf-linker reads.
fn nightly_is_usable() -> bool {
    let nightly = |question: &str| {
        let mut rustc = Command::new("rustc");
        answer(
            rustc
                .env_remove("RUSTUP_TOOLCHAIN")
                .args(["+nightly", question]),
        )
    };
    let (Some(sysroot), Some(version)) = (nightly("--print=sysroot"), nightly("-vV")) else {
        return false;
    };
    let source = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core");
    source.is_dir() && llvm_major(&version).is_some_and(|major| major <= LLVM)
}

/// The major version of LLVM in what `rustc -vV` prints.
fn llvm_major(version: &str) -> Option<u32> {
    let line = version
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))?;
    line.split('.').next()?.parse().ok()
}

/// Whether Debian's compiler is there with its library for BPF.
pub fn debian_rustc_has_bpf() -> bool {
    answer(Command::new(DEBIAN_RUSTC).args(["--print", "target-libdir", "--target", TARGET]))
        .is_some_and(|directory| Path::new(directory.trim()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the LLVM version is found where rustc prints it.
    #[test]
    fn llvm_of_a_compiler() {
        let version = "rustc 1.97.0-nightly (e50aa6fba 2026-05-19)\nLLVM version: 22.1.4\n";
        assert_eq!(llvm_major(version), Some(22));
        assert_eq!(llvm_major("rustc 1.97.0"), None);
    }
}
