//! The table of docs/fleet.md that says what a common store of so many hosts takes, computed from what was measured and what is assumed of a fleet.

use std::{fs, path::PathBuf};

use crate::paths;

/// Hosts.
const FLEETS: [f64; 3] = [10.0, 1_000.0, 100_000.0];
/// The line before the table.
const MARK: &str = "<!-- The table is xtask/src/scale.rs; UPDATE_DOCS=1 cargo test -p xtask scale writes it. -->\n\n";

// Assumed of a fleet; docs/fleet.md says so.

/// Different programs of a fleet, and of one host.
const PROGRAMS: [f64; 3] = [5.0, 50.0, 500.0];
const PROGRAMS_OF_HOST: f64 = 5.0;
/// Races of a program, and of those the ones that one host catches at all while a build is there.
const RACES: f64 = 20.0;
const RACES_OF_HOST: f64 = 5.0;
/// Builds of a program a week.
const BUILDS: f64 = 1.0;
/// Messages that tell that a race was caught again, an hour; each of one race.
const AGAIN: f64 = 30.0;
/// Rows of sightings that a host fills: in an hour, and of a whole day once it is rolled up.
const ROWS_AN_HOUR: f64 = 10.0;
const ROWS_A_DAY: f64 = 40.0;
/// Days of which reports are kept, and of which it is kept on which of them races were caught (`--keep-days`): as thirty go at a time, half of that longer on average. The first are kept by the hour.
const DAYS: f64 = 90.0;
const DAYS_BY_DAY: f64 = DAYS + 15.0;
const DAYS_BY_HOUR: f64 = 7.0;
/// Days of which sums are kept together afterwards.
const BLOCK: f64 = 30.0;
/// Days for which it is kept what was learned of a build (`store/learned`), and what it takes then at most.
const DAYS_LEARNED: f64 = 35.0;
const BYTES_LEARNED: f64 = 1_048_576.0;
/// Reports of a race and build that are kept whole (`MOST_EVIDENCE` of store/write.rs).
const WHOLE: f64 = 20.0;
/// What a GB on a disk with its copy costs a month, and a processor, USD.
const GB: f64 = 0.2;
const PROCESSOR: f64 = 30.0;

// Measured by `cargo xtask bench fleet --hosts 100`, with one program on a host: docs/benchmarks.md, "Machines that share what they learn".

/// Messages a host and day that tell what was learned, of all programs: one each quarter of an hour. Bytes of them, and functions in them, of one program.
const LEARNING: f64 = 96.0;
const LEARNING_BYTES: f64 = 2.0 * 1_048_576.0;
const LEARNING_FUNCTIONS: f64 = 2_500_000.0 / (100.0 * 8.0) * 24.0;
/// Bytes of what a host is told of a build, and how often it is at most: on the first day of a build, and on each later one.
const HINTS: f64 = 337.0 * 1024.0;
const HINTS_FIRST_DAY: f64 = 9.0;
const HINTS_LATER_DAY: f64 = 4.0;
/// Functions that one collector takes a second.
const FUNCTIONS_TAKEN: f64 = 31_700.0;

// Measured by `bench_store`: docs/fleet.md has the commands.

/// Bytes of a message with a first report, and of one with a race that was caught again.
const FIRST_MESSAGE: f64 = 2_130.0;
const AGAIN_MESSAGE: f64 = 460.0;
/// Bytes in PostgreSQL, with indexes: of a row of sightings, of a report that is kept whole, and of one of which the name alone is.
const SIGHTING: f64 = 1_100.0;
const REPORT: f64 = 4_500.0;
const NAME: f64 = 370.0;
/// Messages of one race that one collector takes a second, into PostgreSQL.
const TAKEN: f64 = 140.0;
/// Rows of sightings that are rolled up a second.
const ROLLED_UP: f64 = 30_000.0;

/// What so many hosts of so many programs take.
struct Needs {
    messages: f64,
    sent: f64,
    learning: f64,
    told: f64,
    /// Of what one collector was seen to take.
    load: f64,
    sightings: f64,
    sums: f64,
    reports: f64,
    bytes: f64,
    roll_up: f64,
}

impl Needs {
    fn of(hosts: f64, programs: f64) -> Self {
        let builds = BUILDS * DAYS / 7.0;
        let firsts = PROGRAMS_OF_HOST * RACES_OF_HOST * builds;
        let again = AGAIN * 24.0;
        let sightings = hosts * 24.0 * ROWS_AN_HOUR * DAYS_BY_HOUR
            + hosts * ROWS_A_DAY * (DAYS_BY_DAY - DAYS_BY_HOUR);
        // Two rows for each build that was there: all hosts catch a race on the first day of a build, and each of them keeps a row of that day.
        let builds_of_block = BUILDS * BLOCK / 7.0 + 1.0;
        let rows_of_block = PROGRAMS_OF_HOST * RACES_OF_HOST * 2.0 * builds_of_block;
        let sums = hosts * rows_of_block * 365.0 / BLOCK;
        let reports = hosts * firsts;
        let whole = (programs * RACES * builds * WHOLE).min(reports);
        let of_races = hosts * (again + firsts / DAYS) / 86_400.0;
        let messages = of_races + hosts * LEARNING / 86_400.0;
        let functions = hosts * PROGRAMS_OF_HOST * LEARNING_FUNCTIONS / 86_400.0;
        let days_of_build = 7.0 / BUILDS;
        let heard = (HINTS_FIRST_DAY + HINTS_LATER_DAY * (days_of_build - 1.0)) / days_of_build;
        let learned = programs * BUILDS * DAYS_LEARNED / 7.0 * BYTES_LEARNED;
        Self {
            messages,
            sent: again * AGAIN_MESSAGE + firsts / DAYS * FIRST_MESSAGE,
            learning: PROGRAMS_OF_HOST * LEARNING_BYTES,
            told: PROGRAMS_OF_HOST * heard * HINTS,
            load: of_races / TAKEN + functions / FUNCTIONS_TAKEN,
            sightings,
            sums,
            reports,
            bytes: sightings * SIGHTING + whole * REPORT + (reports - whole) * NAME + learned,
            roll_up: hosts * 24.0 * ROWS_AN_HOUR / ROLLED_UP,
        }
    }

