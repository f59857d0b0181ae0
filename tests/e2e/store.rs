//! Races that are kept in a store: by real runs, listed, judged, known to later runs; and stores that cannot be used.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use gwp_race_tests::{
    Configuration, Program, binary::gwp_race, compile, disks::on_a_small_disk, watch::AGGRESSIVE,
};
use serde_json::Value;

use crate::server::Server;

/// Tries that a race takes at most.
const TRIES: usize = 5;
/// The code of `--error-exitcode`, and that of `--exit-code`.
const FOUND: i32 = 9;
const LISTED: i32 = 3;
/// gwp-race's own failure under `run`.
const FAILED: i32 = 125;

fn program(source: &'static str) -> PathBuf {
    compile::program(&Program::new(source), Configuration::USUAL).unwrap()
}

/// Runs a program for two seconds with these options.
fn run(program: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(gwp_race());
    command.arg("run").args(AGGRESSIVE).args(options);
    command.arg("--").arg(program).args(["2", "2"]);
    command.stdin(Stdio::null()).output().unwrap()
}

fn races(arguments: &[&str]) -> Output {
    let mut command = Command::new(gwp_race());
    command.arg("races").args(arguments);
    command.stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command says that does what it should.
fn good(arguments: &[&str]) -> String {
    let output = races(arguments);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    text(&output.stdout)
}

/// Check the way of a race: found by a run, listed, shown, known to a run that has the store as its baseline, judged, known to one that only keeps its races there, carried over
/// to another store, come back in another build, and forgotten.
#[test]
fn the_way_of_a_race() {
    let scratch = tempfile::tempdir().unwrap();
    let [report, json] = ["report", "races.json"].map(|name| scratch.path().join(name));
    let [report, json] = [&report, &json].map(|path| path.to_str().unwrap());
    let [store, other] =
        ["races.db", "other.db"].map(|name| format!("sqlite:{}/{name}", scratch.path().display()));
    let [store, other] = [&*store, &*other];
    let program = program("races/write_write.c");
    let code = FOUND.to_string();
    let options = ["--error-exitcode", &code, "--format", "json", "-o", report];

    // Both in one command, as in continuous integration: what the store has beforehand is known.
    let kept = ["--store", store, "--baseline", store];
    let mut known = 0;
    let mut tries = (0..2 * TRIES).map(|_| {
        let output = run(&program, &[&options[..], &kept].concat());
        let report = fs::read_to_string(report).unwrap();
        let is_known = report.contains("\"known\":true");
        let is_new = report.contains("\"known\":false");
        let expected = if is_new { FOUND } else { 0 };
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{}",
            text(&output.stderr)
        );
        known += usize::from(is_known);
        is_known
    });
    let is_known = tries.any(|is_known| is_known);
    drop(tries);
    assert!(is_known, "not caught twice");
    println!("known {known} times");
    // Who runs gwp-race is no machine that sends.
    assert_eq!(good(&["hosts", "--store", store]), "");

    let list = ["list", "--store", store];
    let listed = good(&[&list[..], &["--format", "json"]].concat());
    let race: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let [name, build] = [&race["race"], &race["seen"][0]["build"]].map(|v| v.as_str().unwrap());
    assert_eq!(
        (&race["type"], &race["state"]),
        (&"listed".into(), &"new".into())
    );
    assert!(race["times"].as_u64().unwrap() >= 2, "{race}");
    let exit = LISTED.to_string();
    let output = races(&[&list[..], &["--state", "new", "--exit-code", &exit]].concat());
    assert_eq!(output.status.code(), Some(LISTED));
    let table = text(&output.stdout);
    assert!(table.contains(&name[..11]), "{table}");
    assert!(
        table.lines().all(|line| line.chars().count() <= 100),
        "{table}"
    );
    let shown = good(&["show", "--store", store, &name[..11]]);
    assert!(
        shown.contains("WARNING: gwp-race: data race") && shown.contains(build),
        "{shown}"
    );

    // Every race that there is, in case that there are several.
    for line in listed.lines() {
        let race: Value = serde_json::from_str(line).unwrap();
        let name = race["race"].as_str().unwrap();
        good(&[
            "triage", "--store", store, name, "benign", "--reason", "a test",
        ]);
    }
    let output = races(&[&list[..], &["--state", "new", "--exit-code", &exit]].concat());
    assert_eq!(
        (output.status.code(), &*text(&output.stdout)),
        (Some(0), "")
    );
    let is_accepted = (0..TRIES).any(|_| {
        let output = run(&program, &[&options[..], &["--store", store]].concat());
        let report = fs::read_to_string(report).unwrap();
        let is_new = report.contains("\"known\":false");
        assert_eq!(output.status.code() == Some(FOUND), is_new, "{report}");
        report.contains("\"known\":true")
    });
    assert!(is_accepted);

    good(&[
        "export", "--store", store, "--format", "json", "-o", json, name,
    ]);
    let rule = good(&["suppress", "--store", store, name]);
    assert!(rule.contains(&format!("identity:{name}")), "{rule}");
    for expected in ["1 of 1 reports are new", "0 of 1 reports are new"] {
        let output = races(&["import", "--store", other, json]);
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains(expected), "{said}");
    }
    good(&["triage", "--store", other, name, "fixed"]);
    // Caught a century later in another build.
    let record = fs::read_to_string(json).unwrap();
    let mut race: Value = serde_json::from_str(&record).unwrap();
    race["build_id"] = "ffff00".into();
    race["time"] = "2126-01-01T00:00:00.000000000Z".into();
    fs::write(json, format!("{race}\n")).unwrap();
    good(&["import", "--store", other, json]);
    let state = [
        "list",
        "--store",
        other,
        "--state",
        "regressed",
        "--exit-code",
        &exit,
    ];
    assert_eq!(races(&state).status.code(), Some(LISTED));
    let differ = ["diff", "--store", other, build, "ffff"];
    let table = good(&[&differ[..], &["--exit-code", &exit]].concat());
    assert!(table.contains("both  "), "{table}");
    let error = text(&races(&["diff", "--store", other, build, "eeee"]).stderr);
    assert!(error.contains("the store has no build eeee"), "{error}");
    moved_elsewhere(json, other, name, build);

    good(&[
        "prune",
        "--store",
        store,
        "--older-than",
        "0",
        "--keep-triaged",
    ]);
    assert!(good(&list).contains(&name[..11]));
    good(&["prune", "--store", store, "--days-older-than", "60d"]);
    assert!(good(&list).contains(&name[..11]));
    good(&["prune", "--store", store, "--older-than", "0"]);
    assert_eq!(good(&list), "");
}

