//! What a user may do with a gwp-race whose file lends him capabilities: nothing that he may not do without, unless the administrator has named him.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use gwp_race_tests::{
    Configuration, Program, Report, binary,
    chaos::{
        self,
        target::{Target, waited},
    },
    children::{Guarded, named, status_field},
    compile, executable,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

/// A user, and a group to which he may belong.
const USER: u32 = 12345;
const GROUP: u32 = 23456;
/// All that the documentation has the administrator give the file.
const CAPABILITIES: &str = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_kill,cap_checkpoint_restore+ep";
/// How often a race may be missed.
const TRIES: u32 = 5;
const AGGRESSIVE: [&str; 4] = ["--sample-period", "1ms", "--max-overhead", "100%"];

/// Who may execute the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Everybody,
    Group,
}

/// A gwp-race with capabilities, and programs for it.
struct Place(TempDir);

impl Place {
    fn new(whom: For) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Self(directory);
        place.open(place.0.path(), 0o777);
        let gwp_race = place.path("gwp-race");
        executable::copy(binary::gwp_race(), &gwp_race);
        let mode = if whom == For::Group {
            chown(&gwp_race, Some(0), Some(GROUP)).unwrap();
            0o750
        } else {
            0o755
        };
        place.open(&gwp_race, mode);
        let mut setcap = Command::new("setcap");
        let status = setcap.arg(CAPABILITIES).arg(&gwp_race).status();
        assert!(status.unwrap().success());
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A program with races that the user can start.
    fn racy(&self) -> PathBuf {
        let program = Program::new("races/many_threads.c");
        let program = compile::program(&program, Configuration::USUAL).unwrap();
        let racy = self.path("racy");
        executable::copy(program, &racy);
        self.open(&racy, 0o755);
        racy
    }

    /// A program that tells whose rights it has: root's, if it gets what its file gives.
    fn set_user_id(&self) -> PathBuf {
        let id = self.path("id");
        executable::copy("/usr/bin/id", &id);
        self.open(&id, 0o4755);
        id
    }

    /// gwp-race as the user, in the group or in none.
    fn command(&self, groups: Option<u32>, arguments: &[&str]) -> Command {
        let mut command = user(groups);
        command.arg(self.path("gwp-race")).args(arguments);
        command
    }

    fn gwp_race(&self, groups: Option<u32>, arguments: &[&str]) -> Output {
        self.command(groups, arguments).output().unwrap()
    }
}

