//! What has limited how much was watched, and what to change: said where no race was caught.
//!
//! The rate at which access sites are reached is taken to be proportional to the budget where the budget was what limited it, that is, where most of it was
//! spent; up to tenfold, beyond which nothing is foretold. Where something else limited it, a larger budget is not advised.

use crate::report::clean::clean;

use super::{Summary, Unanalyzed, count, seconds};

/// In a shorter session nothing can be said of rates, seconds.
const LEAST_S: f64 = 1.0;
/// The budget is what limits where at least such a part of it was spent.
const IS_SPENT: f64 = 0.8;
/// A program that uses less of one CPU is idle, percent.
const IDLE: f64 = 2.0;
/// Fewer samples do not tell where time is spent.
const ENOUGH_SAMPLES: u64 = 100;
/// Nobody is stalled in code in which less of the time is spent, percent.
const NOT_ANALYZED: f64 = 1.0;
/// So many failures are no chance.
const ENOUGH_FAILURES: u64 = 20;
/// Fewer access sites tell no rate.
const ENOUGH_SITES: u64 = 10;
/// A pass is nearly done where such a part of the sites was stalled at.
const IS_DONE: f64 = 0.9;
/// A budget up to which more is advised, percent of CPU time: it is for programs in production.
const MOST_ADVISED: f64 = 20.0;
/// And so many times what it was.
const TIMES: f64 = 10.0;

/// Why threads were not stopped, or nothing was watched, although somebody had come, by the names of figures.
const FAILURES: [&str; 3] = [
    "sample-unstoppable",
    "breakpoint-failed",
    "watchpoint-failed",
];

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit<'a> {
    /// Threads could not be stopped, or nothing be watched, more often than it went well: why most often, and how often in all.
    Failures(&'a str, u64),
    /// No thread could be watched; so many.
    Unwatchable(u64),
    /// The time was spent in code that is not analyzed.
    NotAnalyzed,
    /// The program did hardly anything.
    Idle,
    /// There are few sites, and nearly all were stalled at.
    Sites,
    /// Samples were far apart, as the user wants it, seconds.
    SamplePeriod(f64),
    /// What sampling may cost was spent.
    Budget,
    /// None of these: threads come to where they can be stalled no more often.
    Time,
}

impl<'a> Limit<'a> {
    /// What has limited a session; nothing where that cannot be told.
    pub(super) fn of(summary: &'a Summary) -> Option<Self> {
        // Without metadata no race can be found at all, which is told in other words, at once.
        if summary.elapsed_s < LEAST_S || summary.metadata_seen == Some(false) {
            return None;
        }
        if let Some(failures) = failures(summary) {
            return Some(failures);
        }
        if summary.stalls == 0 && summary.unwatchable_threads > 0 {
            return Some(Self::Unwatchable(summary.unwatchable_threads));
        }
        let is_elsewhere = summary
            .analyzed_percent
            .is_some_and(|percent| percent < NOT_ANALYZED);
        if is_elsewhere && summary.samples >= ENOUGH_SAMPLES && summary.stalls == 0 {
            return Some(Self::NotAnalyzed);
        }
        // What was written by a version that did not tell the budget tells no more than that.
        let spent = spent_part(summary)?;
        if 100.0 * summary.target_cpu_s / summary.elapsed_s < IDLE {
            return Some(Self::Idle);
        }
        let (sampled, total) = sites(summary);
        if sampled >= ENOUGH_SITES && sampled as f64 >= IS_DONE * total as f64 {
            return Some(Self::Sites);
        }
        if spent >= IS_SPENT {
            return Some(Self::Budget);
        }
        match summary.sample_period_s {
            // Whoever knows sites waits at them, without samples.
            Some(period) if summary.sites_total.is_none() => Some(Self::SamplePeriod(period)),
            _ => Some(Self::Time),
        }
    }
}

fn failures(summary: &Summary) -> Option<Limit<'_>> {
    let of = |name: &'static str| {
        let times = summary.no_stall.get(name).copied().unwrap_or(0);
        (times, name)
    };
    let failures = FAILURES.map(of);
    let all: u64 = failures.iter().map(|(times, _)| times).sum();
    let (_, most) = failures.into_iter().max()?;
    (all >= ENOUGH_FAILURES && all > summary.stalls).then_some(Limit::Failures(most, all))
}

/// The part of the budget that was spent; nothing where either is not known. Starts of tracers are paid from another one.
fn spent_part(summary: &Summary) -> Option<f64> {
    const STARTS: &str = "starts";
    let budget = summary.target_cpu_s * summary.max_overhead_percent / 100.0;
    let spent = summary.spent_s.iter().filter(|(what, _)| *what != STARTS);
    let spent: f64 = spent.map(|(_, seconds)| seconds).sum();
    (budget > 0.0).then(|| spent / budget)
}

/// Access sites that were stalled at, and all that are known.
fn sites(summary: &Summary) -> (u64, u64) {
    let sampled = summary.sites_sampled.unwrap_or(0);
    (sampled, summary.sites_total.unwrap_or(0).max(sampled))
}

