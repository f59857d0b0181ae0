//! The races of an earlier run, which nobody is to be told of as new ones: a file of JSON lines, as `--format json` writes them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::identity::{self, NoName};
use super::model::{Race, SCHEMA};
use crate::kernel::named;

/// The longest file. A race takes some 10 kB.
const LONGEST: u64 = 64 << 20;

/// How one is made.
const MADE: &str = "a baseline is what an earlier `gwp-race run --format json -o FILE` has written";

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// It could not be read.
    #[error(
        "cannot read the baseline from {path}: {source}; \
         name the file that an earlier run with --format json -o FILE has written"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said, or what it is.
        source: io::Error,
    },
    /// A line is something else.
    #[error("{path}:{line}: this is no record of gwp-race; {MADE}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The last record has no end.
    #[error(
        "{path}:{line}: the last record is not complete, as the run that wrote it was killed or the disk was full; delete this line to use \
         the rest, or make the baseline anew"
    )]
    CutShort {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A race is not named by the rules of this version.
    #[error(
        "{path}:{line}: this race was written by {}; make the baseline anew with this one: --format json -o FILE",
        if *.is_newer { "a newer gwp-race" } else { "an older gwp-race, which named races otherwise" }
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// It is of a newer gwp-race.
        is_newer: bool,
    },
}

/// What is looked at of a line.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: Option<String>,
    schema: Option<u32>,
    identity: Option<Names>,
}

#[derive(Deserialize)]
struct Names {
    race: Option<String>,
}

/// The races that are known.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    races: HashSet<String>,
    /// Known in these builds alone.
    in_builds: HashMap<String, HashSet<String>>,
    /// All races of these are known, but for those that are excepted.
    issues: HashSet<String>,
    excepted: HashSet<String>,
}

impl Baseline {
    /// Reads a file.
    ///
    /// # Errors
    /// Says what is wrong with it, and where.
    pub fn read(path: &Path) -> Result<Self, BaselineError> {
        let text =
            named::read_text_within(path, LONGEST).map_err(|source| BaselineError::Read {
                path: path.to_owned(),
                source,
            })?;
        Self::parse(&text, path)
    }

    /// Parses a file's text; `path` is for error messages.
    ///
    /// # Errors
    /// Says what is wrong with it, and where.
    pub fn parse(text: &str, path: &Path) -> Result<Self, BaselineError> {
        let mut races = HashSet::new();
        for (index, record) in text.split_inclusive('\n').enumerate() {
            if record.trim().is_empty() {
                continue;
            }
            let place = || (path.to_owned(), index + 1);
            let foreign = || {
                let (path, line) = place();
                BaselineError::Foreign { path, line }
            };
            let other_version = |is_newer| {
                let (path, line) = place();
                BaselineError::OtherVersion {
                    path,
                    line,
                    is_newer,
                }
            };
            let record: Line = serde_json::from_str(record).map_err(|error| {
                // Whole records end with their line.
                if error.is_eof() && !record.ends_with('\n') {
                    let (path, line) = place();
                    BaselineError::CutShort { path, line }
                } else {
                    foreign()
                }
            })?;
            match (record.kind.as_deref(), record.schema) {
                (Some("summary"), _) => continue,
                (Some("race"), Some(SCHEMA)) => {}
                (Some("race"), Some(other)) => return Err(other_version(other > SCHEMA)),
                _ => return Err(foreign()),
            }
            // Before there were names, there was none.
            let name = record.identity.and_then(|names| names.race);
            let name = name.ok_or_else(|| other_version(false))?;
            identity::check(&name).map_err(|wrong| match wrong {
                NoName::Form => foreign(),
                NoName::Version(version) => other_version(version > identity::VERSION),
            })?;
            races.insert(name);
        }
        Ok(Self {
            races,
            ..Self::default()
        })
    }

