//! What a thread that stands is about to do, as far as its code and its memory tell.

use crate::addr::RuntimeAddr;
use crate::hunt::engine::as_pid;
use crate::hunt::routine_call::RoutineCall;
use crate::hunt::strategy::CodeView as _;
use crate::hunt::watched::Watched;
use crate::hunt::{alias, routine_call};
use crate::insn::Regs;
use crate::kernel::gates::Hit;
use crate::symbols::StackSnapshot;
use crate::tracee::maps::Maps;
use crate::tracee::memory;

use super::Rig;

/// Stack bytes kept of a thread that stands still.
const STANDING_STACK: usize = 256 * 1024;

impl Rig {
    /// The call of the memory routine in which a stopped thread stands, if it does in one and
    /// analyzed code has called it.
    pub fn routine_call<'a>(
        &self,
        regs: &Regs,
        stack: &dyn Fn() -> &'a StackSnapshot,
    ) -> Option<RoutineCall> {
        self.modules
            .is_routine(regs.rip)
            .then(|| routine_call::of_routine(&self.modules, regs, stack()))
            .flatten()
    }

    pub fn stack_end(&self, regs: &Regs) -> u64 {
        self.modules
            .mapping_end(regs.rsp)
            .unwrap_or_else(|| regs.rsp.saturating_add(8 << 20))
    }

    pub fn read_stack(&self, from: u64) -> Vec<u8> {
        let mut stack = vec![0; STANDING_STACK];
        let len =
            memory::read(as_pid(self.program.pid), RuntimeAddr(from), &mut stack).unwrap_or(0);
        stack.truncate(len);
        stack
    }

    /// A stalled thread that is inside a restartable sequence may be sent to its abort handler
    /// instead of making its access.
    pub fn in_rseq(&mut self, tid: u32, regs: &Regs) -> bool {
        let area = self.arming.rseq_area(tid);
        area.is_some_and(|area| self.is_in_sequence(area, regs))
    }

    /// The same, where its `struct rseq` is known.
    pub fn is_in_sequence(&self, area: u64, regs: &Regs) -> bool {
        /// Offset of `rseq_cs` in `struct rseq` (`include/uapi/linux/rseq.h`).
        const CRITICAL_SECTION: i64 = 8;
        let pid = as_pid(self.program.pid);
        let mut pointer = [0; 8];
        let slot = RuntimeAddr(area).offset(CRITICAL_SECTION);
        if !matches!(memory::read_exact(pid, slot, &mut pointer), Ok(true)) {
            return false;
        }
        let descriptor = u64::from_ne_bytes(pointer);
        if descriptor == 0 {
            return false;
        }
        // struct rseq_cs: version and flags (8 bytes), start_ip, post_commit_offset, abort_ip.
        let mut section = [0; 24];
        if !matches!(
            memory::read_exact(pid, RuntimeAddr(descriptor), &mut section),
            Ok(true)
        ) {
            return true;
        }
        let word = |index: usize| {
            section
                .get(index..index + 8)
                .map_or(0, |bytes| bytes.try_into().map_or(0, u64::from_ne_bytes))
        };
        regs.rip.wrapping_sub(word(8)) < word(16)
    }

    /// Whether what is at an address can be read without fetching it from a file, from swap, or from whoever provides it; where that
    /// cannot be known, it has to be taken for true.
    pub fn is_in_memory(&self, address: RuntimeAddr) -> bool {
        let resident = self.program.resident();
        resident.is_none_or(|resident| resident.has(address))
    }

    /// Whether the bytes that are watched are those that are about to be accessed, as of now: mappings change.
    pub fn is_still_alias(&self, watched: &Watched) -> bool {
        let address = watched.address.0.wrapping_sub(watched.alias);
        watched.alias == 0
            || Maps::read(as_pid(self.program.pid))
                .is_ok_and(|maps| alias::others(&maps, address).contains(&watched.alias))
    }

    /// Whether no other access traps at the program counter of a hit that an instruction at `pc` has made: that of a memory
    /// routine has many callers, and a repeated string instruction traps where it stands.
    pub fn is_told_by_pc(&self, hit: &Hit, pc: u64) -> bool {
        const PREFIXES: usize = 4;
        const REPEATED: [u8; 2] = [0xf2, 0xf3];
        let behind = hit.regs.rip;
        let next = self.modules.code(behind);
        !hit.in_kernel
            && pc < behind
            && !self.modules.is_routine(pc)
            && !next
                .iter()
                .take(PREFIXES)
                .any(|byte| REPEATED.contains(byte))
    }

    /// Somebody was caught, and goes on: the stall is for those that come to other places from now on. False where the gate
    /// cannot tell the places, or each access is of interest.
    pub fn goes_on_past(&self, hit: &Hit) -> bool {
        self.takes_places_once() && self.is_told_by_pc(hit, hit.regs.rip.wrapping_sub(1))
    }
}
