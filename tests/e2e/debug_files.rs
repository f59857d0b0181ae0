//! Names and lines from elsewhere: folders of debug files, and reports that get names later.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use gwp_race_tests::{
    binary::{gwp_race, root},
    report::{Race, Report},
    stripped::Stripped,
};
use serde_json::Value;

/// The functions of both sides, and the files and lines of the accesses, whichever was stalled.
fn places(race: &Race) -> [Vec<String>; 2] {
    let mut sides = race.accesses.each_ref().map(|access| {
        let frames = access.stack.iter();
        let told = frames.map(|frame| {
            let file = frame.file.as_deref().unwrap_or_default();
            let function = frame.function.as_deref().unwrap_or("?");
            format!("{function} {file}:{}", frame.line.unwrap_or_default())
        });
        told.collect::<Vec<_>>()
    });
    sides.sort();
    sides
}

fn has_names(race: &Race) -> bool {
    let sides = race.accesses.each_ref();
    let named = sides.map(|access| {
        let frame = &access.stack[0];
        frame.function.is_some() && frame.line.is_some()
    });
    named == [true; 2]
}

/// Fills in names, and checks that what comes is of the form that the documentation has.
fn symbolize(options: &[&str], file: &Path) -> (Report, String) {
    let mut command = Command::new(gwp_race());
    command.args(["races", "symbolize"]).args(options).arg(file);
    command.env_remove("DEBUGINFOD_URLS").stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let schema = fs::read_to_string(root().join("docs/report.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let wrong: Vec<_> = validator
            .iter_errors(&line)
            .map(|error| error.to_string())
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}: {line}");
    }
    (Report::read(&text).unwrap(), said)
}

/// Check that a stripped program's races have names and lines by a debug file in a folder that is named, and by nothing else; and that a folder which is not there is told
/// before anything is started.
#[test]
fn folders_that_are_named() {
    let stripped = Stripped::new();
    let debug = stripped.path("debug");
    stripped.lay_out(&debug);
    let debug = debug.to_str().unwrap();
    let without = stripped.caught("program", &[], &[]).report();
    assert!(!has_names(&without.races[0]), "{:?}", without.races[0]);
    let with = stripped
        .caught("program", &["--debug-dir", debug], &[])
        .report();
    assert!(has_names(&with.races[0]), "{:?}", with.races[0]);
    assert!(with.races[0].has_function("store_one") && with.races[0].has_function("store_other"));
    let mut command = Command::new(gwp_race());
    command.args(["run", "--debug-dir", "/absent", "--", "touch"]);
    let refused = command.arg(stripped.path("started")).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(125), "{said}");
    assert!(
        said.contains("--debug-dir") && said.contains("/absent"),
        "{said}"
    );
    assert!(!stripped.path("started").exists());
}

/// Check that a report of a stripped program has the names and lines of that program's own afterwards, identity and variable included, and that each race stays the pair that it was; that
/// it can be done twice; and that debug files of another build are not used, whatever they are called.
#[test]
fn reports_get_names() {
    let stripped = Stripped::new();
    let bare = stripped.caught("program", &[], &[]);
    let whole = stripped.caught("whole/program", &[], &[]).report();
    let file = stripped.path("bare.json");
    fs::write(&file, &bare.json).unwrap();
    // Neither is there anything at the module's own path.
    fs::rename(stripped.path("program"), stripped.path("moved")).unwrap();

    let debug = stripped.path("debug");
    fs::create_dir(&debug).unwrap();
    let options = ["--debug-dir", debug.to_str().unwrap()];
    let (nothing, said) = symbolize(&options, &file);
    let bare = bare.report();
    assert_eq!(places(&nothing.races[0]), places(&bare.races[0]));
    assert!(
        said.contains(stripped.build_id()) && said.contains("--debug-dir"),
        "{said}"
    );

    stripped.lay_out(&debug);
    let (named, said) = symbolize(&options, &file);
    assert!(!said.contains(stripped.build_id()), "{said}");
    let [bare, named, whole] = [&bare, &named, &whole].map(|report| &report.races[0]);
    assert_eq!(places(named), places(whole));
    let module = |race: &Race| race.accesses[0].module.clone().unwrap_or_default();
    assert_ne!(module(named), module(whole));
    assert_eq!(named.location.name, whole.location.name);
    for race in [bare, whole] {
        assert_eq!(named.identity.pair, race.identity.pair);
    }
    assert_eq!(named.identity.race, whole.identity.race);
    assert_eq!(named.identity.issue, whole.identity.issue);
    assert_eq!(named.fingerprint, bare.fingerprint);
    assert_ne!(named.identity.race, bare.identity.race);

    let output = stripped.path("named.json");
    let (again, said) = symbolize(&["-o", output.to_str().unwrap()], &file);
    assert!(
        again.races.is_empty() && said.contains(stripped.build_id()),
        "{said}"
    );
    let (_, said) = symbolize(&options, &output);
    assert!(!said.contains(stripped.build_id()), "{said}");

    // Of another build, where this one's would be, and in the module's own place.
    let (first, rest) = stripped.build_id().split_at(2);
    let other = Stripped::other();
    let place = debug.join(format!(".build-id/{first}/{rest}.debug"));
    fs::copy(other.path("program.debug"), &place).unwrap();
    fs::copy(other.path("whole/program"), stripped.path("program")).unwrap();
    let (nothing, said) = symbolize(&options, &file);
    assert_eq!(places(&nothing.races[0]), places(bare));
    assert!(said.contains(stripped.build_id()), "{said}");

    // The right one, to which a link leads out of the folder.
    fs::remove_file(&place).unwrap();
    symlink(stripped.path("program.debug"), &place).unwrap();
    let (nothing, said) = symbolize(&options, &file);
    assert_eq!(places(&nothing.races[0]), places(bare));
    assert!(said.contains(stripped.build_id()), "{said}");
    fs::remove_file(&place).unwrap();

    // The very build without symbols, beside which its debug file is found.
    fs::copy(stripped.path("moved"), stripped.path("program")).unwrap();
    stripped.lay_out(&debug);
    let (named, _) = symbolize(&options, &file);
    assert_eq!(places(&named.races[0]), places(whole));
}
