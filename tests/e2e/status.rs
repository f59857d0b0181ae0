//! What can be seen and asked of a gwp-race that watches: the status line, figures on demand, and a report file that is moved away.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use gwp_race_tests::{
    Configuration, Program, binary::gwp_race, children::Guarded, compile, watch::AGGRESSIVE,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// How long something may take that is not waited for by design.
const LIMIT: Duration = Duration::from_secs(60);

/// A program with races that runs for a minute.
fn target() -> Guarded {
    let program = compile::program(&Program::new("conduct/many_races.c"), Configuration::USUAL);
    let mut target = Command::new(program.unwrap());
    target
        .args(["60", "2"])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Guarded::new(target.spawn().unwrap())
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LIMIT, "{what}");
        sleep(Duration::from_millis(20));
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// `gwp-race attach` with reports and messages in files.
fn attach(target: &Guarded, report: &Path, messages: &Path) -> Child {
    let mut command = Command::new(gwp_race());
    command.arg("attach").args(AGGRESSIVE).arg("-o").arg(report);
    command.arg(target.pid().to_string()).stdin(Stdio::null());
    let messages = fs::File::create(messages).unwrap();
    command.stdout(Stdio::null()).stderr(messages);
    command.spawn().unwrap()
}

/// What comes on a terminal of a command, by script(1).
fn on_terminal(command: &str) -> String {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", command, "/dev/null"]);
    script.env("TERM", "xterm").stdin(Stdio::null());
    let output = script.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Check that `attach` draws a line on a terminal, with the cursor at its beginning, that it is gone at the end and before each report, and that there is none
/// with `--status=no`, -q, and under `run`, unless it is asked for.
#[test]
fn the_status_line() {
    let target = target();
    let attach = |options: &str| {
        let gwp_race = gwp_race();
        let (gwp_race, pid) = (gwp_race.display(), target.pid());
        on_terminal(&format!("{gwp_race} attach --duration 3s {options} {pid}"))
    };
    let is_drawn = |said: &str| said.contains("access sites, ") && said.contains("\u{1b}[K\r");
    let said = attach("");
    assert!(is_drawn(&said), "{said:?}");
    assert!(
        said.starts_with(&format!(
            "gwp-race: attaching to process {} (",
            target.pid()
        )),
        "{said:?}"
    );
    // Whatever stands in a line behind the last erasure or the last line drawn is a message.
    for line in said.lines() {
        let shown = line
            .trim_end_matches('\r')
            .rsplit("\u{1b}[K")
            .next()
            .unwrap();
        assert!(!shown.contains("access sites, slowdown"), "{line:?}");
    }
    for options in ["--status=no", "-q", "--format json"] {
        let said = attach(options);
        assert!(!said.contains("\u{1b}[K"), "{options}: {said:?}");
    }
    let run = |options: &str| {
        on_terminal(&format!(
            "{} run {options} -- sleep 2",
            gwp_race().display()
        ))
    };
    let said = run("");
    assert!(!said.contains("\u{1b}[K"), "{said:?}");
    let said = run("--status");
    assert!(
        said.contains(" stalls, ") && said.contains("\u{1b}[K\r"),
        "{said:?}"
    );
}

/// Check that SIGUSR1 to `attach` tells the figures, that SIGHUP opens a report file anew which was moved away, that a link in its place is refused and told while the old file stays,
/// and that the end is told in the file that is open then.
#[test]
fn signals_to_attach() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    let [report, moved, elsewhere, messages] =
        ["report", "report.1", "elsewhere", "messages"].map(path);
    let target = target();
    let mut watching = Guarded::new(attach(&target, &report, &messages));
    let signal = |watching: &Guarded, signal| kill(watching.pid(), signal).unwrap();
    wait_until("a report", || read(&report).contains("SUMMARY: "));
    let name = format!("attaching to process {} (", target.pid());
    assert!(read(&messages).contains(&name), "{}", read(&messages));

    signal(&watching, Signal::SIGUSR1);
    wait_until("figures", || {
        read(&messages).contains("gwp-race: figures so far\n")
    });
    wait_until("all figures", || read(&messages).contains("\n  cost "));
    assert!(!read(&report).contains("figures so far"));

    fs::rename(&report, &moved).unwrap();
    signal(&watching, Signal::SIGHUP);
    wait_until("a new file", || report.exists());
    let before = read(&moved);

    // A second time without having been moved away: nothing is lost.
    let mut file = fs::File::options().append(true).open(&report).unwrap();
    file.write_all(b"kept\n").unwrap();
    signal(&watching, Signal::SIGHUP);
    sleep(Duration::from_millis(200));
    fs::rename(&report, path("report.2")).unwrap();
    symlink(&elsewhere, &report).unwrap();
    signal(&watching, Signal::SIGHUP);
    wait_until("a refusal", || {
        read(&messages).contains("is a symbolic link")
    });
    let said = read(&messages);
    assert!(
        said.contains("reports still go to the file that was open"),
        "{said}"
    );
    signal(&watching, Signal::SIGTERM);
    let status = watching.wait(LIMIT).unwrap();
    assert!(status.success(), "{said}");
    let last = read(&path("report.2"));
    assert!(
        last.contains("kept\n") && last.contains(" caught"),
        "{last}"
    );
    assert_eq!(read(&moved), before);
    assert!(!elsewhere.exists());
}

/// Check that SIGHUP ends an `attach` without a report file, and one whose terminal has hung up.
#[test]
fn hang_ups_end_attach() {
    let target = target();
    let scratch = tempfile::tempdir().unwrap();
    let messages = scratch.path().join("messages");
    let mut command = Command::new(gwp_race());
    command
        .arg("attach")
        .arg(target.pid().to_string())
        .stdin(Stdio::null());
    command.stderr(fs::File::create(&messages).unwrap());
    let mut watching = Guarded::new(command.spawn().unwrap());
    wait_until("attached", || read(&messages).contains("attaching"));
    kill(watching.pid(), Signal::SIGHUP).unwrap();
    assert!(watching.wait(LIMIT).unwrap().success());

    let report = scratch.path().join("report");
    let of_terminal = scratch.path().join("pid");
    let attach = format!(
        "echo $$ > {}; exec {} attach -o {} --max-overhead 100% {}",
        of_terminal.display(),
        gwp_race().display(),
        report.display(),
        target.pid()
    );
    let mut script = Command::new("script");
    script.args(["--quiet", "--command", &attach, "/dev/null"]);
    script.stdin(Stdio::null()).stdout(Stdio::null());
    let mut script = Guarded::new(script.spawn().unwrap());
    wait_until("a report", || read(&report).contains("SUMMARY: "));
    let pid: i32 = read(&of_terminal).trim().parse().unwrap();
    script.child().kill().unwrap();
    script.wait(LIMIT).unwrap();
    wait_until("the end", || kill(Pid::from_raw(pid), None).is_err());
    assert!(read(&report).contains(" caught"), "{}", read(&report));
}
