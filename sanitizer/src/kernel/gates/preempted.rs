//! Threads that are off their processors in the midst of user code, as the gate on the scheduler's switches notes them. That runs at each switch of
//! the machine, so it is attached only where it is of use.

use std::sync::atomic::Ordering::{Acquire, SeqCst};

use aya::Ebpf;
use aya::programs::RawTracePoint;
use aya::programs::raw_trace_point::RawTracePointLinkId;
use gwp_race_abi::{PREEMPTED, PreemptedThread, SIGNAL_PENDING};

use crate::insn::Regs;
use crate::kernel::error::chain;
use crate::kernel::{KernelError, btf, fault};

use super::{Gates, Home, Programs, user_registers};

/// The program and its tracepoint.
const PROGRAM: &str = "switched";
const TRACEPOINT: &str = "sched_switch";

/// A thread, as it was noted.
#[derive(Clone, Copy, Debug)]
pub struct Preempted {
    /// Where it is noted, and the number of the note there.
    place: usize,
    turn: u64,
    /// The kernel's pointer to it.
    pub task: u64,
    /// The thread.
    pub tid: u32,
    /// When it was taken from its processor, CLOCK_MONOTONIC ns.
    pub out_ns: u64,
    /// A signal waits for it.
    pub is_signal_pending: bool,
    /// Address of its `struct rseq`, if it has one.
    pub rseq: Option<u64>,
    /// Registers with which it goes on.
    pub regs: Regs,
}

/// The program on the scheduler's switches.
#[derive(Default)]
pub(super) struct Switches {
    /// Why it cannot be had; `None` where it is loaded.
    missing: Option<String>,
    link: Option<RawTracePointLinkId>,
    /// How often it began to note.
    epochs: u64,
}

impl Switches {
    /// Loads the program, where the kernel's structures are known well enough. All else works without it.
    pub(super) fn load(ebpf: &mut Ebpf, offsets: &btf::KernelOffsets) -> Self {
        let mut loaded = || {
            if [offsets.task_rseq, offsets.task_flags].contains(&None) {
                return Err("the kernel's type information lacks what it needs".to_owned());
            }
            let program = program(ebpf)?;
            fault::before("bpf(BPF_PROG_LOAD)", || PROGRAM.to_owned())
                .map_err(|error| error.to_string())?;
            program.load().map_err(|cause| chain(&cause))
        };
        Self {
            missing: loaded().err(),
            ..Self::default()
        }
    }
}

fn program(ebpf: &mut Ebpf) -> Result<&mut RawTracePoint, String> {
    ebpf.program_mut(PROGRAM)
        .ok_or("the object has no such program")
        .and_then(|program| program.try_into().map_err(|_| "it is of another type"))
        .map_err(str::to_owned)
}

impl Gates {
    /// Whether threads that are off their processors are noted.
    #[must_use]
    pub fn note_switches(&self) -> bool {
        matches!(&self.home, Home::Kernel(programs) if programs.switches.link.is_some())
    }

    /// Notes them from now on, or no more; whether that is so now.
    ///
    /// # Errors
    /// Fails where the program could not be loaded, or cannot be attached.
    pub fn want_switches(&mut self, wanted: bool) -> Result<bool, KernelError> {
        let Home::Kernel(programs) = &mut self.home else {
            return Ok(false);
        };
        let is_on = programs.switches.link.is_some();
        if is_on == wanted {
            return Ok(is_on);
        }
        if !wanted {
            self.control().preemption.wanted.store(0, SeqCst);
        }
        let Home::Kernel(programs) = &mut self.home else {
            return Ok(false);
        };
        programs.attach_switches(wanted)?;
        if wanted {
            programs.switches.epochs += 1;
            let epoch = programs.switches.epochs;
            self.control().preemption.wanted.store(epoch, SeqCst);
        }
        Ok(wanted)
    }

    /// Those that are off their processors now.
    #[must_use]
    pub fn preempted(&self) -> Vec<Preempted> {
        let Home::Kernel(programs) = &self.home else {
            return Vec::new();
        };
        let epoch = self.control().preemption.wanted.load(SeqCst);
        let all = (0..PREEMPTED).filter_map(|place| programs.preempted_at(place, epoch));
        all.collect()
    }

    /// Whether a thread has not got a processor since it was noted.
    #[must_use]
    pub fn is_still_off(&self, thread: &Preempted) -> bool {
        let Home::Kernel(programs) = &self.home else {
            return false;
        };
        programs
            .turn_at(thread.place)
            .is_some_and(|turn| turn == thread.turn)
    }
}

impl Programs {
    fn attach_switches(&mut self, wanted: bool) -> Result<(), KernelError> {
        let failed = |call, cause: &str| KernelError::other(call, PROGRAM, cause.to_owned());
        if let Some(cause) = &self.switches.missing {
            return Err(failed("bpf(BPF_PROG_LOAD)", cause));
        }
        let program = program(&mut self.ebpf).map_err(|cause| failed("attaching", &cause))?;
        if let Some(link) = self.switches.link.take() {
            program
                .detach(link)
                .map_err(|cause| failed("detaching", &chain(&cause)))?;
        }
        if !wanted {
            return Ok(());
        }
        fault::before("bpf(BPF_RAW_TRACEPOINT_OPEN)", || TRACEPOINT.to_owned())?;
        let link = program
            .attach(TRACEPOINT)
            .map_err(|cause| failed("bpf(BPF_RAW_TRACEPOINT_OPEN)", &chain(&cause)))?;
        self.switches.link = Some(link);
        Ok(())
    }

    fn turn_at(&self, place: usize) -> Option<u64> {
        let noted = self.preempted.pointer(place)?;
        // SAFETY: the pointer is into the mapping, and the field is an atomic.
        Some(unsafe { (*noted).turn.load(SeqCst) })
    }

    fn preempted_at(&self, place: usize, epoch: u64) -> Option<Preempted> {
        let turn = self.turn_at(place)?;
        if turn.is_multiple_of(2) {
            return None;
        }
        let noted: *mut PreemptedThread = self.preempted.pointer(place)?;
        // SAFETY: the pointer is into the mapping, and any bits are valid. The gate may write meanwhile, on another processor: then the copy is of no
        // use, which the turn tells, and it is thrown away. Volatile, so that it is made between the two looks at that.
        let (task, noted_epoch, copy) = unsafe {
            let noted = &raw const *noted;
            let task = (*noted).task.load(Acquire);
            let epoch = (*noted).epoch.load(Acquire);
            let tid = (&raw const (*noted).tid).read_volatile();
            let regs = (&raw const (*noted).regs).read_volatile();
            let copy = Preempted {
                place,
                turn,
                task,
                tid: tid as u32,
                out_ns: (&raw const (*noted).out_ns).read_volatile(),
                is_signal_pending: (&raw const (*noted).flags).read_volatile() & SIGNAL_PENDING
                    != 0,
                rseq: Some((&raw const (*noted).rseq).read_volatile()).filter(|area| *area != 0),
                regs: user_registers(&regs, (&raw const (*noted).fs_base).read_volatile()),
            };
            (task, epoch, copy)
        };
        std::sync::atomic::fence(SeqCst);
        let is_whole = self.turn_at(place) == Some(turn);
        (is_whole && task != 0 && noted_epoch == epoch).then_some(copy)
    }
}
