//! A corpus of races (`tests/fixtures/identity`), built in several ways: the same races must have the same names, and different ones must have different names.
//!
//! Detection is left out, since it takes luck. Both accesses of each race are real ones of a real process ([`shown`]), whose stacks are then unwound, named and made a race of
//! as those of any finding.

mod shown;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use super::{side, variable};
use crate::report::build::build_race;
use crate::report::model::Race;
use crate::symbols::Symbolizer;
use crate::symbols::tests::child::tool;
use shown::{Run, run};

/// How many races the corpus has at least.
const RACES: usize = 50;
/// Of a hundred races and builds, in how many the name is the same at least.
const EQUAL: usize = 95;

const MARK: &str = "/* ABOVE */\n";
const LINES: &str = "/* A new\n * comment.\n */\n\nstruct unrelated;\n";
const SOURCES: [&str; 8] = [
    "corpus.h",
    "main.c",
    "driver.c",
    "network.c",
    "library.c",
    "shapes.cpp",
    "more.cpp",
    "shapes.rs",
];

/// A way to build it.
struct Build {
    name: &'static str,
    compilers: [&'static str; 2],
    flags: &'static [&'static str],
    rust: &'static [&'static str],
    /// What stands above the code of each file.
    above: &'static str,
    link: &'static [&'static str],
}

const BASE: Build = Build {
    name: "base",
    compilers: ["clang-22", "clang++-22"],
    flags: &["-O1"],
    rust: &["-Copt-level=1"],
    above: "",
    link: &[],
};

const OTHERS: [Build; 5] = [
    Build {
        name: "lines above",
        above: LINES,
        ..BASE
    },
    Build {
        name: "-O2",
        flags: &["-O2"],
        rust: &["-Copt-level=3"],
        ..BASE
    },
    Build {
        name: "-O0",
        flags: &["-O0"],
        rust: &["-Copt-level=0"],
        ..BASE
    },
    Build {
        name: "no PIE, other paths",
        flags: &[
            "-O1",
            "-fno-pie",
            "-ffile-prefix-map=/tmp=/build",
            "-gdwarf-4",
        ],
        rust: &[
            "-Copt-level=1",
            "--remap-path-prefix=/tmp=/build",
            "-Csymbol-mangling-version=v0",
        ],
        link: &["-no-pie"],
        ..BASE
    },
    Build {
        name: "another compiler",
        compilers: ["clang-16", "clang++-16"],
        flags: &["-O2"],
        ..BASE
    },
];

/// Builds the program into a folder of its own.
fn compile(dir: &Path, build: &Build) -> PathBuf {
    let dir = dir.join(build.name.replace(' ', "-"));
    fs::create_dir(&dir).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/identity");
    for name in SOURCES {
        let source = fs::read_to_string(fixtures.join(name)).unwrap();
        assert!(source.contains(MARK), "{name}");
        fs::write(dir.join(name), source.replace(MARK, build.above)).unwrap();
    }
    let [c, cpp] = build.compilers;
    let with = |compiler: &str, more: &[&str]| {
        let usual = ["-g", "-w", "-Wl,--build-id"];
        tool(&dir, compiler, &[&usual[..], build.flags, more].concat());
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            with(c, &["-fPIC", "-shared", "library.c", "-o", "liblibrary.so"]);
            with(c, &["-c", "main.c", "driver.c", "network.c"]);
            // The linker gives it a build id where it is told to.
            let usual = [
                "--edition=2024",
                "-g",
                "-Clink-arg=-Wl,--build-id",
                "--crate-type=cdylib",
            ];
            let rust = [&usual[..], build.rust, &["shapes.rs"]].concat();
            tool(&dir, "rustc", &rust);
        });
        with(cpp, &["-c", "shapes.cpp", "more.cpp"]);
    });
    let objects = ["main.o", "driver.o", "network.o", "shapes.o", "more.o"];
    let libraries = ["liblibrary.so", "libshapes.so", "-Wl,-rpath,$ORIGIN"];
    // Whoever steps through a first call would step through the loader.
    let whole = ["-Wl,-z,now", "-o", "corpus"];
    with(
        cpp,
        &[&objects[..], &libraries, &whole, build.link].concat(),
    );
    dir.join("corpus")
}

