//! The site strategy: waits at an access site for whichever thread comes there first, and stalls it.
//!
//! Samples of CPU time find what is executed often. A site is found whatever its share of the time: each has
//! the same chance at first, and those that proved private, unreachable or quiet get less of it.
//! Functions that are seen to execute come first, then those that they call, and now and then any.

use std::time::Duration;

use super::{
    access_site::{AccessSite, DOUBLINGS},
    contended::Contended,
    known_code::{CALLED, KnownCode},
    members::{Members, Place},
    prospects::Prospects,
    return_addresses::return_addresses,
    stint::Timekeeper,
    strategy::{
        CodeView, Conflict, Holders, Outcome, Patience, Proposal, Sample, Strategy, Turn,
        Unexplained, Wait,
    },
    sweep::Sweep,
    trials::{Kind, Trials},
    values::Read,
};
use crate::insn::x86_64::member;
use crate::report::LookedAt;

/// How often one is tried of those sites that name a variable which is written, where there are many untried ones, by
/// whether others were found to use them; half as often where so many are left.
const OF_NAMED: Kind = Kind {
    first: 0.5,
    least: 0.05,
    halved_by: 16.0,
    find: 16.0,
};
const FEW_NAMED: f64 = 0.5;
/// For how much of a try it counts that nobody came by.
const MISSED_NAMED: f64 = 0.25;
/// Why such a site was chosen.
const NAMED: &str = "named";
/// How often one of its sites is tried, by whether anybody comes to them.
const OF_ELSEWHERE: Kind = Kind {
    first: 0.25,
    least: 0.02,
    halved_by: 8.0,
    find: 2.0,
};
/// The same of functions that were not seen to execute, but are called by others that were; most of those that handle errors
/// never do.
const OF_CALLED: Kind = Kind {
    first: 1.0,
    least: 0.05,
    halved_by: 16.0,
    find: 8.0,
};
/// Why one of the sweep's was chosen.
const NAMED_ELSEWHERE: &str = "named-elsewhere";
/// Why a site was chosen whose bytes another thread was seen to use.
pub const CONTENDED: &str = "contended";
/// Why a site was chosen that accesses a member of objects which has raced elsewhere.
pub const MEMBER: &str = "member";
/// Why a site was chosen to which nobody came when it was waited at before.
const MISSED: &str = "missed";
/// How long is looked for such sites in one go.
const RELATE: Duration = Duration::from_micros(200);
/// How long a site is waited at that was missed, while the budget has nothing left.
const MEANWHILE: Duration = Duration::from_millis(500);
/// How often a thread is not held at first where one comes by within this time.
const LOOKS: f64 = 0.75;
const OFTEN: Duration = Duration::from_millis(5);
/// How often an object is waited for that several threads use, where that has shown a race before.
pub const MEETS_AGAIN: f64 = 0.4;
/// How often any function at all is tried.
const ANY: f64 = 0.1;
/// How long the bytes of a stall that nobody has ended stay watched, to see who uses them.
const PROBE: Duration = Duration::from_millis(20);
/// Threads that are let pass at most, so that it is not always the first one of a burst that is stopped.
pub const MOST_SKIPPED: u64 = 2;
/// Samples that are kept until they are looked at.
const MOST_NOTED: usize = 64;
/// Choices of a function until one has sites.
const CHOICES: u32 = 8;
/// From this share of CPU time on, time is what is short, not the budget.
pub const LARGE_BUDGET: f64 = 0.1;
/// How long a site is waited at the first time, with a small budget and with a large one.
const FIRST_WAIT: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(4)];

