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
    pub fn begin(
        &mut self,
        process: ProcessId,
        build: BuildId,
        now: Duration,
        coin: bool,
    ) -> Option<Arm> {
        let turn = self.breakers.entry(build).or_default().next(coin)?;
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
        let other = BuildId(2);
        for number in 1000..2000 {
            let process = ProcessId(number);
            let arm = trials.begin(process, other, now, random.bool());
            assert_eq!(arm, Some(Arm::Lease));
            now += WINDOW;
            assert!(trials.expire(now).is_empty());
            assert_eq!(trials.end(process, true), None);
        }
        assert!(trials.followed.is_empty());
    }
}
