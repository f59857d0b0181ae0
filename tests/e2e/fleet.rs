//! The daemon of one machine: which processes it watches, what becomes of their races, how it is asked and paused, and what is left of it when it dies.

mod agent;
mod breaker;
mod commands;
mod hangs;
mod learning;
mod otlp;
mod pressure;
mod readers;
mod yields;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use agent::Collector;
use gwp_race_tests::{
    Configuration, Program,
    binary::gwp_race,
    chaos::{
        self, Blow,
        random::Random,
        target::{self, Target, waited_for},
    },
    children::{Guarded, named, status_field, threads},
    compile, executable,
    machine::Machine,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use otlp::OpenTelemetry;
use serde_json::Value;

/// Whatever is waited for takes seconds; what it takes does not count.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(200);
/// How long programs run if nobody ends them, seconds.
const LONG: &str = "900";
/// Threads of a program that is watched by thread.
const FEW: &str = "2";
/// Leases in which a race of two busy threads is caught.
const ENOUGH: u64 = 40;
/// The daemon's own failure.
const FAILED: i32 = 1;

/// A folder with a configuration, by which the programs in it are watched, and nothing else on this machine.
struct Scratch(tempfile::TempDir);

impl Scratch {
    /// Breakpoints are shared: other tests of this machine take some all the time.
    fn new() -> Self {
        Self::with("share")
    }

    /// The same where this is done with breakpoints.
    fn with(breakpoints: &str) -> Self {
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
            breakpoints = "{breakpoints}"
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
        executable::copy(program, &path);
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
        self.start(self.fleet(&[]), log)
    }

    /// The same by a command that becomes one.
    fn start(&self, mut command: Command, log: &str) -> Guarded {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path(log))
            .unwrap();
        command.stdout(Stdio::null()).stderr(log);
        let mut daemon = Guarded::new(command.spawn().unwrap());
        let answers = until(|| {
            assert!(daemon.ended().unwrap().is_none(), "the daemon has ended");
            self.ask(&["status"]).status.success()
        });
        assert!(answers);
        daemon
    }

    /// Ends a daemon, or an agent, as systemd does; its log.
    fn end(&self, daemon: &mut Guarded, log: &str) -> String {
        kill(daemon.pid(), Signal::SIGTERM).unwrap();
        let ended = daemon.wait(PATIENCE).unwrap();
        let log = self.log(log);
        assert!(ended.success(), "{ended}: {log}");
        log
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

/// The lines of a log that tell of leases of a process.
fn audited(log: &str, pid: Pid) -> impl Iterator<Item = &str> {
    let begins = format!("gwp-race: lease pid={pid} ");
    log.lines().filter(move |line| line.starts_with(&begins))
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

fn busy(program: &Path, threads: &str) -> Guarded {
    let mut command = Command::new(program);
    command.args([LONG, threads]).stdin(Stdio::null());
    Guarded::new(command.stdout(Stdio::null()).spawn().unwrap())
}

/// The time now, as stores tell it.
fn utc() -> String {
    let output = Command::new("date").args(["-u", "+%FT%T.%3NZ"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.trim_end().to_owned()
}

fn built(source: &'static str) -> PathBuf {
    compile::program(&Program::new(source), Configuration::USUAL).unwrap()
}

/// Check that of the programs of a machine those are watched that the rules name, that races are found, told, kept and counted, with an audit line for each lease, that a program without a race has none, and that whoever
/// asks is told; that nobody is watched during a pause, by command or by file, and that one who is to be let alone is; that a second daemon is refused; that the first one ends well, with nothing held; and that the next one begins with what it has learned.
#[test]
fn a_machine_is_watched() {
    let _machine = Machine::shared();
    let scratch = Scratch::new();
    let racy = scratch.place(&built("races/write_write.c"), "racy");
    let quiet = scratch.place(&built("silent/mutex.c"), "quiet");
    let elsewhere = busy(&built("races/read_write.c"), FEW);
    let collector = Collector::start();
    let otel = OpenTelemetry::start(&scratch);
    let agent = agent::start(&scratch, &collector.address, Some(&otel));
    let failed = scratch.ask(&["status"]);
    assert_eq!(failed.status.code(), Some(FAILED));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("no gwp-race fleet listens"));

    let begun = utc();
    let mut daemon = scratch.daemon("log");
    let [racy, quiet] = [&racy, &quiet].map(|program| busy(program, FEW));
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
    let found = utc();
    let [of_racy, of_quiet] = pids.map(|pid| of(&status, pid).expect("it is not known"));
    assert!(of_racy["races"].as_u64() > Some(0));
    assert_eq!(of_quiet["races"], 0);
    assert_eq!(of_racy["rule"], "rule:16");
    assert!(of(&status, elsewhere.pid()).is_none());
    assert!(status["cost_s"].as_f64() > Some(0.0));
    assert!(status["memory_bytes"].as_u64() > Some(1 << 20));
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
    // That of a command ends by `resume`, and the file's does not.
    assert!(scratch.ask(&["pause"]).status.success());
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
    let log = scratch.end(&mut daemon, "log");

    // Another one begins with what this one has learned.
    let mut daemon = scratch.daemon("again");
    let mut is_told = false;
    until(|| {
        let status = scratch.status();
        let lease = of(&status, pids[0]).map(|known| &known["lease"]["remembered"]);
        is_told = lease.and_then(Value::as_u64) > Some(0);
        let again = scratch.log("again");
        let mut leases = audited(&again, pids[0]);
        // One that was over before it could come to anything says nothing.
        let knows_nothing =
            |line: &str| line.contains(" remembered=0 ") && !line.contains(" stalls=0 ");
        is_told || leases.any(knows_nothing)
    });
    assert!(is_told, "{}", scratch.log("again"));
    scratch.end(&mut daemon, "again");

    for mut program in [racy, quiet, elsewhere] {
        assert!(program.ended().unwrap().is_none());
        assert!(is_free(program.pid()));
    }
    assert!(!scratch.path("run/fleet.sock").exists());
    let is_audited = |&pid| audited(&log, pid).next().is_some();
    assert!(pids.iter().all(is_audited), "{log}");
    assert!(!log.contains("Value of the watched"), "{log}");
    // What somebody has wanted of it stands there, too.
    for told in [
        "`gwp-race fleet pause`",
        "/pause is there",
        "watched again",
        "`gwp-race fleet ignore`",
    ] {
        assert!(log.contains(told), "{told}: {log}");
    }
    let store = format!("sqlite:{}", scratch.path("lib/races.db").display());
    let mut list = Command::new(gwp_race());
    list.args(["races", "list", "--store", &store, "--format", "json"]);
    let list = String::from_utf8(list.output().unwrap().stdout).unwrap();
    assert!(list.contains("write_write.c"), "{list}");
    // When the race was seen first, and where.
    let races = list
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let first = races.min_by_key(|race| race["first_seen"].to_string());
    let first = first.unwrap();
    let seen = first["first_seen"].as_str().unwrap();
    let is_between = *begun <= *seen && *seen <= *found;
    assert!(is_between, "{begun} {found}: {first}");
    let place = &first["seen"][0];
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(place["host"].as_str(), Some(host.trim_end()));
    // The root and sessions say nothing, and are left out.
    let is_kept = |path: &&str| *path != "/" && !path.starts_with("/user.slice/");
    let cgroup = of_racy["cgroup"].as_str().filter(is_kept);
    assert_eq!(place["cgroup"].as_str(), cgroup);
    agent::has_sent_all(&scratch, agent, &collector, &otel, &list);
    assert!(
        !list.contains("mutex.c") && !list.contains("read_write.c"),
        "{list}"
    );
}

/// Check that while all that belongs to the daemon takes more memory than it may, nobody is watched anew, that this is told, that a tracer which has had leases ends well when they are over, and that it goes on when
/// there is less.
#[test]
fn memory_is_bounded() {
    /// Becomes a daemon with a child that takes more than it may in all, as long as there is a file and the daemon lives.
    const SCRIPT: &str = r#"
        (
            until [ -e "$1" ]; do kill -0 $$ || exit; sleep 0.1; done
            dd if=/dev/zero bs=256M count=1 | while [ -e "$1" ] && kill -0 $$; do sleep 0.1; done
        ) 2> /dev/null &
        shift
        exec "$@"
    "#;
    let _machine = Machine::shared();
    let scratch = Scratch::new();
    let program = scratch.place(&built("silent/mutex.c"), "quiet");
    let mut program = busy(&program, FEW);
    let much = scratch.path("much");
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh"]).arg(&much);
    let fleet = scratch.fleet(&[]);
    command.arg(fleet.get_program()).args(fleet.get_args());
    command.stdin(Stdio::null());
    let mut daemon = scratch.start(command, "log");
    assert!(until(|| is_leased(&scratch.status())));
    let tracer = || named(daemon.pid(), "gwp-race-tracer");
    let before = tracer().expect("there is no tracer");
    fs::write(&much, "").unwrap();
    assert!(until(|| scratch.status()["held"] == "memory"));
    // Its lease is over at once so.
    assert!(scratch.ask(&["pause"]).status.success());
    assert!(until(|| tracer().is_some_and(|tracer| tracer != before)));
    assert!(scratch.ask(&["resume"]).status.success());
    let status = scratch.status();
    assert_eq!(status["held"], "memory", "{status:#}");
    assert!(!is_leased(&status), "{status:#}");
    fs::remove_file(&much).unwrap();
    assert!(until(|| is_leased(&scratch.status())));
    let log = scratch.end(&mut daemon, "log");
    assert!(
        log.contains("of memory; memory of [limits] is 150MiB"),
        "{log}"
    );
    assert!(!log.contains("the tracer has died"), "{log}");
    assert!(program.ended().unwrap().is_none() && is_free(program.pid()));
}

/// Check that processes survive the deaths of daemon, tracer and watchdog at the beginnings and ends of leases, also after they have stood for a while: nothing of them is held or armed, they make their turns, and no system call was
/// interrupted; that the daemon goes on with another tracer where that alone has died, and that what it leaves when it is killed is in nobody's way.
#[test]
fn nothing_is_held_when_they_die() {
    /// A fleet is killed once for so many kills of other kinds that `cargo xtask chaos` deals; without it, once in each way.
    const SHARE: usize = 3;
    const KILLS: usize = Blow::ALL.len();
    /// Threads of the processes: with many of them one is watched by processor.
    const THREADS: [usize; 3] = [4, 4, 12];
    /// The blow comes after the first change of who holds whom, after the second, or after up to so many; and so soon after that: it may be doubled so often.
    const CHANGES: u64 = 6;
    const SOON: Duration = Duration::from_micros(50);
    const DOUBLINGS: u64 = 8;
    let _machine = Machine::shared();
    let scratch = Scratch::new();
    let program = scratch.place(&target::program().unwrap(), "counters");
    let mut targets = THREADS.map(|threads| Target::start(&program, threads).unwrap());
    let mut random = Random::new(chaos::number("GWP_RACE_SEED").unwrap_or(1));
    let kills = chaos::number("GWP_RACE_KILLS").map_or(KILLS, |kills: usize| kills / SHARE);

    let mut daemon = scratch.daemon("log");
    let is_leased = || until(|| is_leased(&scratch.status()));
    assert!(is_leased());
    let tracer = named(daemon.pid(), "gwp-race-tracer").expect("there is no tracer");
    kill(tracer, Signal::SIGKILL).unwrap();
    assert!(until(|| scratch.log("log").contains("the tracer has died")));
    assert!(is_leased(), "{}", scratch.log("log"));
    for (number, blow) in Blow::ALL.into_iter().cycle().take(kills).enumerate() {
        let pids = targets.each_ref().map(|target| target.process.pid());
        let holders = || pids.map(|pid| status_field(pid, "TracerPid"));
        let more = match number % 4 {
            0 => random.number() % CHANGES,
            2 => 1,
            _ => 0,
        };
        for _ in 0..=more {
            let before = holders();
            let has_changed = waited_for(PATIENCE, SOON, || Ok(holders() != before)).unwrap();
            assert!(has_changed, "{}", scratch.log("log"));
        }
        std::thread::sleep(random.spread(SOON, DOUBLINGS));
        blow.deal(daemon.pid(), None, &mut random).unwrap();
        daemon.wait(PATIENCE).unwrap();
        for target in &mut targets {
            let pid = target.process.pid();
            assert_eq!(target.process.ended().unwrap(), None);
            let wrong = target.board.examine(pid).unwrap();
            assert_eq!(wrong, None, "after kill {number}: {}", blow.name());
        }
        daemon = scratch.daemon("log");
    }
    scratch.end(&mut daemon, "log");
    for mut target in targets {
        let wrong = target.board.examine(target.process.pid()).unwrap();
        assert_eq!(wrong, None, "at the end");
        target.end().unwrap();
    }
}
