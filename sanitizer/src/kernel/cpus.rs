//! The machine's processors, and events on each of them.
//!
//! Source of the format: `Documentation/admin-guide/cputopology.rst` (`/sys/devices/system/cpu/online`).

use nix::{
    sched::{CpuSet, sched_getaffinity},
    unistd::Pid,
};

use super::{KernelError, perf::PerfEvent};

/// The processors that are online; empty where the kernel does not say.
#[must_use]
pub fn online() -> Vec<u32> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    parse(&list)
}

/// How many processors the first thread of a process may use; those that this process may use where the kernel does not say.
#[must_use]
pub fn usable_by(pid: Pid) -> usize {
    let count = sched_getaffinity(pid).map(|set| {
        let all = 0..CpuSet::count();
        all.filter(|&cpu| set.is_set(cpu).unwrap_or(false)).count()
    });
    count.unwrap_or_else(|_| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Whether there is an event on each of these processors, and on no other. Where it is not known which are online,
/// nothing is to be done about it.
#[must_use]
pub fn are_complete(events: &[(u32, PerfEvent)], online: &[u32]) -> bool {
    online.is_empty() || events.iter().map(|(cpu, _)| cpu).eq(online)
}

/// Closes the events of processors that are not online, and opens those of others that have none.
///
/// # Errors
/// Fails where `open` does; what is open by then stays so.
pub fn complete(
    events: &mut Vec<(u32, PerfEvent)>,
    online: &[u32],
    mut open: impl FnMut(u32) -> Result<PerfEvent, KernelError>,
) -> Result<(), KernelError> {
    events.retain(|(cpu, _)| online.contains(cpu));
    for &cpu in online {
        if events.iter().all(|(open, _)| *open != cpu) {
            events.push((cpu, open(cpu)?));
        }
    }
    events.sort_unstable_by_key(|(cpu, _)| *cpu);
    Ok(())
}

/// Reads a list such as `0-3,8,10-11`.
fn parse(list: &str) -> Vec<u32> {
    /// More processors than any kernel is built for (`CONFIG_NR_CPUS`).
    const MOST: u32 = 1 << 16;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.parse().ok()?;
        let last: u32 = last.parse().ok()?;
        (last < MOST).then_some(first..=last)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that lists are read, and that nonsense is no processor.
    #[test]
    fn lists_are_read() {
        assert_eq!(parse("0-1\n"), [0, 1]);
        assert_eq!(parse("0,2-4,7\n"), [0, 2, 3, 4, 7]);
        assert_eq!(parse(""), [0; 0]);
        assert_eq!(parse("x,1-,0-4294967295,5"), [5]);
    }

    /// Check that this machine has one.
    #[test]
    fn there_is_a_processor() {
        assert!(!online().is_empty());
    }
}
