//! How often each line was executed: clang's source-based counters, as llvm-cov tells of them.

use std::{collections::HashMap, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::steps::{answer, step};

/// Executions by `file:line`, from the counters that a program has written.
pub fn read(program: &Path, written: &Path) -> Result<HashMap<String, u64>> {
    let merged = written.with_extension("profdata");
    step(
        "merging counters",
        Command::new("llvm-profdata-22")
            .args(["merge", "-sparse", "-o"])
            .arg(&merged)
            .arg(written),
    )?;
    let mut export = Command::new("llvm-cov-22");
    export.args(["export", "-format=lcov"]);
    export.arg(format!("-instr-profile={}", merged.display()));
    let lcov = answer(export.arg(program)).context("llvm-cov-22 cannot read the counters")?;
    Ok(counts(&lcov))
}

/// Of an lcov tracefile (geninfo(1)): `SF:path` begins a file, `DA:line,count` tells of a line.
fn counts(lcov: &str) -> HashMap<String, u64> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut file = "";
    for line in lcov.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            file = path.rsplit('/').next().unwrap_or(path);
        } else if let Some((number, count)) = line
            .strip_prefix("DA:")
            .and_then(|data| data.split_once(','))
        {
            let known = counts.entry(format!("{file}:{number}")).or_default();
            // A header's line may be in several files.
            *known += count
                .split(',')
                .next()
                .and_then(|count| count.parse().ok())
                .unwrap_or(0);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check lines of several files, with and without a checksum.
    #[test]
    fn tracefile() {
        let counts =
            counts("SF:/src/a.c\nDA:1,20\nDA:2,0\nend_of_record\nSF:/src/b.h\nDA:1,3,abc\n");
        let expected = [("a.c:1", 20), ("a.c:2", 0), ("b.h:1", 3)];
        assert_eq!(
            counts,
            expected
                .map(|(line, count)| (line.to_owned(), count))
                .into()
        );
    }
}
