//! The fixtures, by what is expected of them.

use std::path::PathBuf;

use gwp_race_tests::{Compiler, Configuration, Metadata, Program, compile};

/// A program with a race that must be caught.
#[derive(Clone, Debug)]
pub struct Racy {
    /// The program.
    pub program: Program,
    /// The two functions that race; one name where they are the same.
    pub functions: [&'static str; 2],
    /// Whether one side is atomic.
    pub atomic: bool,
}

/// A program that must stay silent, and a twin of it that must not.
#[derive(Clone, Debug)]
pub struct Silent {
    /// The program.
    pub program: Program,
    /// Its twin.
    pub twin: Program,
    /// Whether only clang 22 knows what keeps it silent.
    pub only_clang_22: bool,
}

/// Stalls and waits for one until two accesses are caught that follow each other all the time, on two processors
/// that others use as well: as measured on a busy machine, where it takes more than on an idle one.
const CLOSE: f64 = 40.0;
/// The same where most of the time goes into the C library or the kernel, or much of it into other work.
const BETWEEN_CALLS: f64 = 70.0;
/// The same where most of the accesses have no race.
const AMONG_OTHERS: f64 = 150.0;
/// The same of a thread that sleeps nearly all the time.
const SELDOM: f64 = 2500.0;

impl Silent {
    /// The configuration in which it can be tested.
    pub fn fit(&self, mut configuration: Configuration) -> Configuration {
        if self.only_clang_22 {
            configuration.compiler = Compiler::Clang22;
        }
        configuration
    }
}

fn racy(source: &'static str, functions: [&'static str; 2]) -> Racy {
    Racy {
        program: Program::new(source),
        functions,
        atomic: false,
    }
}

/// How many attempts it takes, on average, to catch the race of a fixture.
pub fn usual(program: &Program) -> f64 {
    const BETWEEN: [&str; 14] = [
        "allocator",
        "loaded_library",
        "main_by_reference",
        "mem",
        "str",
        "read_call",
        "system_calls",
        "double_checked",
        "late_thread",
        "forked_child",
        "rare",
        "static_mut",
        "two_mappings",
        "widened_load",
    ];
    const AMONG: [&str; 5] = [
        "streams",
        "atomics",
        "results",
        "by_reference",
        "unanalyzed_copy",
    ];
    let name = program.name();
    if name == "glance" {
        SELDOM
    } else if AMONG.contains(&name) {
        AMONG_OTHERS
    } else if BETWEEN.iter().any(|start| name.starts_with(start)) {
        BETWEEN_CALLS
    } else {
        CLOSE
    }
}

/// The races that must be caught.
pub fn racy_programs() -> Vec<Racy> {
    let counter = Program::new("libs/counter.c");
    vec![
        racy("races/write_write.c", ["store_one", "store_other"]),
        racy("races/read_write.c", ["store", "load"]),
        Racy {
            atomic: true,
            ..racy("races/plain_atomic.c", ["add", "reset"])
        },
        racy("races/byte_in_word.c", ["store_byte", "load_word"]),
        racy("races/widths.c", ["store_wide", "load_narrow"]),
        racy("races/heap.c", ["increment"; 2]),
        racy("races/field.c", ["count_miss"; 2]),
        racy("races/local_static.c", ["next_number"; 2]),
        racy("races/other_stack.c", ["borrower", "owner"]),
        racy("races/main_by_reference.cpp", ["starter"; 2]),
        racy("races/team.c", ["region", "region_of_member"]),
        racy("races/two_mappings.c", ["increment"; 2]),
        racy("races/thread_variable.c", ["owner", "borrower"]),
        Racy {
            program: Program::new("races/shared_library.c").library(counter),
            ..racy("", ["add"; 2])
        },
        Racy {
            program: Program::new("races/loaded_library.c").dynamic(),
            ..racy("", ["add"; 2])
        },
        racy("races/forked_child.c", ["increment"; 2]),
        racy("races/late_thread.c", ["increment"; 2]),
        racy("races/many_threads.c", ["increment"; 2]),
        racy("races/cpp_threads.cpp", ["add"; 2]),
        racy("races/static_mut.rs", ["count_visit"; 2]),
        racy("races/memcpy_racing.c", ["store", "copy"]),
        racy("races/memcpy_both.c", ["fill", "copy"]),
        racy("races/memset_racing.c", ["clear", "load"]),
        racy("races/strcpy_racing.c", ["put", "load"]),
        racy("races/strlen_stalled.c", ["store", "measure"]),
        racy("races/read_call.c", ["receive", "load"]),
        Racy {
            atomic: true,
            ..racy("races/copied.cpp", ["reader", "add"])
        },
    ]
}

