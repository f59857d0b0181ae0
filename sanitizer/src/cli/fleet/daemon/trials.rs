//! Whether leases harm: each that is given, or withheld by a coin, is followed until its process ends or its time is over, and its build's
//! [breaker](Breaker) hears of it.

use std::{collections::HashMap, time::Duration};

use crate::fleet::{
    breaker::{Arm, Breaker, Turn, WINDOW},
    schedule::{BuildId, ProcessId},
};

/// One that is followed.
#[derive(Debug)]
struct Followed {
    process: ProcessId,
    build: BuildId,
    turn: Turn,
    until: Duration,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Trials {
    breakers: HashMap<BuildId, Breaker>,
    followed: Vec<Followed>,
}

impl Trials {
    /// A process is to get a lease now; what becomes of that, or nothing where its build is left alone. `coin`: a fair one, thrown for this lease alone.
    ///
    /// A process that is on trial already goes on as the coin has fallen: had it leases as well as controls, its end would belong to both, and be no evidence.
    pub fn begin(
        &mut self,
        process: ProcessId,
        build: BuildId,
        now: Duration,
        coin: bool,
    ) -> Option<Arm> {
        let breaker = self.breakers.entry(build).or_default();
        let mut followed = self.followed.iter();
        let tried = followed.find(|one| {
            (one.process, one.build) == (process, build)
                && now < one.until
                && breaker.is_tried(one.turn)
        });
        if let Some(tried) = tried {
            return Some(tried.turn.arm);
        }
        let turn = breaker.next(coin)?;
        self.followed.push(Followed {
            process,
            build,
            turn,
            until: now + WINDOW,
        });
        Some(turn.arm)
    }

    /// A process has ended, or executes another program. Its build, if that is left alone from now on.
    pub fn end(&mut self, process: ProcessId, abnormally: bool) -> Option<BuildId> {
        let gone = self.take(|one| one.process == process);
        self.tell(gone, abnormally).pop()
    }

    /// Time has gone on. Builds that are left alone from now on, of which there should be none.
    pub fn expire(&mut self, now: Duration) -> Vec<BuildId> {
        let gone = self.take(|one| one.until <= now);
        self.tell(gone, false)
    }

    /// Whether something is known of a build that nobody else knows: that it is left alone, or that a lease of it is followed.
    pub fn needs(&self, build: BuildId) -> bool {
        let is_open = self.breakers.get(&build).is_some_and(Breaker::is_open);
        is_open || self.followed.iter().any(|one| one.build == build)
    }

    /// Forgets a build.
    pub fn forget(&mut self, build: BuildId) {
        self.breakers.remove(&build);
    }

    fn take(&mut self, is_gone: impl Fn(&Followed) -> bool) -> Vec<Followed> {
        self.followed.extract_if(.., |one| is_gone(one)).collect()
    }

    fn tell(&mut self, gone: Vec<Followed>, abnormally: bool) -> Vec<BuildId> {
        let mut opened = Vec::new();
        for one in gone {
            let breaker = self.breakers.entry(one.build).or_default();
            let was_open = breaker.is_open();
            breaker.has_gone(one.turn, abnormally);
            if breaker.is_open() && !was_open {
                opened.push(one.build);
            }
        }
        opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD: BuildId = BuildId(1);

    /// Check that a build whose processes die by their leases is left alone within 20 of them, others are not, and one whose processes die when they are over for long never is.
    #[test]
    fn deaths_are_told() {
        const PROMISED: u64 = 20;
        let mut trials = Trials::default();
        let mut random = fastrand::Rng::with_seed(3);
        let mut now = Duration::ZERO;
        let (mut leases, mut number) = (0, 0);
        let opened = loop {
            number += 1;
            now += Duration::from_secs(10);
            let process = ProcessId(number);
            let arm = trials.begin(process, BUILD, now, random.bool()).unwrap();
            leases += u64::from(arm == Arm::Lease);
            if let Some(build) = trials.end(process, arm == Arm::Lease) {
                break build;
            }
            assert!(leases <= PROMISED);
        };
        assert_eq!(opened, BUILD);
        assert_eq!(trials.begin(ProcessId(0), BUILD, now, true), None);
        assert!(trials.needs(BUILD));
        let other = BuildId(2);
        for number in 1000..2000 {
            let process = ProcessId(number);
            let arm = trials.begin(process, other, now, random.bool());
            assert_eq!(arm, Some(Arm::Lease));
            assert!(trials.needs(other));
            now += WINDOW;
            assert!(trials.expire(now).is_empty());
            assert_eq!(trials.end(process, true), None);
        }
        assert!(trials.followed.is_empty() && !trials.needs(other));
        trials.forget(other);
        assert_eq!(trials.breakers.len(), 1);
    }
    /// Check that a process is tried once however many leases it is given while it is followed, and by another coin later; and that a build is left alone all the same, of which each
    /// process is given several, and dies by the first that it gets.
    #[test]
    fn processes_are_tried_once() {
        const PROMISED: u64 = 20;
        const TURNS: u32 = 3;
        const APART: Duration = Duration::from_secs(2);
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut trials, mut now) = (Trials::default(), Duration::ZERO);
            let (mut died, mut number) = (0, 0);
            'build: loop {
                number += 1;
                let process = ProcessId(number);
                for _ in 0..TURNS {
                    now += APART;
                    let arm = trials.begin(process, BUILD, now, random.bool());
                    if arm.expect("it is not left alone yet") == Arm::Lease {
                        died += 1;
                        if trials.end(process, true).is_some() {
                            break 'build;
                        }
                        continue 'build;
                    }
                }
                assert_eq!(trials.end(process, false), None);
                assert!(died <= PROMISED, "{seed}");
            }
            assert!(died <= PROMISED, "{seed}: {died}");
        }

        let mut trials = Trials::default();
        let mut now = Duration::ZERO;
        assert_eq!(
            trials.begin(ProcessId(1), BUILD, now, false),
            Some(Arm::Lease)
        );
        assert_eq!(trials.end(ProcessId(1), true), None);
        for first in [true, false] {
            let arm = trials.begin(ProcessId(2), BUILD, now, first);
            assert_eq!(arm, Some([Arm::Lease, Arm::Control][usize::from(first)]));
            for coin in [true, false] {
                assert_eq!(trials.begin(ProcessId(2), BUILD, now, coin), arm);
            }
            assert_eq!(trials.followed.len(), 1);
            now += WINDOW;
            assert!(trials.expire(now).is_empty());
        }
    }
}
