//! How many hardware breakpoints others have, as far as it can be found out by opening some for a moment: the kernel tells it nobody.
//!
//! A processor has four. One of a processor is to be had while those of that processor, and the most that any thread has, come to three at most; one of a thread while its own and the most that any processor has do
//! (`max_bp_pinned_slots` in `kernel/events/hw_breakpoint.c`). So what a thread without any can get tells of all processors at once, and whether a processor's is to be had tells of all threads.

use super::{
    KernelError,
    perf::{EventOptions, PerfEvent},
    probe::free_breakpoints,
    process::thread_id,
};

/// Debug registers for addresses that a processor has (`HBP_NUM` in `arch/x86/include/asm/hw_breakpoint.h`).
pub const REGISTERS: usize = 4;

/// The most breakpoints for whatever it executes that any processor has: ours and those of others. It takes some 30 us, and for some of these nobody else gets one of a processor.
///
/// # Errors
/// Fails where perf_event_open(2) does, but for running out of breakpoints.
pub fn most_of_processors() -> Result<usize, KernelError> {
    let free = free_breakpoints(thread_id())?;
    Ok(REGISTERS.saturating_sub(free))
}

/// Whether a breakpoint of this processor is to be had beside those that it and threads have. It takes a grace period of RCU: 5 to 25 ms, in which nobody else waits.
///
/// # Errors
/// Fails where perf_event_open(2) does, but for running out of breakpoints: `EACCES` without CAP_PERFMON.
pub fn has_left(cpu: u32) -> Result<bool, KernelError> {
    match PerfEvent::watchpoint_on_cpu(cpu) {
        Ok(_) => Ok(true),
        Err(error) if error.is_out_of_breakpoints() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Finds out whether so many of this processor are to be had beside one of each thread. It takes as long as [`has_left`].
///
/// # Errors
/// Fails where perf_event_open(2) does: `ENOSPC` where they are not.
pub fn check_room(cpu: u32, wanted: usize) -> Result<(), KernelError> {
    let _of_thread = PerfEvent::breakpoint(thread_id(), EventOptions::SILENT)?;
    let all: Result<Vec<_>, _> = (0..wanted)
        .map(|_| PerfEvent::watchpoint_on_cpu(cpu))
        .collect();
    all.map(drop)
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc::channel, time::Duration};

    use super::*;
    use crate::kernel::cpus;

    /// Check that breakpoints of a processor are counted by a thread that has none, that those of another thread count for the room that a processor has, and that nothing is left behind. Other tests may take some meanwhile,
    /// for a while, so it is tried again.
    #[test]
    fn what_others_have() {
        const TRIES: usize = 200;
        const BETWEEN: Duration = Duration::from_millis(50);
        let cpu = *cpus::online().last().expect("there is a processor");
        let of_cpu = || PerfEvent::watchpoint_on_cpu(cpu).ok();
        let mut seen = Vec::new();
        for _ in 0..TRIES {
            let before = most_of_processors().unwrap();
            let taken = of_cpu();
            let with_it = most_of_processors().unwrap();
            drop(taken);
            // Another thread has as many as it can get.
            let (room, without) = beside_a_thread_with_all(cpu);
            let after = most_of_processors().unwrap();
            let is_empty = before == 0 && with_it == 1 && after == 0;
            if is_empty && !room && without && check_room(cpu, REGISTERS - 1).is_ok() {
                return;
            }
            seen.push((before, with_it, room, without, after));
            std::thread::sleep(BETWEEN);
        }
        panic!("run as root, without other tools that use breakpoints: {seen:?}");
    }

    /// Whether a processor has one left beside a thread that has all, and when that has ended.
    fn beside_a_thread_with_all(cpu: u32) -> (bool, bool) {
        let (has_them, are_had) = channel();
        let (is_over, end) = channel::<()>();
        let other = std::thread::spawn(move || {
            let open = |_| PerfEvent::breakpoint(thread_id(), EventOptions::SILENT).ok();
            let all: Vec<_> = (0..REGISTERS).map_while(open).collect();
            has_them.send(()).unwrap();
            let _ = end.recv();
            drop(all);
        });
        are_had.recv().unwrap();
        let beside = has_left(cpu).unwrap();
        drop(is_over);
        other.join().unwrap();
        (beside, has_left(cpu).unwrap())
    }
}
