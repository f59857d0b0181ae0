//! Races that must be caught, each built in several ways.

use std::time::Duration;

use gwp_race_tests::{
    Configuration, Until, Watch, binary,
    children::{Guarded, status_field},
    compile, executable,
    luck::Luck,
    report::{Frame, Race},
};

use crate::catalogue::{self, Racy};

/// Catching a race takes luck: so many tries it may take.
const TRIES: u32 = 5;
/// How long the program of one try runs.
const SECONDS: &str = "20";

/// The program of this name.
fn named(name: &str) -> Racy {
    let mut all = catalogue::racy_programs().into_iter();
    all.find(|racy| racy.program.name() == name).unwrap()
}

/// Runs a program until the race is caught; fails if it is not, or if it is something else.
fn catch(
    racy: &Racy,
    configuration: Configuration,
    (watch, threads): (&Watch, &str),
    luck: &mut Luck,
) {
    let program = compile::program(&racy.program, configuration).unwrap();
    let library = catalogue::counter_library(configuration);
    for _ in 0..TRIES {
        let outcome = watch
            .clone()
            .env("COUNTER_LIBRARY", &library)
            .run(&program, &[SECONDS, threads], Until::Race)
            .unwrap();
        assert!(
            outcome.report.summary.is_some(),
            "no summary; stderr:\n{}",
            outcome.stderr
        );
        print!("[{configuration}] ");
        if luck.add(&outcome) {
            check(racy, outcome.report.races.first().unwrap());
            return;
        }
    }
    panic!(
        "{} [{configuration}] was not caught in {TRIES} tries",
        racy.program.name()
    );
}

/// Catches the race of a program in each configuration, as readily as usual in all of them together.
fn catch_each(racy: &Racy, configurations: &[Configuration], threads: &str) {
    let usual = catalogue::usual(&racy.program);
    catch_in(racy, configurations, (&Watch::aggressive(), threads), usual);
}

/// Catches it in each, by so many attempts as a rule.
fn catch_in(
    racy: &Racy,
    configurations: &[Configuration],
    (watch, threads): (&Watch, &str),
    usual: f64,
) {
    let mut luck = Luck::new(racy.program.name(), usual);
    for &configuration in configurations {
        catch(racy, configuration, (watch, threads), &mut luck);
    }
    luck.judge().unwrap();
}

fn check(racy: &Racy, race: &Race) {
    assert_eq!(race.schema, 1);
    assert_eq!(
        race.verdict,
        if racy.atomic {
            "plain-atomic"
        } else {
            "plain-plain"
        }
    );
    assert!(
        race.accesses.iter().any(|access| access.kind != "read"),
        "two reads: {race:?}"
    );
    assert_ne!(race.accesses[0].tid, race.accesses[1].tid);
    for access in &race.accesses {
        assert!(
            racy.functions
                .iter()
                .any(|function| access.has_function(function)),
            "{:?} are the functions that race, not: {access:?}",
            racy.functions
        );
        let source = racy
            .program
            .library
            .as_ref()
            .map_or(racy.program.source, |lib| lib.source);
        let file = source.rsplit('/').next().unwrap_or(source);
        // A memory routine's access is its caller's, which is the next frame; so is that of a library
        // that makes a system call.
        let of_library = |frame: &&Frame| {
            frame.is_memory_routine()
                || access.system_call.is_some() && !racy.functions.iter().any(|name| frame.is(name))
        };
        let library = access.stack.iter().take_while(of_library).count();
        let frame = access.stack.get(library).unwrap();
        assert!(
            library == 0 || racy.functions.iter().any(|name| frame.is(name)),
            "called by another function: {access:?}"
        );
        let named = frame
            .file
            .as_deref()
            .is_some_and(|path| path.ends_with(file));
        let loaded = frame
            .file
            .as_deref()
            .is_some_and(|path| path.ends_with("counter.c"));
        assert!(named || loaded, "{access:?} is not in {file}");
        assert!(frame.line.is_some());
    }
}

fn catch_in_all(source: &str) {
    let programs = catalogue::racy_programs();
    let number = programs
        .iter()
        .position(|racy| racy.program.source == source)
        .unwrap();
    let configurations = if binary::full() {
        Configuration::all()
    } else {
        Configuration::choice(number)
    };
    catch_each(&programs[number], &configurations, "2");
}

macro_rules! caught {
    ($($name:ident: $source:literal, $what:literal;)*) => {$(
        #[doc = concat!("Check that a race is caught: ", $what, ".")]
        #[test]
        fn $name() {
            catch_in_all($source);
        }
    )*};
}

