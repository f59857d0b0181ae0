//! Files of programs that are not what files should be.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use gwp_race_tests::{
    Configuration, Program, Report, Watch,
    children::{Guarded, named, status_field, threads},
    compile,
    served::Served,
};
use nix::sys::signal::{Signal, kill};

/// How long gwp-race may take to reach the file.
const REACHING: Duration = Duration::from_secs(60);
/// How long it may take to end.
const ENDING: Duration = Duration::from_secs(30);

/// Check that gwp-race ends when it is told to, and lets the program go, although a file system that was trusted does not answer for the program's
/// file: the thread that waits cannot be killed, but holds neither breakpoints nor the socket.
#[test]
fn a_file_system_that_falls_silent() {
    let racy = Program::new("races/many_threads.c");
    let racy = compile::program(&racy, Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let contents = std::fs::read(racy).unwrap();
    let served = match Served::mount(scratch.path(), contents.clone()) {
        Ok(served) => served,
        Err(error) => return println!("FUSE cannot be mounted here: {error}"),
    };
    let path = scratch.path().join("program");
    let mut command = Command::new(&path);
    command.args(["120", "2"]).stdout(Stdio::null());
    let program = Guarded::new(command.spawn().unwrap());
    // From now on it is in memory, so that the program itself needs no answers.
    assert!(std::fs::read(&path).unwrap() == contents);
    served.fall_silent();

    let output = tempfile::tempdir().unwrap();
    let mut command = Watch::usual().attach_command(program.pid(), &output.path().join("report"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut gwp_race = Guarded::new(command.spawn().unwrap());
    // Unmounted before that is ended, which could not be if it waits for an answer.
    let served = served;
    let start = Instant::now();
    let thread = loop {
        assert!(start.elapsed() < REACHING, "nobody has asked for the file");
        assert!(gwp_race.ended().unwrap().is_none());
        if let Some(thread) = served.waiting().first() {
            break PathBuf::from(format!("/proc/{thread}"));
        }
        sleep(Duration::from_millis(20));
    };
    let name = std::fs::read_to_string(thread.join("comm")).unwrap();
    assert_eq!(name.trim(), "gwp-race-loader");
    let held = descriptors(&thread);
    println!("{name}: {held:?}");
    let holds = |what: &str| held.iter().any(|held| held.starts_with(what));
    assert!(
        !holds("anon_inode:[perf_event]") && !holds("socket:"),
        "{held:?}"
    );
    // Not that it could hold them only later.
    let tracer = named(gwp_race.pid(), "gwp-race-tracer").expect("a tracer");
    let of_tracer = descriptors(&PathBuf::from(format!("/proc/{tracer}")));
    assert!(
        of_tracer.iter().any(|held| held.starts_with("socket:")),
        "{of_tracer:?}"
    );
    let start = Instant::now();
    kill(gwp_race.pid(), Signal::SIGTERM).unwrap();
    gwp_race.wait(ENDING).unwrap();
    println!("ended after {:?}", start.elapsed());
    let start = Instant::now();
    while status_field(program.pid(), "TracerPid").as_deref() != Some("0") {
        assert!(start.elapsed() < ENDING, "the program is still traced");
        sleep(Duration::from_millis(20));
    }
    println!("its thread waits still: {}", thread.exists());
}

/// Check that the thread which holds threads asks a file system for nothing that a process serves, and has no map of such a file, whose pages could be dropped: a race is
/// caught, and told with the tables of the file, although that thread would wait for ever.
#[test]
fn who_holds_threads_waits_for_no_file_system() {
    let racy = Program::new("races/code_tables.c").flags(&["-fbasic-block-address-map"]);
    let racy = compile::program(&racy, Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let served = match Served::mount(scratch.path(), std::fs::read(racy).unwrap()) {
        Ok(served) => served,
        Err(error) => return println!("FUSE cannot be mounted here: {error}"),
    };
    served.ignore("gwp-race-tracer");
    served.ignore("gwp-race-lease");
    let path = scratch.path().join("program");
    let output = tempfile::tempdir().unwrap();
    let report = output.path().join("report");
    let mut command = Watch::aggressive().run_command(&path, &["300"], &report);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut gwp_race = Guarded::new(command.spawn().unwrap());
    let start = Instant::now();
    let mut looks = 0;
    let race = loop {
        assert!(start.elapsed() < REACHING, "no race was caught");
        assert!(gwp_race.ended().unwrap().is_none());
        if let Some(tracer) = named(gwp_race.pid(), "gwp-race-tracer") {
            let maps = std::fs::read_to_string(format!("/proc/{tracer}/maps")).unwrap_or_default();
            assert!(!maps.contains(path.to_str().unwrap()), "{maps}");
            looks += usize::from(!maps.is_empty());
        }
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        if let Some(race) = Report::read(&text).unwrap().races.into_iter().next() {
            break race;
        }
        sleep(Duration::from_millis(20));
    };
    assert!(looks > 0 && served.waiting().is_empty());
    for access in &race.accesses {
        assert!(access.block.is_some(), "{race:?}");
    }
    kill(gwp_race.pid(), Signal::SIGTERM).unwrap();
    gwp_race.wait(ENDING).unwrap();
}

/// Who may ask a file system that a process serves: neither holds a thread of the program, nor does anybody wait for them.
const MAY_ASK: [&str; 2] = ["gwp-race-copier", "gwp-race-loader"];

/// A shell that starts a program each time it may go on, and a gwp-race that watches it.
struct Family {
    shell: Guarded,
    folder: tempfile::TempDir,
}

impl Family {
    /// Begins. `shell`: its file.
    fn begin(shell: &Path, commands: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut script = String::new();
        for (number, command) in commands.iter().enumerate() {
            let go = folder.path().join(number.to_string());
            script += &format!(
                "while [ ! -e {} ]; do sleep 0.05; done; {command} & ",
                go.display()
            );
        }
        let mut begun = Command::new(shell);
        begun.args(["-c", &format!("{script} wait")]);
        begun.stdout(Stdio::null());
        Self {
            shell: Guarded::new(begun.spawn().unwrap()),
            folder,
        }
    }

    /// Lets the Nth program be started.
    fn go_on(&self, number: usize) {
        std::fs::write(self.folder.path().join(number.to_string()), "").unwrap();
    }

    /// Begins to watch it.
    fn watch(&self) -> Guarded {
        let report = self.folder.path().join("report");
        let mut command = Watch::aggressive().attach_command(self.shell.pid(), &report);
        command.stdout(Stdio::null());
        let gwp_race = Guarded::new(command.spawn().unwrap());
        let start = Instant::now();
        // What it starts from then on is watched.
        while status_field(self.shell.pid(), "TracerPid").as_deref() == Some("0") {
            assert!(start.elapsed() < REACHING, "the shell is not traced");
            sleep(Duration::from_millis(20));
        }
        gwp_race
    }

    fn report(&self) -> Report {
        let report = self.folder.path().join("report");
        let text = std::fs::read_to_string(report).unwrap_or_default();
        Report::read(&text).unwrap()
    }

    /// Waits until a race in this function is told.
    fn wait_for_race(&self, gwp_race: &mut Guarded, function: &str) {
        let start = Instant::now();
        let is_told = || {
            let mut races = self.report().races.into_iter();
            races.any(|race| race.has_function(function))
        };
        while !is_told() {
            assert!(start.elapsed() < REACHING, "no race in {function} is told");
            assert!(gwp_race.ended().unwrap().is_none());
            sleep(Duration::from_millis(20));
        }
        println!("a race in {function} is told after {:?}", start.elapsed());
    }
}

/// Ends a gwp-race.
fn end(gwp_race: &mut Guarded) {
    let start = Instant::now();
    kill(gwp_race.pid(), Signal::SIGTERM).unwrap();
    gwp_race.wait(ENDING).unwrap();
    println!("ended after {:?}", start.elapsed());
}

fn check_who_asks(served: &Served) {
    let names = served.names();
    println!("asked by {names:?}");
    assert!(names.iter().all(|name| MAY_ASK.contains(&name.as_str())));
}

/// A program with a race in a function of this name.
fn racing(function: &str) -> PathBuf {
    let source = match function {
        "store" => "races/read_write.c",
        _ => "races/many_threads.c",
    };
    compile::program(&Program::new(source), Configuration::USUAL).unwrap()
}

/// Check that processes below the watched one, whose file is in a file system that does not answer, keep gwp-race neither from telling the races of
/// others nor from ending, and that it is told that they were not watched.
#[test]
fn children_in_a_silent_file_system() {
    let contents = std::fs::read("/bin/sh").unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let served = match Served::mount(scratch.path(), contents.clone()) {
        Ok(served) => served,
        Err(error) => return println!("FUSE cannot be mounted here: {error}"),
    };
    let path = scratch.path().join("shell");
    let other = racing("store");
    // A child of the shell that executes nothing else.
    let child = "(while :; do sleep 1; done)";
    let family = Family::begin(&path, &[child, &format!("{} 120", other.display())]);
    // From now on it is in memory, so that the shell itself needs no answers.
    assert!(std::fs::read(&path).unwrap() == contents);
    served.fall_silent();
    let mut gwp_race = family.watch();
    // Unmounted before that is ended, which could not be if it waits for an answer.
    let served = served;
    family.go_on(0);
    let start = Instant::now();
    while !served.names().contains("gwp-race-copier") {
        assert!(start.elapsed() < REACHING, "nobody has asked for the file");
        assert!(gwp_race.ended().unwrap().is_none());
        sleep(Duration::from_millis(20));
    }
    family.go_on(1);
    family.wait_for_race(&mut gwp_race, "store");
    end(&mut gwp_race);
    check_who_asks(&served);
    let summary = family.report().summary.unwrap();
    let not_watched = &summary["not_watched"];
    let reasons = &not_watched[path.to_str().unwrap()];
    assert!(reasons["unidentified"].as_u64() > Some(0), "{not_watched}");
}

/// Check that a file system which falls silent while a program in it is watched, whose races were told with its debug information, keeps gwp-race
/// neither from telling the races of others nor from ending: it holds nothing open there.
#[test]
fn a_file_system_that_falls_silent_later() {
    let contents = std::fs::read(racing("increment")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let served = match Served::mount(scratch.path(), contents.clone()) {
        Ok(served) => served,
        Err(error) => return println!("FUSE cannot be mounted here: {error}"),
    };
    let path = scratch.path().join("program");
    assert!(std::fs::read(&path).unwrap() == contents);
    let commands = [
        format!("{} 120 2", path.display()),
        format!("{} 120", racing("store").display()),
    ];
    let family = Family::begin("/bin/sh".as_ref(), &[&commands[0], &commands[1]]);
    let mut gwp_race = family.watch();
    let served = served;
    family.go_on(0);
    family.wait_for_race(&mut gwp_race, "increment");
    let folder = scratch.path().to_str().unwrap();
    for thread in threads(gwp_race.pid()) {
        let held = descriptors(&PathBuf::from(format!("/proc/{thread}")));
        let is_in_folder = |held: &String| held.starts_with(folder);
        assert!(
            !held.is_empty() && !held.iter().any(is_in_folder),
            "{held:?}"
        );
    }
    served.fall_silent();
    family.go_on(1);
    family.wait_for_race(&mut gwp_race, "store");
    end(&mut gwp_race);
    check_who_asks(&served);
}

/// What a thread has open.
fn descriptors(thread: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(thread.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links
        .map(|link| link.to_string_lossy().into_owned())
        .collect()
}
