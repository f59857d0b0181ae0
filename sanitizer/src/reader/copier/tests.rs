//! Copiers that are processes of their own, and what becomes of file systems that do not answer them.

use std::{
    fs,
    io::{Read as _, stdin},
    os::fd::AsFd as _,
    path::Path,
    time::{Duration, Instant},
};

use super::{Copier, CopierError, Question, serve};
use crate::{
    kernel::{
        executed::Executed,
        foreign::{Via, testing::ServedByNobody},
    },
    reader::{Program, testing::program},
    symbols::Opened,
    tracee::testing::Child,
};

/// A device, of whatever file system.
const DEVICE: u64 = 1;

/// The body of a copier; see [`copier`].
#[test]
#[ignore = "the other tests of this file start it"]
fn copies() {
    let socket = stdin().as_fd().try_clone_to_owned().unwrap();
    let code = std::panic::catch_unwind(|| serve(socket, program())).unwrap_or(101);
    std::process::exit(code.into());
}

/// Copiers are this program itself.
fn copier() -> Copier {
    let words = [
        "--exact",
        "reader::copier::tests::copies",
        "--ignored",
        "--nocapture",
        "--test-threads",
        "1",
    ];
    Copier::new(Program {
        file: std::env::current_exe().unwrap(),
        arguments: words.map(Into::into).into(),
    })
}

fn via(path: &Path) -> Via {
    path.to_owned().into()
}

/// Check that a copier tells which file it is, copies all of it, tells whether programs and processes carry metadata, and is started anew
/// when it is needed again.
#[test]
fn files_are_told_and_copied() {
    let child = Child::run(
        "#include <stdio.h>\n#include <unistd.h>\nint main() { puts(\"ready\"); fflush(stdout); pause(); }",
        &["-fexperimental-sanitize-metadata=atomics"],
    );
    child.wait_for_line("ready");
    let (program, pid) = (child.exe(), child.pid().as_raw().cast_unsigned());
    let bytes = fs::read(&program).unwrap();
    let identity = Opened::elf(fs::File::open(&program).unwrap())
        .unwrap()
        .identity;
    let mut copier = copier();
    for _ in 0..2 {
        assert_eq!(copier.find(DEVICE, &via(&program)).unwrap(), identity);
        let mut copied = Vec::new();
        let mut copy = copier.copy(DEVICE).unwrap();
        copy.read_to_end(&mut copied).unwrap();
        assert!(copied == bytes);
        let nothing = copier.copy(DEVICE).unwrap_err();
        assert!(matches!(nothing, CopierError::NoFile(_)), "{nothing}");
        let text = copier
            .find(DEVICE, &via("/etc/passwd".as_ref()))
            .unwrap_err();
        assert!(matches!(text, CopierError::NoFile(_)), "{text}");

        let executed = Executed::by(pid).unwrap();
        for by in [Some(pid), None] {
            let question = Question::executed(&executed, by, &[]);
            assert_eq!(copier.carries(DEVICE, &question).unwrap(), Some(true));
        }
        let mapped = Question::Mapped(pid, Vec::new());
        assert_eq!(copier.carries(DEVICE, &mapped).unwrap(), Some(true));
        let own = Question::Mapped(std::process::id(), Vec::new());
        assert_eq!(copier.carries(DEVICE, &own).unwrap(), Some(false));
        copier.rest();
        assert!(copier.cpu_ns() > 0);
    }
}

/// Check that a program whose headers get the better of who reads them ends no copier, and that others are known as before.
#[test]
fn files_end_readers_of_copiers() {
    const METADATA: &str = "-fexperimental-sanitize-metadata=atomics";
    // "misdeed crash".
    const ENDS: &str = "-Wl,--build-id=0x6d697364656564206372617368";
    const WAITS: &str = "#include <stdio.h>\n#include <unistd.h>\nint main() { puts(\"ready\"); fflush(stdout); pause(); }";
    let [bad, good] = [&[METADATA, ENDS][..], &[METADATA]].map(|flags| {
        let child = Child::run(WAITS, flags);
        child.wait_for_line("ready");
        child
    });
    let mut copier = copier();
    let mut carries = |child: &Child| {
        let question = Question::Mapped(child.pid().as_raw().cast_unsigned(), Vec::new());
        copier.carries(DEVICE, &question).unwrap()
    };
    for _ in 0..4 {
        assert_eq!(carries(&bad), None);
        assert_eq!(carries(&good), Some(true));
    }
}

/// Check that a program which keeps the reader of its headers waiting costs its file system no question: neither is that taken for silent, nor the copier ended.
#[test]
fn hanging_readers_are_no_silence() {
    // "misdeed hang".
    let child = Child::run(
        "#include <stdio.h>\n#include <unistd.h>\nint main() { puts(\"ready\"); fflush(stdout); pause(); }",
        &[
            "-fexperimental-sanitize-metadata=atomics",
            "-Wl,--build-id=0x6d6973646565642068616e67",
        ],
    );
    child.wait_for_line("ready");
    let question = Question::Mapped(child.pid().as_raw().cast_unsigned(), Vec::new());
    let mut copier = copier();
    for _ in 0..2 {
        let start = Instant::now();
        assert_eq!(copier.carries(DEVICE, &question).unwrap(), None);
        assert!(start.elapsed() >= Duration::from_secs(2));
        copier.find(DEVICE, &via(&child.exe())).unwrap();
    }
}

/// Check that a file system which does not answer is waited for once, and not asked again, while others are.
#[test]
fn silence_is_waited_for_once() {
    const DEADLINE: Duration = Duration::from_secs(5);
    let folder = tempfile::tempdir().unwrap();
    let served = match ServedByNobody::mount(folder.path(), 0) {
        Ok(served) => served,
        Err(error) => return println!("FUSE cannot be mounted here: {error}"),
    };
    let mut copier = copier();
    // It may take a while until it is there.
    let program = via("/proc/self/exe".as_ref());
    copier.find(DEVICE, &program).unwrap();
    let silent = via(&folder.path().join("file"));
    for round in 0..3 {
        let start = Instant::now();
        let error = copier.find(DEVICE + 1, &silent).unwrap_err();
        assert!(matches!(error, CopierError::Silent), "{error}");
        assert_eq!(start.elapsed() >= DEADLINE, round == 0);
        copier.find(DEVICE, &program).unwrap();
    }
    drop(served);
}
