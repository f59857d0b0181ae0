//! Telling which functions were looked at, where that is wanted (`--coverage`): each second what is new, so that a tracer which is ended from outside has
//! told all but what came last.

use std::collections::HashMap;

use crate::hunt::engine::rig::Rig;
use crate::hunt::wire::Notice;
use crate::report::LookedAt;

use super::Adviser;

/// Functions in a message.
const SOME: usize = 4096;

/// What was told of the functions of the present modules.
#[derive(Debug, Default)]
pub struct Told(HashMap<u64, LookedAt>);

impl Told {
    /// What was not told yet.
    fn news(&self, mut functions: Vec<LookedAt>) -> Vec<LookedAt> {
        functions.retain(|function| self.0.get(&function.start) != Some(function));
        functions
    }

    fn add(&mut self, functions: &[LookedAt]) {
        let functions = functions.iter();
        (self.0).extend(functions.map(|function| (function.start, *function)));
    }
}

impl Adviser {
    /// Tells which functions were looked at since the last time.
    pub fn tell_coverage(&mut self, rig: &mut Rig) {
        if !rig.setup.coverage {
            return;
        }
        let news = self.coverage_told.news(self.strategy.looked_at());
        for some in news.chunks(SOME) {
            // Whoever does not listen may do so the next time.
            if rig.outbox.send(&Notice::Coverage(some.to_vec())) {
                self.coverage_told.add(some);
            }
        }
    }

    /// Tells it for the last time, before the strategy forgets: other functions may stand at these addresses now.
    pub fn tell_coverage_and_forget(&mut self, rig: &mut Rig) {
        self.tell_coverage(rig);
        self.coverage_told = Told::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what was told is told again only when it has changed.
    #[test]
    fn news_is_told_once() {
        let function = |start, sampled| LookedAt {
            start,
            sites: 4,
            sampled,
            contended: 0,
        };
        let mut told = Told::default();
        let all = vec![function(1, 0), function(2, 1)];
        assert_eq!(told.news(all.clone()), all);
        told.add(&all);
        assert_eq!(told.news(all), []);
        let later = vec![function(1, 0), function(2, 2), function(3, 0)];
        assert_eq!(told.news(later), [function(2, 2), function(3, 0)]);
    }
}
