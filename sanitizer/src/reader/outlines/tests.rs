//! What readers tell of the code of files, and files that get the better of them.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use super::*;
use crate::{
    image::Image,
    kernel::foreign::About,
    reader::testing::{library_that, program},
    symbols::tests::child::sources,
    tracee::modules::Contents as _,
};

const CODE: &str = "int shared; int far(int);\n\
    int code(int x) { for (int i = 0; i < x; i++) if (far(i)) shared += i; return shared; }\n";
const FLAGS: [&str; 2] = ["-O1", "-fexperimental-sanitize-metadata=atomics"];

fn library(dir: &Path, misdeed: &str, flags: &[&str]) -> PathBuf {
    library_that(dir, "outline", misdeed, flags)
}

fn open(path: &Path) -> OpenFile<'_> {
    let file = File::open(path).unwrap();
    let identity = About::of(file.try_clone().unwrap()).unwrap().identity();
    OpenFile {
        file,
        name: path,
        identity,
        is_served: false,
    }
}

fn read(reader: &mut OutlineReader, path: &Path) -> Result<Outlined, ModuleError> {
    reader.begin(0, &mut |_| false).file(open(path))
}

/// Check that what is told of a file is what is in it, of one that is served, and of bytes, as of one that is mapped; and that each has a reader of its own.
#[test]
fn readers_tell_what_is_there() {
    let dir = sources(&[("code.c", CODE)]);
    let path = library(dir.path(), "none", &FLAGS);
    let image = Image::open(&path).unwrap();
    let code = image
        .functions()
        .into_iter()
        .find(|f| f.name == "code")
        .unwrap();
    let mut reader = OutlineReader::new(program());
    let mut never = |_| false;
    let mut asking = reader.begin(0, &mut never);
    let served = OpenFile {
        is_served: true,
        ..open(&path)
    };
    let all = [
        asking.file(open(&path)),
        asking.file(served),
        asking.bytes(image.data().to_vec(), &path),
    ];
    drop(asking);
    for told in all {
        let told = told.unwrap();
        let known = told.metadata().unwrap();
        assert!(known.function_at(code.address).unwrap().is_analyzed());
        assert_eq!(told.segments(), image.segments());
        assert_eq!(Some(&b"outline none"[..]), told.build_id());
        assert_eq!(
            told.bytes_at(code.address, 4),
            image.bytes_at(code.address, 4)
        );
        assert!(told.frames().extent(code.address).is_some() && !told.is_cut());
    }
    assert!(reader.reader.id().is_none() && reader.take_cpu() > Duration::ZERO);
    assert!(reader.take_warnings().is_empty());
}

/// Check that what is no program or library is told as it was before, and needs no reader where it is no ELF file at all.
#[test]
fn other_files() {
    let dir = sources(&[("code.c", CODE)]);
    let mut reader = OutlineReader::new(Program {
        file: PathBuf::from("/nonexistent"),
        arguments: Vec::new(),
    });
    let error = read(&mut reader, &dir.path().join("code.c")).unwrap_err();
    assert!(
        error.to_string().contains("not an ELF file; give"),
        "{error}"
    );
    assert!(reader.take_warnings().is_empty());
    let status = Command::new("clang-22")
        .current_dir(dir.path())
        .args(["-c", "code.c"])
        .status();
    assert!(status.unwrap().success());
    let object = dir.path().join("code.o");
    // Without a reader nothing is read, and that is told once.
    for count in [1, 0] {
        let error = read(&mut reader, &object).unwrap_err();
        assert!(error.to_string().contains("not watched for now"), "{error}");
        assert!(matches!(error, ModuleError::NotYet(_)));
        assert_eq!(reader.take_warnings().len(), count);
    }
    let error = read(&mut OutlineReader::new(program()), &object).unwrap_err();
    assert!(error.to_string().contains("an object file"), "{error}");
}

/// Check that a file which gets the better of its reader three times is read no more in that lease, that others are, and that nothing is known of it.
#[test]
fn files_that_end_their_readers() {
    let dir = sources(&[("code.c", CODE)]);
    let good = library(dir.path(), "none", &FLAGS);
    let mut reader = OutlineReader::new(program());
    for misdeed in [
        "crash", "abort", "panic", "eat", "open", "run", "exit", "babble",
    ] {
        let bad = library(dir.path(), misdeed, &FLAGS);
        for _ in 0..2 {
            let error = read(&mut reader, &bad).unwrap_err().to_string();
            assert!(
                error.contains("came to its end 3 times over that file"),
                "{error}"
            );
        }
    }
    assert_eq!(reader.ends.figures().ended, 8 * 3);
    assert!(read(&mut reader, &good).is_ok());
    // The next process pays for nothing that this one has done.
    reader.rest();
    assert!(read(&mut reader, &dir.path().join("crash.so")).is_err());
    assert_eq!(reader.ends.figures().ended, 3);
}

