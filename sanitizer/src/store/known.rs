//! The races of the store of which a run is not to tell as new ones.

use super::{Store, error::StoreError, state::State};
use crate::report::Baseline;

impl Store {
    /// Adds what people have accepted (`acknowledged`, `benign`); with `all`, as in a baseline, each race that is there, but for those that were accepted for a
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
        for race in races {
            let said = race.said.as_ref();
            let is_of_issue = said.is_some_and(|said| said.name == race.issue);
            let was_limited = said.is_some_and(|said| said.is_over(now));
            match race.state {
                state if state.is_accepted() => {
                    if is_of_issue {
                        baseline.add_issue(race.issue);
                    }
                    baseline.add(race.id);
                }
                State::Fixed if all => {
                    let fixed = said.map_or(now, |said| said.said);
                    let before = builds.iter().filter(|build| build.first_seen <= fixed);
                    baseline.add_in(race.id, before.map(|build| build.id.clone()));
                }
                State::New if all && !was_limited => baseline.add(race.id),
                _ => {}
            }
        }
        Ok(())
    }
}
