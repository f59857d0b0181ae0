//! Profiles of sites: what one may bring.

use super::{ByWorth, Choice};
use crate::hunt::plan::{action::Deed, price::Price, profiles::LENGTH};

impl ByWorth {
    /// Some dozens of sites that are noted for a short time.
    pub(super) fn of_profiles(&mut self, now: f64, price: &Price) -> Option<Choice> {
        if !self.known.draft_profile(now, &mut self.random) {
            return None;
        }
        let (sites, found, time_s, cost_s) = self.known.profiles.draw(&mut self.random)?;
        Some(Choice {
            worth: found * self.known.yields() / price.cost(time_s, cost_s),
            deed: Deed::Profile {
                sites,
                at_most: LENGTH,
            },
            kind: None,
        })
    }
}
