//! The site strategy: waits at an access site for whichever thread comes there first, and stalls it.
//!
//! Samples of CPU time find what is executed often. A site is found whatever its share of the time: each has
//! the same chance at first, and those that proved private, unreachable or quiet get less of it.
//! Functions that are seen to execute come first, then those that they call, and now and then any.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use super::{
    callers::callers,
    contended::Contended,
    missed::Missed,
    named::Named,
    strategy::{CodeView, Conflict, Outcome, Patience, Proposal, Sample, Strategy, Wait},
    sweep::Sweep,
    weights::Weights,
};
use crate::insn::{
    Transfer,
    x86_64::{StaticSite, static_sites},
};
use crate::report::LookedAt;

/// Functions whose sites are remembered; beyond that all is forgotten, which costs some repeated tries.
const MEMORY: usize = 1 << 15;
/// How much less a function counts that was not seen to execute, but is called by one that was.
const CALLED: f64 = 0.5;
/// How often one is tried of those sites that name a variable which is written, where there are many untried ones;
/// half as often where so many are left.
const NAMED: f64 = 0.5;
const FEW_NAMED: f64 = 0.5;
/// Called functions that are looked at in one go, at most, and for how long.
const LOOKED_AT: usize = 64;
const LOOK: Duration = Duration::from_micros(300);
/// The same for the sweep: when nobody was waited for yet, and each time.
const FIRST_SWEEP: Duration = Duration::from_millis(5);
const NEXT_SWEEP: Duration = Duration::from_micros(150);
/// Functions that it may add to those that are remembered.
const SWEPT: usize = MEMORY / 4;
/// How often one of its sites is tried at first, and at least; in between the less often, the more of them nobody
/// came to.
const ELSEWHERE: f64 = 0.25;
const LEAST_ELSEWHERE: f64 = 0.02;
/// Tries in vain that halve it.
const TRIES_ELSEWHERE: f64 = 8.0;
/// Why such a site was chosen.
const NAMED_ELSEWHERE: &str = "named-elsewhere";
/// How long a site is waited at that was missed, while the budget has nothing left.
const MEANWHILE: Duration = Duration::from_millis(500);
/// How often any function at all is tried.
const ANY: f64 = 0.1;
/// Accesses of a variable that the code itself names are shared more often than those by a pointer.
const NAMED_WEIGHT: f32 = 4.0;
/// How long the bytes of a quiet stall stay watched, to see who uses them.
const PROBE: Duration = Duration::from_millis(20);
/// Threads that are let pass at most, so that it is not always the first one of a burst that is stopped.
const MOST_SKIPPED: u64 = 2;
/// Samples that are kept until they are looked at.
const MOST_NOTED: usize = 64;
/// Choices of a function until one has sites.
const CHOICES: u32 = 8;
/// How long a site is waited at the first time, with a small budget and with a large one.
const FIRST_WAIT: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(4)];
/// Doublings of that at most.
const DOUBLINGS: u8 = 3;

/// One access site: eight bytes.
#[derive(Clone, Copy, Debug)]
struct AccessSite {
    /// From the function's start.
    offset: u32,
    /// What speaks against it, by what came of it; see [`penalty`].
    penalty: u16,
    misses: u8,
    flags: u8,
}

impl AccessSite {
    /// The code names the address.
    const NAMED: u8 = 1;
    /// A call of a memory routine.
    const CALL: u8 = 2;
    /// A thread was stalled there.
    const STALLED: u8 = 4;
    /// Others were seen to use the same bytes.
    const SHARED: u8 = 8;
    /// Only its own thread was.
    const PRIVATE: u8 = 16;

    const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn weight(self) -> f32 {
        self.kind_weight() * self.merit() as f32
    }

    /// What it weighs before any try.
    fn kind_weight(self) -> f32 {
        if self.has(Self::NAMED) {
            NAMED_WEIGHT
        } else {
            1.0
        }
    }

    /// What earlier tries have left of the 1 that it had.
    fn merit(self) -> f64 {
        1.0 / (1.0 + f64::from(self.penalty))
    }
}

/// How much an outcome speaks against trying a site again that was missed so many times in a row.
const fn penalty(outcome: Outcome, misses: u8) -> u16 {
    match outcome {
        // The longer it was waited for in vain, the more.
        Outcome::NotReached if misses < DOUBLINGS => 6 << misses,
        Outcome::NotReached => 6 << DOUBLINGS,
        Outcome::Quiet => 3,
        Outcome::TooOften => 8,
        // The race is known now; a second report of it is worth less than a new one.
        Outcome::Hit | Outcome::Repeat => 12,
        Outcome::Unsuitable | Outcome::Private => 32,
        Outcome::Unused => 1,
        Outcome::Shared(_) => 0,
    }
}

