//! How often each line and each function was executed: clang's source-based counters, as llvm-cov tells of them.

use std::{collections::HashMap, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::steps::{answer, step};

/// Executions by `file:line` and `file:function`, from the counters that a program has written.
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

/// Of an lcov tracefile (geninfo(1)): `SF:path` begins a file, `FNDA:count,name` tells of a function (`file:name` if it
/// is a static one) and `DA:line,count` of a line.
fn counts(lcov: &str) -> HashMap<String, u64> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut file = "";
    for line in lcov.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            file = path.rsplit('/').next().unwrap_or(path);
        } else if let Some((count, name)) = line
            .strip_prefix("FNDA:")
            .and_then(|data| data.split_once(','))
        {
            let name = name.rsplit(':').next().unwrap_or(name);
            *counts.entry(format!("{file}:{name}")).or_default() += count.parse().unwrap_or(0);
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

    /// Check functions, and lines of several files, with and without a checksum.
    #[test]
    fn tracefile() {
        let counts = counts(
            "SF:/src/a.c\nFN:1,a.c:tick\nFNDA:20,a.c:tick\nFNDA:7,main\nDA:1,20\nDA:2,0\nend_of_record\nSF:/src/b.h\nDA:1,3,abc\n",
        );
        let expected = [
            ("a.c:tick", 20),
            ("a.c:main", 7),
            ("a.c:1", 20),
            ("a.c:2", 0),
            ("b.h:1", 3),
        ];
        assert_eq!(
            counts,
            expected
                .map(|(line, count)| (line.to_owned(), count))
                .into()
        );
    }
}
