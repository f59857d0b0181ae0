//! Which bytes a stall watches: those of an access that the thread is about to make.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::own;

use crate::addr::RuntimeAddr;
use crate::hunt::alias;
use crate::hunt::strategy::CodeView as _;
use crate::hunt::strategy::Known;
use crate::hunt::watched;
use crate::hunt::watched::Watched;
use crate::insn::MemAccess;
use crate::insn::Regs;
use crate::insn::x86_64::Upcoming;
use crate::insn::x86_64::upcoming;
use crate::kernel::perf::WatchKind;
use crate::pcmeta::Atomicity;
use crate::tracee::maps::Maps;

use super::decisions::Way;
use super::{Engine, as_pid};

impl Engine {
    /// Chooses one of the accesses that a thread is certain to make next, and takes note of what all of them use.
    /// What leads to a memory routine, or stands in one, is taken as it is.
    pub(super) fn choose_ahead(
        &mut self,
        tid: u32,
        regs: &Regs,
        is_fixed: bool,
    ) -> Result<Watched, watched::Unsuitable> {
        /// Instructions ahead, at most.
        const AHEAD: usize = 12;
        /// How much more the strategy's own choice is worth than what stands beside it, and one that is known to be
        /// contended.
        const SITE: f64 = 2.0;
        const CONTENDED: f64 = 16.0;
        /// The same of what the thread's callers keep on its stack, against all other memory: they seldom share it.
        const OWN_STACK: f64 = 0.5;
        let own_stack = regs.rsp..self.stack_end(regs);
        let strategy = &self.strategy;
        let is_own = |pc: u64, address: u64| {
            own::is_own(address, regs.rsp, regs.fs_base, strategy.own_frame(pc))
        };
        let learns = self.setup.learns;
        let limit = if is_fixed || !learns { 1 } else { AHEAD };
        let can = [WatchKind::Writes, WatchKind::ReadsAndWrites]
            .map(|kind| (kind, self.arming.watchpoints().are_for(kind)));
        let modules = &self.modules;
        let mut ahead = upcoming(modules.code(regs.rip), regs, limit);
        let may_synchronize = |step: &&Upcoming| {
            let (Some(place), Ok(accesses)) = (modules.place(step.pc), &step.accesses) else {
                return true;
            };
            let Some(metadata) = &place.module.metadata else {
                return true;
            };
            let known = accesses.iter().map(|access| (access.kind, access.size));
            let mut all = known.chain(step.elsewhere.iter().copied());
            metadata.is_atomic(place.link)
                || all.any(|(kind, size)| {
                    metadata.atomicity(place.link, size.into(), kind) != Atomicity::Plain
                })
        };
        // What comes behind such an instruction may be ordered by it.
        let plain = ahead.iter().take_while(|step| !may_synchronize(step));
        ahead.truncate(plain.count().max(1));
        let lines = &self.learned.lines;
        let sought = match self.decisions.way {
            Way::Wait(Known::Contended) => CONTENDED,
            _ => SITE,
        };
        let worth = |index: usize, access: &MemAccess| {
            if !learns {
                return 1.0;
            }
            let sought = match index {
                0 => sought,
                _ if can.contains(&(watched::kind_for(access.kind), true)) => 1.0,
                // The processors' watchpoints are for something else.
                _ => return 0.0,
            };
            let place = if own_stack.contains(&access.address) {
                OWN_STACK
            } else {
                1.0
            };
            sought * place * lines.worth(access.address, tid)
        };
        let chosen = watched::choose(&ahead, is_own, worth, &mut self.random);
        let shared = ahead.iter().flat_map(|step| {
            let accesses = step.accesses.iter().flatten();
            let shared = accesses.filter(|access| {
                let is_own = is_own(step.pc, access.address);
                !access.stack_implicit && !access.thread_local && !is_own
            });
            shared.map(|access| access.address)
        });
        self.learned.lines.used(shared, tid);
        chosen
    }

    /// Has the gate keep accesses by libraries, where they may be results that the program has called for.
    pub(super) fn keep_results(&self, watched: RuntimeAddr) {
        let may_hold_results = self.modules.may_hold_results(watched.0);
        let keep = &self.gates.control().evidence.keep_results;
        keep.store(u64::from(may_hold_results), SeqCst);
    }

    /// Where memory is mapped at several addresses, each of them is watched as often: others may reach it there.
    pub(super) fn watch_aliases(&mut self, watched: Watched) -> Watched {
        // Whether one is still there is asked of all mappings.
        let aliases = match self.loader.is_dear() {
            true => Vec::new(),
            false => self.modules.aliases(watched.address.0),
        };
        if aliases.is_empty() {
            return watched;
        }
        let choice = self.random.usize(..=aliases.len());
        let chosen = aliases.get(choice).map(|alias| watched.elsewhere(*alias));
        chosen
            .filter(|watched| self.is_still_alias(watched))
            .unwrap_or(watched)
    }

    /// Whether the bytes that are watched are those that are about to be accessed, as of now: mappings change.
    pub(super) fn is_still_alias(&self, watched: &Watched) -> bool {
        let address = watched.address.0.wrapping_sub(watched.alias);
        watched.alias == 0
            || Maps::read(as_pid(self.program.pid))
                .is_ok_and(|maps| alias::others(&maps, address).contains(&watched.alias))
    }
}