/// A function whose code was looked at.
#[derive(Debug, Default)]
struct Function {
    /// In the order of addresses.
    sites: Vec<AccessSite>,
    /// Analyzed functions that it calls.
    calls: Vec<u64>,
    /// Its index among the candidates; `None` for one that nobody was seen to execute or to call.
    candidate: Option<usize>,
    /// It was seen to execute.
    executes: bool,
}

impl Function {
    fn weight(&self) -> f64 {
        f64::from(self.weight_of_sites()) * if self.executes { 1.0 } else { CALLED }
    }

    fn weight_of_sites(&self) -> f32 {
        self.sites.iter().map(|site| site.weight()).sum()
    }

    /// Its code is known to execute, or to be called: the variables that it names are near.
    fn approach(&self, start: u64, named: &mut Named) {
        for site in self.sites.iter().filter(|site| site.has(AccessSite::NAMED)) {
            named.approach(start + u64::from(site.offset), site.merit());
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Site {
    random: fastrand::Rng,
    /// By run-time start.
    functions: BTreeMap<u64, Function>,
    /// Those that were seen to execute, and those that they call: starts and weights.
    candidates: Vec<u64>,
    weights: Weights,
    /// Some that are called, and were not looked at yet.
    called: VecDeque<u64>,
    /// Program counters and stack words of sampled threads, which are looked at when none stands.
    noted: Vec<(u64, Vec<u64>)>,
    /// Other sides of conflicts, which are looked at then, too.
    conflicts: Vec<Conflict>,
    contended: Contended,
    named: Named,
    sweep: Sweep,
    swept: usize,
    /// Tries at sites that only the sweep has brought, and those of them at which somebody came by.
    tries_elsewhere: f64,
    found_elsewhere: f64,
    /// The wait in hand is at one of those.
    is_elsewhere: bool,
    missed: Missed,
    waiting: Option<(Wait, Instant)>,
    first_wait: Duration,
    /// Threads are held only at contended sites.
    looks_first: bool,
    known: u64,
    stalled: u64,
}

impl Site {
    /// A strategy whose choices follow from the seed; no stall will be longer than this.
    #[must_use]
    pub fn new(seed: u64, max_overhead: f64, longest_stall: Duration) -> Self {
        /// From this share of CPU time on, time is what is short, not the budget.
        const LARGE_BUDGET: f64 = 0.1;
        let [small, large] = FIRST_WAIT;
        let mut random = fastrand::Rng::with_seed(seed);
        Self {
            sweep: Sweep::from(random.u64(..)),
            swept: 0,
            random,
            functions: BTreeMap::new(),
            candidates: Vec::new(),
            weights: Weights::default(),
            called: VecDeque::new(),
            noted: Vec::new(),
            conflicts: Vec::new(),
            contended: Contended::new(longest_stall),
            named: Named::default(),
            tries_elsewhere: 0.0,
            found_elsewhere: 0.0,
            is_elsewhere: false,
            missed: Missed::default(),
            waiting: None,
            first_wait: if max_overhead < LARGE_BUDGET {
                small
            } else {
                large
            },
            looks_first: false,
            known: 0,
            stalled: 0,
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

    /// Looks at the code of a function, once; its start.
    fn learn(&mut self, pc: u64, code: &dyn CodeView) -> Option<u64> {
        let (start, bytes) = code.function(pc)?;
        if self.functions.contains_key(&start) {
            return Some(start);
        }
        if self.functions.len() >= MEMORY {
            self.forget();
        }
        let mut function = Function::default();
        let named = &mut self.named;
        static_sites(bytes, start, &mut |site| {
            let (pc, flags) = match site {
                StaticSite::Access {
                    pc,
                    fixed_address,
                    writes,
                } => {
                    if code.is_atomic(pc) || fixed_address.is_some_and(|at| code.is_constant(at)) {
                        return;
                    }
                    if let Some(address) = fixed_address {
                        named.add(address, pc, writes);
                    }
                    (pc, fixed_address.map_or(0, |_| AccessSite::NAMED))
                }
                StaticSite::Leaves { pc, transfer, .. } => {
                    if code.routine(transfer).is_none() {
                        if let Transfer::To(target) = transfer
                            && code.is_analyzed(target)
                        {
                            function.calls.push(target);
                        }
                        return;
                    }
                    (pc, AccessSite::CALL)
                }
            };
            if let Ok(offset) = u32::try_from(pc.wrapping_sub(start)) {
                function.sites.push(AccessSite {
                    offset,
                    penalty: 0,
                    misses: 0,
                    flags,
                });
            }
        });
        self.known += function.sites.len() as u64;
        self.functions.insert(start, function);
        Some(start)
    }

    /// A thread was seen in the function around an address.
    fn executes(&mut self, pc: u64, code: &dyn CodeView) {
        let Some(start) = self.learn(pc, code) else {
            return;
        };
        if let Some(function) = self.functions.get_mut(&start)
            && !function.executes
        {
            function.executes = true;
            self.called.extend(std::mem::take(&mut function.calls));
            self.weigh(start);
        }
    }

    /// A function whose weight may have changed, and which is a candidate from now on.
    fn weigh(&mut self, start: u64) {
        let Some(function) = self.functions.get_mut(&start) else {
            return;
        };
        let weight = function.weight();
        match function.candidate {
            Some(index) => self.weights.set(index, weight),
            None => {
                function.candidate = Some(self.weights.push(weight));
                self.candidates.push(start);
                function.approach(start, &mut self.named);
            }
        }
    }

    /// Looks at what was noted while threads stood.
    fn look(&mut self, code: &dyn CodeView) {
        for (pc, stack) in std::mem::take(&mut self.noted) {
            self.executes(pc, code);
            for caller in callers(&stack, code) {
                self.executes(caller.wrapping_sub(1), code);
            }
        }
        for conflict in std::mem::take(&mut self.conflicts) {
            if let Some(site) = self.site_before(conflict.behind, code) {
                self.contended.note(site, conflict.distance);
            }
        }
        let begun = Instant::now();
        for _ in 0..LOOKED_AT {
            let Some(target) = self.called.pop_front() else {
                break;
            };
            if let Some(start) = self.learn(target, code) {
                self.weigh(start);
            }
            if begun.elapsed() > LOOK {
                break;
            }
        }
        self.sweep(code);
    }

    /// Looks through some more of the code for what stores to variables.
    fn sweep(&mut self, code: &dyn CodeView) {
        if self.swept >= SWEPT {
            return;
        }
        let time = if self.waiting.is_none() && self.swept == 0 {
            FIRST_SWEEP
        } else {
            NEXT_SWEEP
        };
        let mut found = Vec::new();
        self.sweep.go_on(code, time, &mut |start| found.push(start));
        for start in found {
            self.learn(start, code);
            self.swept += 1;
        }
    }

    /// How often a site is tried that only the sweep has brought.
    fn share_elsewhere(&self) -> f64 {
        let in_vain = self.tries_elsewhere - self.found_elsewhere;
        let share = ELSEWHERE / (1.0 + (in_vain - self.found_elsewhere).max(0.0) / TRIES_ELSEWHERE);
        share.max(LEAST_ELSEWHERE)
    }

    /// The function to wait in next, and why.
    fn choose_function(&mut self, code: &dyn CodeView) -> Option<(u64, &'static str)> {
        if self.random.f64() >= ANY
            && let Some(index) = self.weights.choose(self.random.f64())
            && let Some(&start) = self.candidates.get(index)
        {
            let function = self.functions.get(&start)?;
            let why = if function.executes {
                "executing"
            } else {
                "called"
            };
            return Some((start, why));
        }
        let number = self.random.u64(..);
        Some((self.learn(code.some_function(number)?, code)?, "any"))
    }

    /// A site that names a variable, and why it was chosen; `None` where it is the turn of others.
    fn choose_named(&mut self) -> Option<(u64, &'static str)> {
        let untried = self.named.untried();
        let near = self.random.f64() < NAMED * untried / (untried + FEW_NAMED);
        let near = near.then(|| self.named.choose(self.random.f64())).flatten();
        if let Some(site) = near {
            return Some((site, "named"));
        }
        let elsewhere = self.random.f64() < self.share_elsewhere();
        let number = self.random.f64();
        let site = elsewhere.then(|| self.named.choose_elsewhere(number));
        Some((site.flatten()?, NAMED_ELSEWHERE))
    }

    fn choose_site(&mut self, start: u64) -> Option<AccessSite> {
        let function = self.functions.get(&start)?;
        let mut point = self.random.f32() * function.weight_of_sites();
        let chosen = function.sites.iter().find(|site| {
            point -= site.weight();
            point <= 0.0
        });
        chosen.or(function.sites.last()).copied()
    }

    /// Where the site that is called so is kept: its function's start, and its index there.
    fn find(&self, site: u64) -> Option<(u64, usize)> {
        let (start, function) = self.functions.range(..=site).next_back()?;
        let offset = u32::try_from(site - start).ok()?;
        let sites = &function.sites;
        let index = sites.binary_search_by_key(&offset, |site| site.offset);
        Some((*start, index.ok()?))
    }

    /// The site whose access ends right before an address.
    fn site_before(&mut self, behind: u64, code: &dyn CodeView) -> Option<u64> {
        /// The longest instruction.
        const MOST_BYTES: u64 = 15;
        let start = self.learn(behind.wrapping_sub(1), code)?;
        let sites = &self.functions.get(&start)?.sites;
        let before = sites.partition_point(|site| start + u64::from(site.offset) < behind);
        let site = start + u64::from(sites.get(before.checked_sub(1)?)?.offset);
        (behind - site <= MOST_BYTES).then_some(site)
    }

    fn weigh_named(&mut self, site: u64) {
        if let Some(known) = self.get(site) {
            self.named.weigh(site, known.merit());
        }
    }

    fn get(&self, site: u64) -> Option<AccessSite> {
        let (start, index) = self.find(site)?;
        self.functions.get(&start)?.sites.get(index).copied()
    }
}

impl Strategy for Site {
    fn propose(&mut self, sample: &Sample<'_>, code: &dyn CodeView) -> Proposal {
        let pc = sample.regs.rip;
        // To look at code takes its time, and the thread stands still.
        if self.noted.len() < MOST_NOTED {
            self.noted.push((pc, (sample.stack)()));
        }
        let Some((wait, since)) = self.waiting.take().filter(|(wait, _)| wait.at == pc) else {
            return Proposal::Pass("no-site-here");
        };
        let waited = since.elapsed();
        let site = wait.site;
        let Some(known) = self.get(site) else {
            return Proposal::Pass("no-site-here");
        };
        self.contended.reached(site, waited);
        let patience = match self.contended.stall(site) {
            Some(stall) => Patience::Hold(stall),
            None if self.looks_first && self.probe(site).is_none() => {
                return Proposal::Pass("use-is-known");
            }
            None if self.looks_first => Patience::Look,
            None if known.has(AccessSite::STALLED) => Patience::Hold(waited * 2),
            // What is private shows in a short stall as well as in a long one.
            None => Patience::USUAL,
        };
        if !known.has(AccessSite::CALL) {
            return Proposal::StallHere { site, patience };
        }
        let mut entry = None;
        static_sites(code.code(pc), pc, &mut |found| {
            if let StaticSite::Leaves {
                pc: at, transfer, ..
            } = found
                && at == pc
            {
                entry = code.routine(transfer);
            }
        });
        match entry {
            Some(at) => Proposal::Seek { at, site, patience },
            None => Proposal::Pass("no-site-here"),
        }
    }

    fn probe(&self, site: u64) -> Option<Duration> {
        const KNOWN: u8 = AccessSite::SHARED | AccessSite::PRIVATE;
        (self.get(site)?.flags & KNOWN == 0).then_some(PROBE)
    }

    fn wait(&mut self, code: &dyn CodeView) -> Option<Wait> {
        self.look(code);
        let contended = self.random.f64() < self.contended.chance();
        let contended = contended.then(|| self.contended.choose(&mut self.random));
        let named = self.choose_named();
        let (at, why) = match (contended.flatten(), named) {
            (Some(site), _) => (site, "contended"),
            (None, Some(named)) => named,
            (None, None) => (0..CHOICES).find_map(|_| {
                let (start, why) = self.choose_function(code)?;
                let site = self.choose_site(start)?;
                Some((start.wrapping_add(u64::from(site.offset)), why))
            })?,
        };
        self.is_elsewhere = why == NAMED_ELSEWHERE;
        let misses = self.get(at).map_or(0, |site| site.misses);
        let usual = self.first_wait * (1 << misses.min(DOUBLINGS));
        let wait = Wait {
            at,
            site: at,
            time: self
                .contended
                .wait(at)
                .map_or(usual, |time| time.max(self.first_wait)),
            skip: self.random.u64(..=MOST_SKIPPED),
            why,
        };
        self.waiting = Some((wait, Instant::now()));
        Some(wait)
    }

    fn wait_meanwhile(&mut self) -> Option<Wait> {
        let site = self.missed.choose(self.random.f64())?;
        let wait = Wait {
            at: site,
            site,
            time: MEANWHILE,
            skip: 0,
            why: "missed",
        };
        self.is_elsewhere = false;
        self.waiting = Some((wait, Instant::now()));
        Some(wait)
    }

    fn clock_turn(&mut self) -> Option<Duration> {
        None
    }

    fn seen(&mut self, pc: u64, code: &dyn CodeView) {
        self.executes(pc, code);
    }

    fn forget(&mut self) {
        self.functions.clear();
        self.candidates.clear();
        self.weights.clear();
        self.called.clear();
        self.noted.clear();
        self.conflicts.clear();
        self.contended.forget();
        self.named.forget();
        self.sweep = Sweep::from(self.random.u64(..));
        self.swept = 0;
        self.tries_elsewhere = 0.0;
        self.found_elsewhere = 0.0;
        self.is_elsewhere = false;
        self.missed = Missed::default();
        self.waiting = None;
        self.known = 0;
        self.stalled = 0;
    }

    fn decay(&mut self) {
        self.contended.decay();
        for function in self.functions.values_mut() {
            for site in &mut function.sites {
                site.penalty /= 2;
                site.misses /= 2;
                // Other threads may have come to use it.
                site.flags &= !AccessSite::PRIVATE;
            }
        }
        self.tries_elsewhere /= 2.0;
        self.found_elsewhere /= 2.0;
        for site in self.named.sites() {
            self.weigh_named(site);
        }
        // Somebody may be known by now to write what they read.
        for start in &self.candidates {
            if let Some(function) = self.functions.get(start) {
                function.approach(*start, &mut self.named);
            }
        }
        for (index, start) in self.candidates.iter().enumerate() {
            let weight = self.functions.get(start).map_or(0.0, Function::weight);
            self.weights.set(index, weight);
        }
    }

    fn coverage(&self) -> Option<(u64, u64)> {
        Some((self.known, self.stalled))
    }

    fn looked_at(&self) -> Vec<LookedAt> {
        let functions = self.functions.iter();
        let look = |(&start, function): (&u64, &Function)| {
            let count = |flag| {
                let sites = function.sites.iter().filter(|site| site.has(flag));
                u32::try_from(sites.count()).unwrap_or(u32::MAX)
            };
            LookedAt {
                start,
                sites: u32::try_from(function.sites.len()).unwrap_or(u32::MAX),
                sampled: count(AccessSite::STALLED),
                contended: count(AccessSite::SHARED),
            }
        };
        functions.map(look).collect()
    }

    fn outcome(&mut self, site: u64, outcome: Outcome) {
        self.contended.outcome(site, outcome);
        if std::mem::take(&mut self.is_elsewhere) {
            self.tries_elsewhere += 1.0;
            self.found_elsewhere += f64::from(outcome != Outcome::NotReached);
        }
        if let Outcome::Shared(conflict) = outcome {
            self.contended.note(site, conflict.distance);
            self.conflicts.push(conflict);
        }
        let Some((start, index)) = self.find(site) else {
            return;
        };
        let Some(function) = self.functions.get_mut(&start) else {
            return;
        };
        let Some(known) = function.sites.get_mut(index) else {
            return;
        };
        let mut first = false;
        known.penalty = known.penalty.saturating_add(penalty(outcome, known.misses));
        match outcome {
            Outcome::NotReached => known.misses = known.misses.saturating_add(1),
            Outcome::Quiet | Outcome::Hit | Outcome::Repeat => {
                known.misses = 0;
                first = !known.has(AccessSite::STALLED);
                known.flags |= AccessSite::STALLED;
            }
            Outcome::Shared(_) => known.flags |= AccessSite::SHARED,
            Outcome::Private => {
                known.flags |= AccessSite::PRIVATE;
                known.flags &= !AccessSite::SHARED;
            }
            Outcome::TooOften | Outcome::Unsuitable | Outcome::Unused => {}
        }
        match outcome {
            Outcome::NotReached => self.missed.add(site, f64::from(known.kind_weight())),
            _ => self.missed.remove(site),
        }
        self.stalled += u64::from(first);
        let is_candidate = function.candidate.is_some();
        self.weigh_named(site);
        if is_candidate {
            self.weigh(start);
        }
    }
}
