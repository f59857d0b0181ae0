//! What the planner is told of the target's code: its sites, and where threads were seen.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{
    hunt::{
        known_code::{KnownCode, site::AccessSite, sweep::Sweep},
        memory::Gained,
        plan::{
            counts::Counts,
            event::{FunctionId, MemberId, SiteFacts, SiteId, VariableId, What},
        },
        return_addresses::return_addresses,
        stint::Timekeeper,
        strategy::{CodeView, Conflict, SiteProbe},
    },
    insn::x86_64::{Approaches, member},
};

use super::memory::Memory;

/// Samples that are kept until they are looked at.
const MOST_NOTED: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) known: KnownCode,
    sweep: Sweep,
    has_begun: bool,
    /// Program counters and stack words of stopped threads, which are looked at when none stands.
    noted: Vec<(u64, Vec<u64>)>,
    /// Where threads were seen, which the planner is still to be told.
    seen: Vec<u64>,
    /// Functions in which they were, by their beginnings.
    executed: HashSet<u64>,
    /// Variables that change, of which it was told.
    changing: HashSet<u64>,
    /// It is of interest where sites can be probed; and where they can.
    pub(super) has_probes: bool,
    probes: HashMap<u64, SiteProbe>,
    /// Those of them that were not told yet.
    pub(super) new_probes: Vec<SiteProbe>,
    pub(super) timekeeper: Timekeeper,
    /// What is remembered of it.
    pub(super) memory: Memory,
}

impl Code {
    pub(super) fn new(number: u64, timekeeper: Timekeeper) -> Self {
        Self {
            known: KnownCode::default(),
            sweep: Sweep::from(number),
            has_begun: false,
            noted: Vec::new(),
            seen: Vec::new(),
            executed: HashSet::new(),
            changing: HashSet::new(),
            has_probes: false,
            probes: HashMap::new(),
            new_probes: Vec::new(),
            timekeeper,
            memory: Memory::default(),
        }
    }

    /// Nothing of it is known any more.
    pub(super) fn forgotten(&mut self, number: u64) -> Self {
        self.memory.forget();
        Self {
            has_probes: self.has_probes,
            memory: std::mem::take(&mut self.memory),
            ..Self::new(number, self.timekeeper)
        }
    }

    /// Where threads can be seen on their way to a site.
    pub(super) fn probe(&self, site: u64) -> Option<SiteProbe> {
        self.probes.get(&site).copied()
    }

    /// Whether threads were seen in a site's function.
    pub(super) fn is_executed(&self, site: u64) -> bool {
        let start = self.known.start_of(site);
        start.is_some_and(|start| self.executed.contains(&start))
    }

    /// Finds that for all accesses of a function.
    fn find_probes(&mut self, start: u64, code: &dyn CodeView) {
        let Some((start, code)) = code.function(start).filter(|_| self.has_probes) else {
            return;
        };
        let approaches = Approaches::of(start, code);
        for (site, known) in self.known.sites_in(start) {
            if known.has(AccessSite::CALL) {
                continue;
            }
            // Behind a conditional jump he may go another way, and would be counted here: rather one where he cannot.
            let points = approaches.to(site).points;
            let certain = points.iter().find(|point| point.is_certain);
            if let Some(point) = certain.or(points.first()) {
                let (pc, recipe) = (point.pc, point.recipe);
                let probe = SiteProbe { site, pc, recipe };
                if self.probes.insert(site, probe) != Some(probe) {
                    self.new_probes.push(probe);
                }
            }
        }
    }

    /// There is more of it.
    pub(super) fn extend(&mut self, number: u64) {
        self.sweep.restart(number);
        self.known.look_again();
    }

    /// Takes note of where a stopped thread stands.
    pub(super) fn note(&mut self, pc: u64, stack: impl FnOnce() -> Vec<u64>) {
        if self.noted.len() < MOST_NOTED {
            self.noted.push((pc, stack()));
        }
    }

