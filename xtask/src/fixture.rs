//! Programs of `tests/fixtures`, built as a user of gwp-race would build them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{
    paths,
    source::{METADATA_FLAGS, RECORDED_FLAGS},
    steps::{shown, step},
};

/// The source of the recorder.
pub const RECORDER: &str = "tests/fixtures/trace/recorder.c";

/// Builds `tests/fixtures/KIND/NAME.c` with metadata into `target/KIND/NAME`; its path.
pub fn compile(kind: &str, name: &str) -> Result<PathBuf> {
    let program = output(kind, name)?;
    let mut clang = clang(&program);
    clang.arg(format!("tests/fixtures/{kind}/{name}.c"));
    build(clang)?;
    Ok(program)
}

/// The same with these macros defined (`NAME` or `NAME=VALUE`), into `target/KIND/OUTPUT`.
pub fn compile_defined(kind: &str, name: &str, out: &str, macros: &[String]) -> Result<PathBuf> {
    let program = output(kind, out)?;
    let mut clang = clang(&program);
    clang.args(macros.iter().map(|one| format!("-D{one}")));
    clang.arg(format!("tests/fixtures/{kind}/{name}.c"));
    build(clang)?;
    Ok(program)
}

/// The same with everything that it needs inside, into `target/KIND/NAME-static`.
pub fn compile_static(kind: &str, name: &str) -> Result<PathBuf> {
    let program = output(kind, &format!("{name}-static"))?;
    let mut clang = clang(&program);
    clang
        .arg("-static")
        .arg(format!("tests/fixtures/{kind}/{name}.c"));
    build(clang)?;
    Ok(program)
}

/// The same with `tests/fixtures/libs/LIBRARY.c` as a shared library, and with `-DLIBRARY`, into
/// `target/KIND/NAME-LIBRARY`.
pub fn compile_with_library(kind: &str, name: &str, library: &str) -> Result<PathBuf> {
    let shared = output(kind, &format!("lib{library}.so"))?;
    let mut of_library = clang(&shared);
    of_library.args(["-shared", "-fPIC"]);
    of_library.arg(format!("tests/fixtures/libs/{library}.c"));
    build(of_library)?;
    let program = output(kind, &format!("{name}-{library}"))?;
    let mut clang = clang(&program);
    clang.arg("-DLIBRARY");
    clang.arg(format!("tests/fixtures/{kind}/{name}.c"));
    clang.arg(&shared).arg("-Wl,-rpath,$ORIGIN");
    build(clang)?;
    Ok(program)
}

/// Builds `tests/fixtures/KIND/NAME.c` with the recorder into `target/KIND/NAME-recorded`; its path.
pub fn compile_recorded(kind: &str, name: &str) -> Result<PathBuf> {
    let program = output(kind, &format!("{name}-recorded"))?;
    let mut clang = clang_with(RECORDED_FLAGS, &program);
    clang.arg(format!("tests/fixtures/{kind}/{name}.c"));
    clang.arg(recorder()?);
    build(clang)?;
    Ok(program)
}

/// Builds the recorder, into `target/trace`; the object, which is linked with programs.
pub fn recorder() -> Result<PathBuf> {
    let object = output("trace", "recorder.o")?;
    let mut clang = clang_with("-O2 -g", &object);
    // It is not recorded itself.
    clang.args(["-c", RECORDER]);
    build(clang)?;
    Ok(object)
}

/// The same with so many functions of `tests/fixtures/bench/functions.s` beside those of the program, into
/// `target/KIND/NAME-COUNT`.
pub fn compile_with_functions(kind: &str, name: &str, count: usize) -> Result<PathBuf> {
    let functions = output(kind, &format!("functions-{count}.o"))?;
    let mut assembler = clang(&functions);
    // Debug information about that many lines of assembly takes minutes.
    assembler.args(["-c", "-g0", &format!("-Wa,--defsym,COUNT={count}")]);
    assembler.arg("tests/fixtures/bench/functions.s");
    build(assembler)?;
    let program = output(kind, &format!("{name}-{count}"))?;
    let mut clang = clang(&program);
    clang
        .arg(format!("tests/fixtures/{kind}/{name}.c"))
        .arg(&functions);
    build(clang)?;
    Ok(program)
}

/// Builds a program whose source was generated; it may include what the fixtures of its kind include.
/// Nothing is done where the program was built from this very source.
pub fn compile_generated(kind: &str, name: &str, source: &str) -> Result<PathBuf> {
    let program = output(kind, name)?;
    let path = output(kind, &format!("{name}.c"))?;
    if program.is_file() && fs::read_to_string(&path).is_ok_and(|built| built == source) {
        return Ok(program);
    }
    // If the compiler is interrupted, it is to be called again the next time.
    let _ = fs::remove_file(&program);
    fs::write(&path, source)?;
    let mut clang = clang(&program);
    clang.arg(format!("-Itests/fixtures/{kind}")).arg(&path);
    build(clang)?;
    Ok(program)
}

/// Builds `tests/fixtures/KIND/NAME.rs` with metadata into `target/KIND/NAME-rust`; its path.
pub fn compile_rust(kind: &str, name: &str) -> Result<PathBuf> {
    let program = output(kind, &format!("{name}-rust"))?;
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--edition", "2024", "-O", "-g", "-C", "passes=sanmd-module"])
        .args([
            "-C",
            "llvm-args=-sanitizer-metadata-covered -sanitizer-metadata-atomics",
        ])
        .arg("-o")
        .arg(&program)
        .arg(format!("tests/fixtures/{kind}/{name}.rs"))
        .current_dir(paths::root());
    build(rustc)?;
    Ok(program)
}

/// A file below `target/KIND`.
fn output(kind: &str, name: &str) -> Result<PathBuf> {
    let directory = paths::target().join(kind);
    fs::create_dir_all(&directory)?;
    Ok(directory.join(name))
}

fn clang(output: &Path) -> Command {
    clang_with(METADATA_FLAGS, output)
}

fn clang_with(flags: &str, output: &Path) -> Command {
    let mut clang = Command::new("clang-22");
    clang
        .args(flags.split_whitespace())
        .args(["-pthread", "-o"])
        .arg(output)
        .current_dir(paths::root());
    clang
}

fn build(mut compiler: Command) -> Result<()> {
    step(&shown(&compiler), &mut compiler)
}
