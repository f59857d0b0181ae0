//! The daemon of one machine: which processes it watches, what becomes of their races, how it is asked and paused, and what is left of it when it dies.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use gwp_race_tests::{
    Configuration, Program,
    binary::gwp_race,
    chaos::{
        random::Random,
        target::{self, Target, waited_for},
    },
    children::{Guarded, named, status_field, threads},
    compile,
    machine::Machine,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// Whatever is waited for takes seconds; what it takes does not count.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(200);
/// How long programs run if nobody ends them, seconds.
const LONG: &str = "900";
/// Leases in which a race of two busy threads is caught.
const ENOUGH: u64 = 40;
/// The daemon's own failure.
const FAILED: i32 = 1;

/// A folder with a configuration, by which the programs in it are watched, and nothing else on this machine.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        let text = format!(
            r#"
            [budget]
            host = "10%"
            process = "10%"
            lease = "10%"
            [limits]
            cpu_pressure = "100%"
            memory_pressure = "100%"
            [export]
            store = "sqlite:{at}/lib/races.db"
            [control]
            socket = "{at}/run/fleet.sock"
            pause = "{at}/pause"
            [[rule]]
            watch = true
            exe = "{at}/**"
            "#
        );
        let config = dir.path().join("fleet.toml");
        fs::write(config, text).unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A program in this folder.
    fn place(&self, program: &Path, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::copy(program, &path).unwrap();
        path
    }

    fn fleet(&self, words: &[&str]) -> Command {
        let mut command = Command::new(gwp_race());
        command.arg("fleet").args(words).arg("--config");
        command.arg(self.path("fleet.toml")).stdin(Stdio::null());
        command
    }

    fn ask(&self, words: &[&str]) -> Output {
        self.fleet(words).output().unwrap()
    }

    /// A daemon that answers.
    fn daemon(&self, log: &str) -> Guarded {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path(log))
            .unwrap();
        let mut command = self.fleet(&[]);
        command.stdout(Stdio::null()).stderr(log);
        let mut daemon = Guarded::new(command.spawn().unwrap());
        let answers = until(|| {
            assert!(daemon.ended().unwrap().is_none(), "the daemon has ended");
            self.ask(&["status"]).status.success()
        });
        assert!(answers);
        daemon
    }

    fn status(&self) -> Value {
        let output = self.ask(&["status", "--format", "json"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn log(&self, log: &str) -> String {
        fs::read_to_string(self.path(log)).unwrap()
    }
}

fn until(mut is_so: impl FnMut() -> bool) -> bool {
    waited_for(PATIENCE, POLL, || Ok(is_so())).unwrap()
}

/// What the daemon says of a process.
fn of(status: &Value, pid: Pid) -> Option<&Value> {
    let mut processes = status["processes"].as_array().unwrap().iter();
    processes.find(|one| one["pid"] == pid.as_raw())
}

fn is_leased(status: &Value) -> bool {
    let mut processes = status["processes"].as_array().unwrap().iter();
    processes.any(|one| !one["lease"].is_null())
}

/// Whether nobody holds a thread of a process.
fn is_free(pid: Pid) -> bool {
    threads(pid).all(|tid| {
        let of = |name| status_field(tid, name).unwrap_or_default();
        of("TracerPid") == "0" && !of("State").starts_with(['t', 'T'])
    })
}

fn busy(program: &Path) -> Guarded {
    let mut command = Command::new(program);
    command.args([LONG, "2"]).stdin(Stdio::null());
    Guarded::new(command.stdout(Stdio::null()).spawn().unwrap())
}

fn built(source: &'static str) -> PathBuf {
    compile::program(&Program::new(source), Configuration::USUAL).unwrap()
}

/// Check that of the programs of a machine those are watched that the rules name, that races are found, told, kept and counted, with an audit line for each lease, that a program without a race has none, and that whoever
/// asks is told; that nobody is watched during a pause, by command or by file, and that one who is to be let alone is; that a second daemon is refused; and that the first one ends well, with nothing held.
#[test]
fn a_machine_is_watched() {
    let _machine = Machine::shared();
    let scratch = Scratch::new();
    let racy = scratch.place(&built("races/write_write.c"), "racy");
    let quiet = scratch.place(&built("silent/mutex.c"), "quiet");
    let elsewhere = busy(&built("races/read_write.c"));
    let failed = scratch.ask(&["status"]);
    assert_eq!(failed.status.code(), Some(FAILED));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("no gwp-race fleet listens"));

    let mut daemon = scratch.daemon("log");
    let [racy, quiet] = [&racy, &quiet].map(|program| busy(program));
    let pids = [racy.pid(), quiet.pid()];
    let second = scratch.ask(&[]);
    assert_eq!(second.status.code(), Some(FAILED));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another gwp-race fleet"));

    let mut status = Value::Null;
    until(|| {
        status = scratch.status();
        let [of_racy, of_quiet] = pids.map(|pid| of(&status, pid));
        let leases = |one: Option<&Value>| one.and_then(|one| one["leases"].as_u64()).unwrap_or(0);
        let is_found = of_racy.is_some_and(|one| one["races"].as_u64() > Some(0));
        leases(of_quiet) > 0 && (is_found || leases(of_racy) >= ENOUGH)
    });
    println!("{status:#}");
    let [of_racy, of_quiet] = pids.map(|pid| of(&status, pid).expect("it is not known"));
    assert!(of_racy["races"].as_u64() > Some(0));
    assert_eq!(of_quiet["races"], 0);
    assert_eq!(of_racy["rule"], "rule:14");
    assert!(of(&status, elsewhere.pid()).is_none());
    assert!(status["cost_s"].as_f64() > Some(0.0));
    let table = String::from_utf8(scratch.ask(&["status"]).stdout).unwrap();
    assert!(
        table.contains(&format!("{}/racy", scratch.0.path().display())),
        "{table}"
    );

    // A pause by command, and one by a file.
    assert!(scratch.ask(&["pause"]).status.success());
    assert!(until(|| !is_leased(&scratch.status())));
    assert_eq!(scratch.status()["held"], "command");
    assert!(pids.iter().all(|&pid| until(|| is_free(pid))));
    assert!(scratch.ask(&["resume"]).status.success());
    assert!(until(|| is_leased(&scratch.status())));
    fs::write(scratch.path("pause"), "").unwrap();
    assert!(until(|| scratch.status()["held"] == "file"));
    assert!(until(|| !is_leased(&scratch.status())));
    assert_eq!(scratch.ask(&["resume"]).status.code(), Some(FAILED));
    fs::remove_file(scratch.path("pause")).unwrap();
    assert!(until(|| scratch.status()["held"].is_null()));

    let quiet_pid = quiet.pid().to_string();
    assert!(scratch.ask(&["ignore", &quiet_pid]).status.success());
    assert!(of(&scratch.status(), quiet.pid()).is_none());
    assert_eq!(
        scratch.ask(&["ignore", &quiet_pid]).status.code(),
        Some(FAILED)
    );
    assert!(until(|| is_free(quiet.pid())));

    // It ends while it holds somebody, if it comes to that again.
    until(|| is_leased(&scratch.status()));
    kill(daemon.pid(), Signal::SIGTERM).unwrap();
    let ended = daemon.wait(PATIENCE).unwrap();
    let log = scratch.log("log");
    assert!(ended.success(), "{ended}: {log}");
    for mut program in [racy, quiet, elsewhere] {
        assert!(program.ended().unwrap().is_none());
        assert!(is_free(program.pid()));
    }
    assert!(!scratch.path("run/fleet.sock").exists());
    let audited = |pid: Pid| {
        let begins = format!("gwp-race: lease pid={pid} ");
        log.lines().filter(|line| line.starts_with(&begins)).count()
    };
    assert!(pids.iter().all(|&pid| audited(pid) > 0), "{log}");
    assert!(!log.contains("Value of the watched"), "{log}");
    let store = format!("sqlite:{}", scratch.path("lib/races.db").display());
    let mut list = Command::new(gwp_race());
    list.args(["races", "list", "--store", &store, "--format", "json"]);
    let list = String::from_utf8(list.output().unwrap().stdout).unwrap();
    assert!(list.contains("write_write.c"), "{list}");
    assert!(
        !list.contains("mutex.c") && !list.contains("read_write.c"),
        "{list}"
    );
}

/// Check that processes survive the death of the tracer and of the daemon in the midst of leases and at their beginnings and ends: nothing of them is held or armed, and no system call was interrupted; that the daemon goes on with
/// another tracer, and that what it leaves when it is killed is in nobody's way.
#[test]
fn nothing_is_held_when_they_die() {
    /// Tracers and daemons that are killed, by turns.
    const KILLS: usize = 6;
    const TARGETS: usize = 3;
    let _machine = Machine::shared();
    let scratch = Scratch::new();
    let program = scratch.place(&target::program().unwrap(), "counters");
    let mut targets: Vec<_> = (0..TARGETS)
        .map(|_| Target::start(&program, 4).unwrap())
        .collect();
    let mut random = Random::new(1);
    let mut daemon = scratch.daemon("log");
    let mut heard = 0;
    for number in 0..KILLS {
        assert!(
            until(|| is_leased(&scratch.status())),
            "{}",
            scratch.log("log")
        );
        // Leases begin and end meanwhile.
        std::thread::sleep(random.below(Duration::from_secs(3)));
        let victim = if number % 2 == 0 {
            named(daemon.pid(), "gwp-race-tracer")
        } else {
            Some(daemon.pid())
        };
        let victim = victim.unwrap_or_else(|| daemon.pid());
        kill(victim, Signal::SIGKILL).unwrap();
        if victim == daemon.pid() {
            daemon.wait(PATIENCE).unwrap();
            for target in &mut targets {
                let wrong = target.board.examine(target.process.pid()).unwrap();
                assert_eq!(wrong, None, "after kill {number}");
            }
            daemon = scratch.daemon("log");
        } else {
            let deaths = || scratch.log("log").matches("the tracer has died").count();
            assert!(until(|| deaths() > heard));
            heard = deaths();
            assert!(daemon.ended().unwrap().is_none());
        }
    }
    kill(daemon.pid(), Signal::SIGTERM).unwrap();
    let log = scratch.log("log");
    assert!(daemon.wait(PATIENCE).unwrap().success(), "{log}");
    for mut target in targets {
        let wrong = target.board.examine(target.process.pid()).unwrap();
        assert_eq!(wrong, None, "at the end");
        target.end().unwrap();
    }
}
