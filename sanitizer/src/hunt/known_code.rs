//! The functions whose code was looked at, with their access sites, and what earlier tries say about each.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use super::{
    missed::Missed,
    named::Named,
    strategy::{CodeView, Outcome},
    weights::Weights,
};
use crate::insn::{
    Transfer,
    x86_64::{StaticSite, static_sites},
};
use crate::report::LookedAt;

/// Functions whose sites are remembered.
pub const MEMORY: usize = 1 << 15;
/// How much less a function counts that was not seen to execute, but is called by one that was.
const CALLED: f64 = 0.5;
/// Called functions that are looked at in one go, at most, and for how long.
const LOOKED_AT: usize = 64;
const LOOK: Duration = Duration::from_micros(300);
/// Accesses of a variable that the code itself names are shared more often than those by a pointer.
const NAMED_WEIGHT: f32 = 4.0;
/// Misses in a row that count.
pub const DOUBLINGS: u8 = 3;

/// One access site: eight bytes.
#[derive(Clone, Copy, Debug)]
pub struct AccessSite {
    /// From the function's start.
    offset: u32,
    /// What speaks against it, by what came of it; see [`penalty`].
    penalty: u16,
    /// How often in a row nobody came.
    pub misses: u8,
    flags: u8,
}

impl AccessSite {
    /// The code names the address.
    pub const NAMED: u8 = 1;
    /// A call of a memory routine.
    pub const CALL: u8 = 2;
    /// A thread was stalled there.
    pub const STALLED: u8 = 4;
    /// Others were seen to use the same bytes.
    pub const SHARED: u8 = 8;
    /// Only its own thread was.
    pub const PRIVATE: u8 = 16;

    /// Whether it is so.
    #[must_use]
    pub const fn has(self, flag: u8) -> bool {
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
#[derive(Debug, Default)]
pub struct KnownCode {
    /// By run-time start.
    functions: BTreeMap<u64, Function>,
    /// Those that were seen to execute, and those that they call: starts and weights.
    candidates: Vec<u64>,
    weights: Weights,
    /// Some that are called, and were not looked at yet.
    called: VecDeque<u64>,
    /// Sites that name variables.
    pub named: Named,
    /// Sites that nobody came to.
    pub missed: Missed,
    sites: u64,
    stalled: u64,
}

impl KnownCode {
    /// Looks at the code of a function, once; its start.
    pub fn learn(&mut self, pc: u64, code: &dyn CodeView) -> Option<u64> {
        let (start, bytes) = code.function(pc)?;
        if self.functions.contains_key(&start) {
            return Some(start);
        }
        if self.is_full() {
            return None;
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
        self.sites += function.sites.len() as u64;
        self.functions.insert(start, function);
        Some(start)
    }

    /// A thread was seen in the function around an address.
    pub fn executes(&mut self, pc: u64, code: &dyn CodeView) {
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

    /// Whether nothing more can be remembered.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.functions.len() >= MEMORY
    }

    /// Looks at some of the functions that others call.
    pub fn look_at_called(&mut self, code: &dyn CodeView) {
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
    }

    /// A function that executes, or is called by one that does, by a number from 0 to 1, and which of both.
    #[must_use]
    pub fn candidate(&self, number: f64) -> Option<(u64, &'static str)> {
        let &start = self.candidates.get(self.weights.choose(number)?)?;
        let executes = self.functions.get(&start)?.executes;
        Some((start, if executes { "executing" } else { "called" }))
    }

    /// A site of a function, by a number from 0 to 1.
    #[must_use]
    pub fn site_of(&self, start: u64, number: f32) -> Option<u64> {
        let function = self.functions.get(&start)?;
        let mut point = number * function.weight_of_sites();
        let chosen = function.sites.iter().find(|site| {
            point -= site.weight();
            point <= 0.0
        });
        let site = chosen.or(function.sites.last())?;
        Some(start.wrapping_add(u64::from(site.offset)))
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
    #[must_use]
    pub fn site_before(&mut self, behind: u64, code: &dyn CodeView) -> Option<u64> {
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

    /// What is known of a site.
    #[must_use]
    pub fn get(&self, site: u64) -> Option<AccessSite> {
        let (start, index) = self.find(site)?;
        self.functions.get(&start)?.sites.get(index).copied()
    }

    /// What came of a try.
    pub fn outcome(&mut self, site: u64, outcome: Outcome) {
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

    /// Forgets a part of it.
    pub fn decay(&mut self) {
        for function in self.functions.values_mut() {
            for site in &mut function.sites {
                site.penalty /= 2;
                site.misses /= 2;
                // Other threads may have come to use it.
                site.flags &= !AccessSite::PRIVATE;
            }
        }
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

    /// Sites known, and those of them that were stalled at.
    #[must_use]
    pub const fn coverage(&self) -> (u64, u64) {
        (self.sites, self.stalled)
    }

    /// What of each function was looked at.
    #[must_use]
    pub fn looked_at(&self) -> Vec<LookedAt> {
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
}
