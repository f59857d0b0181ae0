//! What is told of races, and when a session ends.

use std::path::PathBuf;

use clap::Parser as _;

use super::*;
use crate::{
    cli::args::{Cli, Command},
    kernel::foreign::{Via, testing::ServedByNobody},
    report::sample::finding,
};

fn options(words: &[&str]) -> WatchArgs {
    let words = ["gwp-race", "run", "-q"].iter().chain(words);
    match Cli::try_parse_from(words.chain(&["--", "program"])).map(|cli| cli.command) {
        Ok(Command::Run(run)) => run.watch,
        other => panic!("{other:?}"),
    }
}

fn finish(reporter: Reporter, limit: Duration) -> Closing {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(reporter.finish(Summary::default(), limit, std::future::pending()))
}

/// A race of a routine of this name, at a place of its own.
fn race(reporter: &Reporter, routine: &str, pc: u64) {
    let mut finding = finding();
    finding.stalled.pc = pc;
    finding.stalled.routine = Some(routine.to_owned());
    assert!(reporter.race(Box::new(finding), Vec::new()));
}

/// Has races explained, each of a routine at a place: what becomes of each, and the end.
fn explained(args: &WatchArgs, races: &[(&str, u64)]) -> (Vec<Fate>, Closing) {
    let (sender, mut found) = tokio::sync::mpsc::unbounded_channel();
    let reporter = Reporter::start(args, false, sender).unwrap();
    for (routine, pc) in races {
        race(&reporter, routine, *pc);
    }
    let closing = finish(reporter, Duration::MAX);
    let fates = std::iter::from_fn(|| found.try_recv().ok().map(|explained| explained.fate));
    (fates.collect(), closing)
}

/// Check what is told of races that are reported, repeated and suppressed, and that only the first ask for
/// an exit code.
#[test]
fn what_is_suppressed_has_no_consequences() {
    let scratch = tempfile::tempdir().unwrap();
    let [output, list] = ["report", "list"].map(|name| scratch.path().join(name));
    std::fs::write(&list, "race_top:strlen\n").unwrap();
    let [output, list] = [&output, &list].map(|path| path.to_str().unwrap());
    let args = options(&["-o", output, "--suppressions", list]);
    let explain = |races: &[(&str, u64)]| {
        let (fates, closing) = explained(&args, races);
        let reports = std::fs::read_to_string(output).unwrap();
        let written = reports.matches("SUMMARY: ").count() as u64;
        assert_eq!(closing.tally.unique, written);
        (fates, closing.exit_code(Some(9)).unwrap())
    };
    let suppressed = explain(&[("strlen", 1), ("strlen", 2)]);
    assert_eq!(suppressed, (vec![Fate::Suppressed; 2], None));
    let mixed = explain(&[("strlen", 1), ("memcpy", 2), ("memcpy", 2), ("memset", 3)]);
    let fates = [
        Fate::Suppressed,
        Fate::Reported(1),
        Fate::Repeated,
        Fate::Reported(2),
    ];
    assert_eq!(mixed, (fates.to_vec(), Some(9)));
}

/// Check that races of the baseline are told, and count for nothing but their own figure, although the report is written over the file
/// that they were read from.
#[test]
fn what_is_known_has_no_consequences() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("races.json");
    let path = file.to_str().unwrap();
    let explain = |words: &[&str], races: &[(&str, u64)]| {
        let args = options(&[&["--format", "json", "-o", path], words].concat());
        let (fates, closing) = explained(&args, races);
        (fates, closing.exit_code(Some(9)).unwrap())
    };
    let first = explain(&[], &[("strlen", 1)]);
    assert_eq!(first, (vec![Fate::Reported(1)], Some(9)));
    let again = explain(&["--baseline", path], &[("strlen", 1), ("strlen", 1)]);
    assert_eq!(again, (vec![Fate::Known, Fate::Repeated], None));
    let another = explain(&["--baseline", path], &[("strlen", 1), ("memcpy", 2)]);
    assert_eq!(another, (vec![Fate::Known, Fate::Reported(1)], Some(9)));
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written.matches("\"known\":true").count(), 1, "{written}");
    assert!(
        written.contains("\"races_unique\":1,\"races_known\":1,"),
        "{written}"
    );
    let args = options(&["--baseline", "/nonexistent.json"]);
    let (sender, _found) = tokio::sync::mpsc::unbounded_channel();
    assert!(Reporter::start(&args, false, sender).is_err());
}

