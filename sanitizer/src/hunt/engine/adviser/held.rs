//! The locks that a thread holds which stands still at an access.

use std::time::Duration;

use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::Rig;
use crate::hunt::locks::{self, Holder};
use crate::insn::Regs;
use crate::kernel::process::{monotonic_ns, nanos};
use crate::kernel::robust_list;
use crate::report::finding::HeldLock;
use crate::tracee::memory::Resident;

use super::Adviser;

/// How long it is looked for them: the thread stands meanwhile.
const TIME: Duration = Duration::from_micros(150);

impl Adviser {
    /// The locks that a thread certainly holds, which stands before or right behind the access at `pc` with these registers and this stack. Only what is in memory is read: whoever
    /// provides the rest must not be waited for.
    pub fn held_by(
        &mut self,
        rig: &Rig,
        (tid, pc): (u32, u64),
        regs: &Regs,
        stack: &[u8],
    ) -> Vec<HeldLock> {
        let until = monotonic_ns() + nanos(TIME);
        let pid = as_pid(rig.program.pid);
        let (Some(id), Ok(resident)) = (
            self.locks.innermost_id(pid, tid),
            Resident::of_standing(as_pid(tid)),
        ) else {
            return Vec::new();
        };
        let holder = Holder {
            id,
            pc,
            regs,
            stack,
            robust_list: robust_list::head(tid).unwrap_or(0),
        };
        let memory = |address, bytes: &mut [u8]| resident.read_exact(as_pid(tid), address, bytes);
        locks::held(&rig.modules, &holder, &memory, until)
    }
}
