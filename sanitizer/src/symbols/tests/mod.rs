//! Symbols on real programs: built here, run, stopped, unwound.

mod beginnings;
pub(crate) mod child;
mod columns;
mod crafted;
mod differential;
pub(crate) mod excess;
mod hostile;
mod jail;
mod layout;
mod separate;
mod strict;

use std::path::Path;

use child::{Stopped, line_of, names, sources, tool};

use super::{Frame, ModuleInfo, StackSnapshot, Symbolizer};

pub(crate) const NESTED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
void through_library(void (*callback)(int), int depth);
volatile int go = 1;
int table[16] = { 1 };
static int zeroed[4];
static inline __attribute__((always_inline)) void spin(void) {
    while (go) {} // spin
}
__attribute__((noinline)) static void inner(int depth) {
    char buffer[100 + depth];
    buffer[depth] = (char)depth;
    static int counted;
    printf("%p %p %p\n", (void *)&table[2], (void *)&zeroed[1], (void *)&counted);
    printf("ready\n");
    fflush(stdout);
    spin(); // call spin
    counted += buffer[depth] + zeroed[depth & 1];
    exit(counted);
}
__attribute__((noinline)) void outer(int depth) {
    through_library(inner, depth); // call library
    table[3]++;
}
int main(int argc, char **argv) {
    (void)argv;
    outer(argc); // call outer
    return table[2] + zeroed[argc & 3];
}
"#;

pub(crate) const LIBRARY: &str = r#"
volatile int calls;
__attribute__((noinline)) static void indirect(void (*callback)(int), int depth) {
    callback(depth); // call back
    calls++;
}
void through_library(void (*callback)(int), int depth) {
    indirect(callback, depth); // call indirect
    calls++;
}
"#;

/// A symbolizer that knows one program, which is loaded where it was linked to.
fn symbolizer_of(program: &Path) -> Symbolizer {
    let mut symbolizer = Symbolizer::with_debug_dirs(Vec::new());
    symbolizer.add_module(&ModuleInfo {
        path: program.to_string_lossy().into_owned(),
        via: program.to_owned().into(),
        start: 0,
        end: 1 << 32,
        bias: 0,
        build_id: Vec::new(),
    });
    symbolizer
}

/// Builds `NESTED` and its library with `flags`, without frame pointers.
pub(crate) fn build_nested(dir: &Path, compiler: &str, flags: &[&str]) {
    let common = ["-O2", "-fomit-frame-pointer", "-Wl,--build-id"];
    let library = ["-shared", "-fPIC", "library.c", "-o", "libnested.so"];
    tool(dir, compiler, &[&common[..], flags, &library].concat());
    let program = [
        "nested.c",
        "libnested.so",
        "-Wl,-rpath,$ORIGIN",
        "-o",
        "nested",
    ];
    tool(dir, compiler, &[&common[..], flags, &program].concat());
}

/// `function:line` of the frames from the innermost one to main.
fn expected_nested() -> Vec<String> {
    [
        ("spin", NESTED, "// spin"),
        ("inner", NESTED, "// call spin"),
        ("indirect", LIBRARY, "// call back"),
        ("through_library", LIBRARY, "// call indirect"),
        ("outer", NESTED, "// call library"),
        ("main", NESTED, "// call outer"),
    ]
    .map(|(function, source, marker)| format!("{function}:{}", line_of(source, marker)))
    .to_vec()
}

fn assert_nested(frames: &[Frame]) {
    let names = names(frames);
    assert_eq!(names.get(..6), Some(&expected_nested()[..]), "{names:?}");
    let inlined: Vec<bool> = frames.iter().take(6).map(|f| f.inlined).collect();
    assert_eq!(inlined, [true, false, false, false, false, false]);
    let modules: Vec<bool> = frames
        .iter()
        .take(6)
        .map(|f| {
            f.module
                .as_deref()
                .is_some_and(|m| m.ends_with("/libnested.so"))
        })
        .collect();
    assert_eq!(modules, [false, false, true, true, false, false]);
}

