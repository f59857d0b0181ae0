//! What is remembered of the program's code from when it was watched before, as the planner is told it; and what is gained for the next time.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    hunt::{
        memory::{Gained, KnownFunction, Of, Raced, Remembered, counts_of, in_parts, parts_of},
        plan::{
            counts::Counts,
            event::{FunctionId, SiteId, What},
        },
        strategy::CodeView,
    },
    insn::x86_64::fingerprint,
};

/// Sites in an event: a record of the decision log has a bound.
const MOST_TOLD: usize = 256;
/// Functions that are remembered of a module, at most; and modules.
const MOST_REMEMBERED: usize = 1 << 16;
const MOST_MODULES: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Somebody keeps what is gained. (Else no fingerprint is computed.)
    pub(super) is_kept: bool,
    /// What is remembered, by where modules begin.
    modules: BTreeMap<u64, Module>,
    /// The functions that were looked at, by their beginnings.
    functions: BTreeMap<u64, Function>,
    /// Those of which nobody was told yet that there are such functions.
    new: Vec<u64>,
    /// Modules of whose functions the planner is still to be told: all is remembered of them since.
    arrived: Vec<u64>,
    /// It was told that all functions were looked at.
    is_whole_told: bool,
    /// Races that are remembered: a site, and the other one's function and place in it.
    raced: HashSet<(u64, (u64, u32))>,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    fingerprint: u64,
    /// The planner was told what is remembered of it.
    is_told: bool,
}

#[derive(Debug, Default)]
struct Module {
    /// In the same build, by where they are.
    same: HashMap<u64, KnownFunction>,
    /// In other builds, by their fingerprints.
    others: HashMap<u64, KnownFunction>,
    /// All functions of one of those are known.
    is_whole: bool,
    /// No more of it is to come.
    is_complete: bool,
}

impl Memory {
    /// Nothing of the code is known any more. What is remembered of modules holds until it is told that other ones stand there.
    pub(super) fn forget(&mut self) {
        *self = Self {
            is_kept: self.is_kept,
            modules: std::mem::take(&mut self.modules),
            ..Self::default()
        };
    }

    /// This is remembered.
    pub(super) fn remember(&mut self, remembered: Remembered) {
        if self.modules.len() >= MOST_MODULES && !self.modules.contains_key(&remembered.module) {
            return;
        }
        if remembered.is_first {
            self.modules.remove(&remembered.module);
        }
        let module = self.modules.entry(remembered.module).or_default();
        if module.same.len() + module.others.len() + remembered.functions.len() <= MOST_REMEMBERED {
            let functions = remembered.functions.into_iter();
            match remembered.of {
                Of::Same => {
                    let by_place = functions.map(|function| (function.at, function));
                    module.same.extend(by_place);
                }
                Of::Others { is_whole } => {
                    module.is_whole |= is_whole;
                    let by_code = functions.map(|function| (function.fingerprint, function));
                    module.others.extend(by_code);
                }
            }
        }
        if remembered.is_last {
            module.is_complete = true;
            self.arrived.push(remembered.module);
        }
    }

    /// A function was looked at: what the planner is to be told of it, behind its sites.
    pub(super) fn looked_at(&mut self, start: u64, code: &dyn CodeView) -> Vec<What> {
        if !self.is_kept {
            return Vec::new();
        }
        let Some((start, bytes)) = code.function(start) else {
            return Vec::new();
        };
        let function = Function {
            fingerprint: fingerprint(start, bytes),
            is_told: false,
        };
        self.functions.insert(start, function);
        self.new.push(start);
        self.tell(start, code)
    }

    /// What it is to be told of functions that were looked at before it was known what is remembered of them.
    pub(super) fn news(&mut self, code: &dyn CodeView) -> Vec<What> {
        let mut news = Vec::new();
        for module in std::mem::take(&mut self.arrived) {
            // There may be no code where it begins.
            let is_in = |start| {
                code.module_of(start)
                    .is_some_and(|(range, _)| range.start == module)
            };
            let functions = self.functions.range(module..).map(|(start, _)| *start);
            for start in functions
                .take_while(|start| is_in(*start))
                .collect::<Vec<_>>()
            {
                news.extend(self.tell(start, code));
            }
        }
        news
    }

