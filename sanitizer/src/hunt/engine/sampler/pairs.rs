//! Pairs of places that have met in a stall, and what came of it.

use std::collections::{HashMap, HashSet};

use gwp_race_abi::KNOWN;

use crate::hunt::classify::racing_call;
use crate::hunt::modules::ModuleSet;
use crate::hunt::routine_call::RoutineCall;
use crate::hunt::wire::Refuted;
use crate::kernel::gates::Hit;
use crate::verdict::Reason;

/// Pairs remembered; beyond that they are told with stacks again.
const MEMORY: usize = 1 << 14;

/// Two places, as they are seen when a stall ends: of the stalled thread, and of the racing thread
/// after its access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    pub stalled: Spot,
    pub racing: Spot,
}

impl Seen {
    /// What a hit shows of the stall of a thread that stands somewhere.
    pub fn of(stalled: Spot, hit: &Hit, modules: &ModuleSet) -> Self {
        let call = racing_call(modules, hit);
        let racing = Spot::new(hit.regs.rip, call.as_ref());
        Self { stalled, racing }
    }
}

/// A program counter, and where the memory routine returns to that it is in: many call the same
/// routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spot {
    pc: u64,
    returns_to: Option<u64>,
}

impl Spot {
    pub fn new(pc: u64, call: Option<&RoutineCall>) -> Self {
        let returns_to = call.map(|call| call.return_address);
        Self { pc, returns_to }
    }