/// Check unwinding without frame pointers through a callback from a shared library and an
/// inlined function, to the very end, for each way of writing debug information.
#[test]
fn nested_inlined_and_shared() {
    for (compiler, flags) in [
        ("clang-22", &["-g"][..]),
        ("clang-16", &["-g"]),
        ("clang-22", &["-gdwarf-4"]),
        ("clang-22", &["-gdwarf-5", "-gz=zlib"]),
        ("clang-22", &["-gdwarf-5", "-gz=zstd"]),
        ("clang-22", &["-g", "-gsplit-dwarf"]),
        ("clang-22", &["-gdwarf-4", "-gsplit-dwarf"]),
        ("clang-22", &["-g", "-fuse-ld=lld-22"]),
        ("clang-22", &["-g", "-no-pie"]),
        ("clang-22", &["-g", "-fno-asynchronous-unwind-tables"]),
    ] {
        let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
        build_nested(dir.path(), compiler, flags);
        let stopped = Stopped::start(&dir.path().join("nested"));
        let symbolizer = stopped.symbolizer(&[]);
        let (stack, frames) = stopped.frames(&symbolizer);
        assert_nested(&frames);
        assert!(!stack.truncated, "{flags:?}: {:?}", names(&frames));
        assert_eq!(stack.pcs.first(), Some(&stopped.regs.rip));
        let last = frames.last().and_then(|f| f.function.as_deref());
        assert_eq!(last, Some("_start"), "{flags:?}");
        let first = &frames[0];
        assert!(
            first
                .file
                .as_deref()
                .is_some_and(|f| f.ends_with("/nested.c")),
            "{first:?}"
        );
        assert!(first.column.is_some(), "{first:?}");
        assert_eq!(first.build_id.len(), 20, "{first:?}");
    }
}

/// Check that initialised, zeroed and function-local variables are found by address.
#[test]
fn globals() {
    let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
    build_nested(dir.path(), "clang-22", &["-g"]);
    let stopped = Stopped::start(&dir.path().join("nested"));
    let symbolizer = stopped.symbolizer(&[]);
    let addresses: Vec<u64> = stopped.said[0]
        .split_whitespace()
        .map(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("address"))
        .collect();
    let found: Vec<(String, u64, u64)> = addresses
        .iter()
        .map(|&addr| symbolizer.global_at(addr).expect("a variable"))
        .map(|global| (global.name, global.offset, global.size))
        .collect();
    let expected = [("table", 8, 64), ("zeroed", 4, 16), ("inner.counted", 0, 4)];
    assert_eq!(
        found,
        expected.map(|(name, offset, size)| (name.to_owned(), offset, size))
    );
    assert_eq!(symbolizer.global_at(stopped.regs.rsp), None);
    assert_eq!(symbolizer.global_at(stopped.regs.rip), None);
}

/// Check that a short snapshot gives the callers that it reaches, and says that it is short.
#[test]
fn truncated_snapshot() {
    let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
    build_nested(dir.path(), "clang-22", &["-g"]);
    let stopped = Stopped::start(&dir.path().join("nested"));
    let symbolizer = stopped.symbolizer(&[]);
    let full = symbolizer.unwind(&stopped.regs, &stopped.stack);
    let mut lengths = Vec::new();
    for size in (0..stopped.stack.bytes.len().min(2048)).step_by(8) {
        let bytes = stopped.stack.bytes[..size].to_vec();
        let cut = StackSnapshot {
            base: stopped.stack.base,
            bytes,
        };
        let stack = symbolizer.unwind(&stopped.regs, &cut);
        assert!(full.pcs.starts_with(&stack.pcs));
        assert_eq!(
            stack.truncated,
            stack.pcs.len() < full.pcs.len(),
            "{size} bytes"
        );
        lengths.push(stack.pcs.len());
    }
    assert_eq!(lengths.first(), Some(&1));
    assert!(lengths.is_sorted());
    assert!(lengths.contains(&3), "{lengths:?}");
}

