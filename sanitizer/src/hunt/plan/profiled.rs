//! Which sites are worth a profile, and what one says of them.

use std::time::Duration;

use super::{
    belief::{Belief, Circumstances},
    catalogue::{CLASSES, Number},
    counts::Counts,
    event::{Arrivals, Met},
    prior,
    profiles::{Draft, LENGTH, MOST},
    update::Knowledge,
};

/// Sites that are looked at to find them, at most.
const LOOKED_AT: usize = 512;
/// What a profile may still tell of a site, below which it is of no interest.
const LEAST: f64 = 0.02;

impl Knowledge {
    /// Draws the sites of the next profile, unless there are some; false if there is nothing to profile now.
    pub fn draft_profile(&mut self, now: f64, random: &mut fastrand::Rng) -> bool {
        let Some(apart) = self.profiles.apart else {
            return false;
        };
        if now < self.profiles.not_before_s {
            return false;
        }
        let is_new = |draft: &Draft| now < draft.drawn_s + apart.as_secs_f64();
        if !self.profiles.draft.as_ref().is_some_and(is_new) {
            self.profiles.draft = self.drawn(now, random);
        }
        self.profiles.draft.is_some()
    }

    /// Of each class, one site by chance that nobody has waited at and one at which somebody has; the one that is most worth it, and what is akin to it. Partners are
    /// found where they are in the same profile.
    fn drawn(&self, now: f64, random: &mut fastrand::Rng) -> Option<Draft> {
        let comes: [f64; CLASSES] = std::array::from_fn(|class| self.comes(class, now).mean());
        let mut best = (LEAST, None);
        for class in 0..CLASSES {
            for list in [self.catalogue.untried(class), &self.tried[class]] {
                if list.is_empty() {
                    continue;
                }
                let number = list[random.usize(..list.len())];
                if let Some(fresh) = self.fresh(number, now, &comes)
                    && fresh > best.0
                {
                    best = (fresh, Some(number));
                }
            }
        }
        let mut sites = Vec::with_capacity(MOST);
        let mut all = 0.0;
        for number in self.catalogue.akin(best.1?).take(LOOKED_AT) {
            let Some(fresh) = self.fresh(number, now, &comes) else {
                continue;
            };
            // Those whose bytes others use may be the others.
            let is_contended = self.contended.contains(&number);
            if !is_contended && fresh < LEAST {
                continue;
            }
            all += if is_contended { 0.0 } else { fresh };
            sites.extend(self.catalogue.facts(number).map(|facts| facts.site));
            if sites.len() >= MOST {
                break;
            }
        }
        (all > 0.0).then(|| Draft {
            sites: sites.into(),
            fresh: all,
            drawn_s: now,
        })
    }

    /// What a profile may tell of a site: whether somebody comes, times how new it is. `None` where it cannot be, or is not to be profiled.
    fn fresh(&self, number: Number, now: f64, comes: &[f64; CLASSES]) -> Option<f64> {
        let facts = self.catalogue.facts(number)?;
        let told = self.profiles.told(number, now);
        if !facts.can_be_probed || told.is_busy() {
            return None;
        }
        let around = Circumstances {
            comes: comes[self.catalogue.class(number)],
            ..Circumstances::default()
        };
        let lambda = Belief::of(&self.counts(number, now), &around).lambda;
        let (comes, _) = lambda.within(LENGTH.as_secs_f64());
        Some(comes * (1.0 - told.known))
    }

    /// What was noted of some sites; how many there are whose bytes others use that were not known.
    pub(super) fn profiled(
        &mut self,
        now: f64,
        lasted: Duration,
        arrivals: &[Arrivals],
        met: &[Met],
    ) -> f64 {
        let before = self.contended.len();
        let lasted_s = lasted.as_secs_f64();
        for &Arrivals { site, count, met } in arrivals {
            let Some(number) = self.catalogue.number(site) else {
                continue;
            };
            self.profiles.tell(number, now, count);
            if count > 0 {
                self.catalogue.seen(number);
            }
            // That nobody comes to a site in so short a time says nothing yet, where nothing else is known of it.
            if count > 0 || self.is_known(number) {
                // All of them are one observation: they are about the same few objects.
                let count = f64::from(count);
                let used = f64::from(met) / count.max(1.0);
                let seen = Counts {
                    came: count,
                    waited_s: lasted_s,
                    used,
                    unused: prior::PROFILE_UNUSED * (count.min(1.0) - used).max(0.0),
                    ..Counts::default()
                };
                self.count_seen(now, number, seen, false);
            }
        }
        for met in met {
            self.have_met(now, met);
        }
        (self.contended.len() - before) as f64
    }

