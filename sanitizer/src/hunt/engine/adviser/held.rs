//! The locks that a thread holds which stands still at an access.

use std::time::Duration;

use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::Rig;
use crate::hunt::locks::{self, Holder, ReleaseWatch};
use crate::insn::Regs;
use crate::kernel::process::{monotonic_ns, nanos};
use crate::kernel::robust_list;
use crate::report::finding::{HeldLock, Holds, WrittenLock};
use crate::tracee::memory::Resident;

use super::Adviser;

/// How long it is looked for them: the thread stands meanwhile.
const TIME: Duration = Duration::from_micros(150);

/// What was seen of the locks of a thread that stood still.
#[derive(Debug, Default)]
pub struct SeenLocks {
    /// Those that say that it holds them.
    pub alone: Vec<HeldLock>,
    /// Waits for what it does with one that it may hold for reading.
    release: Option<ReleaseWatch>,
    /// What it did with that one first.
    written: Option<WrittenLock>,
}

impl SeenLocks {
    /// What is known by now.
    pub fn holds(&mut self) -> Holds {
        self.look();
        Holds {
            alone: self.alone.clone(),
            written: self.written,
        }
    }

    /// Whether more is to come.
    pub fn is_awaited(&mut self) -> bool {
        self.look();
        self.release.is_some()
    }

    /// Waits for nothing more: the thread has its breakpoint back.
    pub fn close(&mut self) {
        self.look();
        self.release = None;
    }

    fn look(&mut self) {
        if let Some(written) = self.release.as_mut().and_then(ReleaseWatch::written) {
            self.written = Some(written);
            self.release = None;
        }
    }
}

impl Adviser {
    /// The locks that a thread holds, which stands before or right behind the access at `pc` with these registers and this stack. Only what is in memory is read: whoever
    /// provides the rest must not be waited for.
    pub fn held_by(
        &mut self,
        rig: &Rig,
        (tid, pc): (u32, u64),
        regs: &Regs,
        stack: &[u8],
    ) -> SeenLocks {
        let until = monotonic_ns() + nanos(TIME);
        let pid = as_pid(rig.program.pid);
        let (Some(id), Ok(resident)) = (
            self.locks.innermost_id(pid, tid),
            Resident::of_standing(as_pid(tid)),
        ) else {
            return SeenLocks::default();
        };
        let holder = Holder {
            id,
            pc,
            regs,
            stack,
            robust_list: robust_list::head(tid).unwrap_or(0),
        };
        let memory = |address, bytes: &mut [u8]| resident.read_exact(as_pid(tid), address, bytes);
        let found = locks::find(&rig.modules, &holder, &memory, until);
        // Fails where the thread has no breakpoint left: then it stays unknown, as it does where there is no time left.
        let release = |address| ReleaseWatch::begin(tid, address).ok();
        let shared = found.shared.filter(|_| monotonic_ns() < until);
        SeenLocks {
            alone: found.alone,
            release: shared.and_then(release),
            written: None,
        }
    }
}
