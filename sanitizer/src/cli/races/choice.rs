//! Which races of the store are meant.

use std::time::Duration;

use crate::cli::duration::parse_duration;
use crate::report::{Race, Record};
use crate::store::{Named, State, Store, StoredRace};

/// What all of which must be true.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Choice {
    /// Those in these states (new,regressed)
    ///
    /// `regressed` are those that were said to be fixed, and were caught in a build that was seen first after that.
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
        let build = self.build.as_deref().map(|name| store.build(name));
        let build = build.transpose()?.map(|build| build.id);
        let after = self.since.map(|since| {
            let since = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
            now.saturating_sub(since)
        });
        let text = self.text.as_deref().map(str::to_lowercase);
        let mut races = store.races(now)?;
        races.retain(|race| {
            let mut seen = race.seen.iter();
            let is_of_program = self.program.as_deref().is_none_or(|program| {
                race.seen
                    .iter()
                    .any(|seen| seen.build.exe.contains(program))
            });
            (self.state.is_empty() || self.state.contains(&race.state))
                && after.is_none_or(|after| race.last_seen >= after)
                && build
                    .as_deref()
                    .is_none_or(|build| seen.any(|seen| seen.build.id == build))
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

    /// The last record of each of them; known are those that somebody has accepted.
    pub fn records(
        &self,
        store: &mut Store,
        name: Option<&str>,
        now: i64,
    ) -> anyhow::Result<Vec<Record>> {
        let build = self.build.as_deref().map(|name| store.build(name));
        let build = build.transpose()?.map(|build| build.id);
        let races = self.of_name(store, name, now)?;
        let mut records = Vec::new();
        for stored in races {
            let last = store.evidence(&stored.id, build.as_deref())?;
            records.extend(last.into_iter().next().map(|race| {
                Record::Race(Box::new(Race {
                    known: stored.state.is_accepted(),
                    ..race
                }))
            }));
        }
        Ok(records)
    }
}

/// Whether a name means a race.
pub fn is_named(race: &StoredRace, named: &Named) -> bool {
    match named {
        Named::Race(id) => race.id == *id,
        Named::Issue(id) => race.issue == *id,
        Named::Pair(_, races) => races.contains(&race.id),
    }
}

fn has_text(race: &StoredRace, text: &str) -> bool {
    let of_race = [&race.functions, &race.places, &race.variable];
    of_race
        .iter()
        .any(|words| words.to_lowercase().contains(text))
}
