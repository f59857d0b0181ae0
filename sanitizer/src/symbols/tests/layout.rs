//! What types have at bytes, as compilers describe it.

use std::path::Path;

use object::{Object as _, ObjectSymbol as _};

use super::super::{Held, StackSnapshot, Stopped, Symbolizer};
use super::child::{sources, tool};
use super::symbolizer_of;
use crate::insn::Regs;

const SOURCE: &str = r#"
#include <atomic>
struct Header { Header() {} int length; char kind; };
struct Packet : Header { std::atomic<char> done; char plain; };
struct Empty {};
struct Bits : Empty { unsigned low : 4, high : 9; unsigned : 0; short last; };
struct Items { Header all[2]; };
struct Pair { unsigned first, second; };
extern const char *volatile place;
#define TAKES(name, type) extern "C" __attribute__((noinline)) void name(type *p) { place = (const char *)p; }
TAKES(header, const Header)
TAKES(packet, Packet)
TAKES(bits, Bits)
TAKES(items, Items)
TAKES(pair, Pair)
TAKES(chars, char)
Packet shared;
namespace inner { __attribute__((used)) static Packet hidden; }
extern "C" void copies(const Header *p) {
    Header copy(*p);
    asm volatile("" ::"r"(&copy) : "memory", "rdi");
}
extern "C" void finish() {
    shared.done.store(1, std::memory_order_relaxed);
    inner::hidden.done.store(1, std::memory_order_relaxed);
    inner::hidden.plain++;
}
extern "C" void mark(Packet *p) { p->done.store(1, std::memory_order_relaxed); }
"#;

pub(super) fn address(program: &Path, name: &str) -> u64 {
    let bytes = std::fs::read(program).expect("the file is there");
    let file = object::File::parse(&*bytes).expect("the file parses");
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
    symbol.expect("the symbol is there").address()
}

/// What is held at a byte of the object at 0x1000 to which the argument of a function points, at its beginning; or of a
/// variable that a function uses, which is named behind it.
fn held(program: &Path, symbolizer: &Symbolizer, function: &str, byte: u64) -> Held {
    let (function, variable) = function.split_once(' ').unwrap_or((function, ""));
    let object = if variable.is_empty() {
        0x1000
    } else {
        address(program, variable)
    };
    let regs = Regs {
        rdi: 0x1000,
        ..Regs::default()
    };
    let stopped = Stopped {
        pc: address(program, function),
        regs: &regs,
        stack: &StackSnapshot::default(),
    };
    symbolizer.held_at(stopped, (object + byte, 1))
}

/// Check the ways to members of a variable: those of bases, nested ones, elements of arrays, and where there is none; also of one of which the
/// optimizer keeps the members apart.
#[test]
fn ways_to_members() {
    const SOURCE: &str = r#"
#include <atomic>
struct Header { Header() {} int length; char kind; };
struct Packet : Header { std::atomic<int> done; struct { long first, second; } each[3]; union { int a; long b; }; unsigned low : 4, high : 9; };
Packet shared;
namespace inner { static struct { long hits, misses; } apart; }
static long plain;
extern "C" void count(long by) {
    shared.length++;
    inner::apart.hits += by;
    inner::apart.misses++;
    plain += by;
    asm volatile("" ::"r"(inner::apart.hits + inner::apart.misses + plain));
}
"#;
    let dir = sources(&[("members.cpp", SOURCE)]);
    for flags in [
        ["-O1", "-g", "-gdwarf-5"],
        ["-O2", "-g", "-gdwarf-4"],
        ["-O2", "-g", "-gsplit-dwarf"],
    ] {
        // In two steps: split debug information stays beside the object.
        let mut arguments = vec!["-fPIC", "-c", "members.cpp", "-o", "members.o"];
        arguments.extend(flags);
        tool(dir.path(), "clang++-22", &arguments);
        let arguments = ["-shared", "-nostdlib", "members.o", "-o", "members.so"];
        tool(dir.path(), "clang++-22", &arguments);
        let program = dir.path().join("members.so");
        let symbolizer = symbolizer_of(&program);
        let pc = address(&program, "count");
        let shared = address(&program, "shared");
        for (byte, len, expected) in [
            (0, 4, Some(".length")),
            (4, 1, Some(".kind")),
            (0, 8, Some("")),
            (5, 1, Some("")),
            (8, 4, Some(".done")),
            (16, 8, Some(".each[].first")),
            (40, 4, Some(".each[].second")),
            (16, 16, Some(".each[]")),
            (24, 16, Some(".each")),
            (64, 4, Some("")),
            (72, 1, Some("")),
            (4096, 1, None),
        ] {
            let found = symbolizer.member_at(pc, (shared + byte, len));
            assert_eq!(found.as_deref(), expected, "{flags:?} {byte} {len}");
        }
        let bytes = std::fs::read(&program).expect("the file is there");
        let file = object::File::parse(&*bytes).expect("the file parses");
        let of = |part: &str| {
            let mut symbols = file.symbols().filter(|symbol| {
                symbol.name().is_ok_and(|name| name.contains(part)) && symbol.size() > 0
            });
            symbols.next().map(|symbol| symbol.address())
        };
        let second = of("apartE.1").or_else(|| of("apart.1"));
        let second = second.or_else(|| of("apart").map(|first| first + 8));
        let found = symbolizer.member_at(pc, (second.expect("it is there"), 8));
        assert_eq!(found.as_deref(), Some(".misses"), "{flags:?}");
        let found = symbolizer.member_at(pc, (of("plain").expect("it is there"), 8));
        assert_eq!(found.as_deref(), Some(""), "{flags:?}");
    }
}

