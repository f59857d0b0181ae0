//! Data watchpoints of all processors, whose kind is changed while nobody waits for it.
//!
//! Whoever changes the type of a processor's breakpoint, from one for writes to one for reads and writes say,
//! takes `bp_cpuslots_sem` for writing (`modify_bp_slot` in `kernel/events/hw_breakpoint.c`). Its readers are
//! quick, and its first writer pays for that with a grace period of RCU: 5 to 25 ms. A thread of its own does
//! so; to arm them afterwards, at whatever address, takes no such lock.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, TryLockError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::Thread,
};

use super::{
    KernelError, fault,
    perf::{PerfEvent, WatchKind},
    process::{self, Urgency},
};
use crate::addr::RuntimeAddr;

/// See the module.
#[derive(Debug)]
pub struct CpuWatch {
    thread: Thread,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    watch: Mutex<Watch>,
    end: AtomicBool,
}

#[derive(Debug)]
struct Watch {
    events: Vec<PerfEvent>,
    /// What all of them are for, and what they are to be for.
    kind: WatchKind,
    wanted: WatchKind,
}

impl CpuWatch {
    /// Takes over a disarmed watchpoint of each processor, all for writes.
    ///
    /// # Errors
    /// Fails where no thread can be had.
    pub fn new(events: Vec<PerfEvent>) -> Result<Self, KernelError> {
        fault::before("clone", || "the thread for watchpoints".to_owned())?;
        let shared = Arc::new(Shared {
            watch: Mutex::new(Watch {
                events,
                kind: WatchKind::Writes,
                wanted: WatchKind::Writes,
            }),
            end: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("gwp-race-slots".to_owned())
            .spawn(move || of_thread.change())
            .map_err(|cause| KernelError::other("clone", "the thread for watchpoints", cause))?;
        Ok(Self {
            thread: thread.thread().clone(),
            shared,
        })
    }

    /// Sees to it that they are of this kind, while they are disarmed; false while they are not yet.
    pub fn prepare(&self, kind: WatchKind) -> bool {
        let Some(mut watch) = self.shared.watch() else {
            return false;
        };
        watch.wanted = kind;
        let is_ready = watch.kind == kind;
        drop(watch);
        if !is_ready {
            self.thread.unpark();
        }
        is_ready
    }

    /// Whether they can watch for this now. For reads as well as writes those for writes will do: what they
    /// see is right, if not all.
    #[must_use]
    pub fn can(&self, kind: WatchKind) -> bool {
        let watch = self.shared.watch();
        watch.is_some_and(|watch| watch.suited(kind).is_some())
    }

    /// Arms them; see [`PerfEvent::watch`].
    ///
    /// # Errors
    /// Fails while they are of another kind, and when none could be armed. One whose processor has gone offline
    /// is no error.
    pub fn watch(&self, address: RuntimeAddr, len: u8, kind: WatchKind) -> Result<(), KernelError> {
        let mut watch = self.shared.watch();
        let suited = watch.as_mut().and_then(|watch| {
            let kind = watch.suited(kind)?;
            // What was wanted for later must not disarm them.
            watch.wanted = kind;
            Some((kind, &mut watch.events))
        });
        let Some((kind, events)) = suited else {
            return Err(KernelError::other(
                "arming",
                "the processors' watchpoints",
                "they are for another kind of access",
            ));
        };
        PerfEvent::arm_any(events.iter_mut(), |event| event.watch(address, len, kind))
    }

    /// Disarms them.
    pub fn unwatch(&self) {
        // While their kind is changed they are disarmed.
        if let Some(watch) = self.shared.watch() {
            for event in &watch.events {
                // Fails for a processor that is offline.
                let _ = event.disable();
            }
        }
    }
}

impl Drop for CpuWatch {
    fn drop(&mut self) {
        self.unwatch();
        // Not waited for: it may be in the kernel, and somebody may stand still.
        self.shared.end.store(true, Relaxed);
        self.thread.unpark();
    }
}

impl Shared {
    /// `None` while the thread is at it.
    fn watch(&self) -> Option<MutexGuard<'_, Watch>> {
        match self.watch.try_lock() {
            Ok(watch) => Some(watch),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// What the thread does.
    fn change(&self) {
        process::hurry(Urgency::Urgent);
        while !self.end.load(Relaxed) {
            if let Ok(mut watch) = self.watch.lock()
                && watch.kind != watch.wanted
            {
                let kind = watch.wanted;
                for event in &mut watch.events {
                    // Where it fails, whoever arms has to wait.
                    let _ = event.disarm_as(kind);
                }
                watch.kind = kind;
            }
            std::thread::park();
        }
    }
}

impl Watch {
    /// What to arm them as to watch for this.
    const fn suited(&self, kind: WatchKind) -> Option<WatchKind> {
        match (self.kind, kind) {
            (WatchKind::ReadsAndWrites, WatchKind::Writes) => None,
            (present, _) => Some(present),
        }
    }
}
