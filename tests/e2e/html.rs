//! Reports as a page of HTML. What is on such a page is checked by a parser of HTML beside the code that writes it; here real races are on it, and what real programs have named.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use gwp_race_tests::{
    Configuration, Program, binary::gwp_race, compile, executable, watch::AGGRESSIVE,
};

/// Tries that a race takes at most.
const TRIES: usize = 5;
/// What begins each race of a page.
const RACE: &str = "<article id=\"race-";
/// A file is called so: it would be an element of a page, were it not escaped.
const HOSTILE: &str = "a\"'><img src=x onerror=alert(1)>&b";

/// Compiles a fixture into a folder, with a name that is hostile.
fn built(source: &'static str, folder: &Path) -> String {
    let program = folder.join(HOSTILE);
    let built = compile::program(&Program::new(source), Configuration::USUAL).unwrap();
    executable::copy(built, &program);
    program.to_str().unwrap().to_owned()
}

fn run(options: &[&str], program: &[&str]) -> Output {
    let mut command = Command::new(gwp_race());
    command.arg("run").args(AGGRESSIVE).args(options);
    command.arg("--").args(program);
    command.stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Check that a run writes a page with its races, their source and the program; that no name of the program is anything but text; and that a disk which is full costs no race.
#[test]
fn html_of_a_run() {
    let scratch = tempfile::tempdir().unwrap();
    let program = built("conduct/many_races.c", scratch.path());
    let file = scratch.path().join("races.html");
    let name = file.to_str().unwrap();
    let found = (0..TRIES).any(|_| {
        let options = ["--format", "html", "-q", "-o", name];
        let output = run(&options, &[&program, "2", "2"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let page = fs::read_to_string(&file).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
        assert!(page.contains("onerror=alert") && !page.contains("<img"));
        assert!(page.contains("<dt>Program</dt>") && page.contains("build id"));
        assert!(page.contains("All figures"));
        let races = page.matches(RACE).count();
        println!("{races} races, {} bytes", page.len());
        if races > 0 {
            assert!(page.contains("increment_") && page.contains("many_races.c:"));
            assert!(page.contains("<mark>") && page.contains("identity:r3:"));
        }
        races > 0
    });
    assert!(found);
    let told = (0..TRIES).any(|_| {
        let options = ["--format", "html", "-o", "/dev/full"];
        let output = run(&options, &[&program, "2", "2"]);
        let said = text(&output.stderr);
        assert!(said.contains("No space left on device"), "{said}");
        assert_eq!(output.status.code(), Some(125), "{said}");
        said.contains("WARNING: gwp-race: data race")
    });
    assert!(told);
}

/// Check that a run without races says so, and which program was watched.
#[test]
fn html_without_races() {
    let scratch = tempfile::tempdir().unwrap();
    let program = built("silent/mutex.c", scratch.path());
    let options = ["--format", "html", "-o", "-"];
    let output = run(&options, &[&program, "1", "2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    assert!(page.contains("<h1>No data race was caught in a"), "{page}");
    assert!(page.contains("which does not prove that there is none."));
    assert!(page.contains("Memory was watched for "));
    assert!(page.contains("onerror=alert") && !page.contains("<img"));
    assert!(!page.contains(RACE));
}

/// Check that races which were found before a run was killed are on a page that says that the rest is not known, and that what is on a page of a whole run is that of its record.
#[test]
fn html_of_a_record() {
    let scratch = tempfile::tempdir().unwrap();
    let program = built("conduct/many_races.c", scratch.path());
    let file = scratch.path().join("races.json");
    let name = file.to_str().unwrap();
    let page = || {
        let mut command = Command::new(gwp_race());
        command.args(["export", "--format", "html", name]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    for _ in 0..TRIES {
        let output = run(&["--format", "json", "-o", name], &[&program, "2", "2"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let record = fs::read_to_string(&file).unwrap();
        let (races, _summary) = record.trim_end().rsplit_once('\n').unwrap_or_default();
        let count = races.lines().count();
        let whole = page();
        assert_eq!(whole.matches(RACE).count(), count);
        assert!(whole.contains("Memory was watched for ") && !whole.contains("no summary"));
        if count > 0 {
            fs::write(&file, format!("{races}\n")).unwrap();
            let cut = page();
            assert_eq!(cut.matches(RACE).count(), count);
            assert!(cut.contains("the record has no summary"), "{cut}");
            assert!(!cut.contains("Memory was watched for ") && !cut.contains("<img"));
            return;
        }
    }
    panic!("no race in {TRIES} tries");
}