/// Check that the access is shown in place of the instruction after it, also where that one
/// is in another function.
#[test]
fn access_before_the_trap() {
    let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
    build_nested(dir.path(), "clang-22", &["-g"]);
    let stopped = Stopped::start(&dir.path().join("nested"));
    let symbolizer = stopped.symbolizer(&[]);
    let stack = symbolizer.unwind(&stopped.regs, &stopped.stack);
    let plain = symbolizer.unwind_access(stopped.regs.rip - 3, &stopped.regs, &stopped.stack);
    assert_eq!(plain.pcs[0], stopped.regs.rip - 3);
    assert_eq!(plain.pcs[1..], stack.pcs[1..]);
    // As if the thread had got here by a call through memory: frame 1 is the call.
    let call = stack.pcs[1] - 1;
    let called = symbolizer.unwind_access(call, &stopped.regs, &stopped.stack);
    assert_eq!(called.pcs[0], call);
    assert_eq!(called.pcs[1..], stack.pcs[2..]);
}

const SIGNAL: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
volatile int go = 1;
volatile int *volatile nowhere;
static void handler(int number) {
    if (write(1, "ready\n", 6) < 0) abort();
    while (go) {} // spin
    _exit(number);
}
__attribute__((noinline)) int faulting(int value) {
    value += 3;
    *nowhere = value; // fault
    return value + 1;
}
__attribute__((noinline)) int caller(int value) {
    return faulting(value) * 2; // call faulting
}
int main(int argc, char **argv) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    if (argc > 1) abort();
    if (strstr(argv[0], "altstack")) {
        stack_t stack = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
        sigaltstack(&stack, 0);
        action.sa_flags = SA_ONSTACK;
    }
    sigaction(SIGSEGV, &action, 0);
    return caller(argc); // call caller
}
"#;

/// Check unwinding through a signal frame: the interrupted function is shown at the very
/// instruction, its callers follow. With the C library's unwind tables, and in a static
/// program without any for the trampoline's library.
#[test]
fn signal_frame() {
    for (name, flags) in [("shared", &["-g"][..]), ("static", &["-g", "-static"])] {
        let dir = sources(&[("signal.c", SIGNAL)]);
        let program = ["-O2", "-fomit-frame-pointer", "signal.c", "-o", name];
        tool(dir.path(), "clang-22", &[flags, &program].concat());
        let stopped = Stopped::start(&dir.path().join(name));
        let symbolizer = stopped.symbolizer(&[]);
        let (stack, frames) = stopped.frames(&symbolizer);
        let names = names(&frames);
        let expected = [
            ("faulting", "// fault"),
            ("caller", "// call faulting"),
            ("main", "// call caller"),
        ]
        .map(|(function, marker)| format!("{function}:{}", line_of(SIGNAL, marker)));
        assert_eq!(names[0], format!("handler:{}", line_of(SIGNAL, "// spin")));
        let at = names
            .iter()
            .position(|n| n.starts_with("faulting"))
            .expect("interrupted");
        assert_eq!(at, 2, "one trampoline frame in {names:?}");
        assert_eq!(names[at..at + 3], expected, "{names:?}");
        assert!(!stack.truncated, "{names:?}");
    }
}

/// Check that a handler on its own stack ends the walk where the snapshot ends.
#[test]
fn alternate_signal_stack() {
    let dir = sources(&[("signal.c", SIGNAL)]);
    tool(
        dir.path(),
        "clang-22",
        &["-O2", "-g", "signal.c", "-o", "altstack"],
    );
    let mut stopped = Stopped::start(&dir.path().join("altstack"));
    // What follows on the heap is no stack.
    stopped.stack.bytes.truncate(4096);
    let (stack, frames) = stopped.frames(&stopped.symbolizer(&[]));
    let names = names(&frames);
    assert!(names[0].starts_with("handler:"), "{names:?}");
    assert!(
        names.iter().any(|n| n.starts_with("faulting:")),
        "{names:?}"
    );
    assert!(stack.truncated, "{names:?}");
}

