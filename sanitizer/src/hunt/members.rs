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
    next: Place,
}

/// How far the search has come: the number of a function, and of a site in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Functions that were looked through.
    pub function: usize,
    /// Sites of the next one that were.
    pub site: usize,
}

#[derive(Debug)]
struct Raced {
    member: Member,
    /// From one access to the other.
    distance: Duration,
    /// How many others it has pointed to.
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
            self.next = Place::default();
        }
    }

    /// Where to go on looking; `None` where nothing is sought.
    #[must_use]
    pub fn next(&self) -> Option<Place> {
        let is_sought = self.raced.iter().any(|raced| raced.sites < MOST_SITES);
        is_sought.then_some(self.next)
    }

    /// It was looked so far.
    pub const fn advance(&mut self, next: Place) {
        self.next = next;
    }

    /// A site accesses this member. Where that has raced, `relate` is told how far apart its accesses were, and says
    /// whether that was news.
    pub fn found(&mut self, member: Member, relate: impl FnOnce(Duration) -> bool) {
        let raced = (self.raced.iter_mut())
            .find(|raced| raced.sites < MOST_SITES && raced.member.overlaps(member));
        if let Some(raced) = raced {
            raced.sites += u32::from(relate(raced.distance));
        }
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

    /// What a site is told that accesses this member, and to which that is news.
    fn told(members: &mut Members, member: Member, is_news: bool) -> Option<Duration> {
        let mut told = None;
        members.found(member, |distance| {
            told = Some(distance);
            is_news
        });
        told
    }

    /// Check that sites are recognised by the bytes of the member, that a new member has all functions looked through
    /// again, that this does not count what was found before, and that too common ones point to nothing more.
    #[test]
    fn recognised() {
        let mut members = Members::default();
        assert_eq!(members.next(), None);
        assert_eq!(told(&mut members, member(38, 2), true), None);
        let distance = Duration::from_micros(7);
        members.add(member(38, 2), distance);
        assert_eq!(members.next(), Some(Place::default()));
        let later = Place {
            function: 3,
            site: 1,
        };
        members.advance(later);
        members.add(member(38, 2), 2 * distance);
        assert_eq!(members.next(), Some(later));
        let places = [
            ((38, 2), true),
            ((39, 1), true),
            ((36, 2), false),
            ((40, 8), false),
        ];
        for ((from, size), is_same) in places {
            let found = told(&mut members, member(from, size), true);
            assert_eq!(found, is_same.then_some(distance), "{from}, {size}");
        }
        members.add(member(24, 4), distance);
        assert_eq!(members.next(), Some(Place::default()));
        for is_news in [false, true] {
            for _ in 0..MOST_SITES {
                assert!(told(&mut members, member(24, 4), is_news).is_some());
            }
        }
        assert_eq!(told(&mut members, member(24, 4), true), None);
        assert!(told(&mut members, member(38, 2), true).is_some());
    }
}
