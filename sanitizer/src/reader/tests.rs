//! Readers that are processes of their own: what they tell is what is told without them, and what becomes of files that get the
//! better of them.

use std::{
    collections::BTreeSet,
    fs,
    io::stdin,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};

use super::{
    Client, Program, serve,
    testing::{library, program},
};
use crate::{
    kernel::sandbox::{self, Room},
    symbols::{
        DebugDirs, Frame, Lack, ModuleInfo, Sources, Stopped as At, Symbolizer,
        tests::{
            LIBRARY, NESTED, build_nested,
            child::{Stopped, sources, tool},
            excess,
        },
    },
};

/// The body of a reader; see [`client`].
#[test]
#[ignore = "the other tests of this file start it"]
fn reads() {
    let socket = stdin().as_fd().try_clone_to_owned().unwrap();
    let code = std::panic::catch_unwind(|| serve(socket, Room::USUAL)).unwrap_or(101);
    std::process::exit(code.into());
}

/// Readers are this program itself.
fn client(debug_dirs: &[PathBuf]) -> Arc<Mutex<Client>> {
    let sources = Sources::new(DebugDirs::there(debug_dirs.to_vec()));
    Arc::new(Mutex::new(Client::new(program(), sources)))
}

/// All that is told of a stopped process.
fn told(stopped: &Stopped, mut symbolizer: Symbolizer) -> String {
    stopped.add_to(&mut symbolizer);
    let (stack, frames) = stopped.frames(&symbolizer);
    let mut told = format!("{stack:?} {frames:?}");
    let at = |pc| At {
        pc,
        regs: &stopped.regs,
        stack: &stopped.stack,
    };
    for &pc in &stack.pcs {
        let held = symbolizer.held_at(at(pc), (stopped.regs.rsp, 8));
        told += &format!(
            "\n{:?} {:?} {:?} {held:?} {:?} {:?}",
            symbolizer.frame_by_symbol(pc),
            symbolizer.is_of_no_place(pc),
            symbolizer.result_at(pc),
            symbolizer.instruction_at(pc),
            symbolizer.lack(pc),
        );
    }
    for address in stopped.said.iter().flat_map(|line| line.split(' ')) {
        let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
        let global = symbolizer.global_at(address);
        assert!(global.is_some(), "{address:#x}");
        told += &format!("\n{global:?}");
    }
    told
}

/// Check that a reader tells of processes exactly what is told without one, for several ways of writing debug information: in the
/// program, compressed, in split units, in a package, in debug files.
#[test]
fn readers_tell_the_same() {
    let own = |_: &Path| Vec::new();
    let packaged = |dir: &Path| {
        for file in ["nested", "libnested.so"] {
            let package = format!("{file}.dwp");
            tool(dir, "llvm-dwp-22", &["-e", file, "-o", &package]);
        }
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "dwo") {
                fs::remove_file(path).unwrap();
            }
        }
        Vec::new()
    };
    let linked = |dir: &Path| {
        for file in ["nested", "libnested.so"] {
            let debug = format!("{file}.debug");
            tool(dir, "objcopy", &["--only-keep-debug", file, &debug]);
            tool(dir, "objcopy", &["--strip-all", file]);
            let link = format!("--add-gnu-debuglink={debug}");
            tool(dir, "objcopy", &[&link, file]);
        }
        Vec::new()
    };
    type Rest = fn(&Path) -> Vec<PathBuf>;
    let builds: [(&str, &[&str], Rest); 7] = [
        ("clang-22", &["-g"], own),
        ("clang-16", &["-gdwarf-4"], own),
        ("clang-22", &["-gdwarf-5", "-gz=zlib"], own),
        ("clang-22", &["-gdwarf-5", "-gz=zstd"], own),
        ("clang-22", &["-g", "-gsplit-dwarf"], own),
        ("clang-22", &["-g", "-gsplit-dwarf"], packaged),
        ("clang-22", &["-g"], linked),
    ];
    for (compiler, flags, rest) in builds {
        let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
        build_nested(dir.path(), compiler, flags);
        let debug_dirs = rest(dir.path());
        let stopped = Stopped::start(&dir.path().join("nested"));
        let client = client(&debug_dirs);
        let expected = told(&stopped, stopped.symbolizer(&debug_dirs));
        let found = told(&stopped, Symbolizer::over(Arc::clone(&client) as _));
        assert!(expected.contains("nested.c"), "{flags:?}: {expected}");
        assert_eq!(found, expected, "{flags:?}");
        {
            let mut client = client.lock().unwrap();
            assert!(client.reader().is_some() && client.cpu_ns() > 0);
            client.rest();
        }
        // One that is started anew knows all that the first one knew.
        let found = told(&stopped, Symbolizer::over(Arc::clone(&client) as _));
        assert_eq!(found, expected, "{flags:?}");
        assert_eq!(client.lock().unwrap().figures().ended, 0);
    }
}

