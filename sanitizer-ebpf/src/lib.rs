//! The ABI that the eBPF gates and user space share: layouts of maps and records, the phases
//! of a sample, and the reasons for which a gate swallows an event.
//!
//! Everything here is `repr(C)`, without padding that matters, and valid for any bit pattern:
//! user space maps these structures into its own memory.
#![no_std]

pub mod access;
pub mod descent;
pub mod lock;
pub mod own;
pub mod sample;
pub mod system_call;

use core::sync::atomic::AtomicU64;

/// Bytes of user stack that a gate keeps with a conflicting access.
pub const STACK_BYTES: usize = 32 * 1024;

/// The stack is copied in pieces of this size, so that an unmapped or absent page costs the
/// rest and not the whole.
pub const STACK_CHUNK: usize = 4096;

/// Conflicting accesses that one stall can keep; later ones are only counted.
pub const HITS: usize = 8;

/// Places of which it can be known that they race with a stalled thread's.
pub const KNOWN: usize = 16;

/// So many of those end a stall: an address that is accessed all the time costs the program a trap each time.
pub const KNOWN_TRAPS: u64 = 16;
/// The bits of [`Control::known_hits`] that count.
pub const KNOWN_BITS: u32 = 16;

/// Program counters of clock samples that are kept for the strategy.
pub const SEEN: usize = 16;

/// Places outside analyzed functions that are counted as the program is seen to execute them. A power of two.
pub const ELSEWHERE: usize = 128;
/// Addresses that differ in so many low bits only share a place among those.
pub const ELSEWHERE_BITS: u32 = 6;

/// Threads that may come to a site without meeting another one's address until one is claimed all the same.
pub const UNMET_TRAPS: u64 = 96;

/// Addresses that a site's gate remembers, with the threads that were about to access them: all of those. A power of
/// two.
pub const MET: usize = 128;

/// Traps at a site, none of which claimed a thread, after which it is no longer waited at.
pub const TRAPS_PER_SITE: u64 = 64;

/// Locks of which it is known that threads have waited for them.
pub const LOCKS: usize = 16;

/// Threads that may come to a site while they hold one of them, before they count as traps in vain.
pub const HELD_TRAPS: u64 = 16;

/// Threads that may come to a site for memory that only they use, after which it is no longer waited at.
pub const OWN_TRAPS: u64 = 16;

/// Accesses of its own thread after which an address that nobody else has used is taken for private.
pub const OWN_ACCESSES: u64 = 8;

/// Places that a look at an address keeps of those where other threads access it.
pub const USERS: usize = 8;

/// Accesses of others after which such a look has seen enough; and it has at the first access of anybody's after four times the
/// time that the first one took to come, and this time, ns.
pub const OTHERS: u64 = 48;
/// See above.
pub const MORE_NS: u64 = 4_000_000;

/// What it costs the program to create a thread while a gate looks on, ns, as measured in a virtual machine.
pub const NEW_THREAD_NS: u64 = 200;

/// Threads that were not taken in and may come to a site until it is no longer waited at: their traps are for nothing.
pub const NOT_HELD_TRAPS: u64 = 96;

/// Traps after which a stall is ended early: an address that is accessed all the time must not
/// cost the program a trap each time for as long as the stall lasts.
pub const TRAPS_PER_STALL: u64 = 64;

/// Modules whose tables can be loaded at the same time.
pub const MODULES: usize = 1024;

/// The steps of a binary search that a gate makes at most: tables of up to 2^23 entries.
pub const SEARCH_STEPS: usize = 23;

/// Where a sample stands. The word in [`Control::phase`] is `generation << 8 | phase`; a
/// generation is one sample, from the claim of a thread to its release.
pub mod phase {
    /// No thread is claimed; a clock sample may claim one.
    pub const IDLE: u64 = 0;
    /// A gate has let one clock sample through; its thread stops.
    pub const CLAIMED: u64 = 1;
    /// The owner runs to an access site; its instruction breakpoint is armed.
    pub const SEEK: u64 = 2;
    /// The owner has reached the site; it stops.
    pub const REACHED: u64 = 3;
    /// The owner is stalled before its access; watchpoint hits of other threads count.
    pub const STALL: u64 = 4;
    /// The stall is over; no hit counts any more.
    pub const CLOSED: u64 = 5;
    /// The owner was let go after a hit: the gate waits to see it pass its access.
    pub const CONFIRM: u64 = 6;
    /// The owner has made its access.
    pub const CONFIRMED: u64 = 7;

