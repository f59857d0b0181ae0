//! A clock sample: may its thread be claimed, here and now? Whether the thread can be stopped harmlessly is asked last, since
//! to know it costs most, and by each side in its own way.

use crate::Counter;

/// An unknown program counter leads to a look at the modules this often at most, ns.
pub const UNKNOWN_PC_INTERVAL_NS: u64 = 100_000_000;

/// Whether a sample may lead to an access that can be judged, in a module whose tables have so many functions. Compilers leave
/// functions without memory accesses out of the tables, and accesses are found in callers as well: any code of a module with
/// metadata will do. Of a C library only the routines count that it carries out for such code.
#[must_use]
#[inline(always)]
pub const fn is_worth_it(functions: u32, has_metadata: bool, is_in_routine: bool) -> bool {
    functions > 0 && (has_metadata || is_in_routine)
}

/// Why no thread may be claimed now, if none may.
#[must_use]
#[inline(always)]
pub const fn refusal(
    is_at_rest: bool,
    is_wanted: bool,
    spent_ns: u64,
    earned_ns: u64,
) -> Option<Counter> {
    if !is_at_rest {
        Some(Counter::SampleBusy)
    } else if !is_wanted {
        Some(Counter::SampleNotWanted)
    } else if spent_ns > earned_ns {
        Some(Counter::SampleBudget)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that code counts where it was analyzed, and of other modules known routines alone.
    #[test]
    fn what_is_worth_a_sample() {
        for (functions, has_metadata, is_in_routine, expected) in [
            (0, false, false, false),
            (0, true, false, false),
            (0, true, true, false),
            (1, false, false, false),
            (1, false, true, true),
            (1, true, false, true),
            (u32::MAX, true, true, true),
        ] {
            let is_worth_it = is_worth_it(functions, has_metadata, is_in_routine);
            assert_eq!(
                is_worth_it, expected,
                "{functions} {has_metadata} {is_in_routine}"
            );
        }
    }

    /// Check which reason is told where there are several, and that a budget that is just used up allows one more.
    #[test]
    fn why_nobody_is_claimed() {
        for (is_at_rest, is_wanted, spent, earned, expected) in [
            (true, true, 0, 0, None),
            (true, true, 7, 7, None),
            (true, true, 8, 7, Some(Counter::SampleBudget)),
            (true, true, u64::MAX, 0, Some(Counter::SampleBudget)),
            (true, false, 0, 7, Some(Counter::SampleNotWanted)),
            (true, false, 8, 7, Some(Counter::SampleNotWanted)),
            (false, true, 0, 7, Some(Counter::SampleBusy)),
            (false, false, 8, 7, Some(Counter::SampleBusy)),
        ] {
            let refusal = refusal(is_at_rest, is_wanted, spent, earned);
            assert_eq!(
                refusal, expected,
                "{is_at_rest} {is_wanted} {spent} {earned}"
            );
        }
    }
}
