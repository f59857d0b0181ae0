//! Frames beside those of llvm-symbolizer, for addresses all over a program.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::super::elf_file::ElfFile;
use super::super::{ModuleInfo, Symbolizer};
use super::child::{sources, tool};
use crate::kernel::process::thread_cpu_time_ns;

/// Much that is inlined into each other, and code of the standard library's headers in several units.
const FIRST: &str = r#"
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>
int second(std::vector<int> &numbers);
static int cold(int n) { return n * 3; }
int main(int argc, char **argv) {
    std::map<std::string, std::vector<int>> words;
    for (int i = 0; i < argc; i++)
        words[argv[i]].push_back(cold(i));
    int sum = 0;
    for (auto &[word, numbers] : words) {
        std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return a > b; });
        sum += std::accumulate(numbers.begin(), numbers.end(), 0) + second(numbers);
    }
    return sum;
}
"#;
const SECOND: &str = r#"
#include <algorithm>
#include <vector>
int second(std::vector<int> &numbers) {
    std::stable_sort(numbers.begin(), numbers.end());
    return numbers.empty() ? 0 : numbers.front();
}
"#;

/// File, line and column of each frame at an address, the innermost first.
type Places = Vec<(String, u64, u64)>;

fn theirs(program: &Path, addresses: &[u64]) -> Vec<Places> {
    let mut child = Command::new("llvm-symbolizer-22")
        .args(["--output-style=JSON", "--inlines", "--obj"])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("llvm-symbolizer-22 is installed");
    let mut questions = child.stdin.take().unwrap();
    let lines: String = addresses.iter().map(|at| format!("{at:#x}\n")).collect();
    let writer = std::thread::spawn(move || questions.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let places = |answer: &str| {
        let answer: Value = serde_json::from_str(answer).unwrap();
        let frames = answer["Symbol"].as_array().cloned().unwrap_or_default();
        let place = |frame: &Value| {
            let file = frame["FileName"].as_str().unwrap_or_default().to_owned();
            let number = |name: &str| frame[name].as_u64().unwrap_or(0);
            match number("Line") {
                // What belongs to no line we do not name a file of.
                0 => (String::new(), 0, 0),
                line => (file, line, number("Column")),
            }
        };
        frames.iter().map(place).collect()
    };
    let answers = String::from_utf8(output.stdout).unwrap();
    answers.lines().map(places).collect()
}

fn ours(program: &Path, addresses: &[u64]) -> Vec<Places> {
    let mut symbolizer = Symbolizer::with_debug_dirs(Vec::new());
    symbolizer.add_module(&ModuleInfo {
        path: program.display().to_string(),
        via: program.to_owned().into(),
        start: 0,
        end: u64::MAX,
        bias: 0,
        build_id: Vec::new(),
    });
    let places = |&at: &u64| {
        let frames = symbolizer.frames(at).into_iter();
        let place = frames.map(|frame| {
            let number = |number: Option<u32>| number.unwrap_or(0).into();
            let file = frame.file.unwrap_or_default();
            (file, number(frame.line), number(frame.column))
        });
        place.collect()
    };
    addresses.iter().map(places).collect()
}

/// Compares the frames at addresses all over a program's code.
fn compare(program: &Path) {
    const MOST: u64 = 20_000;
    const STEP: u64 = 4;
    let text = ElfFile::open(program).unwrap();
    let text = text.section(".text").expect("code");
    let step = (text.size / MOST).next_multiple_of(STEP).max(STEP);
    let addresses = (0..text.size / step).map(|number| text.addr + number * step);
    let addresses: Vec<u64> = addresses.collect();
    let theirs = theirs(program, &addresses);
    let before = thread_cpu_time_ns();
    let ours = ours(program, &addresses);
    let each = (thread_cpu_time_ns() - before) / addresses.len() as u64;
    println!("{each} ns of CPU for each of {} addresses", addresses.len());
    assert_eq!(theirs.len(), addresses.len());
    let all = addresses.iter().zip(theirs.iter().zip(&ours));
    let known = all.filter(|(_, (theirs, _))| theirs.iter().any(|(_, line, _)| *line > 0));
    let (mut compared, mut differing) = (0, Vec::new());
    for (at, (theirs, ours)) in known {
        compared += 1;
        if theirs != ours {
            differing.push((at, theirs, ours));
        }
    }
    assert!(compared > 1000, "{compared} of {}", addresses.len());
    let first = differing.iter().take(3).collect::<Vec<_>>();
    assert!(
        differing.is_empty(),
        "{}: {} of {compared} differ: {first:#x?}",
        program.display(),
        differing.len()
    );
}

/// Check that frames are those of llvm-symbolizer, with DWARF 4 and 5 of clang and gcc, compressed and not, and in
/// another file.
#[test]
fn like_llvm_symbolizer() {
    for (compiler, flags) in [
        ("clang++-22", &["-O2", "-gdwarf-5"][..]),
        (
            "clang++-22",
            &["-O1", "-gdwarf-4", "-gz=zlib", "-ffunction-sections"],
        ),
        ("clang++-22", &["-O2", "-gdwarf-5", "-gsplit-dwarf"]),
        ("g++", &["-O2", "-gdwarf-5"]),
        ("g++", &["-O3", "-gdwarf-4", "-ffunction-sections"]),
    ] {
        let dir = sources(&[("first.cpp", FIRST), ("second.cpp", SECOND)]);
        let sources = ["first.cpp", "second.cpp", "-std=c++17", "-o", "program"];
        tool(dir.path(), compiler, &[flags, &sources].concat());
        compare(&dir.path().join("program"));
    }
}

/// Compares any program, by hand: `GWP_RACE_TEST_PROGRAM=FILE cargo test -p gwp-race --lib any_program -- --ignored`.
#[test]
#[ignore = "wants the name of a program"]
fn any_program() {
    compare(Path::new(
        &std::env::var_os("GWP_RACE_TEST_PROGRAM").expect("a program"),
    ));
}
