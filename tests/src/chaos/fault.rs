//! Sessions in which a system call fails, or the target is killed before one.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::unistd::Pid;

use super::{
    Way,
    target::{Board, Target, program, waited},
};
use crate::{
    Watch,
    binary::gwp_race_faulty,
    children::{Guarded, descendants, executes, status_field},
};

/// Threads of a target that is watched thread by thread.
const FEW: usize = 4;
/// Threads of one that is watched by processor, where there are few of those.
const MANY: usize = 12;
/// A target is watched until its race is caught, or for this long where what fails prevents that.
const AT_MOST: &str = "3s";
/// The same where nothing fails, or it is mended.
const SURELY: &str = "15s";
/// What is let alone is watched again before this.
const LET_ALONE: Duration = Duration::from_millis(700);
/// How long a gwp-race may take to end.
const ENDING: Duration = Duration::from_secs(30);
/// A record of the file of counts: a name, and in its last bytes a number.
const RECORD: usize = 64;
const NAME: usize = 56;

/// What happens instead of a call, or before it.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// It fails with this error.
    Fail(i32),
    /// The target is killed.
    KillTarget,
    /// The process of gwp-race that is about to make the call is killed.
    KillCaller,
}

/// Which calls, and what happens to them.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind of call, as the file of counts names it.
    pub call: String,
    /// The first one that is concerned, from 1 on.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// What happens.
    pub action: Action,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, first, .. } = self;
        match self.last {
            last if last == *first => write!(f, "{call} {first}")?,
            _ => write!(f, "{call} {first} and all later ones")?,
        }
        match self.action {
            Action::Fail(errno) => write!(f, ", error {errno}"),
            Action::KillTarget => write!(f, ", target killed"),
            Action::KillCaller => write!(f, ", caller killed"),
        }
    }
}

/// What came of a session.
#[derive(Debug)]
pub struct Session {
    /// Calls made, by kind.
    pub counts: BTreeMap<String, u64>,
    /// gwp-race's exit code, if it has one.
    pub code: Option<i32>,
    /// What it wrote to standard error.
    pub said: String,
    /// Whether the target was started.
    pub started: bool,
    /// What is wrong with the target.
    pub harm: Option<String>,
}

impl Session {
    /// Whether the fault has happened.
    #[must_use]
    pub fn has_met(&self, fault: &Fault) -> bool {
        self.counts.get(&fault.call) >= Some(&fault.first)
    }
}

/// Watches a target for a short time, in which this happens.
///
/// # Errors
/// Fails where gwp-race cannot be started, or does not end.
pub fn session(way: Way, fault: Option<&Fault>) -> Result<Session> {
    match way {
        Way::Attach => attached(fault),
        Way::Run | Way::RunHandled | Way::RunWithoutRights => started(way, fault),
    }
}

fn watch(counts: &Path, fault: Option<&Fault>, target: Option<Pid>) -> Watch {
    let is_mended = fault.is_none_or(|fault| matches!(fault.action, Action::KillCaller));
    let mut watch = Watch::aggressive()
        .option(&["--max-races", "1", "--duration"])
        .option(&[if is_mended { SURELY } else { AT_MOST }])
        .env("GWP_RACE_FAULT_COUNTS", counts);
    if let Some(Fault {
        call,
        first,
        last,
        action,
    }) = fault
    {
        let action = match action {
            Action::Fail(errno) => format!("errno:{errno}"),
            Action::KillTarget => format!("kill:{}", target.unwrap_or(Pid::from_raw(0))),
            Action::KillCaller => "kill:caller".to_owned(),
        };
        let plan = OsString::from(format!("{call} {first} {last} {action}"));
        watch = watch.env("GWP_RACE_FAULT", plan);
    }
    watch
}

/// Starts gwp-race with its standard error in a file.
fn start(mut command: Command, stderr: &Path) -> Result<Guarded> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(fs::File::create(stderr)?);
    Ok(Guarded::new(command.spawn().context("starting gwp-race")?))
}

fn attached(fault: Option<&Fault>) -> Result<Session> {
    let mut target = Target::start(&program()?, MANY)?;
    let pid = target.process.pid();
    let [counts, report, stderr] = files(&target.board);
    let command = watch(&counts, fault, Some(pid))
        .binary(gwp_race_faulty())
        .attach_command(pid, &report);
    let status = start(command, &stderr)?.wait(ENDING)?;
    let mut session = Session {
        counts: read_counts(&counts)?,
        code: status.code(),
        said: fs::read_to_string(&stderr)?,
        started: true,
        harm: None,
    };
    let killed = fault
        .is_some_and(|fault| matches!(fault.action, Action::KillTarget) && session.has_met(fault));
    if killed {
        target.process.wait(ENDING)?;
        return Ok(session);
    }
    session.harm = match target.process.ended()? {
        Some(status) => Some(format!("it has ended with {status}")),
        None => target.board.examine(pid)?,
    };
    if session.harm.is_none() {
        target.end()?;
    }
    Ok(session)
}

fn started(way: Way, fault: Option<&Fault>) -> Result<Session> {
    let program = program()?;
    let mut board = Board::new(FEW)?;
    let [counts, report, stderr] = files(&board);
    let trap = if way == Way::RunHandled {
        "reset"
    } else {
        "as-is"
    };
    let arguments = board.arguments(trap);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let command = watch(&counts, fault, None)
        .binary(gwp_race_faulty())
        .run_command(&program, &arguments, &report);
    let mut gwp_race = start(command, &stderr)?;
    let mut watched = Instant::now();
    let settled = waited(|| {
        if is_watching(gwp_race.pid()) {
            watched = Instant::now();
        }
        let over = watched.elapsed() > LET_ALONE && board.is_ready()?;
        Ok(over || gwp_race.ended()?.is_some())
    })?;
    let below = descendants(gwp_race.pid()).into_iter();
    let target = below.into_iter().find(|&pid| executes(pid, &program));
    let mut harm = None;
    match target {
        Some(pid) => {
            harm = if settled {
                board.examine(pid)?
            } else {
                Some("a tracer, or what is left of it, stays".to_owned())
            };
            board.end()?;
        }
        None if board.is_ready()? => harm = Some("it is gone".to_owned()),
        None if !settled => bail!("gwp-race neither fails nor starts its target"),
        None => {}
    }
    let code = gwp_race.wait(ENDING)?.code();
    Ok(Session {
        counts: read_counts(&counts)?,
        code,
        said: fs::read_to_string(&stderr)?,
        started: target.is_some(),
        harm,
    })
}

/// Files beside a board: counts, report, standard error.
fn files(board: &Board) -> [PathBuf; 3] {
    ["counts", "report", "stderr"].map(|name| board.beside(name))
}

fn is_watching(gwp_race: Pid) -> bool {
    descendants(gwp_race).into_iter().any(|pid| {
        let name = status_field(pid, "Name").unwrap_or_default();
        ["gwp-race-tracer", "gwp-race-guard"].contains(&name.as_str())
    })
}

fn read_counts(path: &Path) -> Result<BTreeMap<String, u64>> {
    let bytes = fs::read(path).context("the file of counts")?;
    bytes
        .chunks_exact(RECORD)
        .map(|record| {
            let (name, number) = record.split_at(NAME);
            let name = String::from_utf8_lossy(name);
            let name = name.trim_end_matches('\0').to_owned();
            Ok((name, u64::from_ne_bytes(number.try_into()?)))
        })
        .collect()
}
