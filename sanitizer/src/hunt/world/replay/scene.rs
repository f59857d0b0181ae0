//! A recorded program as a planner meets it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::index::Index;
use crate::hunt::{
    plan::{
        Planner,
        action::Then,
        event::{AddressId, LetGo, Partner, SiteFacts, SiteId, VariableId, What},
        purse::Purse,
    },
    world::{
        account::Account,
        costs::{LONGEST_STALL, MOST_HELD, MOST_PASSED, MOST_TRAPS},
        meanwhile::{Meanwhile, VALUES_S},
        program::exponential,
        scene::{Scene, hunt as hunt_in},
        simulation::{Hunt, MOST_USERS, Run},
    },
};

/// A thread stands before an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// The number of the event.
    pub(super) event: u32,
    /// When it came, s.
    pub(super) came_s: f64,
    /// Its bytes have been watched since before that.
    pub(super) is_watched: bool,
    /// The sample that has stopped it.
    sample: Option<u32>,
}

/// See the module.
pub(super) struct Replay<'a> {
    pub(super) index: &'a Index<'a>,
    pub(super) hunt: Hunt,
    /// It is over when so many threads were held.
    most_stalls: u64,
    pub(super) account: Account,
    pub(super) now: f64,
    pub(super) run: Run,
    random: fastrand::Rng,
    /// Pairs of sites, and of lines.
    pub(super) found: BTreeSet<[u32; 2]>,
    pub(super) lines_found: BTreeSet<u32>,
    /// Locks for which others have waited.
    pub(super) locks: BTreeSet<u64>,
    meanwhile: Meanwhile,
    passed: Option<What>,
    pub(super) after: Option<What>,
}

/// Hunts in a recorded program, until so many threads were held.
pub(super) fn replay(
    index: &Index<'_>,
    planner: &mut dyn Planner,
    hunt: &Hunt,
    most_stalls: u64,
) -> Run {
    let mut replay = Replay {
        account: Account::new(hunt.share * index.recorded.processors),
        index,
        hunt: *hunt,
        most_stalls,
        now: 0.0,
        run: Run::default(),
        random: fastrand::Rng::with_seed(hunt.seed),
        found: BTreeSet::new(),
        lines_found: BTreeSet::new(),
        locks: BTreeSet::new(),
        meanwhile: Meanwhile {
            samples_due: 0.0,
            next_values: VALUES_S,
        },
        passed: None,
        after: None,
    };
    // Not all hunts begin at the same moment of the recording.
    replay.now = replay.random.f64() * index.round_s;
    let begun = replay.now;
    replay.account.begins_at(begun);
    replay.hunt.length_s += begun;
    replay.meanwhile.samples_due = begun;
    replay.meanwhile.next_values += begun;
    hunt_in(&mut replay, planner);
    for find in &mut replay.run.finds {
        find.time_s -= begun;
    }
    replay.run.time_s = replay.now - begun;
    replay.run
}

