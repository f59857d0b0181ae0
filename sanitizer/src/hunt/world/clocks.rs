//! A clock amid locks, as memcached has it: how soon a race is found of which one side comes once a second, where nearly all that others use is ordered.

use crate::hunt::plan::choose::ByWorth;

use super::{
    costs::NESTED,
    program::{After::Rate, Area, Comes, Order, Program},
    simulation::{Hunt, simulate},
    surroundings::{ordered, surround},
};

/// Places that read the time.
const READERS: u32 = 12;

fn clock(seed: u64) -> Program {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut program = Program::new(
        "clock",
        "a time that twelve places read by its name, and a handler sets once a second by a pointer, amid 55 pairs of places that use the same objects in an order",
    );
    program.processors = 0.9;
    surround(&mut program, 1_000, 200, &mut random);
    ordered(&mut program, 45, Order::Lock, 300.0, &mut random);
    ordered(&mut program, 10, Order::Other, 300.0, &mut random);
    let variable = program.variable();
    program.function();
    let handler = program.pointing(None, true, Comes::Every(1.0));
    program.access(&[handler], Area::of(variable));
    for number in 0..READERS {
        let rate = 2e4 / f64::from(1 << number);
        program.function();
        let reads = program.naming(variable, false, Comes::Rate(rate));
        program.meet([handler, reads], 1.0, [Rate(1.0), Rate(rate)], Order::None);
    }
    program.changing.push((variable, handler));
    program
}

/// Check that who sets the clock is met within half a minute. (Where no wait was longer than half a second, 11 of 80 had found nothing by then.)
#[test]
fn clocks_amid_locks_are_met() {
    const HUNTS: u64 = 80;
    const MOST: usize = 7;
    let found_nothing = |seed: &u64| {
        let hunt = Hunt {
            costs: NESTED,
            share: 0.02,
            length_s: 30.0,
            seed: *seed,
            has_probes: false,
        };
        let run = simulate(&clock(*seed), &mut ByWorth::new(*seed), &hunt);
        run.finds.is_empty()
    };
    let none = (0..HUNTS).filter(found_nothing).count();
    assert!(none <= MOST, "{none} of {HUNTS} hunts have found nothing");
}
