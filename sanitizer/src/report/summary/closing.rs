//! The closing line: what was found, and what finding nothing is worth.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::report::clean::clean;

use super::cost::Cost;
use super::reach::write_reach;
use super::{Summary, count, seconds};

/// The hits of races that the user does not want to hear of, among those that were swallowed.
const SUPPRESSED: &str = "suppressed";

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
    let are_suppressed = summary.hits_swallowed.get(SUPPRESSED) > Some(&0);
    match (summary.races_unique, summary.races_total) {
        (0, _) => write!(
            out,
            "gwp-race: no {is_new}data race was caught{}{}, which does not prove that ",
            if are_suppressed {
                " beside suppressed ones"
            } else {
                ""
            },
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
            if summary.races_known > 0 || are_suppressed {
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
    write_reach(out, summary)?;
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