    /// The word of a generation in a phase.
    #[must_use]
    pub const fn word(generation: u64, phase: u64) -> u64 {
        generation << 8 | phase
    }

    /// The phase part of a word.
    #[must_use]
    pub const fn of(word: u64) -> u64 {
        word & 0xff
    }

    /// The generation part of a word.
    #[must_use]
    pub const fn generation(word: u64) -> u64 {
        word >> 8
    }

    /// The word after the owner has come to the instruction at which it is waited for; `None` where it is waited for at none.
    #[must_use]
    #[inline(always)]
    pub const fn after_arrival(before: u64) -> Option<u64> {
        match of(before) {
            SEEK => Some(word(generation(before), REACHED)),
            CONFIRM => Some(word(generation(before), CONFIRMED)),
            _ => None,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Check that an arrival leads on from the two phases that wait for one, within the generation, and from no other.
        #[test]
        fn arrivals_lead_on() {
            for (phase, expected) in [
                (IDLE, None),
                (CLAIMED, None),
                (SEEK, Some(REACHED)),
                (REACHED, None),
                (STALL, None),
                (CLOSED, None),
                (CONFIRM, Some(CONFIRMED)),
                (CONFIRMED, None),
            ] {
                for generation in [0, 1, 1 << 40] {
                    let expected = expected.map(|next| word(generation, next));
                    assert_eq!(after_arrival(word(generation, phase)), expected, "{phase}");
                }
            }
        }
    }
}

/// Declares the counters of the gates with their names in the summary.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What a gate counts; also the reasons for which it swallows an event.
        #[repr(usize)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter { $($(#[$doc])* $name,)* }