/// A file whose build id asks for a misdeed, or for none.
fn file(dir: &Path, misdeed: &str) -> ModuleInfo {
    let number = fs::read_dir(dir).unwrap().count() as u64;
    let path = library(dir, misdeed, &["-g"]);
    let start = number << 32;
    ModuleInfo {
        path: format!("/opt/{misdeed}.so"),
        via: path.into(),
        start,
        end: start + (1 << 20),
        bias: start,
        build_id: Vec::new(),
    }
}

/// Addresses in a module, of which each is asked for as often as it is here.
fn frames(symbolizer: &Symbolizer, module: &ModuleInfo) -> Vec<Frame> {
    use object::{Object as _, ObjectSymbol as _};
    let path = match &module.via {
        crate::kernel::foreign::Via::Name(path) => path,
        other => panic!("{other:?}"),
    };
    let bytes = fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let mut symbols = file.symbols();
    let code = symbols.find(|symbol| symbol.name() == Ok("code")).unwrap();
    symbolizer.frames(module.start + code.address())
}

const CODE: &str = "int code(int x) { return x + 1; }\n";

/// Check that a file which crashes its reader, has it hang, takes its memory or tries what it may not, is read no more after
/// the third time, with the reason; that it costs other files nothing; and that nothing of it comes about.
#[test]
fn files_that_get_the_better_of_readers() {
    let dir = sources(&[("code.c", CODE)]);
    let forbidden = "tried what it may not";
    for (misdeed, expected) in [
        ("crash", "signal 11"),
        ("abort", "64 MiB"),
        ("panic", "exit code 101"),
        ("exit", "exit code 0"),
        ("eat", "64 MiB"),
        ("babble", "nonsense"),
        ("hang", "more than 2s"),
        ("open", forbidden),
        ("socket", forbidden),
        ("kill", forbidden),
        ("exec", forbidden),
        ("run", forbidden),
        ("change", forbidden),
        ("share", forbidden),
        ("grow", forbidden),
    ] {
        let client = client(&[]);
        let mut symbolizer = Symbolizer::over(Arc::clone(&client) as _);
        let (bad, good) = (file(dir.path(), misdeed), file(dir.path(), "none"));
        symbolizer.add_module(&bad);
        symbolizer.add_module(&good);
        if misdeed == "hang" {
            client.lock().unwrap().hurry(Duration::from_secs(2));
        }
        assert_eq!(symbolizer.lack(bad.start), None);
        for _ in 0..2 {
            let found = frames(&symbolizer, &bad);
            assert_eq!(found.len(), 1, "{misdeed}: {found:?}");
            assert_eq!(found[0].module.as_deref(), Some(&*bad.path));
            assert_eq!((&found[0].function, found[0].line), (&None, None));
            assert!(found[0].offset > 0 && found[0].build_id.starts_with(b"misdeed "));
            let Some((path, Lack::Unread(why))) = symbolizer.lack(bad.start) else {
                panic!("{misdeed}: {:?}", symbolizer.lack(bad.start));
            };
            assert_eq!(path, bad.path);
            assert!(why.contains(expected), "{misdeed}: {why}");
            let found = frames(&symbolizer, &good);
            assert_eq!(found[0].function.as_deref(), Some("code"), "{misdeed}");
            assert_eq!(found[0].line, Some(1), "{misdeed}");
            assert_eq!(symbolizer.lack(good.start), None);
        }
        let client = client.lock().unwrap();
        let figures = client.figures();
        assert_eq!(figures.ended, 3, "{misdeed}");
        assert_eq!(figures.unread.keys().collect::<Vec<_>>(), [&bad.path]);
        assert!(client.cpu_ns() > 0);
    }
}

/// Check that no file is blamed when somebody kills a reader which has nothing to do, and that the next one knows what it needs.
#[test]
fn killed_readers() {
    let dir = sources(&[("code.c", CODE)]);
    let client = client(&[]);
    let mut symbolizer = Symbolizer::over(Arc::clone(&client) as _);
    let module = file(dir.path(), "none");
    symbolizer.add_module(&module);
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        let found = frames(&symbolizer, &module);
        assert_eq!(found[0].function.as_deref(), Some("code"));
        let reader = client.lock().unwrap().reader().unwrap();
        assert!(seen.insert(reader), "it is another one");
        let reader = Pid::from_raw(reader.cast_signed());
        kill(reader, Signal::SIGKILL).unwrap();
        // Until all of its threads have ended; it stays a zombie until its parent asks.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(reader), flags).unwrap();
    }
    assert_eq!(client.lock().unwrap().figures().ended, 0);
    assert_eq!(symbolizer.lack(module.start), None);
}

