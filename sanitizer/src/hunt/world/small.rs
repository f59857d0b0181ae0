//! Small programs that do nothing but one loop, again and again, as suites of tests have them: nothing surrounds their races.

use super::program::{After::Within, Area, Comes, Order, Program};

/// One with nothing in it yet: main fills what its threads read and write then.
fn small(name: &'static str, about: &'static str) -> Program {
    let mut program = Program::new(name, about);
    // Most of the time it waits in a library, or begins and ends threads there.
    program.elsewhere = 0.1;
    program.function();
    for _ in 0..6 {
        program.pointing(None, false, Comes::Rate(3e3));
    }
    program
}

/// Main fills an area so often, and two threads read and write it in a loop then; the sites of these.
fn filled_before(program: &mut Program, area: Area, fills: Comes) -> [usize; 2] {
    let fills = program.pointing(None, true, fills);
    program.function();
    let sites = [false, true].map(|writes| program.pointing(None, writes, Comes::Rate(1e6)));
    program.access(&[fills], area);
    program.access(&sites, area);
    for site in sites {
        program.meet([fills, site], 1.0, [Within(300e-6); 2], Order::Other);
    }
    sites
}

pub(super) fn borders(_seed: u64) -> Program {
    const ELEMENTS: u32 = 1000;
    let mut program = small(
        "borders",
        "a loop over an array in two threads, all there is; each element reads the next one: main has filled it",
    );
    let array = program.area(ELEMENTS);
    let sites = filled_before(&mut program, array, Comes::Rate(1e6));
    let border = 1.0 / f64::from(ELEMENTS);
    program.meet(sites, border, [Within(300e-6); 2], Order::None);
    program
}

pub(super) fn forgotten_sum(_seed: u64) -> Program {
    let mut program = small(
        "forgotten sum",
        "a loop over an array in two threads, all there is, which add to one sum of main's",
    );
    let sum = program.area(1);
    let [reads, writes] = filled_before(&mut program, sum, Comes::Rate(3e3));
    program.meet([reads, writes], 0.9, [Within(30e-6); 2], Order::None);
    program.meet([writes, writes], 0.9, [Within(30e-6); 2], Order::None);
    program
}

pub(super) fn forgotten_task(_seed: u64) -> Program {
    let mut program = small(
        "forgotten task",
        "a task writes a result that main reads without waiting for it, all there is",
    );
    let result = program.area(1);
    let sets = program.pointing(None, true, Comes::Rate(3e3));
    let reads = program.pointing(None, false, Comes::Rate(3e3));
    program.function();
    let writes = program.pointing(None, true, Comes::Rate(3e3));
    program.access(&[sets, reads, writes], result);
    program.meet([sets, writes], 1.0, [Within(300e-6); 2], Order::Other);
    program.meet([reads, writes], 0.5, [Within(500e-6); 2], Order::None);
    program
}
