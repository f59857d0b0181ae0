//! What the gates count.

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
    /// Arrivals at probes that stand.
    Arrivals = "arrivals",
    /// Threads claimed there.
    ArrivalsPassed = "arrivals-passed",
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
    /// Threads that were noted when they left their processor in the midst of user code.
    Preempted = "preempted",
    /// Instruction-breakpoint traps of a thread that is not the owner, or late.
    ReachSwallowed = "breakpoint-swallowed",
}
