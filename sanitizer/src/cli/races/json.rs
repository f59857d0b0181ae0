//! What `races` writes as JSON: a contract with users, like the JSON form of reports.

use std::io::Write;

use serde::Serialize;

use crate::cli::stdout::write_json_line;
use crate::report::Race;
use crate::store::{Done, Entry, Merge, Said, State, StoredRace, Verdict, rfc3339};
use crate::tracee::container::pod;

/// The version of the form.
pub const SCHEMA: u32 = 1;

/// A line of `gwp-race races`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Versioned<'a> {
    /// Counts incompatible changes.
    schema: u32,
    #[serde(flatten)]
    line: &'a Line<'a>,
}

/// What is told.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Line<'a> {
    /// Of `list`: a race.
    Listed(Listed<'a>),
    /// Of `show`: a race with all that is known of it.
    Shown(Shown<'a>),
    /// Of `diff`: a race of one of the two builds, or of both.
    Difference(Difference<'a>),
    /// Of `log`: what somebody has said of a race or issue.
    Said(Spoken<'a>),
    /// Of `log`: a race or issue was merged into another one.
    Merged(Joined<'a>),
    /// Of `log`: it was split from it again.
    Split(Joined<'a>),
}

/// A race of the store. Times are by RFC 3339 in UTC.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Listed<'a> {
    /// Its name, as `identity.race` of reports.
    race: &'a str,
    /// The name of its issue.
    issue: &'a str,
    /// The names of the races that were merged into it.
    merged: Vec<&'a str>,
    /// The functions of both sides.
    functions: &'a str,
    /// The variable, with the way to its member.
    variable: Option<&'a str>,
    /// Function, file and line of both sides.
    places: &'a str,
    /// What is to be thought of it.
    state: State,
    /// What counts of all that was said of it, or was said last where all of that is over.
    said: Option<Spoken<'a>>,
    /// When it was caught first.
    first_seen: String,
    /// When it was caught last.
    last_seen: String,
    /// How often it was caught.
    times: i64,
    /// In which builds and where it was caught.
    seen: Vec<Place<'a>>,
}

/// Where a race was caught.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Place<'a> {
    /// The build id of the executable; `exe:` and its path where it has none.
    build: &'a str,
    /// The executable's path.
    exe: &'a str,
    /// When this build was watched first.
    build_first_seen: String,
    /// The machine, where it is known.
    host: Option<&'a str>,
    /// The control group of the service or pod.
    cgroup: Option<&'a str>,
    /// The container's id.
    container: Option<&'a str>,
    /// The id of the pod, from the names of control groups.
    pod: Option<String>,
    /// How often it was caught there.
    times: i64,
}

/// What somebody has said of a race or its issue.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spoken<'a> {
    /// The name of the race or of the issue.
    of: &'a str,
    /// What it is.
    state: Verdict,
    /// Why.
    reason: Option<&'a str>,
    /// Who sees to it.
    owner: Option<&'a str>,
    /// Until when this counts.
    expires: Option<String>,
    /// The user who has said it.
    who: &'a str,
    /// When.
    when: String,
}

/// That a name counts as another one, or does not any more.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Joined<'a> {
    /// The name of the race or of the issue.
    of: &'a str,
    /// The one into which it was merged, or from which it was split.
    target: &'a str,
    /// Why.
    reason: Option<&'a str>,
    /// The user who has done it.
    who: &'a str,
    /// When.
    when: String,
}

/// See [`Line`].
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Shown<'a> {
    #[serde(flatten)]
    pub listed: Listed<'a>,
    /// All that was said of it, the first first.
    history: Vec<Spoken<'a>>,
    /// The reports that are kept, the last first.
    reports: &'a [Race],
}

/// See [`Line`].
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Difference<'a> {
    /// Where it was caught.
    pub builds: Builds,
    #[serde(flatten)]
    pub listed: Listed<'a>,
}

/// In which of two builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Builds {
    /// In the second alone.
    New,
    /// In the first alone.
    Gone,
    /// In both.
    Both,
}

impl Builds {
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Gone => "gone",
            Self::Both => "both",
        }
    }
}

const fn some(text: &str) -> Option<&str> {
    if text.is_empty() { None } else { Some(text) }
}

impl<'a> Listed<'a> {
    pub fn of(race: &'a StoredRace) -> Self {
        let seen = race.seen.iter().map(|seen| Place {
            build: &seen.build.id,
            exe: &seen.build.exe,
            build_first_seen: rfc3339(seen.build.first_seen),
            host: some(&seen.place.host),
            cgroup: some(&seen.place.cgroup),
            container: some(&seen.place.container),
            pod: pod(&seen.place.cgroup),
            times: seen.times,
        });
        Self {
            race: &race.id,
            issue: &race.issue,
            merged: race.merged.iter().map(String::as_str).collect(),
            functions: &race.functions,
            variable: some(&race.variable),
            places: &race.places,
            state: race.state,
            said: race.said.as_ref().map(Spoken::of),
            first_seen: rfc3339(race.first_seen),
            last_seen: rfc3339(race.last_seen),
            times: race.times,
            seen: seen.collect(),
        }
    }
}

impl<'a> Spoken<'a> {
    fn of(said: &'a Said) -> Self {
        Self {
            of: &said.name,
            state: said.state,
            reason: some(&said.reason),
            owner: some(&said.owner),
            expires: said.expires.map(rfc3339),
            who: &said.who,
            when: rfc3339(said.said),
        }
    }
}

impl<'a> Joined<'a> {
    fn of(merge: &'a Merge) -> Self {
        Self {
            of: &merge.name,
            target: &merge.target,
            reason: some(&merge.reason),
            who: &merge.who,
            when: rfc3339(merge.said),
        }
    }
}

impl<'a> Line<'a> {
    /// What the log has, of `log`.
    pub fn logged(entry: &'a Entry) -> Self {
        match entry {
            Entry::Said(said) => Self::Said(Spoken::of(said)),
            Entry::Merge(merge) => match merge.done {
                Done::Merged => Self::Merged(Joined::of(merge)),
                Done::Split => Self::Split(Joined::of(merge)),
            },
        }
    }
}

impl<'a> Shown<'a> {
    pub fn of(race: &'a StoredRace, log: &'a [Entry], reports: &'a [Race]) -> Self {
        let history = log.iter().filter_map(|entry| match entry {
            Entry::Said(said) => Some(Spoken::of(said)),
            Entry::Merge(_) => None,
        });
        Self {
            listed: Listed::of(race),
            history: history.collect(),
            reports,
        }
    }
}

/// Writes a line.
pub fn write_line(out: &mut dyn Write, line: &Line<'_>) -> anyhow::Result<()> {
    let line = Versioned {
        schema: SCHEMA,
        line,
    };
    write_json_line(out, &line)
}