impl Replay<'_> {
    pub(super) fn spend(&mut self, seconds: f64) {
        self.account.spend(seconds);
        self.run.spent_s += seconds;
    }

    pub(super) fn site(&self, event: u32) -> SiteId {
        SiteId(
            self.index
                .event(event)
                .map_or(u64::MAX, |event| event.site.into()),
        )
    }

    /// The first of each site among others' accesses.
    pub(super) fn partners(begin: f64, others: &[(f64, u32)]) -> Vec<Partner> {
        let mut first = BTreeMap::new();
        for (at, site) in others {
            first.entry(*site).or_insert(*at);
        }
        let mut partners: Vec<_> = first.into_iter().collect();
        partners.sort_by(|one, other| one.1.total_cmp(&other.1));
        let partners = partners.into_iter().take(MOST_USERS);
        partners
            .map(|(site, at)| Partner {
                site: SiteId(site.into()),
                after: Duration::from_secs_f64((at - begin).max(0.0)),
            })
            .collect()
    }

    /// What others access of what is watched, until so many of them have trapped: when that ends, s.
    pub(super) fn watch_until(&mut self, uses: &mut Vec<(f64, u32)>, until: f64) -> f64 {
        let ends = uses.get(MOST_TRAPS as usize).map_or(until, |(at, _)| *at);
        uses.truncate(MOST_TRAPS as usize);
        self.spend(uses.len() as f64 * self.hunt.costs.trap_s);
        ends
    }

    /// The next sample from now on, with where it finds somebody.
    fn next_sample(&mut self) -> Option<(f64, u32)> {
        let is_beside = self.random.f64() < self.index.recorded.beside_sites;
        let next = self.index.samples.from(self.now, self.index.round_s).next();
        next.filter(|_| is_beside)
    }

    fn first_of(&self, sample: u32) -> Option<u32> {
        self.index
            .recorded
            .samples
            .get(sample as usize)?
            .first()
            .copied()
    }
}

