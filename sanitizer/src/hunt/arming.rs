//! The threads of the target and the perf events on them.
//!
//! While a launched program has few threads it has one clock and one watchpoint, opened before its
//! first instruction and inherited by every thread. After an attach each existing thread has its own,
//! and the threads that it creates inherit those. Instruction breakpoints are a thread's own then, opened
//! when it is first sought at a site. [`Clocks`] and [`Watchpoints`] of processes with many threads are
//! the processors', and their threads have no events at all. Without gates, each thread has all of its
//! events for itself.

mod choice;
mod events;
mod held;
mod processors;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    os::fd::{AsFd as _, AsRawFd as _},
    time::Duration,
};

use super::{clocks::Clocks, watchpoints::Watchpoints};
use crate::addr::RuntimeAddr;
use crate::kernel::gates::{Gate, Gates};
use crate::kernel::perf::{Delivery, EventOptions, PerfEvent};
use crate::kernel::ring::{Ring, RingSize};
use crate::kernel::{KernelError, cpus, ptrace};

use processors::{Lent, Use};

pub use processors::Processors;

/// A thread that we hold.
#[derive(Debug, Default)]
pub struct Thread {
    breakpoint: Option<PerfEvent>,
    /// Without gates: what its events have recorded.
    records: Option<Records>,
    /// The thread pointer, as it was when the thread stood still last.
    fs_base: u64,
    /// Address of the thread's `struct rseq`; `None` when not asked yet.
    rseq: Option<Option<u64>>,
}

/// What the events of one thread have recorded.
#[derive(Debug)]
struct Records {
    ring: Ring,
    /// [`PerfEvent::id`] of its clock.
    clock: u64,
}

/// Which event has trapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The clock.
    Clock,
    /// The watchpoint.
    Watch,
}

/// How many looks pass, one a second, until watchpoints of the processors are asked for that were refused.
const PATIENCE: u32 = 30;

/// The threads of one process, their events, and how those stop them.
#[derive(Debug)]
pub struct Arming {
    pid: u32,
    options: EventOptions,
    /// Where the gates are in the kernel, new threads inherit the events of their creators, as a rule.
    may_inherit: bool,
    period: Duration,
    threads: HashMap<u32, Thread>,
    /// Threads that were there before us or since, and could not be seized or opened.
    unwatchable: HashSet<u32>,
    /// Threads that were held and are let alone at present, those first that are so for longest.
    let_alone: VecDeque<u32>,
    /// Threads that have created others: their events have heirs and must stay open.
    ancestors: HashSet<u32>,
    clocks: Clocks,
    watchpoints: Watchpoints,
    /// How many processors can be watched: all or none.
    cpus: usize,
    /// Events on threads were found to cost too much, however few there are.
    wants_cpus: bool,
    /// How often their watchpoints are not to be asked for again, which were refused.
    patience: u32,
    /// The processors may be another lease's at present; whether they are this one's.
    processors: Processors,
    lent: Option<Lent>,
    /// What of the breakpoints of this machine it has.
    breakpoints: Option<Use>,
    /// Without gates: whether the clocks run.
    clocks_run: bool,
    ring_size: RingSize,
    /// Descriptors of breakpoints that send a signal by themselves, closed ones included.
    signalling: HashSet<i32>,
}

impl Arming {
    /// No threads yet.
    #[must_use]
    pub fn new(
        pid: u32,
        delivery: Delivery,
        period: Duration,
        cookie: u64,
        processors: Processors,
    ) -> Self {
        Self {
            pid,
            options: EventOptions {
                delivery,
                inherit: true,
                cookie,
                record_stack: None,
                kernel: false,
            },
            may_inherit: true,
            period,
            threads: HashMap::new(),
            unwatchable: HashSet::new(),
            let_alone: VecDeque::new(),
            ancestors: HashSet::new(),
            clocks: Clocks::default(),
            watchpoints: Watchpoints::default(),
            cpus: cpus::online().len(),
            wants_cpus: false,
            patience: 0,
            processors,
            lent: None,
            breakpoints: None,
            clocks_run: false,
            ring_size: RingSize::USUAL,
            signalling: HashSet::new(),
        }
    }