    /// Two threads have used the same bytes.
    fn have_met(&mut self, now: f64, met: &Met) {
        self.are_shared(now, met.first, met.address, &[met.then]);
        self.count(now, met.first, |counts| {
            counts.met += prior::PROFILE_MET;
            counts.meeting_s += prior::PROFILE_MET * met.then.after.as_secs_f64();
        });
        self.contend(met.first, &[met.then]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::plan::{
        action::{Action, ActionId, Deed},
        event::{AddressId, Event, FunctionId, MemberId, Partner, SiteFacts, SiteId, Stood, What},
        profiles::BUSY,
        update::stood::Means,
    };

    const APART: Duration = Duration::from_millis(250);

    /// A program of so many sites: pairs of functions with a member in common; of each fourth site it cannot be noted who comes.
    fn program(sites: u64) -> Knowledge {
        let facts = |site: u64| SiteFacts {
            site: SiteId(site),
            function: FunctionId(site),
            writes: site.is_multiple_of(2),
            variable: None,
            member: Some(MemberId(8 * (site / 2) as u32)),
            can_be_probed: site % 4 != 3,
        };
        let facts: Vec<_> = (0..sites).map(facts).collect();
        let mut known = Knowledge::default();
        hear(&mut known, 0.0, None, What::Profiles { apart: APART });
        hear(&mut known, 0.0, None, What::Code(facts.into()));
        for site in 0..sites {
            hear(&mut known, 0.0, None, What::Seen(SiteId(site)));
        }
        known
    }

    fn hear(known: &mut Knowledge, now: f64, of: Option<ActionId>, what: What) {
        known.update(Duration::from_secs_f64(now), &Event { of, what });
    }

    /// Begins what was drafted: its sites.
    fn begin(known: &mut Knowledge, now: f64, random: &mut fastrand::Rng) -> Vec<SiteId> {
        assert!(known.draft_profile(now, random));
        let (sites, ..) = known.profiles.draw(random).expect("there is a draft");
        let action = Action {
            id: ActionId(1),
            deed: Deed::Profile {
                sites: std::sync::Arc::clone(&sites),
                at_most: LENGTH,
            },
        };
        known.begin(Duration::from_secs_f64(now), action);
        sites.to_vec()
    }

    /// A profile of all these, to each of which so many came, of whom none has met others.
    fn profiled(sites: &[SiteId], count: u32) -> What {
        let arrivals = sites.iter().map(|&site| Arrivals {
            site,
            count,
            met: 0,
        });
        What::Profiled {
            lasted: LENGTH,
            arrivals: arrivals.collect(),
            met: Vec::new(),
            cost_s: 1e-3,
        }
    }

    /// Check that those sites are drawn of which it can be noted who comes, partners together, not too many and none twice; and that none are while it was not said that they may be, or too soon after
    /// the last time.
    #[test]
    fn sites_are_drawn() {
        let random = &mut fastrand::Rng::with_seed(1);
        assert!(!Knowledge::default().draft_profile(0.0, random));
        let mut known = program(400);
        let sites = begin(&mut known, 1.0, random);
        assert_eq!(sites.len(), MOST);
        let mut once = sites.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), MOST);
        assert!(sites.iter().all(|site| site.0 % 4 != 3));
        let partners = sites.iter().filter(|site| {
            let partner = SiteId(site.0 ^ 1);
            partner.0 % 4 == 3 || sites.contains(&partner)
        });
        // That of the last one may have found no place.
        assert!(partners.count() >= MOST - 1);
        assert!(!known.draft_profile(1.1, random));
        assert!(known.draft_profile(1.3, random));
    }

    /// Check that there is less and less to be expected where nobody meets anybody, that what was profiled is left for what was not, and that a place to which too many
    /// come is let alone.
    #[test]
    fn they_stop_by_themselves() {
        let random = &mut fastrand::Rng::with_seed(1);
        let mut known = program(100);
        let mut expected = Vec::new();
        for round in 0..20 {
            let now = 1.0 + f64::from(round);
            assert!(known.draft_profile(now, random), "{round}");
            expected.push(known.profiles.expected());
            let sites = begin(&mut known, now, random);
            hear(&mut known, now, None, profiled(&sites, 2));
            if !known.draft_profile(now + 0.5, random) {
                break;
            }
        }
        let last = expected.last().expect("there was one");
        assert!(
            expected.len() < 20 && *last < expected[0] / 5.0,
            "{expected:?}"
        );

        let mut known = program(100);
        let sites = begin(&mut known, 1.0, random);
        hear(&mut known, 1.0, None, profiled(&sites, BUSY));
        // By chance, those that are drawn are of these.
        let mut times = (0..100).map(|round| 2.0 + f64::from(round));
        let later = times.find(|now| known.draft_profile(*now, random));
        let others = begin(&mut known, later.expect("there are others"), random);
        assert!(others.iter().all(|site| !sites.contains(site)));
    }