const THREAD: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
volatile int go = 1;
static void *work(void *argument) {
    printf("ready %ld\n", syscall(SYS_gettid));
    fflush(stdout);
    while (go) {} // spin
    return argument;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    return 0;
}
"#;

/// Check that code of no line is not told to be in the file of the code before it.
#[test]
fn no_line() {
    const SOURCE: &str = "volatile int x;\nvoid f(void) {\n  x = 1;\n#line 0 \"zero.h\"\n  x = 2;\n\
        #line 9 \"input.c\"\n  x = 3;\n}\nint main(void) { f(); }\n";
    let dir = sources(&[("input.c", SOURCE)]);
    tool(
        dir.path(),
        "clang-22",
        &["-g", "-w", "input.c", "-o", "input"],
    );
    let path = dir.path().join("input");
    let image = crate::image::Image::open(&path).expect("it is a program");
    let functions = image.functions();
    let f = functions.iter().find(|f| f.name == "f").expect("it is f");
    let mut symbolizer = Symbolizer::with_debug_dirs(Vec::new());
    symbolizer.add_module(&ModuleInfo {
        path: path.to_string_lossy().into_owned(),
        via: path.clone().into(),
        start: 0,
        end: 0x10_0000,
        bias: 0,
        build_id: Vec::new(),
    });
    let frames = (0..f.size).flat_map(|offset| symbolizer.frames(f.address.0 + offset));
    let (none, known): (Vec<_>, Vec<_>) = frames.partition(|frame| frame.line.is_none());
    assert!(
        !none.is_empty() && none.iter().all(|frame| frame.file.is_none()),
        "{none:?}"
    );
    assert!(
        known
            .iter()
            .all(|frame| frame.file.as_ref().is_some_and(|f| f.ends_with("/input.c")))
    );
}

/// Check that a thread's stack is unwound to its very start.
#[test]
fn thread_stack() {
    let dir = sources(&[("thread.c", THREAD)]);
    tool(
        dir.path(),
        "clang-22",
        &["-O2", "-g", "-pthread", "thread.c", "-o", "thread"],
    );
    let stopped = Stopped::start(&dir.path().join("thread"));
    let (stack, frames) = stopped.frames(&stopped.symbolizer(&[]));
    assert_eq!(frames[0].function.as_deref(), Some("work"));
    assert_eq!(frames[0].line, Some(line_of(THREAD, "// spin")));
    assert!(!stack.truncated, "{:?}", names(&frames));
    assert!(stack.pcs.len() >= 2);
}

const CPP: &str = r#"
#include <cstdio>
#include <string>
namespace shop {
volatile int go = 1;
template <typename T> struct Counter {
    T value = 0;
    __attribute__((noinline)) T bump(const std::string &by) {
        value += static_cast<T>(by.size());
        while (go) {} // spin
        return value;
    }
};
static Counter<long> counter;
}
int main(int argc, char **argv) {
    std::string by(argv[0]);
    auto run = [&](int times) __attribute__((noinline)) {
        return shop::counter.bump(by) * times; // call bump
    };
    std::printf("%p\n", static_cast<void *>(&shop::counter));
    std::printf("ready\n");
    std::fflush(stdout);
    return static_cast<int>(run(argc));
}
"#;

