//! The eBPF gates of one watched process: loading them, their control block and their
//! evidence. Where eBPF is not permitted there are none: the control block and the evidence are
//! then this process's own, the traps stand in rings, and the engine does the gates' work.
//!
//! The layouts are those of the `sanitizer-ebpf` crate.

use std::{
    mem::offset_of,
    ops::Range,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd},
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, SeqCst},
    },
};

use aya::{
    Ebpf, EbpfLoader, VerifierLogLevel,
    maps::{Map, MapData, RingBuf},
    programs::{PerfEvent as PerfEventProgram, RawTracePoint},
};
use gwp_race_abi::{
    Control, Event, HITS, HitRecord, KernelOffsets, SPACE_RANGES, STACK_BYTES, TrapRegs,
    control::Namespace, phase,
};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use crate::insn::Regs;

use super::{
    KernelError, btf, error::chain, fault, object::GATES_OBJECT, perf::PerfEvent, process::Bell,
    rights, settings, shared::SharedArray, tables::Tables,
};

/// Where the gates' debug messages go: to `log` at this level, or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateLog {
    /// The gates say nothing, and it costs nothing.
    Off,
    /// Debug messages through `log`.
    Debug,
}

/// The loaded gates, or what takes their place.
pub struct Gates {
    control: SharedArray<Control>,
    tables: Option<Tables>,
    home: Home,
}

/// Where the gates' work is done.
enum Home {
    Kernel(Box<Programs>),
    UserSpace(Substitute),
}

struct Programs {
    ebpf: Ebpf,
    records: SharedArray<HitRecord>,
    events: RingBuf<MapData>,
    standing: RingBuf<MapData>,
    log: Option<aya_log::EbpfLogger<&'static dyn log::Log>>,
}

struct Substitute {
    /// Readable when a ring has records.
    rings: Epoll,
    /// Rings when a thread may stand still.
    standing: Bell,
    /// Evidence of the present generation.
    hits: Vec<Hit>,
}

/// The programs, by what they are attached to.
#[derive(Clone, Copy, Debug)]
pub enum Gate {
    /// Clock samples.
    Clock,
    /// Instruction breakpoints of threads.
    Reach,
    /// Those of processors.
    Break,
    /// Data watchpoints.
    Watch,
}

impl Gate {
    const ALL: [Self; 4] = [Self::Clock, Self::Reach, Self::Break, Self::Watch];

    const fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock_gate",
            Self::Reach => "reach_gate",
            Self::Break => "break_gate",
            Self::Watch => "watch_gate",
        }
    }
}

/// A conflicting access, copied out of the shared memory.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The generation it was recorded in.
    pub generation: u64,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: [u8; 16],
    /// The gate has sent it a signal: it stops.
    pub stopping: bool,
    /// The kernel made the access, in the system call `regs.orig_rax`.
    pub in_kernel: bool,
    /// The eight bytes from the watched address on, after the access.
    pub value: u64,
    /// Registers after the access; for one of the kernel, those with which the program has called it.
    pub regs: TrapRegs,
    /// The thread pointer, 0 where unknown.
    pub fs_base: u64,
    /// Stack bytes from `regs.rsp` up.
    pub stack: Vec<u8>,
}

impl Hit {
    /// The registers after the access.
    #[must_use]
    pub const fn registers(&self) -> Regs {
        user_registers(&self.regs, self.fs_base)
    }
}

/// The registers at a trap in user mode, with the thread pointer, 0 where unknown.
#[must_use]
pub const fn user_registers(regs: &TrapRegs, fs_base: u64) -> Regs {
    Regs {
        r15: regs.r15,
        r14: regs.r14,
        r13: regs.r13,
        r12: regs.r12,
        rbp: regs.rbp,
        rbx: regs.rbx,
        r11: regs.r11,
        r10: regs.r10,
        r9: regs.r9,
        r8: regs.r8,
        rax: regs.rax,
        rcx: regs.rcx,
        rdx: regs.rdx,
        rsi: regs.rsi,
        rdi: regs.rdi,
        rip: regs.rip,
        eflags: regs.eflags,
        rsp: regs.rsp,
        fs_base,
        gs_base: 0,
    }
}

