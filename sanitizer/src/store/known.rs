//! The races of the store of which a run is not to tell as new ones.

use std::collections::HashSet;

use super::{Store, alias::Aliases, error::StoreError, state::State, triage};
use crate::report::Baseline;

impl Store {
    /// Adds what people have accepted (`acknowledged`, `benign`), by all names that count as it; with `all`, as in a baseline, each race that is there, but for those that were accepted for a
    /// time which is over. One that is fixed is known in the builds of before alone, and one that has regressed in none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn add_known(
        &mut self,
        baseline: &mut Baseline,
        all: bool,
        now: i64,
    ) -> Result<(), StoreError> {
        let races = self.races(now)?;
        let builds = self.builds()?;
        let (said, aliases) = self.with(async |connection| {
            let said = triage::said(&mut *connection).await?;
            Ok((said, Aliases::read(connection).await?))
        })?;
        // An issue's word counts for races that are not there yet, whatever was said of those that are.
        let issues: HashSet<String> = triage::last(said, now)
            .into_values()
            .filter(|said| said.name.starts_with('i') && aliases.counts_as(&said.name) == said.name)
            .filter(|said| State::of(Some(said), 0, now).is_accepted())
            .flat_map(|said| {
                let others = aliases.others(&said.name).map(str::to_owned);
                let mut names: Vec<String> = others.collect();
                names.push(said.name);
                names
            })
            .collect();
        for race in races {
            let said = race.said.as_ref();
            let was_limited = said.is_some_and(|said| said.is_over(now));
            let is_of_accepted = race.all_issues().any(|issue| issues.contains(issue));
            for id in race.ids().cloned() {
                if !race.state.is_accepted() && is_of_accepted {
                    // Something else was said of this one later, or of the one as which it counts.
                    baseline.except(id.clone());
                }
                match race.state {
                    state if state.is_accepted() => baseline.add(id),
                    State::Fixed if all => {
                        let fixed = said.map_or(now, |said| said.said);
                        // A program without a build id may be another one each time.
                        let before = builds
                            .iter()
                            .filter(|build| build.first_seen <= fixed && !build.is_path());
                        baseline.add_in(id, before.map(|build| build.id.clone()));
                    }
                    State::New | State::Confirmed if all && !was_limited => baseline.add(id),
                    _ => {}
                }
            }
        }
        for issue in issues {
            baseline.add_issue(issue);
        }
        Ok(())
    }
}
