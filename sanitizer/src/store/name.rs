//! Names of races and builds, abbreviated as in git: as many characters as no other one begins with.

use super::{Store, error::StoreError, races::Build};

/// The fewest hexadecimal digits that a name is abbreviated to.
const FEWEST: usize = 4;
/// Candidates that are listed.
const MOST_LISTED: usize = 10;

/// What a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// The race of this name.
    Race(String),
    /// All races of the issue of this name.
    Issue(String),
    /// The races of the pair of this name, and these.
    Pair(String, Vec<String>),
}

impl Store {
    /// What a name means: of a race (`r3:`), an issue (`i3:`) or a pair (`p3:`), or the beginning of one, also without the letter and its number.
    ///
    /// # Errors
    /// There is none, or there are several; the store cannot be read.
    pub fn named(&mut self, text: &str) -> Result<Named, StoreError> {
        let names: Vec<(String, String)> = self.with(async |connection| {
            sqlx::query_as(
                "SELECT id, '' FROM race UNION SELECT id, '' FROM issue UNION SELECT id, race FROM pair ORDER BY 1, 2",
            )
            .fetch_all(connection)
            .await
        })?;
        let mut found: Vec<&(String, String)> =
            names.iter().filter(|(id, _)| begins(id, text)).collect();
        if let Some(exact) = found.iter().position(|(id, _)| id == text) {
            let exact = found.get(exact).map(|(id, _)| id.clone());
            found.retain(|(id, _)| Some(id) == exact.as_ref());
        }
        let mut ids: Vec<&str> = found.iter().map(|(id, _)| &**id).collect();
        ids.dedup();
        let id = one(&ids, text, "race", "`gwp-race races list` lists them")?.to_owned();
        Ok(match id.chars().next() {
            Some('r') => Named::Race(id),
            Some('i') => Named::Issue(id),
            _ => Named::Pair(id, found.iter().map(|(_, race)| race.clone()).collect()),
        })
    }

    /// The build of a name, or of the beginning of one.
    ///
    /// # Errors
    /// There is none, or there are several; the store cannot be read.
    pub fn build(&mut self, text: &str) -> Result<Build, StoreError> {
        let builds = self.builds()?;
        let ids: Vec<&str> = builds.iter().map(|build| &*build.id).collect();
        let found: Vec<&str> = match ids.iter().find(|id| **id == text) {
            Some(exact) => vec![exact],
            None => (ids.iter().copied())
                .filter(|id| text.len() >= FEWEST && id.starts_with(text))
                .collect(),
        };
        let mend = match &*ids {
            [] => "no build was watched yet".to_owned(),
            ids => format!("it has {}", listed(ids)),
        };
        let id = one(&found, text, "build", &mend)?.to_owned();
        let build = builds.into_iter().find(|build| build.id == id);
        build.ok_or(StoreError::Name(mend))
    }
}

/// Whether a name is, or begins with, a text: `r3:43db`, or `43db` alone.
fn begins(id: &str, text: &str) -> bool {
    let (_, hash) = id.split_once(':').unwrap_or_default();
    let digits = text.split_once(':').map_or(text, |(_, digits)| digits);
    digits.len() >= FEWEST && (id.starts_with(text) || hash.starts_with(text))
}

/// The only one of those that were found.
fn one<'a>(found: &[&'a str], text: &str, what: &str, mend: &str) -> Result<&'a str, StoreError> {
    let digits = match text.split_once(':') {
        Some((level, digits)) if level.len() == "r2".len() => digits,
        _ => text,
    };
    match found {
        [one] => Ok(one),
        [] if digits.len() < FEWEST => Err(StoreError::Name(format!(
            "{text} is too short for the name of a {what}; give {FEWEST} digits of it or more"
        ))),
        [] => Err(StoreError::Name(format!(
            "the store has no {what} {text}; {mend}"
        ))),
        several => Err(StoreError::Name(format!(
            "{text} may be {}; give more of the name",
            listed(several)
        ))),
    }
}

fn listed(ids: &[&str]) -> String {
    let shown: Vec<&str> = ids.iter().copied().take(MOST_LISTED).collect();
    match ids.len().saturating_sub(MOST_LISTED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
