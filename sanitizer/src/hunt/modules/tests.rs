//! Memory routines of real processes, found from outside.

use nix::unistd::Pid;

use super::{loaded::MOST_DECODED, *};
use crate::{
    hunt::{
        routines::{Code, EFFORT, LONGEST_FUNCTION},
        strategy::CodeView as _,
    },
    image::{Image, Raw, SlotTarget},
    insn::Transfer,
    symbols::{Outline, OutlinedHere},
    tracee::testing::{Child, compile},
};

/// Prints what the dynamic linker has made of the names on the command line; copies and prints
/// again when it is told to.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
char from[256], to[256];
int main(void) {
    const char *names[] = {"memcpy", "memmove", "memset", "bcopy", "bzero", "mempcpy"};
    for (int i = 0; i < 6; i++) printf("%s %p\n", names[i], dlsym(RTLD_DEFAULT, names[i]));
    puts("ready");
    fflush(stdout);
    int length = getchar();
    memcpy(to, from, length);
    __builtin___memset_chk(from, to[1], length, 200 + (length & 1));
    mempcpy(from + 1, to, length);
    printf("memcpy %p\nmempcpy %p\n__memset_chk %p\nready\n", dlsym(RTLD_DEFAULT, "memcpy"),
           dlsym(RTLD_DEFAULT, "mempcpy"), dlsym(RTLD_DEFAULT, "__memset_chk"));
    fflush(stdout);
    pause();
}
"#;

/// The modules of a process with their routines, without gates.
fn look(pid: Pid) -> ModuleSet {
    let scan = Modules::scan_with(pid, Vec::new(), &mut OutlinedHere).unwrap();
    let mut set = ModuleSet::default();
    for module in scan.all() {
        set.loaded
            .push(Arc::new(Loaded::new(Arc::clone(module), &mut Vec::new())));
    }
    set.sort_ranges();
    set.find_routines();
    assert!(set.bind_routines(pid.as_raw().cast_unsigned()));
    set.outdated_routines();
    set
}

/// Names and addresses that the program prints, until it is ready.
fn printed(child: &Child) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    loop {
        let line = child.read_line();
        let Some((name, address)) = line.trim().split_once(" 0x") else {
            return all;
        };
        all.push((name.to_owned(), u64::from_str_radix(address, 16).unwrap()));
    }
}

fn assert_found(set: &ModuleSet, printed: &[(String, u64)]) {
    for (name, address) in printed {
        assert!(
            set.routines.entry(*address).is_some(),
            "{name} {address:#x}"
        );
        assert!(set.routines.contract(*address).is_some(), "{name}");
        let place = set.place(*address).unwrap();
        let (start, end) = place.routine().unwrap_or_else(|| panic!("{name}"));
        assert!((start..end).contains(&place.link), "{name}");
    }
}

/// Check that the variants that a stripped C library has chosen are those that the process's own
/// dynamic linker answers with, at once for what the library uses itself, after the first call
/// for what a program binds lazily; and that their code is known.
#[test]
fn variants_that_the_c_library_has_chosen() {
    for bind in ["-Wl,-z,lazy", "-Wl,-z,now"] {
        let mut child = Child::run(PROGRAM, &["-O1", "-fno-builtin", bind]);
        let before = printed(&child);
        assert_eq!(before.len(), 6);
        let mut again = look(child.pid());
        assert_found(&again, &before[..5]);
        let pid = child.pid().as_raw().cast_unsigned();
        if bind.ends_with("lazy") {
            assert!(again.routines.is_incomplete());
            // Where nothing was bound since, nothing is made anew.
            let routines = Arc::clone(&again.routines);
            assert!(!again.bind_routines(pid));
            assert!(Arc::ptr_eq(&routines, &again.routines));
        }
        child.send_line("copy");
        let after = printed(&child);
        assert_eq!(after.len(), 3);
        assert_eq!(again.bind_routines(pid), bind.ends_with("lazy"));
        again.outdated_routines();
        assert_found(&again, &before);
        assert_found(&again, &after);
        let set = look(child.pid());
        assert_found(&set, &before);
        assert_found(&set, &after);
        // What is called in the program leads there through its stubs.
        let program = Image::open(&child.exe()).unwrap();
        let bias = set
            .loaded
            .iter()
            .find(|loaded| loaded.module.path == child.exe())
            .unwrap()
            .module
            .bias;
        let cell = program
            .slots()
            .into_iter()
            .find(|slot| slot.target == SlotTarget::Symbol("memcpy"))
            .unwrap();
        let through = Transfer::Through(cell.address.0.wrapping_add(bias));
        assert_eq!(
            set.routine_behind(through),
            Some(("memcpy", Some(after[0].1)))
        );
    }
}