        impl Counter {
            /// Every counter, in the order of the array.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            /// The number of counters.
            pub const COUNT: usize = Self::ALL.len();
            /// The name in the summary.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

counters! {
    /// Clock samples of the program that reached the gate.
    Samples = "samples",
    /// Those of other processes, where the clocks are the processors'.
    ForeignSamples = "samples-of-other-processes",
    /// Those of the program in analyzed functions, or in a memory routine that one of them has called.
    SamplesAnalyzed = "samples-analyzed",
    /// Clock samples let through: a thread was claimed.
    SamplesPassed = "samples-passed",
    /// Clock samples while another sample was in hand.
    SampleBusy = "sample-busy",
    /// Clock samples that the budget had nothing left for.
    SampleBudget = "sample-budget",
    /// Clock samples outside all known modules.
    SampleNoModule = "sample-unknown-module",
    /// Clock samples in modules without metadata.
    SampleUnanalyzed = "sample-unanalyzed",
    /// Clock samples, and arrivals at the site that is waited at, of threads that were not taken in: nobody can stop them.
    SampleNotHeld = "sample-not-held",
    /// Clock samples of a thread that cannot be stopped harmlessly now.
    SampleUnstoppable = "sample-unstoppable",
    /// Clock samples while others may claim threads.
    SampleNotWanted = "sample-not-wanted",
    /// Traps of threads that came to the site that is waited at.
    SiteTraps = "site-traps",
    /// Threads claimed there.
    SitePassed = "site-passed",
    /// Those of them that were about to access what another one had.
    SiteMet = "site-met",
    /// Traps there of threads that were let pass, because they were not.
    SiteUnmet = "site-unmet",
    /// Traps there of threads that were let pass, because they held a lock for which others had waited.
    SiteHeld = "site-held",
    /// Traps there of threads that were let pass, because they were about to access what only they use.
    SiteOwn = "site-own",
    /// Traps there that were let pass: skipped, without budget, or while a sample was in hand.
    SiteSwallowed = "site-swallowed",
    /// Traps at an address that stays watched after a stall.
    ShareTraps = "share-traps",
    /// Watchpoint traps that reached the gate.
    Traps = "traps",
    /// Traps with no open stall, or of another address than the one watched.
    HitStale = "stale",
    /// Traps of other processes, which use the same address for something of their own.
    HitForeign = "other-process",
    /// Traps of the stalled thread itself.
    HitSameThread = "same-thread",
    /// Traps in the kernel that are not those of a system call's buffer.
    HitKernel = "kernel",
    /// Traps in code that was not analyzed.
    HitUnanalyzed = "unanalyzed",
    /// Atomic accesses where the user asked to ignore those.
    HitAtomic = "atomic-ignored",
    /// Accesses of which it is known that they race with the stalled thread's: the stall goes on.
    HitKnown = "known",
    /// Hits beyond those that one stall keeps.
    HitOverflow = "overflow",
    /// Conflicting accesses recorded.
    HitRecorded = "recorded",
    /// Threads that the program has created.
    Threads = "threads-created",
    /// Those that were left alone at their creation: there was no allowance for them.
    ThreadsLeft = "threads-left-alone",
    /// Instruction-breakpoint traps of a thread that is not the owner, or late.
    ReachSwallowed = "breakpoint-swallowed",
}

/// Which signal, if any, stops a thread (invariant I1).
pub mod delivery {
    /// `attr.sigtrap`: the gate's return value lets the kernel's own SIGTRAP through.
    pub const SIGTRAP: u32 = 0;
    // Any other value is the number of the signal that the gate sends by itself.
}

/// Byte offsets of kernel structures, from `/sys/kernel/btf/vmlinux`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelOffsets {
    /// `task_struct.ptrace`
    pub task_ptrace: u32,
    /// `task_struct.parent`: the tracer, while traced.
    pub task_parent: u32,
    /// `task_struct.tgid`
    pub task_tgid: u32,
    /// `task_struct.pid`
    pub task_pid: u32,
    /// `task_struct.sighand`
    pub task_sighand: u32,
    /// `task_struct.blocked`
    pub task_blocked: u32,
    /// `sighand_struct.action`
    pub sighand_action: u32,
    /// `sizeof(struct k_sigaction)`
    pub k_sigaction_size: u32,
    /// `k_sigaction.sa.sa_handler`
    pub sa_handler: u32,
    /// `task_struct.group_leader`
    pub task_group_leader: u32,
    /// `task_struct.thread_pid`
    pub task_thread_pid: u32,
    /// `pid.level`
    pub pid_level: u32,
    /// `pid.numbers`, an array of `upid`.
    pub pid_numbers: u32,
    /// `sizeof(struct upid)`
    pub upid_size: u32,
    /// `upid.nr`
    pub upid_nr: u32,
    /// `upid.ns`
    pub upid_ns: u32,
    /// `task_struct.sched_info.run_delay`; 0 where the kernel does not count it.
    pub task_run_delay: u32,
    /// `task_struct.thread.fsbase`; 0 where the kernel's type information does not name it.
    pub task_fs_base: u32,
    /// `task_struct.signal`
    pub task_signal: u32,
    /// `signal_struct.live`
    pub signal_live: u32,
}

/// The control block: one page shared by the tracer and the gates of one process.
#[repr(C)]
pub struct Control {
    /// `generation << 8 | phase`, see [`phase`].
    pub phase: AtomicU64,
    /// When the owner was stopped (claimed, or at the site it was sent to), CLOCK_MONOTONIC ns.
    pub claim_time_ns: AtomicU64,
    /// How long the owner had waited for a processor in its life, when it was claimed; ns.
    pub claim_run_delay_ns: AtomicU64,
    /// Since when a thread stands still for a sample, CLOCK_MONOTONIC ns; 0 while none does. The
    /// gates set it when they stop one, the tracer clears it; the watchdog minds it.
    pub standing_since_ns: AtomicU64,
    /// The tracer's heartbeat for the watchdog: when it will look at its tracees again at the
    /// latest, CLOCK_MONOTONIC ns; while it works, when it began to. 0 before its first look.
    pub next_look_ns: AtomicU64,
    /// A claim older than this many ns is void: its stop was lost.
    pub claim_timeout_ns: AtomicU64,
    /// Nanoseconds that the budget has earned: a share of the target's CPU time.
    pub earned_ns: AtomicU64,
    /// Nanoseconds that samples have cost.
    pub spent_ns: AtomicU64,
    /// CPU time of the program that one clock sample stands for, ns; 0 where it is not earned by samples.
    pub sample_ns: AtomicU64,
    /// That of all samples until now.
    pub sampled_ns: AtomicU64,
    /// What one clock sample earns, ns.
    pub earn_per_sample_ns: AtomicU64,
    /// What one trap costs, ns.
    pub trap_cost_ns: AtomicU64,
    /// The watched address.
    pub watch_address: AtomicU64,
    /// Addresses behind accesses of which it is known that they race with the one of the stalled thread; 0 where
    /// there are no more.
    pub known: [AtomicU64; KNOWN],
    /// 1: of each place one access is recorded in a stall; further ones count as known.
    pub places_once: AtomicU64,
    /// `generation << KNOWN_BITS | count`: those of them that were made during the stall of that generation.
    pub known_hits: AtomicU64,
    /// Start of the instruction that a sought or confirmed breakpoint stands on.
    pub breakpoint: AtomicU64,
    /// Traps of the stall in hand.
    pub stall_traps: AtomicU64,
    /// The access site that is waited at for any thread; 0 while none is.
    pub site: AtomicU64,
    /// Threads that are let pass there before one is claimed.
    pub site_skip: AtomicU64,
    /// What may have been spent beyond what was earned when a thread is claimed there, ns.
    pub site_credit_ns: AtomicU64,
    /// Traps at the site since it is waited at, but for those in `site_unmet`.
    pub site_traps: AtomicU64,
    /// When the first of the program's threads came, CLOCK_MONOTONIC ns; 0: none has.
    pub site_first_ns: AtomicU64,
    /// Until when only a thread is claimed there that is about to access what another one has, CLOCK_MONOTONIC ns;
    /// 0: any is.
    pub site_meets_until_ns: AtomicU64,
    /// What makes the address of its access: two registers by their numbers in instructions ([`NO_REGISTER`] for
    /// none), the second shifted left by so many bits, and a displacement.
    pub site_base: AtomicU64,
    /// See above.
    pub site_index: AtomicU64,
    /// See above.
    pub site_shift: AtomicU64,
    /// See above.
    pub site_displacement: AtomicU64,
    /// Another register that points to what is accessed there, by its number, of the call of a memory routine; or [`NO_REGISTER`].
    pub site_other: AtomicU64,
    /// 1: a thread is let pass there that is about to access what only it uses ([`own::is_own`]).
    pub site_passes_own: AtomicU64,
    /// So many bytes from the stack pointer up are that, beside others.
    pub site_frame: AtomicU64,
    /// Traps of threads that were let pass for that reason.
    pub site_own: AtomicU64,
    /// Traps of threads that were let pass, since nobody else was about to access the same.
    pub site_unmet: AtomicU64,
    /// 1: a thread that holds one of `locks` is let pass there.
    pub site_spares_holders: AtomicU64,
    /// Traps of threads that were let pass for that reason.
    pub site_held: AtomicU64,
    /// Traps of threads that were not taken in.
    pub site_not_held: AtomicU64,
    /// Locks for which threads have waited ([`lock::Form::word`]); 0 where there are no more.
    pub locks: [AtomicU64; LOCKS],
    /// Addresses that were about to be accessed there, ever since it is waited at; the next place in `met`.
    pub met_count: AtomicU64,
    /// The last of them, and the threads, or [`NOBODY`] at those that nobody is claimed for.
    pub met: [[AtomicU64; 2]; MET],
    /// The address that stays watched after a stall, to see whether others use it; 0 while none does.
    pub share_address: AtomicU64,
    /// The thread that was stalled there.
    pub share_tid: AtomicU64,
    /// Its accesses since.
    pub share_own: AtomicU64,
    /// Since when it stays watched, CLOCK_MONOTONIC ns.
    pub share_since_ns: AtomicU64,
    /// Those of other threads.
    pub share_others: AtomicU64,
    /// After the first of those: until when there are more to be seen, CLOCK_MONOTONIC ns.
    pub share_until_ns: AtomicU64,
    /// How many places of [`USERS`] are taken.
    pub share_users: AtomicU64,
    /// Where those were made, as the address of the next instruction (0: not known yet), and how long after
    /// it began, ns. Two processors may have taken a place each for the same address.
    pub users: [[AtomicU64; 2]; USERS],
    /// 1: clock samples may claim threads; 0: they are only counted.
    pub clock_claims: AtomicU64,
    /// Clock samples in analyzed modules, ever; the next place in `seen`.
    pub seen_count: AtomicU64,
    /// Program counters of the last of them.
    pub seen: [AtomicU64; SEEN],
    /// So many more new threads are told of: what it takes to take them in is part of the budget.
    pub threads_allowed: AtomicU64,
    /// Program counters of clock samples outside analyzed functions, by a hash of all but their low
    /// [`ELSEWHERE_BITS`] bits, and how many more of them than of others with the same hash there were.
    pub elsewhere: [[AtomicU64; 2]; ELSEWHERE],
    /// When an unknown program counter was last told of, ns.
    pub unknown_pc_ns: AtomicU64,
    /// Always 0, which the kernel's verifier cannot know: see the gates' search.
    pub zero: AtomicU64,
    /// The tracer's pid namespace (the kernel's pointer to it): all ids here are those of that
    /// namespace. 0 until the gates have run once, in the tracer.
    pub pid_namespace: AtomicU64,
    /// How many namespaces it is below the initial one.
    pub pid_level: AtomicU64,
    /// The claimed thread.
    pub owner: AtomicU64,
    /// Hits of this generation.
    pub hits: AtomicU64,
    /// The thread group watched; [`NO_PROCESS`] while there is none, or it executes a program that the tracer does not know of yet.
    pub tgid: AtomicU64,
    /// The thread group of the tracer.
    pub tracer: AtomicU64,
    /// See [`delivery`].
    pub delivery: AtomicU64,
    /// 1: atomic accesses are swallowed (`--mixed ignore`).
    pub ignore_atomic: AtomicU64,
    /// 1: accesses of code that was not analyzed are kept (`--unanalyzed report`).
    pub keep_unanalyzed: AtomicU64,
    /// 1: so are those of libraries without metadata: what is watched is a variable of one, which may hold what it returns.
    pub keep_results: AtomicU64,
    /// 1: the clocks are those of the processors, not of threads: a signal is for the gate to send.
    pub clock_by_cpu: AtomicU64,
    /// 1: so are watchpoints and breakpoints: whose access it was is for the gate to tell, too.
    pub watch_by_cpu: AtomicU64,
    /// 1: the first racing thread of a stall is stopped as well, so that the tracer knows at once, and can read all of its stack.
    pub stop_racing: AtomicU64,
    /// Offsets for reading `current`.
    pub offsets: KernelOffsets,
    /// Counts, by [`Counter`].
    pub counters: [AtomicU64; Counter::COUNT],
}

impl Control {
    /// Where in `elsewhere` a program counter is counted.
    #[must_use]
    pub const fn place_elsewhere(pc: u64) -> usize {
        /// 2^64 divided by the golden ratio: spreads what is near.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        ((pc >> ELSEWHERE_BITS).wrapping_mul(SPREAD) >> (64 - ELSEWHERE.trailing_zeros())) as usize
    }

