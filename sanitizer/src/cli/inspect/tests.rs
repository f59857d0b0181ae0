//! What `inspect` prints of files and processes.

use std::process::{Command, Stdio};

use super::*;
use crate::pcmeta::Metadata;
use crate::symbols::FileTables;

const SOURCE: &str = "#include <unistd.h>
    _Atomic int flag; int plain;
    __attribute__((noinline)) void publish(void) { plain = 1; flag = 2; }
    int main(void) {
        publish(); write(1, \"x\", 1); char c = 0; read(0, &c, 1);
        if (c == 'y') write(1, \"y\", 1);
        return 0;
    }";

fn build(flags: &[&str]) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input.c");
    let output = dir.path().join("output");
    std::fs::write(&input, SOURCE).unwrap();
    let mut command = Command::new("clang-22");
    let status = command
        .args(flags)
        .arg(&input)
        .arg("-o")
        .arg(&output)
        .status();
    assert!(
        status
            .expect("clang-22 is needed: cargo xtask setup")
            .success()
    );
    let path = output.to_str().unwrap().to_owned();
    (dir, path)
}

/// The program in execution: it has written its letter, so its libraries are loaded.
fn started(path: &str) -> std::process::Child {
    let mut child = Command::new(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    child
}

fn args(target: &str, list: bool, json: bool) -> InspectArgs {
    InspectArgs {
        targets: vec![target.to_owned()],
        list,
        json,
        pc_section: Vec::new(),
        pc_sections: None,
        debug_files: crate::cli::debug_files::DebugDirArgs::default(),
    }
}

fn text(target: &str, list: bool) -> (bool, String) {
    let mut out = Vec::new();
    let found = inspect(&args(target, list, false), &mut out).unwrap();
    (found, String::from_utf8(out).unwrap())
}

fn lines(target: &str, list: bool) -> Vec<serde_json::Value> {
    let mut out = Vec::new();
    inspect(&args(target, list, true), &mut out).unwrap();
    let lines = String::from_utf8(out).unwrap();
    lines.lines().map(schema::parsed).collect()
}

#[test]
fn a_file_is_summed_up_and_listed() {
    let (_dir, path) = build(&["-O1", "-fexperimental-sanitize-metadata=atomics"]);
    let (found, summary) = text(&path, false);
    assert!(found);
    for part in [
        "sanmd_covered2      2 entries, version 2",
        "2 covered, 2 analyzed",
        "atomics    1 instructions",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    let (_, listed) = text(&path, true);
    assert!(listed.starts_with(&summary));
    assert!(
        listed.contains(" publish\n") && listed.contains(" publish+0x"),
        "{listed}"
    );

    let [line] = &lines(&path, true)[..] else {
        panic!()
    };
    assert_eq!(line["functions_analyzed"], 2);
    assert_eq!(line["sections"][0]["formats"][0]["version"], 2);
    assert_eq!(line["function_list"].as_array().unwrap().len(), 2);
    assert_eq!(line["atomic_list"].as_array().unwrap().len(), 1);
    let share = line["analyzed_percent"].as_f64().unwrap();
    assert!(share > 1.0 && share < 99.0, "{share}");
    let size = std::fs::metadata(&path).unwrap().len() as f64;
    let bytes = line["metadata_bytes"].as_f64().unwrap();
    let share = line["metadata_percent"].as_f64().unwrap();
    assert!((share - bytes * 100.0 / size).abs() < 1e-9, "{share}");
}

#[test]
fn sections_of_one_name_are_one_line() {
    let flags = ["-O1", "-c", "-ffunction-sections"];
    let (_dir, path) = build(&[&flags[..], &["-fexperimental-sanitize-metadata=atomics"]].concat());
    let (_, summary) = text(&path, false);
    assert_eq!(summary.matches("sanmd_covered2").count(), 1, "{summary}");
    assert!(
        summary.contains("sanmd_covered2      2 entries, version 2"),
        "{summary}"
    );
}

#[test]
fn a_file_without_metadata_tells_how_to_build_it() {
    let (_dir, path) = build(&["-O1"]);
    let (found, message) = text(&path, true);
    assert!(!found);
    assert!(
        message.contains("no metadata; build it with clang -fexperimental"),
        "{message}"
    );
    assert_eq!(lines(&path, false)[0]["functions_covered"], 0);
    let (_dir, path) = build(&["-O1", "-fexperimental-sanitize-metadata=covered"]);
    let (_, message) = text(&path, false);
    assert!(
        message.contains("nothing was analyzed for atomics; build it"),
        "{message}"
    );
}

#[test]
fn a_file_without_section_headers_is_told_from_one_without_metadata() {
    let (_dir, path) = build(&["-O1", "-fexperimental-sanitize-metadata=atomics"]);
    let status = Command::new("llvm-strip-22")
        .args(["--strip-sections", &path])
        .status();
    assert!(status.unwrap().success());
    let (found, message) = text(&path, false);
    assert!(!found);
    assert!(
        message.contains("section headers are stripped"),
        "{message}"
    );
}

#[test]
fn errors_name_the_file_and_the_process() {
    let error = |target: &str| {
        format!(
            "{:#}",
            inspect(&args(target, false, false), &mut Vec::new()).unwrap_err()
        )
    };
    assert!(error("/etc/passwd").starts_with("/etc/passwd: not an ELF file"));
    assert!(error("/nonexistent").contains("/nonexistent"));
    assert!(error("2147483646").contains("cannot look at process 2147483646"));
}

#[test]
fn every_module_of_a_process_is_shown() {
    let (_dir, path) = build(&["-O1", "-fexperimental-sanitize-metadata=atomics"]);
    let mut child = started(&path);
    let pid = child.id().to_string();
    let (found, shown) = text(&pid, false);
    let modules = lines(&pid, false);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(found);
    assert!(shown.contains(&format!("{path}:\n")), "{shown}");
    assert!(shown.contains("libc.so.6: no metadata"), "{shown}");
    assert!(shown.contains("1 of "), "{shown}");
    let program = modules
        .iter()
        .find(|module| module["file"] == path.as_str())
        .unwrap();
    assert_eq!(program["functions_analyzed"], 2);
}

/// Check that sections are decoded as the options and a file of descriptions say, and that one
/// which is not there is an error.
#[test]
fn described_sections_are_decoded() {
    let (dir, path) = build(&["-O1", "-fexperimental-sanitize-metadata=atomics"]);
    let list = dir.path().join("sections");
    std::fs::write(
        &list,
        "# those of the detector\n\n  sanmd_atomics2=instruction\n",
    )
    .unwrap();
    let mut asked = args(&path, true, true);
    asked.pc_section = vec!["sanmd_covered2!C=function,4".parse().unwrap()];
    asked.pc_sections = Some(list.clone());
    let mut out = Vec::new();
    assert!(inspect(&asked, &mut out).unwrap());
    let lines: Vec<serde_json::Value> = (String::from_utf8(out).unwrap().lines())
        .map(schema::parsed)
        .collect();
    let [module, entries @ ..] = &lines[..] else {
        panic!()
    };
    assert_eq!(module["tables"]["pc_sections"][0]["entries"], 2);
    assert_eq!(module["tables"]["pc_sections"][1]["entries"], 1);
    // The same as what the detector makes of these sections.
    for (entry, function) in entries
        .iter()
        .zip(module["function_list"].as_array().unwrap())
    {
        for field in ["address", "size", "symbol"] {
            assert_eq!(entry[field], function[field]);
        }
        assert_eq!(entry["constants"], serde_json::json!([1]));
    }
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[2]["address"], module["atomic_list"][0]["address"]);

    asked.pc_section = vec!["missing=instruction".parse().unwrap()];
    let error = inspect(&asked, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("no section is called missing"), "{error}");
    std::fs::write(&list, "sanmd_atomics2=instruction\nsanmd_covered2=\n").unwrap();
    let error = format!("{:#}", inspect(&asked, &mut Vec::new()).unwrap_err());
    assert!(
        error.contains("sections:2: ") && error.contains("neither"),
        "{error}"
    );
}

/// A program with metadata and side tables whose block map says that it is of the version 6.
fn build_with_newer_block_map() -> (tempfile::TempDir, String) {
    let (dir, path) = build(&[
        "-O1",
        "-fexperimental-sanitize-metadata=atomics",
        "-fbasic-block-address-map",
        "-fstack-size-section",
    ]);
    let map = dir.path().join("map");
    let objcopy = |flag: &str| {
        let status = Command::new("llvm-objcopy-22")
            .arg(format!("{flag}=.llvm_bb_addr_map={}", map.display()))
            .arg(&path)
            .status();
        assert!(status.unwrap().success());
    };
    objcopy("--dump-section");
    let mut bytes = std::fs::read(&map).unwrap();
    assert_eq!(bytes[0], 5);
    bytes[0] = 6;
    std::fs::write(&map, bytes).unwrap();
    objcopy("--update-section");
    (dir, path)
}

/// Check that a table of a newer version hides no other, is named with its version, and that a
/// watch tells that it is left out.
#[test]
fn a_table_that_cannot_be_read_hides_no_other() {
    let (_dir, path) = build_with_newer_block_map();
    let (found, summary) = text(&path, true);
    assert!(found);
    for part in [
        "sanmd_covered2      2 entries, version 2",
        " stack sizes\n",
        "  unreadable ",
        "section .llvm_bb_addr_map at offset 0x0: it has version 6 from here on",
        "  frame    0x",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    assert!(!summary.contains("  blocks"), "{summary}");
    let module = &lines(&path, true)[0];
    assert_eq!(module["functions_analyzed"], 2);
    assert!(module["tables"]["stack_sizes"]["functions"].as_u64() >= Some(2));
    assert_eq!(module["errors"].as_array().unwrap().len(), 1);

    let left_out = FileTables::left_out(&Image::open(path.as_ref()).unwrap(), || None);
    assert!(
        left_out.len() == 1 && left_out[0].contains("version 6"),
        "{left_out:?}"
    );

    let mut child = started(&path);
    let (found, shown) = text(&child.id().to_string(), false);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(found && shown.contains("1 of "), "{shown}");
    assert!(shown.contains("version 6"), "{shown}");
    assert!(!shown.contains("no race can be found"), "{shown}");
}

/// Check that the entries before one that cannot be read are shown.
#[test]
fn what_can_be_read_of_a_table_is_shown() {
    let (dir, path) = build(&["-O1", "-fstack-size-section"]);
    let all = lines(&path, false)[0]["tables"]["stack_sizes"]["functions"]
        .as_u64()
        .unwrap();
    let file = dir.path().join("sizes");
    let flag = |flag: &str| format!("--{flag}-section=.stack_sizes={}", file.display());
    let objcopy = |flag: String| {
        let status = Command::new("llvm-objcopy-22")
            .arg(flag)
            .arg(&path)
            .status();
        assert!(status.unwrap().success());
    };
    objcopy(flag("dump"));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.pop();
    std::fs::write(&file, bytes).unwrap();
    objcopy(flag("update"));
    let module = &lines(&path, false)[0];
    assert_eq!(module["tables"]["stack_sizes"]["functions"], all - 1);
    let error = module["errors"][0].as_str().unwrap();
    assert!(
        error.contains("section .stack_sizes at offset 0x"),
        "{error}"
    );
}

/// Check that sections are decompressed, whichever way the linker has compressed them.
#[test]
fn compressed_tables_are_shown() {
    let flags = [
        "-O1",
        "-fuse-ld=lld-22",
        "-fexperimental-sanitize-metadata=atomics",
        "-fbasic-block-address-map",
        "-fstack-size-section",
    ];
    let (_dir, plain) = build(&flags);
    let expected = lines(&plain, true);
    for form in ["zlib", "zstd"] {
        for sections in [".llvm*", ".llvm_bb_addr_map"] {
            let option = format!("-Wl,--compress-sections={sections}={form}");
            let (_dir, path) = build(&[&flags[..], &[&option]].concat());
            let image = Image::open(path.as_ref()).unwrap();
            assert!(image.section(".llvm_bb_addr_map").unwrap().is_compressed);
            let shown = lines(&path, true);
            assert_eq!(shown.len(), expected.len());
            assert_eq!(shown[0]["tables"], expected[0]["tables"], "{option}");
            for (shown, expected) in shown[1..].iter().zip(&expected[1..]) {
                for (field, value) in shown.as_object().unwrap() {
                    assert!(
                        field == "file" || *value == expected[field],
                        "{option}: {shown}"
                    );
                }
            }
        }
    }
}

/// Runs a tool within a directory; its arguments are split at spaces.
fn tool(dir: &Path, line: &str) {
    let mut words = line.split_whitespace();
    let status = Command::new(words.next().unwrap())
        .args(words)
        .current_dir(dir)
        .status();
    assert!(status.unwrap().success(), "{line}");
}

/// Check that several files are shown one after the other, and that one which cannot be read hides
/// no other and is an error in the end.
#[test]
fn several_files_are_shown() {
    let (_one, first) = build(&["-O1", "-fexperimental-sanitize-metadata=atomics"]);
    let (_two, second) = build(&["-O1"]);
    let mut asked = args(&first, false, false);
    asked.targets.push(second.clone());
    let mut out = Vec::new();
    assert!(inspect(&asked, &mut out).unwrap());
    let shown = String::from_utf8(out).unwrap();
    assert!(shown.starts_with(&format!("{first}:\n")), "{shown}");
    assert!(
        shown.contains(&format!("\n{second}: no metadata")),
        "{shown}"
    );

    asked.targets.insert(0, "/nonexistent".to_owned());
    asked.json = true;
    let mut out = Vec::new();
    let error = inspect(&asked, &mut out).unwrap_err().to_string();
    assert!(error.starts_with("1 of 3 cannot be inspected"), "{error}");
    let lines: Vec<serde_json::Value> = (String::from_utf8(out).unwrap().lines())
        .map(schema::parsed)
        .collect();
    assert_eq!(lines.len(), 3);
    let error = lines[0]["error"].as_str().unwrap();
    assert!(error.contains("/nonexistent"), "{error}");
    assert_eq!(error.matches("os error 2").count(), 1, "{error}");
    assert_eq!(lines[1]["functions_analyzed"], 2);
    assert_eq!(lines[2]["functions_analyzed"], 0);

    // A section is missing where none of them has it.
    asked.targets.remove(0);
    asked.pc_section = vec!["sanmd_atomics2=instruction".parse().unwrap()];
    assert!(inspect(&asked, &mut Vec::new()).unwrap());
    asked.pc_section = vec!["missing=instruction".parse().unwrap()];
    let error = inspect(&asked, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("no section is called missing"), "{error}");
}

/// Check that what is no file is named, and that a FIFO is not waited for.
#[test]
fn what_is_no_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (target, what) in [
        (fifo.to_str().unwrap(), "a FIFO; copy what it gives"),
        (dir.path().to_str().unwrap(), "a directory; give the files"),
        ("/dev/null", "a device"),
    ] {
        let error = inspect(&args(target, false, false), &mut Vec::new()).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with(target) && error.contains(what), "{error}");
    }
}

/// Check that each member of an archive is shown, whatever it is, and however the archive holds it.
#[test]
fn members_of_archives_are_shown() {
    let (dir, _) = build(&["-O1"]);
    let dir = dir.path();
    let flags = "-O1 -fexperimental-sanitize-metadata=atomics -c input.c -o";
    tool(dir, &format!("clang-22 {flags} first.o"));
    tool(dir, &format!("clang-22 {flags} one_with_a_long_name.o -O0"));
    tool(dir, "clang-22 -flto -c input.c -o bitcode.o");
    let members = "first.o one_with_a_long_name.o bitcode.o input.c";
    for kind in ["gnu", "bsd", "thin"] {
        let flag = match kind {
            "thin" => "--thin".to_owned(),
            _ => format!("--format={kind}"),
        };
        tool(dir, &format!("llvm-ar-22 {flag} rc {kind}.a {members}"));
        let path = dir.join(format!("{kind}.a"));
        let path = path.to_str().unwrap();
        let shown = lines(path, false);
        assert_eq!(shown.len(), 4, "{shown:?}");
        for (line, member) in shown.iter().zip(members.split(' ')) {
            assert_eq!(line["file"], format!("{path}({member})"));
        }
        for line in &shown[..2] {
            assert_eq!(line["functions_analyzed"], 2, "{line}");
        }
        for (line, what) in shown[2..].iter().zip(["LLVM bitcode", "not an ELF file"]) {
            assert!(line["error"].as_str().unwrap().contains(what), "{line}");
        }
        assert!(text(path, true).0);
    }
    let whole = std::fs::read(dir.join("gnu.a")).unwrap();
    let thin = std::fs::read(dir.join("thin.a")).unwrap();
    // The tables of symbols and names come first: within their headers, within them, behind them.
    for (archive, lengths) in [
        (&whole, vec![20, 67, 80, 200, whole.len() - 100]),
        (&thin, vec![20, 67, 80, thin.len() - 30]),
    ] {
        for length in lengths {
            std::fs::write(dir.join("cut.a"), &archive[..length]).unwrap();
            let cut = dir.join("cut.a");
            let error = inspect(&args(cut.to_str().unwrap(), false, false), &mut Vec::new());
            let error = error.unwrap_err().to_string();
            assert!(error.contains("an archive that cannot be read"), "{error}");
        }
    }
}

/// Check that parts of functions that were laid out apart are counted and listed, as a watch counts them, and
/// that the functions are as many as in the same program in one piece.
#[test]
fn parts_of_split_functions_are_counted() {
    let metadata = "-fexperimental-sanitize-metadata=atomics";
    let (_dir, whole) = build(&["-O1", metadata]);
    let (_dir, split) = build(&["-O1", metadata, "-fbasic-block-sections=all"]);
    let [whole, split] = [whole, split].map(|path| lines(&path, true).remove(0));
    assert_eq!(whole["functions_covered"], split["functions_covered"]);
    assert_eq!(whole["functions_analyzed"], split["functions_analyzed"]);
    assert_eq!(whole["function_parts"], 0);
    let list = split["function_list"].as_array().unwrap();
    let parts = list
        .iter()
        .filter(|function| !function["part_of"].is_null());
    assert!(parts.clone().count() > 0);
    assert_eq!(split["function_parts"], parts.clone().count());
    for part in parts {
        assert!(
            list.iter()
                .any(|function| function["address"] == part["part_of"])
        );
    }
    let listed: u64 = list
        .iter()
        .map(|function| function["size"].as_u64().unwrap())
        .sum();
    assert_eq!(split["analyzed_bytes"], listed);
}

/// Check that a debug file says what it is, and that its tables and names stand in for those that
/// were stripped from its program.
#[test]
fn debug_files_have_what_was_stripped() {
    let flags = [
        "-O1",
        "-g",
        "-fexperimental-sanitize-metadata=atomics",
        "-fbasic-block-address-map",
        "-fstack-size-section",
        "-fpseudo-probe-for-profiling",
    ];
    let (dir, path) = build(&flags);
    let whole = lines(&path, true);
    let dir = dir.path();
    tool(dir, "llvm-objcopy-22 --only-keep-debug output output.debug");
    let debug = dir.join("output.debug");
    let debug = debug.to_str().unwrap();
    let (found, shown) = text(debug, false);
    assert!(found && shown.contains("--only-keep-debug"), "{shown}");
    let line = &lines(debug, false)[0];
    assert_eq!(line["debug_only"], true);
    let map = &line["tables"]["block_map"]["sections"][0];
    assert!(map["blocks"].as_u64() > Some(0), "{line}");
    assert_eq!(map["discarded"], 0);

    tool(dir, "llvm-strip-22 output");
    tool(
        dir,
        "llvm-objcopy-22 --add-gnu-debuglink=output.debug output",
    );
    let image = Image::open(path.as_ref()).unwrap();
    assert!(image.section(".llvm_bb_addr_map").is_none() && !image.has_symbol_table());
    let stripped = lines(&path, true);
    assert_eq!(stripped[0]["debug_file"], debug);
    assert_eq!(stripped[0]["tables"], whole[0]["tables"]);
    assert_eq!(stripped[1..], whole[1..]);
    assert!(text(&path, false).1.contains(debug));

    // So it does for reports.
    let info = ModuleInfo {
        path: path.clone(),
        via: std::path::PathBuf::from(&path).into(),
        ..ModuleInfo::default()
    };
    let tables = || FileTables::of(&image, || debug_image(&info, &Arc::default(), u64::MAX));
    let function = Metadata::load(&image).unwrap().functions().next().unwrap();
    let facts = tables().around(function.start).unwrap();
    assert_eq!(facts.blocks[0].start, function.start);
    std::fs::remove_file(debug).unwrap();
    assert_eq!(tables().around(function.start), None);
}
