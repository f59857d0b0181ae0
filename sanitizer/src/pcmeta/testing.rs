//! What the tests of tables share: a directory to compile in, and numbers as compilers write them.

use std::path::PathBuf;
use std::process::Command;

use gimli::leb128::write::Leb128;

/// A directory to compile in.
pub(crate) struct Workshop(tempfile::TempDir);

impl Workshop {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// Runs a command line, with words split at spaces, within the directory; what it prints.
    pub(crate) fn run(&self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let output = Command::new(words.next().unwrap())
            .args(words)
            .current_dir(&self.0)
            .output()
            .unwrap_or_else(|error| panic!("{line}: {error}; run: cargo xtask setup"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }
}

pub(super) fn put_uleb128(out: &mut Vec<u8>, value: u64) {
    out.extend(Leb128::unsigned(value).bytes());
}

pub(super) fn put_sleb128(out: &mut Vec<u8>, value: i64) {
    out.extend(Leb128::signed(value).bytes());
}
