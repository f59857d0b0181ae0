//! The closing summary: what was done, what it cost, and how much silence is worth.

mod closing;
mod cost;
mod limit;
mod reach;
mod stats;
mod status;
mod unused;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::elsewhere::Unanalyzed;
use super::model::Race;
use super::programs::WatchedProgram;
use super::sighting::Sighting;
use super::suppress::UnusedRule;

pub use closing::closing_line;
pub(super) use closing::{cost, limits, outcome, watched};
pub use limit::advice;
pub(super) use stats::rows;
pub use stats::{figures_text, stats_text};
pub use status::status_text;
pub use unused::unused_lines;

/// Figures of one session. The JSON form is a contract with users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    /// The programs that were watched: the first 64 different ones.
    #[serde(default)]
    pub programs: Vec<WatchedProgram>,
    /// Seconds since the session began.
    pub elapsed_s: f64,
    /// Samples taken: times a strategy could have stopped a thread.
    pub samples: u64,
    /// Stalls made.
    pub stalls: u64,
    /// Those of threads that were off their processors in any case: nobody was stopped for them.
    #[serde(default)]
    pub stalls_of_preempted: u64,
    /// Stalls that were ended early, because the watched bytes were accessed all the time.
    #[serde(default)]
    pub stalls_cut_short: u64,
    /// Samples that led to no stall, by reason.
    #[serde(default)]
    pub no_stall: BTreeMap<String, u64>,
    /// Watchpoint hits by other threads, reported or not.
    pub hits: u64,
    /// Hits that were no race, by reason.
    pub hits_swallowed: BTreeMap<String, u64>,
    /// Different races reported, without those that are known.
    pub races_unique: u64,
    /// Different races found that an earlier run had found, by the baseline that was given.
    #[serde(default)]
    pub races_known: u64,
    /// Races found, repeats included.
    pub races_total: u64,
    /// How often each race was caught, in the order in which they were caught first.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
    /// Times that an access site was waited at.
    #[serde(default)]
    pub site_waits: u64,
    /// Those that ended with a thread that was about to access what another one had accessed there.
    #[serde(default)]
    pub site_waits_met: u64,
    /// Places that the strategy has chosen, by why and by what came of it.
    #[serde(default)]
    pub decisions: BTreeMap<String, u64>,
    /// Access sites of the functions that were looked at; `None` where the strategy does not know
    /// sites.
    pub sites_total: Option<u64>,
    /// Access sites that were stalled at least once.
    pub sites_sampled: Option<u64>,
    /// Seconds during which some memory was watched.
    pub watched_s: f64,
    /// The share of the samples that were in analyzed functions, or in a memory routine that one of them has called;
    /// `None` where nothing was sampled.
    pub analyzed_percent: Option<f64>,
    /// Where most of the others were.
    #[serde(default)]
    pub hottest_unanalyzed: Option<Unanalyzed>,
    /// Threads that could not be watched.
    pub unwatchable_threads: u64,
    /// Bursts of the kernel's probes, in each of which it was noted for some milliseconds who comes to some dozens of access sites.
    #[serde(default)]
    pub probe_bursts: u64,
    /// Threads that came to such probes.
    #[serde(default)]
    pub probe_hits: u64,
    /// Probes that were armed to stand at access sites; whoever comes to one can be stopped.
    #[serde(default)]
    pub probes_armed: u64,
    /// Those of them to which too many came, and which were removed.
    #[serde(default)]
    pub probes_hot: u64,
    /// Threads that came to probes that stand.
    #[serde(default)]
    pub arrivals: u64,
    /// Those of them that were stopped there.
    #[serde(default)]
    pub arrivals_stopped: u64,
    /// Threads that the program has created while it was watched, as far as a gate tells.
    #[serde(default)]
    pub threads_created: u64,
    /// Those that were left alone at their creation, since taking in more would have cost more than the budget: they could only be
    /// caught as the racing thread, unless they lived for long.
    #[serde(default)]
    pub threads_left_alone: u64,
    /// Times that threads stopped on the program's own account, since whatever traces a program stops it before each of its signals.
    #[serde(default)]
    pub own_stops: u64,
    /// Times that a thread was let alone for a while, because such stops cost more than their part of the budget; meanwhile it could only be
    /// caught as the racing thread.
    #[serde(default)]
    pub times_let_alone: u64,
    /// For how many seconds threads were let alone for that, summed over the threads.
    #[serde(default)]
    pub let_alone_s: f64,
    /// Processes below the first one that were worth watching and were not watched: by the name of what they execute, and why
    /// (`ended-early`, `limit` of processes at a time, `refused`; `unidentified` where the file was gone or its file system silent before it was known whether
    /// it is worth watching, `untold` of those that were lost since too much happened at a time).
    #[serde(default)]
    pub not_watched: BTreeMap<String, BTreeMap<String, u64>>,
    /// Times that the watchdog released the target because gwp-race was late.
    #[serde(default)]
    pub watchdog_releases: u64,
    /// Findings that were dropped because too many waited; those that were races are told when they are
    /// caught again.
    #[serde(default)]
    pub dropped: u64,
    /// Times that the process that reads debug information came to its end over a file, or had to be ended.
    #[serde(default)]
    pub readers_ended: u64,
    /// The files that are not read any more for that, and why; of many some. Reports have addresses only there.
    #[serde(default)]
    pub files_not_read: BTreeMap<String, String>,
    /// Rules of the suppressions file that have matched no race, where so much was watched that this tells something.
    #[serde(default)]
    pub suppressions_unused: Vec<UnusedRule>,
    /// Stalls in which the value changed and no watchpoint fired.
    pub value_changed_unknown_origin: u64,
    /// Seconds that threads of the target were stopped, summed over the threads.
    pub target_stopped_s: f64,
    /// Seconds of CPU time that the target has used, of all threads, in the kernel too.
    #[serde(default)]
    pub target_cpu_s: f64,
    /// Seconds of CPU time that watching has cost the target, or cost it at most, by what for: `traps` into the
    /// gates, `stops` of threads, the work of the `tracer`, and of the daemon for `reports`.
    #[serde(default)]
    pub spent_s: BTreeMap<String, f64>,
    /// The slowdown of the target that these account for.
    pub slowdown_percent: f64,
    /// The same as a share of one CPU since the session began: of a program that is idle most of the time that says more.
    #[serde(default)]
    pub one_cpu_percent: f64,
    /// What sampling may cost at most, as a share of the target's CPU time; 0 where that was not told.
    #[serde(default)]
    pub max_overhead_percent: f64,
    /// CPU time of a thread between two samples, seconds, where the user has set it.
    #[serde(default)]
    pub sample_period_s: Option<f64>,
    /// Whether anything that was executed carries metadata, as far as is known; `None` where that was not told.
    #[serde(default)]
    pub metadata_seen: Option<bool>,
}

impl Summary {
    /// What watching has cost in all, seconds. The sum of nothing is not the -0 that `sum` makes of it, which would be told.
    #[must_use]
    pub fn spent(&self) -> f64 {
        self.spent_s.values().fold(0.0, |sum, spent| sum + spent)
    }

    /// How often a race was caught, where that is known.
    pub(super) fn sighting(&self, race: &Race) -> Option<&Sighting> {
        let mut sightings = self.sightings.iter();
        sightings.find(|sighting| sighting.fingerprint == race.fingerprint)
    }
}

fn seconds(seconds: f64) -> String {
    if seconds > 0.0 && seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.1} s")
    }
}

fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
