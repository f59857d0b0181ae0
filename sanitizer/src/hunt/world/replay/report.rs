//! What was recorded, and what planners find in it, as text: `cargo xtask trace` prints it.

use std::fmt::Write as _;

use super::{
    compared::{Conditions, STALLS, Who, compare},
    index::Index,
};
use crate::hunt::world::{comparison::MINUTES, costs::NESTED, trace::recorded::Recorded};

/// How planners are compared.
pub const USUAL: Conditions = Conditions {
    costs: NESTED,
    share: 0.02,
    hunts: 4,
    length_s: 3600.0,
};

/// The true races of a recording: each pair of lines once.
#[must_use]
pub fn races(recorded: &Recorded) -> String {
    const US: f64 = 1e-3;
    let mut lines = std::collections::BTreeMap::new();
    for race in &recorded.races {
        let (times, nearest) = lines
            .entry(recorded.lines_of(race.sites))
            .or_insert((0, u64::MAX));
        *times += race.times;
        *nearest = race.nearest_ns.min(*nearest);
    }
    let plain = recorded.sites.iter().take(recorded.plain as usize);
    let executed = plain.filter(|site| site.comes > 0.0).count();
    let mut out = format!(
        "{}: {:.2} s of {:.2} processors, {} accesses kept; {} access sites, of which {executed} were executed; {} racing pairs of lines, of {} pairs of sites.\n\n",
        recorded.name,
        recorded.length_ns as f64 * 1e-9,
        recorded.processors,
        recorded.events.len(),
        recorded.plain,
        lines.len(),
        recorded.races.len(),
    );
    out += "| one line | other line | unordered pairs of accesses | nearest, us |\n| --- | --- | --- | --- |\n";
    for ([one, other], (times, nearest)) in lines {
        let _ = writeln!(
            out,
            "| {one} | {other} | {times} | {:.1} |",
            nearest as f64 * US
        );
    }
    out
}

/// What planners find in it, by the number of threads that they held, and by time.
#[must_use]
pub fn planners(recorded: &Recorded, conditions: &Conditions) -> String {
    let index = Index::of(recorded);
    let mut out = format!(
        "Pairs of lines found of {}, on the machine \"{}\" at {} %, means of {} hunts of {} minutes:\n\n| who is held |",
        index.pairs_of_lines,
        conditions.costs.name,
        conditions.share * 100.0,
        conditions.hunts,
        conditions.length_s / 60.0,
    );
    for stalls in STALLS {
        let _ = write!(out, " {stalls} stalls |");
    }
    for minutes in MINUTES {
        let _ = write!(out, " {minutes} min |");
    }
    out += " stalls a minute | budget a race, s |\n| --- |";
    out += &" --- |".repeat(STALLS.len() + MINUTES.len() + 2);
    out.push('\n');
    for (who, figure) in Who::ALL.iter().zip(compare(&index, conditions)) {
        let _ = write!(out, "| {} |", who.name());
        for found in figure.by_stalls.iter().chain(&figure.by_minutes) {
            let _ = write!(
                out,
                " {} |",
                found.map_or("-".to_owned(), |found| format!("{found:.1}"))
            );
        }
        let cost = figure
            .cost_s
            .map_or("-".to_owned(), |cost| format!("{cost:.2}"));
        let _ = writeln!(out, " {:.0} | {cost} |", figure.stalls);
    }
    out
}
