//! Whether a thread that nobody has held stood before its access all the same: it was off its processor.

use super::reason::Reason;

/// What is known of such a thread. Times are CLOCK_MONOTONIC, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// When it was taken from its processor, in the midst of user code.
    pub out_ns: u64,
    /// Its registers were those from then when its bytes had been chosen, and it had not got a processor since.
    pub is_same: bool,
    /// A signal waited for it.
    pub is_signal_pending: bool,
    /// It was in a restartable sequence.
    pub is_in_sequence: bool,
    /// From when on accesses of others count; the bytes were armed after that.
    pub armed_ns: u64,
    /// When it got a processor first after that; `None`: it had not when it was asked last.
    pub back_ns: Option<u64>,
    /// Behind its access a breakpoint waited for it before it got one.
    pub is_awaited: bool,
}

impl Preemption {
    /// Why it is unknown what the thread has done until an access of another one at a time, if it is: `None` where it stood right before its own from
    /// before the watch began until after the other one was made, and what comes of it is going to be seen.
    #[must_use]
    pub fn refuted(&self, hit_ns: u64) -> Option<Reason> {
        let is_within = self.out_ns < self.armed_ns
            && self.armed_ns < hit_ns
            && self.back_ns.is_none_or(|back_ns| hit_ns < back_ns);
        if self.is_in_sequence {
            Some(Reason::RestartableSequence)
        } else if self.is_signal_pending {
            Some(Reason::SignalPending)
        } else if !self.is_same || !is_within {
            Some(Reason::RanOn)
        } else if !self.is_awaited {
            Some(Reason::NotCompleted)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check each condition by itself, and all of their combinations: it stood only where it was taken off, then watched, then met, and only then back,
    /// with no signal and no sequence, and waited for.
    #[test]
    fn who_stood() {
        const STOOD: Preemption = Preemption {
            out_ns: 10,
            is_same: true,
            is_signal_pending: false,
            is_in_sequence: false,
            armed_ns: 20,
            back_ns: Some(40),
            is_awaited: true,
        };
        let table = [
            (STOOD, 30, None),
            (STOOD, 21, None),
            (STOOD, 39, None),
            (
                Preemption {
                    back_ns: None,
                    ..STOOD
                },
                u64::MAX,
                None,
            ),
            // Before the watch, with it, with the return, and after that.
            (STOOD, 19, Some(Reason::RanOn)),
            (STOOD, 20, Some(Reason::RanOn)),
            (STOOD, 40, Some(Reason::RanOn)),
            (STOOD, 41, Some(Reason::RanOn)),
            (
                Preemption {
                    out_ns: 20,
                    ..STOOD
                },
                30,
                Some(Reason::RanOn),
            ),
            (
                Preemption {
                    out_ns: 25,
                    ..STOOD
                },
                30,
                Some(Reason::RanOn),
            ),
            (
                Preemption {
                    back_ns: Some(15),
                    ..STOOD
                },
                30,
                Some(Reason::RanOn),
            ),
            (
                Preemption {
                    is_same: false,
                    ..STOOD
                },
                30,
                Some(Reason::RanOn),
            ),
            (
                Preemption {
                    is_signal_pending: true,
                    ..STOOD
                },
                30,
                Some(Reason::SignalPending),
            ),
            (
                Preemption {
                    is_in_sequence: true,
                    ..STOOD
                },
                30,
                Some(Reason::RestartableSequence),
            ),
            (
                Preemption {
                    is_awaited: false,
                    ..STOOD
                },
                30,
                Some(Reason::NotCompleted),
            ),
        ];
        for (preemption, hit_ns, expected) in table {
            assert_eq!(
                preemption.refuted(hit_ns),
                expected,
                "{preemption:?} {hit_ns}"
            );
        }
        let mut stood = 0;
        for bits in 0..16_u32 {
            let is = |bit: u32| bits >> bit & 1 != 0;
            for out_ns in [10, 20, 30] {
                for hit_ns in [10, 20, 30, 40, 50] {
                    for back_ns in [None, Some(30), Some(40)] {
                        let preemption = Preemption {
                            out_ns,
                            is_same: is(0),
                            is_signal_pending: is(1),
                            is_in_sequence: is(2),
                            armed_ns: 20,
                            back_ns,
                            is_awaited: is(3),
                        };
                        let in_order = out_ns < 20
                            && hit_ns > 20
                            && (back_ns.is_none() || Some(hit_ns) < back_ns);
                        let expected = bits == 0b1001 && in_order;
                        stood += u32::from(expected);
                        assert_eq!(preemption.refuted(hit_ns).is_none(), expected);
                    }
                }
            }
        }
        // Of the times, 30 is before a return at 40, and all that is later counts while there is none.
        assert_eq!(stood, 4);
    }
}
