//! Carries a planner's actions out in a simulated program, and tells it what came of them.

use std::{collections::BTreeSet, time::Duration};

use crate::hunt::plan::{
    Planner,
    action::{Action, Deed, Then},
    event::{Event, Partner, SiteId, VariableId, What},
    purse::Purse,
};

use super::{
    arrival::{Arrival, Bytes},
    costs::{CREDIT_S, Costs, MOST_ADVANCE_S, MOST_TRAPS, PROFILES_APART, SAVINGS_S},
    program::{Meeting, Program, exponential},
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
}

/// A race that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Find {
    /// When, s.
    pub time_s: f64,
    /// What had been spent by then, s.
    pub spent_s: f64,
}

/// What came of a hunt.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The races that were found, each once.
    pub finds: Vec<Find>,
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
/// Looks at values are so far apart, s.
const VALUES_S: f64 = 10.0;
/// Samples of which a planner hears between two decisions, at most.
const MOST_SEEN: u32 = 4;

/// Simulates a hunt.
#[must_use]
pub fn simulate(program: &Program, planner: &mut dyn Planner, hunt: &Hunt) -> Run {
    let mut world = World::new(program, *hunt);
    world.tell_of_code(planner);
    while world.now < hunt.length_s && world.run.finds.len() < world.races {
        world.tell_what_happens(planner);
        let action = planner.decide(world.time(), &world.purse());
        world.act(&action, planner);
    }
    world.run.time_s = world.now;
    world.run
}

pub(super) struct World<'a> {
    pub(super) program: &'a Program,
    pub(super) hunt: Hunt,
    pub(super) random: fastrand::Rng,
    pub(super) now: f64,
    /// What may be spent, by now; savings are cut.
    left: f64,
    /// Until when that is.
    settled: f64,
    pub(super) run: Run,
    races: usize,
    pub(super) found: BTreeSet<(usize, usize)>,
    /// Of each site: the first of its meetings in the sorted list, and the one behind the last.
    pub(super) meetings: Vec<Meeting>,
    pub(super) of_site: Vec<(u32, u32)>,
    /// Sums of CPU time, by site.
    cpu: Vec<f64>,
    next_values: f64,
    samples_due: f64,
    /// When sites may be profiled again, s.
    pub(super) next_profile: f64,
    /// Sites at which threads hold locks of which it is known.
    pub(super) locks: BTreeSet<usize>,
    /// What was seen of bytes that were watched in advance.
    pub(super) passed: Option<What>,
    /// What was seen after a stall.
    pub(super) after: Option<What>,
}

