//! The families of programs: each a few lines, with races of one kind among thousands of sites where nothing is to be found.

use crate::hunt::plan::event::MemberId;

use super::crowds::{crowd, throng};
use super::large::large_server;
use super::program::{
    After::{Rate, Within},
    Area, Comes, Order, Program,
};
use super::small::{borders, forgotten_sum, forgotten_task};
use super::surroundings::{ordered, surround, usual};

/// Makes a program; where it leaves something to chance, that follows from the seed.
pub type Family = fn(seed: u64) -> Program;

/// All of them.
pub const ALL: [Family; 24] = [
    hot,
    apart_by_milliseconds,
    apart_by_20_milliseconds,
    apart_by_seconds,
    halves,
    chunks,
    needle,
    one_writer,
    hand_over,
    fork_join,
    tasks,
    before_forks,
    allocator,
    brief_threads,
    bursts,
    phases,
    server,
    by_pointer,
    borders,
    forgotten_sum,
    forgotten_task,
    crowd,
    throng,
    large_server,
];

/// Threads that increment one variable, so far apart.
fn increments(mut program: Program, apart: f64) -> Program {
    program.function();
    let variable = program.variable();
    let site = program.naming(variable, true, Comes::Rate(2.0 / apart));
    program.meet([site, site], 1.0, [Rate(1.0 / apart); 2], Order::None);
    program.changing.push((variable, site));
    program
}

fn hot(seed: u64) -> Program {
    increments(
        usual("hot", "two threads increment a counter in a loop", seed).0,
        1e-6,
    )
}

fn apart_by_milliseconds(seed: u64) -> Program {
    increments(
        usual(
            "1.5 ms apart",
            "the same, with 1.5 ms of other work between",
            seed,
        )
        .0,
        1.5e-3,
    )
}

fn apart_by_20_milliseconds(seed: u64) -> Program {
    increments(usual("20 ms apart", "the same, with 20 ms", seed).0, 20e-3)
}

fn apart_by_seconds(seed: u64) -> Program {
    increments(usual("1 s apart", "the same, with a second", seed).0, 1.0)
}

/// Each thread sweeps its half in 10 ms; the last element of the one is the first of the other.
fn halves(seed: u64) -> Program {
    let (mut program, _) = usual(
        "halves",
        "two threads walk halves of an array, which have one element of 10,000 in common",
        seed,
    );
    program.function();
    let site = program.pointing(None, true, Comes::Rate(1e6));
    let border = program.area(1);
    program.access(&[site], border.shared(1e-4));
    program.meet([site, site], 1e-4, [Within(10e-3); 2], Order::None);
    program
}

fn chunks(seed: u64) -> Program {
    let (mut program, _) = usual(
        "chunks",
        "threads walk chunks of 64 elements; each writes the first one of the next chunk, too",
        seed,
    );
    program.function();
    let inner = program.pointing(None, false, Comes::Rate(2e5));
    let border = program.pointing(None, true, Comes::Rate(3e3));
    let borders = program.area(64);
    program.access(&[inner], borders.shared(1.0 / 64.0));
    program.access(&[border], borders);
    program.meets(inner, border, 1.0 / 64.0, Within(400e-6), Order::None);
    program.meets(border, inner, 0.4, Within(400e-6), Order::None);
    program
}

fn needle(seed: u64) -> Program {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut program = Program::new(
        "needle",
        "20,000 functions, few of them executed often; two that seldom are race",
    );
    surround(&mut program, 20_000, 4_000, &mut random);
    let variable = program.variable();
    let sites = [false, true].map(|writes| {
        program.function();
        program.naming(variable, writes, Comes::Rate(20.0))
    });
    program.meet(sites, 1.0, [Rate(20.0); 2], Order::None);
    program.changing.push((variable, sites[1]));
    program
}