    /// Where a strategy finds the code that has made the access.
    pub fn behind(self) -> u64 {
        self.returns_to.unwrap_or(self.pc)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Pairs {
    /// Those that were told with stacks; repeats are only counted.
    told: HashSet<Seen>,
    /// Those that are no evidence of a race, whatever is seen of them.
    refused: HashSet<Seen>,
    /// Those that debug information has shown to be no race.
    refuted: HashMap<Seen, Reason>,
    /// Where others were after accesses that raced with the one of a stalled thread, the last ones: program counters
    /// that tell by themselves whose access it was.
    partners: HashMap<Spot, Vec<u64>>,
    /// Of the present modules: the addresses behind accesses whose races were told for the first time, and which nobody has asked for yet.
    news: Vec<(u64, u64)>,
}

impl Pairs {
    /// Whether it was told.
    pub fn is_told(&self, seen: &Seen) -> bool {
        self.told.contains(seen)
    }

    /// Whether nothing new can come of it.
    pub fn is_settled(&self, seen: &Seen) -> bool {
        self.is_told(seen) || self.refused.contains(seen)
    }

    /// It is told now; whether that is news. `is_told_by_pc`: no other access traps at the racing program counter.
    pub fn tell(&mut self, seen: Seen, is_told_by_pc: bool) -> bool {
        if self.told.len() >= MEMORY {
            self.forget_told();
        }
        let Seen { stalled, racing } = seen;
        if is_told_by_pc && racing.returns_to.is_none() {
            let partners = self.partners.entry(stalled).or_default();
            if !partners.contains(&racing.pc) {
                partners.truncate(KNOWN - 1);
                partners.insert(0, racing.pc);
            }
        }
        self.told.insert(seen)
    }

    /// A race was told of the accesses that end at these addresses.
    pub fn note_news(&mut self, stalled: u64, racing: u64) {
        if self.news.len() < MEMORY {
            self.news.push((stalled, racing));
        }
    }

    /// Those of which that was so since the last time.
    pub fn take_news(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.news)
    }

    /// It could not be told.
    pub fn take_back(&mut self, seen: &Seen) {
        self.told.remove(seen);
        if let Some(partners) = self.partners.get_mut(&seen.stalled) {
            partners.retain(|pc| *pc != seen.racing.pc);
        }
    }

    /// What was told is no race: it is told again where the next one might be one.
    pub fn refute(&mut self, refuted: Refuted) {
        let is_meant =
            |seen: &Seen| (seen.stalled.pc, seen.racing.pc) == (refuted.stalled, refuted.racing);
        let told: Vec<Seen> = self.told.iter().copied().filter(is_meant).collect();
        for seen in told {
            self.take_back(&seen);
            if refuted.is_settled {
                self.refuse(seen);
                self.refuted.insert(seen, refuted.reason);
            }
        }
    }

    /// Why two places have no race, if that is known.
    pub fn refuted(&self, seen: &Seen) -> Option<Reason> {
        self.refuted.get(seen).copied()
    }

    /// It is no evidence.
    pub fn refuse(&mut self, seen: Seen) {
        if self.refused.len() >= MEMORY {
            self.refused.clear();
        }
        self.refused.insert(seen);
    }

    /// Where others are after accesses of which it was told that they race with the one of a stalled thread.
    pub fn partners(&self, stalled: Spot) -> &[u64] {
        self.partners.get(&stalled).map_or(&[], Vec::as_slice)
    }

    /// All are to be told again.
    pub fn forget_told(&mut self) {
        self.told.clear();
        self.partners.clear();
    }

    /// Other code may stand at the same addresses now.
    pub fn forget(&mut self) {
        self.forget_told();
        self.refused.clear();
        self.refuted.clear();
        self.news.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(pc: u64) -> Spot {
        Spot {
            pc,
            returns_to: None,
        }
    }

    /// Check that what was refuted is told again, unless it is settled; then it is no evidence and has its reason.
    #[test]
    fn refuted() {
        let seen = Seen {
            stalled: spot(1),
            racing: spot(2),
        };
        for is_settled in [false, true] {
            let mut pairs = Pairs::default();
            assert!(pairs.tell(seen, true));
            pairs.refute(Refuted {
                stalled: 1,
                racing: 2,
                is_settled,
                reason: Reason::UnknownAtomicity,
            });
            assert!(!pairs.is_told(&seen) && pairs.partners(spot(1)).is_empty());
            assert_eq!(pairs.is_settled(&seen), is_settled);
            let reason = is_settled.then_some(Reason::UnknownAtomicity);
            assert_eq!(pairs.refuted(&seen), reason);
            pairs.forget();
            assert!(pairs.refuted(&seen).is_none() && !pairs.is_settled(&seen));
        }
    }

    /// Check that partners are those that were told of one place, the last ones, without those in routines.
    #[test]
    fn partners_are_remembered() {
        let mut pairs = Pairs::default();
        let pair = |stalled, racing| Seen {
            stalled: spot(stalled),
            racing: spot(racing),
        };
        assert!(pairs.tell(pair(1, 100), true));
        assert!(!pairs.tell(pair(1, 100), true));
        assert!(pairs.tell(pair(1, 101), false));
        assert!(pairs.tell(pair(2, 102), true));
        let in_routine = Spot {
            pc: 103,
            returns_to: Some(104),
        };
        let called = Seen {
            stalled: spot(1),
            racing: in_routine,
        };
        assert!(pairs.tell(called, true));
        assert_eq!(in_routine.behind(), 104);
        pairs.refuse(pair(1, 105));
        assert!(pairs.is_settled(&pair(1, 105)) && !pairs.is_told(&pair(1, 105)));
        assert_eq!(pairs.partners(spot(1)), [100]);
        assert_eq!(pairs.partners(spot(2)), [102]);
        assert!(pairs.partners(spot(3)).is_empty());
        for racing in 200..200 + 2 * KNOWN as u64 {
            pairs.tell(pair(1, racing), true);
        }
        let partners = pairs.partners(spot(1));
        assert!(partners.len() == KNOWN && partners.iter().all(|pc| *pc >= 200 + KNOWN as u64));
        let last = pair(1, 199 + 2 * KNOWN as u64);
        pairs.take_back(&last);
        assert!(!pairs.is_told(&last) && pairs.partners(spot(1)).len() == KNOWN - 1);
        pairs.forget_told();
        assert!(pairs.partners(spot(1)).is_empty() && !pairs.is_told(&pair(1, 100)));
        assert!(pairs.is_settled(&pair(1, 105)));
        pairs.forget();
        assert!(!pairs.is_settled(&pair(1, 105)));
    }
}