/// See the module.
#[derive(Debug)]
pub struct Site {
    random: fastrand::Rng,
    code: KnownCode,
    /// Program counters and stack words of sampled threads, which are looked at when none stands.
    noted: Vec<(u64, Vec<u64>)>,
    /// Other sides of conflicts, which are looked at then, too.
    conflicts: Vec<Conflict>,
    /// Addresses that two threads were seen to use, the same.
    shared: Vec<u64>,
    /// Who was seen to write a variable that others name, the same.
    writers: Vec<Conflict>,
    /// Places of which that was seen in a stall.
    raced: Vec<(u64, Conflict)>,
    contended: Contended,
    prospects: Prospects,
    members: Members,
    sweep: Sweep,
    /// Tries at sites that only the sweep has brought, and those of them at which somebody came by.
    elsewhere: Trials,
    /// Stalls and looks at sites that name a variable, and those of them at which another thread used it.
    named: Trials,
    /// Tries in called functions, and those of them at which somebody came by.
    called: Trials,
    /// Why the wait in hand was chosen.
    why: &'static str,
    /// What came of it was counted.
    is_counted: bool,
    waiting: Option<Wait>,
    first_wait: Duration,
    /// Threads are held only at contended sites.
    looks_first: bool,
    timekeeper: Timekeeper,
}

impl Site {
    /// A strategy whose choices follow from the seed; no stall will be longer than this.
    #[must_use]
    pub fn new(seed: u64, max_overhead: f64, longest_stall: Duration) -> Self {
        let [small, large] = FIRST_WAIT;
        let mut random = fastrand::Rng::with_seed(seed);
        Self {
            sweep: Sweep::from(random.u64(..)),
            random,
            code: KnownCode::default(),
            noted: Vec::new(),
            conflicts: Vec::new(),
            shared: Vec::new(),
            writers: Vec::new(),
            raced: Vec::new(),
            contended: Contended::new(longest_stall),
            prospects: Prospects::default(),
            members: Members::default(),
            elsewhere: Trials::of(OF_ELSEWHERE),
            named: Trials::of(OF_NAMED),
            called: Trials::of(OF_CALLED),
            why: "",
            is_counted: false,
            waiting: None,
            first_wait: if max_overhead < LARGE_BUDGET {
                small
            } else {
                large
            },
            looks_first: false,
            timekeeper: Timekeeper::Clock,
        }
    }

    /// The same, but how long it looks at code and values follows from what it does, not from a clock: so the same comes out each time.
    #[must_use]
    pub fn by_steps(self) -> Self {
        Self {
            timekeeper: Timekeeper::Steps,
            ..self
        }
    }

    /// The share strategy: it holds threads only at sites whose bytes two threads were seen to use.
    #[must_use]
    pub fn looking_first(self) -> Self {
        Self {
            looks_first: true,
            ..self
        }
    }

    /// Whether two threads were seen to use the bytes of a site.
    #[must_use]
    pub fn is_contended(&self, site: u64) -> bool {
        self.contended.contains(site)
    }

    /// Whether who comes to a site is going to be held there in any case, not only looked at.
    fn holds(&self, site: u64) -> bool {
        if self.contended.contains(site) {
            !self.contended.wants_look(site)
        } else {
            !self.looks_first && self.probe(site).is_none()
        }
    }

    /// Looks at what was noted while threads stood.
    fn look(&mut self, code: &dyn CodeView) {
        if self.code.is_full() {
            // Which costs some repeated tries.
            self.forget();
        }
        for (pc, stack) in std::mem::take(&mut self.noted) {
            self.code.executes(pc, code);
            for caller in return_addresses(&stack, code) {
                self.code.executes(caller.wrapping_sub(1), code);
            }
        }
        for conflict in std::mem::take(&mut self.conflicts) {
            if let Some(site) = self.code.site_before(conflict.behind, code) {
                self.contended.note(site, conflict.distance);
                self.code.shares(site);
            }
        }
        for writer in std::mem::take(&mut self.writers) {
            if let Some(site) = self.code.site_before(writer.behind, code) {
                self.contended.writes(site, writer.distance);
            }
        }
        for address in std::mem::take(&mut self.shared) {
            self.code.is_shared(address);
        }
        for (place, conflict) in std::mem::take(&mut self.raced) {
            // The clock calls a memory routine's place by what it returns to.
            let _ = self.code.learn(place, code);
            let is_site = self.code.get(place).is_some();
            let site = is_site.then_some(place);
            if let Some(site) = site.or_else(|| self.code.site_before(place, code)) {
                self.contended.raced(site, conflict);
                let other = self.code.site_before(conflict.behind, code);
                for side in [Some(site), other].into_iter().flatten() {
                    if let Some(member) = member(code.code(side), side) {
                        self.members.add(member, conflict.distance);
                    }
                }
            }
        }
        self.relate(code);
        self.code.look_at_called(code, self.timekeeper);
        let is_first = self.waiting.is_none() && !self.sweep.has_learned();
        (self.sweep).learn(&mut self.code, code, is_first, self.timekeeper);
    }

