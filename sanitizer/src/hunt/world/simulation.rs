//! Carries a planner's actions out in a simulated program, and tells it what came of them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::hunt::plan::{
    Planner,
    action::{Candidate, Then},
    event::{AddressId, Partner, SiteFacts, SiteId, VariableId, What},
    purse::Purse,
};

use super::{
    account::Account,
    arrival::Arrival,
    costs::{Costs, MOST_TRAPS, PROFILES_APART},
    meanwhile::Meanwhile,
    probed::Probed,
    program::{Meeting, Program, exponential},
    scene::{Scene, hunt as hunt_in},
};

/// How a hunt is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
    /// The machine.
    pub costs: Costs,
    /// The share of the program's CPU time that may be spent.
    pub share: f64,
    /// The program's time, s.
    pub length_s: f64,
    /// What all chance follows from.
    pub seed: u64,
    /// Probes stand.
    pub has_probes: bool,
}

/// A race that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Find {
    /// When, s.
    pub time_s: f64,
    /// What had been spent by then, s.
    pub spent_s: f64,
    /// How many threads had been held by then, this one among them.
    pub stalls: u64,
}

/// What came of a hunt.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The races that were found, each once.
    pub finds: Vec<Find>,
    /// The same in simulated programs, by the numbers of their sites.
    pub races: Vec<(usize, usize)>,
    /// What was spent, s, until all were found or the time was over.
    pub spent_s: f64,
    /// The program's time that has passed, s.
    pub time_s: f64,
    /// How many threads were held.
    pub stalls: u64,
    /// How many were watched that were off their processors.
    pub free_stalls: u64,
    /// How many were looked at.
    pub looks: u64,
    /// How often it was waited somewhere.
    pub waits: u64,
    /// How often sites were profiled.
    pub profiles: u64,
}

/// Partners that a look remembers.
pub(super) const MOST_USERS: usize = 8;

/// Simulates a hunt.
#[must_use]
pub fn simulate(program: &Program, planner: &mut dyn Planner, hunt: &Hunt) -> Run {
    let mut world = World::new(program, *hunt);
    hunt_in(&mut world, planner);
    world.run.time_s = world.now;
    world.run
}

pub(super) struct World<'a> {
    pub(super) program: &'a Program,
    pub(super) hunt: Hunt,
    pub(super) random: fastrand::Rng,
    pub(super) now: f64,
    account: Account,
    pub(super) run: Run,
    races: usize,
    pub(super) found: BTreeSet<(usize, usize)>,
    /// Of each site: the first of its meetings in the sorted list, and the one behind the last.
    pub(super) meetings: Vec<Meeting>,
    pub(super) of_site: Vec<(u32, u32)>,
    /// Sums of CPU time, by site.
    cpu: Vec<f64>,
    meanwhile: Meanwhile,
    /// When sites may be profiled again, s.
    pub(super) next_profile: f64,
    /// Probes that stand.
    pub(super) probed: Probed,
    /// Sites at which threads hold locks of which it is known.
    pub(super) locks: BTreeSet<usize>,
    /// What was seen of bytes that were watched in advance.
    pub(super) passed: Option<What>,
    /// What was seen after a stall.
    pub(super) after: Option<What>,
}

impl<'a> World<'a> {
    pub(super) fn new(program: &'a Program, hunt: Hunt) -> Self {
        let mut meetings = program.meetings.clone();
        meetings.sort_by_key(|meeting| meeting.site);
        let mut of_site = vec![(0, 0); program.sites.len()];
        for (index, meeting) in (0..).zip(&meetings) {
            let range = &mut of_site[meeting.site];
            if range.1 == 0 {
                range.0 = index;
            }
            range.1 = index + 1;
        }
        let mut sum = 0.0;
        let cpu = program.sites.iter().map(|site| {
            sum += site.cpu;
            sum
        });
        Self {
            cpu: cpu.collect(),
            random: fastrand::Rng::with_seed(hunt.seed),
            now: 0.0,
            account: Account::new(hunt.share * program.processors),
            run: Run::default(),
            races: program.races(),
            found: BTreeSet::new(),
            meetings,
            of_site,
            meanwhile: Meanwhile {
                next_values: 5.0,
                samples_due: 0.0,
            },
            next_profile: 0.0,
            probed: Probed::of(program, hunt.seed),
            locks: BTreeSet::new(),
            passed: None,
            after: None,
            program,
            hunt,
        }
    }

