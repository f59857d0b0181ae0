//! The events of one thread: opened, read and closed.

use crate::hunt::clocks::Clocks;
use crate::hunt::watchpoints::Watchpoints;
use crate::kernel::KernelError;
use crate::kernel::calibrate::SAMPLED_STACK;
use crate::kernel::gates::Gates;
use crate::kernel::perf::{Delivery, EventOptions, PerfEvent};
use crate::kernel::ring::{Ring, RingSize, Trap};

use super::{Arming, Records, Source};

impl Arming {
    /// Opens the clock and the watchpoint of a thread and of the threads that it will create, where processors have
    /// none. A thread that ends meanwhile is no error.
    ///
    /// # Errors
    /// Fails where the perf calls do.
    pub fn open(&mut self, tid: u32, gates: &Gates) -> Result<(), KernelError> {
        match self.try_open(tid, gates) {
            Err(error) if error.is_gone() => Ok(()),
            result => result,
        }
    }

    fn try_open(&mut self, tid: u32, gates: &Gates) -> Result<(), KernelError> {
        if !self.watchpoints.are_by_cpu() && !self.processors.use_threads(&mut self.breakpoints) {
            let cause = "another process is watched by processor at present";
            return Err(KernelError::without_breakpoint(
                format!("thread {tid}"),
                cause,
            ));
        }
        if gates.are_in_kernel() {
            self.watchpoints.open(tid, self.options, gates)?;
            self.clocks.open(tid, self.period, self.options, gates)
        } else if self.clocks.has(tid) {
            Ok(())
        } else {
            self.open_recording(tid, gates)
        }
    }

    /// Opens events that record what they trap, both into one ring.
    fn open_recording(&mut self, tid: u32, gates: &Gates) -> Result<(), KernelError> {
        let options = |stack| EventOptions {
            record_stack: Some(stack),
            ..self.options
        };
        let (watch, ring) = loop {
            let watch = PerfEvent::breakpoint(tid, options(self.ring_size.stack))?;
            match Ring::of(&watch, self.ring_size) {
                Ok(ring) => break (watch, ring),
                // The user may lock no more memory of this size.
                Err(_) if self.ring_size != RingSize::SMALL => self.ring_size = RingSize::SMALL,
                Err(error) => return Err(error),
            }
        };
        let clock = PerfEvent::clock(tid, self.period, options(SAMPLED_STACK))?;
        clock.record_with(&watch)?;
        gates.wait_for_records(&watch)?;
        if self.clocks_run {
            clock.enable()?;
        }
        let records = Records {
            ring,
            clock: clock.id()?,
        };
        self.threads.entry(tid).or_default().records = Some(records);
        self.watchpoints.add(tid, watch);
        self.clocks.add(tid, clock);
        Ok(())
    }

    /// Lets the clocks of all threads run, or stops them.
    pub fn run_clocks(&mut self, run: bool) {
        if self.clocks_run == run {
            return;
        }
        self.clocks_run = run;
        self.clocks.run(run);
    }

    /// What the events have recorded since the last time; the result is the number of traps that
    /// the rings had no room for.
    pub fn take_records(&mut self, mut visit: impl FnMut(Source, Trap)) -> u64 {
        let mut lost = 0;
        for records in self
            .threads
            .values_mut()
            .filter_map(|thread| thread.records.as_mut())
        {
            let clock = records.clock;
            lost += records.ring.take(|trap| {
                let source = if trap.event == clock {
                    Source::Clock
                } else {
                    Source::Watch
                };
                visit(source, trap);
            });
        }
        lost
    }

    /// Whether a descriptor is that of a breakpoint that sends a signal by itself.
    #[must_use]
    pub fn is_signalling(&self, descriptor: i32) -> bool {
        self.signalling.contains(&descriptor)
    }

    /// Closes every event: nothing is armed any more. Further events stop threads as said.
    pub fn close_events(&mut self, delivery: Delivery) {
        self.clocks = Clocks::default();
        self.watchpoints = Watchpoints::default();
        self.ancestors.clear();
        for thread in self.threads.values_mut() {
            thread.breakpoint = None;
            thread.records = None;
        }
        // Now there are none any more.
        (self.lent, self.breakpoints) = (None, None);
        self.options.delivery = delivery;
    }
}
