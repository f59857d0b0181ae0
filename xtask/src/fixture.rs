//! Programs of `tests/fixtures`, built as a user of gwp-race would build them.

use std::{fs, path::PathBuf, process::Command};

use anyhow::Result;

use crate::{
    paths,
    steps::{shown, step},
};

/// Builds `tests/fixtures/KIND/NAME.c` with metadata into `target/KIND/NAME`; its path.
pub fn compile(kind: &str, name: &str) -> Result<PathBuf> {
    let directory = paths::target().join(kind);
    fs::create_dir_all(&directory)?;
    let program = directory.join(name);
    let mut clang = Command::new("clang-22");
    clang
        .args([
            "-g",
            "-O2",
            "-fexperimental-sanitize-metadata=atomics",
            "-pthread",
            "-o",
        ])
        .arg(&program)
        .arg(format!("tests/fixtures/{kind}/{name}.c"))
        .current_dir(paths::root());
    step(&shown(&clang), &mut clang)?;
    Ok(program)
}
