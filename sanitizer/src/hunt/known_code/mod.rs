//! What is known of the target's code: the functions that were looked at, their access sites, and the variables that those name.
//!
//! A function is looked at once: when a thread was seen in it, when one that was is known to call it, or by the [`sweep`]. Nothing here decides where to
//! stall.

mod calls;
mod function;
pub mod site;
pub mod sweep;
pub mod variables;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use gwp_race_abi::own;

use super::{
    stint::Timekeeper,
    strategy::{CodeView, Outcome},
    values::Read,
};
use crate::report::LookedAt;

use function::Function;
use site::AccessSite;
use variables::Variables;

/// Functions whose sites are remembered.
pub const MEMORY: usize = 1 << 15;
/// Called functions that are looked at in one go, at most, and for how long.
const LOOKED_AT: usize = 64;
const LOOK: Duration = Duration::from_micros(300);
/// So many bytes away is right beside: a few instructions, often of the same basic block.
const BESIDE: u32 = 48;

/// See the module.
#[derive(Debug, Default)]
pub struct KnownCode {
    /// By run-time start.
    functions: BTreeMap<u64, Function>,
    /// Some that are called by others which execute, and were not looked at yet.
    called: VecDeque<u64>,
    /// Functions whose calls may lead elsewhere than when they were looked at.
    outdated: VecDeque<u64>,
    /// What sites name.
    pub variables: Variables,
    /// Sites known, and those of them that were stalled at.
    sites: u64,
    stalled: u64,
    /// Functions that were looked at since that was asked for: their starts.
    new: Vec<u64>,
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
        let function = Function::of(start, bytes, code, &mut self.variables);
        self.sites += function.sites().len() as u64;
        self.functions.insert(start, function);
        self.new.push(start);
        Some(start)
    }

    /// The functions that were looked at since the last time: their starts.
    pub fn take_new(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.new)
    }

    /// The sites of a function that was looked at, in the order of addresses.
    pub fn sites_in(&self, start: u64) -> impl Iterator<Item = (u64, AccessSite)> {
        let sites = self.functions.get(&start).map(Function::sites);
        let sites = sites.into_iter().flatten();
        sites.map(move |site| (site.at(start), *site))
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
        let distance = |site: &&AccessSite| site.offset().abs_diff(offset);
        let nearest = function.sites().iter().min_by_key(distance)?;
        (distance(&nearest) <= BESIDE).then(|| nearest.at(start))
    }

    /// The site whose access ends right before an address.
    #[must_use]
    pub fn site_before(&mut self, behind: u64, code: &dyn CodeView) -> Option<u64> {
        /// The longest instruction.
        const MOST_BYTES: u64 = 15;
        let start = self.learn(behind.wrapping_sub(1), code)?;
        let sites = self.functions.get(&start)?.sites();
        let before = sites.partition_point(|site| site.at(start) < behind);
        let site = sites.get(before.checked_sub(1)?)?.at(start);
        (behind - site <= MOST_BYTES).then_some(site)
    }

    /// A thread was seen in the function around an address.
    pub fn executes(&mut self, pc: u64, code: &dyn CodeView) {
        if let Some(start) = self.learn(pc, code)
            && let Some(function) = self.functions.get_mut(&start)
        {
            self.called.extend(function.begin());
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
            self.learn(target, code);
            if begun.elapsed() > LOOK {
                break;
            }
        }
    }

    /// Looks at the values of some more variables.
    pub fn look_at_values(&mut self, timekeeper: Timekeeper, read: &Read<'_>) {
        self.variables.look_at_values(timekeeper, read);
    }

    /// What is known of a site.
    #[must_use]
    pub fn get(&self, site: u64) -> Option<AccessSite> {
        let (start, index) = self.find(site)?;
        let function = self.functions.get(&start)?;
        function.sites().get(index).copied()
    }

    /// So many bytes from the stack pointer up belong to the thread alone that comes to an instruction.
    #[must_use]
    pub fn own_frame(&self, pc: u64) -> u64 {
        self.get(pc).map_or(own::FRAME, AccessSite::own_frame)
    }

    /// Two threads were seen to use the bytes of a site.
    pub fn shares(&mut self, site: u64) {
        self.came_to(site, AccessSite::SHARED);
    }

    /// What came of a try.
    pub fn outcome(&mut self, site: u64, outcome: Outcome) {
        let flag = match outcome {
            // What is unsuitable was maybe not even waited for.
            Outcome::NotReached | Outcome::Unsuitable => return,
            Outcome::Quiet | Outcome::Locked | Outcome::Hit(_) | Outcome::Repeat => {
                AccessSite::STALLED
            }
            Outcome::Shared(_) => AccessSite::SHARED,
            Outcome::Held
            | Outcome::TooOften
            | Outcome::KnownPrivate
            | Outcome::Private
            | Outcome::Unused
            | Outcome::Blind
            | Outcome::Beside => 0,
        };
        let before = self.came_to(site, flag);
        let is_first = before.is_some_and(|before| !before.has(AccessSite::STALLED));
        self.stalled += u64::from(flag == AccessSite::STALLED && is_first);
    }

    /// A thread came to a site, of which this is known from now on; what was known before.
    fn came_to(&mut self, site: u64, flag: u16) -> Option<AccessSite> {
        let (start, index) = self.find(site)?;
        let function = self.functions.get_mut(&start)?;
        self.called.extend(function.begin());
        function.mark(index, flag)
    }

    /// Forgets what may have been so for a time only: which variables change.
    pub fn decay(&mut self) {
        self.variables.decay();
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
        functions
            .map(|(&start, function)| function.looked_at(start))
            .collect()
    }

    /// Where the site that is called so is kept: its function's start, and its index there.
    fn find(&self, site: u64) -> Option<(u64, usize)> {
        let (start, function) = self.functions.range(..=site).next_back()?;
        let offset = u32::try_from(site - start).ok()?;
        Some((*start, function.find(offset)?))
    }
}

#[cfg(test)]
mod tests;