    /// Without gates each thread has events of its own, which record what they trap: a signal is
    /// sent to one thread, a ring is that of one thread, and processors are not to be watched.
    #[must_use]
    pub fn without_gates(mut self) -> Self {
        self.may_inherit = false;
        self.options.inherit = false;
        self.cpus = 0;
        self
    }

    /// No processor is watched, and none ticks: that traps whatever process runs there, which is no matter of a user's whom nobody has
    /// given the right to see others. What traps of theirs he was told of, and stalls that ended because of them, would tell him whether
    /// an address that he chooses is in use elsewhere.
    #[must_use]
    pub const fn without_others(mut self) -> Self {
        self.cpus = 0;
        self
    }

    /// The processors, for whoever comes next: no event is open any more.
    #[must_use]
    pub fn into_processors(self) -> Processors {
        self.processors
    }

    /// How threads are stopped.
    #[must_use]
    pub const fn delivery(&self) -> Delivery {
        self.options.delivery
    }

    /// What marks our own SIGTRAPs.
    #[must_use]
    pub const fn cookie(&self) -> u64 {
        self.options.cookie
    }

    /// Remembers the thread pointer of a thread that stands still.
    pub fn note_thread_pointer(&mut self, tid: u32, fs_base: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.fs_base = fs_base;
        }
    }

    /// The thread pointer of a thread, 0 where unknown.
    #[must_use]
    pub fn thread_pointer(&self, tid: u32) -> u64 {
        self.threads.get(&tid).map_or(0, |thread| thread.fs_base)
    }

    /// A thread that is held has no events, and none that it could have inherited: it cannot be
    /// watched.
    pub fn mark_unwatchable(&mut self, tid: u32) {
        self.unwatchable.insert(tid);
    }

    /// The watchpoints.
    pub const fn watchpoints(&mut self) -> &mut Watchpoints {
        &mut self.watchpoints
    }

    /// Arms the instruction breakpoint of one thread, which may be one of all processors.
    ///
    /// # Errors
    /// Fails where the perf calls do.
    pub fn break_at(
        &mut self,
        tid: u32,
        address: RuntimeAddr,
        gates: &Gates,
    ) -> Result<(), KernelError> {
        if self.watchpoints.are_by_cpu() {
            self.watchpoints.break_at(address)
        } else {
            self.break_behind(tid, address, gates)
        }
    }

    /// The same, but in any case of that thread alone, which may take long to come there, where others pass all the
    /// time.
    ///
    /// # Errors
    /// Fails where the perf calls do.
    pub fn break_behind(
        &mut self,
        tid: u32,
        address: RuntimeAddr,
        gates: &Gates,
    ) -> Result<(), KernelError> {
        let options = EventOptions {
            inherit: false,
            ..self.options
        };
        let thread = self.threads.entry(tid).or_default();
        let event = match &mut thread.breakpoint {
            Some(event) => event,
            None => {
                let event = PerfEvent::breakpoint(tid, options)?;
                match options.delivery {
                    Delivery::GateSignal(signal) if !gates.are_in_kernel() => {
                        event.signal_at_traps(signal)?;
                        self.signalling.insert(event.as_fd().as_raw_fd());
                    }
                    _ => event.set_gate(gates.program(Gate::Reach)?)?,
                }
                thread.breakpoint.insert(event)
            }
        };
        event.break_at(address)
    }

    /// Takes the instruction breakpoint of a thread away.
    pub fn unbreak(&mut self, tid: u32) {
        self.watchpoints.unbreak();
        let thread = self.threads.get_mut(&tid);
        let Some(breakpoint) = thread.map(|thread| &mut thread.breakpoint) else {
            return;
        };
        if self.watchpoints.are_by_cpu() {
            // It would cost the thread something at each of its switches.
            *breakpoint = None;
        } else if let Some(event) = breakpoint {
            // Fails only for a thread that has ended, and with it its breakpoint.
            let _ = event.disable();
        }
    }

    /// The address of a stopped thread's `struct rseq`, if it has registered one.
    pub fn rseq_area(&mut self, tid: u32) -> Option<u64> {
        let thread = self.threads.get_mut(&tid)?;
        *thread.rseq.get_or_insert_with(|| {
            ptrace::rseq_area(tid)
                .ok()
                .flatten()
                .map(|(address, _size)| address)
        })
    }
}