    /// Looks through some more functions for accesses of members that have raced.
    fn relate(&mut self, code: &dyn CodeView) {
        /// Sites between two looks at the clock.
        const STRIDE: usize = 32;
        if self.contended.has_many_related() {
            return;
        }
        let begun = self.timekeeper.begin();
        while let Some(place) = self.members.next() {
            let Some(sites) = self.code.sites_of_candidate(place.function) else {
                return;
            };
            let mut behind = Place {
                function: place.function + 1,
                site: 0,
            };
            for (number, (site, is_live)) in sites.enumerate().skip(place.site) {
                if number % STRIDE == STRIDE - 1 && begun.elapsed() > RELATE {
                    behind = Place {
                        site: number,
                        ..place
                    };
                    break;
                }
                if let Some(member) = member(code.code(site), site) {
                    let relate = |distance| self.contended.relate(site, distance, is_live);
                    self.members.found(member, relate);
                }
            }
            self.members.advance(behind);
            if begun.elapsed() > RELATE {
                return;
            }
        }
    }

    /// What was seen of each kind of sites.
    fn trials(&mut self) -> [&mut Trials; 3] {
        [&mut self.elsewhere, &mut self.named, &mut self.called]
    }

    /// Whether whoever comes to a site is rather claimed when another thread has used the same object there a moment before. What is
    /// used so often shows who races soonest, but always the same ones: who only creates an object, is the second to use it, or drops what is hardly
    /// used any more, is met at the others.
    fn meets(&mut self, site: u64) -> bool {
        !self.contended.has_raced(site) || self.random.f64() < MEETS_AGAIN
    }

    /// The function to wait in next, and why.
    fn choose_function(&mut self, code: &dyn CodeView) -> Option<(u64, &'static str)> {
        let is_known = self.random.f64() >= ANY && self.code.has_candidates();
        if !is_known {
            let number = self.random.u64(..);
            return Some((self.code.learn(code.some_function(number)?, code)?, "any"));
        }
        let called = self.called.share();
        (0..CHOICES).find_map(|_| {
            let (start, why) = self.code.candidate(self.random.f64())?;
            (why != CALLED || self.random.f64() < called).then_some((start, why))
        })
    }

    /// A site that names a variable, and why it was chosen; `None` where it is the turn of others.
    fn choose_named(&mut self) -> Option<(u64, &'static str)> {
        let untried = self.code.named.untried();
        let near = self.random.f64() < self.named.share() * untried / (untried + FEW_NAMED);
        let near = near
            .then(|| self.code.named.choose(&mut self.random))
            .flatten();
        if let Some(site) = near
            && self.random.f64() < self.code.promise(site)
        {
            return Some((site, NAMED));
        }
        let elsewhere = self.random.f64() < self.elsewhere.share();
        let number = self.random.f64();
        let site = elsewhere.then(|| self.code.named.choose_elsewhere(number));
        Some((site.flatten()?, NAMED_ELSEWHERE))
    }
}

