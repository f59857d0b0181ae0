//! Suppressions in ThreadSanitizer's file format (clang's ThreadSanitizer documentation,
//! "Suppressions"): one `type:pattern` a line, so that one file serves both tools.
//!
//! - `race:` matches a function, file or module of any frame of either stack, or the
//!   variable's name;
//! - `race_top:` looks only at the place of each access;
//! - `called_from_lib:` matches the module of the place of an access, or of its caller.
//! - `identity:` matches a race by one of its names (`identity.rs`): a type of our own, which ThreadSanitizer refuses.
//!
//! Types of other ThreadSanitizer reports (`thread`, `mutex`, `signal`, `deadlock`) are
//! accepted and have no effect.

use std::io;
use std::path::{Path, PathBuf};

use super::identity::{self, NoName};
use super::model::{Access, LocationKind, Race, StackFrame};
use crate::kernel::named;

/// Why a suppressions file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SuppressError {
    /// The file could not be read.
    #[error(
        "cannot read suppressions from {path}: {source}; \
             name a readable file with --suppressions"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A line is not `type:pattern`.
    #[error(
        "{path}:{line}: {text:?} is no suppression; write TYPE:PATTERN, \
             where TYPE is race, race_top or called_from_lib, or \
             identity:NAME with the name of a race or issue from a report"
    )]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// An identity is of another version.
    #[error(
        "{path}:{line}: {text:?} names races by the rules of another version of gwp-race; take the name from a report of this one"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Race,
    RaceTop,
    CalledFromLib,
    Identity,
    OtherTool,
}

#[derive(Clone, Debug)]
struct Rule {
    scope: Scope,
    pattern: String,
    line: usize,
    hits: u64,
}

/// The rules of a suppressions file.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    rules: Vec<Rule>,
}

impl Suppressions {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, SuppressError> {
        let text = named::read_text(path).map_err(|source| SuppressError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Parses a file's text; `path` is for error messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SuppressError> {
        let mut rules = Vec::new();
        for (index, raw) in text.lines().enumerate() {
            let rule = raw.trim();
            if rule.is_empty() || rule.starts_with('#') {
                continue;
            }
            let line = index + 1;
            let syntax = || SuppressError::Syntax {
                path: path.to_owned(),
                line,
                text: rule.to_owned(),
            };
            let (scope, pattern) = rule.split_once(':').ok_or_else(syntax)?;
            let scope = match scope {
                "race" => Scope::Race,
                "race_top" => Scope::RaceTop,
                "called_from_lib" => Scope::CalledFromLib,
                "identity" => Scope::Identity,
                "thread" | "mutex" | "signal" | "deadlock" => Scope::OtherTool,
                _ => return Err(syntax()),
            };
            if pattern.is_empty() {
                return Err(syntax());
            }
            if scope == Scope::Identity {
                identity::check(pattern).map_err(|wrong| match wrong {
                    NoName::Form => syntax(),
                    NoName::Version(_) => SuppressError::Version {
                        path: path.to_owned(),
                        line,
                        text: rule.to_owned(),
                    },
                })?;
            }
            rules.push(Rule {
                scope,
                pattern: pattern.to_owned(),
                line,
                hits: 0,
            });
        }
        Ok(Self { rules })
    }

    /// Whether a race is suppressed; counts the rule that says so.
    pub fn suppresses(&mut self, race: &Race) -> bool {
        let Some(rule) = self.rules.iter_mut().find(|rule| rule.matches(race)) else {
            return false;
        };
        rule.hits += 1;
        true
    }

    /// The rules that suppressed something: line in the file, pattern, how often.
    pub fn used(&self) -> impl Iterator<Item = (usize, &str, u64)> {
        self.rules
            .iter()
            .filter(|rule| rule.hits > 0)
            .map(|rule| (rule.line, rule.pattern.as_str(), rule.hits))
    }
}

impl Rule {
    fn matches(&self, race: &Race) -> bool {
        match self.scope {
            Scope::Race => {
                race.accesses
                    .iter()
                    .flat_map(|a| &a.stack)
                    .any(|frame| self.matches_frame(frame))
                    || self.matches_variable(race)
            }
            Scope::RaceTop => race
                .accesses
                .iter()
                .filter_map(Access::site)
                .any(|site| self.matches_frame(site)),
            Scope::CalledFromLib => race.accesses.iter().any(|access| {
                let place = access.library_frames();
                // The place and its caller; inlined frames share the caller's module.
                let near = access
                    .stack
                    .iter()
                    .skip(place)
                    .filter(|frame| !frame.inlined)
                    .take(2);
                near.filter_map(|frame| frame.module.as_deref())
                    .any(|module| pattern_matches(&self.pattern, module))
            }),
            Scope::Identity => race.identity.is(&self.pattern),
            Scope::OtherTool => false,
        }
    }

