//! The kernel's probes. For some milliseconds it is noted who comes to some dozens of sites, as the strategy asks for: nobody is stopped, and it goes on beside whatever else is done.
//! And probes stand at sites to which hardly anybody comes.

mod place;
mod standing;

use std::collections::HashSet;
use std::time::Duration;

use crate::addr::RuntimeAddr;
use crate::hunt::strategy::{Noted, NotedUse, SiteProbe};
use crate::hunt::wire::Notice;
use crate::kernel::gates::Gates;
use crate::kernel::probes::{self, BurstError, Probes};
use crate::kernel::process::{WorkClock, monotonic_ns, nanos};

use super::adviser::Adviser;
use super::rig::Rig;

use standing::Standing;

/// From the beginning of one burst to that of the next one, at least: to arm and to remove probes takes the lock of the program's mappings, for which
/// whoever maps memory waits.
const APART: Duration = Duration::from_millis(250);
/// To arm them takes so long, as a rule.
const ARMING: Duration = Duration::from_millis(3);
/// Threads that are noted at one site, and at all, in a burst: whoever comes that often is hot, and the burst ends.
const HITS_OF_SITE: u64 = 256;
const MOST_HITS: u64 = 4096;
/// What a hit costs the program, as far as it is not known better: measured 0.4 us on a virtual machine, ns.
const HIT_NS: u64 = 400;
/// After so many failures in turn there are no more.
const MOST_FAILURES: u32 = 3;

/// See the module.
#[derive(Default)]
pub struct Profiler {
    /// `None` where there are none to be had, or where they were not asked for.
    probes: Option<Probes>,
    /// The sites of the burst that is under way, by the tags of their probes, and where those are: some time after it is over, too.
    sites: Vec<u64>,
    places: Vec<u64>,
    /// Before this time there is none, CLOCK_MONOTONIC, ns.
    not_before: u64,
    failures: u32,
    /// Nothing can be probed in this program any more.
    is_over: bool,
    /// What is noted is of a program that is no longer executed.
    is_stale: bool,
    /// Probes that stand.
    pub standing: Standing,
    /// Bursts, and hits in all of them.
    pub bursts: u64,
    pub hits: u64,
}

impl Profiler {
    /// Loads what there is to load, if it is wanted; says why there are no probes where that fails.
    pub fn new(is_wanted: bool, gates: &Gates, clock: WorkClock) -> (Self, Option<Notice>) {
        let mut profiler = Self::default();
        if !is_wanted {
            return (profiler, None);
        }
        match Probes::load(gates, clock) {
            Ok(probes) => {
                profiler.probes = Some(probes);
                (profiler, None)
            }
            Err(error) => {
                let text = format!("no probes are set: {error}");
                (profiler, Some(Notice::Debug(text)))
            }
        }
    }

    /// Tells the strategy that there are bursts to be had, as long as that is so.
    pub fn tell(&self, adviser: &mut Adviser) {
        if self.probes.is_some() {
            adviser.strategy.can_profile(APART);
        }
    }

    /// Begins a burst; for how long nothing else is to be begun.
    pub fn begin(
        &mut self,
        rig: &Rig,
        adviser: &mut Adviser,
        probes: &[SiteProbe],
        time: Duration,
    ) -> Option<Duration> {
        let now = monotonic_ns();
        let Some(kernel) = self.probes.as_mut().filter(|_| !self.is_over) else {
            // Or they would be wanted again and again.
            let sites: Vec<u64> = probes.iter().map(|probe| probe.site).collect();
            adviser.strategy.refused(&sites);
            return None;
        };
        let first = probes.first()?;
        if kernel.is_busy() || now < self.not_before {
            return None;
        }
        let (mapping, file) = rig.modules.mapping(first.pc)?;
        let there = probes.iter().filter(|probe| mapping.contains(&probe.pc));
        self.sites.clear();
        self.places.clear();
        let mut armed = Vec::new();
        for (tag, probe) in (0..).zip(there.take(probes::MOST_PROBES)) {
            self.sites.push(probe.site);
            self.places.push(probe.pc);
            armed.push(probes::Probe {
                pc: RuntimeAddr(probe.pc),
                recipe: probe.recipe,
                tag,
            });
        }
        let order = probes::Order {
            pid: rig.program.pid,
            mapping,
            file,
            probes: armed,
            duration: time,
            hits_per_probe: HITS_OF_SITE,
            most_hits: MOST_HITS,
        };
        self.not_before = now + nanos(APART);
        self.is_stale = false;
        kernel.start(order).ok()?;
        Some(ARMING + time)
    }

