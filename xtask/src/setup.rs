//! `cargo xtask setup`: installs what is missing, and nothing else. As root it calls apt-get;
//! otherwise it prints the commands to type.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    ebpf::{self, Toolchain},
    paths::find_program,
    steps::{answer, step},
};

/// The compilers and tools of the tests: the Debian package, and a program of it, or the path of another file.
const TEST_PACKAGES: [(&str, &str); 16] = [
    ("clang-22", "clang-22"),
    ("clang-16", "clang-16"),
    ("musl-tools", "musl-gcc"),
    ("lld-22", "ld.lld-22"),
    ("llvm-22", "llvm-objcopy-22"),
    ("g++", "g++"),
    ("binutils", "strip"),
    ("xz-utils", "xz"),
    ("libcap2-bin", "setcap"),
    ("cmake", "ctest"),
    ("meson", "meson"),
    ("ninja-build", "ninja"),
    ("debuginfod", "debuginfod"),
    // Its programs have their version in their path; this is the wrapper that comes with all of them.
    ("postgresql", "pg_createcluster"),
    ("python3-pip", "pip3"),
    ("libc++1-16", "/usr/lib/llvm-16/lib/libc++.so.1"),
];

/// Installs what is missing.
pub fn run() -> Result<()> {
    install(&missing_packages())?;
    let toolchain = Toolchain::choose();
    if toolchain == Toolchain::Debian && !ebpf::debian_rustc_has_bpf() {
        bail!(
            "there is no compiler for eBPF: install rustup's nightly with rust-src \
             (`rustup toolchain install nightly --component rust-src`), or Debian's packages \
             {}",
            toolchain.packages().join(" ")
        );
    }
    if ebpf::find_linker().is_none() {
        ebpf::install_linker()?;
    }
    Ok(())
}

/// Installs those of some Debian packages that are missing.
pub fn have(packages: &[&str]) -> Result<()> {
    let missing = packages.iter().copied();
    let missing: Vec<_> = missing.filter(|package| !is_installed(package)).collect();
    install(&missing)
}

fn missing_packages() -> Vec<&'static str> {
    let mut missing: Vec<&str> = TEST_PACKAGES
        .into_iter()
        .filter(|(_, program)| find_program(program).is_none())
        .map(|(package, _)| package)
        .collect();
    let mut of_ebpf = Vec::new();
    let toolchain = Toolchain::choose();
    if toolchain == Toolchain::Debian && !ebpf::debian_rustc_has_bpf() {
        of_ebpf.extend_from_slice(toolchain.packages());
    }
    if ebpf::find_linker().is_none() {
        of_ebpf.extend(ebpf::LINKER_PACKAGES);
    }
    missing.extend(of_ebpf.into_iter().filter(|package| !is_installed(package)));
    missing
}

fn is_installed(package: &str) -> bool {
    answer(Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status}", package]))
        .is_some_and(|status| status.trim() == "installed")
}

fn install(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if find_program("apt-get").is_none() {
        bail!(
            "missing: {list} (names of Debian packages), and there is no apt-get here. Install \
             the same with this system's package manager, then run this again"
        );
    }
    if !nix::unistd::geteuid().is_root() {
        bail!(
            "missing: {list}. Type these, then run this again:\n  sudo apt-get update\n  \
             sudo apt-get install --yes --no-install-recommends {list}"
        );
    }
    step("apt-get update", apt_get().arg("update"))?;
    step(
        &format!("installing {list} (some minutes on a slow line)"),
        apt_get()
            .args(["install", "--yes", "--no-install-recommends"])
            .args(packages),
    )
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args([
        "-o",
        "DPkg::Lock::Timeout=300",
        "-o",
        "Acquire::Retries=3",
    ]);
    command
}
