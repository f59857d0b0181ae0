//! What comes of a thread's being stopped in a recorded program: who meets it while it is held, and who uses its bytes when it has gone on.

use std::{collections::BTreeMap, time::Duration};

use super::scene::{Replay, Standing};
use crate::hunt::{
    plan::event::{StallEnd, What},
    world::{
        costs::MOST_TRAPS,
        simulation::Find,
        stop::{GOES_ON_S, LOOK_AT_LOCKS_S, Own},
    },
};

impl Replay<'_> {
    /// Holds a thread.
    pub(super) fn hold(&mut self, standing: Standing, longest: Duration, look: Duration) -> What {
        let (lasted, end) = self.held(standing, longest.as_secs_f64());
        self.run.stalls += 1;
        let is_quiet = matches!(end, StallEnd::Quiet | StallEnd::Locked);
        if is_quiet && !look.is_zero() {
            // Whom the thread has kept from coming comes from now on.
            self.after = Some(self.look(standing, look));
        }
        What::Held {
            site: self.site(standing.event),
            lasted: Duration::from_secs_f64(lasted),
            end,
        }
    }

    /// For how long it was held, s, and how that ended.
    fn held(&mut self, standing: Standing, longest: f64) -> (f64, StallEnd) {
        let index = self.index;
        let Some(own) = index.event(standing.event) else {
            return (0.0, StallEnd::Quiet);
        };
        // Those count who came after the bytes were watched.
        let begin = if standing.is_watched {
            standing.came_s
        } else {
            self.now
        };
        let mut until = longest;
        let waits = index.waits(own, begin, begin + longest);
        let mut waiting = BTreeMap::new();
        for (at, lock, thread) in &waits {
            waiting.entry(*thread).or_insert(*at);
            if *at - begin <= LOOK_AT_LOCKS_S.max(until) {
                self.locks.insert(*lock);
            }
        }
        let waits_since = waits.first().map(|(at, ..)| at - begin);
        if let Some(since) = waits_since {
            until = until.min(since.max(LOOK_AT_LOCKS_S));
        }
        let (mut new, mut known) = (Vec::new(), Vec::new());
        let mut traps: f64 = 0.0;
        for (at, other) in index.others(standing.event, begin, begin + longest) {
            let after = at - begin;
            if after > until {
                break;
            }
            let waits = waiting.get(&other.thread).is_some_and(|since| *since <= at);
            let Some(race) = index.race(own.site, other.site).filter(|_| !waits) else {
                continue;
            };
            if index.common_lock(own, other).is_some() {
                continue;
            }
            traps += 1.0;
            if self.found.insert(race) {
                new.push((at, other.site));
                if index
                    .pair_of_lines(race)
                    .is_some_and(|pair| self.lines_found.insert(pair))
                {
                    self.run.finds.push(Find {
                        time_s: at,
                        spent_s: self.run.spent_s + after,
                        stalls: self.run.stalls + 1,
                    });
                }
                until = until.min(2.0 * after + GOES_ON_S);
            } else {
                known.push((at, other.site));
            }
        }
        let waited = waits_since
            .filter(|since| *since < until)
            .map_or(0.0, |since| (until - since) / 2.0);
        self.spend(until + waited + traps.min(MOST_TRAPS) * self.hunt.costs.trap_s);
        self.now += until;
        let is_waited_for = waits_since.is_some_and(|since| since <= until);
        let partners = |others: &[(f64, u32)]| Self::partners(begin, others);
        let end = match (new.is_empty(), known.is_empty(), is_waited_for) {
            (false, ..) => StallEnd::Hit(partners(&new)),
            (true, false, _) => StallEnd::Known(partners(&known)),
            (true, true, true) => StallEnd::Locked,
            (true, true, false) => StallEnd::Quiet,
        };
        (until, end)
    }

    /// Watches what others use when a thread has gone on.
    pub(super) fn look(&mut self, standing: Standing, at_most: Duration) -> What {
        let index = self.index;
        let (begin, until) = (self.now, self.now + at_most.as_secs_f64());
        let others = index.others(standing.event, begin, until);
        let mut uses: Vec<_> = others.iter().map(|(at, other)| (*at, other.site)).collect();
        let site = self.site(standing.event);
        let of_site = usize::try_from(site.0)
            .ok()
            .and_then(|site| index.recorded.sites.get(site));
        let own = Own::of(of_site.map_or(0.0, |site| site.comes));
        let first = uses.first().map(|(at, _)| at - begin);
        let until = begin + own.ends(first, until - begin);
        uses.retain(|(at, _)| *at <= until);
        self.now = self.watch_until(&mut uses, until);
        What::Looked {
            site,
            lasted: Duration::from_secs_f64(self.now - begin),
            is_private: uses.is_empty() && own.again_s <= self.now - begin,
            users: Self::partners(begin, &uses),
        }
    }
}