    fn matches_frame(&self, frame: &StackFrame) -> bool {
        [&frame.function, &frame.file, &frame.module]
            .into_iter()
            .flatten()
            .any(|text| pattern_matches(&self.pattern, text))
    }

    fn matches_variable(&self, race: &Race) -> bool {
        race.location.kind == LocationKind::Global
            && race
                .location
                .name
                .as_deref()
                .is_some_and(|n| pattern_matches(&self.pattern, n))
    }
}

/// The sanitizers' pattern: a substring, with `*` for any run of characters, `^` at the
/// beginning and `$` at the end as anchors (compiler-rt, `TemplateMatch`).
fn pattern_matches(pattern: &str, text: &str) -> bool {
    let (pattern, from_start) = match pattern.strip_prefix('^') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let (pattern, to_end) = match pattern.strip_suffix('$') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let mut parts: Vec<&str> = pattern.split('*').collect();
    let mut rest = text;
    if from_start && !parts.is_empty() {
        match rest.strip_prefix(parts.remove(0)) {
            Some(after) => rest = after,
            None => return false,
        }
        if parts.is_empty() {
            return !to_end || rest.is_empty();
        }
    }
    let last = if to_end { parts.pop() } else { None };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    last.is_none_or(|last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::race;

    /// Check the pattern language.
    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("foo", "a::foobar", true),
            ("^foo", "a::foobar", false),
            ("^foo", "foobar", true),
            ("bar$", "foobar", true),
            ("foo$", "foobar", false),
            ("^foo$", "foo", true),
            ("^foo$", "foofoo", false),
            ("f*r", "a foo bar", true),
            ("r*f", "foo bar", false),
            ("^f*r$", "foobar", true),
            ("^f*r$", "foobars", false),
            ("^f*f$", "f", false),
            ("^*bar", "foobar", true),
            ("foo*$", "foobar", true),
            ("*", "", true),
            ("ü*ß", "über Straße", true),
        ] {
            assert_eq!(pattern_matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    /// Check each type against a race, and that comments and other tools' types do nothing.
    #[test]
    fn types() {
        let matches = |text: &str| {
            let mut suppressions =
                Suppressions::parse(text, Path::new("supp")).expect("a good file");
            suppressions.suppresses(&race())
        };
        assert!(matches("race:main"));
        assert!(matches("race:worker.c"));
        assert!(matches("race:^counter$"));
        assert!(!matches("race_top:main"));
        assert!(matches("identity:r2:00112233445566778899aabbccddeeff"));
        assert!(matches("identity:i2:ffeeddccbbaa99887766554433221100"));
        assert!(!matches("identity:r2:ffeeddccbbaa99887766554433221100"));
        assert!(matches("race_top:^bump$"));
        assert!(matches("called_from_lib:libwork.so"));
        assert!(!matches("called_from_lib:bump"));
        assert!(!matches("# race:main\n\n  thread:main\nmutex:main\n"));
        assert!(matches("  race:main  \r\n"));
    }

    /// Check that used rules are counted with their lines.
    #[test]
    fn counts_uses() {
        let mut suppressions =
            Suppressions::parse("race:nothing\nrace:main", Path::new("supp")).expect("good");
        assert!(suppressions.suppresses(&race()));
        assert!(suppressions.suppresses(&race()));
        assert_eq!(suppressions.used().collect::<Vec<_>>(), [(2, "main", 2)]);
    }

    /// Check that errors name file and line and say what to write.
    #[test]
    fn errors_name_the_line() {
        for text in [
            "race:x\nbogus:y",
            "race:x\nrace",
            "race:x\nrace:",
            "race:x\nidentity:main",
        ] {
            let error = Suppressions::parse(text, Path::new("my.supp")).expect_err(text);
            let message = error.to_string();
            assert!(message.starts_with("my.supp:2: "), "{message}");
            assert!(message.contains("TYPE:PATTERN"), "{message}");
        }
        let old = "identity:r1:00112233445566778899aabbccddeeff";
        let error = Suppressions::parse(old, Path::new("my.supp")).expect_err(old);
        assert!(error.to_string().contains("another version"), "{error}");
    }
}
