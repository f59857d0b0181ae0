//! The tracers that are ready for processes that are still to come: to make one takes a tenth of a second, to let one that is ready watch a
//! process some milliseconds. None where nothing was ever started below the first process, one more each time that none was ready, and one
//! less after a while in which fewer would have done.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use super::link::LinkId;

/// So many are made at most before processes ask for them: each takes some 18 MB.
const MOST: usize = 4;
/// So many are kept at most whose processes have ended.
const MOST_READY: usize = 2 * MOST;
/// So many are made at a time: more would wait for each other.
const AT_ONCE: usize = 2;
/// Those end that were not needed in so long.
const QUIET: Duration = Duration::from_secs(10);
/// Where none can be made, it is not tried again for so long.
const RETRY: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub struct Spares {
    /// Those first that are so for longest.
    ready: Vec<LinkId>,
    making: HashSet<LinkId>,
    /// So many are to be ready.
    wanted: usize,
    /// One was asked for since `since`.
    was_asked: bool,
    /// So many at least were ready since then.
    least: usize,
    /// So many are to end.
    excess: usize,
    since: Instant,
    failed: Option<Instant>,
}

impl Spares {
    /// None yet.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            ready: Vec::new(),
            making: HashSet::new(),
            wanted: 0,
            was_asked: false,
            least: 0,
            excess: 0,
            since: now,
            failed: None,
        }
    }

    /// Whether there are any, or are about to be.
    #[must_use]
    pub fn are_some(&self) -> bool {
        self.wanted > 0 || !self.ready.is_empty() || !self.making.is_empty()
    }

    /// One for a process that is worth it: the one that has watched another one last.
    pub fn take(&mut self) -> Option<LinkId> {
        self.was_asked = true;
        let taken = self.ready.pop();
        // Whoever asks again while one is made for him, or for somebody before, does not want more.
        if taken.is_none() && !self.is_making() {
            self.wanted = (self.wanted + 1).min(MOST);
        }
        self.wanted = self.wanted.max(1);
        self.least = self.least.min(self.ready.len());
        taken
    }

    /// One for a process that is watched in any case: it says nothing of how many are to be ready.
    pub fn take_for_another(&mut self) -> Option<LinkId> {
        let taken = self.ready.pop();
        self.least = self.least.min(self.ready.len());
        taken
    }

    /// Whether another one is to be made.
    #[must_use]
    pub fn wants_more(&self, now: Instant) -> bool {
        let may = self
            .failed
            .is_none_or(|failed| now.saturating_duration_since(failed) >= RETRY);
        may && self.making.len() < AT_ONCE && self.ready.len() + self.making.len() < self.wanted
    }

    /// Whether one is made at this moment.
    #[must_use]
    pub fn is_making(&self) -> bool {
        !self.making.is_empty()
    }

    /// One is being made.
    pub fn begin(&mut self, link: LinkId) {
        self.making.insert(link);
    }

    /// None can be made at present.
    pub const fn fail(&mut self, now: Instant) {
        self.failed = Some(now);
    }

    /// One is ready: whether it was just made. If not, its process has ended.
    pub fn add(&mut self, link: LinkId) -> bool {
        self.ready.push(link);
        self.making.remove(&link)
    }

    /// One is gone: whether it was being made.
    pub fn remove(&mut self, link: LinkId) -> bool {
        self.ready.retain(|&ready| ready != link);
        self.least = self.least.min(self.ready.len());
        self.making.remove(&link)
    }

    /// All that are there, or about to be.
    pub fn all(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.ready.iter().chain(&self.making).copied()
    }

    /// One of those that are ready which is to end. To be asked when one has become ready, and from time to time.
    pub fn surplus(&mut self, now: Instant) -> Option<LinkId> {
        if now.saturating_duration_since(self.since) >= QUIET {
            if !std::mem::take(&mut self.was_asked) {
                self.wanted = self.wanted.saturating_sub(1);
            }
            self.excess = self.least.saturating_sub(self.wanted);
            self.least = self.ready.len();
            self.since = now;
        }
        let is_surplus = self.wanted == 0 || self.excess > 0 || self.ready.len() > MOST_READY;
        self.excess = self.excess.saturating_sub(1);
        if !is_surplus || self.ready.is_empty() {
            return None;
        }
        let link = self.ready.remove(0);
        self.least = self.least.min(self.ready.len());
        Some(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes what is wanted; how many were made.
    fn make(spares: &mut Spares, now: Instant, next: &mut LinkId) -> usize {
        let mut made = 0;
        while spares.wants_more(now) {
            *next += 1;
            made += 1;
            spares.begin(*next);
            assert!(spares.is_making());
            assert!(spares.add(*next));
        }
        made
    }

    /// Check that none is made before a process asks, that one after the other is watched by the same few, however many there are,
    /// and that none is left a while after the last one has asked.
    #[test]
    fn one_after_the_other() {
        let mut now = Instant::now();
        let (mut spares, mut next) = (Spares::new(now), 0);
        assert_eq!(make(&mut spares, now, &mut next), 0);
        assert!(!spares.are_some());
        assert_eq!(spares.take(), None);
        let mut made = make(&mut spares, now, &mut next);
        for _ in 0..1000 {
            now += Duration::from_millis(60);
            let link = spares.take().unwrap();
            made += make(&mut spares, now, &mut next);
            // It has ended.
            assert!(!spares.add(link));
            assert_eq!(spares.surplus(now), None);
        }
        assert_eq!(made, 2);
        for _ in 0..4 {
            now += QUIET;
            spares.surplus(now);
        }
        assert!(!spares.are_some(), "{spares:?}");
    }

    /// Check that more are kept where many come at a time, up to a bound, and that the rest ends.
    #[test]
    fn many_at_a_time() {
        const CHILDREN: usize = 20;
        let mut now = Instant::now();
        let (mut spares, mut next) = (Spares::new(now), 0);
        for _ in 0..10 {
            let mut busy = Vec::new();
            for _ in 0..CHILDREN {
                busy.extend(spares.take());
                make(&mut spares, now, &mut next);
            }
            for link in busy {
                spares.add(link);
                let _ = spares.surplus(now);
            }
            assert!(spares.ready.len() <= MOST_READY);
            now += Duration::from_secs(1);
        }
        assert_eq!(spares.ready.len(), MOST_READY);
        // A few suffice for a while.
        for _ in 0..100 {
            now += Duration::from_secs(1);
            let link = spares.take().unwrap();
            spares.add(link);
            let _ = spares.surplus(now);
        }
        // One for the process, one for the next one.
        assert_eq!(spares.all().count(), 2);
    }

    /// Check that few are made at a time, and none for a while after that has failed; and that one which ends is not thought to be there.
    #[test]
    fn few_at_a_time() {
        let now = Instant::now();
        let mut spares = Spares::new(now);
        let mut made = 0;
        for asked in 1..=50 {
            assert_eq!(spares.take(), None);
            while spares.wants_more(now) {
                made += 1;
                spares.begin(made);
            }
            // All wait for the same one.
            assert_eq!(made, 1, "{asked}");
        }
        for _ in 0..50 {
            assert!(spares.add(made));
            assert!(spares.take().is_some());
            assert_eq!(spares.take(), None);
            while spares.wants_more(now) {
                made += 1;
                spares.begin(made);
            }
            assert!(spares.making.len() <= AT_ONCE);
        }
        let making: Vec<LinkId> = spares.making.iter().copied().collect();
        for link in making {
            assert!(spares.remove(link));
            spares.fail(now);
        }
        assert!(!spares.is_making());
        assert!(!spares.wants_more(now + RETRY / 2));
        assert!(spares.wants_more(now + RETRY));
        spares.begin(made + 1);
        assert!(spares.add(made + 1));
        assert!(!spares.remove(made + 1));
        assert_eq!(spares.take_for_another(), None);
    }
}
