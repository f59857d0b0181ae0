//! `cargo xtask dist`: what others get: gwp-race as one static file, and a Debian package of it. With `--check` both are tried on an
//! older Debian.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    ebpf, paths, setup,
    steps::{answer, cargo, step},
};

mod chroot;
mod licences;
mod package;
mod unit;

/// With musl a program can be linked statically for good: static glibc still loads libraries, those of the machine that it runs on.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// Only small functions are inlined (60 is about what LLVM takes for `-Os`; for `-O3` it is 275): it makes the program a tenth smaller, and the
/// planner's answers take 5 % more instructions (`gwp-race decisions --replay`, counted by valgrind). Its own crate by `opt-level = "s"` is a
/// tenth smaller still, but takes 28 % more. And relocations are packed (`DT_RELR`), of which a program that can be loaded anywhere has
/// thousands.
const RUSTFLAGS: &str = "-C llvm-args=-inline-threshold=60 -C link-arg=-Wl,-z,pack-relative-relocs";
/// What the program may have at most, bytes. The client for PostgreSQL, which speaks its protocol without libpq, and a server of HTTP with TLS (`races serve`) have made it larger than 10 MB.
const MOST: u64 = 13_000_000;

#[derive(clap::Args)]
pub struct Options {
    /// Look at the package with lintian and at its unit with systemd-analyze, and install, use and remove it in a chroot of an older Debian (as root; some minutes).
    #[arg(long)]
    check: bool,
}

/// Builds the program and the package, into `target/packages`.
pub fn run(options: &Options) -> Result<()> {
    let analyze = options.check.then(unit::analyze).transpose()?;
    let program = build()?;
    let package = package::build(&program)?;
    if let Some(analyze) = analyze {
        unit::check(&analyze, &program)?;
        chroot::check(&package)?;
    }
    println!("    {}\n    {}", program.display(), package.display());
    Ok(())
}

/// Where everything is put.
fn folder() -> PathBuf {
    paths::root().join("target/packages")
}

/// A command of cargo's of this version, which belongs to this tree; built where it is not there, with these options.
fn tool(name: &str, version: &str, options: &[&str]) -> Result<PathBuf> {
    let path = paths::tools().join("bin").join(name);
    let present = answer(Command::new(&path).arg("--version"));
    if present.is_some_and(|present| present.trim().ends_with(version)) {
        return Ok(path);
    }
    let mut command = cargo();
    command
        .args(["install", name, "--version", version, "--locked"])
        .args(options)
        .arg("--root")
        .arg(paths::tools())
        .env_remove("CARGO_TARGET_DIR");
    step(&format!("building {name} (some minutes)"), &mut command)?;
    Ok(path)
}

/// Builds the program and puts it there.
fn build() -> Result<PathBuf> {
    setup::run()?;
    have_target()?;
    let gates = without_debug_information(&ebpf::build()?)?;
    let mut command = cargo();
    command
        .args(["build", "--locked", "--package", "gwp-race"])
        .args(["--bin", "gwp-race", "--profile", "dist", "--target", TARGET])
        // For dependencies that have C in them.
        .env("CC_x86_64_unknown_linux_musl", "musl-gcc")
        .env("RUSTFLAGS", RUSTFLAGS)
        .env("GWP_RACE_EBPF_OBJECT", gates);
    step("building a static gwp-race (some minutes)", &mut command)?;
    let built = paths::target().join(TARGET).join("dist/gwp-race");
    check_program(&built)?;
    let program = folder().join("gwp-race");
    fs::create_dir_all(folder()).with_context(|| format!("making {}", folder().display()))?;
    let mut strip = Command::new("llvm-objcopy-22");
    strip
        .arg("--remove-section=.comment")
        .args([&built, &program]);
    step("leaving out which compilers it is of", &mut strip)?;
    Ok(program)
}

/// The objects of this folder as they are needed at run time, in one of ours: BTF says all that the kernel wants to know, and DWARF is most
/// of them. The path of the one that was given.
fn without_debug_information(object: &Path) -> Result<PathBuf> {
    let into = folder().join("gates");
    fs::create_dir_all(&into).with_context(|| format!("making {}", into.display()))?;
    for name in ebpf::OBJECTS {
        let mut strip = Command::new("llvm-objcopy-22");
        strip
            .arg("--strip-debug")
            .arg(object.with_file_name(name))
            .arg(into.join(name));
        step(&format!("{name} without debug information"), &mut strip)?;
    }
    Ok(into.join(object.file_name().unwrap_or_default()))
}

/// Gets Rust's library for the target where rustup can, and says how otherwise.
fn have_target() -> Result<()> {
    let mut rustc = Command::new("rustc");
    rustc
        .current_dir(paths::root())
        .env_remove("RUSTUP_TOOLCHAIN")
        .args(["--print", "target-libdir", "--target", TARGET]);
    if answer(&mut rustc).is_some_and(|folder| Path::new(folder.trim()).is_dir()) {
        return Ok(());
    }
    ensure!(
        paths::find_program("rustup").is_some(),
        "rustc has no library for {TARGET}, and there is no rustup to get it; install the package that has it (on Alpine Linux it is \
         there), or rustup and then `rustup target add {TARGET}`"
    );
    let mut rustup = Command::new("rustup");
    rustup
        .current_dir(paths::root())
        .env_remove("RUSTUP_TOOLCHAIN")
        .args(["target", "add", TARGET]);
    step("getting Rust's library for musl", &mut rustup)
}

/// Fails where the program needs another file, or is too large.
fn check_program(program: &Path) -> Result<()> {
    let size = fs::metadata(program)
        .with_context(|| program.display().to_string())?
        .len();
    ensure!(
        size <= MOST,
        "{} has {size} bytes, more than {MOST}; see what has become large with `cargo bloat`, or raise the limit in xtask/src/dist",
        program.display()
    );
    let headers = answer(
        Command::new("readelf")
            .args(["--wide", "--segments", "--dynamic"])
            .arg(program),
    );
    let headers = headers.with_context(|| format!("readelf fails on {}", program.display()))?;
    for needed in ["INTERP", "(NEEDED)"] {
        if headers.contains(needed) {
            bail!(
                "{} is not static: readelf shows {needed}",
                program.display()
            );
        }
    }
    println!("    {size} bytes, static");
    Ok(())
}