/// A command of the user's.
fn user(groups: Option<u32>) -> Command {
    let id = USER.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--inh-caps=-all"]);
    match groups {
        Some(group) => command.args(["--groups", &group.to_string()]),
        None => command.arg("--clear-groups"),
    };
    // What setpriv executes it may execute with the capabilities that it has had; what that executes, with those of the user alone.
    command.arg("env").stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn root_process() -> Target {
    Target::start(&chaos::target::program().unwrap(), 2).unwrap()
}

/// Check that where everybody may execute the file, a process of root can neither be watched nor looked into by a user, and is told so with what
/// would let him; that nothing of it is shown by files that he names; and that it is left as it was.
#[test]
fn nobody_reaches_what_is_not_his() {
    let place = Place::new(For::Everybody);
    let mut target = root_process();
    let pid = target.process.pid();
    let id = pid.to_string();
    let report = place.path("foreign");
    let attach = [
        &["attach", "--duration", "2s", "-o", report.to_str().unwrap()][..],
        &AGGRESSIVE[..],
        &[&id],
    ];
    let output = place.gwp_race(None, &attach.concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    for words in [
        "not allowed",
        "everybody may execute",
        "chmod 750",
        "setcap",
    ] {
        assert!(said(&output).contains(words), "{words}: {}", said(&output));
    }
    assert_eq!(fs::read_to_string(&report).unwrap_or_default(), "");
    for command in ["inspect", "doctor"] {
        let output = place.gwp_race(None, &[command, &id]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!text.contains("counters"), "{command}: {text}");
    }
    assert_eq!(target.board.examine(pid).unwrap(), None);
    target.end().unwrap();
}

/// Check that a capability which an administrator has put into the user's own inheritable set is his, also where everybody may execute the file.
#[test]
fn what_is_his_is_kept() {
    let place = Place::new(For::Everybody);
    let mut target = root_process();
    let pid = target.process.pid();
    let mut attach = Command::new("setpriv");
    attach.args(["--reuid", &USER.to_string(), "--regid", &USER.to_string()]);
    attach.args(["--clear-groups", "--inh-caps=-all,+sys_ptrace", "env"]);
    attach.arg(place.path("gwp-race"));
    attach.args(["attach", "--duration", "1s", &pid.to_string()]);
    let output = attach.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(target.board.examine(pid).unwrap(), None);
    target.end().unwrap();
}

/// Check that such a file lends what one's own processes need: with its gates, under `run` and after `attach`; and that a program which its file makes
/// root is not made so under it, of which is told.
#[test]
fn everybody_watches_his_own() {
    let place = Place::new(For::Everybody);
    let racy = place.racy();
    let racy = racy.to_str().unwrap();
    let report = place.path("report");
    let found = |arguments: &[&str]| {
        (1..=TRIES).any(|attempt| {
            let _ = fs::remove_file(&report);
            let output = place.gwp_race(None, arguments);
            assert!(output.status.success(), "{}", said(&output));
            assert!(!said(&output).contains("eBPF"), "{}", said(&output));
            let text = fs::read_to_string(&report).unwrap();
            let races = Report::read(&text).unwrap().races.len();
            println!("{}, try {attempt}: {races} races", arguments[0]);
            // Other processes are not trapped, however many threads there are, and nothing is told of them.
            assert!(
                said(&output).contains("\"other-process\": 0"),
                "{}",
                said(&output)
            );
            assert!(
                !said(&output).contains("watched by processor"),
                "{}",
                said(&output)
            );
            races > 0
        })
    };
    let options = [
        &["-vv", "--format", "json", "-o", report.to_str().unwrap()][..],
        &AGGRESSIVE[..],
    ]
    .concat();
    let run = [&["run"][..], &options, &["--", racy, "3", "8"]].concat();
    assert!(found(&run), "run: not caught in {TRIES} tries");
    let mut own = user(None);
    own.args([racy, "300", "8"]).stdout(Stdio::null());
    let own = Guarded::new(own.spawn().unwrap());
    let id = own.pid().to_string();
    assert!(waited(|| Ok(status_field(own.pid(), "Threads").as_deref() == Some("9"))).unwrap());
    let attach = [&["attach", "--duration", "10s"][..], &options, &[&id]].concat();
    assert!(found(&attach), "attach: not caught in {TRIES} tries");

    let id = place.set_user_id();
    let output = place.gwp_race(None, &["run", "--", id.to_str().unwrap(), "-u"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("is set-user-id"),
        "{}",
        said(&output)
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.trim(), USER.to_string());
}

/// Check that a process of the user's which executes a set-user-id program after it was seized does not become another user's in his hands, as it would
/// alone.
#[test]
fn rights_that_come_later_are_withheld() {
    let place = Place::new(For::Everybody);
    let script = format!("read go; exec {} -u", place.set_user_id().display());
    let start = || {
        let mut shell = user(None);
        shell.args(["sh", "-c", &script]);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        Guarded::new(shell.spawn().unwrap())
    };
    let printed = |mut shell: Guarded| {
        let shell = shell.child();
        shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut text = String::new();
        let mut stdout = shell.stdout.take().unwrap();
        stdout.read_to_string(&mut text).unwrap();
        text
    };
    assert_eq!(printed(start()), "0\n");
    let shell = start();
    let pid = shell.pid();
    let name = || status_field(pid, "Name");
    assert!(waited(|| Ok(name().as_deref() == Some("sh"))).unwrap());
    let mut attach = place.command(None, &["attach", &pid.to_string()]);
    attach.stderr(Stdio::null());
    let mut attach = Guarded::new(attach.spawn().unwrap());
    let traced = || Ok(status_field(pid, "TracerPid").as_deref() != Some("0"));
    assert!(waited(traced).unwrap(), "it is not seized");
    assert_eq!(printed(shell), format!("{USER}\n"));
    attach.wait(Duration::from_secs(60)).unwrap();
}

/// Check that whom the administrator names, by the group that may execute the file, watches processes of others; that nobody else can execute
/// it; and that files which he names are opened with his own rights all the same.
#[test]
fn whom_the_administrator_names() {
    let place = Place::new(For::Group);
    let mut target = root_process();
    let pid = target.process.pid();
    let id = pid.to_string();
    let report = place.path("report");
    let attach = [
        &["attach", "--duration", "2s", "--format", "json"][..],
        &["-o", report.to_str().unwrap()],
        &AGGRESSIVE[..],
        &[&id],
    ]
    .concat();
    let refused = place.command(None, &attach).output().unwrap();
    assert!(
        said(&refused).contains("Permission denied"),
        "{}",
        said(&refused)
    );
    assert!(!report.exists());
    let output = place.gwp_race(Some(GROUP), &attach);
    assert!(output.status.success(), "{}", said(&output));
    let text = fs::read_to_string(&report).unwrap();
    assert!(
        Report::read(&text).unwrap().number("watched_s") > 0.0,
        "{text}"
    );
    assert_eq!(target.board.examine(pid).unwrap(), None);

    let id = place.set_user_id();
    let output = place.gwp_race(Some(GROUP), &["run", "--", id.to_str().unwrap(), "-u"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0");

    let maps = format!("/proc/{pid}/maps");
    for option in [
        &["--suppressions"][..],
        &["-o"],
        &["--coverage"],
        &["--strategy", "planner", "--decision-log"],
    ] {
        let run = [&["run"], option, &[&maps, "--", "true"]].concat();
        let output = place.gwp_race(Some(GROUP), &run);
        assert_eq!(
            output.status.code(),
            Some(125),
            "{option:?}: {}",
            said(&output)
        );
        assert!(
            said(&output).contains("Permission denied"),
            "{}",
            said(&output)
        );
    }
    let environment = format!("/proc/{pid}/environ");
    let output = place.gwp_race(
        Some(GROUP),
        &["inspect", "--pc-sections", &environment, "/bin/true"],
    );
    assert!(
        said(&output).contains("Permission denied"),
        "{}",
        said(&output)
    );
    target.end().unwrap();
}

/// Check that who has stopped the processes of gwp-race, as a user may whose they are, does not keep a thread standing: the kernel ends the
/// tracer. And that nobody of this user can look into them.
#[test]
fn stopped_helpers_hold_nobody() {
    let place = Place::new(For::Group);
    let mut target = root_process();
    let pid = target.process.pid();
    let id = pid.to_string();
    let attach = [&["attach", "--duration", "60s"][..], &AGGRESSIVE, &[&id]].concat();
    let mut command = place.command(Some(GROUP), &attach);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let daemon = Guarded::new(command.spawn().unwrap());
    // On a busy machine the watchdog may have let the process go for a while.
    let (guard, tracer) = (0..TRIES)
        .find_map(|_| {
            let traced = || Ok(status_field(pid, "TracerPid").as_deref() != Some("0"));
            assert!(waited(traced).unwrap(), "it does not begin");
            // Until threads are stopped as well.
            std::thread::sleep(Duration::from_secs(1));
            let helper = |name: &str| -> Option<Pid> { named(daemon.pid(), name) };
            Some((helper("gwp-race-guard")?, helper("gwp-race-tracer")?))
        })
        .unwrap();
    for process in [daemon.pid(), guard, tracer] {
        let owner = fs::metadata(format!("/proc/{process}/environ"))
            .unwrap()
            .uid();
        assert_eq!(owner, 0, "{process} can be looked into");
        let mut look = user(Some(GROUP));
        let look = look.arg("cat").arg(format!("/proc/{process}/maps"));
        assert!(!look.output().unwrap().status.success());
    }
    let start = Instant::now();
    for process in [daemon.pid(), guard, tracer] {
        let mut stop = user(Some(GROUP));
        let status = stop.args(["kill", "-STOP", &process.to_string()]).status();
        println!("{process} stopped: {}", status.unwrap());
    }
    let state = |process| status_field(process, "State").unwrap_or_default();
    assert!(state(guard).starts_with('T'), "{}", state(guard));
    assert_eq!(target.board.examine(pid).unwrap(), None);
    println!("released after {:.1} s", start.elapsed().as_secs_f64());
    assert!(state(guard).starts_with('T'), "somebody else has done it");
    kill(daemon.pid(), Signal::SIGKILL).unwrap();
    target.end().unwrap();
}

/// Check that gwp-race begins with nobody's rights but those of its user's own capabilities: not as a program that is another user by its file.
#[test]
fn set_user_id_is_refused() {
    let place = Place::new(For::Everybody);
    place.open(&place.path("gwp-race"), 0o4755);
    let output = place.gwp_race(None, &["run", "--", "true"]);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(said(&output).contains("chmod ug-s"), "{}", said(&output));
}
