//! Races that are caught, and a program without one.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use gwp_race_tests::{
    Configuration, Outcome, Program, Until, Watch, Who,
    children::{Guarded, status_field},
    compile,
    report::Race,
};

use crate::kernel::Kernel;

const RACY: Program = Program::new("races/field.c");
const MANY: Program = Program::new("races/many_threads.c");
const SILENT: Program = Program::new("silent/mutex.c");
const SURVIVING: Program = Program::new("survival/counters.c");
/// The function of [`RACY`] that races with itself.
const FUNCTION: &str = "count_miss";
/// How often a race may be missed.
const TRIES: u32 = 5;
/// How long a program runs, if it is not ended before. An emulator is slow.
const SECONDS: &str = "60";
/// How long a gwp-race may take for all.
const LIMIT: Duration = Duration::from_secs(180);
/// What is said where there are no gates.
pub const WITHOUT_GATES: &str = "in user space what its gates would do";

/// Builds what the trials watch; the files that these programs need.
pub fn files() -> Result<Vec<PathBuf>> {
    let programs = [RACY, MANY, SILENT, SILENT.broken(), SURVIVING];
    let files = programs
        .iter()
        .map(|program| compile::files(program, Configuration::USUAL));
    Ok(files.collect::<Result<Vec<_>>>()?.concat())
}

/// How gwp-race comes to its program.
#[derive(Clone, Copy)]
pub enum Way {
    Run,
    Attach,
}

/// What came of watching [`RACY`].
pub enum Came {
    /// Its race was caught, after so many tries.
    Caught(Box<Outcome>, u32),
    /// It was not watched: gwp-race's exit code, and what it said.
    Refused(Option<i32>, String),
}

impl Came {
    /// For tables.
    pub fn told(&self) -> String {
        match self {
            Self::Caught(outcome, tries) => {
                let tries = match tries {
                    1 => String::new(),
                    _ => format!(" in {tries} tries"),
                };
                let without = if outcome.stderr.contains(WITHOUT_GATES) {
                    ", without eBPF"
                } else {
                    ""
                };
                format!("caught{tries}{without}")
            }
            Self::Refused(..) => "refused".to_owned(),
        }
    }

    /// Whether it was caught with gates, or without.
    pub fn has_gates(&self) -> bool {
        matches!(self, Self::Caught(outcome, _) if !outcome.stderr.contains(WITHOUT_GATES))
    }
}

fn built(program: &Program) -> Result<PathBuf> {
    compile::program(program, Configuration::USUAL)
}

/// Somebody watches a race of his own program.
pub fn watch(who: Who, way: Way, options: &[&str]) -> Result<Came> {
    watch_program(&RACY, "2", who, way, options)
}

fn watch_program(
    program: &Program,
    threads: &str,
    who: Who,
    way: Way,
    options: &[&str],
) -> Result<Came> {
    let built = built(program)?;
    let mut silence = String::new();
    for tries in 1..=TRIES {
        let watch = Watch::aggressive().by(who).option(options).limit(LIMIT);
        let outcome = match way {
            Way::Run => watch.run(&built, &[SECONDS, threads], Until::Race)?,
            Way::Attach => attach(
                &built,
                threads,
                who,
                &watch.option(&["--duration", SECONDS]),
            )?,
        };
        if outcome.report.summary.is_none() {
            ensure!(
                outcome.stdout.is_empty(),
                "the program of a gwp-race that gave up has run: {outcome:?}"
            );
            return Ok(Came::Refused(outcome.status.code(), outcome.stderr));
        }
        if !outcome.report.races.is_empty() {
            return Ok(Came::Caught(Box::new(outcome), tries));
        }
        let field = |name| {
            outcome
                .report
                .summary
                .as_ref()?
                .get(name)
                .map(ToString::to_string)
        };
        silence = format!(
            "{} stalls, {} samples, not stalled at: {}, chosen: {}; {}",
            outcome.report.number("stalls"),
            outcome.report.number("samples"),
            field("no_stall").unwrap_or_default(),
            field("decisions").unwrap_or_default(),
            outcome.stderr
        );
    }
    bail!("not caught in {TRIES} tries; the last one: {silence}")
}

