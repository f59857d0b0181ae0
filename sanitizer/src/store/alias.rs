//! Names that count as others. A refactoring gives a race another name, and two issues may be one: people merge such names, and split them again. Sightings and reports keep the names by
//! which they were caught, and merging is a view of them: it loses nothing, and what is caught later by the old name counts, too. Everything is kept, as what is said of races is.

use std::collections::HashMap;

use super::{
    SCHEMA, Store,
    connect::{Connection, begin},
    error::StoreError,
    number, summary,
    text::text,
};

/// Who says something, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speaker {
    /// Who.
    pub who: String,
    /// Why; may be empty.
    pub reason: String,
}

/// What was done to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It counts as another one.
    Merged,
    /// It counts as itself again.
    Split,
}

impl Done {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Merged => "merged",
            Self::Split => "split",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let all = [Self::Merged, Self::Split];
        all.into_iter().find(|done| done.name() == text)
    }
}

/// That somebody has merged a name into another one, or split it from that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Counts all that was said.
    pub number: i64,
    /// The race or issue.
    pub name: String,
    /// Which of the two.
    pub done: Done,
    /// The other race or issue.
    pub target: String,
    /// Why; may be empty.
    pub reason: String,
    /// Who has done it.
    pub who: String,
    /// When, milliseconds since 1970.
    pub said: i64,
}

/// What each name is merged into, of those that are.
#[derive(Clone, Debug, Default)]
pub(super) struct Aliases(HashMap<String, String>);

impl Aliases {
    pub(super) async fn read(connection: &mut Connection) -> sqlx::Result<Self> {
        Ok(Self::of(merges(connection).await?))
    }

    /// What has come of all that was done, the first first.
    fn of(merges: Vec<Merge>) -> Self {
        let mut aliases = HashMap::new();
        for merge in merges {
            match merge.done {
                Done::Merged => aliases.insert(merge.name, merge.target),
                Done::Split => aliases.remove(&merge.name),
            };
        }
        Self(aliases)
    }

    /// The name as which one counts: itself, where it is merged into none.
    pub(super) fn counts_as<'a>(&'a self, name: &'a str) -> &'a str {
        let mut at = name;
        // Each is passed once.
        for _ in 0..=self.0.len() {
            match self.0.get(at) {
                Some(target) => at = target,
                None => return at,
            }
        }
        // There is a circle, which something else has written: all of it counts as the first of its names.
        let mut first = at;
        for _ in 0..self.0.len() {
            at = self.0.get(at).map_or(at, String::as_str);
            first = first.min(at);
        }
        first
    }

    /// The other names that count as one.
    pub(super) fn others<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.0.keys().map(String::as_str);
        all.filter(move |other| *other != name && self.counts_as(other) == name)
    }

    /// Each name that is merged, and the one as which it counts.
    pub(super) fn pairs(&self) -> Vec<(&str, &str)> {
        let names = self.0.keys();
        names.map(|name| (&**name, self.counts_as(name))).collect()
    }

    /// All names that are merged, and those into which they are.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .flat_map(|(name, target)| [name.as_str(), target.as_str()])
    }

    /// Whether a name may be merged into another one.
    fn may_merge(&self, name: &str, into: &str) -> Result<(), String> {
        if name == into {
            return Err(format!(
                "{name} cannot be merged into itself; name two races, or two issues"
            ));
        }
        if name.chars().next() != into.chars().next() {
            return Err(format!(
                "{name} and {into} are not of one kind; merge a race into a race (r3:), or an issue into an issue (i3:)"
            ));
        }
        if let Some(target) = self.0.get(name) {
            let whole = self.counts_as(name);
            return Err(format!(
                "{name} is merged into {target} already; merge {whole}, with all that counts as it, or split {name} first"
            ));
        }
        if self.counts_as(into) == name {
            return Err(format!(
                "{into} is merged into {name}, which cannot be merged into {into} as well; split {into} first"
            ));
        }
        Ok(())
    }

    /// From which name one is split.
    fn split_from(&self, name: &str) -> Result<&str, String> {
        if let Some(target) = self.0.get(name) {
            return Ok(target);
        }
        let merged = self.0.iter().filter(|(_, target)| *target == name);
        let mut merged: Vec<&str> = merged.map(|(name, _)| name.as_str()).collect();
        merged.sort_unstable();
        Err(match &*merged {
            [] => {
                format!(
                    "{name} is not merged into another one; `gwp-race races log` tells which are"
                )
            }
            merged => format!(
                "{name} is not merged into another one, but others are into it; split one of them: {}",
                merged.join(", ")
            ),
        })
    }
}