/// Check what bytes are called by a variable of the function that has them, by the type of the object to which one points, and that nothing is where none does, or two
/// that are called differently.
#[test]
fn names_of_bytes() {
    const SOURCE: &str = r#"
struct Part { int low, high; };
typedef struct { long head; Part parts[4]; } whole_t;
extern "C" void use(void *);
extern "C" void through(whole_t *whole, Part *part, int *low) { asm volatile("" ::"r"(whole), "r"(part), "r"(low)); }
extern "C" void owns() {
    whole_t whole = {};
    Part *part = &whole.parts[1];
    use(&whole);
    use(part);
}
"#;
    /// Where the object is to which arguments point.
    const OBJECT: u64 = 0x1000;
    let dir = sources(&[("names.cpp", SOURCE)]);
    for flags in [
        ["-O0", "-g", "-gdwarf-5"],
        ["-O0", "-g", "-gdwarf-4"],
        ["-O0", "-g", "-gsplit-dwarf"],
    ] {
        let mut arguments = vec!["-fPIC", "-c", "names.cpp", "-o", "names.o"];
        arguments.extend(flags);
        tool(dir.path(), "clang++-22", &arguments);
        let arguments = ["-shared", "-nostdlib", "names.o", "-o", "names.so"];
        tool(dir.path(), "clang++-22", &arguments);
        let program = dir.path().join("names.so");
        let symbolizer = symbolizer_of(&program);
        // Without optimization the arguments are kept below the frame pointer, the first one first.
        let words = [OBJECT + 8, OBJECT + 8, OBJECT];
        let stack = StackSnapshot {
            base: 0x7000 - 24,
            bytes: words.into_iter().flat_map(u64::to_le_bytes).collect(),
        };
        let regs = Regs {
            rbp: 0x7000,
            rsp: 0x7000,
            ..Regs::default()
        };
        let named = |function: &str, bytes| {
            let stopped = Stopped {
                pc: address(&program, function) + 16,
                regs: &regs,
                stack: &stack,
            };
            symbolizer.named_at(stopped, None, bytes)
        };
        let pointee = |bytes| {
            let pointee = named("through", bytes).pointee;
            pointee.map(|pointee| (pointee.name, pointee.member))
        };
        let is = |name: &str, member: &str| Some((name.to_owned(), member.to_owned()));
        assert_eq!(pointee((OBJECT, 8)), is("whole_t", ".head"), "{flags:?}");
        let part = is("whole_t", ".parts[].high");
        assert_eq!(pointee((OBJECT + 12, 4)), part, "{flags:?}");
        assert_eq!(pointee((OBJECT + 40, 8)), None, "{flags:?}");
        assert_eq!(pointee((OBJECT + 36, 8)), None, "{flags:?}");
        assert_eq!(named("through", (OBJECT, 8)).variable, None, "{flags:?}");
        // 40 bytes below the frame pointer the structure begins, and behind it is the pointer.
        let own = named("owns", (0x7000 - 40 + 8, 4));
        assert_eq!(
            own.variable.as_deref(),
            Some("whole.parts[].low"),
            "{flags:?}"
        );
        assert_eq!(named("owns", (0x7000 + 64, 4)).variable, None, "{flags:?}");
    }
}

/// Check members, bit fields, arrays, padding at the end, in between and of bases, and atomic members in it.
#[test]
fn bytes_of_types() {
    let dir = sources(&[("layout.cpp", SOURCE)]);
    for (compiler, dwarf) in [("clang++-22", "-gdwarf-5"), ("clang++-16", "-gdwarf-4")] {
        let flags = [
            "-O2",
            "-fstandalone-debug",
            "-shared",
            "-fPIC",
            "-Wl,-z,undefs",
        ];
        let mut arguments = vec![dwarf, "layout.cpp", "-o", "layout.so"];
        arguments.extend(flags);
        tool(dir.path(), compiler, &arguments);
        let program = dir.path().join("layout.so");
        let symbolizer = symbolizer_of(&program);
        for (function, byte, expected) in [
            ("header", 0, "member"),
            ("header", 4, "member"),
            ("header", 5, "padding"),
            ("header", 7, "padding"),
            ("header", 8, ""),
            ("packet", 4, "member"),
            ("packet", 5, "atomic padding"),
            ("packet", 6, "member padding"),
            ("mark", 5, "atomic padding"),
            ("copies", 4, "member"),
            ("copies", 5, "padding"),
            ("finish shared", 4, "member"),
            ("finish shared", 5, "atomic padding"),
            ("finish _ZN5innerL6hiddenE", 5, "atomic padding"),
            ("finish _ZN5innerL6hiddenE", 6, "member padding"),
            ("bits", 0, "member"),
            ("bits", 1, "member"),
            ("bits", 2, "padding"),
            ("bits", 4, "member"),
            ("items", 4, "member"),
            ("items", 5, "padding"),
            ("items", 12, "member"),
            ("items", 13, "padding"),
            ("pair", 4, "member"),
            ("chars", 0, "member"),
            ("chars", 1, ""),
        ] {
            let held = held(&program, &symbolizer, function, byte);
            let mut words = Vec::new();
            for (word, is_so) in [
                ("atomic", held.atomic),
                ("member", held.member),
                ("padding", held.padding),
                ("unknown", held.unknown),
            ] {
                if is_so {
                    words.push(word);
                }
            }
            assert_eq!(words.join(" "), expected, "{compiler}: {function}+{byte}");
        }
    }
}
