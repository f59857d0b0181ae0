//! Files that are told by their headers, and those that get the better of whoever reads them.

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};

use super::*;
use crate::{
    reader::testing::{header_reader, library, program},
    symbols::tests::child::sources,
};

const CODE: &str = "int shared; int code(int x) { return shared += x; }\n";
const METADATA: &str = "-fexperimental-sanitize-metadata=atomics";

fn carries(reader: &mut HeaderReader, path: &Path) -> Option<bool> {
    reader.carries(File::open(path).unwrap(), path)
}

/// Check that one reader tells of all files whether they carry metadata, that none is started for what is no ELF file, and that another one takes the place of one that somebody has killed, for which no file
/// is blamed.
#[test]
fn one_reader_tells() {
    let dir = sources(&[("code.c", CODE)]);
    let with = library(dir.path(), "none", &[METADATA]);
    let without = library(dir.path(), "nothing", &[]);
    let mut reader = header_reader();
    assert_eq!(
        carries(&mut reader, &dir.path().join("code.c")),
        Some(false)
    );
    assert_eq!((reader.reader.id(), reader.cpu()), (None, Duration::ZERO));
    let mut before = None;
    for _ in 0..2 {
        assert_eq!(carries(&mut reader, &with), Some(true));
        let id = reader.reader.id().unwrap();
        assert_ne!(before.replace(id), Some(id), "it is another one");
        for _ in 0..10 {
            assert_eq!(carries(&mut reader, &without), Some(false));
            assert_eq!(carries(&mut reader, &with), Some(true));
        }
        assert_eq!(reader.reader.id(), Some(id));
        let id = Pid::from_raw(id.cast_signed());
        kill(id, Signal::SIGKILL).unwrap();
        // It stays a zombie until its parent asks.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(id), flags).unwrap();
    }
    assert_eq!(reader.ended(), 0);
    assert!(reader.cpu() > Duration::ZERO);
}

/// Check that who reads for a reader is told the same, of long and of short files and of one that is cut short meanwhile, and that a file ends a reader no less then.
#[test]
fn bytes_are_read_for_readers() {
    let dir = sources(&[("code.c", CODE)]);
    let at = |misdeed, flags: &[&str]| library(dir.path(), misdeed, flags);
    let (with, without) = (at("none", &[METADATA]), at("nothing", &["-g"]));
    let (bad, short) = (at("crash", &[METADATA]), dir.path().join("short.so"));
    std::fs::write(&short, &std::fs::read(&with).unwrap()[..60]).unwrap();
    let mut reader = header_reader();
    let mut carries = |path: &Path| {
        let told = reader.carries_served(File::open(path).unwrap(), path, &mut || {});
        (told, reader.ended())
    };
    for _ in 0..2 {
        assert_eq!(carries(&dir.path().join("code.c")), (Some(false), 0));
        assert_eq!(carries(&short), (Some(false), 0));
        assert_eq!(carries(&without), (Some(false), 0));
        assert_eq!(carries(&with), (Some(true), 0));
    }
    for ended in [1, 2, 3, 3] {
        assert_eq!(carries(&bad), (None, ended));
    }
    assert_eq!(carries(&with), (Some(true), 3));
    let file = File::open(&with).unwrap();
    let size = file.metadata().unwrap().len();
    assert_eq!(
        piece(&file, size - 1, 100).map(|piece| piece.len()),
        Some(1)
    );
    assert_eq!(piece(&file, size, u32::MAX), Some(Vec::new()));
    assert_eq!(piece(&file, u64::MAX, 1), None);
    let most = usize::try_from(PIECE).unwrap();
    let large = tempfile::tempfile().unwrap();
    large.set_len(u64::from(PIECE) * 2).unwrap();
    assert_eq!(piece(&large, 1, u32::MAX).unwrap().len(), most);
}

/// Check that a file which crashes its reader, has it hang, takes its memory or tries what it may not, is not known, and is tried no more after the third time; that it costs other files nothing; and that time that was
/// waited in vain is counted.
#[test]
fn files_that_end_readers() {
    let dir = sources(&[("code.c", CODE)]);
    let good = library(dir.path(), "none", &[METADATA]);
    for misdeed in [
        "crash", "abort", "panic", "exit", "eat", "babble", "hang", "open", "socket", "kill",
        "exec",
    ] {
        let bad = library(dir.path(), misdeed, &[METADATA]);
        let mut reader = header_reader();
        let waits = match misdeed {
            "hang" => HeaderReader::DEADLINE,
            _ => Duration::ZERO,
        };
        if misdeed == "hang" {
            reader = reader.with_deadline(HeaderReader::DEADLINE);
        }
        for ended in [1, 2, 3, 3] {
            assert_eq!(carries(&mut reader, &bad), None, "{misdeed}");
            assert_eq!(reader.ended(), ended, "{misdeed}");
            assert!(reader.reader.id().is_none() || ended == 3, "{misdeed}");
            assert!(reader.cost() >= waits * u32::try_from(ended).unwrap());
            if misdeed != "hang" {
                assert_eq!(carries(&mut reader, &good), Some(true), "{misdeed}");
            }
        }
        let reader = &mut reader.with_deadline(Duration::from_mins(1));
        assert_eq!(carries(reader, &good), Some(true), "{misdeed}");
    }
}

/// Check that a build id is told of whole files alone, by a reader that gets no descriptor; that a file which ends readers is not known, and why; and that one which has rested is followed by another one.
#[test]
fn build_ids_are_told() {
    let dir = sources(&[("code.c", CODE)]);
    let good = library(dir.path(), "none", &["-g"]);
    let (bad, cut) = (library(dir.path(), "crash", &[]), dir.path().join("cut.so"));
    let whole = std::fs::read(&good).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 1]).unwrap();
    let mut reader = HeaderReader::of_served(program()).with_deadline(Duration::from_mins(1));
    let mut told = |path: &Path| {
        let told = reader.build_id(File::open(path).unwrap(), path);
        reader.rest();
        told
    };
    for _ in 0..2 {
        assert_eq!(told(&good).unwrap(), b"misdeed none");
        for none in [&cut, &dir.path().join("code.c")] {
            assert!(matches!(told(none), Err(Unidentified::NotWhole)));
        }
    }
    for why in ["signal 11", "signal 11", "signal 11", "3 times"] {
        let error = told(&bad).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!((reader.ended(), reader.reader.id()), (3, None));
    assert!(reader.cpu() > Duration::ZERO);
}

/// Check that nothing is known where no reader can be started, that no file is blamed for that, and that it is not tried for each file.
#[test]
fn no_reader() {
    let dir = sources(&[("code.c", CODE)]);
    let file = library(dir.path(), "none", &[METADATA]);
    let mut reader = HeaderReader::new(Program {
        file: "/bin/false".into(),
        ..program()
    });
    for _ in 0..5 {
        assert_eq!(carries(&mut reader, &file), None);
    }
    assert_eq!((reader.ended(), reader.reader.id()), (0, None));
    assert!(reader.reader.refusal().is_some() && !reader.is_short());
    let error = reader.build_id(File::open(&file).unwrap(), &file);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("cannot be started"), "{error}");
}
