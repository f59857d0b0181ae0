//! The program's threads: taking them in, at the beginning and as they are created, and the events that they get.

use std::time::{Duration, Instant};

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
                Err(error) if error.is_gone() && self.rig.arming.is_empty() => {
                    let patience = match tracee::threads::live_thread(as_pid(self.rig.program.pid))
                    {
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
        self.rig
            .program
            .check_identity(self.rig.setup.start_ticks)?;
        self.rig.program.check_architecture()?;
        self.rig.program.begin()?;
        let threads = tracee::threads::list(as_pid(self.rig.program.pid))?;
        self.crew.fit_events(&mut self.rig, threads.len());
        self.adopt_threads()?;
        self.rig
            .program
            .begin_activity(self.rig.arming.tids().collect());
        if self.rig.arming.is_empty() {
            return Err(EngineError::Gone(self.rig.program.pid));
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
            for tid in tracee::threads::list(as_pid(self.rig.program.pid))? {
                let tid = tid.as_raw().cast_unsigned();
                if self.rig.arming.knows(tid) {
                    continue;
                }
                news = true;
                if self.rig.arming.seize(tid)? {
                    if self.rig.arming.len() == 1 {
                        // As long as one of its threads is traced, the id is nobody else's.
                        self.rig
                            .program
                            .check_identity(self.rig.setup.start_ticks)?;
                    }
                    self.rig.open_events(tid)?;
                }
                // There may be thousands, and those that are held already get signals.
                if !self.rig.arming.is_empty() && looked.elapsed() > BETWEEN_LOOKS {
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

    /// The program creates threads faster than they can be taken in. Those that are left alone, too, have events where each thread has its own,
    /// which makes their creation dear.
    pub(super) fn left_threads(&mut self) {
        // Those that were created at once may have cost less than was thought.
        self.crew.allow_threads(&self.rig);
        self.crew.adoption.leave();
        self.rig.arming.want_cpus();
        if self.rig.arming.wants_others(self.rig.arming.known()) {
            self.scan_when_idle();
        }
    }
}
