//! What readers tell of code, and files that get the better of them.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use super::*;
use crate::{
    image::Image,
    kernel::foreign::About,
    reader::testing::{library, program},
    symbols::{
        FileTables,
        tests::child::{sources, tool},
    },
};

const CODE: &str = "int shared; int far(int);\n\
    int code(int x) { for (int i = 0; i < x; i++) if (far(i)) shared += i; return shared; }\n\
    int other(int x) { return x ? far(x) : shared; }\n";
const BLOCKS: &str = "-fbasic-block-address-map";

fn of(path: &Path) -> (ModuleInfo, FileIdentity) {
    let module = ModuleInfo {
        path: path.to_str().unwrap().to_owned(),
        via: path.to_owned().into(),
        ..ModuleInfo::default()
    };
    let about = About::of(File::open(path).unwrap()).unwrap();
    (module, about.identity())
}

/// All that is told of a file's code is what a look at the file itself tells; how many blocks that are.
fn compare(reader: &mut CodeReader, path: &Path, debug: Option<&Path>) -> usize {
    let image = Image::open(path).unwrap();
    let tables = FileTables::of(&image, || Image::open_any(debug?).ok());
    let (module, identity) = of(path);
    let mut blocks = 0;
    for text in image.text_ranges() {
        for pc in (text.start.0..text.end.0).map(LinkAddr) {
            let expected = tables.around(pc);
            blocks += expected.as_ref().map_or(0, |facts| facts.blocks.len());
            let told = reader.around(&module, identity, pc);
            assert_eq!(told, Ok(expected), "{pc}");
        }
    }
    blocks
}

/// Check that a reader tells of each address what is in the file, or in its debug file, that it tells apart a file which has no tables, and that nothing is
/// told of one that has taken the place of another.
#[test]
fn readers_tell_what_is_there() {
    let dir = sources(&[("code.c", CODE)]);
    let with = library(dir.path(), "none", &["-O1", "-g", BLOCKS]);
    let without = library(dir.path(), "nothing", &["-O1"]);
    let mut reader = CodeReader::new(program());
    assert!(compare(&mut reader, &with, None) > 0);
    assert_eq!(compare(&mut reader, &without, None), 0);
    let before = reader.reader();
    assert!(before.is_some() && reader.take_cpu() > Duration::ZERO);

    let identity = of(&with).1;
    tool(
        dir.path(),
        "objcopy",
        &["--only-keep-debug", "none.so", "none.debug"],
    );
    tool(dir.path(), "llvm-strip-22", &["none.so"]);
    tool(
        dir.path(),
        "objcopy",
        &["--add-gnu-debuglink=none.debug", "none.so"],
    );
    let image = Image::open(&with).unwrap();
    assert!(image.section(".llvm_bb_addr_map").is_none());
    let (module, _) = of(&with);
    let first = image.text_ranges()[0].start;
    // The one that is open is the one that was meant.
    assert!(reader.around(&module, identity, first).is_ok());
    reader.rest();
    let told = reader.around(&module, identity, first);
    assert_eq!(told, Err(Unanswered), "it is another file");
    let debug: PathBuf = dir.path().join("none.debug");
    assert!(compare(&mut reader, &with, Some(&debug)) > 0);
    assert_ne!(reader.reader(), before);
    fs::remove_file(&with).unwrap();
    assert_eq!(reader.around(&module, identity, first), Err(Unanswered));
    assert_eq!(reader.take_warnings(), Vec::<String>::new());
}

/// Check that a file which gets the better of its readers has no tables after the third time, that this is told once, and that others have theirs.
#[test]
fn files_that_end_readers() {
    let dir = sources(&[("code.c", CODE)]);
    let good = library(dir.path(), "none", &[BLOCKS]);
    for misdeed in ["crash", "eat", "babble", "open", "run", "change", "share"] {
        let bad = library(dir.path(), misdeed, &[BLOCKS]);
        let mut reader = CodeReader::new(program());
        let (module, identity) = of(&bad);
        for told in [1, 0] {
            let start = LinkAddr(0x1000);
            assert_eq!(reader.around(&module, identity, start), Err(Unanswered));
            let warnings = reader.take_warnings();
            assert_eq!(warnings.len(), told, "{misdeed}: {warnings:?}");
            assert!(
                warnings
                    .iter()
                    .all(|line| line.contains("neither basic blocks"))
            );
            let (module, identity) = of(&good);
            assert!(reader.around(&module, identity, start).is_ok(), "{misdeed}");
        }
        // Those that had both files open were nobody's fault.
        assert_eq!(reader.client.figures().ended, 3, "{misdeed}");
        if misdeed == "crash" {
            // Of another process nothing is known.
            reader.rest();
            for ended in [3, 3] {
                let (module, identity) = of(&bad);
                let told = reader.around(&module, identity, LinkAddr(0x1000));
                assert_eq!(told, Err(Unanswered));
                assert_eq!(reader.client.figures().ended, ended);
            }
            assert_eq!(reader.take_warnings().len(), 1);
        }
    }
}

/// Check that what is asked together takes no longer than one answer may, and that a file of which too little was asked in time is not blamed.
#[test]
fn questions_together() {
    let dir = sources(&[("code.c", CODE)]);
    let [bad, good] = ["hang", "none"].map(|name| library(dir.path(), name, &[BLOCKS]));
    let mut reader = CodeReader::new(program());
    let deadline = Duration::from_secs(3);
    reader.client.hurry(deadline);
    let start = LinkAddr(0x1000);
    let ask = |reader: &mut CodeReader, path: &Path| {
        let (module, identity) = of(path);
        let told = reader.around(&module, identity, start);
        (told, reader.is_late(), reader.client.figures().ended)
    };
    assert!(ask(&mut reader, &good).0.is_ok());
    for ended in [0, 1] {
        reader.begin();
        let begin = std::time::Instant::now();
        assert_eq!(ask(&mut reader, &bad), (Err(Unanswered), true, ended));
        assert_eq!(ask(&mut reader, &good), (Err(Unanswered), true, ended));
        assert!(begin.elapsed() < 2 * deadline);
    }
    reader.begin();
    assert!(ask(&mut reader, &good).0.is_ok());
}

/// Check that nothing is told where no reader can be started, and that users hear of it once.
#[test]
fn no_reader() {
    let dir = sources(&[("code.c", CODE)]);
    let file = library(dir.path(), "none", &[BLOCKS]);
    let mut reader = CodeReader::new(Program {
        file: "/bin/false".into(),
        ..program()
    });
    let (module, identity) = of(&file);
    for told in [1, 0, 0] {
        let answer = reader.around(&module, identity, LinkAddr(0x1000));
        assert_eq!(answer, Err(Unanswered));
        let warnings = reader.take_warnings();
        assert_eq!(warnings.len(), told, "{warnings:?}");
        assert!(
            warnings
                .iter()
                .all(|line| line.contains("cannot be started"))
        );
    }
}
