//! One kill: gwp-race is started, left to sample for a while, killed, and its target examined.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::{
        prctl,
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use super::{
    Mix, Record, Way,
    blow::is_alive,
    code,
    random::Random,
    target::{Board, Target, program, waited},
};
use crate::{
    Watch,
    children::{Guarded, descendants, executes, status_field},
    lost_traps::LostTraps,
};

/// Of so many kills one falls into the time in which gwp-race starts; the others come when it has
/// caught the target's race.
const EARLY: u64 = 8;
/// The time in which it starts.
const STARTING: Duration = Duration::from_millis(400);
/// A gwp-race that has caught nothing after this is killed all the same.
const SWING: Duration = Duration::from_secs(4);
/// Probes may take so long to stand once more; the blow comes then all the same.
const PROBING: Duration = Duration::from_secs(2);
/// Any instant of this span after it has caught the race is as good as another.
const INSTANTS: Duration = Duration::from_millis(30);
/// How long the processes of a killed gwp-race may take to end.
const ENDING: Duration = Duration::from_secs(20);
/// Marks the processes of a round, in their environment.
const MARK: &str = "GWP_RACE_ROUND";

/// The processes of one round; they end with it, orphans too.
struct Round {
    mark: String,
}

impl Round {
    fn new(board: &Board) -> Result<Self> {
        // What a killed gwp-race leaves behind becomes this process's child.
        prctl::set_child_subreaper(true)?;
        Ok(Self {
            mark: format!("{MARK}={}", board.path().display()),
        })
    }

    fn start(&self, mut command: Command) -> Result<Guarded> {
        let (name, value) = self.mark.split_once('=').unwrap_or_default();
        command.env(name, value);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.stdin(Stdio::null()).spawn();
        Ok(Guarded::new(child.context("starting gwp-race")?))
    }

    /// Its processes that live.
    fn processes(&self) -> Vec<Pid> {
        let mut processes = descendants(Pid::this());
        processes.retain(|pid| self.is_marked(&environment(*pid)));
        processes
    }

    fn is_marked(&self, environment: &[u8]) -> bool {
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == self.mark.as_bytes())
    }

    /// One of them that executes this file.
    fn executing(&self, file: &Path) -> Option<Pid> {
        let mut processes = self.processes().into_iter();
        processes.find(|&pid| executes(pid, file))
    }

    /// Whether a process is one of a gwp-race that was killed, and lives. Without an environment are those that are ending, which still hold what they trace, and readers, which have none from the beginning; of these, one whose
    /// parent lives is that of a gwp-race of another test.
    fn is_left(&self, pid: Pid) -> bool {
        let environment = environment(pid);
        is_alive(pid)
            && status_field(pid, "Name").is_some_and(|name| name.starts_with("gwp-race"))
            && (self.is_marked(&environment)
                || environment.is_empty() && (is_child(pid) || !has_memory(pid)))
    }

    /// Waits until nothing is left of a gwp-race that was killed; a launcher may still become the
    /// program.
    fn await_end(&self) -> Result<()> {
        // One look can miss a process whose parent ends that moment; a second one cannot.
        let look = || {
            let mut all = descendants(Pid::this()).into_iter();
            !all.any(|pid| self.is_left(pid))
        };
        if waited(|| Ok(look() && look()))? {
            Ok(())
        } else {
            bail!("a process of a killed gwp-race lives on")
        }
    }
}

fn environment(pid: Pid) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

/// Whether a process has memory: one that is ending has lost it, with its environment.
fn has_memory(pid: Pid) -> bool {
    fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| !maps.is_empty())
}

/// Whether a process is this one's child, as those are whose own parents have died.
fn is_child(pid: Pid) -> bool {
    status_field(pid, "PPid") == Some(Pid::this().to_string())
}

impl Drop for Round {
    fn drop(&mut self) {
        for pid in self.processes() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        // Zombies that were left to this process, and no others: those are waited for by name.
        for pid in descendants(Pid::this()) {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if name.starts_with("gwp-race-") {
                let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            }
        }
    }
}

/// Kills a gwp-race that has started its target; `has_probes`: while probes stand there, if it is sampling.
pub fn run(mix: Mix, has_probes: bool, watch: Watch, random: &mut Random) -> Result<Record> {
    let program = program()?;
    let mut board = Board::new(mix.threads)?;
    let report = board.beside("report");
    let arguments = board.arguments(match mix.way {
        Way::RunHandled => "reset",
        Way::Run | Way::RunWithoutRights | Way::Attach => "as-is",
    });
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let round = Round::new(&board)?;
    let mut lost_traps = LostTraps::of(&program)?;
    let watch = match mix.way {
        Way::RunWithoutRights => watch.without_rights(),
        Way::Run | Way::RunHandled | Way::Attach => watch,
    };
    let command = watch.run_command(&program, &arguments, &report);
    let mut gwp_race = round.start(command)?;
    let sampling = in_full_swing(&report, random);
    let target = round.executing(&program);
    let probed = target.is_some_and(|pid| is_probed(pid, sampling && has_probes));
    let stood = mix.blow.deal(gwp_race.pid(), target, random)?;
    let mut record = Record {
        sampling,
        probed,
        stood,
        ..Record::default()
    };
    gwp_race.wait(ENDING)?;
    round.await_end()?;
    let Some(pid) = round.executing(&program) else {
        // Killed before it started the program, gwp-race takes the launcher along.
        record.death = board.is_ready()?.then(|| "it is gone".to_owned());
        return judged(record, mix, &mut lost_traps);
    };
    record.harm = board.examine(pid)?;
    board.end()?;
    record.death = end_of(pid)?;
    judged(record, mix, &mut lost_traps)
}

