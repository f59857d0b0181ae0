//! What a trap into a gate costs on this machine: a microsecond or two on bare metal, ten times
//! that in nested virtual machines. The budget must count with the real figure.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use super::{
    KernelError,
    gates::{Gate, Gates},
    perf::{EventOptions, PerfEvent},
    ring::{Ring, RingSize},
};
use crate::addr::RuntimeAddr;

/// No trap is dearer, however busy the machine is while it is measured.
const MOST: Duration = Duration::from_micros(100);

/// Traps in a row that a measurement takes, how many measurements there are, and how far apart: for some milliseconds all may be
/// slow, where processors are shared.
const TRAPS: u32 = 32;
const MEASUREMENTS: usize = 4;
const PAUSE: Duration = Duration::from_micros(500);

/// Stack bytes in which a strategy may look for callers; without gates, a clock sample takes them along.
pub const SAMPLED_STACK: u16 = 512;

#[inline(never)]
extern "C" fn trapped(value: u32) -> u32 {
    black_box(value).wrapping_mul(3)
}

/// The cost of one benign trap in nanoseconds, measured on the calling thread.
///
/// # Errors
/// Fails where perf_event_open(2) and its calls do.
pub fn trap_cost_ns(gates: &Gates) -> Result<u64, KernelError> {
    let options = EventOptions {
        // As much as a clock sample takes along.
        record_stack: (!gates.are_in_kernel()).then_some(SAMPLED_STACK),
        ..EventOptions::SILENT
    };
    let tid = nix::unistd::gettid().as_raw().cast_unsigned();
    let mut event = PerfEvent::breakpoint(tid, options)?;
    let mut ring = if gates.are_in_kernel() {
        // Nobody owns a sample yet, so the gate swallows every trap.
        event.set_gate(gates.program(Gate::Reach)?)?;
        None
    } else {
        Some(Ring::of(&event, RingSize::USUAL)?)
    };
    // The lower quartile: being preempted in the middle of some calls must not count, on a busy machine
    // neither.
    let run = || {
        let mut times: Vec<Duration> = (0..TRAPS)
            .map(|round| {
                let start = Instant::now();
                black_box(trapped(black_box(round)));
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 4]
    };
    let mut least = || {
        let runs = (0..MEASUREMENTS).map(|_| {
            // In a full one nothing would be recorded, which is cheap.
            if let Some(ring) = &mut ring {
                ring.take(|_| {});
            }
            std::thread::sleep(PAUSE);
            run()
        });
        runs.min().unwrap_or_default()
    };
    let plain = least();
    event.break_at(RuntimeAddr(
        trapped as extern "C" fn(u32) -> u32 as usize as u64,
    ))?;
    let trapping = least();
    event.disable()?;
    let cost = trapping.saturating_sub(plain).min(MOST);
    Ok(cost.as_nanos() as u64)
}
