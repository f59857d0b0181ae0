//! Threads that are off their processors: whether that is looked at, and what the gates are told of the one in hand.

use std::sync::atomic::Ordering::SeqCst;

use crate::hunt::wire::Notice;
use crate::kernel::gates::Preempted;

use super::Rig;

/// So many threads have to wait for a processor at a time, on average, and for so long at a time, seconds, that to look at the scheduler's switches is worth
/// it: arming alone takes a third of a millisecond.
const WAITING: f64 = 1.0;
const LEAST_S: f64 = 1e-3;

impl Rig {
    /// Has switches looked at where many threads wait for a processor (so many, on average, each time for so long, seconds), and no more where they do not.
    /// Processors must be watched: a thread's own events are taken down when it is off.
    pub fn look_at_switches(&mut self, waiting: f64, each_s: f64) {
        let is_worth_it = waiting >= WAITING && each_s >= LEAST_S;
        let may_be = self.setup.free_stalls && self.setup.learns;
        let wanted = is_worth_it && may_be && self.arming.watchpoints().are_by_cpu();
        if wanted == self.gates.note_switches() || !self.has_gates() {
            return;
        }
        if let Err(error) = self.gates.want_switches(wanted) {
            self.outbox.send(&Notice::Debug(error.to_string()));
        }
    }

    /// Tells the gate whose return to a processor ends the stall of a generation. Whoever asks after that whether a thread is still off, and hears
    /// so, hears of its return.
    pub fn tell_of_preempted(&self, generation: u64, thread: &Preempted) {
        let preemption = &self.gates.control().preemption;
        preemption.back_ns.store(0, SeqCst);
        preemption.generation.store(generation, SeqCst);
        preemption.task.store(thread.task, SeqCst);
    }

    /// When the thread that the gate was told of got a processor, CLOCK_MONOTONIC, ns; `None`: it has not.
    pub fn preempted_back(&self) -> Option<u64> {
        let back = self.gates.control().preemption.back_ns.load(SeqCst);
        (back != 0).then_some(back)
    }

    /// No stall is one of a thread that is off its processor.
    pub fn forget_preempted(&self) {
        let preemption = &self.gates.control().preemption;
        preemption.task.store(0, SeqCst);
        preemption.generation.store(0, SeqCst);
    }
}
