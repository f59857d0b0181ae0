//! What it costs to stop somebody, to arm something and to trap, and what is earned: measured values.

use std::time::Duration;

/// The machine and the budget of a simulated hunt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// What the machine is called.
    pub name: &'static str,
    /// One access or arrival that traps and is let pass, s.
    pub trap_s: f64,
    /// Arming the processors' two breakpoints and disarming them, with the tracer's work for it, s.
    pub arm_s: f64,
    /// A stop, besides the time for which the thread stands: wake-ups, the tracer's work, what cannot be seen of it, s.
    pub stop_s: f64,
    /// A profile of some dozens of sites, without who comes there, s.
    pub profile_s: f64,
    /// One arrival at a site that is profiled, s.
    pub hit_s: f64,
    /// Looking which threads are off their processors, and what they are about to access, s.
    pub look_s: f64,
    /// Arming is not over before this time, s.
    pub delay_s: f64,
    /// CPU time between two samples of a processor, s.
    pub sample_s: f64,
}

/// The machine of docs/benchmarks.md, virtual within a virtual one: a trap takes 13 us; arming and disarming 0.17 ms, for each of which 2.4 times
/// as much is charged; a stop 0.15 ms that nobody sees, and 0.07 ms in the kernel, and as much for arming again. A profile takes 0.65 ms, which is charged so, too.
/// as much is charged; a stop 0.15 ms that nobody sees, and 0.07 ms in the kernel, and as much for arming again; to look at 16 threads and decode what they do next 0.06 ms.
pub const NESTED: Costs = Costs {
    name: "nested VM",
    trap_s: 13.2e-6,
    arm_s: 0.41e-3,
    stop_s: 0.63e-3,
    profile_s: 1.56e-3,
    hit_s: 0.4e-6,
    look_s: 0.15e-3,
    delay_s: 0.35e-3,
    sample_s: 10e-3,
};

/// The same without a hypervisor, where a trap takes 1 to 2 us and interrupts another processor in as long: estimated from that.
pub const BARE: Costs = Costs {
    name: "bare metal",
    trap_s: 1.5e-6,
    arm_s: 0.06e-3,
    stop_s: 0.12e-3,
    profile_s: 0.3e-3,
    hit_s: 0.15e-6,
    look_s: 0.05e-3,
    delay_s: 0.05e-3,
    sample_s: 10e-3,
};

/// Profiles are so far apart, from beginning to beginning: each changes the program's mappings, and whoever changes them himself waits for that.
pub const PROFILES_APART: Duration = Duration::from_millis(250);
/// Traps of one stall or look, at most: from then on nobody is watched any more.
pub const MOST_TRAPS: f64 = 64.0;
/// Threads that come to a site and are not wanted, after which it is no longer waited at; and those that hold a lock for which others have waited.
pub const MOST_PASSED: u32 = 96;
/// See above.
pub const MOST_HELD: u32 = 80;
/// A stall lasts no longer than this, and no shorter than that.
pub const LONGEST_STALL: Duration = Duration::from_millis(5);
/// What is let pass at a site before somebody is stopped, on average.
pub const PASSED: f64 = 1.0;
/// A second of the program at first, 40 ms at most, may be spent before it is earned.
pub const MOST_ADVANCE_S: f64 = 40e-3;
/// Savings are cut at this, s.
pub const SAVINGS_S: f64 = 20e-3;
/// What a thread may cost that comes while nothing is left, s.
pub const CREDIT_S: f64 = 5e-3;