/// The races of a run by their names in the corpus.
type Races = BTreeMap<String, Race>;

fn races(run: &Run, debug_dirs: &[PathBuf]) -> Races {
    let mut symbolizer = Symbolizer::with_debug_dirs(debug_dirs.to_vec());
    symbolizer.set_modules(&run.modules);
    let races = run.races.iter().map(|shown| {
        let race = build_race(&mut symbolizer, &shown.finding, &shown.maps);
        (shown.name.clone(), race)
    });
    races.collect()
}

/// Takes symbols and debug information out of the program and its libraries, and puts them beside, as distributions do.
fn strip(program: &Path, debug: &Path) {
    let dir = program.parent().unwrap();
    fs::create_dir_all(debug.join(".build-id")).unwrap();
    for name in ["corpus", "liblibrary.so", "libshapes.so"] {
        let bytes = fs::read(dir.join(name)).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let id = object::Object::build_id(&file).unwrap().unwrap();
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let (folder, rest) = id.split_at(2);
        let folder = debug.join(".build-id").join(folder);
        fs::create_dir_all(&folder).unwrap();
        let debug_file = folder.join(format!("{rest}.debug"));
        let debug_file = debug_file.to_str().unwrap();
        tool(dir, "objcopy", &["--only-keep-debug", name, debug_file]);
        tool(dir, "strip", &[name]);
    }
}

/// What the name of a race is made of, for whoever wonders why two differ.
fn parts(race: &Race) -> String {
    let [first, second] = race.accesses.each_ref().map(side);
    format!("{first} | {second} | {}", variable(race))
}

/// How many races have another name in another build; prints them, and of what their names are made.
fn compare(name: &str, base: &Races, other: &Races) -> usize {
    assert!(base.keys().eq(other.keys()), "{name}: other races");
    let differ = base.iter().filter(|(race, of_base)| {
        let of_other = &other[*race];
        let is_equal = of_base.identity.race == of_other.identity.race;
        if !is_equal {
            println!(
                "{name}: {race}:\n  {}\n  {}",
                parts(of_base),
                parts(of_other)
            );
        }
        !is_equal
    });
    let differ = differ.count();
    println!("{name}: {} of {} equal", base.len() - differ, base.len());
    differ
}

/// Check that at least 95 of 100 races of the corpus keep their name in other builds, each with its own, and that no two races have one name in whatever builds.
#[test]
fn fifty_races_in_six_builds() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), &BASE);
    let base = races(&run(&program), &[]);
    assert!(base.len() >= RACES);
    let mut all: Vec<(&str, Races)> = Vec::new();
    for build in &OTHERS {
        let program = compile(dir.path(), build);
        all.push((build.name, races(&run(&program), &[])));
    }
    let debug = dir.path().join("debug");
    strip(&program, &debug);
    let stripped = run(&program);
    all.push(("stripped", races(&stripped, &[debug])));

    let mut differ = 0;
    for (name, other) in &all {
        differ += compare(name, &base, other);
    }
    let count = all.len() * base.len();
    println!("{} of {count} equal", count - differ);

    // Where nothing has the names of functions, a race is the pair of its instructions.
    let nameless = races(&stripped, &[]);
    for (name, race) in &nameless {
        assert_eq!(race.identity.pair, base[name].identity.pair, "{name}");
        assert!(race.identity.pair.is_some(), "{name}");
    }

    let mut owners: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    all.push(("base", base.clone()));
    all.push(("stripped, without the debug file", nameless));
    let mut merged = 0;
    for (build, races) in &all {
        for (name, race) in races {
            let owner = owners.entry(&race.identity.race).or_insert((name, build));
            if owner.0 != name {
                println!("merged: {name} ({build}) and {owner:?}: {}", parts(race));
                merged += 1;
            }
        }
    }
    assert_eq!(merged, 0, "different races have one name");
    assert!(
        (count - differ) * 100 >= count * EQUAL,
        "{differ} of {count} differ"
    );
}