    /// Whether a race is one of them.
    #[must_use]
    pub fn knows(&self, race: &Race) -> bool {
        let names = &race.identity;
        let in_builds = self.in_builds.get(&names.race);
        let is_of_issue =
            self.issues.contains(&names.issue) && !self.excepted.contains(&names.race);
        self.races.contains(&names.race)
            || is_of_issue
            || in_builds.is_some_and(|builds| builds.contains(&race.build()))
    }

    /// The race of this name is one of them.
    pub fn add(&mut self, race: String) {
        self.races.insert(race);
    }

    /// The race of this name is one of them in these builds ([`Race::build`]).
    pub fn add_in(&mut self, race: String, builds: impl IntoIterator<Item = String>) {
        self.in_builds.entry(race).or_default().extend(builds);
    }

    /// All races of the issue of this name are some of them.
    pub fn add_issue(&mut self, issue: String) {
        self.issues.insert(issue);
    }

    /// The race of this name is none of them for its issue's sake.
    pub fn except(&mut self, race: String) {
        self.excepted.insert(race);
    }

    /// How many they are; an issue counts as one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.races.len() + self.in_builds.len() + self.issues.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::report::{JsonWriter, ReportWriter as _, Summary};

    /// What a run writes that has found a race.
    fn written() -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("races.json");
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = JsonWriter::new(Box::new(file), "races.json");
        writer.race(&sample::race()).unwrap();
        writer.summary(&Summary::default()).unwrap();
        std::fs::read_to_string(&path).unwrap()
    }

    fn parse(text: &str) -> Result<Baseline, String> {
        Baseline::parse(text, Path::new("old.json")).map_err(|error| error.to_string())
    }

    /// Check that what a run writes is read, and that its races are known and no others; that several files may be put together.
    #[test]
    fn races_of_an_earlier_run() {
        let text = written();
        let baseline = parse(&format!("{text}\n{text}")).unwrap();
        assert_eq!(baseline.len(), 1);
        assert!(baseline.knows(&sample::race()));
        let mut other = sample::race();
        other.identity.race = "r3:ff112233445566778899aabbccddeeff".to_owned();
        assert!(!baseline.knows(&other));
        assert!(parse("").unwrap().is_empty());
        // As tools leave it that write no last end of line.
        assert_eq!(parse(text.trim_end()).unwrap().len(), 1);
    }

    /// Check that files which are damaged, of something else, or of another version are told as such, with the line.
    #[test]
    fn other_files() {
        let text = written();
        let race = text.lines().next().unwrap();
        let cut = &text[..race.len() / 2];
        let old = race.replace("\"identity\"", "\"unknown\"");
        let of_rule = |rule: &str| race.replace("\"r3:", &format!("\"{rule}:"));
        let newer_form = race.replace("\"schema\":1", "\"schema\":2");
        for (text, line, said) in [
            (cut.to_owned(), 1, "not complete"),
            (format!("{text}{cut}"), 3, "not complete"),
            (format!("{cut}\n{text}"), 1, "no record of gwp-race"),
            (
                "==================\n".to_owned(),
                1,
                "no record of gwp-race",
            ),
            (format!("{race}\n{{\"a\":1}}\n"), 2, "no record of gwp-race"),
            (format!("[{race}]"), 1, "no record of gwp-race"),
            (
                r#"{"type":"race","schema":1,"identity":{"race":"x"}}"#.to_owned(),
                1,
                "no record",
            ),
            (old, 1, "an older gwp-race"),
            (of_rule("r2"), 1, "an older gwp-race"),
            (of_rule("r4"), 1, "a newer gwp-race"),
            (newer_form, 1, "a newer gwp-race"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(
                error.starts_with(&format!("old.json:{line}: ")) && error.contains(said),
                "{error}"
            );
            assert!(
                error.contains("anew") || error.contains("--format json"),
                "{error}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large.json");
        std::fs::File::create(&large)
            .unwrap()
            .set_len(LONGEST + 1)
            .unwrap();
        for path in [folder.path(), &large, &folder.path().join("absent")] {
            let error = Baseline::read(path).unwrap_err().to_string();
            assert!(
                error.starts_with("cannot read the baseline from "),
                "{error}"
            );
        }
    }
}
