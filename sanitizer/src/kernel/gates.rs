//! The eBPF gates of one watched process: loading them, their control block and their
//! evidence. Where eBPF is not permitted there are none: the control block and the evidence are
//! then this process's own, the traps stand in rings, and the engine does the gates' work.
//!
//! The layouts are those of the `sanitizer-ebpf` crate.

mod hit;
mod lent;
mod load;
mod phase_word;
mod preempted;

use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, SeqCst};

use aya::Ebpf;
use aya::maps::{MapData, RingBuf};
use aya::programs::PerfEvent as PerfEventProgram;
use gwp_race_abi::control::Namespace;
use gwp_race_abi::{
    Control, Creation, Event, HITS, HitRecord, KernelOffsets, PreemptedThread, STACK_BYTES, phase,
};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use super::perf::PerfEvent;
use super::process::Bell;
use super::shared::SharedArray;
use super::tables::Tables;
use super::{KernelError, btf};
use lent::Lent;
use preempted::Switches;

pub use hit::{Hit, user_registers};
pub use phase_word::{Phase, PhaseWord};
pub use preempted::Preempted;

pub(super) use load::{is_refusal, shared};

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
    preempted: SharedArray<PreemptedThread>,
    switches: Switches,
    lent: Lent,
    events: RingBuf<MapData>,
    creations: RingBuf<MapData>,
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

impl Gates {
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
        const KEPT: [Range<usize>; 4] = [
            bytes_at(offset_of!(Control, phase), size_of::<AtomicU64>()),
            bytes_at(offset_of!(Control, namespace), size_of::<Namespace>()),
            bytes_at(offset_of!(Control, offsets), size_of::<KernelOffsets>()),
            bytes_at(offset_of!(Control, preemption), size_of::<AtomicU64>()),
        ];
        while self.next_event().is_some() {}
        while self.next_creation().is_some() {}
        if let Home::UserSpace(substitute) = &mut self.home {
            substitute.hits.clear();
        }
        let generation = self.phase().read().generation() + 1;
        self.phase().enter(generation, phase::CLOSED);
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

    /// The phase word of the control block.
    #[must_use]
    pub fn phase(&self) -> PhaseWord<'_> {
        PhaseWord::of(self.control())
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

    /// The next creation of a thread of which the gates have told where it was.
    pub fn next_creation(&mut self) -> Option<Creation> {
        let Home::Kernel(programs) = &mut self.home else {
            return None;
        };
        let item = programs.creations.next()?;
        if item.len() < size_of::<Creation>() {
            return None;
        }
        // SAFETY: `Creation` is plain integers, valid for any bits, and the item is long enough.
        Some(unsafe { item.as_ptr().cast::<Creation>().read_unaligned() })
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
                early: (*record).early != 0,
                value: (*record).value,
                regs: (*record).regs,
                fs_base: (*record).fs_base,
                stack: stack.to_vec(),
            })
        }
    }
}

const fn bytes_at(offset: usize, length: usize) -> Range<usize> {
    offset..offset + length
}

#[cfg(test)]
mod tests;
