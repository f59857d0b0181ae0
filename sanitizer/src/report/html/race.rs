//! A race as the page shows it.

use super::side::SideView;
use crate::report::clean::clean;
use crate::report::locks::missing_lock;
use crate::report::model::Race;
use crate::report::rule::rule;
use crate::report::summary::Summary;
use crate::report::words::{
    bare_clock, capitalized, location, sentence, summary_places, value, verdict, what,
};

/// All of a race in the words of the page; nothing here is escaped, which the template does.
pub(crate) struct RaceView {
    /// From 1; the names of its elements are made of it.
    pub(crate) number: usize,
    pub(crate) places: String,
    pub(crate) sentence: String,
    /// Whether the baseline has it, where one was given.
    pub(crate) state: Option<&'static str>,
    pub(crate) known: bool,
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) sides: [SideView; 2],
    /// When the racing access was recorded, RFC 3339 in UTC; and the part of it that the time line has room for.
    pub(crate) time: String,
    pub(crate) clock: Option<String>,
    /// What happened before, at, and after that time.
    pub(crate) steps: [String; 3],
    pub(crate) notes: Vec<String>,
    pub(crate) names: Vec<(&'static str, String)>,
    /// What suppresses it.
    pub(crate) rule: Option<String>,
}

impl RaceView {
    /// `summary`: of the run, where it has ended.
    pub(crate) fn new(
        number: usize,
        race: &Race,
        has_baseline: bool,
        summary: Option<&Summary>,
    ) -> Self {
        let state = if race.known { "known" } else { "new" };
        Self {
            number,
            places: summary_places(race),
            sentence: sentence(race),
            state: (has_baseline || race.known).then_some(state),
            known: race.known,
            facts: facts(race, summary),
            sides: race.accesses.each_ref().map(SideView::new),
            time: clean(&race.time).into_owned(),
            clock: bare_clock(&race.time).map(str::to_owned),
            steps: steps(race),
            notes: (race.notes.iter())
                .map(|note| capitalized(&clean(note)))
                .collect(),
            names: names(race),
            rule: rule(race).ok(),
        }
    }
}

fn facts(race: &Race, summary: Option<&Summary>) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("Verdict", verdict(race.verdict).to_owned()),
        (
            "Bytes of both",
            format!("{} at {:#014x}", race.size, race.address.0),
        ),
        ("Location", location(race)),
    ];
    facts.extend(missing_lock(race).map(|missing| ("Locks", capitalized(&missing))));
    facts.extend(value(race).map(|value| ("Watched", clean(&value).into_owned())));
    let exe = clean(&race.exe);
    facts.push(("Process", format!("{exe} (pid={})", race.pid)));
    let sighting = summary.and_then(|summary| summary.sighting(race));
    facts.extend(sighting.map(|sighting| ("Caught", clean(&sighting.told()).into_owned())));
    facts
}

fn names(race: &Race) -> Vec<(&'static str, String)> {
    let identity = &race.identity;
    let pair = identity.pair.iter().map(|name| ("Pair", name));
    pair.chain([
        ("Race", &identity.race),
        ("Issue", &identity.issue),
        ("Fingerprint", &race.fingerprint),
    ])
    .map(|(label, name)| (label, clean(name).into_owned()))
    .collect()
}

/// The stall in three steps. A record has the time of the second one only.
fn steps(race: &Race) -> [String; 3] {
    let [stalled, racing] = race.accesses.each_ref().map(|access| {
        let name = clean(&access.thread_name);
        let thread = format!("thread '{name}' (tid={})", access.tid);
        (thread, what(access))
    });
    let held = |value: &Option<String>, when: &str| match value {
        Some(value) => format!(" The watched bytes hold {} {when}.", clean(value)),
        None => String::new(),
    };
    [
        format!(
            "{} stands right before its {}.{}",
            capitalized(&stalled.0),
            stalled.1,
            held(&race.value_before, "then")
        ),
        format!(
            "{} makes its {} meanwhile.{}",
            capitalized(&racing.0),
            racing.1,
            held(&race.value_after, "afterwards")
        ),
        format!(
            "{} is let go, and makes its {}.",
            capitalized(&stalled.0),
            stalled.1
        ),
    ]
}
