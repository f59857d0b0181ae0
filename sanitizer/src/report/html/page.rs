//! The page: which programs were watched, how much, and all races.

use std::collections::BTreeSet;
use std::time::SystemTime;

use askama::Template;

use super::race::RaceView;
use crate::report::clean::clean;
use crate::report::model::Race;
use crate::report::summary::{Summary, advice, cost, limits, outcome, rows, unused_lines, watched};
use crate::report::words::{capitalized, file_name};

/// See the module.
#[derive(Template)]
#[template(path = "report.html")]
pub(super) struct Page {
    headline: String,
    programs: Vec<ProgramView>,
    /// When the page was written, RFC 3339 in UTC.
    written: String,
    version: &'static str,
    run: Option<RunView>,
    races: Vec<RaceView>,
}

struct ProgramView {
    exe: String,
    build_id: Option<String>,
    /// In how many processes it was watched, where there were several.
    processes: Option<u64>,
}

/// What the summary tells.
struct RunView {
    sentences: String,
    limits: Vec<String>,
    figures: Vec<(&'static str, String)>,
    /// The summary has counted other races than there are on the page.
    is_of_other_races: bool,
}

impl Page {
    pub(super) fn new(
        races: &[Race],
        summary: Option<&Summary>,
        has_baseline: bool,
        now: SystemTime,
    ) -> Self {
        let programs = programs(races, summary);
        Self {
            headline: headline(races, summary.is_some(), &programs),
            programs,
            written: humantime::format_rfc3339_seconds(now).to_string(),
            version: env!("CARGO_PKG_VERSION"),
            run: summary.map(|summary| run(races, summary)),
            races: (1..)
                .zip(races)
                .map(|(number, race)| RaceView::new(number, race, has_baseline, summary))
                .collect(),
        }
    }
}

fn headline(races: &[Race], is_whole: bool, programs: &[ProgramView]) -> String {
    let known = races.iter().filter(|race| race.known).count();
    let mut text = match races.len() {
        0 if is_whole => "No data race was caught".to_owned(),
        0 => "No data race is recorded".to_owned(),
        1 => "1 data race".to_owned(),
        count => format!("{count} data races"),
    };
    if let [program] = programs {
        text += &format!(" in {}", file_name(&program.exe));
    }
    if known > 0 {
        text += &format!(" ({known} known)");
    }
    text
}

/// Those of the summary, and those of the races that are not among them: of other runs, or of more than a summary has.
fn programs(races: &[Race], summary: Option<&Summary>) -> Vec<ProgramView> {
    let mut seen = BTreeSet::new();
    let watched = summary.into_iter().flat_map(|summary| &summary.programs);
    let watched = watched.map(|program| (&program.exe, &program.build_id, program.processes));
    let raced = races.iter().map(|race| (&race.exe, &race.build_id, 1));
    watched
        .chain(raced)
        .filter(|&(exe, build_id, _)| seen.insert((exe, build_id)))
        .map(|(exe, build_id, processes)| ProgramView {
            exe: clean(exe).into_owned(),
            build_id: build_id.as_deref().map(|id| clean(id).into_owned()),
            processes: (processes > 1).then_some(processes),
        })
        .collect()
}

fn run(races: &[Race], summary: &Summary) -> RunView {
    let sentences = format!(
        "{}. {}. {}",
        capitalized(&outcome(summary)),
        capitalized(&watched(summary)),
        cost(summary)
    );
    let others = unused_lines(summary) + &advice(summary);
    let others = others
        .lines()
        .map(|line| line.trim_start_matches("gwp-race: "));
    let limits = limits(summary);
    let limits = limits.iter().map(|limit| clean(limit).into_owned());
    let figures = rows(summary).into_iter();
    RunView {
        sentences: clean(&sentences).into_owned(),
        limits: limits.chain(others.map(str::to_owned)).collect(),
        figures: figures
            .map(|(label, value)| (label, clean(&value).into_owned()))
            .collect(),
        is_of_other_races: summary.races_unique + summary.races_known != races.len() as u64,
    }
}