    fn tell(&mut self, start: u64, code: &dyn CodeView) -> Vec<What> {
        let Some((range, _)) = code.module_of(start) else {
            return Vec::new();
        };
        let module = self.modules.get(&range.start);
        let Some(module) = module.filter(|module| module.is_complete) else {
            return Vec::new();
        };
        let Some(function) = self.functions.get_mut(&start) else {
            return Vec::new();
        };
        if std::mem::replace(&mut function.is_told, true) {
            return Vec::new();
        }
        let own = function.fingerprint;
        // Where the code is another one, a file has another one's name, or somebody has written nonsense.
        let same = module.same.get(&(start - range.start));
        let same = same.filter(|same| same.fingerprint == own);
        let others = module.others.get(&own);
        let mut known = others.cloned().unwrap_or_default();
        if let Some(same) = same {
            known.add(1.0, same);
        }
        let site = |at: u32| start.wrapping_add(u64::from(at));
        let raced = known.raced.iter().map(|raced| (site(raced.at), raced.with));
        self.raced.extend(raced);
        let counts = known
            .sites
            .iter()
            .filter_map(|(at, parts)| Some((SiteId(site(*at)), counts_of(parts)?)));
        let counts: Vec<_> = counts.collect();
        if known.is_untried() && others.is_none() && module.is_whole {
            return vec![What::New(FunctionId(start))];
        }
        let some = counts.chunks(MOST_TOLD);
        some.map(|some| What::Told(some.to_vec())).collect()
    }

    /// Whether a race of two sites is remembered, whichever of them it was at which a thread was stalled.
    pub(super) fn knows_race(&self, one: u64, other: u64) -> bool {
        let has = |site, with| {
            let with = self.place_in_function(with);
            with.is_some_and(|with| self.raced.contains(&(site, with)))
        };
        has(one, other) || has(other, one)
    }

    /// The fingerprint of a site's function, and how far the site is from its beginning.
    fn place_in_function(&self, site: u64) -> Option<(u64, u32)> {
        let (start, function) = self.functions.range(..=site).next_back()?;
        let at = u32::try_from(site - start).ok()?;
        Some((function.fingerprint, at))
    }

    /// What was gained since the last time, in parts. `seen`: at sites; `raced`: sites of which a race was told; `function`: in which one each of them is.
    /// `is_whole`: all functions were looked at.
    pub(super) fn gained(
        &mut self,
        seen: Vec<(SiteId, Counts)>,
        raced: &[(u64, u64)],
        function: impl Fn(u64) -> Option<u64>,
        is_whole: bool,
        code: &dyn CodeView,
    ) -> Vec<Gained> {
        if !self.is_kept {
            return Vec::new();
        }
        let mut gained = BTreeMap::<u64, KnownFunction>::new();
        for start in std::mem::take(&mut self.new) {
            gained.entry(start).or_default();
        }
        for (SiteId(site), counts) in seen {
            if let Some(start) = function(site)
                && let Ok(at) = u32::try_from(site.wrapping_sub(start))
            {
                let known = gained.entry(start).or_default();
                known.sites.push((at, parts_of(counts)));
            }
        }
        for (one, other) in raced {
            if let (Some(start), Some(with)) = (function(*one), self.place_in_function(*other))
                && let Ok(at) = u32::try_from(one.wrapping_sub(start))
            {
                let known = gained.entry(start).or_default();
                known.raced.push(Raced { at, with });
            }
        }
        let mut modules = BTreeMap::<u64, Vec<KnownFunction>>::new();
        if is_whole && !std::mem::replace(&mut self.is_whole_told, is_whole) {
            let mut next = 0;
            while let Some((&start, _)) = self.functions.range(next..).next() {
                let range = code.module_of(start).map(|(range, _)| range);
                next = range.as_ref().map_or(start + 1, |range| range.end);
                if let Some(range) = range {
                    modules.entry(range.start).or_default();
                }
            }
        }
        for (start, known) in gained {
            if let (Some((range, _)), Some(own)) =
                (code.module_of(start), self.functions.get(&start))
            {
                let functions = modules.entry(range.start).or_default();
                functions.push(KnownFunction {
                    at: start - range.start,
                    fingerprint: own.fingerprint,
                    ..known
                });
            }
        }
        let mut all = Vec::new();
        for (module, functions) in modules {
            let mut parts = in_parts(functions);
            if parts.is_empty() {
                parts.push(Vec::new());
            }
            all.extend(parts.into_iter().map(|functions| Gained {
                module,
                functions,
                is_whole,
            }));
        }
        all
    }
}

#[cfg(test)]
mod tests;
