//! Which races of the store are meant.

use std::{collections::HashSet, time::Duration};

use crate::cli::duration::parse_duration;
use crate::report::{Race, Record};
use crate::store::{Named, State, Store, StoredRace};

/// What all of which must be true.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Choice {
    /// Those in these states (new,regressed)
    ///
    /// `open` is another word for `new`. `regressed` are those that were said to be fixed, and were caught in a build that was seen first after that.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STATE,...")]
    pub state: Vec<State>,

    /// Those caught in this time before now (7d)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub since: Option<Duration>,

    /// Those caught in this build
    ///
    /// The build id of the executable, or its beginning; `exe:PATH` where it has none.
    #[arg(long, value_name = "BUILD")]
    pub build: Option<String>,

    /// Those not caught in this build
    ///
    /// With --build, those that are new in one build since another one, as `races diff` tells them.
    #[arg(long, value_name = "BUILD")]
    pub not_in: Option<String>,

    /// Those to which one of these sees
    ///
    /// As `races triage --owner` has said, the very name; an empty one means those to which nobody sees.
    #[arg(long, value_delimiter = ',', value_name = "WHO,...")]
    pub owner: Vec<String>,

    /// Those of programs whose path has this text
    #[arg(long, value_name = "TEXT")]
    pub program: Option<String>,

    /// Those whose functions have this text
    ///
    /// Functions, files and variables of both sides are looked at, without regard to capitals.
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
}

impl Choice {
    /// Those races, those that were caught last first.
    pub fn of(&self, store: &mut Store, now: i64) -> anyhow::Result<Vec<StoredRace>> {
        let [build, other] = [&self.build, &self.not_in].map(|name| id(store, name.as_deref()));
        let [build, other] = [build?, other?];
        let after = self.since.map(|since| {
            let since = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
            now.saturating_sub(since)
        });
        let text = self.text.as_deref().map(str::to_lowercase);
        let mut races = store.races(now)?;
        races.retain(|race| {
            let is_in = |build: &str| race.seen.iter().any(|seen| seen.build.id == build);
            let is_of_program = self.program.as_deref().is_none_or(|program| {
                race.seen
                    .iter()
                    .any(|seen| seen.build.exe.contains(program))
            });
            (self.state.is_empty() || self.state.contains(&race.state))
                && after.is_none_or(|after| race.last_seen >= after)
                && build.as_deref().is_none_or(is_in)
                && !other.as_deref().is_some_and(is_in)
                && (self.owner.is_empty()
                    || self.owner.iter().any(|owner| owner == race.owner(now)))
                && is_of_program
                && text.as_deref().is_none_or(|text| has_text(race, text))
        });
        Ok(races)
    }

    /// The same of those that a name means, where there is one.
    pub fn of_name(
        &self,
        store: &mut Store,
        name: Option<&str>,
        now: i64,
    ) -> anyhow::Result<Vec<StoredRace>> {
        let named = name.map(|name| store.named(name)).transpose()?;
        let mut races = self.of(store, now)?;
        if let Some(named) = named {
            races.retain(|race| is_named(race, &named));
        }
        Ok(races)
    }

    /// The last record of each of them, and of each name that was merged into one; known are those that somebody has accepted.
    pub fn records(
        &self,
        store: &mut Store,
        name: Option<&str>,
        now: i64,
    ) -> anyhow::Result<Vec<Record>> {
        let build = id(store, self.build.as_deref())?;
        let races = self.of_name(store, name, now)?;
        let mut records = Vec::new();
        for stored in races {
            let mut told = HashSet::new();
            for race in store.evidence(&stored.id, build.as_deref())? {
                if told.insert(race.identity.race.clone()) {
                    records.push(Record::Race(Box::new(Race {
                        known: stored.state.is_accepted(),
                        ..race
                    })));
                }
            }
        }
        Ok(records)
    }
}

/// The whole name of a build.
fn id(store: &mut Store, build: Option<&str>) -> anyhow::Result<Option<String>> {
    let build = build.map(|name| store.build(name)).transpose()?;
    Ok(build.map(|build| build.id))
}

/// Whether a name means a race.
pub fn is_named(race: &StoredRace, named: &Named) -> bool {
    match named {
        Named::Race(id) => race.id == *id,
        Named::Issue(id) => race.all_issues().any(|issue| issue == id),
        Named::Pair(_, races) => races.contains(&race.id),
    }
}

fn has_text(race: &StoredRace, text: &str) -> bool {
    let of_race = [&race.functions, &race.places, &race.variable];
    of_race
        .iter()
        .any(|words| words.to_lowercase().contains(text))
}
