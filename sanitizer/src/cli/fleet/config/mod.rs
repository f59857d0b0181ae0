//! `fleet.toml`: how the processes of a machine are watched, and which.
//!
//! The file tells processes with rights what to do, so it is taken from those alone who could do that anyway ([`Writers`](crate::kernel::named)).
//! All that is wrong is told at once, each with its line.

mod agent;
mod learn;
mod places;
mod table;
#[cfg(test)]
mod tests;

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use nix::unistd::User;
use toml::de::DeTable;

use crate::{
    cli::{
        percent::{parse_percent, parse_percent_within, percent},
        size::{parse_size, size},
    },
    fleet::{
        pressure::Pressure,
        rule::{COMM, Pattern, Rule, Rules},
        settings::{Budget, LEASE_SHARE, LEASES, MEMORY, PRESSURE, SHARE, SPOOL, Settings},
    },
    kernel::{named::Named, rights::as_caller},
};
pub use agent::{Agent, Otlp};
pub use learn::{Learn, show};
pub use places::Places;
use table::{Problems, Table};

/// Where it is looked for, unless another one is named.
pub const USUAL_PLACE: &str = "/etc/gwp-race/fleet.toml";
/// The longest file, bytes.
const LONGEST: u64 = 1 << 20;
/// The most rules.
const MOST_RULES: usize = 1000;
/// Breakpoints are given up where another tool takes some; or they are not.
const TO_YIELD: &str = "yield";
/// See [`TO_YIELD`].
const TO_SHARE: &str = "share";

/// What a file says.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// All but the rules.
    pub settings: Settings,
    /// Which processes are watched.
    pub rules: Rules,
    /// Where races go, and where the daemon is found.
    pub places: Places,
    /// What becomes of what is learned.
    pub learn: Learn,
    /// What is sent, and where to.
    pub agent: Agent,
    /// From where it is; nothing where all is as it is without a file.
    pub path: Option<PathBuf>,
}

impl Config {
    /// Reads the file that was named, or the one at the usual place; where none was named and there is none, all is as usual.
    ///
    /// # Errors
    /// It cannot be read, others may write it, or something in it is wrong.
    pub fn read(named: Option<&Path>) -> anyhow::Result<Self> {
        let path = named.unwrap_or(Path::new(USUAL_PLACE));
        match as_caller(|| Self::read_from(path))? {
            Err(error) if named.is_none() && is_absent(&error) => Ok(Self::default()),
            done => done,
        }
    }