/// Check that a reader that hangs is waited for no longer than it may take, no longer than all may take together, and not where nobody wants to know.
#[test]
fn files_that_keep_their_readers() {
    let dir = sources(&[("code.c", CODE)]);
    let bad = library(dir.path(), "hang", &FLAGS);
    let mut reader = OutlineReader::new(program());
    let begin = Instant::now();
    let mut turns = 0;
    let mut is_past = |_| {
        turns += 1;
        turns > 3
    };
    let error = reader.begin(0, &mut is_past).file(open(&bad)).unwrap_err();
    assert!(matches!(error, ModuleError::Unasked), "{error}");
    assert!(begin.elapsed() < DEADLINE / 2);
    let mut reader = OutlineReader::new(program());
    reader.hurry(Duration::from_secs(2));
    // A reader that gets no processor is not to blame.
    for _ in 0..5 {
        let begin = Instant::now();
        let error = read(&mut reader, &bad).unwrap_err().to_string();
        assert!(begin.elapsed() < DEADLINE);
        if error.contains("took more than 2s") {
            assert!(error.contains("watch a smaller build"), "{error}");
            break;
        }
        assert!(error.contains("too little time"), "{error}");
    }
}

/// Check that no more is kept of a process's files than it may.
#[test]
fn so_much_is_kept() {
    let dir = sources(&[("code.c", CODE)]);
    let path = library(dir.path(), "none", &FLAGS);
    let mut reader = OutlineReader::new(program());
    let mut never = |_| false;
    let mut asking = reader.begin(MOST_KEPT - 1, &mut never);
    let error = asking.file(open(&path)).unwrap_err().to_string();
    assert!(error.contains("takes more than 256 MiB"), "{error}");
    drop(asking);
    assert_eq!(reader.kept, MOST_KEPT - 1);
    assert!(read(&mut reader, &path).unwrap().bytes() > 0);
}

/// Check that files are read whose names are no text.
#[test]
fn names_that_are_no_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let dir = sources(&[("code.c", CODE)]);
    let path = library(dir.path(), "none", &FLAGS);
    let name = dir.path().join(std::ffi::OsStr::from_bytes(b"lib\xff.so"));
    std::fs::copy(path, &name).unwrap();
    let told = read(&mut OutlineReader::new(program()), &name).unwrap();
    assert!(told.metadata().is_some());
}

/// Check that nothing is opened, and no reader started, where nobody wants to know.
#[test]
fn nobody_wants_to_know() {
    let dir = sources(&[("code.c", CODE)]);
    let path = library(dir.path(), "none", &FLAGS);
    let mut reader = OutlineReader::new(program());
    let mut turns = 0;
    let mut is_past = |_| {
        turns += 1;
        true
    };
    let mut asking = reader.begin(0, &mut is_past);
    for _ in 0..3 {
        let identity = open(&path).identity;
        assert!(matches!(
            asking.may_read(&path, identity),
            Err(ModuleError::Unasked)
        ));
        assert!(matches!(
            asking.file(open(&path)),
            Err(ModuleError::Unasked)
        ));
        assert!(asking.is_past());
    }
    drop(asking);
    assert_eq!(turns, 1);
    assert!(matches!(
        reader.begin_at_once(0).file(open(&path)),
        Err(ModuleError::Unasked)
    ));
    assert!(reader.take_cpu().is_zero() && reader.take_warnings().is_empty());
}

/// Check that what is read when nobody waits for it any more is read to its end, once, for whoever looks next; that its cost is told meanwhile; and that
/// what was read in a look of which nothing came is kept until somebody takes it.
#[test]
fn what_nobody_waits_for_is_kept() {
    let dir = sources(&[("code.c", CODE)]);
    let path = library(dir.path(), "slow", &FLAGS);
    let mut reader = OutlineReader::new(program());
    let (mut turns, mut cpu) = (0, Duration::ZERO);
    let mut is_past = |new| {
        turns += 1;
        cpu += new;
        cpu >= Duration::from_millis(200)
    };
    let error = reader.begin(0, &mut is_past).file(open(&path)).unwrap_err();
    assert!(matches!(error, ModuleError::Unasked), "{error}");
    assert!(turns > 1);
    reader.rest();
    let begin = Instant::now();
    while reader.is_reading() {
        assert!(begin.elapsed() < DEADLINE);
    }
    assert!(reader.take_cpu() > Duration::ZERO);
    let at_once = |reader: &mut OutlineReader| reader.begin_at_once(0).file(open(&path));
    let first = at_once(&mut reader).unwrap();
    let mut asking = reader.begin_at_once(0);
    assert!(asking.file(open(&path)).unwrap().is_same(&first));
    asking.is_taken();
    assert!(at_once(&mut reader).is_err());
    // Somebody else takes over from whoever does not wait.
    let mut is_past = |cpu| cpu > Duration::ZERO;
    let error = reader.begin(0, &mut is_past).file(open(&path)).unwrap_err();
    assert!(matches!(error, ModuleError::Unasked), "{error}");
    assert!(read(&mut reader, &path).is_ok());
    assert!(!reader.is_reading());
    assert!(at_once(&mut reader).is_ok());
}

/// Check that what is in no file is read again only where it is another one.
#[test]
fn the_same_bytes() {
    let dir = sources(&[("code.c", CODE)]);
    let path = library(dir.path(), "none", &FLAGS);
    let mut bytes = std::fs::read(&path).unwrap();
    let mut reader = OutlineReader::new(program());
    let first = (reader.begin(0, &mut |_| false))
        .bytes(bytes.clone(), &path)
        .unwrap();
    reader.rest();
    let same = reader.begin_at_once(0).bytes(bytes.clone(), &path);
    assert!(same.unwrap().is_same(&first));
    bytes.push(0);
    assert!(reader.begin_at_once(0).bytes(bytes, &path).is_err());
}