/// Check that no routine of a C library reaches into other functions: all that belongs to one
/// that has a name in the library is a routine by that name.
#[test]
fn nothing_else_belongs_to_a_routine() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(
        dir.path(),
        "program",
        PROGRAM,
        &["-O1", "-fno-builtin", "-static", "-w"],
    );
    let image = Image::open(&program).unwrap();
    let raw = Raw::of_bytes(image.data().to_vec(), &program);
    let outlined = Outlined::new(raw, Outline::of(&image));
    let mut code = Code::new(&outlined, EFFORT);
    let functions = image.functions();
    let mut routines = 0;
    for symbol in &functions {
        if symbol.indirect || crate::hunt::routines::Contract::of(symbol.name).is_none() {
            continue;
        }
        for range in code.of_routine(symbol.address) {
            routines += 1;
            let names: Vec<_> = functions
                .iter()
                .filter(|other| range.contains(&other.address) && other.size > 0)
                .map(|other| other.name)
                .collect();
            assert!(
                names
                    .iter()
                    .all(|name| crate::hunt::routines::Contract::of(name).is_some()),
                "{}: {names:?}",
                symbol.name
            );
        }
    }
    assert!(routines > 10, "{routines}");
    let spent = EFFORT - code.left();
    assert!((10_000..EFFORT / 4).contains(&spent), "{spent}");
}

/// A library with functions of one byte, `ret`, from `first` on, two under the names of routines, and a huge one.
pub(super) fn library_of_lies() -> (tempfile::TempDir, Image) {
    let source = format!(
        r#"asm(".text\n.globl first\nfirst:\n"
            ".rept {MOST_DECODED} + 10\n.cfi_startproc\nret\n.cfi_endproc\n.endr\n"
            ".globl memset\n.type memset, @function\nmemset:\n"
            ".cfi_startproc\n.fill {LONGEST_FUNCTION} - 1, 1, 0x90\nret\n.cfi_endproc\n"
            ".size memset, . - memset\nud2\n"
            ".globl memcpy\n.type memcpy, @function\nmemcpy:\n"
            ".cfi_startproc\n.fill {LONGEST_FUNCTION}, 1, 0x90\nret\n.cfi_endproc\n"
            ".size memcpy, . - memcpy\n"
            ".globl huge\n.type huge, @function\nhuge:\n"
            ".cfi_startproc\n.fill 1048576, 1, 0x90\nret\n.cfi_endproc\n"
            ".size huge, . - huge\n");"#
    );
    let dir = tempfile::tempdir().unwrap();
    let library = compile(dir.path(), "lies", &source, &["-shared", "-nostdlib"]);
    let image = Image::open(&library).unwrap();
    (dir, image)
}

fn outlined(image: &Image) -> Outlined {
    let raw = Raw::of_bytes(image.data().to_vec(), image.name());
    Outlined::new(raw, Outline::of(image))
}

/// Check that of code which is too long for a routine, and of more than may be gone through, nothing is known.
#[test]
fn routines_without_end() {
    let (_dir, image) = library_of_lies();
    let outlined = outlined(&image);
    let named = |name: &str| {
        let mut functions = outlined.declared().functions();
        functions.find(|(_, other)| *other == name).unwrap().0
    };
    let [short, long] = ["memset", "memcpy"].map(named);
    let mut code = Code::new(&outlined, 3 * LONGEST_FUNCTION);
    assert_eq!(code.of_routine(long), []);
    assert!(
        code.left() > 2 * LONGEST_FUNCTION,
        "it was not gone through"
    );
    for _ in 0..2 {
        let found = code.of_routine(short);
        assert_eq!(found, [short..short.offset(LONGEST_FUNCTION as i64)]);
    }
    assert_eq!(code.of_routine(short), []);
    assert_eq!(code.left(), 0);
    assert_eq!(code.of_routine(short), []);
}

/// It as a process has it that has nothing else.
pub(super) fn mapped(image: &Image) -> Arc<loaded::Module> {
    let ends = image.segments().iter();
    let end = ends.map(|segment| segment.address.0 + segment.memory_size);
    let end = end.max().unwrap();
    Arc::new(loaded::Module {
        path: "lies".into(),
        via: crate::kernel::foreign::Via::default(),
        start: RuntimeAddr(0),
        end: RuntimeAddr(end),
        executable: std::iter::once(0..end).collect(),
        bias: 0,
        dev: 0,
        inode: 0,
        identity: None,
        image: outlined(image),
        deleted: false,
    })
}

