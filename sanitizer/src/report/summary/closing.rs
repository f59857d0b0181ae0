//! The closing line: what was found, and what finding nothing is worth.

use std::collections::BTreeMap;

use crate::report::clean::clean;

use super::cost::Cost;
use super::reach::reach;
use super::{Summary, count, seconds};

/// The hits of races that the user does not want to hear of, among those that were swallowed.
const SUPPRESSED: &str = "suppressed";

/// One line that says what was found, and what finding nothing is worth.
#[must_use]
pub fn closing_line(summary: &Summary) -> String {
    let mut text = format!("gwp-race: {}: {}", outcome(summary), watched(summary));
    for limit in limits(summary) {
        text.push_str("; ");
        text.push_str(&limit);
    }
    text.push_str(". ");
    text.push_str(&cost(summary));
    clean(&text).into_owned() + "\n"
}

/// What was caught, and that it need not be all.
pub(in crate::report) fn outcome(summary: &Summary) -> String {
    let is_new = if summary.races_known > 0 { "new " } else { "" };
    let are_suppressed = summary.hits_swallowed.get(SUPPRESSED) > Some(&0);
    match (summary.races_unique, summary.races_total) {
        (0, _) => format!(
            "no {is_new}data race was caught{}{}, which does not prove that {}",
            if are_suppressed {
                " beside suppressed ones"
            } else {
                ""
            },
            known("only", summary),
            if summary.races_known > 0 || are_suppressed {
                "there is no other"
            } else {
                "there is none"
            }
        ),
        (1, 1) => "1 data race was caught; more may exist where nothing was watched".to_owned(),
        (unique, total) => format!(
            "{unique} {is_new}{} caught{} ({total} times in all); more may exist where nothing was watched",
            if unique == 1 {
                "data race was"
            } else {
                "data races were"
            },
            known("and", summary)
        ),
    }
}

/// How much was watched.
pub(in crate::report) fn watched(summary: &Summary) -> String {
    format!(
        "memory was watched for {} of {} ({})",
        seconds(summary.watched_s),
        seconds(summary.elapsed_s),
        count(summary.stalls, "stall"),
    )
}

/// What limits that, each in some words.
pub(in crate::report) fn limits(summary: &Summary) -> Vec<String> {
    let code = reach(summary).into_iter();
    code.chain(of_threads(summary))
        .chain(not_watched(&summary.not_watched))
        .chain(of_findings(summary))
        .collect()
}

/// Which threads could not be held.
fn of_threads(summary: &Summary) -> Vec<String> {
    let mut limits = Vec::new();
    if summary.unwatchable_threads > 0 {
        let threads = count(summary.unwatchable_threads, "thread");
        limits.push(format!("{threads} could not be watched"));
    }
    if summary.threads_left_alone > 0 {
        limits.push(format!(
            "{} of {} that were created could not be held within the budget",
            summary.threads_left_alone,
            count(summary.threads_created, "thread")
        ));
    }
    if summary.times_let_alone > 0 {
        limits.push(format!(
            "threads were let alone {}, for {} in all, as their own signals cost more than the budget",
            count(summary.times_let_alone, "time"),
            seconds(summary.let_alone_s)
        ));
    }
    limits
}

/// What was caught, or might have been, and is not told.
fn of_findings(summary: &Summary) -> Vec<String> {
    let mut limits = Vec::new();
    if summary.watchdog_releases > 0 {
        let times = count(summary.watchdog_releases, "time");
        limits.push(format!("the watchdog released the target {times}"));
    }
    if summary.dropped > 0 {
        limits.push(format!("{} dropped", count(summary.dropped, "finding")));
    }
    if let Some(name) = summary.files_not_read.keys().next() {
        let others = match summary.files_not_read.len() - 1 {
            0 => String::new(),
            others => format!(" and {}", count(others as u64, "other file")),
        };
        limits.push(format!(
            "of {name}{others} there are addresses only, as reading debug information failed"
        ));
    }
    let swallowed: u64 = summary.hits_swallowed.values().sum();
    if swallowed > 0 {
        limits.push(format!("{} not reported", count(swallowed, "hit")));
    }
    if summary.value_changed_unknown_origin > 0 {
        let times = count(summary.value_changed_unknown_origin, "time");
        limits.push(format!("the value changed without a hit {times}"));
    }
    limits
}

/// What watching has cost.
pub(in crate::report) fn cost(summary: &Summary) -> String {
    let stopped = seconds(summary.target_stopped_s);
    format!(
        "Threads of the target were stopped for {stopped} ({}).",
        Cost(summary).in_full()
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

/// The processes that were not watched, the most frequent first; nothing where there are none.
fn not_watched(not_watched: &BTreeMap<String, BTreeMap<String, u64>>) -> Option<String> {
    const MOST: usize = 3;
    let mut all: Vec<(u64, &str, &str)> = not_watched
        .iter()
        .flat_map(|(name, reasons)| {
            let reasons = reasons.iter();
            reasons.map(move |(reason, &count)| (count, name.as_str(), reason.as_str()))
        })
        .collect();
    if all.is_empty() {
        return None;
    }
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
    let mut text = format!("not watched: {}", told.join(", "));
    if more > 0 {
        text += &format!(" and {more} more");
    }
    Some(text)
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
