//! What many kills have done.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::Mix;

/// What one kill has done.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// gwp-race had caught the target's race before, so it was sampling.
    pub sampling: bool,
    /// Probes of the kernel stood in the target when the blow came.
    pub probed: bool,
    /// How the target has died, if it has.
    pub death: Option<String>,
    /// What else was wrong with it, if anything was.
    pub harm: Option<String>,
    /// Breakpoints whose status (DR6) the machine lost, as far as they reached the target.
    pub lost_traps: u64,
    /// One of those has ended the target.
    pub ended_by_machine: bool,
    /// How long a thread was seen to stand still while its tracer was stopped.
    pub stood: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    kills: usize,
    sampling: usize,
    deaths: usize,
    harmed: usize,
    stood: Duration,
}

impl Sum {
    fn add(&mut self, record: &Record) {
        self.kills += 1;
        self.sampling += usize::from(record.sampling);
        self.deaths += usize::from(record.death.is_some());
        self.harmed += usize::from(record.harm.is_some());
        self.stood = self.stood.max(record.stood);
    }
}

/// Records, summed up by mix and by strategy; it prints as a table.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    sums: BTreeMap<Mix, Sum>,
    strategies: BTreeMap<&'static str, Sum>,
    lost_traps: u64,
    /// Kills that came while probes of the kernel stood.
    pub probed: usize,
    /// Targets that ended by a trap whose DR6 the virtual machine lost.
    pub ended_by_machine: usize,
    /// What went wrong, a line each.
    pub failures: Vec<String>,
}

impl Tally {
    /// Adds what a kill of a gwp-race with this strategy has done.
    pub fn add(&mut self, mix: Mix, strategy: &'static str, record: Record) {
        let sum = self.sums.entry(mix).or_default();
        sum.add(&record);
        self.strategies.entry(strategy).or_default().add(&record);
        self.probed += usize::from(record.probed);
        self.lost_traps += record.lost_traps;
        self.ended_by_machine += usize::from(record.ended_by_machine);
        for what in record.death.into_iter().chain(record.harm) {
            let number = sum.kills;
            self.failures
                .push(format!("{mix:?}, {strategy}, kill {number}: {what}"));
        }
    }

    /// All kills.
    #[must_use]
    pub fn kills(&self) -> usize {
        self.sums.values().map(|sum| sum.kills).sum()
    }

    /// Kills of a gwp-race that was sampling.
    #[must_use]
    pub fn sampling(&self) -> usize {
        self.sums.values().map(|sum| sum.sampling).sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = [
            "watched by",
            "threads",
            "killed",
            "kills",
            "sampling",
            "deaths",
            "hangs",
            "longest stop",
        ];
        let [way, threads, blow, kills, sampling, deaths, hangs, stood] = columns;
        writeln!(
            f,
            "{way:20} {threads:>7} {blow:22} {kills:>5} {sampling:>8} {deaths:>6} {hangs:>5} {stood:>12}"
        )?;
        let mut line = |way: &str, threads: &str, blow: &str, sum: &Sum| {
            writeln!(
                f,
                "{way:20} {threads:>7} {blow:22} {:>5} {:>8} {:>6} {:>5} {:>9.3} s",
                sum.kills,
                sum.sampling,
                sum.deaths,
                sum.harmed,
                sum.stood.as_secs_f64(),
            )
        };
        for (mix, sum) in &self.sums {
            let threads = mix.threads.to_string();
            line(mix.way.name(), &threads, mix.blow.name(), sum)?;
        }
        for (strategy, sum) in &self.strategies {
            line(&format!("all, {strategy}"), "", "", sum)?;
        }
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        if self.lost_traps > 0 {
            let (lost, ended) = (self.lost_traps, self.ended_by_machine);
            writeln!(
                f,
                "{lost} traps whose DR6 the virtual machine lost; they ended {ended} targets"
            )?;
        }
        let total = |of: fn(&Sum) -> usize| self.sums.values().map(of).sum::<usize>();
        write!(
            f,
            "{} kills, {} of them while sampling, {} while probes stood: {} deaths, {} hangs",
            self.kills(),
            self.sampling(),
            self.probed,
            total(|sum| sum.deaths),
            total(|sum| sum.harmed),
        )
    }
}