    fn read_from(path: &Path) -> anyhow::Result<Self> {
        let failed = |error: std::io::Error| {
            let what = format!(
                "cannot read {}; name a configuration with --config",
                path.display()
            );
            anyhow::Error::new(error).context(what)
        };
        let file = Named::find(path).map_err(failed)?;
        file.check_writers(path)?;
        let text = file.read_text(LONGEST).map_err(failed)?;
        let config = Self::parse(&text, path).map_err(anyhow::Error::msg)?;
        Ok(config)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// All that is wrong in it, a line each.
    pub fn parse(text: &str, path: &Path) -> Result<Self, String> {
        let problems = Problems::of(path, text);
        let parsed = DeTable::parse(text);
        let mut config = Self::default();
        match &parsed {
            Ok(table) => {
                let mut table = Table::of_file(table, &problems);
                config.settings = settings(&mut table);
                config.places = Places::read(&mut table);
                config.learn = Learn::read(&mut table, &config.places.store);
                config.agent = Agent::read(&mut table);
                let rules = table.tables("rule", MOST_RULES);
                config.rules = Rules(rules.into_iter().filter_map(rule).collect());
                table.end();
            }
            Err(error) => {
                let place = error.span().unwrap_or_default();
                problems.add(&place, format!("this is no TOML: {}", error.message()));
            }
        }
        problems.none()?;
        config.path = Some(path.to_owned());
        Ok(config)
    }

    /// The socket of the agent that is to be told what is learned, and to tell what other machines have learned; none where that stays here.
    #[must_use]
    pub fn shares_by(&self) -> Option<&Path> {
        let shares = self.learn.share && self.learn.ledger.is_some();
        let has_collector = self.agent.collector.is_some();
        self.places
            .agent
            .as_deref()
            .filter(|_| shares && has_collector)
    }
}

fn is_absent(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Reads all but the rules; what is not said or wrong is as it is without a file.
fn settings(file: &mut Table<'_, '_>) -> Settings {
    let usual = Settings::default();
    let mut all = usual;
    if let Some(mut table) = file.table("budget") {
        let mut share = |key, bounds: &RangeInclusive<f64>, usual| {
            let read = |text: &str| parse_percent_within(text, bounds);
            table.text(key, read).unwrap_or(usual)
        };
        all.budget = Budget {
            host: share("host", &SHARE, usual.budget.host),
            process: share("process", &SHARE, usual.budget.process),
            lease: share("lease", &LEASE_SHARE, usual.budget.lease),
        };
        if all.budget.lease < all.budget.process {
            table.is_wrong(format!(
                "lease ({}) is below process ({}), so that no lease would spend what a process earns: raise lease",
                percent(all.budget.lease),
                percent(all.budget.process)
            ));
        }
        table.end();
    }
    if let Some(mut table) = file.table("limits") {
        let leases = table.number("leases", |number| {
            let number = within(number, &LEASES, ToString::to_string)?;
            usize::try_from(number).map_err(|error| error.to_string())
        });
        all.leases = leases.unwrap_or(usual.leases);
        let mut bytes = |key, bounds: &RangeInclusive<u64>, usual| {
            let read = |text: &str| within(parse_size(text)?, bounds, |bytes| size(*bytes));
            table.text(key, read).unwrap_or(usual)
        };
        all.memory = bytes("memory", &MEMORY, usual.memory);
        all.spool = bytes("spool", &SPOOL, usual.spool);
        let mut pressure = |key, usual| {
            let read = |text: &str| parse_percent_within(text, &PRESSURE);
            table.text(key, read).map_or(usual, |share| 100.0 * share)
        };
        all.pressure = Pressure {
            cpu: pressure("cpu_pressure", usual.pressure.cpu),
            memory: pressure("memory_pressure", usual.pressure.memory),
        };
        let yields = table.text("breakpoints", yields_breakpoints);
        all.yields_breakpoints = yields.unwrap_or(usual.yields_breakpoints);
        table.end();
    }
    if let Some(mut table) = file.table("evidence") {
        all.values = table.truth("values").unwrap_or(usual.values);
        table.end();
    }
    all.rollout = file.text("rollout", parse_percent).unwrap_or(usual.rollout);
    all
}

/// What is done where another tool takes breakpoints: whether all are given up.
fn yields_breakpoints(text: &str) -> Result<bool, String> {
    match text {
        TO_YIELD => Ok(true),
        TO_SHARE => Ok(false),
        _ => Err(format!("write {TO_YIELD:?} or {TO_SHARE:?}")),
    }
}

fn rule(mut table: Table<'_, '_>) -> Option<Rule> {
    let watch = table.truth("watch");
    let rule = Rule {
        watch: watch.unwrap_or_default(),
        exe: table.text("exe", Pattern::of_path),
        user: table.text("user", user),
        cgroup: table.text("cgroup", Pattern::of_group),
        comm: table.text("comm", comm),
        line: table.line(),
    };
    if watch.is_none() {
        table.is_wrong("a rule says watch = true or watch = false: add it");
    }
    table.end();
    watch.map(|_| rule)
}

/// A user, by name or number.
fn user(text: &str) -> Result<u32, String> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let found = User::from_name(text).map_err(|error| error.to_string())?;
    found.map(|user| user.uid.as_raw()).ok_or_else(|| {
        format!("there is no user {text:?} on this machine: `getent passwd` lists them")
    })
}

fn comm(text: &str) -> Result<String, String> {
    if text.len() > COMM {
        let kept: String = text.chars().take(COMM).collect();
        return Err(format!(
            "the kernel keeps {COMM} bytes of a name: write {kept:?}, or a pattern of exe"
        ));
    }
    Ok(text.to_owned())
}

fn within<T: PartialOrd>(
    value: T,
    bounds: &RangeInclusive<T>,
    show: impl Fn(&T) -> String,
) -> Result<T, String> {
    if bounds.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (show(bounds.start()), show(bounds.end()));
    Err(format!("{} is not from {least} to {most}", show(&value)))
}