/// Kills a gwp-race that was attached to a target, which serves for as long as it is well.
pub fn attach(
    mix: Mix,
    has_probes: bool,
    watch: &Watch,
    kept: &mut Option<Target>,
    random: &mut Random,
) -> Result<Record> {
    let usable = kept.take_if(|target| target.board.threads() == mix.threads);
    if let Some(other) = kept.take() {
        other.end()?;
    }
    let mut target = match usable {
        Some(target) => target,
        None => Target::start(&program()?, mix.threads)?,
    };
    let pid = target.process.pid();
    let round = Round::new(&target.board)?;
    let mut lost_traps = LostTraps::of(&program()?)?;
    let report = target.board.beside("report");
    // Of the last round.
    let _ = fs::remove_file(&report);
    let mut gwp_race = round.start(watch.attach_command(pid, &report))?;
    let sampling = in_full_swing(&report, random);
    let probed = is_probed(pid, sampling && has_probes);
    let stood = mix.blow.deal(gwp_race.pid(), Some(pid), random)?;
    let mut record = Record {
        sampling,
        probed,
        stood,
        ..Record::default()
    };
    gwp_race.wait(ENDING)?;
    round.await_end()?;
    if let Some(status) = target.process.ended()? {
        record.death = Some(format!("it has ended with {status}"));
        return judged(record, mix, &mut lost_traps);
    }
    record.harm = target.board.examine(pid)?;
    if record.harm.is_none() {
        *kept = Some(target);
    }
    judged(record, mix, &mut lost_traps)
}

/// Tells a target that the machine has ended from one for whose death gwp-race is to blame: a
/// delivered SIGTRAP is deadly unless it is handled.
fn judged(mut record: Record, mix: Mix, lost_traps: &mut LostTraps) -> Result<Record> {
    record.lost_traps = lost_traps.delivered()?;
    if record.lost_traps > 0 && mix.way != Way::RunHandled && record.death.take().is_some() {
        record.ended_by_machine = true;
        // Who dies while it is examined makes no turns.
        record.harm = None;
    }
    Ok(record)
}

/// Waits until gwp-race has reported something, which proves that it is sampling, and then for a
/// random time; or, once in a while, for a random time only. Whether it was proven.
fn in_full_swing(report: &Path, random: &mut Random) -> bool {
    let reported = || fs::metadata(report).is_ok_and(|file| file.len() > 0);
    if random.once_in(EARLY) {
        std::thread::sleep(random.below(STARTING));
        return reported();
    }
    let start = Instant::now();
    while !reported() && start.elapsed() < SWING {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(random.below(INSTANTS));
    reported()
}

/// Whether a probe stands in the target, where that is waited for.
fn is_probed(target: Pid, is_wanted: bool) -> bool {
    is_wanted && code::is_probed(target, PROBING)
}

/// How a target, told to end, has died; `None` when it has ended as it should.
fn end_of(target: Pid) -> Result<Option<String>> {
    let mut end = WaitStatus::StillAlive;
    let ended = waited(|| {
        end = waitpid(target, Some(WaitPidFlag::WNOHANG))?;
        Ok(end != WaitStatus::StillAlive)
    })?;
    Ok(match end {
        WaitStatus::Exited(_, 0) if ended => None,
        end => Some(format!("told to end, it has come to {end:?}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{children::named, executable};

    /// Check that processes of a round that live are left, and so is one without an environment whose parent has died; and that neither those of another round are nor one without an environment whose parent lives, as a reader of
    /// another test, nor those that have ended.
    #[test]
    fn who_is_left() {
        let board = Board::new(1).unwrap();
        let round = Round::new(&board).unwrap();
        let other = Round {
            mark: format!("{MARK}=other"),
        };
        let program = board.beside("gwp-race-waits");
        executable::copy("/bin/sleep", &program);
        let wait = || {
            let mut command = Command::new(&program);
            command.arg("60");
            command
        };
        let [mut own, foreign] = [&round, &other].map(|round| round.start(wait()).unwrap());
        // Its environment is there once it executes the program, and for a moment before that there is none.
        let executes = |of: &Round, pid| waited(|| Ok(of.is_marked(&environment(pid)))).unwrap();
        assert!(executes(&round, own.pid()) && executes(&other, foreign.pid()));
        assert!(round.is_left(own.pid()) && other.is_left(foreign.pid()));
        assert!(!round.is_left(foreign.pid()));
        let is_left = |pid| waited(|| Ok(round.is_left(pid))).unwrap();
        kill(own.pid(), Signal::SIGKILL).unwrap();
        // Not waited for, it is a zombie.
        assert!(waited(|| Ok(!is_alive(own.pid()))).unwrap());
        assert!(!round.is_left(own.pid()));
        own.wait(ENDING).unwrap();

        let reader = board.beside("gwp-race-reads");
        executable::copy("/bin/sleep", &reader);
        let mut shell = Command::new("sh");
        shell.args(["-c", "env -i \"$0\" 60 & wait"]).arg(&reader);
        let mut shell = other.start(shell).unwrap();
        let mut found = None;
        let begins = waited(|| {
            found = named(shell.pid(), "gwp-race-reads");
            Ok(found.is_some())
        });
        assert!(begins.unwrap());
        let reader = found.unwrap();
        assert!(has_memory(reader) && environment(reader).is_empty());
        assert!(!round.is_left(reader));
        kill(shell.pid(), Signal::SIGKILL).unwrap();
        shell.wait(ENDING).unwrap();
        assert!(is_left(reader));
        kill(reader, Signal::SIGKILL).unwrap();
        assert!(waited(|| Ok(!round.is_left(reader))).unwrap());
        let _ = waitpid(reader, None);
    }
}
