//! What races are called: the same in other builds of a program that was changed elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use gwp_race_tests::{Until, Watch, binary::fixtures, report::Race};

/// Runs of one build at most, and for how many seconds each. Races are caught by luck.
const RUNS: u32 = 12;
const SECONDS: &str = "3";

const USUAL: [&str; 7] = [
    "-g",
    "-pthread",
    "-w",
    "-fexperimental-sanitize-metadata=atomics",
    "-mllvm",
    "-enable-tail-merge=0",
    "-o",
];

/// One way to build the fixture.
pub struct Build {
    pub name: &'static str,
    pub compiler: &'static str,
    pub flags: &'static [&'static str],
    /// What stands above the races.
    pub above: &'static str,
}

const LINES: &str = "/* A new\n * comment.\n */\n\nstatic int unrelated;\n";
const FUNCTION: &str = "static __attribute__((used, noinline)) int more(int of) {\n    return of * of + 17;\n}\n\nstatic long other[4];\n";

const BUILDS: [Build; 6] = [
    Build {
        name: "usual",
        compiler: "clang-22",
        flags: &["-O2"],
        above: "",
    },
    Build {
        name: "lines",
        compiler: "clang-22",
        flags: &["-O2"],
        above: LINES,
    },
    Build {
        name: "function",
        compiler: "clang-22",
        flags: &["-O2"],
        above: FUNCTION,
    },
    Build {
        name: "less-optimized",
        compiler: "clang-22",
        flags: &["-O1"],
        above: "",
    },
    Build {
        name: "other-folder",
        compiler: "clang-22",
        flags: &["-O2", "-ffile-prefix-map=/tmp=/build/gcc-like", "-gdwarf-4"],
        above: "",
    },
    Build {
        name: "other-compiler",
        compiler: "clang-16",
        flags: &["-O2"],
        above: "",
    },
];

pub fn compile(folder: &Path, build: &Build) -> PathBuf {
    fs::copy(fixtures().join("fixture.h"), folder.join("fixture.h")).unwrap();
    let folder = folder.join(build.name);
    fs::create_dir(&folder).unwrap();
    let source = fs::read_to_string(fixtures().join("races/rebuilt.c")).unwrap();
    assert!(source.contains("/* ABOVE */\n"));
    let changed = folder.join("rebuilt.c");
    fs::write(&changed, source.replace("/* ABOVE */\n", build.above)).unwrap();
    let program = folder.join("rebuilt");
    let status = Command::new(build.compiler)
        .args(build.flags)
        .args(USUAL)
        .arg(&program)
        .arg(&changed)
        .status();
    assert!(status.unwrap().success(), "{}", build.name);
    program
}

/// What is meant by a race to a reader of the fixture: its functions, what they do, and the variable.
fn meaning(race: &Race) -> String {
    let mut sides = race.accesses.each_ref().map(|access| {
        let kind = if access.kind == "read" {
            "reads"
        } else {
            "writes"
        };
        let function = access
            .stack
            .first()
            .and_then(|frame| frame.function.clone());
        format!("{} {kind}", function.unwrap_or_default())
    });
    sides.sort();
    let location = &race.location;
    let member = location.member.as_deref().unwrap_or_default();
    let name = location.name.as_deref().unwrap_or_default();
    let name = name.split('.').next().unwrap_or_default();
    format!("{name}{member}: {}", sides.join(", "))
}

/// The names of the races of one build, by their meaning: those of races and those of issues.
fn names(
    program: &Path,
    wanted: &BTreeSet<String>,
) -> BTreeMap<String, BTreeSet<(String, String)>> {
    let mut found: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
    for _ in 0..RUNS {
        let outcome = Watch::aggressive()
            .run(program, &[SECONDS], Until::End)
            .unwrap();
        for race in &outcome.report.races {
            let names = (race.identity.race.clone(), race.identity.issue.clone());
            found.entry(meaning(race)).or_default().insert(names);
        }
        let is_enough = |wanted: &String| found.contains_key(wanted);
        if !wanted.is_empty() && wanted.iter().all(is_enough) {
            break;
        }
    }
    found
}

/// Check that races keep their names in builds with lines and functions above them, with another optimization, in another folder and by
/// another compiler, and that those of two members, or two functions, have two.
#[test]
fn names_outlive_rebuilds() {
    let folder = tempfile::tempdir().unwrap();
    let wanted: BTreeSet<String> = [
        "statistics.hits: count writes, show reads",
        "statistics.of_each[].most: note writes, show reads",
        "total: add writes, show reads",
    ]
    .map(str::to_owned)
    .into();
    let mut reference: Option<BTreeMap<String, BTreeSet<(String, String)>>> = None;
    for build in &BUILDS {
        let program = compile(folder.path(), build);
        let found = names(&program, &wanted);
        println!("{}: {found:#?}", build.name);
        let races: Vec<_> = wanted
            .iter()
            .map(|wanted| {
                let names = found.get(wanted);
                let names =
                    names.unwrap_or_else(|| panic!("{}: {wanted} was not caught", build.name));
                assert_eq!(names.len(), 1, "{}: {wanted}", build.name);
                names.first().unwrap().clone()
            })
            .collect();
        let different: BTreeSet<_> = races.iter().map(|(race, _)| race).collect();
        assert_eq!(different.len(), wanted.len(), "{races:?}");
        let reference = reference.get_or_insert_with(|| found.clone());
        for wanted in &wanted {
            assert_eq!(found[wanted], reference[wanted], "{}: {wanted}", build.name);
        }
    }
}
