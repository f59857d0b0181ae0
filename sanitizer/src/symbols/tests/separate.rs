//! Stripped programs, with and without their debug files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::elf_file::ElfFile;
use super::super::source::Source;
use super::super::{Beside, DebugDirs, ModuleInfo, debug_file::Search};
use super::child::{Stopped, names, sources, tool};
use super::{LIBRARY, NESTED, assert_nested, build_nested};

/// Builds the nested program and strips it; the debug information goes to `nested.debug` and
/// `libnested.so.debug`.
fn build_stripped(build_id: &str) -> tempfile::TempDir {
    let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
    build_nested(dir.path(), "clang-22", &["-g", build_id]);
    for file in ["nested", "libnested.so"] {
        let debug = format!("{file}.debug");
        tool(dir.path(), "objcopy", &["--only-keep-debug", file, &debug]);
        tool(dir.path(), "objcopy", &["--strip-all", file]);
    }
    dir
}

fn add_debug_links(dir: &Path) {
    for file in ["nested", "libnested.so"] {
        let link = format!("--add-gnu-debuglink={file}.debug");
        tool(dir, "objcopy", &[&link, file]);
    }
}

fn assert_finds_debug(dir: &Path, debug_dirs: &[PathBuf]) {
    let stopped = Stopped::start(&dir.join("nested"));
    let (stack, frames) = stopped.frames(&stopped.symbolizer(debug_dirs));
    assert_nested(&frames);
    assert!(!stack.truncated);
}

/// Check that without any debug information stacks are still complete, with exported names
/// where there are some, and module and offset everywhere.
#[test]
fn stripped() {
    let dir = build_stripped("-Wl,--build-id");
    let stopped = Stopped::start(&dir.path().join("nested"));
    let symbolizer = stopped.symbolizer(&[]);
    let (stack, frames) = stopped.frames(&symbolizer);
    assert!(!stack.truncated, "{:?}", names(&frames));
    let own: Vec<Option<&str>> = frames
        .iter()
        .filter(|f| f.module.as_deref().is_some_and(|m| m.contains("nested")))
        .map(|f| f.function.as_deref())
        .collect();
    // inner, indirect, through_library, outer, main, _start
    assert_eq!(own, [None, None, Some("through_library"), None, None, None]);
    for frame in &frames {
        assert_eq!(frame.line, None, "{frame:?}");
        let module = symbolizer.module_at(frame.pc).expect("a module");
        assert_eq!(frame.module.as_ref(), Some(&module.path));
        assert_eq!(frame.offset, frame.pc - module.bias);
    }
}

/// Check that functions of a stripped program are named by its `.gnu_debugdata`, made as the GDB manual says, with those of `.dynsym` beside them.
#[test]
fn mini_debug_info() {
    let dir = build_stripped("-Wl,--build-id");
    for file in ["nested", "libnested.so"] {
        let mini = format!("{file}.mini");
        let debug = format!("{file}.debug");
        tool(
            dir.path(),
            "objcopy",
            &["--strip-debug", "--remove-section=.comment", &debug, &mini],
        );
        tool(dir.path(), "xz", &[&mini]);
        let section = format!("--add-section=.gnu_debugdata={mini}.xz");
        tool(dir.path(), "objcopy", &[&section, file]);
        fs::remove_file(dir.path().join(debug)).expect("remove");
    }
    let stopped = Stopped::start(&dir.path().join("nested"));
    let (stack, frames) = stopped.frames(&stopped.symbolizer(&[]));
    assert!(!stack.truncated);
    let own = frames.iter().filter(|frame| {
        let module = frame.module.as_deref();
        module.is_some_and(|module| module.contains("nested"))
    });
    let own: Vec<_> = own.map(|frame| frame.function.as_deref()).collect();
    let expected = [
        "inner",
        "indirect",
        "through_library",
        "outer",
        "main",
        "_start",
    ];
    assert_eq!(own, expected.map(Some));
    assert!(frames.iter().all(|frame| frame.line.is_none()));
}

/// Check `.build-id/xx/yyyy.debug` below a debug directory.
#[test]
fn by_build_id() {
    let dir = build_stripped("-Wl,--build-id=sha1");
    let debug_dir = dir.path().join("debug");
    for file in ["nested", "libnested.so"] {
        let elf = ElfFile::open(&dir.path().join(file)).expect("open");
        let id: String = elf.build_id().iter().map(|b| format!("{b:02x}")).collect();
        let at = debug_dir.join(".build-id").join(&id[..2]);
        fs::create_dir_all(&at).expect("create");
        let from = dir.path().join(format!("{file}.debug"));
        fs::rename(from, at.join(format!("{}.debug", &id[2..]))).expect("move");
    }
    assert_finds_debug(dir.path(), &[debug_dir]);
}