impl Gates {
    /// Loads the programs and maps, and attaches the tracepoint that tells of new threads.
    ///
    /// # Errors
    /// Fails without the object, the kernel's BTF, the rights or the features.
    pub fn load(log: GateLog) -> Result<Self, KernelError> {
        let failed = |call, what: &str, cause: &dyn std::fmt::Display| {
            KernelError::other(call, what.to_owned(), cause.to_string())
        };
        let refused = |call, what: &str, cause: &(dyn std::error::Error + 'static)| {
            let error = KernelError::caused(call, what, cause);
            // A function that may not be called is as unknown to the verifier.
            if is_refusal(cause) || settings::forbid_ebpf() {
                error.into_refusal()
            } else {
                error
            }
        };
        if GATES_OBJECT.is_empty() {
            return Err(failed(
                "loading the gates",
                "this gwp-race",
                &"it was built without its eBPF object: build it with `cargo xtask build`",
            ));
        }
        let offsets = btf::KernelOffsets::load()
            .map_err(|cause| failed("reading BTF", "the running kernel", &cause))?;
        let level: u8 = if log == GateLog::Debug { 5 } else { 0 };
        fault::before("bpf(BPF_MAP_CREATE)", || "the eBPF object".to_owned())?;
        let mut ebpf = EbpfLoader::new()
            .btf(None)
            .verifier_log_level(VerifierLogLevel::DISABLE)
            .override_global(aya_log::LEVEL, &level, false)
            .load(GATES_OBJECT)
            .map_err(|cause| refused("loading the gates", "the eBPF object", &cause))?;
        for gate in Gate::ALL {
            let program: &mut PerfEventProgram = ebpf
                .program_mut(gate.name())
                .ok_or("the object has no such program")
                .and_then(|program| program.try_into().map_err(|_| "it is of another type"))
                .map_err(|cause| failed("loading", gate.name(), &cause))?;
            fault::before("bpf(BPF_PROG_LOAD)", || gate.name().to_owned())?;
            program
                .load()
                .map_err(|cause| refused("bpf(BPF_PROG_LOAD)", gate.name(), &cause))?;
        }
        for (name, tracepoint) in [("newtask", "task_newtask"), ("exec", "sched_process_exec")] {
            let program: &mut RawTracePoint = ebpf
                .program_mut(name)
                .ok_or("the object has no such program")
                .and_then(|program| program.try_into().map_err(|_| "it is of another type"))
                .map_err(|cause| failed("loading", name, &cause))?;
            program
                .load()
                .map_err(|cause| refused("bpf(BPF_PROG_LOAD)", name, &cause))?;
            fault::before("bpf(BPF_RAW_TRACEPOINT_OPEN)", || tracepoint.to_owned())?;
            program.attach(tracepoint).map_err(|cause| {
                refused("attaching", &format!("the tracepoint {tracepoint}"), &cause)
            })?;
        }

        let mut take = |name: &str| {
            ebpf.take_map(name)
                .ok_or_else(|| failed("loading the gates", name, &"the object has no such map"))
        };
        let wrong =
            |name: &str, cause: &dyn std::error::Error| failed("bpf map", name, &chain(cause));
        let control = shared(&take("CONTROL")?, 1, "CONTROL")?;
        let records = shared(&take("HIT_RECORDS")?, HITS, "HIT_RECORDS")?;
        let space = shared(&take("SPACE")?, SPACE_RANGES, "SPACE")?;
        let functions = take("FUNCTIONS")?
            .try_into()
            .map_err(|cause| wrong("FUNCTIONS", &cause))?;
        let atomics = take("ATOMICS")?
            .try_into()
            .map_err(|cause| wrong("ATOMICS", &cause))?;
        let events = take("EVENTS")?
            .try_into()
            .map_err(|cause| wrong("EVENTS", &cause))?;
        let standing = take("STANDING")?
            .try_into()
            .map_err(|cause| wrong("STANDING", &cause))?;
        let log = match log {
            GateLog::Off => None,
            GateLog::Debug => Some(
                aya_log::EbpfLogger::init(&mut ebpf)
                    .map_err(|cause| failed("reading the gates' log", "AYA_LOGS", &cause))?,
            ),
        };
        let programs = Programs {
            ebpf,
            records,
            events,
            standing,
            log,
        };
        let gates = Self {
            control,
            tables: Some(Tables::new(space, functions, atomics)),
            home: Home::Kernel(Box::new(programs)),
        };
        gates.set_offsets(offsets);
        Ok(gates)
    }