    /// Threads were seen to execute there.
    pub(super) fn executes(&mut self, pc: u64, code: &dyn CodeView) {
        self.known.executes(pc, code);
        if self.seen.len() < MOST_NOTED {
            self.seen.push(pc);
        }
    }

    /// Looks at some more of it, while no thread stands.
    pub(super) fn look(&mut self, code: &dyn CodeView) {
        for (pc, stack) in std::mem::take(&mut self.noted) {
            self.executes(pc, code);
            for caller in return_addresses(&stack, code) {
                self.executes(caller.wrapping_sub(1), code);
            }
        }
        self.known.look_at_called(code, self.timekeeper);
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        (self.sweep).learn(&mut self.known, code, is_first, self.timekeeper);
    }

    /// What of it the planner was not told yet.
    pub(super) fn news(&mut self, code: &dyn CodeView) -> Vec<What> {
        let mut news = Vec::new();
        for start in self.known.take_new() {
            self.find_probes(start, code);
            let sites = self.known.sites_in(start);
            let facts = sites.map(|(at, site)| self.facts(start, at, site, code));
            let facts: Arc<[SiteFacts]> = facts.collect();
            if !facts.is_empty() {
                news.push(What::Code(facts));
            }
            news.extend(self.memory.looked_at(start, code));
        }
        news.extend(self.memory.news(code));
        for pc in std::mem::take(&mut self.seen) {
            self.executed.extend(self.known.start_of(pc));
            let beside = self.known.site_beside(pc);
            let function = || self.known.start_of(pc).map(FunctionId);
            let seen = beside.map(|site| What::Seen(SiteId(site)));
            news.extend(seen.or_else(|| function().map(What::Executes)));
        }
        let changing = self.known.variables.changing().iter().copied();
        for variable in changing {
            if self.changing.insert(variable) {
                news.push(What::Changes(VariableId(variable)));
            }
        }
        news
    }

    /// What was gained of it since the last time, with this that was seen at sites.
    pub(super) fn gained(
        &mut self,
        seen: Vec<(SiteId, Counts)>,
        raced: &[(u64, u64)],
        code: &dyn CodeView,
    ) -> Vec<Gained> {
        let mut site = |behind| self.known.site_before(behind, code).unwrap_or(behind);
        let raced = raced.iter().map(|(one, other)| (site(*one), site(*other)));
        let raced: Vec<_> = raced.collect();
        let is_whole = self.sweep.is_over(code);
        let known = &self.known;
        let function = |site| known.start_of(site);
        self.memory.gained(seen, &raced, function, is_whole, code)
    }

    /// Whether a race of a site with the access that ends at an address is remembered.
    pub(super) fn knows_race(&mut self, site: u64, behind: u64, code: &dyn CodeView) -> bool {
        let other = self.known.site_before(behind, code);
        other.is_some_and(|other| self.memory.knows_race(site, other))
    }

    fn facts(&self, start: u64, at: u64, site: AccessSite, code: &dyn CodeView) -> SiteFacts {
        let variable = self.known.variables.of(at).map(VariableId);
        // What it goes by may be a pointer to the thread's own frame, which it has given to others.
        let is_access = variable.is_none() && !site.has(AccessSite::CALL);
        let member = is_access.then(|| member(code.code(at), at)).flatten();
        SiteFacts {
            site: SiteId(at),
            function: FunctionId(start),
            // What a memory routine does may write as well.
            writes: site.has(AccessSite::WRITES | AccessSite::CALL),
            variable,
            member: member.map(|member| MemberId(member.distance)),
            can_be_probed: self.probes.contains_key(&at),
        }
    }

    /// The site whose access was made there.
    pub(super) fn site_of(&mut self, conflict: Conflict, code: &dyn CodeView) -> SiteId {
        let site = self.known.site_before(conflict.behind, code);
        SiteId(site.unwrap_or(conflict.behind))
    }
}
