//! The report arrives, whole, wherever it is sent: full disks, closed descriptors, readers that go
//! away. What the file does not take goes to standard error, and the exit code tells.

use std::{
    ffi::CStr,
    fs::{self, File},
    io::Read as _,
    os::{fd::FromRawFd as _, unix::fs::OpenOptionsExt as _},
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use gwp_race_tests::{
    Configuration, Program, Report,
    binary::gwp_race,
    children::{Guarded, descendants},
    compile,
    disks::on_a_small_disk,
    executable,
    watch::AGGRESSIVE,
};
use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::stat::Mode,
    unistd::mkfifo,
};

/// gwp-race's own failure under `run`.
const FAILED: Option<i32> = Some(125);
/// How long a run may take.
const LIMIT: Duration = Duration::from_secs(60);

fn built(source: &'static str) -> PathBuf {
    compile::program(&Program::new(source), Configuration::USUAL).unwrap()
}

/// `gwp-race run` of a racy program.
fn run(options: &[&str], seconds: &str) -> Command {
    let mut command = Command::new(gwp_race());
    command
        .arg("run")
        .args(AGGRESSIVE)
        .args(options)
        .arg("--")
        .arg(built("conduct/many_races.c"))
        .args([seconds, "2"])
        .stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The text reports in a file or on standard error; each must be whole.
fn reports(text: &str) -> usize {
    const BEGIN: &str = "WARNING: gwp-race: data race";
    const END: &str = "SUMMARY: gwp-race: data race";
    let begun = text.matches(BEGIN).count();
    assert_eq!(begun, text.matches(END).count(), "{text}");
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    begun
}

/// What the closing line says was caught.
fn caught(text: &str) -> usize {
    let mut words = text.lines().find_map(|line| {
        let line = line.strip_prefix("gwp-race: ")?;
        line.contains("caught").then(|| line.split(' '))
    });
    let first = words.as_mut().and_then(Iterator::next);
    first.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Check that with a full disk each race is either whole in the file or whole on standard error,
/// in `run` and in `attach`.
#[test]
fn a_full_disk_loses_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("small");
    fs::create_dir(&folder).unwrap();
    let report = folder.join("report");
    let report = report.to_str().unwrap();

    let check = |command: &Command, code| {
        let keep = "cat \"$folder/report\" > \"$kept\"";
        let (output, kept) = on_a_small_disk(command, &folder, "size=4k", keep);
        let said = said(&output);
        assert_eq!(output.status.code(), code, "{said}");
        assert!(said.contains("No space left on device"), "{said}");
        let (in_file, on_stderr) = (reports(&kept), reports(&said));
        println!("{in_file} in the file, {on_stderr} on standard error");
        assert!(in_file > 0 && on_stderr > 0, "{said}");
        // The closing line is short, and may still have had room.
        assert_eq!(in_file + on_stderr, caught(&(kept + &said)), "{said}");
    };
    check(&run(&["-o", report], "4"), FAILED);

    let mut target = Command::new(built("conduct/many_races.c"));
    target.args(["60", "2"]).stdout(Stdio::null());
    let target = Guarded::new(target.spawn().unwrap());
    let mut attach = Command::new(gwp_race());
    attach.arg("attach").args(AGGRESSIVE);
    attach.args(["--duration", "4s", "-o", report, &target.pid().to_string()]);
    check(&attach, Some(1));
}

/// Check that a file that may not grow any more (`ulimit -f`) is a full disk, and does not end
/// gwp-race or the program.
#[test]
fn a_file_size_limit_loses_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("report");
    let command = run(&["-o", report.to_str().unwrap()], "4");
    let mut limited = Command::new("prlimit");
    limited.arg("--fsize=4000").arg(command.get_program());
    let output = limited.args(command.get_args()).output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), FAILED, "{said}");
    assert!(said.contains("File too large"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    let kept = fs::read_to_string(&report).unwrap();
    let (in_file, on_stderr) = (reports(&kept), reports(&said));
    assert_eq!(in_file + on_stderr, caught(&(kept + &said)), "{said}");

    // The program gets the signal as it would without gwp-race.
    let script = "trap 'echo caught; exit 3' XFSZ; ulimit -f 0; echo x > $0; echo $? ";
    let written = scratch.path().join("written");
    let shell = |command: &mut Command| {
        let output = command
            .arg("-c")
            .arg(script)
            .arg(&written)
            .output()
            .unwrap();
        (output.status.code(), output.stdout)
    };
    let alone = shell(&mut Command::new("sh"));
    let watched = shell(Command::new(gwp_race()).args(["run", "-q", "--", "sh"]));
    assert_eq!(watched, alone);
}

/// Check that a device that takes nothing is told of, in both forms, and the races with it.
#[test]
fn a_full_device_loses_nothing() {
    let output = run(&["-o", "/dev/full"], "3").output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), FAILED, "{text}");
    assert!(
        text.contains("cannot write the report to /dev/full"),
        "{text}"
    );
    assert!(
        reports(&text) > 0 && reports(&text) == caught(&text),
        "{text}"
    );

    let json = ["--format", "json", "-o", "/dev/full"];
    let output = run(&json, "3").output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), FAILED, "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('{')).collect();
    let summary: serde_json::Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    let races = lines
        .iter()
        .filter(|line| line.contains("\"type\":\"race\""));
    assert_eq!(summary["races_unique"], races.count(), "{text}");
}