    /// What takes the place of gates that may not be loaded. It needs no rights.
    ///
    /// # Errors
    /// Fails where memory or descriptors cannot be had.
    pub fn in_user_space() -> Result<Self, KernelError> {
        let rings = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|cause| KernelError::other("epoll_create1", "the tracer", cause))?;
        let substitute = Substitute {
            rings,
            standing: Bell::new()?,
            hits: Vec::new(),
        };
        Ok(Self {
            control: SharedArray::alone(1)?,
            tables: Some(Tables::unneeded()),
            home: Home::UserSpace(substitute),
        })
    }

    /// Whether there are gates; if not, the engine does their work.
    #[must_use]
    pub const fn are_in_kernel(&self) -> bool {
        matches!(self.home, Home::Kernel(_))
    }

    /// Without gates: [`Gates::events_fd`] is readable when this event has recorded something.
    ///
    /// # Errors
    /// Fails where epoll_ctl(2) does.
    pub fn wait_for_records(&self, event: &PerfEvent) -> Result<(), KernelError> {
        if let Home::UserSpace(substitute) = &self.home {
            substitute
                .rings
                .add(event, EpollEvent::new(EpollFlags::EPOLLIN, 0))
                .map_err(|cause| KernelError::other("epoll_ctl", "a perf event", cause))?;
        }
        Ok(())
    }

    /// Without gates: keeps evidence of the present generation.
    pub fn keep(&mut self, hit: Hit) {
        if let Home::UserSpace(substitute) = &mut self.home {
            substitute
                .hits
                .retain(|other| other.generation == hit.generation);
            substitute.hits.push(hit);
        }
    }

    /// Without gates: wakes the watchdog, since a thread may stand still from now on.
    pub fn tell_watchdog(&self) {
        if let Home::UserSpace(substitute) = &self.home {
            substitute.standing.ring();
        }
    }

    fn set_offsets(&self, offsets: btf::KernelOffsets) {
        if let Some(control) = self.control.pointer(0) {
            // SAFETY: the pointer is into the mapping; no program is attached to an event yet,
            // so that nothing reads the offsets while they are written.
            unsafe { (*control).offsets = offsets.into() };
        }
    }

    /// Makes them ready for another process, when the one before has ended and no event is open any more: whatever the control block
    /// said of it is forgotten, and what the gates have told of it is thrown away. Generations go on, so that no evidence of before
    /// counts for it.
    pub fn reset(&mut self) {
        /// Of the kernel and the tracer, not of a process.
        const KEPT: [Range<usize>; 3] = [
            bytes_at(offset_of!(Control, phase), size_of::<AtomicU64>()),
            bytes_at(offset_of!(Control, namespace), size_of::<Namespace>()),
            bytes_at(offset_of!(Control, offsets), size_of::<KernelOffsets>()),
        ];
        while self.next_event().is_some() {}
        if let Home::UserSpace(substitute) = &mut self.home {
            substitute.hits.clear();
        }
        let generation = phase::generation(self.control().phase.load(SeqCst)) + 1;
        let closed = phase::word(generation, phase::CLOSED);
        self.control().phase.store(closed, SeqCst);
        let Some(control) = self.control.pointer(0) else {
            return;
        };
        let words = control.cast::<AtomicU64>();
        for word in 0..size_of::<Control>() / size_of::<u64>() {
            let at = word * size_of::<u64>();
            if KEPT.iter().all(|kept| !kept.contains(&at)) {
                // SAFETY: the word is within the mapping and aligned. Beside the offsets, which are kept, all of the block is
                // AtomicU64s, for which 0 is valid, and which others may read meanwhile.
                unsafe { (*words.add(word)).store(0, SeqCst) };
            }
        }
    }

    /// The tables of the gates: for whoever loads them, who may be another thread. Once.
    pub fn take_tables(&mut self) -> Option<Tables> {
        self.tables.take()
    }

    /// The control block.
    #[must_use]
    pub fn control(&self) -> &Control {
        let pointer = self.control.pointer(0).expect("the map has one value");
        // SAFETY: the pointer is into a mapping that lives as long as `self`; all fields that
        // change after loading are atomics.
        unsafe { &*pointer }
    }

    /// The descriptor of a program, to attach it to an event.
    ///
    /// # Errors
    /// Fails if the program is not loaded.
    pub fn program(&self, gate: Gate) -> Result<BorrowedFd<'_>, KernelError> {
        let failed = |cause: &dyn std::fmt::Display| {
            KernelError::other("attaching a gate", gate.name(), cause.to_string())
        };
        let Home::Kernel(programs) = &self.home else {
            return Err(failed(&"there are no gates here"));
        };
        let program: &PerfEventProgram = programs
            .ebpf
            .program(gate.name())
            .ok_or("the object has no such program")
            .and_then(|program| program.try_into().map_err(|_| "it is of another type"))
            .map_err(|cause| failed(&cause))?;
        Ok(program.fd().map_err(|cause| failed(&cause))?.as_fd())
    }

    /// Readable when the gates have something to tell.
    #[must_use]
    pub fn events_fd(&self) -> BorrowedFd<'_> {
        match &self.home {
            // SAFETY: the descriptor is owned by `events` and lives as long as the borrow.
            Home::Kernel(programs) => unsafe {
                BorrowedFd::borrow_raw(programs.events.as_raw_fd())
            },
            Home::UserSpace(substitute) => substitute.rings.0.as_fd(),
        }
    }

    /// Readable when a gate has stopped a thread: for the watchdog, which is the only one to
    /// read it.
    #[must_use]
    pub fn standing_fd(&self) -> BorrowedFd<'_> {
        match &self.home {
            // SAFETY: the descriptor is owned by `standing` and lives as long as the borrow.
            Home::Kernel(programs) => unsafe {
                BorrowedFd::borrow_raw(programs.standing.as_raw_fd())
            },
            Home::UserSpace(substitute) => substitute.standing.as_fd(),
        }
    }

    /// Forgets what [`Gates::standing_fd`] is readable for.
    pub fn drain_standing(&mut self) {
        match &mut self.home {
            Home::Kernel(programs) => while programs.standing.next().is_some() {},
            Home::UserSpace(substitute) => substitute.standing.silence(),
        }
    }

    /// The next thing that the gates have told.
    pub fn next_event(&mut self) -> Option<Event> {
        let Home::Kernel(programs) = &mut self.home else {
            return None;
        };
        let item = programs.events.next()?;
        if item.len() < size_of::<Event>() {
            return None;
        }
        // SAFETY: `Event` is plain integers, valid for any bits, and the item is long enough.
        Some(unsafe { item.as_ptr().cast::<Event>().read_unaligned() })
    }

    /// Hands the gates' debug messages to `log`.
    pub fn flush_log(&mut self) {
        if let Home::Kernel(programs) = &mut self.home
            && let Some(log) = &mut programs.log
        {
            log.flush();
        }
    }

    /// The hits of a generation that are complete, in the order of their recording.
    #[must_use]
    pub fn hits(&self, generation: u64) -> Vec<Hit> {
        let programs = match &self.home {
            Home::Kernel(programs) => programs,
            Home::UserSpace(substitute) => {
                let of_it = |hit: &&Hit| hit.generation == generation;
                return substitute.hits.iter().filter(of_it).cloned().collect();
            }
        };
        let recorded = usize::try_from(self.control().stall.hits.load(SeqCst))
            .unwrap_or(HITS)
            .min(HITS);
        (0..recorded)
            .filter_map(|index| programs.hit(index, generation))
            .collect()
    }
}

