//! What gwp-race has reported in all the processes of a suite: to be judged by readers of the code.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// The reports of a suite, and what it took.
#[derive(Default)]
pub struct Races {
    /// How often each pair of places was reported.
    pairs: BTreeMap<[String; 2], usize>,
    pub samples: u64,
    pub stalls: u64,
}

impl Races {
    /// Adds the reports of a directory. One that was cut off (its gwp-race was killed) counts as far
    /// as it goes.
    pub fn read(&mut self, reports: &Path) -> Result<()> {
        for entry in fs::read_dir(reports)? {
            let path = entry?.path();
            let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            for line in String::from_utf8_lossy(&text).lines() {
                if let Ok(value) = serde_json::from_str(line) {
                    self.add(&value);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, line: &Value) {
        match line["type"].as_str() {
            Some("race") => {
                let mut pair = [0, 1].map(|index| place(&line["accesses"][index]));
                pair.sort_unstable();
                *self.pairs.entry(pair).or_default() += 1;
            }
            Some("summary") => {
                self.samples += line["samples"].as_u64().unwrap_or(0);
                self.stalls += line["stalls"].as_u64().unwrap_or(0);
            }
            _ => {}
        }
    }

    /// How many pairs of places race.
    pub fn distinct(&self) -> usize {
        self.pairs.len()
    }
}

/// Where an access is in the source: the innermost frame that is known there.
fn place(access: &Value) -> String {
    let empty = Vec::new();
    let frames = access["stack"].as_array().unwrap_or(&empty);
    let known = frames.iter().find(|frame| frame["file"].is_string());
    let frame = known.or(frames.first()).unwrap_or(&Value::Null);
    let text = |name: &str| frame[name].as_str().unwrap_or("?").to_owned();
    let atomic = if access["atomic"] == Value::Bool(true) {
        "atomic "
    } else {
        ""
    };
    let kind = access["kind"].as_str().unwrap_or("access");
    let file = text("file");
    let file = file.rsplit('/').next().unwrap_or(&file);
    format!(
        "{atomic}{kind} in {} {file}:{}",
        text("function"),
        frame["line"]
    )
}

impl fmt::Display for Races {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "    {} samples, {} stalls", self.samples, self.stalls)?;
        for ([one, other], times) in &self.pairs {
            write!(f, "\n    race, {times} times: {one} / {other}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Check that a pair counts once whichever side was stalled, and that the C library's frames,
    /// which have no file, are passed over.
    #[test]
    fn pairs() {
        let side = |line: u64, kind: &str| {
            json!({"kind": kind, "atomic": false, "stack": [
                {"function": "memcpy"},
                {"function": "f", "file": "/src/a.c", "line": line},
            ]})
        };
        let (one, other) = (side(7, "read"), side(9, "write"));
        let mut races = Races::default();
        races.add(&json!({"type": "race", "accesses": [one, other]}));
        races.add(&json!({"type": "race", "accesses": [other, one]}));
        races.add(&json!({"type": "summary", "samples": 3, "stalls": 2}));
        assert_eq!(
            races.to_string(),
            "    3 samples, 2 stalls\n    race, 2 times: read in f a.c:7 / write in f a.c:9"
        );
    }
}