/// Check that the code of a function is told if it is not longer than functions are, and that of code at the end of a segment all is.
#[test]
fn code_at_an_address() {
    let (_dir, image) = library_of_lies();
    let loaded = Loaded::new(mapped(&image), &mut Vec::new());
    let mut set = ModuleSet::default();
    set.loaded.push(Arc::new(loaded));
    set.sort_ranges();
    let symbols = image.functions();
    let length = |name: &str| {
        let symbol = symbols.iter().find(|symbol| symbol.name == name).unwrap();
        let (start, code) = set.function_code(symbol.address.0 + 5)?;
        assert_eq!(start, symbol.address.0);
        Some(code.len())
    };
    assert_eq!(length("memcpy"), Some(LONGEST_FUNCTION + 1));
    assert_eq!(length("huge"), None);
    let mut code = image.segments().iter().filter(|part| part.is_executable);
    let code = code.next().unwrap();
    let end = code.address.0 + code.file_size;
    for (before, expected) in [(100, 64), (64, 64), (20, 20), (1, 1), (0, 0)] {
        assert_eq!(set.code(end - before).len(), expected);
    }
}

/// Check that what a process says are routines of a file is not remembered without end for others, and takes no work without end from its own.
#[test]
fn what_is_remembered_of_routines() {
    let (_dir, image) = library_of_lies();
    let symbols = image.functions();
    let first = symbols.iter().find(|symbol| symbol.name == "memset");
    let first = first.unwrap().address.offset(-(MOST_DECODED as i64) - 10);
    let module = mapped(&image);
    let mut process = Arc::new(Loaded::new(Arc::clone(&module), &mut Vec::new()));
    let functions = || (0..MOST_DECODED as i64 + 10).map(|at| first.offset(at));
    for nothing in [first.offset(-1), LinkAddr(u64::MAX)] {
        assert!(!process.add_routine(nothing, "memcpy"));
    }
    assert!(process.decoded.is_empty());
    for function in functions() {
        assert!(process.add_routine(function, "memcpy"));
    }
    assert_eq!(process.entries.len(), MOST_DECODED + 10);
    assert_eq!(process.decoded.len(), MOST_DECODED);
    let spent = EFFORT - process.effort;
    assert!(spent > MOST_DECODED * 200);
    // Nothing that one process has used up is missing in the next.
    Arc::make_mut(&mut process).effort = 1;
    let mut other = Arc::new(process.of_another(module));
    assert_eq!((other.effort, other.entries.len()), (EFFORT, 0));
    for process in [&mut process, &mut other] {
        Arc::make_mut(process).entries.clear();
    }
    let last = first.offset(MOST_DECODED as i64 + 5);
    assert!(!process.add_routine(last, "memcpy") && other.add_routine(last, "memcpy"));
    assert!(process.add_routine(first, "memcpy") && other.add_routine(first, "memcpy"));
}

/// Check that a program's own function under a routine's name is its own code, where the compiler
/// has analyzed it.
#[test]
fn a_program_with_its_own_memcpy() {
    let source = "#include <stddef.h>\n#include <stdio.h>\n\
        void *memcpy(void *to, const void *from, size_t n) {\n\
          for (size_t i = 0; i < n; i++) ((volatile char *)to)[i] = ((const char *)from)[i];\n\
          return to; }\n\
        char a[64], b[64];\n\
        int main(void) { puts(\"ready\"); fflush(stdout); memcpy(a, b, getchar()); }";
    for (flags, own) in [
        (&["-fexperimental-sanitize-metadata=atomics"][..], true),
        (&[][..], false),
    ] {
        let mut all = vec!["-O1", "-fno-builtin"];
        all.extend(flags);
        let child = Child::run(source, &all);
        child.wait_for_line("ready");
        let set = look(child.pid());
        let path = child.exe();
        let program = set
            .loaded
            .iter()
            .find(|loaded| loaded.module.path == path)
            .unwrap();
        assert_eq!(program.routines.is_empty(), own);
    }
}

/// Check that code which is gone, or another module's, in a later look is told from what has stayed, or is new.
#[test]
fn replaced_code_is_noticed() {
    let child = Child::run(PROGRAM, &["-O1"]);
    let addresses = printed(&child);
    let set = look(child.pid());
    let [kept, gone] = [addresses[0].1, set.ranges[0].0];
    let removed = set.place(gone).unwrap().module.module.clone();
    assert!(!Arc::ptr_eq(
        &removed,
        &set.place(kept).unwrap().module.module
    ));
    let mut later = set.clone();
    later
        .loaded
        .retain(|loaded| !Arc::ptr_eq(&loaded.module, &removed));
    later.sort_ranges();
    assert!(set.is_replaced_in(&later, gone) && !set.is_replaced_in(&later, kept));
    assert!(!later.is_replaced_in(&set, gone) && !set.is_replaced_in(&set, gone));
    // Another file at the same address is another module.
    let other = look(child.pid());
    assert!(set.is_replaced_in(&other, gone) && set.is_replaced_in(&other, kept));
}
