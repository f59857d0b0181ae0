//! Damaged files: less is known, nothing breaks.

use std::fs;
use std::path::Path;

use super::super::{ModuleInfo, Symbolizer};
use super::child::{Stopped, sources, tool};
use super::{LIBRARY, NESTED, build_nested};

/// How many damaged copies of each program are tried.
const ROUNDS: usize = 200;

fn exercise(stopped: &Stopped, replaced: &Path, with: &Path) {
    let mut symbolizer = Symbolizer::with_debug_dirs(Vec::new());
    for module in &stopped.modules {
        let via = if module.path == replaced.to_string_lossy() {
            with.to_owned().into()
        } else {
            module.via.clone()
        };
        symbolizer.add_module(&ModuleInfo {
            via,
            ..module.clone()
        });
    }
    let (stack, frames) = stopped.frames(&symbolizer);
    assert_eq!(stack.pcs.first(), Some(&stopped.regs.rip));
    assert!(frames.len() >= stack.pcs.len());
    assert!(frames.first().is_some_and(|f| f.module.is_some()));
    for module in &stopped.modules {
        let _ = symbolizer.global_at(module.end - 64);
        let _ = symbolizer.frames(module.start + 0x1010);
    }
}

/// Check files cut short at many places, and files with many bytes changed, in every part.
#[test]
fn damaged_files() {
    for flags in [&["-g"][..], &["-g", "-gz=zlib"]] {
        let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
        build_nested(dir.path(), "clang-22", flags);
        let program = fs::canonicalize(dir.path().join("nested")).expect("path");
        let stopped = Stopped::start(&program);
        let good = fs::read(&program).expect("read");
        let bad = dir.path().join("bad");
        for cut in (0..64).map(|i| good.len() * i / 64) {
            fs::write(&bad, &good[..cut]).expect("write");
            exercise(&stopped, &program, &bad);
        }
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..ROUNDS {
            let mut bytes = good.clone();
            // Some rounds aim at the headers, where a byte matters most.
            let headers = round % 3 == 0;
            let range = if headers { 0..1024 } else { 0..bytes.len() };
            for _ in 0..random.usize(1..40) {
                let at = random.usize(range.clone());
                bytes[at] = random.u8(..);
            }
            fs::write(&bad, &bytes).expect("write");
            exercise(&stopped, &program, &bad);
        }
    }
}

/// Check that a file that shrinks after it was opened costs symbols only.
#[test]
fn truncated_while_open() {
    let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
    build_nested(dir.path(), "clang-22", &["-g"]);
    let stopped = Stopped::start(&dir.path().join("nested"));
    let copy = dir.path().join("copy");
    tool(dir.path(), "cp", &["nested", "copy"]);
    let program = stopped
        .modules
        .iter()
        .find(|m| m.path.ends_with("/nested"))
        .expect("program");
    let mut symbolizer = Symbolizer::with_debug_dirs(Vec::new());
    symbolizer.add_module(&ModuleInfo {
        via: copy.clone().into(),
        ..program.clone()
    });
    fs::write(&copy, "").expect("truncate");
    let (stack, frames) = stopped.frames(&symbolizer);
    assert!(stack.truncated);
    assert_eq!(frames[0].module.as_ref(), Some(&program.path));
    assert_eq!(frames[0].function, None);
}

/// Check that what is no ELF file, or no file, is no error.
#[test]
fn not_elf() {
    let dir = tempfile::tempdir().expect("temporary directory");
    fs::write(dir.path().join("text"), "#!/bin/sh\n").expect("write");
    nix::unistd::mkfifo(&dir.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("fifo");
    for name in ["text", "fifo", "missing", "."] {
        let mut symbolizer = Symbolizer::new();
        symbolizer.add_module(&ModuleInfo {
            path: format!("/opt/{name}"),
            via: dir.path().join(name).into(),
            start: 0x1000,
            end: 0x2000,
            bias: 0x1000,
            build_id: Vec::new(),
        });
        let frames = symbolizer.frames(0x1234);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].module, Some(format!("/opt/{name}")));
        assert_eq!((frames[0].offset, &frames[0].function), (0x234, &None));
    }
}