caught! {
    write_write: "races/write_write.c", "two stores";
    read_write: "races/read_write.c", "a load and a store";
    plain_atomic: "races/plain_atomic.c", "a store and an atomic addition";
    byte_in_word: "races/byte_in_word.c", "a store of one byte and a load of eight";
    widths: "races/widths.c", "accesses of different widths that overlap";
    heap: "races/heap.c", "memory from malloc";
    field: "races/field.c", "a field behind a pointer";
    local_static: "races/local_static.c", "a static variable of a function";
    other_stack: "races/other_stack.c", "a variable on another thread's stack";
    main_by_reference: "races/main_by_reference.cpp", "a variable that a closure on another thread captures, by who stands in its own frame";
    team: "races/team.c", "a variable of the thread that begins a parallel region and takes part in it";
    two_mappings: "races/two_mappings.c", "a page that each of both threads reaches by a mapping of its own";
    thread_variable: "races/thread_variable.c", "another thread's thread-local variable";
    shared_library: "races/shared_library.c", "in a shared library";
    loaded_library: "races/loaded_library.c", "in a library loaded by dlopen";
    forked_child: "races/forked_child.c", "in a forked child";
    late_thread: "races/late_thread.c", "threads made long after the start";
    cpp_threads: "races/cpp_threads.cpp", "std::thread and a class of C++";
    static_mut: "races/static_mut.rs", "static mut of Rust";
    memcpy_racing: "races/memcpy_racing.c", "a store and the C library's memcpy";
    memcpy_both: "races/memcpy_both.c", "memcpy on both sides";
    memset_racing: "races/memset_racing.c", "a load and the C library's memset";
    strcpy_racing: "races/strcpy_racing.c", "a load and the C library's strcpy";
    strlen_stalled: "races/strlen_stalled.c", "a store and the C library's strlen";
    copied: "races/copied.cpp", "a pair copied as a whole and an atomic addition to a part of it";
    read_call: "races/read_call.c", "a load and the kernel in read(2)";
}

/// Check that the memory routines of musl are known, which has no unwind tables, and whose assembly
/// does not say where a routine ends.
#[test]
fn memory_routines_of_musl() {
    for racy in catalogue::racy_programs() {
        if ["memcpy_racing", "memcpy_both", "memset_racing"].contains(&racy.program.name()) {
            catch_each(&racy, &Configuration::with_musl(), "2");
        }
    }
}

fn many(threads: &str) {
    let racy = &named("many_threads");
    // Each of them has a processor for a small part of the time.
    let usual = catalogue::usual(&racy.program) * 4.0;
    let watch = Watch::aggressive().alone();
    catch_in(racy, &[Configuration::USUAL], (&watch, threads), usual);
}

/// Check that a race between a few more threads than processors is caught.
#[test]
fn threads_16() {
    many("16");
}

/// Check that a race among hundreds of threads is caught.
#[test]
fn threads_500() {
    many("500");
}

/// Check that gwp-race attaches to a process that has run for a while, catches its race, lets go
/// of it, and that it goes on to its own end.
#[test]
fn attach_to_a_running_process() {
    let racy = &named("read_write");
    for (turn, configuration) in Configuration::choice(0).into_iter().enumerate() {
        // One of them is waited for; the others need not end.
        let ends = turn == 0;
        let program = compile::program(&racy.program, configuration).unwrap();
        let mut command = std::process::Command::new(program);
        command
            .args([if ends { "12" } else { "120" }, "4"])
            .stdout(std::process::Stdio::null());
        let mut target = Guarded::new(command.spawn().unwrap());
        std::thread::sleep(Duration::from_secs(1));
        let caught = (0..TRIES).any(|_| {
            if target.ended().unwrap().is_some() {
                // A busy machine has taken all of its time.
                target = Guarded::new(command.spawn().unwrap());
            }
            let outcome = Watch::aggressive()
                .option(&["--duration", "8s"])
                .attach(target.pid(), Until::Race)
                .unwrap();
            println!("[{configuration}] {:?} s", outcome.first_race_s);
            let race = outcome.report.races.first();
            race.inspect(|race| check(racy, race)).is_some()
        });
        assert!(caught, "[{configuration}] not caught in {TRIES} tries");
        if ends {
            assert!(target.wait(Duration::from_secs(60)).unwrap().success());
        } else {
            assert_eq!(target.ended().unwrap(), None, "it has ended its target");
            assert_eq!(
                status_field(target.pid(), "TracerPid").as_deref(),
                Some("0")
            );
        }
    }
}

/// Check that a race of a program which was deleted since it was started, as by an upgrade, is one of its build, and told with its names.
#[test]
fn attach_to_a_deleted_program() {
    let racy = &named("read_write");
    let configuration = Configuration::choice(0)[0];
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().canonicalize().unwrap().join("program");
    executable::copy(
        compile::program(&racy.program, configuration).unwrap(),
        &program,
    );
    let mut command = std::process::Command::new(&program);
    command
        .args(["120", "4"])
        .stdout(std::process::Stdio::null());
    let target = Guarded::new(command.spawn().unwrap());
    std::thread::sleep(Duration::from_secs(1));
    std::fs::remove_file(&program).unwrap();
    let races = (0..TRIES).map(|_| {
        let watch = Watch::aggressive().option(&["--duration", "8s"]);
        let outcome = watch.attach(target.pid(), Until::Race).unwrap();
        println!("[{configuration}] {:?} s", outcome.first_race_s);
        outcome.report.races.into_iter().next()
    });
    let race = races.flatten().next();
    let race = race.unwrap_or_else(|| panic!("not caught in {TRIES} tries"));
    check(racy, &race);
    assert_eq!(race.exe, program.to_string_lossy());
    assert!(race.build_id.is_some(), "{race:?}");
}