    fn cost(&self) -> f64 {
        let processors = self.load.max(0.1);
        self.bytes / 1e9 * GB + processors * PROCESSOR
    }
}

/// A figure with two digits that count.
fn figure(value: f64) -> String {
    if value >= 1e9 {
        format!("{} billion", figure(value / 1e9))
    } else if value >= 1e6 {
        format!("{} million", figure(value / 1e6))
    } else if value >= 100.0 {
        let step = 10f64.powf(value.log10().floor() - 1.0);
        let rounded = format!("{:.0}", (value / step).round() * step);
        match rounded.len() {
            4.. => format!(
                "{},{}",
                &rounded[..rounded.len() - 3],
                &rounded[rounded.len() - 3..]
            ),
            _ => rounded,
        }
    } else if value >= 10.0 {
        format!("{value:.0}")
    } else if value >= 1.0 {
        format!("{value:.1}")
    } else if value >= 0.01 {
        format!("{value:.2}")
    } else {
        "under 0.01".to_owned()
    }
}

fn size(bytes: f64) -> String {
    if bytes >= 1e12 {
        format!("{} TB", figure(bytes / 1e12))
    } else if bytes >= 1e9 {
        format!("{} GB", figure(bytes / 1e9))
    } else if bytes >= 1e6 {
        format!("{} MB", figure(bytes / 1e6))
    } else {
        format!("{} KB", figure(bytes / 1e3))
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        ..1.0 => "under a second".to_owned(),
        ..120.0 => format!("{} s", figure(seconds)),
        ..7200.0 => format!("{} min", figure(seconds / 60.0)),
        _ => format!("{} h", figure(seconds / 3600.0)),
    }
}

fn table() -> String {
    let needs: Vec<_> = FLEETS
        .into_iter()
        .zip(PROGRAMS)
        .map(|(hosts, programs)| Needs::of(hosts, programs))
        .collect();
    let mut table = "| hosts |".to_owned();
    for hosts in FLEETS {
        table += &format!(" {} |", figure(hosts));
    }
    table += "\n| --- | ---: | ---: | ---: |\n";
    type Cell = fn(&Needs) -> String;
    let rows: [(&str, Cell); 12] = [
        ("what a host sends a day of races", |it| size(it.sent)),
        ("and of what it has learned", |it| size(it.learning)),
        ("what it is told a day", |it| size(it.told)),
        ("messages a second", |it| figure(it.messages)),
        ("that, by what one collector was seen to take", |it| {
            figure(it.load)
        }),
        ("rows of sightings", |it| figure(it.sightings)),
        ("their bytes", |it| size(it.sightings * SIGHTING)),
        ("rows of sums that each further year leaves", |it| {
            figure(it.sums)
        }),
        ("reports, most of them by name alone", |it| {
            figure(it.reports)
        }),
        ("bytes in all", |it| size(it.bytes)),
        ("rolling up a day", |it| time(it.roll_up)),
        ("cost a month, USD", |it| figure(it.cost())),
    ];
    for (name, cell) in rows {
        table += &format!("| {name} |");
        for needs in &needs {
            table += &format!(" {} |", cell(needs));
        }
        table += "\n";
    }
    table
}

/// Check that the table in the documentation is what follows from these figures (`UPDATE_DOCS=1` writes it).
#[test]
fn the_table_follows_from_what_was_measured() {
    let page: PathBuf = paths::root().join("docs/fleet.md");
    let text = fs::read_to_string(&page).expect("a page");
    let (before, rest) = text.split_once(MARK).expect("a mark before the table");
    let (found, after) = rest.split_once("\n\n").expect("an end of the table");
    let table = table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let text = format!("{before}{MARK}{table}\n{after}");
        fs::write(&page, text).expect("it can be written");
    } else {
        assert_eq!(
            found.trim_end(),
            table.trim_end(),
            "UPDATE_DOCS=1 cargo test -p xtask scale"
        );
    }
}

/// Check how figures are told.
#[test]
fn figures() {
    for (value, told) in [
        (0.0006, "under 0.01"),
        (0.083, "0.08"),
        (8.34, "8.3"),
        (83.4, "83"),
        (834.0, "830"),
        (83_412.0, "83,000"),
        (130e6, "130 million"),
        (1.24e9, "1.2 billion"),
    ] {
        assert_eq!(figure(value), told, "{value}");
    }
    assert_eq!(size(2.5e12), "2.5 TB");
    assert_eq!(time(900.0), "15 min");
}