/// Check `.gnu_debuglink` in each of its three places, by checksum: no build id.
#[test]
fn by_debug_link() {
    let dir = build_stripped("-Wl,--build-id=none");
    add_debug_links(dir.path());
    assert_finds_debug(dir.path(), &[]);
    let move_to = |from: &Path, to: &Path| {
        fs::create_dir_all(to).expect("create");
        for file in ["nested.debug", "libnested.so.debug"] {
            fs::rename(from.join(file), to.join(file)).expect("move");
        }
    };
    let hidden = dir.path().join(".debug");
    move_to(dir.path(), &hidden);
    assert_finds_debug(dir.path(), &[]);
    let root = dir.path().join("usr-lib-debug");
    let real = fs::canonicalize(dir.path()).expect("path");
    let mirror = root.join(real.strip_prefix("/").expect("absolute"));
    move_to(&hidden, &mirror);
    assert_finds_debug(dir.path(), &[root]);
}

/// Check both in folders that the user has named, which come before the others, and that a folder which is not there is told.
#[test]
fn in_folders_of_the_user() {
    let dir = build_stripped("-Wl,--build-id=sha1");
    add_debug_links(dir.path());
    let finds_in = |named: &Path| {
        let stopped = Stopped::start(&dir.path().join("nested"));
        let dirs = DebugDirs::of_user(&[dir.path().join("empty"), named.to_owned()]);
        let symbolizer = stopped.symbolizer_with(dirs.expect("folders"));
        assert_nested(&stopped.frames(&symbolizer).1);
    };
    let named = dir.path().join("named");
    let real = fs::canonicalize(dir.path()).expect("path");
    let mirror = named.join(real.strip_prefix("/").expect("absolute"));
    for folder in [&mirror, &dir.path().join("empty")] {
        fs::create_dir_all(folder).expect("create");
    }
    let absent = DebugDirs::of_user(&[dir.path().join("absent")]).unwrap_err();
    assert!(absent.to_string().contains("absent"), "{absent}");
    for file in ["nested.debug", "libnested.so.debug"] {
        fs::rename(dir.path().join(file), mirror.join(file)).expect("move");
    }
    finds_in(&named);
    for file in ["nested", "libnested.so"] {
        let elf = ElfFile::open(&dir.path().join(file)).expect("open");
        let id: String = elf.build_id().iter().map(|b| format!("{b:02x}")).collect();
        let at = named.join(".build-id").join(&id[..2]);
        fs::create_dir_all(&at).expect("create");
        let from = mirror.join(format!("{file}.debug"));
        fs::rename(from, at.join(format!("{}.debug", &id[2..]))).expect("move");
    }
    finds_in(&named);
}

/// Check split DWARF in a package beside each program, without the separate files.
#[test]
fn split_package() {
    let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
    build_nested(dir.path(), "clang-22", &["-g", "-gsplit-dwarf"]);
    for file in ["nested", "libnested.so"] {
        let package = format!("{file}.dwp");
        tool(dir.path(), "llvm-dwp-22", &["-e", file, "-o", &package]);
    }
    for entry in fs::read_dir(dir.path()).expect("list") {
        let path = entry.expect("entry").path();
        if path.extension().is_some_and(|e| e == "dwo") {
            fs::remove_file(path).expect("remove");
        }
    }
    assert_finds_debug(dir.path(), &[]);
}

/// Check that a debug file of another build is not used.
#[test]
fn wrong_checksum() {
    let dir = build_stripped("-Wl,--build-id=none");
    add_debug_links(dir.path());
    for file in ["nested.debug", "libnested.so.debug"] {
        let path = dir.path().join(file);
        let mut bytes = fs::read(&path).expect("read");
        bytes.push(0);
        fs::write(&path, bytes).expect("write");
    }
    let stopped = Stopped::start(&dir.path().join("nested"));
    let (_, frames) = stopped.frames(&stopped.symbolizer(&[]));
    assert!(frames.iter().all(|f| f.line.is_none()));
}

