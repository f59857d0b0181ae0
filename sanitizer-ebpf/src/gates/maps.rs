//! The maps of the gates.

use aya_ebpf::{
    bindings::{BPF_F_INNER_MAP, BPF_F_MMAPABLE},
    btf_maps::{Array, ArrayOfMaps, RingBuf},
    macros::btf_map,
};
use sanitizer_ebpf::{
    Control, Creation, Event, HITS, HitRecord, MODULES, ModuleRange, PREEMPTED as PLACES,
    PreemptedThread, SPACE_RANGES,
    probes::{STANDING as MOST_STANDING, StandingProbe},
};

const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// The control block.
#[btf_map]
pub(super) static CONTROL: Array<Control, 1, MMAPABLE> = Array::new();

/// Evidence of the present generation.
#[btf_map]
pub(super) static HIT_RECORDS: Array<HitRecord, HITS, MMAPABLE> = Array::new();

/// Executable ranges of the watched process, sorted. The tracer changes them only while nothing is in hand and nobody can be claimed:
/// whoever searches them at that moment finds some range or other, and only counts.
#[btf_map]
pub(super) static SPACE: Array<ModuleRange, SPACE_RANGES, MMAPABLE> = Array::new();

/// Covered functions by module. (The inner size is that of a prototype: the maps that user
/// space puts here have the size of their table.)
#[btf_map]
pub(super) static FUNCTIONS: ArrayOfMaps<Array<FunctionWords, 1, INNER>, MODULES> =
    ArrayOfMaps::new();

/// The words of a [`sanitizer_ebpf::FunctionEntry`]. Before Linux 6.2 a map of structures whose type is known, as that of a prototype is, is another one than
/// the same map without its type, as user space makes it (`timer_off` in `bpf_map_meta_equal` of `kernel/bpf/map_in_map.c`), and is not taken
/// in its place. Arrays are no structures.
pub(super) type FunctionWords = [u32; 2];

/// One past the end of each atomic instruction, by module: a data watchpoint fires after the
/// access, with the address of the next instruction.
#[btf_map]
pub(super) static ATOMICS: ArrayOfMaps<Array<u32, 1, INNER>, MODULES> = ArrayOfMaps::new();

/// Inner arrays may differ in size, and user space fills them through its own mapping.
const INNER: usize = (BPF_F_INNER_MAP | BPF_F_MMAPABLE) as usize;

/// Threads that are off their processors.
#[btf_map]
pub(super) static PREEMPTED: Array<PreemptedThread, PLACES, MMAPABLE> = Array::new();

/// Probes that stand.
#[btf_map]
pub(super) static PROBED: Array<StandingProbe, MOST_STANDING, MMAPABLE> = Array::new();

/// What the tracer is woken for.
#[btf_map]
pub(super) static EVENTS: RingBuf<Event, { 64 * 1024 }> = RingBuf::new();

/// Where threads were created. Apart, as these are large: a crowd of new threads leaves room for all else.
#[btf_map]
pub(super) static CREATIONS: RingBuf<Creation, { 64 * 1024 }> = RingBuf::new();

/// What the watchdog is woken for: the time at which a thread was stopped.
#[btf_map]
pub(super) static STANDING: RingBuf<u64, 4096> = RingBuf::new();
