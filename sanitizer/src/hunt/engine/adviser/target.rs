//! Which bytes a stall watches: those of an access that the thread is about to make.

use gwp_race_abi::own;

use crate::addr::RuntimeAddr;
use crate::hunt::classify::BEYOND;
use crate::hunt::engine::rig::{Rig, Standing};
use crate::hunt::modules::ModuleSet;
use crate::hunt::strategy::{CodeView as _, Known};
use crate::hunt::watched;
use crate::hunt::watched::Watched;
use crate::insn::x86_64::{Upcoming, upcoming};
use crate::insn::{MemAccess, Regs};
use crate::kernel::perf::WatchKind;
use crate::pcmeta::Atomicity;
use crate::verdict::Reason;

use super::Adviser;
use super::decisions::Way;

/// Instructions ahead, at most.
const AHEAD: usize = 12;

/// Bytes by which a call moves the stack pointer.
const RETURN_ADDRESS: u64 = 8;

impl Adviser {
    /// Chooses what to watch of what a thread is about to access that stands at a site. `is_fixed`: only what it accesses there.
    pub fn choose(
        &mut self,
        rig: &mut Rig,
        thread: &Standing,
        site: u64,
        is_fixed: bool,
    ) -> Result<Watched, watched::Unsuitable> {
        let Standing { tid, regs, call } = thread;
        if rig.in_rseq(*tid, regs) {
            return Err("restartable-sequence");
        }
        let contract = rig.modules.routines().contract(regs.rip);
        match (call, contract) {
            (Some(call), Some(contract)) => {
                let behind = RuntimeAddr(call.return_address);
                // As the gate has it, which looks at the call.
                let frame = match self.strategy.own_frame(site) {
                    0 => 0,
                    frame => frame + RETURN_ADDRESS,
                };
                let is_own = |_, address| own::is_own(address, regs.rsp, regs.fs_base, frame);
                watched::choose_in_call(contract, regs, behind, is_own, &mut self.random)
            }
            (None, _) if rig.modules.is_routine(regs.rip) => Err(Reason::UnanalyzedCaller.name()),
            (None, _) => self.choose_ahead(rig, *tid, regs, is_fixed),
            (Some(call), None) => {
                let watched = self.choose_ahead(rig, *tid, regs, true)?;
                if call.may_be_beyond(watched.access.kind) {
                    return Err(BEYOND);
                }
                Ok(watched)
            }
        }
    }

    /// Chooses one of the accesses that a thread is certain to make next, and takes note of what all of them use.
    /// What leads to a memory routine, or stands in one, is taken as it is.
    fn choose_ahead(
        &mut self,
        rig: &mut Rig,
        tid: u32,
        regs: &Regs,
        is_fixed: bool,
    ) -> Result<Watched, watched::Unsuitable> {
        /// How much more the strategy's own choice is worth than what stands beside it, and one that is known to be
        /// contended.
        const SITE: f64 = 2.0;
        const CONTENDED: f64 = 16.0;
        /// The same of what the thread's callers keep on its stack, against all other memory: they seldom share it.
        const OWN_STACK: f64 = 0.5;
        let own_stack = regs.rsp..rig.stack_end(regs);
        let strategy = &self.strategy;
        let is_own = |pc: u64, address: u64| {
            own::is_own(address, regs.rsp, regs.fs_base, strategy.own_frame(pc))
        };
        let learns = rig.setup.learns;
        let limit = if is_fixed || !learns { 1 } else { AHEAD };
        let can = [WatchKind::Writes, WatchKind::ReadsAndWrites]
            .map(|kind| (kind, rig.arming.watchpoints().are_for(kind)));
        let mut ahead = upcoming(rig.modules.code(regs.rip), regs, limit);
        // What comes behind an instruction that may synchronize may be ordered by it.
        let plain = ahead
            .iter()
            .take_while(|step| !may_synchronize(&rig.modules, step));
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

    /// Plain accesses of analyzed code that a thread is certain to make next, wherever it stands, and that are not its own: each with the instruction that
    /// makes it, and what comes behind.
    pub fn certain(&mut self, rig: &Rig, regs: &Regs) -> Vec<(u64, RuntimeAddr, MemAccess)> {
        let modules = &rig.modules;
        if self.barren.has(regs.rip) {
            return Vec::new();
        }
        if !modules.is_analyzed(regs.rip) {
            self.barren.add(regs.rip);
            return Vec::new();
        }
        let steps = upcoming(modules.code(regs.rip), regs, AHEAD);
        let plain = (steps.iter()).take_while(|step| !may_synchronize(modules, step));
        let accesses = plain.flat_map(|step| {
            let accesses = step.accesses.iter().flatten();
            accesses.map(move |access| (step.pc, RuntimeAddr(step.behind), *access))
        });
        let mut all: Vec<_> = accesses
            .filter(|(_, _, access)| {
                let is_private = access.thread_local || access.stack_implicit || access.locked;
                !is_private && access.size > 0
            })
            .collect();
        if all.is_empty() {
            self.barren.add(regs.rip);
        }
        all.retain(|(pc, _, access)| {
            let is_whole = access.address.checked_add(access.size.into()).is_some();
            let frame = self.strategy.own_frame(*pc);
            is_whole && !own::is_own(access.address, regs.rsp, regs.fs_base, frame)
        });
        all
    }

    /// Where memory is mapped at several addresses, each of them is watched as often: others may reach it there.
    pub fn watch_aliases(&mut self, rig: &Rig, watched: Watched) -> Watched {
        // Whether one is still there is asked of all mappings.
        let aliases = match rig.loader.is_dear() {
            true => Vec::new(),
            false => rig.modules.aliases(watched.address.0),
        };
        if aliases.is_empty() {
            return watched;
        }
        let choice = self.random.usize(..=aliases.len());
        let chosen = aliases.get(choice).map(|alias| watched.elsewhere(*alias));
        chosen
            .filter(|watched| rig.is_still_alias(watched))
            .unwrap_or(watched)
    }
}

/// Whether an instruction may order what comes behind it, or it is unknown what it does.
fn may_synchronize(modules: &ModuleSet, step: &Upcoming) -> bool {
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
}