impl<'a> World<'a> {
    fn new(program: &'a Program, hunt: Hunt) -> Self {
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
            left: (hunt.share * program.processors).min(MOST_ADVANCE_S),
            settled: 0.0,
            run: Run::default(),
            races: program.races(),
            found: BTreeSet::new(),
            meetings,
            of_site,
            next_values: 5.0,
            samples_due: 0.0,
            next_profile: 0.0,
            locks: BTreeSet::new(),
            passed: None,
            after: None,
            program,
            hunt,
        }
    }

    pub(super) fn time(&self) -> Duration {
        Duration::from_secs_f64(self.now)
    }

    pub(super) fn income(&self) -> f64 {
        self.hunt.share * self.program.processors
    }

    fn purse(&mut self) -> Purse {
        self.earn();
        Purse {
            left_s: self.left,
            income: self.income(),
            most_s: SAVINGS_S,
            credit_s: CREDIT_S,
        }
    }

    /// Earns what has come in until now.
    pub(super) fn earn(&mut self) {
        let most = self.left.max(SAVINGS_S);
        let earned = (self.now - self.settled) * self.income();
        self.left = (self.left + earned).min(most);
        self.settled = self.now;
    }

    /// What may be spent by now, s.
    pub(super) const fn left_s(&self) -> f64 {
        self.left
    }

    pub(super) fn spend(&mut self, seconds: f64) {
        self.left -= seconds;
        self.run.spent_s += seconds;
    }

    fn tell_of_code(&self, planner: &mut dyn Planner) {
        let facts: Vec<_> = self.program.sites.iter().map(|site| site.facts).collect();
        tell(planner, self.time(), None, What::WatchesAhead);
        let apart = PROFILES_APART;
        tell(planner, self.time(), None, What::Profiles { apart });
        tell(planner, self.time(), None, What::Code(facts.into()));
        if self.program.waiting >= 1.0 {
            tell(planner, self.time(), None, What::SeesPreempted(true));
        }
    }

    /// What is seen without anybody's being stopped.
    fn tell_what_happens(&mut self, planner: &mut dyn Planner) {
        let mut seen = 0;
        while self.samples_due <= self.now {
            let each = self.hunt.costs.sample_s / self.program.processors;
            if seen < MOST_SEEN
                && let Some(site) = self.sampled()
            {
                tell(planner, self.time(), None, What::Seen(id(site)));
            }
            seen += 1;
            self.samples_due = if seen < MOST_SEEN {
                self.samples_due + each
            } else {
                self.now + each
            };
        }
        if self.now >= self.next_values {
            self.next_values = self.now + VALUES_S;
            for &(variable, _) in &self.program.changing {
                tell(planner, self.time(), None, What::Changes(variable));
            }
        }
    }

    /// The site before which a sample of CPU time lands.
    pub(super) fn sampled(&mut self) -> Option<usize> {
        let all = *self.cpu.last()?;
        let point = self.random.f64() * (all + self.program.elsewhere);
        let site = self.cpu.partition_point(|sum| *sum <= point);
        (site < self.cpu.len() && self.is_reached_at(site, self.now)).then_some(site)
    }

    /// The sites to which a thread comes next that stands before this one.
    fn ahead(&self, index: usize) -> Vec<SiteId> {
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

    fn act(&mut self, action: &Action, planner: &mut dyn Planner) {
        let before = self.run.spent_s;
        let what = match &action.deed {
            &Deed::Wait {
                site,
                at_most,
                then,
                wanted,
            } => {
                let came = self.wait(site, at_most.as_secs_f64(), wanted);
                if let Ok(Arrival { waited, .. }) = came {
                    let came = What::Came { site, waited };
                    tell(planner, self.time(), Some(action), came);
                }
                if let Some(passed) = self.passed.take() {
                    tell(planner, self.time(), Some(action), passed);
                }
                match came {
                    Ok(arrival) => {
                        self.stands(&arrival, Some(arrival.waited), then, action, planner)
                    }
                    Err(nobody) => nobody,
                }
            }
            &Deed::Sample { at_most, then } => match self.sample(at_most.as_secs_f64()) {
                Ok(index) => {
                    let arrival = Arrival {
                        index,
                        waited: Duration::ZERO,
                        bytes: self.bytes(index),
                    };
                    self.stands(&arrival, None, then, action, planner)
                }
                Err(nobody) => Some(nobody),
            },
            Deed::Preempted => Some(self.preempted(action, planner)),
            &Deed::Watch { variable, at_most } => self.watch(variable, at_most.as_secs_f64()),
            Deed::Profile { sites, at_most } => self.profile(sites, at_most.as_secs_f64()),
            Deed::Rest { time } => {
                const LEAST_S: f64 = 1e-3;
                self.now += time.as_secs_f64().max(LEAST_S);
                None
            }
        };
        self.earn();
        if let Some(what) = what {
            tell(planner, self.time(), Some(action), what);
        }
        if let Some(what) = self.after.take() {
            tell(planner, self.time(), Some(action), what);
        }
        let cost = self.run.spent_s - before;
        tell(planner, self.time(), Some(action), What::Cost(cost));
    }

    /// A thread stands: asks what to do with it, and does that.
    fn stands(
        &mut self,
        arrival: &Arrival,
        waited: Option<Duration>,
        then: Then,
        action: &Action,
        planner: &mut dyn Planner,
    ) -> Option<What> {
        let Arrival {
            index, mut bytes, ..
        } = *arrival;
        let about = |index: usize, bytes: Bytes| What::About {
            site: id(index),
            address: bytes.address,
        };
        tell(planner, self.time(), Some(action), about(index, bytes));
        // Whoever came to where one was waited for is stopped there.
        let ahead = match waited {
            Some(_) => vec![id(index)],
            None => self.ahead(index),
        };
        let instead = planner.stopped(self.time(), &ahead, waited);
        let (site, then) = instead.unwrap_or((id(index), then));
        let to = usize::try_from(site.0).ok();
        let to = to.filter(|to| *to < self.program.sites.len())?;
        if to != index {
            // It has gone on to another site.
            bytes = self.bytes(to);
            tell(planner, self.time(), Some(action), about(to, bytes));
        }
        Some(self.stop(to, bytes, then))
    }

    /// Waits for a sample: where it stops somebody, or that it does not.
    fn sample(&mut self, at_most: f64) -> Result<usize, What> {
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

    fn watch(&mut self, variable: VariableId, at_most: f64) -> Option<What> {
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
        Some(What::Watched {
            variable,
            lasted: Duration::from_secs_f64(lasted),
            writers: writers.collect(),
        })
    }
}

pub(super) fn id(site: usize) -> SiteId {
    SiteId(site as u64)
}

pub(super) fn tell(planner: &mut dyn Planner, now: Duration, of: Option<&Action>, what: What) {
    let of = of.map(|action| action.id);
    planner.observe(now, &Event { of, what });
}