impl Programs {
    fn hit(&self, index: usize, generation: u64) -> Option<Hit> {
        let record = self.records.pointer(index)?;
        // SAFETY: the pointer is into the mapping. The generation is written last, and a gate
        // writes a record only once in a generation: what it covers is complete and stays.
        unsafe {
            if (*record).generation.load(Acquire) != generation {
                return None;
            }
            let len = ((*record).stack_len as usize).min(STACK_BYTES);
            let stack = std::slice::from_raw_parts((&raw const (*record).stack).cast::<u8>(), len);
            Some(Hit {
                generation,
                time_ns: (*record).time_ns,
                tid: (*record).tid,
                comm: (*record).comm,
                stopping: (*record).stopping != 0,
                in_kernel: (*record).in_kernel != 0,
                value: (*record).value,
                regs: (*record).regs,
                fs_base: (*record).fs_base,
                stack: stack.to_vec(),
            })
        }
    }
}

pub(super) fn shared<T>(map: &Map, len: usize, name: &str) -> Result<SharedArray<T>, KernelError> {
    match map {
        Map::Array(data)
            if data
                .info()
                .is_ok_and(|info| info.value_size() as usize == size_of::<T>()) =>
        {
            SharedArray::map(&data.fd().as_fd(), len, name)
        }
        _ => Err(KernelError::other(
            "loading the gates",
            name,
            "the eBPF object is of another version than this program",
        )),
    }
}

const fn bytes_at(offset: usize, length: usize) -> Range<usize> {
    offset..offset + length
}

/// Whether what has failed was not permitted.
pub(super) fn is_refusal(error: &(dyn std::error::Error + 'static)) -> bool {
    !rights::may_load_gates() || is_denied(error)
}

fn is_denied(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests;
