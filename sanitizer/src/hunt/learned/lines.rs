//! Which of the target's memory two threads were seen to use, by cache line.
//!
//! Each time that a thread stands still, the addresses are known of some accesses that it is about to make. Most
//! lines of most programs are used by one thread: a stall there says nothing, and need not be.

use std::collections::HashMap;

/// Lines remembered; beyond that all are forgotten, and seen again.
const MEMORY: usize = 1 << 16;
/// Bytes of a line.
const LINE: u64 = 64;
/// What an access is worth whose line two threads were seen to use, against one of which nothing is known.
const SHARED: f64 = 4.0;
/// How often a line has to be seen used by its thread alone until the next access there is worth half as much.
const HALVED_BY: f64 = 2.0;

/// See the module.
#[derive(Debug, Default)]
pub struct Lines {
    lines: HashMap<u64, Users>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    /// One thread, seen there so many times.
    One { tid: u32, times: u16 },
    /// Several.
    Several,
}

impl Lines {
    /// A thread that stands still is about to use the memory at these addresses.
    pub fn used(&mut self, addresses: impl Iterator<Item = u64>, tid: u32) {
        let mut lines: Vec<u64> = addresses.map(|address| address / LINE).collect();
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            let users = self.users(line * LINE, Users::One { tid, times: 0 });
            match users {
                Users::One { tid: first, times } if *first == tid => {
                    *times = times.saturating_add(1);
                }
                _ => *users = Users::Several,
            }
        }
    }

    /// Two threads were seen to use the same bytes there.
    pub fn shared(&mut self, address: u64) {
        *self.users(address, Users::Several) = Users::Several;
    }

    fn users(&mut self, address: u64, first: Users) -> &mut Users {
        if self.lines.len() >= MEMORY {
            self.lines.clear();
        }
        self.lines.entry(address / LINE).or_insert(first)
    }

    /// What it is worth to stall a thread there, against memory of which nothing is known.
    #[must_use]
    pub fn worth(&self, address: u64, tid: u32) -> f64 {
        match self.lines.get(&(address / LINE)) {
            None => 1.0,
            Some(Users::One { tid: first, times }) if *first == tid => {
                HALVED_BY / (HALVED_BY + f64::from(*times))
            }
            Some(_) => SHARED,
        }
    }

    /// Forgets a part of it: memory is freed, and used for something else.
    pub fn decay(&mut self) {
        self.lines.retain(|_, users| match users {
            Users::One { times, .. } => {
                *times /= 2;
                *times > 0
            }
            Users::Several => true,
        });
    }

    /// Forgets all.
    pub fn forget(&mut self) {
        self.lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a line is worth the less the more often one thread uses it, and more once another one does.
    #[test]
    fn worth_follows_use() {
        let mut lines = Lines::default();
        let is = |worth: f64, expected: f64| (worth - expected).abs() < 1e-9;
        assert!(is(lines.worth(0x1000, 1), 1.0));
        for _ in 0..6 {
            // However often it is used by one and the same thread that stands there.
            lines.used([0x1000, 0x1008].into_iter(), 1);
        }
        assert!(is(lines.worth(0x103f, 1), 0.25));
        assert!(is(lines.worth(0x1040, 1), 1.0));
        // For another thread it is known to be shared: it is about to use it.
        assert!(is(lines.worth(0x1000, 2), SHARED));
        lines.used([0x1010].into_iter(), 2);
        assert!(is(lines.worth(0x1000, 1), SHARED));
        lines.shared(0x2000);
        lines.used([0x2000].into_iter(), 1);
        assert!(is(lines.worth(0x2000, 1), SHARED));
    }

    /// Check that what one thread has used is forgotten, and that there is room for new lines.
    #[test]
    fn old_lines_are_forgotten() {
        let mut lines = Lines::default();
        for _ in 0..4 {
            lines.used([0x1000].into_iter(), 1);
        }
        lines.shared(0x2000);
        for _ in 0..3 {
            lines.decay();
        }
        assert_eq!(lines.lines.len(), 1);
        for line in 0..2 * MEMORY as u64 {
            lines.used([line * LINE].into_iter(), 1);
            assert!(lines.lines.len() <= MEMORY);
        }
        assert!(lines.worth((2 * MEMORY as u64 - 1) * LINE, 1) < 1.0);
    }
}