/// Attaches to a program that he has started, which must go on by itself afterwards.
fn attach(program: &PathBuf, threads: &str, who: Who, watch: &Watch) -> Result<Outcome> {
    let mut command = match who {
        Who::OrdinaryUser(_) => Who::OrdinaryUser(&[]).command(program),
        Who::Ourselves | Who::WithoutRights => Command::new(program),
    };
    command.args(["1000", threads]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut target = Guarded::new(command.spawn().context("starting the program")?);
    // Before it has become the program it is another one.
    while !gwp_race_tests::children::executes(target.pid(), program) {
        ensure!(target.ended()?.is_none(), "the program does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let outcome = watch.attach(target.pid(), Until::Race)?;
    let tracer = status_field(target.pid(), "TracerPid");
    ensure!(
        target.ended()?.is_none() && tracer.as_deref() == Some("0"),
        "the program has not been let go: tracer {tracer:?}"
    );
    Ok(outcome)
}

fn as_root(program: &Program, threads: &str, way: Way) -> Result<String> {
    let came = watch_program(program, threads, Who::Ourselves, way, &[])?;
    let text = came.told();
    match came {
        Came::Caught(outcome, _) => {
            let races = &outcome.report.races;
            ensure!(
                races.iter().all(Race::has_lines),
                "a side is missing: {races:?}"
            );
            Ok(text)
        }
        Came::Refused(_, said) => bail!("refused: {said}"),
    }
}

/// `run` as root.
pub fn run_as_root(_: &Kernel) -> Result<String> {
    let came = watch(Who::Ourselves, Way::Run, &[])?;
    match &came {
        Came::Caught(outcome, _) => {
            let races = &outcome.report.races;
            let has_both = races.iter().any(|race| {
                let mut sides = race.accesses.iter();
                sides.all(|side| side.has_function(FUNCTION))
            });
            ensure!(has_both, "another race, or a side is missing: {races:?}");
            Ok(came.told())
        }
        Came::Refused(_, said) => bail!("refused: {said}"),
    }
}

/// `attach` as root.
pub fn attach_as_root(_: &Kernel) -> Result<String> {
    as_root(&RACY, "2", Way::Attach)
}

/// `run` of many threads.
pub fn many_threads(_: &Kernel) -> Result<String> {
    as_root(&MANY, "12", Way::Run)
}

/// A program without a race is silent, although its threads are stalled, and its broken twin is not.
pub fn silent_twin(_: &Kernel) -> Result<String> {
    let broken = watch_program(&SILENT.broken(), "2", Who::Ourselves, Way::Run, &[])?;
    if let Came::Refused(_, said) = broken {
        bail!("refused: {said}");
    }
    let watch = Watch::aggressive().limit(LIMIT);
    let outcome = watch.run(&built(&SILENT)?, &[SECONDS, "2"], Until::End)?;
    let races = &outcome.report.races;
    ensure!(races.is_empty(), "false reports: {races:?}");
    let stalls = outcome.report.number("stalls");
    ensure!(stalls > 0.0, "nobody was stalled: {outcome:?}");
    ensure!(
        outcome.stdout == "done\n",
        "the program printed {:?}",
        outcome.stdout
    );
    Ok(format!(
        "silent in {stalls} stalls; its broken twin is caught"
    ))
}

/// Which signal stops threads, in `run` and in `attach`.
pub fn delivery(kernel: &Kernel) -> Result<String> {
    let mut signals = Vec::new();
    for (way, with_gates) in [
        (
            Way::Run,
            ["SIGURG", "SIGTRAP"][usize::from(kernel.suppresses_sigtrap())],
        ),
        (Way::Attach, "SIGURG"),
    ] {
        let Came::Caught(outcome, _) = watch(Who::Ourselves, way, &["-vv"])? else {
            bail!("refused");
        };
        let lines = outcome.stderr.lines();
        let mut told = lines.filter_map(|line| {
            line.split_once("threads are stopped by ")?
                .1
                .split(' ')
                .next()
        });
        let signal = told
            .next_back()
            .context("nothing is said of it")?
            .to_owned();
        let expected = if outcome.stderr.contains(WITHOUT_GATES) {
            "SIGURG"
        } else {
            with_gates
        };
        ensure!(signal == expected, "{signal} instead of {expected}");
        signals.push(signal);
    }
    Ok(format!("`run`: {}, `attach`: {}", signals[0], signals[1]))
}