    /// What stands there after a sample at `pc`, where there was a place with its number before: what is executed most often
    /// stays, whatever else has the same hash.
    #[must_use]
    pub const fn counted_elsewhere([place, number]: [u64; 2], pc: u64) -> [u64; 2] {
        if (place ^ pc) >> ELSEWHERE_BITS == 0 {
            [place, number + 1]
        } else if number == 0 {
            [pc, 1]
        } else {
            [place, number - 1]
        }
    }
}

/// In the place of a thread: accesses of others are not waited for.
pub const NOBODY: u64 = u64::MAX;

/// In the place of a process: no gate takes anything for the watched one's.
pub const NO_PROCESS: u64 = 0;

/// For a register that takes no part in an address.
pub const NO_REGISTER: u64 = 16;

/// One executable range of an address space, in a sorted array; unused entries at the end
/// have `start == u64::MAX`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModuleRange {
    /// First run-time address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Run-time address that the offsets of the tables count from.
    pub base: u64,
    /// Index into the outer maps of tables.
    pub table: u32,
    /// Entries in the table of functions.
    pub functions: u32,
    /// Entries in the table of atomics.
    pub atomics: u32,
    /// [`ModuleRange::ROUTINES_ONLY`] or 0.
    pub flags: u32,
}

impl ModuleRange {
    /// The module has no metadata: the table of functions holds known `mem*` routines only.
    pub const ROUTINES_ONLY: u32 = 1;
}