/// The race of this name is caught in a third build, where it has another name: it is new there until both names are merged, and is again once they are split. The log has all of it.
fn moved_elsewhere(json: &str, store: &str, name: &str, build: &str) {
    const MOVED: &str = "r3:00000000000000000000000000000001";
    let record = fs::read_to_string(json).unwrap();
    let mut race: Value = serde_json::from_str(&record).unwrap();
    race["build_id"] = "dddd00".into();
    race["identity"]["race"] = MOVED.into();
    fs::write(json, format!("{race}\n")).unwrap();
    good(&["import", "--store", store, json]);
    let in_third = |word: &str| {
        let exit = LISTED.to_string();
        let output = races(&[
            "diff",
            "--store",
            store,
            "--exit-code",
            &exit,
            build,
            "dddd",
        ]);
        let table = text(&output.stdout);
        let is_new = table.lines().any(|line| line.starts_with("new "));
        let code = if is_new { LISTED } else { 0 };
        assert_eq!(output.status.code(), Some(code), "{table}");
        assert!(table.contains(word), "{table}");
        table.lines().count() - 1
    };
    assert_eq!(in_third("new  "), 2);
    let names = ["merge", "--store", store, &MOVED[..9], name];
    let by = ["--by", "ana", "--reason", "it has moved"];
    good(&[&names[..], &by].concat());
    assert_eq!(in_third("both  "), 1);
    let listed = good(&["list", "--store", store, "--format", "json"]);
    let race: Value = serde_json::from_str(listed.trim_end()).unwrap();
    assert_eq!(
        (&race["race"], &race["merged"][0]),
        (&name.into(), &MOVED.into())
    );
    assert!(good(&["show", "--store", store, MOVED]).contains("Merged into it: "));
    let output = races(&["merge", "--store", store, name, MOVED]);
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.contains("split "),
        "{said}"
    );

    good(&["split", "--store", store, MOVED]);
    assert_eq!(in_third("new  "), 2);
    let log = good(&["log", "--store", store, "--format", "json", MOVED]);
    let lines = log.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        format!("{} {}", line["type"], line["who"] == "ana")
    });
    assert_eq!(
        lines.collect::<Vec<_>>(),
        ["\"merged\" true", "\"split\" false"]
    );
    let told = good(&["log", "--store", store]);
    assert!(
        told.contains(&format!("said fixed of {name}")) && told.contains(": it has moved"),
        "{told}"
    );
}