    /// Check that less is to be expected where no probe could be armed at any of the sites, and that nothing is learned of who comes there.
    #[test]
    fn what_was_refused_tells_nothing() {
        let random = &mut fastrand::Rng::with_seed(1);
        let mut known = program(400);
        let sites = begin(&mut known, 1.0, random);
        assert!(known.draft_profile(2.0, random));
        let before = known.profiles.expected();
        let nobody = sites.iter().map(|&site| Arrivals {
            site,
            count: 0,
            met: 0,
        });
        let refused = What::Profiled {
            lasted: Duration::ZERO,
            arrivals: nobody.collect(),
            met: Vec::new(),
            cost_s: 0.0,
        };
        hear(&mut known, 2.0, None, refused);
        assert!(known.profiles.expected() < before);
        for site in sites {
            let number = known.catalogue.number(site).expect("it is known");
            let counts = known.counts(number, 2.0);
            assert!(counts.came == 0.0 && counts.waited_s == 0.0, "{site:?}");
        }
    }

    /// Check that sites at which no probe can be had are not profiled any more, also where they were drawn already, and that it can be waited there by breakpoints, also where a probe was thought to stand; and that they may be when other code
    /// stands there.
    #[test]
    fn what_was_refused_is_let_alone() {
        let random = &mut fastrand::Rng::with_seed(1);
        let mut known = program(400);
        let refused = begin(&mut known, 1.0, random);
        let stood = Stood {
            site: refused[0],
            lasted: Duration::ZERO,
            count: 0,
            stands: true,
        };
        hear(&mut known, 1.5, None, What::Stood([stood].into()));
        let first = known.catalogue.number(refused[0]).expect("it is known");
        assert_eq!(known.means(first), Means::Probe);
        assert!(known.draft_profile(2.0, random));
        let told = What::Refused(refused.clone().into());
        hear(&mut known, 2.0, None, told);
        for round in 0..100 {
            let now = 2.0 + f64::from(round);
            if !known.draft_profile(now, random) {
                break;
            }
            let sites = begin(&mut known, now, random);
            assert!(sites.iter().all(|site| !refused.contains(site)), "{round}");
            hear(&mut known, now, None, profiled(&sites, 1));
        }
        for site in &refused {
            let number = known.catalogue.number(*site).expect("it is known");
            assert_eq!(known.means(number), Means::Breakpoint);
            assert!(known.catalogue.is_untried(number), "{site:?}");
        }
        let all = (0..400).map(SiteId);
        hear(&mut known, 200.0, None, What::Refused(all.collect()));
        assert!(!known.draft_profile(1e4, random));
        hear(&mut known, 1e4, None, What::CodeGone);
        let facts = SiteFacts {
            site: refused[0],
            function: FunctionId(0),
            writes: true,
            variable: None,
            member: None,
            can_be_probed: true,
        };
        hear(&mut known, 1e4, None, What::Code([facts].into()));
        hear(&mut known, 1e4, None, What::Seen(refused[0]));
        assert_eq!(begin(&mut known, 1e4, random), [refused[0]]);
    }

    /// Check that two threads that have met make both sites known as such that others use, with their address; that how often somebody comes counts, and of a site at which nobody has met anybody, that it is used by
    /// others less likely.
    #[test]
    fn meetings_are_evidence() {
        let mut known = program(8);
        let before = known.belief(4, 0.0);
        let arrivals = [(0, 6, 3), (1, 2, 2), (4, 20, 0)].map(|(site, count, met)| Arrivals {
            site: SiteId(site),
            count,
            met,
        });
        let address = AddressId(0x1000);
        let met = Met {
            first: SiteId(0),
            address,
            then: Partner {
                site: SiteId(1),
                after: Duration::from_micros(100),
            },
        };
        let what = What::Profiled {
            lasted: LENGTH,
            arrivals: arrivals.into(),
            met: vec![met],
            cost_s: 1e-3,
        };
        hear(&mut known, 0.0, None, what);
        assert_eq!(known.contended, [0, 1]);
        for number in [0, 1] {
            assert!(known.addresses.find(number, address).is_some());
            assert!(known.belief(number, 0.0).sigma.mean() > before.sigma.mean());
        }
        let after = known.belief(4, 0.0);
        assert!((known.counts(4, 0.0).unused - prior::PROFILE_UNUSED).abs() < 1e-9);
        assert!(after.lambda.mean() > 1000.0);
        let counts = known.counts(0, 0.0);
        assert!((counts.used - 0.5).abs() < 1e-9 && counts.came == 6.0);
        assert!(!known.is_known(2));
    }
}