/// Executable ranges that one address space can have: 2^`SPACE_STEPS` - 1.
pub const SPACE_RANGES: usize = 1024;
/// The steps of the binary search over them.
pub const SPACE_STEPS: usize = 10;

/// A covered function, in a sorted array.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionEntry {
    /// Offset of the first byte from [`ModuleRange::base`].
    pub start: u32,
    /// Bytes, with [`FunctionEntry::ANALYZED`] in the top bit.
    pub size_flags: u32,
}

impl FunctionEntry {
    /// Its atomic accesses are in the table of atomics.
    pub const ANALYZED: u32 = 1 << 31;
    /// A known `mem*` routine: whether its access counts is a matter of its caller.
    pub const MEM_ROUTINE: u32 = 1 << 30;
    /// The bits of `size_flags` that are the size.
    pub const SIZE_MASK: u32 = Self::MEM_ROUTINE - 1;
}

/// General-purpose registers at the trap, in the order of `struct pt_regs`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct TrapRegs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub eflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// A conflicting access, as the gate saw it.
#[repr(C)]
pub struct HitRecord {
    /// The generation it belongs to; written last.
    pub generation: AtomicU64,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Thread.
    pub tid: u32,
    /// 1: the thread was sent a signal and stops.
    pub stopping: u32,
    /// The eight bytes at the watched address (aligned down to its length) after the access.
    pub value: u64,
    /// Stack bytes that are valid.
    pub stack_len: u32,
    /// The thread's name is in `comm`.
    pub comm: [u8; 16],
    /// 1: the kernel made the access, in the system call `regs.orig_rax`.
    pub in_kernel: u32,
    /// Registers after the access; for one of the kernel, those with which the program has called it.
    pub regs: TrapRegs,
    /// The thread pointer, 0 where unknown. The kernel's copy: a program that moved it with
    /// `wrfsbase` since its last switch has another one, and what it accessed by it is not matched.
    pub fs_base: u64,
    /// Bytes from `regs.rsp` up.
    pub stack: [u8; STACK_BYTES],
}

