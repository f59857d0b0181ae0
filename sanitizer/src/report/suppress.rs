//! Suppressions in ThreadSanitizer's file format (clang's ThreadSanitizer documentation,
//! "Suppressions"): one `type:pattern` a line, so that one file serves both tools.
//!
//! - `race:` matches a function, file or module of any frame of either stack, or the
//!   variable's name;
//! - `race_top:` looks only at the place of each access;
//! - `called_from_lib:` matches the module of the place of an access, or of its caller.
//! - `identity:` matches a race by one of its names (`identity.rs`), and `build_id:` by the build of the module of the place of an
//!   access: types of our own, which ThreadSanitizer refuses.
//!
//! Types of other ThreadSanitizer reports (`thread`, `mutex`, `signal`, `deadlock`) are
//! accepted and have no effect.

mod pattern;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

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
             identity:NAME with the name of a race or issue from a report, or \
             build_id:HEX with at least {SHORTEST_BUILD_ID} of its digits"
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

/// Digits of a build id that a rule must give: fewer would name builds by accident.
const SHORTEST_BUILD_ID: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Race,
    RaceTop,
    CalledFromLib,
    Identity,
    BuildId,
    OtherTool,
}

#[derive(Clone, Debug)]
struct Rule {
    scope: Scope,
    /// As it stands in the file.
    text: String,
    pattern: String,
    line: usize,
    hits: u64,
}

/// The rules of a suppressions file.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    path: PathBuf,
    rules: Vec<Rule>,
}

/// A rule that has matched no race of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnusedRule {
    /// The file, as the user has named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The rule, as it stands there.
    pub rule: String,
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
                "build_id" => Scope::BuildId,
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
            if scope == Scope::BuildId && !is_build_id(pattern) {
                return Err(syntax());
            }
            rules.push(Rule {
                scope,
                text: rule.to_owned(),
                pattern: pattern.to_owned(),
                line,
                hits: 0,
            });
        }
        let path = path.to_owned();
        Ok(Self { path, rules })
    }

    /// Whether a race is suppressed; counts all rules that say so.
    pub fn suppresses(&mut self, race: &Race) -> bool {
        let mut is_suppressed = false;
        for rule in self.rules.iter_mut().filter(|rule| rule.matches(race)) {
            rule.hits += 1;
            is_suppressed = true;
        }
        is_suppressed
    }

    /// The rules that could have matched a race, and have matched none.
    #[must_use]
    pub fn unused(&self) -> Vec<UnusedRule> {
        let file = self.path.display().to_string();
        let unused = |rule: &&Rule| rule.hits == 0 && rule.scope != Scope::OtherTool;
        let told = |rule: &Rule| UnusedRule {
            file: file.clone(),
            line: rule.line,
            rule: rule.text.clone(),
        };
        self.rules.iter().filter(unused).map(told).collect()
    }

    /// The rules that suppressed something: line in the file, pattern, how often.
    pub fn used(&self) -> impl Iterator<Item = (usize, &str, u64)> {
        self.rules
            .iter()
            .filter(|rule| rule.hits > 0)
            .map(|rule| (rule.line, rule.pattern.as_str(), rule.hits))
    }
}

fn is_build_id(pattern: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    pattern.len() >= SHORTEST_BUILD_ID && pattern.bytes().all(is_digit)
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
                    .any(|module| pattern::matches(&self.pattern, module))
            }),
            Scope::Identity => race.identity.is(&self.pattern),
            Scope::BuildId => {
                let sites = race.accesses.iter().filter_map(Access::site);
                let mut builds = sites.filter_map(|site| site.build_id.as_deref());
                builds.any(|build| build.starts_with(&self.pattern))
            }
            Scope::OtherTool => false,
        }
    }

    fn matches_frame(&self, frame: &StackFrame) -> bool {
        [&frame.function, &frame.file, &frame.module]
            .into_iter()
            .flatten()
            .any(|text| pattern::matches(&self.pattern, text))
    }

    fn matches_variable(&self, race: &Race) -> bool {
        race.location.kind == LocationKind::Global
            && race
                .location
                .name
                .as_deref()
                .is_some_and(|n| pattern::matches(&self.pattern, n))
    }
}

#[cfg(test)]
mod tests;
