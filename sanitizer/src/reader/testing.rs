//! Readers that are processes of their own, and files that get the better of them, for tests.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{HeaderReader, Program};
use crate::symbols::tests::child::tool;

/// What reads: this program itself, by a test that is none.
pub(crate) fn program() -> Program {
    let words = [
        "--exact",
        "reader::tests::reads",
        "--ignored",
        "--nocapture",
        "--test-threads",
        "1",
    ];
    Program {
        file: std::env::current_exe().unwrap(),
        arguments: words.map(Into::into).into(),
    }
}

/// Who asks it for headers, and waits for longer than a busy machine needs.
pub(crate) fn header_reader() -> HeaderReader {
    HeaderReader::new(program()).with_deadline(Duration::from_mins(1))
}

/// Makes a library of `code.c` whose build id asks for a misdeed, or for none.
pub(super) fn library(dir: &Path, misdeed: &str, flags: &[&str]) -> PathBuf {
    library_that(dir, "misdeed", misdeed, flags)
}

/// The same of who is asked in the way of this mark.
pub(super) fn library_that(dir: &Path, mark: &str, misdeed: &str, flags: &[&str]) -> PathBuf {
    let id: String = format!("{mark} {misdeed}")
        .bytes()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let name = format!("{misdeed}.so");
    let id = format!("-Wl,--build-id=0x{id}");
    let usual = ["-shared", "-fPIC", "code.c", "-o", &name, &id];
    tool(dir, "clang-22", &[&usual[..], flags].concat());
    fs::canonicalize(dir.join(name)).unwrap()
}