/// A process that has a database locked: this program with the test `races_are_kept`. (One that has the file open by threads with descriptors of their own must not
/// have it open elsewhere as well.)
struct Locker(std::process::Child);

impl Locker {
    const FILE: &str = "GWP_RACE_TEST_LOCKED_FILE";
    const LOCKED: &str = "it is locked";

    fn start(file: &std::path::Path) -> Self {
        use std::{io::BufRead as _, process::Stdio};
        let name = format!("{}::races_are_kept", module_path!());
        let (_, name) = name.split_once("::").unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(Self::FILE, file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(Self::LOCKED)));
        Self(child)
    }

    /// What it does until its input ends.
    fn lock(file: &std::path::Path) -> ! {
        use futures_executor::block_on;
        use sqlx::{ConnectOptions as _, sqlite::SqliteConnectOptions};
        let options = SqliteConnectOptions::new().filename(file);
        let mut connection = block_on(options.connect()).unwrap();
        block_on(sqlx::query("BEGIN IMMEDIATE").execute(&mut connection)).unwrap();
        println!("\n{}", Self::LOCKED);
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        std::process::exit(0);
    }

    fn end(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

/// Check that a race is in the store as soon as it was told, counted with its repeats, and known to the next run once somebody has accepted it; that while the store is
/// locked races are told on standard error and kept, and that the exit code tells where it stays so.
#[test]
fn races_are_kept() {
    use crate::store::{Access, Address, Saying, Store, Verdict};
    if let Some(file) = std::env::var_os(Locker::FILE) {
        Locker::lock(file.as_ref());
    }
    let scratch = tempfile::tempdir().unwrap();
    let [output, file] = ["report", "races.db"].map(|name| scratch.path().join(name));
    let name = format!("sqlite:{}", file.display());
    let address: Address = name.parse().unwrap();
    let args = options(&["--store", &name, "-o", output.to_str().unwrap()]);
    let times = || {
        let mut store = Store::open(&address, Access::Existing).unwrap();
        let races = store.races(0).unwrap();
        let mut times: Vec<_> = races.iter().map(|race| race.times).collect();
        times.sort_unstable();
        (times, races)
    };
    let begin = || {
        let (sender, found) = tokio::sync::mpsc::unbounded_channel();
        (Reporter::start(&args, false, sender).unwrap(), found)
    };
    let (reporter, mut found) = begin();
    race(&reporter, "strlen", 1);
    assert_eq!(found.blocking_recv().unwrap().fate, Fate::Reported(1));
    let (counted, races) = times();
    assert_eq!(counted, [1]);
    race(&reporter, "strlen", 1);
    let closing = finish(reporter, Duration::MAX);
    assert!(closing.failure.is_none(), "{:?}", closing.failure);
    assert_eq!(times().0, [2]);

    let saying = Saying {
        name: races[0].id.clone(),
        state: Verdict::Benign,
        reason: String::new(),
        owner: None,
        expires: None,
        who: String::new(),
    };
    let mut store = Store::open(&address, Access::Existing).unwrap();
    store.triage(&saying, 0).unwrap();
    drop(store);
    for unlocks in [true, false] {
        let (reporter, mut found) = begin();
        race(&reporter, "strlen", 1);
        assert_eq!(found.blocking_recv().unwrap().fate, Fate::Known);
        let before = times().0;
        let mut other = Locker::start(&file);
        let (routine, pc) = if unlocks {
            ("memcpy", 2)
        } else {
            ("memset", 3)
        };
        race(&reporter, routine, pc);
        assert_eq!(found.blocking_recv().unwrap().fate, Fate::Reported(1));
        assert_eq!(times().0, before);
        if unlocks {
            other.end();
        }
        let closing = finish(reporter, Duration::MAX);
        other.end();
        assert_eq!(closing.failure.is_none(), unlocks, "{:?}", closing.failure);
        assert_eq!(times().0.len(), 2);
    }
    let args = options(&["--store", "sqlite:/nonexistent/races.db"]);
    let (sender, _found) = tokio::sync::mpsc::unbounded_channel();
    assert!(Reporter::start(&args, false, sender).is_err());
}

/// Check that the end comes, and says what is lost, although whoever reads a file of the program never answers; what was told before counts.
#[test]
fn the_end_does_not_wait_for_files() {
    let scratch = tempfile::tempdir().unwrap();
    let output = scratch.path().join("report");
    let args = options(&["-o", output.to_str().unwrap()]);
    let (sender, mut found) = tokio::sync::mpsc::unbounded_channel();
    let reader = Program {
        file: "sleep".into(),
        arguments: vec!["600".into()],
    };
    let reporter = Reporter::start_with(&args, false, sender, reader).unwrap();
    race(&reporter, "memcpy", 1);
    assert_eq!(found.blocking_recv().unwrap().fate, Fate::Reported(1));
    let own = std::env::current_exe().unwrap();
    reporter.modules(finding().pid, vec![module(own)], None, String::new());
    race(&reporter, "memset", 2);
    let closing = finish(reporter, Duration::from_millis(300));
    assert_eq!(closing.tally.unique, 1);
    let failure = closing.failure.as_ref().unwrap().to_string();
    assert!(failure.contains("took more than 300ms"), "{failure}");
    assert_eq!(closing.exit_code(Some(9)).unwrap(), Some(9));
}

/// Check that whoever tells races asks no file system that a process serves, and tells them without what the file would say where nobody copies that.
#[test]
fn who_tells_asks_no_served_file_system() {
    let scratch = tempfile::tempdir().unwrap();
    let [output, folder] = ["report", "served"].map(|name| scratch.path().join(name));
    std::fs::create_dir(&folder).unwrap();
    let served = match ServedByNobody::mount(&folder, nix::unistd::geteuid().as_raw()) {
        Ok(served) => served,
        Err(error) => return println!("FUSE cannot be mounted here: {error}"),
    };
    let args = options(&["-o", output.to_str().unwrap()]);
    let (sender, _found) = tokio::sync::mpsc::unbounded_channel();
    // The copier would be this program, which is none.
    let reporter = Reporter::start(&args, false, sender).unwrap();
    reporter.modules(
        finding().pid,
        vec![module(folder.join("program"))],
        None,
        String::new(),
    );
    race(&reporter, "memset", 2);
    let closing = finish(reporter, Duration::MAX);
    assert_eq!(closing.tally.unique, 1);
    assert!(closing.failure.is_none(), "{:?}", closing.failure);
    assert_eq!(served.requests(), [ServedByNobody::GREETING]);
}

/// A module whose file this process finds by that name.
fn module(path: PathBuf) -> ModuleInfo {
    ModuleInfo {
        via: Via::Root {
            id: std::process::id(),
            path,
        },
        start: 0x1000,
        end: 0x2000,
        ..ModuleInfo::default()
    }
}

/// Check that the code of races goes before a failure to write, and that the failure is not forgotten
/// without a race.
#[test]
fn a_race_goes_before_a_failure() {
    let closing = |unique| Closing {
        tally: Tally {
            unique,
            ..Tally::default()
        },
        failure: Some(anyhow::anyhow!("full")),
        ..Closing::default()
    };
    assert_eq!(closing(1).exit_code(Some(9)).unwrap(), Some(9));
    assert!(closing(1).exit_code(None).is_err());
    assert!(closing(0).exit_code(Some(9)).is_err());
}

/// Check that a gwp-race that is killed has kept the programs that it began to watch, and repeats with the next race.
#[test]
fn what_is_kept_before_the_end() {
    use crate::store::{Access, Address, Store};
    let scratch = tempfile::tempdir().unwrap();
    let [output, file] = ["report", "races.db"].map(|name| scratch.path().join(name));
    let name = format!("sqlite:{}", file.display());
    let args = options(&["--store", &name, "-o", output.to_str().unwrap()]);
    let (sender, mut found) = tokio::sync::mpsc::unbounded_channel();
    let reporter = Reporter::start(&args, false, sender).unwrap();
    reporter.modules(7, Vec::new(), None, "/bin/watched".to_owned());
    for (routine, pc) in [("strlen", 1), ("strlen", 1), ("memcpy", 2)] {
        race(&reporter, routine, pc);
    }
    drop(reporter);
    // Its end closes the store first.
    while found.blocking_recv().is_some() {}
    let mut store = Store::open(&name.parse::<Address>().unwrap(), Access::Existing).unwrap();
    let races = store.races(0).unwrap();
    let mut times: Vec<_> = races.iter().map(|race| race.times).collect();
    times.sort_unstable();
    assert_eq!(times, [1, 2]);
    let builds = store.builds().unwrap();
    assert!(builds.iter().any(|build| build.id == "exe:/bin/watched"));
}