fn one_writer(seed: u64) -> Program {
    let (mut program, _) = usual(
        "one writer",
        "ten variables, used under their locks; one of them is also written without",
        seed,
    );
    for number in 0..10 {
        let variable = program.variable();
        program.function();
        let reads = program.naming(variable, false, Comes::Rate(3e3));
        let writes = program.naming(variable, true, Comes::Rate(3e3));
        for sites in [[reads, writes], [writes, writes]] {
            program.meet(sites, 1.0, [Rate(3e3); 2], Order::Lock);
        }
        if number == 9 {
            program.function();
            let forgets = program.naming(variable, true, Comes::Rate(300.0));
            for guarded in [reads, writes] {
                program.meet(
                    [guarded, forgets],
                    1.0,
                    [Rate(3e3), Rate(300.0)],
                    Order::None,
                );
            }
        }
    }
    program
}

/// Whoever is held after it has given the lock back meets the next one that has it, for a moment.
fn hand_over(seed: u64) -> Program {
    let (mut program, _) = usual(
        "hand-over",
        "a flag is read once more right after the lock was given to the next thread, which writes it",
        seed,
    );
    program.function();
    let variable = program.variable();
    let under_lock = program.naming(variable, true, Comes::Rate(2e3));
    let after = program.naming(variable, false, Comes::Rate(1e3));
    program.meet([under_lock; 2], 1.0, [Rate(1e3); 2], Order::Lock);
    program.meets(after, under_lock, 0.3, Within(100e-6), Order::None);
    program
}

fn fork_join(seed: u64) -> Program {
    let (mut program, _) = usual(
        "fork and join",
        "each 50 ms main reads a result right before it joins its worker, and others right after",
        seed,
    );
    program.function();
    let variable = program.variable();
    let worker = program.naming(variable, true, Comes::Every(50e-3));
    let main = program.naming(variable, false, Comes::Every(50e-3));
    program.meets(main, worker, 0.5, Within(3e-3), Order::None);
    program.meets(worker, main, 0.5, Within(3e-3), Order::None);
    for _ in 0..8 {
        let variable = program.variable();
        let writes = program.naming(variable, true, Comes::Every(50e-3));
        let reads = program.naming(variable, false, Comes::Every(50e-3));
        program.meets(reads, writes, 1.0, Rate(20.0), Order::Other);
        program.meets(writes, reads, 1.0, Within(3e-3), Order::Other);
    }
    program
}

fn tasks(seed: u64) -> Program {
    let (mut program, mut random) = usual(
        "tasks",
        "tasks that depend on each other, but for three that forget it",
        seed,
    );
    ordered(&mut program, 30, Order::Other, 300.0, &mut random);
    for _ in 0..3 {
        program.function();
        let writes = program.pointing(Some(MemberId(24)), true, Comes::Rate(400.0));
        program.function();
        let reads = program.pointing(Some(MemberId(24)), false, Comes::Rate(400.0));
        let results = program.area(8);
        program.access(&[writes, reads], results.shared(0.5));
        program.meet([writes, reads], 0.1, [Within(1e-3); 2], Order::None);
    }
    program
}

fn before_forks(seed: u64) -> Program {
    let (mut program, _) = usual(
        "before forks",
        "main writes twelve variables before each fork, all workers read them; a thirteenth also later",
        seed,
    );
    for number in 0..13 {
        let variable = program.variable();
        program.function();
        let writes = program.naming(variable, true, Comes::Every(20e-3));
        let reads = program.naming(variable, false, Comes::Rate(2e3));
        program.meets(writes, reads, 1.0, Rate(2e3), Order::Other);
        program.meets(reads, writes, 1.0, Rate(50.0), Order::Other);
        if number == 12 {
            let later = program.naming(variable, true, Comes::Every(0.1));
            program.meet([later, reads], 1.0, [Rate(10.0), Rate(2e3)], Order::None);
        }
        program.changing.push((variable, writes));
    }
    program
}

fn allocator(seed: u64) -> Program {
    let (mut program, mut random) = usual(
        "allocator",
        "objects wander from thread to thread; two members of them are used after they were given back",
        seed,
    );
    ordered(&mut program, 60, Order::Other, 500.0, &mut random);
    for member in [40, 48] {
        program.function();
        let late = program.pointing(Some(MemberId(member)), false, Comes::Rate(50.0));
        program.function();
        let anew = program.pointing(Some(MemberId(member)), true, Comes::Rate(2e3));
        let objects = program.area(200);
        program.access(&[late, anew], objects);
        program.meet([late, anew], 0.2, [Within(5e-3), Within(2e-3)], Order::None);
    }
    program
}

