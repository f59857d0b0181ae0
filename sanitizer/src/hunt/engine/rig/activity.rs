//! What a program has done until some time, as far as some of its threads tell.

use crate::tracee::threads::Scheduling;

/// Threads that are looked at: to read of one takes some microseconds.
pub const SOME: usize = 16;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// Then, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// CPU time that it has used while it was watched.
    pub used_ns: u64,
    /// What the scheduler says of some threads' lives, in the order of their ids.
    pub threads: Vec<(u32, Scheduling)>,
    /// How many threads there were.
    pub count: usize,
    /// Looks in a row at which events on them were dear.
    pub dear: u32,
}

/// What all threads have done between two times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// How often they were given a processor.
    pub turns: f64,
    /// How long they have waited for one, seconds.
    pub waited: f64,
}

impl Activity {
    /// What was done since, by all threads as much as by those that were looked at both times; nothing where there are none.
    pub fn since(&self, before: &Self) -> Option<Done> {
        let (mut known, mut turns, mut waited) = (0_usize, 0, 0.0);
        for (tid, now) in &self.threads {
            let same = before.threads.binary_search_by_key(tid, |(tid, _)| *tid);
            let then = same.ok().and_then(|index| before.threads.get(index));
            if let Some((_, then)) = then {
                known += 1;
                turns += now.turns.saturating_sub(then.turns);
                waited += now.waited.saturating_sub(then.waited).as_secs_f64();
            }
        }
        let times = self.count as f64 / known as f64;
        (known > 0).then_some(Done {
            turns: turns as f64 * times,
            waited: waited * times,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn activity(count: usize, threads: &[(u32, u64, u64)]) -> Activity {
        let threads = threads.iter().map(|&(tid, seconds, turns)| {
            let waited = Duration::from_secs(seconds);
            (tid, Scheduling { waited, turns })
        });
        Activity {
            threads: threads.collect(),
            count,
            ..Activity::default()
        }
    }

    /// Check that only who was looked at both times counts, for all others as well, whatever threads have done before.
    #[test]
    fn threads_come_and_go() {
        let before = activity(3, &[(1, 100, 1000), (2, 200, 2000), (5, 300, 3000)]);
        let same = activity(3, &[(1, 101, 1010), (2, 200, 2005), (5, 300, 3000)]);
        let done = |turns, waited| Some(Done { turns, waited });
        assert_eq!(same.since(&before), done(15.0, 1.0));
        let others = activity(8, &[(1, 101, 1010), (5, 302, 3002), (7, 900, 9000)]);
        assert_eq!(others.since(&before), done(48.0, 12.0));
        assert_eq!(activity(1, &[(7, 900, 9000)]).since(&before), None);
        assert_eq!(before.since(&Activity::default()), None);
    }
}
