//! The closing summary: what was done, what it cost, and how much silence is worth.

mod stats;
mod status;
mod unused;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::clean::clean;
use super::elsewhere::Unanalyzed;
use super::suppress::UnusedRule;

pub use stats::{figures_text, stats_text};
pub use status::status_text;
pub use unused::unused_lines;

/// Figures of one session. The JSON form is a contract with users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    /// Seconds since the session began.
    pub elapsed_s: f64,
    /// Samples taken: times a strategy could have stopped a thread.
    pub samples: u64,
    /// Stalls made.
    pub stalls: u64,
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
}

/// A target that has used less CPU time, seconds, has no slowdown in percent that would mean anything: a single stall and what watching
/// may cost in advance are a large share of it, and would be of no other run.
const LEAST_CPU_S: f64 = 1.0;

/// A target that has used less CPU time than watching has, as one that is idle does, has none either: it was not slowed down so much.
const MOST_PERCENT: f64 = 100.0;

/// What takes a smaller share of the time than this is not named, percent.
const WORTH_TELLING: f64 = 1.0;

/// One line that says what was found, and what finding nothing is worth.
#[must_use]
pub fn closing_line(summary: &Summary) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_closing(&mut out, summary);
    clean(out.trim_end()).into_owned() + "\n"
}

fn write_closing(out: &mut String, summary: &Summary) -> fmt::Result {
    let is_new = if summary.races_known > 0 { "new " } else { "" };
    match (summary.races_unique, summary.races_total) {
        (0, _) => write!(
            out,
            "gwp-race: no {is_new}data race was caught{}, which does not prove that ",
            known("only", summary)
        )?,
        (1, 1) => write!(
            out,
            "gwp-race: 1 data race was caught; more may exist where "
        )?,
        (unique, total) => write!(
            out,
            "gwp-race: {unique} {is_new}{} caught{} ({total} times in all); more may exist where ",
            if unique == 1 {
                "data race was"
            } else {
                "data races were"
            },
            known("and", summary)
        )?,
    }
    let none = summary.races_unique == 0;
    write!(
        out,
        "{}: ",
        if none {
            if summary.races_known > 0 {
                "there is no other"
            } else {
                "there is none"
            }
        } else {
            "nothing was watched"
        }
    )?;
    write!(
        out,
        "memory was watched for {} of {} ({})",
        seconds(summary.watched_s),
        seconds(summary.elapsed_s),
        count(summary.stalls, "stall"),
    )?;
    match summary.analyzed_percent {
        Some(percent) => write!(
            out,
            "; {percent:.1} % of the sampled time was in analyzed code"
        )?,
        // Sites are found otherwise, and that tells nothing of how much time is spent in such code.
        None if summary.sites_sampled.unwrap_or(0) > 0 => {}
        None => write!(out, "; no analyzed code was sampled")?,
    }
    if let Some(hottest) = &summary.hottest_unanalyzed
        && hottest.percent >= WORTH_TELLING
    {
        let (percent, name) = (hottest.percent, hottest.name());
        write!(out, " ({percent:.1} % in {name}, which is not analyzed)")?;
    }
    if let (Some(sampled), Some(total)) = (summary.sites_sampled, summary.sites_total) {
        write!(
            out,
            "; {sampled} of {} sampled",
            count(total, "access site")
        )?;
    }
    if summary.unwatchable_threads > 0 {
        write!(
            out,
            "; {} could not be watched",
            count(summary.unwatchable_threads, "thread")
        )?;
    }
    if summary.threads_left_alone > 0 {
        write!(
            out,
            "; {} of {} that were created could not be held within the budget",
            summary.threads_left_alone,
            count(summary.threads_created, "thread")
        )?;
    }
    if summary.times_let_alone > 0 {
        write!(
            out,
            "; threads were let alone {}, for {} in all, as their own signals cost more than the budget",
            count(summary.times_let_alone, "time"),
            seconds(summary.let_alone_s)
        )?;
    }
    write_not_watched(out, &summary.not_watched)?;
    if summary.watchdog_releases > 0 {
        write!(
            out,
            "; the watchdog released the target {}",
            count(summary.watchdog_releases, "time")
        )?;
    }
    if summary.dropped > 0 {
        write!(out, "; {} dropped", count(summary.dropped, "finding"))?;
    }
    if let Some(name) = summary.files_not_read.keys().next() {
        let others = match summary.files_not_read.len() - 1 {
            0 => String::new(),
            others => format!(" and {}", count(others as u64, "other file")),
        };
        write!(
            out,
            "; of {name}{others} there are addresses only, as reading debug information failed"
        )?;
    }
    let swallowed: u64 = summary.hits_swallowed.values().sum();
    if swallowed > 0 {
        write!(out, "; {} not reported", count(swallowed, "hit"))?;
    }
    if summary.value_changed_unknown_origin > 0 {
        write!(
            out,
            "; the value changed without a hit {}",
            count(summary.value_changed_unknown_origin, "time")
        )?;
    }
    let stopped = seconds(summary.target_stopped_s);
    writeln!(
        out,
        ". Threads of the target were stopped for {stopped} ({}).",
        slowdown(summary)
    )
}

/// The races of an earlier run that were found again.
fn known(word: &str, summary: &Summary) -> String {
    match summary.races_known {
        0 => String::new(),
        1 => format!(", {word} 1 known one"),
        known => format!(", {word} {known} known ones"),
    }
}

/// What watching has cost, as a share where there is enough that it is a share of.
fn slowdown(summary: &Summary) -> String {
    let cpu = seconds(summary.target_cpu_s);
    let (percent, of_one_cpu) = (summary.slowdown_percent, summary.one_cpu_percent);
    if summary.target_cpu_s < LEAST_CPU_S || percent > MOST_PERCENT {
        let spent = seconds(summary.spent_s.values().sum());
        format!("watching took {spent} beside {cpu} of CPU time, {of_one_cpu:.2} % of one CPU")
    } else {
        format!("slowdown {percent:.2} % of {cpu} of CPU time, {of_one_cpu:.2} % of one CPU")
    }
}

/// Names the processes that were not watched, the most frequent first.
fn write_not_watched(
    out: &mut String,
    not_watched: &BTreeMap<String, BTreeMap<String, u64>>,
) -> fmt::Result {
    const MOST: usize = 3;
    if not_watched.is_empty() {
        return Ok(());
    }
    let mut all: Vec<(u64, &str, &str)> = not_watched
        .iter()
        .flat_map(|(name, reasons)| {
            let reasons = reasons.iter();
            reasons.map(move |(reason, &count)| (count, name.as_str(), reason.as_str()))
        })
        .collect();
    all.sort_by_key(|&(count, ..)| std::cmp::Reverse(count));
    let told: Vec<String> = all
        .iter()
        .take(MOST)
        .map(|(times, name, reason)| {
            let times = count(*times, "time");
            format!("{name} ({times}, {})", told_reason(reason))
        })
        .collect();
    let more: u64 = all.iter().skip(MOST).map(|(count, ..)| count).sum();
    write!(out, "; not watched: {}", told.join(", "))?;
    if more > 0 {
        write!(out, " and {more} more")?;
    }
    Ok(())
}

/// Why a process was not watched, in words.
fn told_reason(reason: &str) -> &str {
    match reason {
        "ended-early" => "ended before it could be watched",
        "limit" => "too many at a time",
        "refused" => "could not be held",
        "unidentified" => {
            "its file was gone, or its file system did not answer, before it was known whether it has metadata"
        }
        "untold" => "too much happened at a time to be told of it",
        other => other,
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