/// Check that a debug file of terabytes, all of them a hole, is not read through for its checksum.
#[test]
fn huge_debug_file() {
    let dir = build_stripped("-Wl,--build-id=none");
    add_debug_links(dir.path());
    let path = dir.path().join("nested.debug");
    let file = fs::File::options().write(true).open(&path).expect("open");
    // Some file systems hold no larger ones.
    let sizes = [1 << 43, 1 << 40, 1 << 33];
    let size = sizes.into_iter().find(|&size| file.set_len(size).is_ok());
    println!("{size:?} bytes");
    assert!(size.is_some());
    assert_eq!(ElfFile::open(&path).expect("open").crc32(), None);
    let stopped = Stopped::start(&dir.path().join("nested"));
    let (_, frames) = stopped.frames(&stopped.symbolizer(&[]));
    let own = frames
        .iter()
        .filter(|f| f.module.as_deref().is_some_and(|m| m.ends_with("/nested")));
    assert!(own.clone().count() > 0 && own.clone().all(|f| f.line.is_none()));
}

/// Check that files stay known after their names are gone, and that a file with another build
/// id is not taken for the mapped one.
#[test]
fn replaced_file() {
    let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
    build_nested(dir.path(), "clang-22", &["-g"]);
    let stopped = Stopped::start(&dir.path().join("nested"));
    let before = stopped.symbolizer(&[]);
    // Another build takes the name; the mapped file has none any more.
    fs::remove_file(dir.path().join("libnested.so")).expect("remove");
    tool(
        dir.path(),
        "clang-22",
        &[
            "-O1",
            "-shared",
            "-fPIC",
            "-Wl,--build-id",
            "library.c",
            "-o",
            "libnested.so",
        ],
    );
    let (_, frames) = stopped.frames(&before);
    assert_nested(&frames);
    let mut after = super::Symbolizer::with_debug_dirs(Vec::new());
    for module in &stopped.modules {
        let known = before
            .module_at(module.start)
            .expect("known")
            .build_id
            .clone();
        after.add_module(&ModuleInfo {
            build_id: known,
            ..module.clone()
        });
    }
    let (_, frames) = stopped.frames(&after);
    let library = frames
        .iter()
        .filter(|f| f.module.as_deref().is_some_and(|m| m.ends_with(".so")));
    assert_eq!(library.filter(|f| f.function.is_some()).count(), 0);
}

/// Check that the supplementary file of `.gnu_debugaltlink` is found where Debian puts it and
/// by its build id, and that one of another build is not taken.
#[test]
fn supplementary_file() {
    let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
    build_nested(dir.path(), "clang-22", &["-g"]);
    let open = |name: &str| ElfFile::open(&dir.path().join(name)).expect("open");
    // Any file with a build id may stand for the supplementary one.
    let supplementary = open("libnested.so");
    let mut link = b"../../.dwz/x86_64-linux-gnu/common.debug\0".to_vec();
    link.extend(supplementary.build_id());
    fs::write(dir.path().join("link"), link).expect("write");
    let section = ["--add-section", ".gnu_debugaltlink=link", "nested"];
    tool(dir.path(), "objcopy", &section);
    let module = ModuleInfo {
        path: "/opt/nested".to_owned(),
        via: dir.path().join("nested").into(),
        ..ModuleInfo::default()
    };
    let debug_dirs = [dir.path().join("debug")];
    let dirs = Arc::new(DebugDirs::there(debug_dirs.to_vec()));
    let find = || {
        let source = Source::of(&module, &dirs).expect("open");
        let beside: Arc<dyn Beside> = Arc::new(source);
        Search(&beside).supplementary(&open("nested"))
    };
    assert!(find().is_none());

    let common = debug_dirs[0].join(".dwz/x86_64-linux-gnu/common.debug");
    fs::create_dir_all(common.parent().expect("a directory")).expect("create");
    fs::copy(dir.path().join("nested"), &common).expect("copy");
    assert!(find().is_none(), "another build id");
    fs::copy(dir.path().join("libnested.so"), &common).expect("copy");
    let found = find().expect("by path");
    assert_eq!(found.build_id(), supplementary.build_id());

    let id: String = found
        .build_id()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let by_id = debug_dirs[0].join(".build-id").join(&id[..2]);
    fs::create_dir_all(&by_id).expect("create");
    fs::rename(&common, by_id.join(format!("{}.debug", &id[2..]))).expect("move");
    assert!(find().is_some(), "by build id");
}
