//! Members of objects that have raced. What is not ordered where one function accesses a member often is not where
//! another one does: a counter or a flag of a structure is guarded everywhere or, as a mistake, by habit. Accesses of
//! one member are known by how their instructions name it, its distance from a register ([`Member`]).
//!
//! That two structures have something at the same distance costs some tries in vain, which the sites are judged by
//! ([`super::contended`]).

use std::time::Duration;

use crate::insn::x86_64::Member;

/// Members remembered. A program in which more have raced needs no help.
const MEMORY: usize = 32;
/// Sites that one of them may point to: what more have in common is common to many structures.
const MOST_SITES: u32 = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct Members {
    raced: Vec<Raced>,
    /// The number of the next function to be looked through.
    next: usize,
}

#[derive(Debug)]
struct Raced {
    member: Member,
    /// From one access to the other.
    distance: Duration,
    sites: u32,
}

impl Members {
    /// A member has raced.
    pub fn add(&mut self, member: Member, distance: Duration) {
        let is_known = self.raced.iter().any(|raced| raced.member == member);
        if !is_known && self.raced.len() < MEMORY {
            self.raced.push(Raced {
                member,
                distance,
                sites: 0,
            });
            self.next = 0;
        }
    }

    /// The number of the next function to look through; `None` where nothing is sought.
    #[must_use]
    pub fn next(&mut self) -> Option<usize> {
        let is_sought = self.raced.iter().any(|raced| raced.sites < MOST_SITES);
        is_sought.then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// There was no such function yet.
    pub fn wait(&mut self) {
        self.next -= 1;
    }

    /// A site accesses this member: how far apart its accesses were where it has raced, if it has.
    pub fn found(&mut self, member: Member) -> Option<Duration> {
        let raced = (self.raced.iter_mut())
            .find(|raced| raced.sites < MOST_SITES && raced.member.overlaps(member))?;
        raced.sites += 1;
        Some(raced.distance)
    }

    /// Forgets all.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(distance: u32, size: u32) -> Member {
        Member { distance, size }
    }

    /// Check that sites are recognised by the bytes of the member, that a new member has all functions looked through
    /// again, and that too common ones point to nothing more.
    #[test]
    fn recognised() {
        let mut members = Members::default();
        assert_eq!((members.next(), members.found(member(38, 2))), (None, None));
        let distance = Duration::from_micros(7);
        members.add(member(38, 2), distance);
        assert_eq!((members.next(), members.next()), (Some(0), Some(1)));
        members.wait();
        members.add(member(38, 2), 2 * distance);
        assert_eq!(members.next(), Some(1));
        for (place, is_same) in [
            ((38, 2), true),
            ((39, 1), true),
            ((36, 2), false),
            ((40, 8), false),
        ] {
            let found = members.found(member(place.0, place.1));
            assert_eq!(found, is_same.then_some(distance), "{place:?}");
        }
        members.add(member(24, 4), distance);
        assert_eq!(members.next(), Some(0));
        for _ in 0..MOST_SITES {
            assert!(members.found(member(24, 4)).is_some());
        }
        assert_eq!(members.found(member(24, 4)), None);
        assert!(members.found(member(38, 2)).is_some());
    }
}