impl Scene for Replay<'_> {
    type Standing = Standing;

    fn now(&self) -> f64 {
        self.now
    }

    fn is_over(&self) -> bool {
        self.now >= self.hunt.length_s
            || self.run.stalls >= self.most_stalls
            || self.lines_found.len() >= self.index.pairs_of_lines
    }

    fn purse(&mut self) -> Purse {
        self.account.earn(self.now);
        self.account.purse()
    }

    fn spent_s(&self) -> f64 {
        self.run.spent_s
    }

    fn code(&self) -> Arc<[SiteFacts]> {
        let sites = self.index.recorded.sites.iter();
        sites
            .take(self.index.recorded.plain as usize)
            .map(|site| site.facts)
            .collect()
    }

    fn happens(&mut self) -> Vec<What> {
        let (now, mut meanwhile) = (self.now, self.meanwhile);
        let apart = self.hunt.costs.sample_s / self.index.recorded.processors;
        let mut all = meanwhile.samples(now, apart, || {
            let (_, sample) = self.next_sample()?;
            Some(self.site(self.first_of(sample)?))
        });
        if meanwhile.looks_at_values(now) {
            all.extend(self.index.changing.iter().copied().map(What::Changes));
        }
        self.meanwhile = meanwhile;
        all
    }

    fn wait(
        &mut self,
        site: SiteId,
        at_most: f64,
        wanted: Option<AddressId>,
    ) -> Result<(Standing, Duration), Option<What>> {
        if site.0 >= u64::from(self.index.recorded.plain) {
            return Err(None);
        }
        self.run.waits += 1;
        let armed = if wanted.is_some() { 2.0 } else { 1.0 };
        self.spend(armed * self.hunt.costs.arm_s);
        self.now += self.hunt.costs.delay_s;
        let (begin, until) = (self.now, self.now + at_most);
        self.account.earn(begin);
        let (mut passed, mut held) = (0, 0);
        let (mut came, mut last) = (None, until);
        for (at, event) in self.index.arrivals(site, begin + self.account.owed_for_s()) {
            if at > until {
                break;
            }
            let Some(of_event) = self.index.event(event) else {
                continue;
            };
            if self
                .index
                .locks(of_event)
                .any(|lock| self.locks.contains(&lock))
            {
                held += 1;
            } else if wanted.is_some_and(|wanted| wanted.0 != of_event.access.address) {
                passed += 1;
            } else {
                came = Some((at, event));
                break;
            }
            if held >= MOST_HELD || passed >= MOST_PASSED {
                last = at;
                break;
            }
        }
        self.now = came.map_or(last, |(at, _)| at);
        self.spend(f64::from(passed + held) * self.hunt.costs.trap_s);
        let waited = Duration::from_secs_f64(self.now - begin);
        let mut is_watched = false;
        if let (Some(address), Some((at, event))) = (wanted, came) {
            let others = self.index.others(event, begin, at);
            let mut uses: Vec<_> = others.iter().map(|(at, other)| (*at, other.site)).collect();
            let ends = self.watch_until(&mut uses, at);
            is_watched = ends >= at;
            self.passed = Some(What::Passed {
                site,
                address,
                lasted: Duration::from_secs_f64(ends - begin),
                users: Self::partners(begin, &uses),
            });
        }
        match came {
            Some((came_s, event)) => {
                let standing = Standing {
                    event,
                    came_s,
                    is_watched,
                    sample: None,
                };
                Ok((standing, waited))
            }
            None if held > 0 => Err(Some(What::LetGo {
                site,
                why: LetGo::HoldsLock,
            })),
            None => Err(Some(What::Nobody { site, waited })),
        }
    }

    fn sample(&mut self, at_most: f64) -> Result<Standing, What> {
        let rate = self.index.recorded.processors / self.hunt.costs.sample_s;
        let after = exponential(rate, &mut self.random);
        self.spend(self.hunt.costs.trap_s);
        let nobody = What::NoSample {
            waited: Duration::from_secs_f64(after.min(at_most)),
        };
        self.now += after.min(at_most);
        if after > at_most {
            return Err(nobody);
        }
        let Some((at, sample)) = self.next_sample() else {
            return Err(nobody);
        };
        self.now = at;
        let event = self.first_of(sample).ok_or(nobody)?;
        Ok(Standing {
            event,
            came_s: at,
            is_watched: false,
            sample: Some(sample),
        })
    }

    fn watch(&mut self, variable: VariableId, at_most: f64) -> Option<What> {
        self.spend(self.hunt.costs.arm_s);
        self.now += self.hunt.costs.delay_s;
        let (begin, until) = (self.now, self.now + at_most);
        let writers = self.index.writers(variable.0, begin, until);
        let mut writers: Vec<_> = writers
            .iter()
            .map(|(at, event)| (*at, event.site))
            .collect();
        self.now = self.watch_until(&mut writers, until);
        Some(What::Watched {
            variable,
            lasted: Duration::from_secs_f64(self.now - begin),
            writers: Self::partners(begin, &writers),
        })
    }

    fn rest(&mut self, seconds: f64) {
        self.now += seconds;
    }

    fn passed(&mut self) -> Option<What> {
        self.passed.take()
    }

    fn place(&self, standing: Standing) -> (SiteId, AddressId) {
        let address = self
            .index
            .event(standing.event)
            .map_or(0, |event| event.access.address);
        (self.site(standing.event), AddressId(address))
    }

    fn ahead(&self, standing: Standing) -> Vec<SiteId> {
        let sample = standing
            .sample
            .and_then(|sample| self.index.recorded.samples.get(sample as usize));
        let events = sample.map_or(&[][..], Vec::as_slice);
        events.iter().map(|event| self.site(*event)).collect()
    }

    fn goes_on(&mut self, standing: Standing, to: SiteId) -> Option<Standing> {
        let sample = self.index.recorded.samples.get(standing.sample? as usize)?;
        let event = *sample.iter().find(|event| self.site(**event) == to)?;
        Some(Standing { event, ..standing })
    }

    fn stop(&mut self, standing: Standing, then: Then) -> What {
        self.spend(self.hunt.costs.stop_s);
        let site = self.site(standing.event);
        if !standing.is_watched && then != Then::LetGo {
            self.spend(self.hunt.costs.arm_s);
            self.now += self.hunt.costs.delay_s;
        }
        match then {
            Then::Hold { at_most, look } => self.hold(standing, at_most.min(LONGEST_STALL), look),
            Then::Look(at_most) => {
                self.run.looks += 1;
                self.look(standing, at_most)
            }
            Then::LetGo => What::LetGo {
                site,
                why: LetGo::Wanted,
            },
        }
    }

    fn after(&mut self) -> Option<What> {
        self.after.take()
    }
}