impl Store {
    /// From now on a race or issue counts as another one. The name as which both count.
    ///
    /// # Errors
    /// That cannot be: it is the same one, or of another kind, or one of them is merged into something already; the store cannot be written to.
    pub fn merge(
        &mut self,
        name: &str,
        into: &str,
        speaker: &Speaker,
        now: i64,
    ) -> Result<String, StoreError> {
        self.change(name, Some(into), speaker, now)
    }

    /// From now on a race or issue that was merged counts as itself again, with all that was merged into it before. The name from which it was split.
    ///
    /// # Errors
    /// It is not merged; the store cannot be written to.
    pub fn split(&mut self, name: &str, speaker: &Speaker, now: i64) -> Result<String, StoreError> {
        self.change(name, None, speaker, now)
    }

    fn change(
        &mut self,
        name: &str,
        into: Option<&str>,
        speaker: &Speaker,
        now: i64,
    ) -> Result<String, StoreError> {
        let changed = self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            let aliases = Aliases::read(&mut all).await?;
            let allowed = match into {
                Some(into) => aliases
                    .may_merge(name, into)
                    .map(|()| (Done::Merged, into, aliases.counts_as(into))),
                None => (aliases.split_from(name)).map(|from| (Done::Split, from, from)),
            };
            let (done, target, other) = match allowed {
                Ok(allowed) => allowed,
                Err(wrong) => {
                    all.rollback().await?;
                    return Ok(Err(wrong));
                }
            };
            let merge = Merge {
                number: number::next(&mut all).await?,
                name: name.to_owned(),
                done,
                target: target.to_owned(),
                reason: speaker.reason.clone(),
                who: speaker.who.clone(),
                said: now,
            };
            take_down(&mut all, &merge).await?;
            let now_as = Aliases::read(&mut all).await?;
            let touched = [name, aliases.counts_as(name), now_as.counts_as(name)];
            summary::regroup(&mut all, &now_as.pairs(), &touched).await?;
            all.commit().await?;
            Ok(Ok(other.to_owned()))
        })?;
        changed.map_err(StoreError::Name)
    }
}

/// Adds what somebody has done.
pub(super) async fn take_down(connection: &mut Connection, merge: &Merge) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO alias (number, name, done, target, reason, who, said) VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(merge.number)
    .bind(&merge.name)
    .bind(merge.done.name())
    .bind(&merge.target)
    .bind(text(&merge.reason))
    .bind(text(&merge.who))
    .bind(merge.said)
    .execute(connection)
    .await?;
    Ok(())
}

type Row = (i64, String, String, String, String, String, i64);

/// All that was done, the first first.
pub(super) async fn merges(connection: &mut Connection) -> sqlx::Result<Vec<Merge>> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT number, name, done, target, reason, who, said FROM alias ORDER BY number",
    )
    .fetch_all(connection)
    .await?;
    let all = rows.into_iter().map(|row| {
        let (number, name, done, target, reason, who, said) = row;
        let done = Done::parse(&done).ok_or_else(|| {
            sqlx::Error::Decode(format!("{done} is nothing that is done to a name").into())
        })?;
        Ok(Merge {
            number,
            name,
            done,
            target,
            reason,
            who,
            said,
        })
    });
    all.collect()
}