/// What the gates tell the tracer through the ring buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// One of the `EVENT_` constants.
    pub kind: u32,
    /// The thread or process concerned.
    pub tid: u32,
    /// The thread that caused it.
    pub by: u32,
    /// Keeps the layout free of implicit padding.
    pub reserved: u32,
    /// A program counter, or a generation.
    pub value: u64,
}

/// A thread was created in the watched process.
pub const EVENT_THREAD: u32 = 1;
/// A sample fell outside all known modules at `value`.
pub const EVENT_UNKNOWN_PC: u32 = 3;
/// The owner made its access in generation `value`.
pub const EVENT_CONFIRMED: u32 = 4;
/// The stall of generation `value` has trapped [`TRAPS_PER_STALL`] times, or in idle times the site
/// that is waited at [`TRAPS_PER_SITE`] times.
pub const EVENT_BUSY: u32 = 5;
/// It is known whether the address is shared that stays watched since `value`, ns, and by whom.
pub const EVENT_SHARED: u32 = 6;
/// The kernel has accessed the bytes of the stall of generation `value` in a system call: the thread does not stop
/// for it, and whether it is evidence is for the tracer to tell.
pub const EVENT_HIT: u32 = 7;
/// Others have come [`TRAPS_PER_STALL`] times to where the owner of generation `value` is waited for.
pub const EVENT_CROWDED: u32 = 8;
/// In the stall of generation `value` an access was made of which it is known that it races.
pub const EVENT_KNOWN: u32 = 9;
/// The watched process creates more threads than are allowed to be taken in; told once until some are again.
pub const EVENT_THREADS_LEFT: u32 = 10;
/// Thread `tid` of the watched process, which is not held, executes another program; no process is watched from then on.
pub const EVENT_EXEC: u32 = 11;