    /// Earns what has come in until now.
    pub(super) fn earn(&mut self) {
        self.account.earn(self.now);
    }

    pub(super) const fn purse_left(&self) -> f64 {
        self.account.purse().left_s
    }

    /// How long nobody who comes is stopped, since too much is owed, s.
    pub(super) fn owed_for_s(&self) -> f64 {
        self.account.owed_for_s()
    }

    pub(super) fn spend(&mut self, seconds: f64) {
        self.account.spend(seconds);
        self.run.spent_s += seconds;
    }

    /// The site before which a sample of CPU time lands.
    pub(super) fn sampled(&mut self) -> Option<usize> {
        let all = *self.cpu.last()?;
        let point = self.random.f64() * (all + self.program.elsewhere);
        let site = self.cpu.partition_point(|sum| *sum <= point);
        (site < self.cpu.len() && self.is_reached_at(site, self.now)).then_some(site)
    }

    /// The sites to which a thread comes next that stands before this one.
    fn ahead_of(&self, index: usize) -> Vec<SiteId> {
        const SITES: usize = 4;
        let ahead = self.program.sites.get(index..).unwrap_or_default();
        let function = ahead.first().map(|site| site.facts.function);
        let same = ahead
            .iter()
            .take_while(|site| Some(site.facts.function) == function);
        same.take(SITES).map(|site| site.facts.site).collect()
    }

    /// Whether a site is come to at all at this time.
    pub(super) fn is_reached_at(&self, site: usize, time: f64) -> bool {
        let mut phases = self.program.phases.iter();
        phases.all(|phase| {
            !phase.sites.contains(&site) || (phase.from_s..phase.until_s).contains(&time)
        })
    }

    /// Waits for a sample: where it stops somebody, or that it does not.
    fn stopped_by_sample(&mut self, at_most: f64) -> Result<usize, What> {
        let rate = self.program.processors / self.hunt.costs.sample_s;
        let after = exponential(rate, &mut self.random);
        self.spend(self.hunt.costs.trap_s);
        let site = if after > at_most {
            self.now += at_most;
            None
        } else {
            self.now += after;
            self.sampled()
        };
        site.ok_or_else(|| What::NoSample {
            waited: Duration::from_secs_f64(after.min(at_most)),
        })
    }

    fn watched(&mut self, variable: VariableId, at_most: f64) -> What {
        self.spend(self.hunt.costs.arm_s);
        let sites = (0..).zip(&self.program.sites);
        let naming = sites
            .filter(|(_, site)| site.facts.variable == Some(variable) && site.facts.writes)
            .map(|(index, _)| index);
        let changing = self.program.changing.iter();
        let by_pointer = changing.filter(|(changed, _)| *changed == variable);
        let mut writers: Vec<usize> = naming.chain(by_pointer.map(|(_, site)| *site)).collect();
        writers.sort_unstable();
        writers.dedup();
        writers.retain(|site| self.is_reached_at(*site, self.now));
        let mut rate = 0.0;
        let mut seen = Vec::new();
        for site in writers {
            let comes = self.program.sites[site].comes;
            rate += comes.mean();
            seen.push((comes.next(self.now, &mut self.random) - self.now, site));
        }
        seen.sort_by(|one, other| one.0.total_cmp(&other.0));
        let traps = (rate * at_most).min(MOST_TRAPS);
        let lasted = if rate > 0.0 {
            at_most.min(MOST_TRAPS / rate)
        } else {
            at_most
        };
        seen.retain(|(after, _)| *after <= lasted);
        seen.truncate(MOST_USERS);
        self.spend(traps * self.hunt.costs.trap_s);
        self.now += self.hunt.costs.delay_s + lasted;
        let writers = seen.into_iter().map(|(after, site)| Partner {
            site: id(site),
            after: Duration::from_secs_f64(after),
        });
        What::Watched {
            variable,
            lasted: Duration::from_secs_f64(lasted),
            writers: writers.collect(),
        }
    }
}