/// Check that a pipe whose reader goes away is a full disk.
#[test]
fn a_reader_that_leaves_loses_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let pipe = scratch.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let mut command = run(&["-o", pipe.to_str().unwrap()], "3");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut gwp_race = Guarded::new(command.spawn().unwrap());
    let stderr = gwp_race.child().stderr.take().unwrap();
    let reader = std::thread::spawn(move || std::io::read_to_string(stderr));
    // Opening waits for gwp-race to open it; dropped at once.
    drop(File::open(&pipe).unwrap());
    let status = gwp_race.wait(LIMIT).unwrap();
    let said = reader.join().unwrap().unwrap();
    assert_eq!(status.code(), FAILED, "{said}");
    assert!(said.contains("Broken pipe"), "{said}");
    assert!(
        reports(&said) > 0 && reports(&said) == caught(&said),
        "{said}"
    );
}

/// A terminal: the end that shows it, and the name of the other one.
fn terminal() -> (File, PathBuf) {
    // SAFETY: the calls touch no memory but the buffer, and the descriptor is nobody else's.
    unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(master >= 0);
        assert_eq!(libc::grantpt(master) | libc::unlockpt(master), 0);
        let mut name = [0u8; 64];
        assert_eq!(
            libc::ptsname_r(master, name.as_mut_ptr().cast(), name.len()),
            0
        );
        let name = CStr::from_bytes_until_nul(&name).unwrap();
        (
            File::from_raw_fd(master),
            PathBuf::from(name.to_str().unwrap()),
        )
    }
}

/// Check that a gwp-race without a terminal does not get one by writing its report there, and goes on when that one is closed; and that neither a terminal nor a FIFO is
/// taken for a file to be read, nor waited for.
#[test]
fn terminals_do_not_become_ours() {
    /// All races may have been told before the terminal is closed.
    const TRIES: usize = 5;
    let without_terminal = |command: &Command| {
        let mut setsid = Command::new("setsid");
        setsid
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::null());
        setsid
    };
    let told_afterwards = || {
        let (mut master, slave) = terminal();
        let mut command = without_terminal(&run(&["-o", slave.to_str().unwrap()], "3"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut watching = Guarded::new(command.spawn().unwrap());
        // Something has arrived there.
        assert!(master.read(&mut [0; 256]).unwrap() > 0);
        for pid in descendants(watching.pid())
            .into_iter()
            .chain([watching.pid()])
        {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let tty = stat
                .rsplit(") ")
                .next()
                .and_then(|rest| rest.split(' ').nth(4));
            assert!(tty.is_none_or(|tty| tty == "0"), "{stat}");
        }
        drop(master);
        let status = watching.wait(LIMIT).unwrap();
        let [stdout, stderr] = {
            let child = watching.child();
            let stdout = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
            [
                stdout,
                std::io::read_to_string(child.stderr.take().unwrap()).unwrap(),
            ]
        };
        assert_eq!(stdout, "done\n");
        let told = reports(&stderr);
        println!("{told} reports after the terminal was closed");
        if told > 0 {
            assert_eq!(status.code(), FAILED, "{stderr}");
            assert!(stderr.contains("cannot write the report"), "{stderr}");
        }
        told
    };
    assert!((0..TRIES).any(|_| told_afterwards() > 0));

    let (_master, slave) = terminal();
    let scratch = tempfile::tempdir().unwrap();
    let fifo = scratch.path().join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    for (path, what) in [(&slave, "a device"), (&fifo, "a FIFO")] {
        let path = path.to_str().unwrap();
        let mut inspect = Command::new(gwp_race());
        inspect
            .args(["inspect", "--pc-sections", path])
            .arg(gwp_race());
        let mut file = Command::new(gwp_race());
        file.args(["inspect", path]);
        for command in [run(&["--suppressions", path], "3"), inspect, file] {
            let output = without_terminal(&command).output().unwrap();
            let said = said(&output);
            assert!(
                !output.status.success() && said.contains(what),
                "{command:?}: {said}"
            );
        }
    }
}

/// Check that a reader who takes his time costs no memory: what finds no place is dropped and counted, and
/// each race is told all the same when it is caught again.
#[test]
fn a_slow_reader_misses_nothing() {
    /// Longer than it takes to fill the pipe and the queue.
    const ASLEEP: Duration = Duration::from_secs(4);
    const ONE_PAGE: i32 = 4096;
    let scratch = tempfile::tempdir().unwrap();
    let (pipe, none) = (scratch.path().join("pipe"), scratch.path().join("none"));
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    // With suppressions each repeat is told with its stacks.
    fs::write(&none, "").unwrap();
    let mut reader = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&pipe)
        .unwrap();
    fcntl(&reader, FcntlArg::F_SETPIPE_SZ(ONE_PAGE)).unwrap();
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    let (pipe, none) = (pipe.to_str().unwrap(), none.to_str().unwrap());
    let options = ["--format", "json", "-o", pipe, "--suppressions", none];
    let mut command = run(&options, "8");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut gwp_race = Guarded::new(command.spawn().unwrap());
    std::thread::sleep(ASLEEP);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(gwp_race.wait(LIMIT).unwrap().success());
    let report = Report::read(&text).unwrap();
    let (dropped, total) = (report.number("dropped"), report.number("races_total"));
    println!(
        "{} races, {total} times, {dropped} dropped",
        report.races.len()
    );
    assert!(dropped > 0.0);
    assert!(report.races.len() >= 3);
    assert_eq!(report.number("races_unique"), report.races.len() as f64);
}