fn brief_threads(seed: u64) -> Program {
    let (mut program, _) = usual(
        "brief threads",
        "threads that live for 100 us, in pairs",
        seed,
    );
    for _ in 0..3 {
        program.function();
        let variable = program.variable();
        let writes = program.naming(variable, true, Comes::Rate(3e3));
        let reads = program.naming(variable, false, Comes::Rate(3e3));
        program.meet([writes, reads], 0.3, [Within(100e-6); 2], Order::None);
    }
    program
}

fn bursts(seed: u64) -> Program {
    let (mut program, _) = usual("bursts", "four pairs that race for 5 ms, every 5 s", seed);
    for _ in 0..4 {
        program.function();
        let comes = Comes::Bursts {
            apart: 5.0,
            lasts: 5e-3,
            rate: 5e3,
        };
        let writes = program.pointing(Some(MemberId(56)), true, comes);
        program.function();
        let reads = program.pointing(Some(MemberId(56)), false, comes);
        let object = program.area(1);
        program.access(&[writes, reads], object);
        program.meet([writes, reads], 0.7, [Within(1e-3); 2], Order::None);
    }
    program
}

fn phases(seed: u64) -> Program {
    let (mut program, _) = usual(
        "phases",
        "after ten minutes another part of the program begins to work, and races",
        seed,
    );
    let first = program.sites.len();
    for _ in 0..3 {
        let variable = program.variable();
        program.function();
        let writes = program.naming(variable, true, Comes::Rate(100.0));
        program.function();
        let reads = program.naming(variable, false, Comes::Rate(500.0));
        program.meet(
            [writes, reads],
            1.0,
            [Rate(100.0), Rate(500.0)],
            Order::None,
        );
    }
    program.phase(first, 600.0, f64::INFINITY);
    program
}

/// Who writes a member holds its item's lock; some of those who read it do not. How often an item is used by two at once follows from how many there are.
fn server(seed: u64) -> Program {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut program = Program::new(
        "server",
        "members of one structure are written under a lock, and read without one: thirty places",
    );
    surround(&mut program, 1_000, 250, &mut random);
    ordered(&mut program, 60, Order::Lock, 300.0, &mut random);
    ordered(&mut program, 20, Order::Other, 300.0, &mut random);
    let mut rate = || 3e3 * 10_f64.powf(-3.5 * random.f64());
    for member in [32, 38, 44] {
        let member = Some(MemberId(member));
        let mut places = |writes: bool, count: usize| -> Vec<(usize, f64)> {
            let site = |_| {
                program.function();
                let rate = rate();
                (program.pointing(member, writes, Comes::Rate(rate)), rate)
            };
            (0..count).map(site).collect()
        };
        let (writers, readers) = (places(true, 4), places(false, 6));
        let items = program.area(10).shared(0.3);
        for place in writers.iter().chain(&readers) {
            program.access(&[place.0], items);
        }
        for (index, writer) in writers.iter().enumerate() {
            for reader in &readers {
                // An item that is at hand here is asked for more than others.
                let after = [Rate(writer.1 * 0.1), Rate(reader.1 * 0.1)];
                program.meet([writer.0, reader.0], 0.3, after, Order::None);
            }
            for other in writers.iter().skip(index) {
                let after = [Rate(writer.1 * 0.1), Rate(other.1 * 0.1)];
                program.meet([writer.0, other.0], 0.3, after, Order::Lock);
            }
        }
    }
    program
}

fn by_pointer(seed: u64) -> Program {
    let (mut program, _) = usual(
        "by a pointer",
        "a time that eight places read by its name, and a handler sets once a second by a pointer",
        seed,
    );
    let variable = program.variable();
    program.function();
    let handler = program.pointing(None, true, Comes::Every(1.0));
    program.access(&[handler], Area::of(variable));
    for number in 0..8 {
        let rate = 5e3 / f64::from(1 << (2 * number));
        program.function();
        let reads = program.naming(variable, false, Comes::Rate(rate));
        program.meet([handler, reads], 1.0, [Rate(1.0), Rate(rate)], Order::None);
    }
    program.changing.push((variable, handler));
    program
}
