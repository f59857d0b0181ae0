//! The control block: what the tracer and the gates of one process tell each other.

use core::sync::atomic::AtomicU64;

use crate::{Counter, ELSEWHERE, ELSEWHERE_BITS, KNOWN, KernelOffsets, LOCKS, MET, SEEN, USERS};

/// The control block: one page shared by the tracer and the gates of one process.
#[repr(C)]
pub struct Control {
    /// `generation << 8 | phase`, see [`crate::phase`].
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
    /// 1: a thread is let pass there that is about to access what only it uses ([`crate::own::is_own`]).
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
    /// Locks for which threads have waited ([`crate::lock::Form::word`]); 0 where there are no more.
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
    /// See [`crate::delivery`].
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