impl Scene for World<'_> {
    type Standing = Arrival;

    fn now(&self) -> f64 {
        self.now
    }

    fn is_over(&self) -> bool {
        self.now >= self.hunt.length_s || self.found.len() >= self.races
    }

    fn purse(&mut self) -> Purse {
        self.earn();
        self.account.purse()
    }

    fn spent_s(&self) -> f64 {
        self.run.spent_s
    }

    fn code(&self) -> Arc<[SiteFacts]> {
        self.program.sites.iter().map(|site| site.facts).collect()
    }

    fn offers(&self) -> Vec<What> {
        let apart = PROFILES_APART;
        let sees_preempted = self.program.waiting >= 1.0;
        let preempted = sees_preempted.then_some(What::SeesPreempted(true));
        (preempted.into_iter())
            .chain([What::Profiles { apart }])
            .collect()
    }

    fn happens(&mut self) -> Vec<What> {
        let (now, mut meanwhile) = (self.now, self.meanwhile);
        let apart = self.hunt.costs.sample_s / self.program.processors;
        let mut all = meanwhile.samples(now, apart, || self.sampled().map(id));
        if meanwhile.looks_at_values(now) {
            let changing = self.program.changing.iter();
            all.extend(changing.map(|(variable, _)| What::Changes(*variable)));
        }
        self.meanwhile = meanwhile;
        for what in &all {
            if let What::Seen(SiteId(site)) = what
                && let Some(site) = self.program.sites.get(*site as usize)
            {
                self.probed.executes(site.facts.function);
            }
        }
        all.extend(self.of_probes());
        all
    }

    fn wait(
        &mut self,
        site: SiteId,
        at_most: f64,
        wanted: Option<AddressId>,
    ) -> Result<(Arrival, Duration), Option<What>> {
        let arrival = self.wait_at(site, at_most, wanted)?;
        Ok((arrival, arrival.waited))
    }

    fn sample(&mut self, at_most: f64) -> Result<Arrival, What> {
        let index = self.stopped_by_sample(at_most)?;
        Ok(Arrival {
            index,
            waited: Duration::ZERO,
            bytes: self.bytes(index),
        })
    }

    fn arrival(&mut self, but: &[SiteId], at_most: f64) -> Result<Arrival, What> {
        let index = self.stopped_at_probe(but, at_most)?;
        Ok(Arrival {
            index,
            waited: Duration::ZERO,
            bytes: self.bytes(index),
        })
    }

    fn watch(&mut self, variable: VariableId, at_most: f64) -> Option<What> {
        Some(self.watched(variable, at_most))
    }

    fn profile(&mut self, sites: &[SiteId], at_most: f64) -> Option<What> {
        self.profiled(sites, at_most)
    }

    fn preempted(&mut self) -> Vec<Candidate> {
        self.off_processors()
    }

    fn takes(&mut self, candidate: &Candidate) -> Option<Arrival> {
        let index = usize::try_from(candidate.site.0).ok()?;
        Some(Arrival {
            index,
            waited: Duration::ZERO,
            bytes: self.bytes(index),
        })
    }

    fn watch_preempted(&mut self, standing: Arrival, left: f64, at_most: f64) -> What {
        self.watch_off(standing.index, standing.bytes, left, at_most)
    }

    fn rest(&mut self, seconds: f64) {
        self.now += seconds;
    }

    fn passed(&mut self) -> Option<What> {
        self.passed.take()
    }

    fn place(&self, standing: Arrival) -> (SiteId, AddressId) {
        (id(standing.index), standing.bytes.address)
    }

    fn ahead(&self, standing: Arrival) -> Vec<SiteId> {
        self.ahead_of(standing.index)
    }

    fn goes_on(&mut self, standing: Arrival, to: SiteId) -> Option<Arrival> {
        let index = usize::try_from(to.0).ok();
        let index = index.filter(|index| *index < self.program.sites.len())?;
        let bytes = self.bytes(index);
        Some(Arrival {
            index,
            bytes,
            ..standing
        })
    }

    fn stop(&mut self, standing: Arrival, then: Then) -> What {
        self.stopped(standing.index, standing.bytes, then)
    }

    fn after(&mut self) -> Option<What> {
        self.after.take()
    }
}

pub(super) fn id(site: usize) -> SiteId {
    SiteId(site as u64)
}
