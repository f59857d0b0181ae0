//! The program's threads: taking them in, at the beginning and as they are created, and the events that they get.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::hunt::wire::Notice;
use crate::tracee;

use super::{Engine, EngineError, as_pid};

/// How long a process is tried all of whose threads were gone when they were to be held, and which lives: one of them executes a program.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long one is tried that does not seem to live.
const PATIENCE_WITH_THE_DEAD: Duration = Duration::from_millis(20);

impl Engine {
    /// Takes over a running process.
    ///
    /// # Errors
    /// Fails when no thread can be held or no event be opened.
    pub fn attach(&mut self) -> Result<(), EngineError> {
        let since = Instant::now();
        loop {
            match self.try_to_attach() {
                Err(error) if error.is_gone() && self.arming.is_empty() => {
                    let patience = match tracee::threads::live_thread(as_pid(self.program.pid)) {
                        Ok(_) => PATIENCE,
                        Err(_) => PATIENCE_WITH_THE_DEAD,
                    };
                    if since.elapsed() > patience {
                        return Err(error);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                done => return done,
            }
        }
    }

    fn try_to_attach(&mut self) -> Result<(), EngineError> {
        self.program.check_identity(self.setup.start_ticks)?;
        self.program.check_architecture()?;
        self.program.begin()?;
        let threads = tracee::threads::list(as_pid(self.program.pid))?;
        self.fit_events(threads.len());
        self.adopt_threads()?;
        self.program.begin_activity(self.arming.tids().collect());
        if self.arming.is_empty() {
            return Err(EngineError::Gone(self.program.pid));
        }
        self.begin_watching(false);
        Ok(())
    }

    /// Seizes threads and opens their events until two looks agree: a thread created between
    /// its creator's seizing and opening has none by inheritance.
    pub(super) fn adopt_threads(&mut self) -> Result<(), EngineError> {
        /// A process that creates threads all the time never agrees with itself.
        const PASSES: usize = 8;
        /// The kernel goes through all tracees to tell of their stops.
        const BETWEEN_LOOKS: Duration = Duration::from_micros(500);
        let mut looked = Instant::now();
        for _ in 0..PASSES {
            let mut news = false;
            for tid in tracee::threads::list(as_pid(self.program.pid))? {
                let tid = tid.as_raw().cast_unsigned();
                if self.arming.knows(tid) {
                    continue;
                }
                news = true;
                if self.arming.seize(tid)? {
                    if self.arming.len() == 1 {
                        // As long as one of its threads is traced, the id is nobody else's.
                        self.program.check_identity(self.setup.start_ticks)?;
                    }
                    self.open_events(tid)?;
                }
                // There may be thousands, and those that are held already get signals.
                if !self.arming.is_empty() && looked.elapsed() > BETWEEN_LOOKS {
                    self.on_stops()?;
                    looked = Instant::now();
                }
                if self.ending.is_some() {
                    return Ok(());
                }
            }
            if !news {
                break;
            }
        }
        Ok(())
    }

    /// Takes in threads that were created since, as many as are allowed.
    pub(super) fn take_in_new_threads(&mut self) -> Result<(), EngineError> {
        let allowed = usize::try_from(self.adoption.allowance()).unwrap_or(usize::MAX);
        if allowed > 0 {
            let tids = tracee::threads::list(as_pid(self.program.pid)).unwrap_or_default();
            let tids = tids.into_iter().map(|tid| tid.as_raw().cast_unsigned());
            let new = tids.filter(|&tid| !self.arming.knows(tid)).take(allowed);
            for tid in new.collect::<Vec<_>>() {
                self.take_in_thread(tid)?;
            }
        }
        self.allow_threads();
        Ok(())
    }

    /// Takes in a thread that was created since. It has inherited its events, where that is done.
    pub(super) fn take_in_thread(&mut self, tid: u32) -> Result<(), EngineError> {
        self.adoption.took_in();
        if self.arming.seize(tid)? && !self.arming.inherits() {
            self.open_events(tid)?;
        }
        Ok(())
    }

    /// Says to the gate how many new threads it may tell of.
    pub(super) fn allow_threads(&self) {
        let control = self.gates.control();
        let allowance = self.adoption.allowance();
        control.budget.threads_allowed.store(allowance, SeqCst);
    }

    /// The program creates threads faster than they can be taken in. Those that are left alone, too, have events where each thread has its own,
    /// which makes their creation dear.
    pub(super) fn left_threads(&mut self) {
        // Those that were created at once may have cost less than was thought.
        self.allow_threads();
        self.adoption.leave();
        self.arming.want_cpus();
        if self.arming.wants_others(self.arming.known()) {
            self.scan_when_idle();
        }
    }

    /// Lets threads that are created from now on have no events until they are taken in, where the processors' are not to be had and they
    /// are too many. Nobody may stand still.
    fn spare_new_threads(&mut self) {
        if self.arming.watchpoints().are_by_cpu()
            || !self.adoption.has_left()
            || !self.arming.inherits()
        {
            return;
        }
        self.arming.end_inheritance();
        let mut held: Vec<u32> = self.arming.tids().collect();
        held.sort_unstable();
        for tid in held {
            // Without them it is not watched, as any that is left alone.
            if let Err(error) = self.open_events(tid) {
                self.outbox.send(&Notice::Debug(error.to_string()));
            }
        }
    }

    pub(super) fn open_events(&mut self, tid: u32) -> Result<(), EngineError> {
        match self.arming.open(tid, &self.gates) {
            Ok(()) => Ok(()),
            Err(error) if self.arming.len() <= 1 => Err(error.into()),
            Err(error) => {
                self.arming.mark_unwatchable(tid);
                self.outbox.send(&Notice::Debug(error.to_string()));
                Ok(())
            }
        }
    }

    /// Watches by thread or by processor, as the number of threads suggests. Nobody may stand still.
    pub(super) fn fit_events(&mut self, threads: usize) {
        let was_by_cpu = self.arming.watchpoints().are_by_cpu();
        if let Err(error) = self.arming.choose_events(threads, &self.gates) {
            let text = format!("other clocks and watchpoints could not be opened: {error}");
            self.outbox.send(&Notice::Debug(text));
        }
        self.spare_new_threads();
        let control = self.gates.control();
        let clock_by_cpu = self.arming.ticking_cpus() > 0;
        let events = &control.events;
        events.clock_by_cpu.store(clock_by_cpu.into(), SeqCst);
        let sample_ns = if clock_by_cpu { 0 } else { self.period_ns };
        self.budget.set_period(control, sample_ns);
        let by_cpu = self.arming.watchpoints().are_by_cpu();
        if by_cpu && !was_by_cpu {
            let text = format!("{threads} threads: memory is watched by processor");
            self.outbox.send(&Notice::Debug(text));
        }
        self.gates
            .control()
            .events
            .watch_by_cpu
            .store(u64::from(by_cpu), SeqCst);
    }
}
