//! Whoever stands goes on.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::hunt::engine::as_pid;
use crate::kernel::process::{monotonic_ns, nanos};
use crate::kernel::ptrace;
use crate::tracee::threads::{Scheduling, Stat};

use super::Rig;

/// A stop takes less as a rule, from the gate's decision until the tracer has taken it.
const LATE_STOP: Duration = Duration::from_micros(500);

/// How often it is tried to let a thread go that stands still all the same.
const RELEASES: usize = 3;

impl Rig {
    /// No thread is held for a sample any more: the watchdog may sleep. Must come before the gate
    /// may stop the next one.
    pub fn nobody_stands(&self) {
        let control = self.gates.control();
        control.watchdog.standing_since_ns.store(0, SeqCst);
    }

    pub fn charge_and_release(&mut self, tid: u32) {
        let control = self.gates.control();
        let claimed = control.claim.time_ns.load(SeqCst);
        self.budget
            .charge_stop(control, monotonic_ns().saturating_sub(claimed));
        release(tid, 0);
    }

    /// A thread that a gate has claimed may have had to wait for a processor before it came to its
    /// stop. Then it has not stood still since, and others have had the time.
    pub fn discount_waiting(&self, tid: u32) {
        let control = self.gates.control();
        let claimed = control.claim.time_ns.load(SeqCst);
        let now = monotonic_ns();
        // Without gates, and where the kernel does not count, it is 0.
        let before = control.claim.run_delay_ns.load(SeqCst);
        if now.saturating_sub(claimed) < nanos(LATE_STOP) || before == 0 {
            return;
        }
        if let Some(scheduling) = Scheduling::read(as_pid(self.program.pid), as_pid(tid)) {
            let waited = nanos(scheduling.waited).saturating_sub(before);
            let since = claimed.saturating_add(waited).min(now);
            control.claim.time_ns.store(since, SeqCst);
            control.watchdog.standing_since_ns.store(since, SeqCst);
        }
    }
}

/// Lets a stopped thread go on. One that is gone needs nothing, and one that SIGKILL has woken
/// neither.
pub fn release(tid: u32, signal: i32) {
    for _ in 0..RELEASES {
        // What is told of again is tried again then.
        if ptrace::resume(tid, signal).is_ok()
            || !stands(tid)
            || ptrace::has_news(tid).unwrap_or(false)
        {
            return;
        }
    }
    // Nobody would ever let it go. Our exit does.
    std::process::exit(i32::from(crate::hunt::ending::FAILED));
}

/// Whether a thread stands still for its tracer.
fn stands(tid: u32) -> bool {
    Stat::read(as_pid(tid), as_pid(tid)).is_ok_and(|stat| stat.state == 't')
}