/// Check that a standard error that nobody reads any more ends nothing: the program runs to its end,
/// however much there is to say, and its exit code is passed on.
#[test]
fn nobody_need_read_standard_error() {
    for options in [&["-vv", "--stats"][..], &["--format", "json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = run(options, "2");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(writer)
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        assert_eq!(std::io::read_to_string(stdout).unwrap(), "done\n");
        assert_eq!(child.wait().unwrap().code(), Some(0), "{options:?}");
    }
}

/// Check that the program finds those of its standard descriptors closed that the user has closed,
/// and that no file of gwp-race's gets their numbers.
#[test]
fn closed_descriptors_stay_closed() {
    let scratch = tempfile::tempdir().unwrap();
    let (report, found) = (scratch.path().join("report"), scratch.path().join("found"));
    let program = "for n in 0 1 2; do
            [ -e /proc/$$/fd/$n ] && echo $n >> \"$0\"
        done; echo out; echo aside >&2; exit 7";
    for closed in 0..8u8 {
        let is_closed = |fd: &u8| closed & 1 << fd != 0;
        let _ = fs::remove_file(&found);
        let close: String = (0..3)
            .filter(is_closed)
            .map(|fd| format!(" {fd}>&-"))
            .collect();
        let script = format!("exec \"$0\" run -v -o \"$1\" -- sh -c \"$2\" \"$3\" {close}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(gwp_race()).arg(&report);
        let output = shell.arg(program).arg(&found).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{}", said(&output));
        let expected: String = (0..3)
            .filter(|fd| !is_closed(fd))
            .map(|fd| format!("{fd}\n"))
            .collect();
        assert_eq!(
            fs::read_to_string(&found).unwrap_or_default(),
            expected,
            "{close}"
        );
        let kept = fs::read_to_string(&report).unwrap();
        assert!(
            kept.starts_with("gwp-race: ") && !kept.contains("aside"),
            "{kept}"
        );
    }
}

/// Check that names which a program chooses move no cursor, turn no letters round and begin no line, in whatever they are told.
#[test]
fn names_do_nothing_to_a_terminal() {
    const HOSTILE: &str = "a\ngwp-race: error: forged \x1b[31m\u{202e}\u{9b}2Jb";
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join(HOSTILE);
    executable::copy(built("conduct/many_races.c"), &program);
    let tables = directory.path().join("tables.csv");
    let told = |arguments: &[&str], command: &[&str]| {
        let mut gwp_race = Command::new(gwp_race());
        let output = gwp_race
            .args(arguments)
            .arg(&program)
            .args(command)
            .output();
        let output = output.unwrap();
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).unwrap()
    };
    let coverage = format!("--coverage={}", tables.display());
    let watch = [&["run", "-vv", &coverage], AGGRESSIVE.as_slice()].concat();
    let json = [watch.as_slice(), &["--format", "json", "--"]].concat();
    let text = [watch.as_slice(), &["--"]].concat();
    let mut all = vec![
        told(&text, &["3", "2"]),
        told(&json, &["3", "2"]),
        told(&["inspect", "--list"], &[]),
        told(&["inspect", "--json"], &[]),
        told(&["doctor"], &[]),
        told(&["doctor", "--json"], &[]),
    ];
    assert!(
        reports(&all[0]) > 0 && all[1].contains("\"type\":\"race\""),
        "{all:?}"
    );
    all.push(fs::read_to_string(tables).unwrap());
    for text in all {
        assert!(text.contains("forged"), "{text}");
        let unseen = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(unseen), "{text:?}");
        assert!(
            !text
                .lines()
                .any(|line| line.starts_with("gwp-race: error: forged")),
            "{text}"
        );
    }
}