/// Check C++ names: templates, parameters, namespaces, lambdas, a static object.
#[test]
fn cpp_names() {
    let dir = sources(&[("shop.cpp", CPP)]);
    tool(
        dir.path(),
        "clang++-22",
        &["-O2", "-g", "shop.cpp", "-o", "shop"],
    );
    let stopped = Stopped::start(&dir.path().join("shop"));
    let symbolizer = stopped.symbolizer(&[]);
    let (_, frames) = stopped.frames(&symbolizer);
    let function = frames[0].function.as_deref().expect("a name");
    assert!(
        function.starts_with("shop::Counter<long>::bump(std::"),
        "{function}"
    );
    assert_eq!(frames[0].line, Some(line_of(CPP, "// spin")));
    let lambda = frames[1].function.as_deref().expect("a name");
    assert!(lambda.starts_with("main::"), "{lambda}");
    assert_eq!(frames[1].line, Some(line_of(CPP, "// call bump")));
    let address = u64::from_str_radix(stopped.said[0].trim_start_matches("0x"), 16);
    let global = symbolizer
        .global_at(address.expect("an address"))
        .expect("a variable");
    assert_eq!(global.name, "shop::counter");
}

const RUST: &str = r#"
use std::sync::atomic::{AtomicBool, Ordering};
static GO: AtomicBool = AtomicBool::new(true);
static mut TOTAL: [u64; 4] = [0; 4];
mod work {
    pub struct Item<T>(pub T);
    impl<T: Into<u64>> Item<T> {
        #[inline(never)]
        pub fn add(self) {
            let by: u64 = self.0.into();
            unsafe { super::TOTAL[1] += by };
            while super::GO.load(super::Ordering::Relaxed) {} // spin
        }
    }
}
fn main() {
    println!("{:p}", &raw const TOTAL);
    println!("ready");
    let items: Vec<u8> = vec![7];
    items.into_iter().for_each(|byte| work::Item(byte).add()); // call add
}
"#;

/// Check that line tables alone give full names of functions that were not inlined, which
/// only the symbol table has.
#[test]
fn line_tables_only() {
    let dir = sources(&[("shop.cpp", CPP)]);
    tool(
        dir.path(),
        "clang++-22",
        &["-O2", "-gline-tables-only", "shop.cpp", "-o", "shop"],
    );
    let stopped = Stopped::start(&dir.path().join("shop"));
    let (_, frames) = stopped.frames(&stopped.symbolizer(&[]));
    let function = frames[0].function.as_deref().expect("a name");
    assert!(
        function.starts_with("shop::Counter<long>::bump(std::"),
        "{function}"
    );
    assert_eq!(frames[0].line, Some(line_of(CPP, "// spin")));
}

/// Check Rust names, without hashes, in both mangling schemes.
#[test]
fn rust_names() {
    for mangling in ["legacy", "v0"] {
        let dir = sources(&[("sum.rs", RUST)]);
        let scheme = format!("-Csymbol-mangling-version={mangling}");
        // Legacy mangling needs permission on compilers that are about to drop it.
        let args = [
            "--edition=2024",
            "-O",
            "-g",
            "-Zunstable-options",
            &scheme,
            "sum.rs",
        ];
        let args: Vec<&str> = args
            .into_iter()
            .filter(|a| mangling == "legacy" || *a != "-Zunstable-options")
            .collect();
        let status = std::process::Command::new("rustc")
            .current_dir(dir.path())
            .env("RUSTC_BOOTSTRAP", "1")
            .args(&args)
            .status()
            .expect("run rustc");
        assert!(status.success());
        let stopped = Stopped::start(&dir.path().join("sum"));
        let symbolizer = stopped.symbolizer(&[]);
        let (stack, frames) = stopped.frames(&symbolizer);
        let spin = line_of(RUST, "// spin");
        let names = names(&frames);
        let add = frames
            .iter()
            .find(|f| f.line == Some(spin))
            .expect("the loop's line");
        let function = add.function.as_deref().expect("a name");
        // Legacy names hold no type arguments.
        let argument = if mangling == "legacy" { "T" } else { "u8" };
        assert!(
            function.contains(&format!("work::Item<{argument}>")),
            "{function}"
        );
        assert!(function.ends_with("::add"), "{function}");
        let call = line_of(RUST, "// call add");
        let closure = frames
            .iter()
            .find(|f| f.line == Some(call))
            .expect("the call's line");
        assert!(
            closure
                .function
                .as_deref()
                .is_some_and(|f| f.contains("main")),
            "{names:?}"
        );
        assert!(
            names.iter().any(|n| n.starts_with("sum::main")),
            "{names:?}"
        );
        assert!(!stack.truncated, "{names:?}");
        let address = u64::from_str_radix(stopped.said[0].trim_start_matches("0x"), 16);
        let global = symbolizer
            .global_at(address.expect("an address"))
            .expect("a variable");
        assert_eq!(global.name, "sum::TOTAL");
    }
}

