//! How much of each there can be, and how often something may come to pass.

/// Bytes of user stack that a gate keeps with a conflicting access.
pub const STACK_BYTES: usize = 32 * 1024;

/// Bytes of the stack of who creates a thread that are told: enough for the C library's frames, those of C++ or Rust, and who has called them.
pub const CREATOR_STACK: usize = 2048;
/// It is copied in two pieces of this size: a stack may end in the second one.
pub const CREATOR_PIECE: usize = 1024;

/// The stack is copied in pieces of this size, so that an unmapped or absent page costs the
/// rest and not the whole.
pub const STACK_CHUNK: usize = 4096;

/// Conflicting accesses that one stall can keep; later ones are only counted.
pub const HITS: usize = 8;

/// Places of which it can be known that they race with a stalled thread's.
pub const KNOWN: usize = 16;

/// So many of those end a stall: an address that is accessed all the time costs the program a trap each time.
pub const KNOWN_TRAPS: u64 = 16;
/// The bits of [`crate::control::Stall::known_hits`] that count.
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
/// What it costs besides to copy the stack of who creates it, ns: two copies of 1 KiB and a record, not measured but surely no more.
pub const CREATION_NS: u64 = 800;

/// What it costs the program to note a thread that leaves its processor, ns, as measured in a virtual machine.
pub const NOTE_NS: u64 = 400;

/// Threads that were not taken in and may come to a site until it is no longer waited at: their traps are for nothing.
pub const NOT_HELD_TRAPS: u64 = 96;

/// Traps after which a stall is ended early: an address that is accessed all the time must not
/// cost the program a trap each time for as long as the stall lasts.
pub const TRAPS_PER_STALL: u64 = 64;
