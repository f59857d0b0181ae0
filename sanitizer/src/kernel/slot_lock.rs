//! The kernel's lock on the breakpoint slots of all processors, kept quick to take.
//!
//! Whoever changes the type of a processor's breakpoint, from an instruction's to a watchpoint's
//! say, takes `bp_cpuslots_sem` for writing (`modify_bp_slot` in `kernel/events/hw_breakpoint.c`).
//! Its readers are quick, and its first writer pays for that with a grace period of RCU: 5 to 25 ms,
//! as a rule while a thread of the target stands still. Later writers do not wait until such a
//! period has passed since the last of them (`kernel/rcu/sync.c`). So somebody who has the time
//! takes it again and again, which costs some 30 us each time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::Thread,
    time::Duration,
};

use super::{
    KernelError, fault,
    perf::PerfEvent,
    process::{self, Urgency},
};

/// No longer than a grace period, which takes several ticks of the kernel's clock.
const PERIOD: Duration = Duration::from_millis(8);

/// What the thread is to do.
#[derive(Debug, Default)]
struct Wish {
    quick: AtomicBool,
    end: AtomicBool,
}

/// Keeps the lock quick to take while that is wanted.
#[derive(Debug)]
pub struct QuickSlotLock {
    thread: Thread,
    wish: Arc<Wish>,
}

impl QuickSlotLock {
    /// Begins with it, in a thread of its own. That needs a breakpoint of one processor.
    ///
    /// # Errors
    /// Fails where perf_event_open(2) does, `ENOSPC` when no breakpoint would be left for others,
    /// and where no thread can be had.
    pub fn keep(cpu: u32) -> Result<Self, KernelError> {
        let mut event = PerfEvent::breakpoint_on_cpu(cpu)?;
        drop(PerfEvent::breakpoint_on_cpu(cpu)?);
        fault::before("clone", || "the thread for breakpoint slots".to_owned())?;
        let wish = Arc::new(Wish::default());
        let wished = Arc::clone(&wish);
        let thread = std::thread::Builder::new()
            .name("gwp-race-slots".to_owned())
            .spawn(move || {
                process::hurry(Urgency::Urgent);
                while !wished.end.load(Relaxed) {
                    if wished.quick.load(Relaxed) {
                        // Where it fails, whoever arms has to wait.
                        let _ = event.change_type();
                        std::thread::park_timeout(PERIOD);
                    } else {
                        std::thread::park();
                    }
                }
            })
            .map_err(|cause| {
                KernelError::other("clone", "the thread for breakpoint slots", cause)
            })?;
        Ok(Self {
            thread: thread.thread().clone(),
            wish,
        })
    }

    /// Whether the lock is going to be taken. It is quick within a grace period.
    pub fn want(&self, quick: bool) {
        if self.wish.quick.swap(quick, Relaxed) != quick {
            self.thread.unpark();
        }
    }
}

impl Drop for QuickSlotLock {
    fn drop(&mut self) {
        // Not waited for: it may be in the kernel, and somebody may stand still.
        self.wish.end.store(true, Relaxed);
        self.thread.unpark();
    }
}