/// Check that a run does not begin with a store that cannot be used, and says why and what to do.
#[test]
fn stores_that_cannot_be_used() {
    let scratch = tempfile::tempdir().unwrap();
    let [garbage, shared, started] =
        ["garbage.db", "shared", "started"].map(|name| scratch.path().join(name));
    fs::write(&garbage, "garbage, not a database\n".repeat(100)).unwrap();
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    for (path, said) in [
        (garbage.clone(), "it is none, or a damaged one"),
        (
            scratch.path().join("absent/races.db"),
            "No such file or directory",
        ),
        (shared.clone(), "Is a directory"),
        (shared.join("races.db"), "everybody may write to"),
    ] {
        let mut command = Command::new(gwp_race());
        command.args([
            "run",
            "--store",
            &format!("sqlite:{}", path.display()),
            "--",
            "touch",
        ]);
        let output = command.arg(&started).stdin(Stdio::null()).output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(FAILED), "{told}");
        assert!(
            told.starts_with("gwp-race: error: ") && told.contains(said),
            "{told}"
        );
        assert!(!started.exists());
    }
    let content = fs::read_to_string(&garbage).unwrap();
    assert_eq!(content, "garbage, not a database\n".repeat(100));
    for address in ["mysql://host/races", "races.db"] {
        let output = races(&["list", "--store", address]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("sqlite:PATH"), "{told}");
    }
}

/// Check that on a disk which becomes full each race is in the store or on standard error, and that the exit code tells.
#[test]
fn a_full_disk_loses_nothing() {
    // With room for those who read.
    const LIST: &str = "mount -o remount,size=16m \"$folder\" || exit 98
        \"$1\" races list --format json --store \"sqlite:$folder/races.db\" > \"$kept\" || exit 97";
    let scratch = tempfile::tempdir().unwrap();
    let [folder, report] = ["small", "report"].map(|name| scratch.path().join(name));
    fs::create_dir(&folder).unwrap();
    let store = format!("sqlite:{}/races.db", folder.display());
    let mut run = Command::new(gwp_race());
    run.arg("run").args(AGGRESSIVE).args(["--format", "json"]);
    run.args(["-o", report.to_str().unwrap(), "--store", &store, "--"]);
    run.arg(program("conduct/many_races.c")).args(["3", "2"]);
    let met = (0..TRIES).any(|_| {
        let (output, listed) = on_a_small_disk(&run, &folder, "size=480k,mode=0700", LIST);
        let said = text(&output.stderr);
        let found = |text: &str| {
            let lines = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            let races = lines.filter(|line: &Value| line["type"] == "race");
            let names = races.map(|race| race["identity"]["race"].as_str().unwrap().to_owned());
            names.collect::<Vec<_>>()
        };
        let kept: Vec<String> = (listed.lines())
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|race| race["race"].as_str().unwrap().to_owned())
            .collect();
        let told = found(&said);
        println!(
            "{} in the store, {} on standard error",
            kept.len(),
            told.len()
        );
        for name in found(&fs::read_to_string(&report).unwrap()) {
            assert!(
                kept.contains(&name) || told.contains(&name),
                "{name}: {said}"
            );
        }
        let is_full = said.contains("make room there");
        assert_eq!(is_full, !told.is_empty(), "{said}");
        assert_eq!(output.status.code() == Some(FAILED), is_full, "{said}");
        is_full
    });
    assert!(met);
}

/// Check that a race which a run finds is kept on a server by a user whose password is in his file of passwords, that it is listed, judged and known from there, and that the password is told nowhere.
#[test]
fn a_store_on_a_server() {
    let server = Server::start();
    let store = server.database_of("guarded").replace("tester", "guarded");
    let scratch = tempfile::tempdir().unwrap();
    let passwords = scratch.path().join("pgpass");
    fs::write(&passwords, "no line of one: s3cret\n*:*:*:guarded:s3cret\n").unwrap();
    fs::set_permissions(&passwords, fs::Permissions::from_mode(0o600)).unwrap();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(gwp_race());
        command.args(arguments).env("PGPASSFILE", &passwords);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(!text(&output.stderr).contains("s3cret"));
        output
    };
    let program = program("races/write_write.c");
    let program = program.to_str().unwrap();
    let run = [
        &["run"],
        &AGGRESSIVE[..],
        &["--store", &store, "--", program, "2", "2"],
    ]
    .concat();
    let list = ["races", "list", "--store", &store, "--format", "json"];
    let listed = (0..TRIES).find_map(|_| {
        let output = command(&run);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let listed = text(&command(&list).stdout);
        (!listed.is_empty()).then_some(listed)
    });
    let listed = listed.expect("not caught");
    let race: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let name = race["race"].as_str().unwrap();
    let triage = ["races", "triage", "--store", &store, name, "benign"];
    let output = command(&[&triage[..], &["--reason", "a test"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let listed = text(&command(&[&list[..], &["--state", "benign"]].concat()).stdout);
    assert!(listed.contains(name), "{listed}");
    // Without its password.
    let output = races(&["list", "--store", &store]);
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.contains("pg_hba.conf"),
        "{said}"
    );
}
