//! The ABI of the program behind the kernel's probes (uprobes): which addresses to compute where a thread comes to one, and what is noted of it.

use core::sync::atomic::AtomicU64;

use crate::{KernelOffsets, control::Namespace};

/// Probes of one burst.
pub const PROBES: usize = 128;

/// Uses that one burst can note; a burst with more is over.
pub const USES: usize = 4096;

/// How often memory may be read for an address.
pub const DEREFERENCES: usize = 3;

/// What the program shares with user space.
#[repr(C)]
pub struct Control {
    /// The burst that notes, from 1 on; 0 for none. Hits of others are counted and no more.
    pub burst: AtomicU64,
    /// Its process.
    pub tgid: AtomicU64,
    /// How often one of its probes notes something: what comes more often is hot, and let alone.
    pub hits_per_probe: AtomicU64,
    /// How many hits end it.
    pub most_hits: AtomicU64,
    /// 1 when there were as many, or there is no room left: nothing is noted any more, and the probes are to be removed.
    pub is_over: AtomicU64,
    /// Hits of the burst and of the ones before, whosoever and whether noted or not: each has cost the thread a trap.
    pub hits: AtomicU64,
    /// Hits of this burst.
    pub burst_hits: AtomicU64,
    /// Places of [`USES`] that were given to somebody.
    pub taken: AtomicU64,
    /// The pid namespace in which all ids are said.
    pub namespace: Namespace,
    /// Offsets for reading tasks.
    pub offsets: KernelOffsets,
}

/// A probe of the burst, and what has come of it.
#[repr(C)]
pub struct Probe {
    /// What to compute.
    pub recipe: Recipe,
    /// How often threads of the process have come to it in this burst.
    pub hits: AtomicU64,
}

/// How an address is computed from registers: a sum, then so many times what stands in memory there and another displacement.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// The first register by its number in instructions, or [`NO_REGISTER`](crate::NO_REGISTER).
    pub base: u64,
    /// The second.
    pub index: u64,
    /// It is shifted left by so many bits.
    pub shift: u64,
    /// It is added when memory was read so many times.
    pub index_after: u64,
    /// How many times memory is read.
    pub dereferences: u64,
    /// What is added at first, and behind each reading.
    pub displacements: [u64; DEREFERENCES + 1],
}

/// A thread that was about to use an address.
#[repr(C)]
pub struct Use {
    /// The burst: written last.
    pub burst: AtomicU64,
    /// The probe, by its place in the burst.
    pub probe: u32,
    /// The thread.
    pub tid: u32,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// What it was about to use.
    pub address: u64,
}

/// Probes that can stand at a time.
pub const STANDING: usize = 1024;

/// A probe to which so many come in [`HOT_NS`] is hot: it counts no more, nobody is claimed there, and it is to be removed.
pub const HOT_HITS: u64 = 16;
/// See above.
pub const HOT_NS: u64 = 10_000_000_000;

/// What an arrival costs the program, ns, as measured in a virtual machine.
pub const ARRIVAL_NS: u64 = 400;

/// A probe that stands until it is removed.
#[repr(C)]
pub struct StandingProbe {
    /// Which of those that had this place, from 1 on; 0: none has it.
    pub turn: AtomicU64,
    /// How often threads of the process have come to it.
    pub hits: AtomicU64,
    /// When they were last begun to be counted anew, CLOCK_MONOTONIC ns.
    pub since_ns: AtomicU64,
    /// How often they have come since then.
    pub lately: AtomicU64,
    /// When that was too often, CLOCK_MONOTONIC ns; 0: it was not.
    pub hot_ns: AtomicU64,
    /// 1: whoever comes is counted, and never claimed.
    pub is_spared: AtomicU64,
}

/// The cookie of a probe: the lower half is its place in the burst, the upper one the lower half of the burst's number. Of one that stands: its place, and its turn.
#[must_use]
pub const fn cookie(burst: u64, place: u32) -> u64 {
    burst << 32 | place as u64
}
