//! A large program under load, as memcached is: of 6,000 sites some hundreds are executed often, and what they use is used by others, most of it in an order.

use super::{
    program::Program,
    surroundings::{Objects, surround},
};

/// Pairs of sites that use the same objects.
const ORDERED: usize = 90;
const RACES: usize = 24;
/// Members by which they do.
const MEMBERS: u32 = 12;
/// How often threads come there, a second: from the first to the second, evenly by the logarithm.
const SELDOM: f64 = 10.0;
const OFTEN: f64 = 3e4;

pub(super) fn large_server(seed: u64) -> Program {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut program = Program::new(
        "large server",
        "90 pairs of places use the same objects in an order, and 24 in none, 10 to 30,000 times a second",
    );
    surround(&mut program, 1_000, 200, &mut random);
    let objects = Objects {
        ordered: ORDERED,
        races: RACES,
        members: MEMBERS,
        seldom: SELDOM,
        often: OFTEN,
    };
    objects.use_in(&mut program, &mut random);
    program
}