/// Check that a reader which nobody has wanted for long enough ends, one that was wanted does not, and that the next one knows what it needs.
#[test]
fn idle_readers() {
    let dir = sources(&[("code.c", CODE)]);
    let client = client(&[]);
    let mut symbolizer = Symbolizer::over(Arc::clone(&client) as _);
    let module = file(dir.path(), "none");
    symbolizer.add_module(&module);
    for _ in 0..2 {
        let found = frames(&symbolizer, &module);
        assert_eq!(found[0].function.as_deref(), Some("code"));
        let mut client = client.lock().unwrap();
        let reader = client.reader();
        client.rest_after(Duration::from_hours(1));
        assert!(reader.is_some() && client.reader() == reader);
        client.rest_after(Duration::ZERO);
        assert_eq!(client.reader(), None);
    }
    assert_eq!(client.lock().unwrap().figures().ended, 0);
}

/// Check that a reader that cannot be started costs reports symbols, and says so.
#[test]
fn no_reader() {
    let dir = sources(&[("code.c", CODE)]);
    let program = Program {
        file: "/bin/false".into(),
        arguments: Vec::new(),
    };
    let client = Client::new(program, Sources::new(DebugDirs::there(Vec::new())));
    let mut symbolizer = Symbolizer::over(Arc::new(Mutex::new(client)));
    let module = file(dir.path(), "none");
    symbolizer.add_module(&module);
    let found = frames(&symbolizer, &module);
    assert_eq!((found.len(), &found[0].function), (1, &None));
    assert_eq!(found[0].module.as_deref(), Some(&*module.path));
    let lack = symbolizer.lack(module.start);
    assert!(
        matches!(&lack, Some((_, Lack::Unread(why))) if why.contains("cannot be started")),
        "{lack:?}"
    );
}

/// Check that files with excessive debug information are read, or refused, by a reader as without one, and end none.
#[test]
fn excessive_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let client = client(&[]);
    let mut most = 0;
    for (sections, expected) in excess::all() {
        excess::write(&path, &sections);
        let symbolizer = Symbolizer::over(Arc::clone(&client) as _);
        let told = excess::told_by(symbolizer, &path);
        assert!(told.contains(expected), "{expected}: {told}");
        let client = client.lock().unwrap();
        assert_eq!(client.figures().ended, 0, "{expected}");
        most = most.max(kilobytes(client.reader().unwrap(), "VmHWM:"));
    }
    println!("{most} kB at most");
    assert!(most > 0);
}

fn kilobytes(process: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    value.map_or(0, |value| {
        value.trim().trim_end_matches(" kB").parse().unwrap()
    })
}

/// Check that a reader has no rights: what the kernel says of it, if it has these things at all.
#[test]
fn readers_have_no_rights() {
    let dir = sources(&[("code.c", CODE)]);
    let client = client(&[]);
    let mut symbolizer = Symbolizer::over(Arc::clone(&client) as _);
    symbolizer.add_module(&file(dir.path(), "none"));
    let reader = client.lock().unwrap().reader().unwrap();
    // Of the thread that has entered the sandbox: the test's own, here.
    let threads = fs::read_dir(format!("/proc/{reader}/task")).unwrap();
    let statuses: Vec<String> = threads
        .map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap())
        .collect();
    let status = statuses.last().unwrap();
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        value.map(str::trim).unwrap_or_default().to_owned()
    };
    for capabilities in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        let is_root = nix::unistd::geteuid().is_root();
        if capabilities != "CapBnd:" || is_root {
            assert_eq!(field(capabilities), "0000000000000000", "{capabilities}");
        }
    }
    assert_eq!(field("NoNewPrivs:"), "1");
    let missing = sandbox::missing();
    println!("missing: {missing:?}");
    if !missing.iter().any(|missing| missing.part == "seccomp") {
        assert_eq!(field("Seccomp:"), "2", "{status}");
    }
    let limits = fs::read_to_string(format!("/proc/{reader}/limits")).unwrap();
    let limit = |name: &str| {
        let value = limits.lines().find_map(|line| line.strip_prefix(name));
        let value = value.unwrap().split_whitespace().next().unwrap();
        value.parse::<u64>().unwrap()
    };
    assert_eq!(limit("Max core file size"), 0);
    assert_eq!(limit("Max processes"), 0);
    assert!(limit("Max data size") <= sandbox::MEMORY);
    assert!(limit("Max stack size") <= 8 << 20);
    assert!(limit("Max address space") < 4 << 30);
    assert!(limit("Max open files") <= 512);
    let first = fs::read_to_string(format!("/proc/{reader}/oom_score_adj")).unwrap();
    assert_eq!(first.trim(), "1000");
    let owner = fs::metadata(format!("/proc/{reader}/mem")).unwrap();
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(owner.uid(), 0, "it is not dumpable");
}