fn silent(source: &'static str) -> Silent {
    let program = Program::new(source);
    Silent {
        twin: program.clone().broken(),
        program,
        only_clang_22: false,
    }
}

/// The programs that must stay silent.
pub fn silent_programs() -> Vec<Silent> {
    let mut programs: Vec<_> = [
        "silent/mutex.c",
        "silent/rwlock.c",
        "silent/spinlock.c",
        "silent/condition.c",
        "silent/semaphore.c",
        "silent/barrier.c",
        "silent/atomics.cpp",
        "silent/seqlock.c",
        "silent/publication.c",
        "silent/double_checked.c",
        "silent/deque.c",
        "silent/refcount.c",
        "silent/thread_local.c",
        "silent/neighbours.c",
        "silent/read_only.c",
        "silent/allocator.c",
        "silent/streams.cpp",
        "silent/memory_routines.c",
        "silent/strings.c",
        "silent/system_calls.c",
        "silent/rare.c",
        "silent/two_mappings.c",
    ]
    .into_iter()
    .map(silent)
    .collect();
    programs.push(Silent {
        only_clang_22: true,
        ..silent("silent/no_sanitize.c")
    });
    for (user, library) in [
        ("silent/unanalyzed_library.c", "libs/counter.c"),
        ("silent/unanalyzed_copy.c", "libs/wrapped_copy.c"),
    ] {
        let (user, library) = (Program::new(user), Program::new(library));
        programs.push(Silent {
            program: user
                .clone()
                .library(library.clone().metadata(Metadata::None)),
            twin: user.library(library),
            only_clang_22: false,
        });
    }
    let results = Program::new("silent/results.c").dynamic();
    programs.push(Silent {
        twin: results.clone().broken(),
        program: results,
        only_clang_22: false,
    });
    programs.push(silent("silent/by_reference.cpp"));
    programs.push(silent("silent/users.c"));
    programs.push(silent("silent/glance.c"));
    programs
}

/// The programs that must stay silent although compilers make accesses of theirs that share bytes with others.
pub fn made_programs() -> Vec<Silent> {
    [
        "made/merged_loads.cpp",
        "made/merged_stores.cpp",
        "made/widened_load.cpp",
        "made/widened_load.rs",
        "made/gaps.cpp",
        "made/splat.cpp",
        "made/tail_padding.cpp",
    ]
    .into_iter()
    .map(silent)
    .collect()
}

/// The race-free programs whose optimized form reads what the source does not.
pub const READS: [&str; 3] = ["reads/speculated.c", "reads/hoisted.c", "reads/merged.c"];

/// The library that `races/loaded_library.c` loads.
pub fn counter_library(configuration: Configuration) -> PathBuf {
    compile::shared_library(&Program::new("libs/counter.c"), configuration).unwrap()
}

/// Every program that there is.
pub fn all() -> Vec<Program> {
    let mut all: Vec<_> = racy_programs()
        .into_iter()
        .map(|racy| racy.program)
        .collect();
    for silent in silent_programs().into_iter().chain(made_programs()) {
        all.extend([silent.program, silent.twin]);
    }
    for source in READS {
        all.push(Program::new(source));
        all.push(Program::new(source).metadata(Metadata::Strict));
    }
    all
}
