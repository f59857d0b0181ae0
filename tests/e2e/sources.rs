//! The lines of source around accesses.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use gwp_race_tests::{binary::gwp_race, watch::AGGRESSIVE, who::NOBODY};
use serde_json::Value;
use tempfile::TempDir;

/// Tries that a race takes at most.
const TRIES: usize = 5;
/// The line of all races.
const LINE: &str = "RACE(a) RACE(b) RACE(c) RACE(d) RACE(e) RACE(f) RACE(g) RACE(h)";

/// A program in a folder of its own, with its source.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        fs::create_dir_all(place.path("build/conduct")).unwrap();
        for file in ["conduct/many_races.c", "fixture.h"] {
            fs::copy(fixtures.join(file), place.path("build").join(file)).unwrap();
        }
        for folder in ["", "build", "build/conduct"] {
            fs::set_permissions(place.path(folder), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut compiler = Command::new("clang-22");
        compiler
            .args(["-g", "-O2", "-pthread", "-w"])
            .arg("-fexperimental-sanitize-metadata=atomics")
            .args(["-mllvm", "-enable-tail-merge=0", "-o"])
            .args([place.path("program"), place.source()]);
        assert!(compiler.status().unwrap().success());
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn source(&self) -> PathBuf {
        self.path("build/conduct/many_races.c")
    }

    /// What is reported of races and said besides, once there is one: of a program that these words run.
    fn reported(&self, options: &[&str], words: &[&str]) -> (String, String) {
        let output = self.path("report");
        for _ in 0..TRIES {
            let mut command = Command::new(gwp_race());
            command.arg("run").args(AGGRESSIVE).args(options);
            command.arg("-o").arg(&output).arg("--").args(words);
            // What these words execute is looked at anew.
            let seconds = if words.is_empty() { "2" } else { "6" };
            command.arg(self.path("program")).args([seconds, "2"]);
            let ran = command.stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert!(ran.status.success(), "{said}");
            let report = fs::read_to_string(&output).unwrap();
            if report.contains("many_races.c") {
                return (report, said);
            }
        }
        panic!("not caught in {TRIES} tries");
    }
}

/// The excerpts of a report: the column of the frame above, the line, and the column that is marked.
fn excerpts(report: &str) -> Vec<(usize, String, Option<usize>)> {
    let lines: Vec<&str> = report.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(column) = line.split("many_races.c:6:").nth(1) else {
            continue;
        };
        let column = column.split(' ').next().unwrap().parse();
        // The line before it, the line, and the mark.
        let text = lines[at + 2].split_once(" | ").map(|(_, text)| text);
        if let (Ok(column), Some(text), true) = (column, text, line.contains("    #")) {
            let marked = lines[at + 3].split_once("| ").map(|(_, mark)| mark);
            let marked = marked.filter(|mark| mark.trim() == "^");
            found.push((column, text.to_owned(), marked.map(str::len)));
        }
    }
    found
}

/// Check that a report shows the line of each access with its column marked, and those beside it; and that JSON has the lines, also when it is
/// written in another form.
#[test]
fn lines_are_shown() {
    let place = Place::new();
    let (report, _) = place.reported(&[], &[]);
    let shown = excerpts(&report);
    println!("{report}");
    assert!(!shown.is_empty(), "{report}");
    for (column, text, marked) in shown {
        assert_eq!((text.as_str(), marked), (LINE, Some(column)), "{report}");
    }
    assert!(!report.contains("(changed since the program was built)"));

    let (json, _) = place.reported(&["--format", "json"], &[]);
    let race: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    for access in race["accesses"].as_array().unwrap() {
        let source = &access["stack"][0]["source"];
        assert_eq!(source["lines"][1]["text"], LINE, "{access}");
        assert_eq!(source["lines"][1]["line"], 6);
        assert_eq!(source["changed"], false);
        assert!(access["stack"][1]["source"].is_null());
    }
    let mut export = Command::new(gwp_race());
    export
        .args(["export", "--format", "text"])
        .arg(place.path("report"));
    let output = export.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!excerpts(&text).is_empty(), "{text}");
}

/// Check that what a program of somebody else could not read itself is not shown, and is shown when it can.
#[test]
fn sources_that_the_program_may_not_read() {
    let place = Place::new();
    let source = place.source();
    let user = [
        "setpriv",
        "--reuid",
        NOBODY,
        "--regid",
        NOBODY,
        "--clear-groups",
    ];
    for (mode, is_shown) in [(0o600, false), (0o644, true)] {
        fs::set_permissions(&source, fs::Permissions::from_mode(mode)).unwrap();
        let (report, said) = place.reported(&["-v"], &user);
        assert_eq!(report.contains(LINE), is_shown, "{report}");
        assert_eq!(
            said.contains("many_races.c\": forbidden"),
            !is_shown,
            "{said}"
        );
    }
}

/// Check that a source which is not where it was when the program was built is not shown, but where the user says where it is now; in SARIF it has that name.
#[test]
fn sources_elsewhere() {
    let place = Place::new();
    let [build, here] = ["build", "here"].map(|name| place.path(name));
    fs::rename(&build, &here).unwrap();
    let (report, said) = place.reported(&["-v"], &[]);
    assert!(!report.contains(LINE), "{report}");
    assert!(said.contains("many_races.c\": missing"), "{said}");
    let map = format!("{}={}", build.display(), here.display());
    let (report, _) = place.reported(&["--source-map", &map], &[]);
    assert!(!excerpts(&report).is_empty(), "{report}");
    let options = [
        "--source-map",
        &map,
        "--source-root",
        here.to_str().unwrap(),
    ];
    let (sarif, _) = place.reported(&[&options[..], &["--format", "sarif"]].concat(), &[]);
    assert!(
        sarif.contains("\"uri\":\"conduct/many_races.c\""),
        "{sarif}"
    );
}