    /// Sees what has come of probes, and has some more stand.
    pub fn tend(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        if let Some(probes) = &mut self.probes {
            self.standing.tend(probes, rig, adviser);
        }
        self.tend_burst(rig, adviser);
    }

    /// Whether a probe may be at an address, that is to say `int3` in the place of what the program has there.
    pub fn may_have_probe(&self, pc: u64) -> bool {
        self.places.contains(&pc) || self.standing.may_have_probe(pc)
    }

    /// Whoever comes to these sites is let pass where probes stand, and to others may be claimed.
    pub fn spare(&mut self, sites: &[u64]) {
        if let Some(probes) = &self.probes {
            self.standing.spare(probes, sites);
        }
    }

    /// A probe that stands is hot.
    pub fn remove_hot(&mut self) {
        if let Some(probes) = &mut self.probes {
            // Where its thread has ended, none stands any more.
            let _ = probes.remove_hot();
        }
    }

    /// Other code may stand at all addresses now: nothing is to be probed where the one before was known to be.
    pub fn forget_code(&mut self) {
        self.standing.forget_code();
        if let Some(probes) = &mut self.probes {
            // Where its thread has ended, none stands any more.
            let _ = probes.clear();
        }
    }

    /// Tells the strategy what a burst has noted that is over.
    fn tend_burst(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        let outcome = match self.probes.as_mut().map(Probes::take) {
            Some(Some(outcome)) => outcome,
            _ => return,
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                rig.outbox
                    .send(&Notice::Debug(format!("a burst of probes: {error}")));
                let is_over = error.is_of_process() && !self.is_stale;
                if let Some(probes) = self.probes.as_mut().filter(|_| is_over) {
                    self.is_over = true;
                    (self.standing).give_up(&error.to_string(), probes, rig, adviser);
                }
                // Code that was unloaded, or pages of which enough have had probes, say nothing of other places, where some may stand.
                let is_of_code = error.is_refusal() || matches!(&error, BurstError::Obstacle(_));
                self.failures += u32::from(!is_of_code);
                if self.failures >= MOST_FAILURES {
                    self.probes = None;
                    self.standing.end(adviser);
                    return;
                }
                if std::mem::take(&mut self.is_stale) {
                    return;
                }
                if error.is_refusal() {
                    adviser.strategy.refused(&self.sites);
                    return;
                }
                // Or they would be wanted again and again, and no others.
                let arrivals = self.sites.iter().map(|site| (*site, 0));
                adviser.strategy.profiled(&Noted {
                    lasted: Duration::ZERO,
                    arrivals: arrivals.collect(),
                    uses: Vec::new(),
                    cost_s: 0.0,
                });
                return;
            }
        };
        self.failures = 0;
        self.bursts += 1;
        self.hits += outcome.hits;
        let cost_ns = rig.charge_burst(outcome.hits * HIT_NS, outcome.cpu_ns);
        if std::mem::take(&mut self.is_stale) {
            return;
        }
        let armed: HashSet<u32> = outcome.arrivals.iter().map(|(tag, _)| *tag).collect();
        let tagged = (0..).zip(&self.sites);
        let refused = tagged.filter(|(tag, _)| !armed.contains(tag));
        let refused: Vec<u64> = refused.map(|(_, site)| *site).collect();
        if !refused.is_empty() {
            adviser.strategy.refused(&refused);
        }
        let site = |tag: u32| self.sites.get(tag as usize).copied();
        let uses = outcome.uses.iter().filter_map(|used| {
            Some(NotedUse {
                site: site(used.tag)?,
                tid: used.tid,
                at_ns: used.at_ns,
                address: used.address,
            })
        });
        let arrivals = outcome.arrivals.iter();
        let arrivals = arrivals.filter_map(|&(tag, count)| Some((site(tag)?, count)));
        let lasted = outcome.noted_ns.end.saturating_sub(outcome.noted_ns.start);
        adviser.strategy.profiled(&Noted {
            lasted: Duration::from_nanos(lasted),
            arrivals: arrivals.collect(),
            uses: uses.collect(),
            cost_s: Duration::from_nanos(cost_ns).as_secs_f64(),
        });
    }

    /// Watching ends: what is armed is removed, and what was noted is for nothing.
    pub fn stop(&mut self) {
        self.is_stale = true;
        if let Some(probes) = &self.probes {
            probes.stop_burst();
        }
        self.forget_code();
    }

    /// The process executes another program.
    pub fn forget(&mut self, rig: &Rig) {
        self.stop();
        self.is_over = false;
        self.standing.begin_anew(rig);
        if let Some(probes) = &mut self.probes {
            probes.forget();
        }
    }
}
