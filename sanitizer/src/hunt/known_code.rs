//! The functions whose code was looked at, with their access sites, and what earlier tries say about each.

mod calls;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use gwp_race_abi::own;

use super::{
    access_site::{AccessSite, Home, penalty},
    missed::Missed,
    named::Named,
    stint::Timekeeper,
    strategy::{CodeView, Outcome, Unexplained},
    values::Read,
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
const CALLED_WEIGHT: f64 = 0.5;
/// Why a site was chosen: its function was seen to execute.
const EXECUTING: &str = "executing";
/// The same: its function is called by one that was.
pub const CALLED: &str = "called";
/// Called functions that are looked at in one go, at most, and for how long.
const LOOKED_AT: usize = 64;
const LOOK: Duration = Duration::from_micros(300);
/// What a forgetting leaves of what is known of locks, and of quiet stalls.
const KEPT: f64 = 0.9;
/// How much it counts that a thread held a lock, and was let pass for it.
const HELD: f64 = 0.5;
/// Whoever forgets to take the lock does so in a function where others take it: no more than this counts against one.
const MOST_LOCKED: f64 = 4.0;
/// The same of stalls that were quiet.
const MOST_QUIET: f64 = 8.0;
/// How much less a contended site promises for each of both in its function.
const LESS_BY_LOCKED: f64 = 2.0;
const LESS_BY_QUIET: f64 = 0.25;
/// So many bytes away is right beside: a few instructions, often of the same basic block.
const BESIDE: u32 = 48;
/// How much it speaks against a site that nobody came to one so near, and where nobody was seen; how near.
const NEIGHBOUR_MISSED: u16 = 3;
const NEAR: u32 = 24;
/// A function whose code was looked at.
#[derive(Debug, Default)]
struct Function {
    /// In the order of addresses.
    sites: Vec<AccessSite>,
    /// Analyzed functions that it calls.
    calls: Vec<u64>,
    /// It calls others, or jumps there: that may turn out to be memory routines.
    leads_out: bool,
    /// Its index among the candidates; `None` for one that nobody was seen to execute or to call.
    candidate: Option<usize>,
    /// It was seen to execute.
    executes: bool,
    /// How often a thread that was stalled in it held a lock that others waited for: some functions are only called
    /// with a lock held. Less by and by.
    locked: f64,
    /// How often nobody else came to what a thread was about to access at a site that two were seen to use, since a race
    /// was found in the function: some only make new objects, of memory that others have used before. Less by and by.
    quiet: f64,
}

impl Function {
    fn weight(&self) -> f64 {
        let weight = f64::from(self.weight_of_sites()) / (1.0 + self.locked);
        weight * if self.executes { 1.0 } else { CALLED_WEIGHT }
    }

    const fn home(&self, start: u64) -> Home {
        Home {
            start,
            executes: self.executes,
        }
    }

    fn weight_of_sites(&self) -> f32 {
        self.sites.iter().map(|site| site.weight()).sum()
    }

    /// It is known to execute; whether that is news. What it calls may then do so too.
    fn begin(
        &mut self,
        start: u64,
        called: &mut VecDeque<u64>,
        named: &mut Named,
        missed: &mut Missed,
    ) -> bool {
        if std::mem::replace(&mut self.executes, true) {
            return false;
        }
        called.extend(std::mem::take(&mut self.calls));
        let home = self.home(start);
        for site in &mut self.sites {
            // That nobody came before says nothing any more.
            let was_missed = std::mem::take(&mut site.misses) > 0;
            site.penalty = 0;
            site.weigh_named(start, named);
            if was_missed || site.is_wanted() {
                site.miss(home, named, missed);
            }
        }
        true
    }

    /// A thread was seen at this offset; whether that is news of some site.
    fn enliven(&mut self, start: u64, offset: u32, named: &mut Named) -> bool {
        let mut news = false;
        let sites = self.within(offset, BESIDE).iter_mut();
        for site in sites.filter(|site| !site.has(AccessSite::LIVE)) {
            news = true;
            site.flags |= AccessSite::LIVE;
            if site.has(AccessSite::NAMED) {
                named.weigh(start + u64::from(site.offset), site.named_weight());
                named.came_to(start + u64::from(site.offset));
            }
        }
        news
    }

    /// Nobody came to the site at this offset: nor does anybody, as a rule, to those of the same basic block.
    fn miss(&mut self, start: u64, offset: u32, named: &mut Named) {
        let is_neighbour =
            |site: &&mut AccessSite| !site.has(AccessSite::LIVE) && site.offset != offset;
        for site in self.within(offset, NEAR).iter_mut().filter(is_neighbour) {
            site.penalty = site.penalty.saturating_add(NEIGHBOUR_MISSED);
            site.weigh_named(start, named);
        }
    }

    /// The same, after a long wait, for those that are waited for wherever they stand.
    fn miss_wanted(&mut self, start: u64, offset: u32, named: &Named, missed: &mut Missed) {
        let is_wanted = |site: &&mut AccessSite| site.is_wanted() && site.offset != offset;
        let home = self.home(start);
        for site in self.sites.iter_mut().filter(is_wanted) {
            site.count_miss();
            site.want(home, named, missed);
        }
    }

    /// Has those of its sites waited for that are worth it.
    fn want(&self, start: u64, named: &Named, missed: &mut Missed) {
        let home = self.home(start);
        for site in &self.sites {
            site.want(home, named, missed);
        }
    }

    /// The sites that are no more than so many bytes away.
    fn within(&mut self, offset: u32, bytes: u32) -> &mut [AccessSite] {
        let first = self.first_from(offset.saturating_sub(bytes));
        let behind = self.first_from(offset.saturating_add(bytes));
        self.sites.get_mut(first..behind).unwrap_or_default()
    }

    /// The index of the first site that stands there or behind.
    fn first_from(&self, offset: u32) -> usize {
        self.sites.partition_point(|site| site.offset < offset)
    }

    /// Its code is known to execute, or to be called: the variables that it names are near.
    fn approach(&self, start: u64, named: &mut Named) {
        for site in self.sites.iter().filter(|site| site.has(AccessSite::NAMED)) {
            named.approach(start + u64::from(site.offset), site.named_weight());
        }
    }
}

/// The analyzed function that a call or jump leads to, which nobody has to look at again for where it leads.
fn analyzed(transfer: Transfer, code: &dyn CodeView) -> Option<u64> {
    match transfer {
        Transfer::To(target) => code.is_analyzed(target).then_some(target),
        Transfer::Through(_) => None,
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
    /// Functions whose calls may lead elsewhere than when they were looked at.
    outdated: VecDeque<u64>,
    /// Sites that name variables.
    pub named: Named,
    /// Sites that nobody came to.
    pub missed: Missed,
    sites: u64,
    stalled: u64,
    /// Forgettings.
    decays: u32,
    /// Functions that were looked at since that was asked for, where somebody asks: their starts.
    new: Option<Vec<u64>>,
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
            let (pc, flags, frame) = match site {
                StaticSite::Access {
                    pc,
                    fixed_address,
                    writes,
                    own_frame,
                    frame,
                } => {
                    if code.is_atomic(pc) || fixed_address.is_some_and(|at| code.is_constant(at)) {
                        return;
                    }
                    let named = match fixed_address {
                        Some(address) if named.add(address, pc, writes) => {
                            AccessSite::NAMED | AccessSite::SHARED_NAME
                        }
                        Some(_) => AccessSite::NAMED,
                        None => 0,
                    };
                    let writes = if writes { AccessSite::WRITES } else { 0 };
                    let own = if own_frame { AccessSite::OWN_FRAME } else { 0 };
                    (pc, named | writes | own, frame)
                }
                StaticSite::Leaves {
                    pc,
                    transfer,
                    frame,
                    ..
                } => {
                    if code.routine(transfer).is_none() {
                        match analyzed(transfer, code) {
                            Some(target) => function.calls.push(target),
                            None => function.leads_out = true,
                        }
                        return;
                    }
                    (pc, AccessSite::CALL, frame)
                }
            };
            if let Ok(offset) = u32::try_from(pc.wrapping_sub(start)) {
                function.sites.push(AccessSite::new(offset, flags, frame));
            }
        });
        self.sites += function.sites.len() as u64;
        function.want(start, &self.named, &mut self.missed);
        self.functions.insert(start, function);
        if let Some(new) = &mut self.new {
            new.push(start);
        }
        Some(start)
    }

    /// One of which it can be asked what is new.
    #[must_use]
    pub fn that_tells() -> Self {
        Self {
            new: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// The functions that were looked at since the last time: their starts.
    pub fn take_new(&mut self) -> Vec<u64> {
        self.new.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The sites of a function that was looked at, in the order of addresses.
    pub fn sites_in(&self, start: u64) -> impl Iterator<Item = (u64, AccessSite)> {
        let sites = self.functions.get(&start).map(|function| &function.sites);
        let sites = sites.into_iter().flatten();
        sites.map(move |site| (start + u64::from(site.offset), *site))
    }

    /// The start of the function around an address of one that was looked at.
    #[must_use]
    pub fn start_of(&self, pc: u64) -> Option<u64> {
        let (&start, _) = self.functions.range(..=pc).next_back()?;
        Some(start)
    }

    /// The site that is nearest to an address, if one is right beside.
    #[must_use]
    pub fn site_beside(&self, pc: u64) -> Option<u64> {
        let (&start, function) = self.functions.range(..=pc).next_back()?;
        let offset = u32::try_from(pc - start).ok()?;
        let distance = |site: &&AccessSite| site.offset.abs_diff(offset);
        let nearest = function.sites.iter().min_by_key(distance)?;
        (distance(&nearest) <= BESIDE).then(|| start + u64::from(nearest.offset))
    }

    /// A thread was seen in the function around an address.
    pub fn executes(&mut self, pc: u64, code: &dyn CodeView) {
        let Some(start) = self.learn(pc, code) else {
            return;
        };
        let Some(function) = self.functions.get_mut(&start) else {
            return;
        };
        let offset = u32::try_from(pc.wrapping_sub(start)).unwrap_or(u32::MAX);
        let begins = function.begin(start, &mut self.called, &mut self.named, &mut self.missed);
        let news = function.enliven(start, offset, &mut self.named);
        if news || begins {
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
    pub fn look_at_called(&mut self, code: &dyn CodeView, timekeeper: Timekeeper) {
        let begun = timekeeper.begin();
        self.look_at_outdated(code, &begun);
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

    /// Whether any function is known to execute.
    #[must_use]
    pub const fn has_candidates(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// A function that executes, or is called by one that does, by a number from 0 to 1, and which of both.
    #[must_use]
    pub fn candidate(&self, number: f64) -> Option<(u64, &'static str)> {
        let &start = self.candidates.get(self.weights.choose(number)?)?;
        let executes = self.functions.get(&start)?.executes;
        Some((start, if executes { EXECUTING } else { CALLED }))
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

    /// The sites of the candidate of this number, in the order in which they became such, that go through pointers,
    /// without those that proved private, and whether a thread was seen beside them.
    pub fn sites_of_candidate(&self, number: usize) -> Option<impl Iterator<Item = (u64, bool)>> {
        let start = *self.candidates.get(number)?;
        let sites = self.functions.get(&start)?.sites.iter();
        let others = AccessSite::NAMED | AccessSite::CALL | AccessSite::PRIVATE;
        let others = others | AccessSite::OWN_FRAME;
        let by_pointer = move |site: &&AccessSite| !site.has(others);
        let place = move |site: &AccessSite| {
            let at = start + u64::from(site.offset);
            (at, site.has(AccessSite::LIVE))
        };
        Some(sites.filter(by_pointer).map(place))
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

    /// Two threads were seen to use the bytes of a site.
    pub fn shares(&mut self, site: u64) {
        if let Some((start, index)) = self.find(site)
            && let Some(function) = self.functions.get_mut(&start)
            && let Some(known) = function.sites.get_mut(index)
        {
            known.flags |= AccessSite::SHARED;
            known.flags &= !AccessSite::PRIVATE;
            if function.begin(start, &mut self.called, &mut self.named, &mut self.missed) {
                self.weigh(start);
            }
            self.missed.remove(site);
        }
    }

    /// What a site promises at which two threads were seen to use the same bytes, for all that was seen in its function:
    /// 1, or less where threads held locks, or nobody came.
    #[must_use]
    pub fn promise(&self, site: u64) -> f64 {
        let function = self
            .find(site)
            .and_then(|(start, _)| self.functions.get(&start));
        function.map_or(1.0, |function| {
            1.0 / (1.0 + LESS_BY_LOCKED * function.locked + LESS_BY_QUIET * function.quiet)
        })
    }

    /// A site was waited at for long in vain: nor does anybody come to others of the same function, as a rule, unless that is
    /// known to execute.
    pub fn missed_for_long(&mut self, site: u64) {
        for writer in self.named.missed_for_long(site) {
            if let Some((home, known)) = self.at_home(writer) {
                known.want(home, &self.named, &mut self.missed);
            }
        }
        if let Some((start, index)) = self.find(site)
            && let Some(function) = self.functions.get_mut(&start)
            && let Some(&known) = function.sites.get(index)
        {
            known.miss(function.home(start), &self.named, &mut self.missed);
            if !function.executes {
                function.miss_wanted(start, known.offset, &self.named, &mut self.missed);
            }
        }
    }

    /// Two threads were seen to use what is at an address: of those whose code names it, who did not come yet is waited
    /// for as well.
    pub fn is_shared(&mut self, address: u64) {
        for user in self.named.shares(address) {
            self.seek(user, true);
        }
    }

    /// A site names what is worth a long wait; whether that is news.
    fn seek(&mut self, site: u64, is_news: bool) {
        if let Some((start, index)) = self.find(site)
            && let Some(function) = self.functions.get_mut(&start)
            && let home = function.home(start)
            && let Some(known) = function.sites.get_mut(index)
        {
            known.flags |= AccessSite::SHARED_NAME;
            if is_news {
                // Nobody came while it was one of many, and was not waited for that long.
                known.misses = 0;
            }
            known.want(home, &self.named, &mut self.missed);
        }
    }

    /// Looks at the values of some more variables. Where one changes and nobody was seen yet who writes it, those who may
    /// are waited for: they come seldom.
    pub fn look_at_values(&mut self, timekeeper: Timekeeper, read: &Read<'_>) {
        for address in self.named.look_at_values(timekeeper, read) {
            if !self.is_writer_seen(address) {
                let is_news = self.named.is_unexplained(address);
                for site in self.named.writers(address) {
                    self.seek(site, is_news);
                }
            }
        }
    }

    /// Whether somebody was seen at a site that names a variable and writes it.
    fn is_writer_seen(&self, address: u64) -> bool {
        let is_seen = |&site: &u64| self.get(site).is_some_and(AccessSite::is_seen);
        self.named.writers(address).iter().any(is_seen)
    }

    /// A variable that changes, to be watched for who writes it.
    pub fn unexplained(&self, random: &mut fastrand::Rng) -> Option<Unexplained> {
        (self.named).choose_changing(random, |address| self.is_writer_seen(address))
    }

    fn weigh_named(&mut self, site: u64) {
        if let Some(known) = self.get(site) {
            self.named.weigh(site, known.named_weight());
        }
    }

    /// What is known of a site.
    #[must_use]
    pub fn get(&self, site: u64) -> Option<AccessSite> {
        self.at_home(site).map(|(_, known)| known)
    }

    /// So many bytes from the stack pointer up belong to the thread alone that comes to an instruction.
    #[must_use]
    pub fn own_frame(&self, pc: u64) -> u64 {
        self.get(pc).map_or(own::FRAME, AccessSite::own_frame)
    }

    /// The same, with its function.
    fn at_home(&self, site: u64) -> Option<(Home, AccessSite)> {
        let (start, index) = self.find(site)?;
        let function = self.functions.get(&start)?;
        Some((function.home(start), *function.sites.get(index)?))
    }

    /// What came of a try.
    pub fn outcome(&mut self, site: u64, outcome: Outcome) {
        let Some((start, index)) = self.find(site) else {
            return;
        };
        let Some(function) = self.functions.get_mut(&start) else {
            return;
        };
        // What is unsuitable was maybe not even waited for.
        let somebody_came = !matches!(outcome, Outcome::NotReached | Outcome::Unsuitable);
        let begins = somebody_came
            && function.begin(start, &mut self.called, &mut self.named, &mut self.missed);
        let home = function.home(start);
        let Some(known) = function.sites.get_mut(index) else {
            return;
        };
        let (mut first, mut is_reached) = (false, false);
        let offset = known.offset;
        known.penalty = known.penalty.saturating_add(penalty(outcome, known.misses));
        if somebody_came {
            known.misses = 0;
        }
        match outcome {
            Outcome::NotReached => known.count_miss(),
            Outcome::Quiet | Outcome::Locked | Outcome::Hit(_) | Outcome::Repeat => {
                is_reached = true;
                first = !known.has(AccessSite::STALLED);
                known.flags |= AccessSite::STALLED;
            }
            Outcome::Shared(_) => known.flags |= AccessSite::SHARED,
            // Of another object than the one that two threads were seen to use.
            Outcome::Private if known.has(AccessSite::SHARED) => {}
            Outcome::Private => known.flags |= AccessSite::PRIVATE,
            // Somebody comes there.
            Outcome::Held => is_reached = true,
            Outcome::TooOften
            | Outcome::Unsuitable
            | Outcome::KnownPrivate
            | Outcome::Unused
            | Outcome::Blind
            | Outcome::Beside => {}
        }
        let is_shared = known.has(AccessSite::SHARED);
        match outcome {
            Outcome::Unused => self.named.looked_at(site, false),
            Outcome::Shared(_) | Outcome::Hit(_) | Outcome::Repeat => {
                self.named.looked_at(site, true)
            }
            _ => {}
        }
        match outcome {
            Outcome::Locked => function.locked = (function.locked + 1.0).min(MOST_LOCKED),
            Outcome::Held => function.locked = (function.locked + HELD).min(MOST_LOCKED),
            Outcome::Quiet if is_shared => function.quiet = (function.quiet + 1.0).min(MOST_QUIET),
            Outcome::Hit(_) | Outcome::Repeat => function.quiet = 0.0,
            _ => {}
        }
        match outcome {
            Outcome::NotReached => known.miss(home, &self.named, &mut self.missed),
            _ => {
                self.missed.remove(site);
                self.named.came_to(site);
            }
        }
        if is_reached {
            function.enliven(start, offset, &mut self.named);
        } else if outcome == Outcome::NotReached {
            function.miss(start, offset, &mut self.named);
        }
        self.stalled += u64::from(first);
        let is_candidate = function.candidate.is_some();
        self.weigh_named(site);
        if is_candidate || begins {
            self.weigh(start);
        }
    }

    /// Forgets a part of it.
    pub fn decay(&mut self) {
        self.decays = self.decays.wrapping_add(1);
        self.named.decay();
        for (start, function) in &mut self.functions {
            function.locked *= KEPT;
            function.quiet *= KEPT;
            for site in &mut function.sites {
                if site.fades(self.decays) {
                    site.penalty /= 2;
                    site.misses = site.misses.saturating_sub(1);
                }
                // Other threads may have come to use it, and the program to do something else.
                site.flags &= !(AccessSite::PRIVATE | AccessSite::LIVE);
            }
            function.want(*start, &self.named, &mut self.missed);
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

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x1000;
    /// From one site to the next: the third one is no neighbour of the first.
    const STEP: u32 = 30;

    /// A function that executes, with sites that name nothing but the last one.
    fn code(sites: u32) -> KnownCode {
        let site = |number| {
            let flags = u16::from(number + 1 == sites) * AccessSite::NAMED;
            AccessSite::new(number * STEP, flags, 0)
        };
        let function = Function {
            sites: (0..sites).map(site).collect(),
            executes: true,
            ..Function::default()
        };
        let mut code = KnownCode::default();
        let last = at(sites - 1);
        code.named.add(0x9000, last, true);
        code.functions.insert(START, function);
        code.weigh(START);
        code
    }

    fn at(number: u32) -> u64 {
        START + u64::from(number * STEP)
    }

    /// How often of a thousand times each site is chosen.
    fn chosen(code: &KnownCode, sites: u32) -> Vec<usize> {
        let choices = (0..1000).map(|number| code.site_of(START, number as f32 / 1000.0));
        let choices: Vec<_> = choices.collect();
        let times = |site| {
            choices
                .iter()
                .filter(|choice| **choice == Some(site))
                .count()
        };
        (0..sites).map(|number| times(at(number))).collect()
    }

    /// Check that those beside a site that was reached are preferred, and to that one itself, until it is forgotten.
    #[test]
    fn sites_beside_what_is_live_come_first() {
        let mut code = code(10);
        code.outcome(at(4), Outcome::Quiet);
        let times = chosen(&code, 10);
        for beside in [3, 5] {
            assert!(times[beside] > 3 * times[0], "{times:?}");
            assert!(times[beside] > 3 * times[4], "{times:?}");
        }
        code.outcome(at(0), Outcome::NotReached);
        let times = chosen(&code, 10);
        assert!(times[0] < times[1] / 3, "{times:?}");
        for _ in 0..4 {
            code.decay();
        }
        let times = chosen(&code, 10);
        assert!(times[3].abs_diff(times[1]) <= 1, "{times:?}");
    }

    /// Check that who names what two threads were seen to use is waited for where nobody was seen, rather than other sites that were
    /// missed, that long waits in vain count for the whole function, and that those who were seen are left to others.
    #[test]
    fn who_names_what_is_shared_is_wanted() {
        const ADDRESS: u64 = 0x9100;
        let mut code = code(10);
        for number in 0..3 {
            code.named.add(ADDRESS, at(number), number == 0);
        }
        code.functions.get_mut(&START).unwrap().executes = false;
        code.outcome(at(9), Outcome::NotReached);
        assert_eq!(code.missed.choose(0.5), Some(at(9)));
        code.is_shared(ADDRESS + 8);
        assert_eq!(code.missed.choose(0.99), Some(at(9)));
        code.is_shared(ADDRESS);
        let chosen = |code: &KnownCode, site| {
            let choices = (0..1000).map(|number| code.missed.choose(f64::from(number) / 1000.0));
            choices.filter(|choice| *choice == Some(site)).count()
        };
        for number in 0..3 {
            assert!((250..350).contains(&chosen(&code, at(number))));
        }
        let weight = |code: &KnownCode| {
            let (home, site) = code.at_home(at(1)).unwrap();
            site.missed_weight(home)
        };
        let before = weight(&code);
        code.missed_for_long(at(0));
        assert!(weight(&code) < before);
        code.outcome(at(0), Outcome::Quiet);
        code.shares(at(1));
        assert_eq!((chosen(&code, at(0)), chosen(&code, at(1))), (0, 0));
        assert!(chosen(&code, at(2)) > 700);
        // It was news once.
        code.is_shared(ADDRESS);
        assert_eq!(chosen(&code, at(0)), 0);
    }

    /// Check that who writes a variable that changes is waited for rather than any other one, unless somebody was seen who may have
    /// changed it.
    #[test]
    fn who_changes_what_changes_is_wanted() {
        const CHANGING: u64 = 0x9200;
        let look = |code: &mut KnownCode, value| {
            code.look_at_values(Timekeeper::Clock, &|_, bytes| {
                bytes[0x200] = value;
                true
            });
        };
        for is_seen in [false, true] {
            let mut code = code(10);
            code.named.add(CHANGING, at(0), false);
            code.named.add(CHANGING, at(1), true);
            code.named.add(CHANGING, at(2), true);
            code.outcome(at(9), Outcome::NotReached);
            if is_seen {
                code.outcome(at(2), Outcome::Unused);
                code.outcome(at(2), Outcome::Quiet);
            }
            look(&mut code, 0);
            assert_eq!(code.missed.choose(0.0), Some(at(9)));
            look(&mut code, 1);
            let wanted =
                (0..100).filter_map(|number| code.missed.choose(f64::from(number) / 100.0));
            let (ours, others): (Vec<_>, Vec<_>) =
                wanted.partition(|site| [at(1), at(2)].contains(site));
            if is_seen {
                assert!(ours.is_empty());
            } else {
                assert!(others.len() < 5);
                // Nobody comes: it is somebody else who changes it, or what is beside.
                let of_others = |code: &KnownCode| {
                    let number = |number| f64::from(number) / 1000.0;
                    let choices = (0..1000).map(|each| code.missed.choose(number(each)));
                    choices.filter(|site| *site == Some(at(9))).count()
                };
                let before = of_others(&code);
                for _ in 0..3 {
                    code.missed_for_long(at(1));
                }
                assert!(of_others(&code) > 2 * before);
            }
        }
    }

    /// Check that of what was missed, functions that are known to execute come first, however that was learned: to most
    /// others nobody ever comes.
    #[test]
    fn functions_that_execute_are_waited_in() {
        const OTHER: u64 = 0x2000;
        let mut code = code(10);
        let other = Function {
            sites: code.functions[&START].sites.clone(),
            ..Function::default()
        };
        code.functions.insert(OTHER, other);
        code.functions.get_mut(&START).unwrap().executes = false;
        let elsewhere = |code: &KnownCode| {
            let choices = (0..1000).map(|number| code.missed.choose(f64::from(number) / 1000.0));
            choices.filter(|site| *site == Some(OTHER)).count()
        };
        code.outcome(at(0), Outcome::NotReached);
        code.outcome(OTHER, Outcome::NotReached);
        assert!((450..550).contains(&elsewhere(&code)));
        code.outcome(at(5), Outcome::Unused);
        // Nor does it count any more that nobody came there.
        assert!((30..90).contains(&elsewhere(&code)));
    }

    /// Check that it is forgotten the more seldom that nobody came to a site, the more often in a row, but forgotten in the
    /// end; and that what else came of one is forgotten as ever.
    #[test]
    fn what_nobody_comes_to_is_forgotten_slowly() {
        let forgotten = |misses: u32, outcome| {
            let mut code = code(1);
            for _ in 0..misses {
                code.outcome(at(0), Outcome::NotReached);
            }
            code.outcome(at(0), outcome);
            let mut decays = 0;
            while code.get(at(0)).unwrap().penalty > 0 {
                code.decay();
                decays += 1;
                assert!(decays < 1000);
            }
            decays
        };
        let quiet = forgotten(0, Outcome::Quiet);
        assert_eq!(quiet, 2);
        for outcome in [Outcome::Quiet, Outcome::Unused, Outcome::TooOften] {
            assert!((8..10).contains(&forgotten(9, outcome)), "{outcome:?}");
        }
        let missed = [1, 3, 6].map(|misses| forgotten(misses - 1, Outcome::NotReached));
        assert!(
            missed.is_sorted_by(|one, next| 2 * one < *next),
            "{missed:?}"
        );
    }

    /// Check that nobody coming to a site counts against its neighbours where nobody was seen, and against no others.
    #[test]
    fn neighbours_of_what_is_missed_come_later() {
        let mut code = KnownCode::default();
        let offsets = [0, 8, 60, 68, 200];
        let site = |offset| AccessSite::new(offset, 0, 0);
        let function = Function {
            sites: offsets.map(site).to_vec(),
            executes: true,
            ..Function::default()
        };
        code.functions.insert(START, function);
        code.weigh(START);
        code.outcome(START + 68, Outcome::Quiet);
        code.outcome(START + 60, Outcome::NotReached);
        code.outcome(START, Outcome::NotReached);
        let penalties = offsets.map(|offset| {
            let site = code.get(START + u64::from(offset));
            site.expect("it is known").penalty
        });
        let [_, missed, _, reached, far] = penalties;
        assert_eq!((missed, far), (NEIGHBOUR_MISSED, 0));
        assert_eq!(reached, penalty(Outcome::Quiet, 0));
        let weight = |code: &KnownCode| {
            let (home, site) = code.at_home(START).expect("it is known");
            site.missed_weight(home)
        };
        let missed_once = weight(&code);
        code.outcome(START, Outcome::NotReached);
        assert!(weight(&code) < missed_once);
    }

    /// Check that locks and, at shared sites, quiet stalls make a function promise less, that quiet ones count no more
    /// after a race, and that one object of one thread does not make a shared site private.
    #[test]
    fn functions_promise_what_their_stalls_have_shown() {
        let mut code = code(10);
        let conflict = super::super::strategy::Conflict {
            behind: at(1),
            distance: Duration::from_millis(1),
        };
        assert_eq!(code.promise(at(0)), 1.0);
        code.outcome(at(0), Outcome::Quiet);
        assert_eq!(code.promise(at(5)), 1.0);
        code.outcome(at(0), Outcome::Shared(conflict));
        code.outcome(at(0), Outcome::Quiet);
        assert_eq!(code.promise(at(5)), 1.0 / (1.0 + LESS_BY_QUIET));
        code.outcome(at(0), Outcome::Hit(conflict));
        assert_eq!(code.promise(at(5)), 1.0);
        for _ in 0..50 {
            code.outcome(at(1), Outcome::Locked);
            code.outcome(at(1), Outcome::Held);
        }
        let least = code.promise(at(5));
        assert_eq!(least, 1.0 / (1.0 + LESS_BY_LOCKED * MOST_LOCKED));
        code.decay();
        assert!(code.promise(at(5)) > least);
        code.outcome(at(0), Outcome::Private);
        code.outcome(at(2), Outcome::Private);
        let is = |site, flag| code.get(at(site)).is_some_and(|site| site.has(flag));
        assert!(is(0, AccessSite::SHARED) && !is(0, AccessSite::PRIVATE));
        assert!(is(2, AccessSite::PRIVATE));
        code.shares(at(2));
        let known = code.get(at(2)).expect("it is known");
        assert!(known.has(AccessSite::SHARED) && !known.has(AccessSite::PRIVATE));
    }

    /// Check that a variable's site weighs more once somebody was seen beside it.
    #[test]
    fn variables_beside_what_is_live_come_first() {
        let mut code = code(10);
        let before = code.named.untried();
        let random = &mut fastrand::Rng::with_seed(1);
        assert!(before > 0.0 && code.named.choose(random) == Some(at(9)));
        code.outcome(at(8), Outcome::Quiet);
        assert!(code.named.untried() > 2.0 * before);
        code.decay();
        assert!(code.named.untried() <= before);
    }
}
