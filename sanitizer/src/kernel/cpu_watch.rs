//! Data watchpoints of all processors, whose kind is changed while nobody waits for it.
//!
//! Whoever changes the type of a processor's breakpoint, from one for writes to one for reads and writes say,
//! takes `bp_cpuslots_sem` for writing (`modify_bp_slot` in `kernel/events/hw_breakpoint.c`). Its readers are
//! quick, and its first writer pays for that with a grace period of RCU: 5 to 25 ms. A thread of its own does
//! so, and rings when it has; to arm them afterwards, at whatever address, takes no such lock.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread::Thread,
};

use super::{
    KernelError, fault,
    perf::{PerfEvent, WatchKind},
    process::{self, Employer, Urgency},
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
    /// The thread has locked them in order to change them, and has found that they are to be changed.
    is_changing: AtomicBool,
    end: AtomicBool,
    /// Whoever waits for them is told when they may be what they are to be.
    employer: Employer,
}

#[derive(Debug)]
struct Watch {
    /// By processor.
    events: Vec<(u32, PerfEvent)>,
    /// What all of them are for, and what they are to be for.
    kind: WatchKind,
    wanted: WatchKind,
}

impl CpuWatch {
    /// Those of no processor yet. `employer` is told when they may be what they are to be.
    ///
    /// # Errors
    /// Fails where no thread can be had.
    pub fn new(employer: Employer) -> Result<Self, KernelError> {
        fault::before("clone", || "the thread for watchpoints".to_owned())?;
        let shared = Arc::new(Shared {
            watch: Mutex::new(Watch {
                events: Vec::new(),
                kind: WatchKind::Writes,
                wanted: WatchKind::Writes,
            }),
            is_changing: AtomicBool::new(false),
            end: AtomicBool::new(false),
            employer,
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

    /// Takes over a processor's watchpoint for writes, which is disarmed. They must be disarmed, too.
    ///
    /// # Errors
    /// Fails where it cannot be made what the others are.
    pub fn add(&self, cpu: u32, mut event: PerfEvent) -> Result<(), KernelError> {
        let mut watch = self.shared.wait_for_watch();
        if watch.kind != WatchKind::Writes {
            event.disarm_as(watch.kind)?;
        }
        watch.events.push((cpu, event));
        Ok(())
    }

    /// Closes those of other processors.
    pub fn keep(&self, cpus: &[u32]) {
        let mut watch = self.shared.wait_for_watch();
        watch.events.retain(|(cpu, _)| cpus.contains(cpu));
    }

    /// Sees to it that they are of this kind, while they are disarmed; false while they are not yet, until it was told.
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

    /// Whether they would see all of these accesses, and no others.
    #[must_use]
    pub fn are_for(&self, kind: WatchKind) -> bool {
        self.shared.watch().is_some_and(|watch| watch.kind == kind)
    }

    /// Arms them; see [`PerfEvent::watch`]. The result is what they trap on.
    ///
    /// # Errors
    /// Fails while they are of another kind, and when none could be armed. One whose processor has gone offline
    /// is no error.
    pub fn watch(
        &self,
        address: RuntimeAddr,
        len: u8,
        kind: WatchKind,
    ) -> Result<WatchKind, KernelError> {
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
        let events = events.iter_mut().map(|(_, event)| event);
        PerfEvent::arm_any(events, |event| event.watch(address, len, kind))?;
        Ok(kind)
    }

    /// Disarms them.
    pub fn unwatch(&self) {
        // While their kind is changed they are disarmed.
        while !self.shared.is_changing.load(SeqCst) {
            if let Some(watch) = self.shared.watch() {
                return PerfEvent::disarm_all(watch.events.iter().map(|(_, event)| event));
            }
            std::hint::spin_loop();
        }
    }
}

impl Drop for CpuWatch {
    fn drop(&mut self) {
        // While their kind is changed they are disarmed, and the thread closes them.
        if let Some(mut watch) = self.shared.watch() {
            watch.events.clear();
        }
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

    /// The same when it is done: it may take some 25 ms.
    fn wait_for_watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does.
    fn change(&self) {
        process::hurry(Urgency::Urgent);
        while !self.end.load(Relaxed) {
            let mut watch = self.wait_for_watch();
            if watch.kind != watch.wanted {
                self.is_changing.store(true, SeqCst);
                let kind = watch.wanted;
                for (_, event) in &mut watch.events {
                    // Where it fails, whoever arms has to wait.
                    let _ = event.disarm_as(kind);
                }
                watch.kind = kind;
                self.is_changing.store(false, SeqCst);
            }
            drop(watch);
            // Also where nothing was to be changed: whoever has asked meanwhile was told to wait.
            self.employer.tell();
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    use super::*;

    const NOWHERE: RuntimeAddr = RuntimeAddr(0x1000);

    /// Waits until they are of this kind: the looks that it took, each when the bell has rung.
    fn prepared(watch: &CpuWatch, kind: WatchKind) -> usize {
        const LOOKS: usize = 20;
        /// A grace period takes a few hundredths of a second.
        const LIMIT: Duration = Duration::from_secs(5);
        let bell = &watch.shared.employer.bell;
        let look = |_: &usize| {
            let is_ready = watch.prepare(kind);
            if !is_ready {
                let [rings] = process::wait_readable([bell.as_fd()], Some(LIMIT)).unwrap();
                assert!(rings, "nobody is told");
                bell.silence();
            }
            is_ready
        };
        (1..=LOOKS).find(look).expect("the kind is changed in time")
    }

    /// Check, on a processor of this machine, that they are armed for what they were prepared for, for writes at
    /// least, and never for reads where only writes are to be watched.
    #[test]
    fn kinds_are_prepared() {
        use WatchKind::{ReadsAndWrites, Writes};
        let event =
            PerfEvent::watchpoint_on_cpu(0).expect("a breakpoint of processor 0: run as root");
        let employer = Employer {
            bell: Arc::new(process::Bell::new().expect("an eventfd")),
            clock: process::WorkClock::of_share(1),
        };
        let watch = CpuWatch::new(employer.clone()).expect("a thread");
        watch.add(0, event).expect("it is for writes");
        let arm = |kind| watch.watch(NOWHERE, 8, kind);

        assert_eq!(prepared(&watch, Writes), 1);
        assert!(watch.are_for(Writes) && !watch.are_for(ReadsAndWrites));
        assert_eq!(arm(Writes).ok(), Some(Writes));
        assert_eq!(arm(ReadsAndWrites).ok(), Some(Writes));
        watch.unwatch();

        assert!(prepared(&watch, ReadsAndWrites) > 1);
        assert!(watch.can(ReadsAndWrites) && !watch.can(Writes));
        assert_eq!(arm(ReadsAndWrites).ok(), Some(ReadsAndWrites));
        assert_eq!(arm(Writes).ok(), None);
        watch.unwatch();

        // What is armed is not changed behind one's back.
        watch.prepare(Writes);
        if let Ok(kind) = arm(ReadsAndWrites) {
            std::thread::sleep(Duration::from_millis(50));
            assert!(watch.can(kind));
        }
        watch.unwatch();
    }
}