const REALIGNED: &str = r#"
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
volatile int go = 1;
typedef float wide __attribute__((vector_size(64), aligned(64)));
__attribute__((noinline)) static void die(void) {
    printf("ready\n");
    fflush(stdout);
    while (go) {} // spin
    exit(0);
}
__attribute__((noinline, noreturn)) static void fatal(wide *value) {
    (*value)[1] = 2;
    die(); // call die
    abort();
}
__attribute__((noinline)) static int grows(int size) {
    wide local = { (float)size };
    char *buffer = alloca((size_t)size * 1000);
    buffer[size] = 1;
    fatal(&local); // call fatal
}
int main(int argc, char **argv) {
    (void)argv;
    wide local = { (float)argc };
    return grows(argc) + (int)local[0]; // call grows
}
"#;

/// Check frames that only some tables describe: realigned and dynamic ones, whose address is
/// in another register or in memory, and a call that is the last instruction of its function.
#[test]
fn realigned_frames() {
    for (compiler, level) in [("clang-22", "-O2"), ("clang-22", "-O0"), ("gcc", "-O1")] {
        let dir = sources(&[("realigned.c", REALIGNED)]);
        let flags = [level, "-g", "-mavx", "-fomit-frame-pointer", "-Wno-psabi"];
        tool(
            dir.path(),
            compiler,
            &[&flags[..], &["realigned.c", "-o", "realigned"]].concat(),
        );
        let stopped = Stopped::start(&dir.path().join("realigned"));
        let (stack, frames) = stopped.frames(&stopped.symbolizer(&[]));
        let names = names(&frames);
        let expected = [
            ("die", "// spin"),
            ("fatal", "// call die"),
            ("grows", "// call fatal"),
            ("main", "// call grows"),
        ]
        .map(|(function, marker)| format!("{function}:{}", line_of(REALIGNED, marker)));
        assert_eq!(
            names.get(..4),
            Some(&expected[..]),
            "{compiler} {level}: {names:?}"
        );
        assert!(!stack.truncated, "{compiler} {level}: {names:?}");
    }
}

/// Check that setting modules forgets those that are gone and keeps the files of others.
#[test]
fn module_changes() {
    let dir = sources(&[("nested.c", NESTED), ("library.c", LIBRARY)]);
    build_nested(dir.path(), "clang-22", &["-g"]);
    let stopped = Stopped::start(&dir.path().join("nested"));
    let modules = stopped.modules.clone();
    let mut symbolizer = stopped.symbolizer(&[]);
    let pc = stopped.regs.rip;
    drop(stopped);
    // The process is gone, and its /proc directory with it.
    symbolizer.set_modules(&modules);
    assert_eq!(symbolizer.frames(pc)[0].function.as_deref(), Some("spin"));
    let child = symbolizer.clone();
    let others: Vec<_> = modules
        .iter()
        .filter(|m| !m.contains(pc))
        .cloned()
        .collect();
    symbolizer.set_modules(&others);
    assert_eq!(symbolizer.frames(pc)[0].module, None);
    assert!(symbolizer.module_at(others[0].start).is_some());
    assert_eq!(child.frames(pc)[0].function.as_deref(), Some("spin"));
}

/// Check that symbolizers may be handed to another thread, and clones share files.
#[test]
fn is_send() {
    const fn assert_send<T: Send>() {}
    assert_send::<Symbolizer>();
}
