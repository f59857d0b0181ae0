//! The time namespace of the calling process (time_namespaces(7)): there CLOCK_MONOTONIC differs from the kernel's own by an offset, whereas what
//! the kernel stamps (`bpf_ktime_get_ns`, perf events with a clock of their own) does not. Containers that were moved from another machine
//! have one.

use std::sync::OnceLock;

use nix::libc;

/// In `/proc/self/timens_offsets` (`fs/proc/base.c`, `proc_timens_show_offsets` in `kernel/time/namespace.c`): lines of a clock's
/// name, seconds, and nanoseconds. They are those of processes that the calling one starts, and its own where it was started so.
const OFFSETS: &str = "/proc/self/timens_offsets";
const NS_PER_S: i64 = 1_000_000_000;

/// By how much CLOCK_MONOTONIC of the calling process is ahead of the kernel's, ns: 0 outside of time namespaces.
pub fn ahead_ns() -> i64 {
    static AHEAD: OnceLock<i64> = OnceLock::new();
    *AHEAD.get_or_init(|| {
        // There is no such file before Linux 5.6.
        let text = std::fs::read_to_string(OFFSETS).unwrap_or_default();
        of_monotonic(&text).unwrap_or_default()
    })
}

/// The kernel's CLOCK_MONOTONIC, ns, by that of the calling process.
pub fn kernels(ns: u64) -> u64 {
    ns.saturating_add_signed(ahead_ns().saturating_neg())
}

/// CLOCK_MONOTONIC of the calling process, ns, by the kernel's: for calls that take such a time.
pub fn own(ns: u64) -> u64 {
    ns.saturating_add_signed(ahead_ns())
}

fn of_monotonic(offsets: &str) -> Option<i64> {
    offsets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        // The number stands there where the kernel does not know the name.
        let name = words.next()?;
        if name != "monotonic" && name != libc::CLOCK_MONOTONIC.to_string() {
            return None;
        }
        let seconds: i64 = words.next()?.parse().ok()?;
        let ns: i64 = words.next()?.parse().ok()?;
        seconds.checked_mul(NS_PER_S)?.checked_add(ns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the offset of the right clock is taken, whatever its sign, and nonsense is none.
    #[test]
    fn offsets() {
        let usual = "monotonic           0         0\nboottime            0         0\n";
        assert_eq!(of_monotonic(usual), Some(0));
        let moved = "boottime   7  0\nmonotonic  -86400  500000000\n";
        assert_eq!(of_monotonic(moved), Some(-86_399_500_000_000));
        for nonsense in [
            "",
            "monotonic",
            "monotonic x 0",
            "monotonic 9223372036854775807 0",
        ] {
            assert_eq!(of_monotonic(nonsense), None, "{nonsense}");
        }
    }

    /// Check that both ways lead back to where they began.
    #[test]
    fn there_and_back() {
        let ns = 1_000_000_000_000_000;
        assert_eq!(kernels(own(ns)), ns);
    }
}
