//! Parts that several pages have, in their words. Nothing here is escaped, which the templates do.

use super::{
    chart::Chart,
    query::{List, of_race},
};
use crate::{
    report::clean::clean,
    store::{
        Build, begin_of, day,
        page::{Filter, Row},
        rfc3339,
    },
};

/// A time: the date, and all of it.
pub(super) struct Time {
    pub(super) date: String,
    pub(super) full: String,
}

impl Time {
    /// Of milliseconds since 1970.
    pub(super) fn of(millis: i64) -> Self {
        Self {
            date: day(millis),
            full: rfc3339(millis),
        }
    }

    /// Of an hour.
    pub(super) fn of_hour(hour: i64) -> Self {
        Self::of(begin_of(hour))
    }
}

/// A race of a list.
pub(super) struct RaceRow {
    pub(super) address: String,
    pub(super) functions: String,
    pub(super) variable: String,
    pub(super) places: String,
    pub(super) state: &'static str,
    pub(super) chart: Chart,
    pub(super) times: i64,
    pub(super) hosts: i64,
    pub(super) builds: i64,
    pub(super) first: Time,
    pub(super) last: Time,
}

/// A name that may be from anywhere, as a list shows it: whoever sends races could otherwise have a page take all memory.
pub(super) fn short(text: &str) -> String {
    /// Characters.
    const MOST: usize = 500;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", clean(text.get(..end).unwrap_or_default())),
        None => clean(text).into_owned(),
    }
}

impl RaceRow {
    pub(super) fn new(row: &Row) -> Self {
        Self {
            address: of_race(&row.id, None),
            functions: short(&row.functions),
            variable: short(&row.variable),
            places: short(&row.places),
            state: row.state.name(),
            chart: Chart::new(&row.days),
            times: row.times,
            hosts: row.hosts,
            builds: row.builds,
            first: Time::of(row.first_seen),
            last: Time::of(row.last_seen),
        }
    }
}

/// A build, with the list of its races.
pub(super) struct BuildName {
    pub(super) address: String,
    pub(super) id: String,
    /// Nothing where the build is named by it.
    pub(super) exe: Option<String>,
    pub(super) first: Time,
}

impl BuildName {
    pub(super) fn new(build: &Build) -> Self {
        let list = List {
            filter: Filter {
                build: Some(build.id.clone()),
                ..Filter::default()
            },
            from: None,
        };
        Self {
            address: list.address(),
            id: clean(&build.id).into_owned(),
            exe: (!build.is_path()).then(|| short(&build.exe)),
            first: Time::of(build.first_seen),
        }
    }
}

/// How often, in words.
pub(super) fn times(times: i64) -> String {
    match times {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    }
}

/// A number of things.
pub(super) fn count(number: i64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that names of a list have a limit, whatever is in them.
    #[test]
    fn names_are_cut() {
        assert_eq!(short("f\u{7}"), clean("f\u{7}"));
        for name in ["ü".repeat(500), "<".repeat(500)] {
            assert_eq!(short(&name), name);
            assert_eq!(short(&format!("{name}more")), format!("{name}…"));
        }
        let long = "\0".repeat(1 << 20);
        assert!(short(&long).len() < 5_000);
    }
}