/// How long it takes to stall once at each access site at the rate of this session, seconds, where there were enough to tell. At least: those that are left
/// are the rarer ones.
fn pass_s(summary: &Summary) -> Option<f64> {
    let (sampled, total) = sites(summary);
    let rate = sampled as f64 / summary.elapsed_s;
    (sampled >= ENOUGH_SITES).then(|| total as f64 / rate)
}

/// A larger budget than there was, percent, that can be advised.
fn larger_budget(summary: &Summary) -> Option<f64> {
    let present = summary.max_overhead_percent;
    (present < MOST_ADVISED).then(|| (TIMES * present).min(MOST_ADVISED))
}

/// A line that says what to change for more to be watched, where no race was caught and the figures tell; else nothing.
#[must_use]
pub fn advice(summary: &Summary) -> String {
    if summary.races_unique > 0 {
        return String::new();
    }
    let Some(limit) = Limit::of(summary) else {
        return String::new();
    };
    let text = clean(&told(limit, summary)).into_owned();
    format!("gwp-race: {text}\n")
}

fn told(limit: Limit<'_>, summary: &Summary) -> String {
    let budget = percent(summary.max_overhead_percent);
    let larger = larger_budget(summary);
    let cpu = seconds(summary.target_cpu_s);
    match limit {
        Limit::Failures(reason, times) => format!(
            "{} threads could not be stopped, or nothing be watched ({reason}), more often than they were stalled; `gwp-race doctor PID` tells what is missing",
            count(times, "time")
        ),
        Limit::Unwatchable(threads) => format!(
            "nobody was stalled, since {} could not be watched; `gwp-race doctor PID` tells why",
            count(threads, "thread")
        ),
        Limit::NotAnalyzed => {
            let what = summary
                .hottest_unanalyzed
                .as_ref()
                .map_or_else(|| "what the program executes".to_owned(), Unanalyzed::name);
            format!(
                "nobody was stalled, since hardly any time was spent in analyzed code; build {what} with the metadata as well (`gwp-race inspect FILE` shows what a file carries)"
            )
        }
        Limit::Idle => {
            let more = match larger {
                Some(larger) if spent_part(summary) >= Some(IS_SPENT) => {
                    format!(
                        ", or let sampling cost more of it: --max-overhead {}%",
                        percent(larger)
                    )
                }
                _ => String::new(),
            };
            format!(
                "the program has used {cpu} of CPU time in {}, and sampling may cost {budget} % of that; put it under load{more}",
                about(summary.elapsed_s)
            )
        }
        Limit::Sites => {
            let (sampled, total) = sites(summary);
            format!(
                "threads were stalled at {sampled} of {}; have the program do something else, or let it run longer for what seldom meets",
                count(total, "access site")
            )
        }
        Limit::SamplePeriod(period) => format!(
            "samples came each {} of CPU time (--sample-period), and what they may cost was not spent; give a shorter one, or none",
            seconds(period)
        ),
        Limit::Budget => match (pass_s(summary), larger) {
            (Some(pass), larger) => {
                let more = match larger {
                    Some(larger) => format!(
                        "with --max-overhead {}% it would take {}",
                        percent(larger),
                        about(pass * summary.max_overhead_percent / larger)
                    ),
                    None => "let the program run as long".to_owned(),
                };
                format!(
                    "at this rate one pass over the {} takes {} at least; {more}",
                    count(sites(summary).1, "access site"),
                    about(pass)
                )
            }
            (None, Some(larger)) => format!(
                "all that sampling may cost was spent ({budget} % of {cpu} of CPU time); let the program run longer, or let it cost more: --max-overhead {}%",
                percent(larger)
            ),
            (None, None) => format!(
                "all that sampling may cost was spent ({budget} % of {cpu} of CPU time); let the program run longer"
            ),
        },
        Limit::Time => {
            let pass = pass_s(summary).map_or_else(String::new, |pass| {
                format!(
                    "at this rate one pass over the {} takes {} at least, and ",
                    count(sites(summary).1, "access site"),
                    about(pass)
                )
            });
            format!(
                "{pass}what sampling may cost was not spent, so that a larger --max-overhead changes little; let the program run longer, or do more"
            )
        }
    }
}

/// A share as options have it: without digits that come of calculating.
fn percent(share: f64) -> String {
    ((share * 1000.0).round() / 1000.0).to_string()
}

/// A time in words, in the unit that leaves few digits.
fn about(seconds: f64) -> String {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 60.0 * MINUTE;
    const DAY: f64 = 24.0 * HOUR;
    const YEAR: f64 = 365.0 * DAY;
    let (number, unit) = match seconds {
        ..90.0 => (seconds, "second"),
        ..5400.0 => (seconds / MINUTE, "minute"),
        ..172_800.0 => (seconds / HOUR, "hour"),
        ..63_072_000.0 => (seconds / DAY, "day"),
        _ => (seconds / YEAR, "year"),
    };
    count(number.round().max(1.0) as u64, unit)
}

#[cfg(test)]
mod tests;