impl Strategy for Site {
    fn propose(&mut self, sample: &Sample<'_>, code: &dyn CodeView) -> Proposal {
        let pc = sample.regs.rip;
        // To look at code takes its time, and the thread stands still.
        if self.noted.len() < MOST_NOTED {
            self.noted.push((pc, (sample.stack)()));
        }
        let Some(wait) = self.waiting.take().filter(|wait| wait.at == pc) else {
            self.why = "";
            return Proposal::Pass("no-site-here");
        };
        let waited = sample.waited.unwrap_or_default();
        let site = wait.site;
        let Some(known) = self.code.get(site) else {
            return Proposal::Pass("no-site-here");
        };
        self.contended.reached(site, waited);
        let is_seen = if self.looks_first {
            !self.contended.is_related(site)
        } else {
            // Who else uses what is written so often shows at less cost than in a stall.
            waited >= OFTEN || !self.contended.is_writer(site)
        };
        let stall = self.contended.stall(site).filter(|_| is_seen);
        let patience = match stall {
            Some(stall) => Patience::Hold(stall),
            None if self.looks_first && self.probe(site).is_none() => {
                return Proposal::Pass("use-is-known");
            }
            None if self.looks_first => Patience::Look,
            // Where many pass, whoever else uses the bytes is seen at less cost than in a stall.
            None if waited < OFTEN && self.probe(site).is_some() && self.random.f64() < LOOKS => {
                Patience::Look
            }
            None if known.has(AccessSite::STALLED) => Patience::Hold(waited * 2),
            // Who comes seldom is as dear as any.
            None if wait.why == MISSED => Patience::Hold(self.contended.cost()),
            // What is private shows in a short stall as well as in a long one.
            None => Patience::USUAL,
        };
        if !known.has(AccessSite::CALL) {
            return Proposal::StallHere { site, patience };
        }
        match code.routine_at(pc) {
            Some(at) => Proposal::Seek { at, site, patience },
            None => Proposal::Pass("no-site-here"),
        }
    }

    fn own_frame(&self, pc: u64) -> u64 {
        self.code.own_frame(pc)
    }

    fn probe(&self, site: u64) -> Option<Duration> {
        let known = self.code.get(site)?;
        let is_known = known.has(AccessSite::SHARED) && !self.contended.wants_look(site);
        (!is_known && !known.has(AccessSite::PRIVATE)).then_some(PROBE)
    }

    fn wait(&mut self, code: &dyn CodeView) -> Option<Wait> {
        self.look(code);
        let contended = self.random.f64() < self.contended.chance();
        let contended = contended.then(|| {
            let promise = |site| {
                let known = self.code.get(site);
                let writes = known.is_some_and(|site| site.has(AccessSite::WRITES));
                self.code.promise(site) * self.prospects.of(writes)
            };
            self.contended.choose(&mut self.random, promise)
        });
        let contended = contended.flatten();
        let named = self.choose_named();
        let (at, why) = match (contended, named) {
            (Some(site), _) if self.contended.is_related(site) => (site, MEMBER),
            (Some(site), _) => (site, CONTENDED),
            (None, Some(named)) => named,
            (None, None) => (0..CHOICES).find_map(|_| {
                let (start, why) = self.choose_function(code)?;
                let site = self.code.site_of(start, self.random.f32())?;
                Some((site, why))
            })?,
        };
        self.why = why;
        self.is_counted = false;
        let known = self.code.get(at);
        let misses = known.map_or(0, |site| site.misses);
        let usual = self.first_wait * (1 << misses.min(DOUBLINGS));
        let wait = Wait {
            at,
            site: at,
            time: self
                .contended
                .wait(at)
                .map_or(usual, |time| time.max(self.first_wait)),
            skip: self.random.u64(..=MOST_SKIPPED),
            writes: known.is_some_and(|site| site.may_write(&mut self.random)),
            meets: self.meets(at),
            wanted: None,
            holders: if self.holds(at) {
                Holders::Spare
            } else {
                Holders::LookAt
            },
            why,
        };
        self.waiting = Some(wait);
        Some(wait)
    }

    fn wait_meanwhile(&mut self) -> Option<Wait> {
        let rare = self.contended.choose_rare(&mut self.random);
        let (site, why) = match rare {
            Some(site) => (site, CONTENDED),
            None => (self.code.missed.choose(self.random.f64())?, MISSED),
        };
        let known = self.code.get(site);
        let wait = Wait {
            at: site,
            site,
            time: MEANWHILE,
            skip: 0,
            writes: known.is_some_and(|site| site.may_write(&mut self.random)),
            meets: false,
            // Those who come seldom are worth it.
            wanted: None,
            holders: Holders::Take,
            why,
        };
        self.why = wait.why;
        self.waiting = Some(wait);
        Some(wait)
    }

    fn unexplained(&mut self) -> Option<Unexplained> {
        // Who was seen to write a variable was not seen to share it.
        let may_hold_writers = !self.looks_first;
        may_hold_writers
            .then(|| self.code.unexplained(&mut self.random))
            .flatten()
    }

