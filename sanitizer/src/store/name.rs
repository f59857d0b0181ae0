//! Names of races and builds, abbreviated as in git: as many characters as no other one begins with. Names that were merged mean what they count as.

use super::{Store, alias::Aliases, build::Build, error::StoreError};

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
    /// What a name means: of a race (`r3:`), an issue (`i3:`) or a pair (`p3:`), or the beginning of one, also without the letter and its number. Of one that was merged, that
    /// is what it counts as.
    ///
    /// # Errors
    /// There is none, or there are several; the store cannot be read.
    pub fn named(&mut self, text: &str) -> Result<Named, StoreError> {
        let names = self.names()?;
        let found = names.find(text);
        let counts_as = |name| names.aliases.counts_as(name);
        let id = only(found.iter().map(|(id, _)| counts_as(id)), text)?;
        Ok(match id.chars().next() {
            Some('r') => Named::Race(id),
            Some('i') => Named::Issue(id),
            _ => {
                let races = found.iter().map(|(_, race)| counts_as(race).to_owned());
                let mut races: Vec<String> = races.collect();
                races.sort_unstable();
                races.dedup();
                Named::Pair(id, races)
            }
        })
    }

    /// The race or issue of this name, or of the beginning of one, itself, whatever it counts as.
    ///
    /// # Errors
    /// There is none, there are several, or it is a pair; the store cannot be read.
    pub fn itself(&mut self, text: &str) -> Result<String, StoreError> {
        let names = self.names()?;
        let id = only(names.find(text).iter().map(|(id, _)| &**id), text)?;
        if id.starts_with('p') {
            return Err(StoreError::Name(format!(
                "{id} is a pair of instructions; name its race (r3:) or issue (i3:), which `gwp-race races show` tells"
            )));
        }
        Ok(id)
    }

    fn names(&mut self) -> Result<Names, StoreError> {
        self.with(async |connection| {
            let aliases = Aliases::read(&mut *connection).await?;
            let mut all: Vec<(String, String)> = sqlx::query_as(
                "SELECT id, '' FROM race UNION SELECT id, '' FROM issue UNION SELECT id, race FROM pair",
            )
            .fetch_all(connection)
            .await?;
            all.extend(aliases.names().map(|name| (name.to_owned(), String::new())));
            all.sort_unstable();
            all.dedup();
            Ok(Names { all, aliases })
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

/// All names.
struct Names {
    /// Each with a race, where it is a pair.
    all: Vec<(String, String)>,
    aliases: Aliases,
}

impl Names {
    /// Those that begin with a text; the one that is it, where there is one.
    fn find(&self, text: &str) -> Vec<&(String, String)> {
        let mut found: Vec<&(String, String)> = (self.all.iter())
            .filter(|(id, _)| begins(id, text))
            .collect();
        if found.iter().any(|(id, _)| id == text) {
            found.retain(|(id, _)| id == text);
        }
        found
    }
}

/// The only name of those that were found.
fn only<'a>(found: impl Iterator<Item = &'a str>, text: &str) -> Result<String, StoreError> {
    let mut ids: Vec<&str> = found.collect();
    ids.sort_unstable();
    ids.dedup();
    let id = one(&ids, text, "race", "`gwp-race races list` lists them")?;
    Ok(id.to_owned())
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
