//! A race with all that is known of it.

use askama::Template;

use super::{
    brief::brief,
    chart::{Chart, date},
    query::{List, address, of_race},
    shown::{BuildName, RaceRow, Time, count, short, times},
    triage::Forms,
};
use crate::{
    report::{RaceView, clean::clean},
    store::{
        Said,
        page::{Details, Filter},
    },
};

/// Rows of the table of days.
const MOST_DAYS: usize = 200;

/// See the module.
#[derive(Template)]
#[template(path = "stored_race.html")]
pub(super) struct RacePage {
    title: String,
    id: String,
    issue: String,
    issue_address: String,
    of_issue: String,
    row: RaceRow,
    merged: Vec<String>,
    caught: String,
    said: Vec<String>,
    forms: Option<Forms>,
    builds: Vec<SeenRow>,
    more_builds: i64,
    others: Vec<OtherBuild>,
    hosts: Vec<SeenRow>,
    more_hosts: i64,
    days: Vec<DayRow>,
    more_days: usize,
    evidence: Vec<Record>,
    record: Option<RaceView>,
    /// What was left out of it.
    left_out: Option<String>,
    /// When and in which build the record that is shown was made.
    shown: Option<(Time, String)>,
}

/// A build or a machine in which it was caught.
struct SeenRow {
    name: BuildOrHost,
    times: i64,
    first: Time,
    last: Time,
    chart: Option<Chart>,
}

struct BuildOrHost {
    address: String,
    name: String,
    exe: Option<String>,
}

struct OtherBuild {
    build: BuildName,
    /// Compares the last build in which it was caught with this one.
    compare: Option<String>,
}

struct DayRow {
    date: String,
    build: String,
    times: i64,
}

struct Record {
    address: String,
    caught: Time,
    build: String,
    is_shown: bool,
}

impl RacePage {
    /// With forms for who may say something.
    pub(super) fn new(details: &Details, forms: Option<Forms>) -> Result<Self, serde_json::Error> {
        let record = details.record.as_ref().map(|(_, race)| brief(race));
        let (record, left_out) = record.transpose()?.unzip();
        let row = &details.row;
        let shown = |text: &str| clean(text).into_owned();
        let list = |filter| List { filter, from: None }.address();
        let builds = details.builds.iter().map(|seen| {
            let build = BuildName::new(&seen.build);
            SeenRow {
                name: BuildOrHost {
                    address: build.address,
                    name: build.id,
                    exe: build.exe,
                },
                times: seen.times,
                first: Time::of_hour(seen.hours[0]),
                last: Time::of_hour(seen.hours[1]),
                chart: Some(Chart::new(&seen.days)),
            }
        });
        let hosts = details.hosts.iter().map(|seen| SeenRow {
            name: BuildOrHost {
                address: list(Filter {
                    host: Some(seen.host.clone()),
                    ..Filter::default()
                }),
                name: shown(&seen.host),
                exe: None,
            },
            times: seen.times,
            first: Time::of_hour(seen.hours[0]),
            last: Time::of_hour(seen.hours[1]),
            chart: None,
        });
        let newest = details.builds.first().map(|seen| &*seen.build.id);
        let others = details.others.iter().map(|build| OtherBuild {
            compare: newest.map(|newest| {
                let builds = [("a", newest), ("b", &build.id)];
                address("/diff", builds.into_iter())
            }),
            build: BuildName::new(build),
        });
        let digest = details.record.as_ref().map(|(shown, _)| &*shown.digest);
        let evidence = details.evidence.iter().map(|record| Record {
            address: of_race(&row.id, Some(&record.digest)),
            caught: Time::of(record.caught),
            build: shown(&record.build),
            is_shown: digest == Some(&*record.digest),
        });
        let days = details.days.iter().take(MOST_DAYS).map(|day| DayRow {
            date: date(day.day),
            build: shown(&day.build),
            times: day.times,
        });
        let name = match &*row.variable {
            "" => short(&row.functions),
            variable => format!("{} ({})", short(&row.functions), short(variable)),
        };
        let left = |all: i64, shown: usize| all.saturating_sub_unsigned(shown as u64).max(0);
        Ok(Self {
            title: format!("Race: {name}"),
            id: shown(&row.id),
            issue: shown(&row.issue),
            issue_address: list(Filter {
                issue: Some(row.issue.clone()),
                ..Filter::default()
            }),
            of_issue: count(details.of_issue, "race", "races"),
            merged: details.merged.iter().map(|name| shown(name)).collect(),
            caught: times(row.times),
            said: details.said.iter().map(told).collect(),
            forms,
            more_builds: left(row.builds, details.builds.len()),
            builds: builds.collect(),
            others: others.collect(),
            more_hosts: left(row.hosts, details.hosts.len()),
            hosts: hosts.collect(),
            days: days.collect(),
            more_days: details.days.len().saturating_sub(MOST_DAYS),
            evidence: evidence.collect(),
            shown: (details.record.as_ref())
                .map(|(record, _)| (Time::of(record.caught), shown(&record.build))),
            record: record.map(|race| RaceView::new(1, &race, false, None)),
            left_out: left_out.flatten(),
            row: RaceRow::new(row),
        })
    }
}

/// What somebody has said, in a sentence.
fn told(said: &Said) -> String {
    let mut text = format!(
        "{}: {} said {}",
        Time::of(said.said).full,
        short(&said.who),
        said.state.name()
    );
    if said.name.starts_with('i') {
        text.push_str(" of the issue");
    }
    if let Some(end) = said.expires {
        text += &format!(" until {}", Time::of(end).full);
    }
    if !said.owner.is_empty() {
        text += &format!(", owner {}", short(&said.owner));
    }
    if !said.reason.is_empty() {
        text += &format!(": {}", short(&said.reason));
    }
    text
}