    fn watched(&mut self, variable: u64, part: f64, writers: &[Conflict]) {
        let is_written = !writers.is_empty();
        self.code.named.watched(variable, part, is_written);
        let room = MOST_NOTED.saturating_sub(self.writers.len());
        self.writers.extend(writers.iter().take(room));
        if is_written {
            // Whoever names it reads it, most likely.
            self.is_shared(variable);
        }
    }

    fn turn(&mut self, _now: Duration) -> Turn {
        Turn::Site
    }

    fn seen(&mut self, pc: u64, code: &dyn CodeView) {
        self.code.executes(pc, code);
    }

    fn extend(&mut self) {
        self.sweep.restart(self.random.u64(..));
        // It says nothing of new code.
        self.trials().into_iter().for_each(Trials::forget);
    }

    fn forget(&mut self) {
        self.code = KnownCode::default();
        self.noted.clear();
        self.conflicts.clear();
        self.shared.clear();
        self.writers.clear();
        self.raced.clear();
        self.contended.forget();
        self.prospects.forget();
        self.members.forget();
        self.sweep = Sweep::from(self.random.u64(..));
        self.trials().into_iter().for_each(Trials::forget);
        self.waiting = None;
    }

    fn decay(&mut self) {
        self.contended.decay();
        self.prospects.decay();
        self.trials().into_iter().for_each(Trials::decay);
        self.code.decay();
    }

    fn coverage(&self) -> Option<(u64, u64)> {
        Some(self.code.coverage())
    }

    fn looked_at(&self) -> Vec<LookedAt> {
        self.code.looked_at()
    }

    fn costs(&mut self, per_stall: Duration) {
        self.contended.costs(per_stall);
    }

    fn uses(&mut self, other: Conflict) {
        if self.conflicts.len() < MOST_NOTED {
            self.conflicts.push(other);
        }
    }

    fn is_shared(&mut self, address: u64) {
        if self.shared.len() < MOST_NOTED {
            self.shared.push(address);
        }
    }

    fn look_at_values(&mut self, read: &Read<'_>) {
        self.code.look_at_values(self.timekeeper, read);
    }

    fn outcome(&mut self, site: u64, outcome: Outcome) {
        self.contended.outcome(site, outcome);
        if matches!(self.why, CONTENDED | MEMBER)
            && let Some(known) = self.code.get(site)
            && !known.has(AccessSite::CALL)
            // Where it has raced, objects in little use were sought.
            && !(outcome == Outcome::Quiet && self.contended.has_raced(site))
        {
            self.prospects
                .outcome(known.has(AccessSite::WRITES), outcome);
        }
        match (self.why, outcome) {
            // What is shared is told after the stall that has counted.
            (NAMED, Outcome::Shared(_)) => self.named.found(),
            (NAMED, Outcome::Beside) => {}
            (NAMED, Outcome::NotReached) => self.named.tried(MISSED_NAMED),
            (NAMED, _) => {
                // A quiet stall is told of once more when it is known who uses the bytes.
                let is_counted = std::mem::replace(&mut self.is_counted, true);
                self.named.tried(f64::from(!is_counted));
                if matches!(outcome, Outcome::Hit(_)) {
                    self.named.found();
                }
            }
            (NAMED_ELSEWHERE | CALLED, _) => {
                let trials = if self.why == CALLED {
                    &mut self.called
                } else {
                    &mut self.elsewhere
                };
                trials.tried(1.0);
                if outcome != Outcome::NotReached {
                    trials.found();
                }
                self.why = "";
            }
            _ => {}
        }
        match outcome {
            Outcome::Shared(conflict) => {
                self.contended.note(site, conflict.distance);
                self.conflicts.push(conflict);
            }
            Outcome::Hit(conflict) => {
                self.raced.push((site, conflict));
                self.conflicts.push(conflict);
            }
            _ => {}
        }
        self.code.outcome(site, outcome);
        if (self.why, outcome) == (MISSED, Outcome::NotReached) {
            self.code.missed_for_long(site);
        }
    }
}
