//! Programs with more busy threads than there are processors.

use super::{
    program::{After::Rate, Comes, Order, Program},
    surroundings::usual,
};

/// More threads than two processors, all busy, that race at places of all kinds: in their loops, and seldom.
fn crowded(mut program: Program, threads: f64) -> Program {
    const PROCESSORS: f64 = 2.0;
    const TURN_S: f64 = 3e-3;
    program.waiting = threads - PROCESSORS;
    program.off_s = TURN_S * (threads / PROCESSORS - 1.0);
    for rate in [1e6, 1e5, 1e4, 1e3, 100.0] {
        let variable = program.variable();
        program.function();
        let reads = program.naming(variable, false, Comes::Rate(rate));
        program.function();
        let writes = program.naming(variable, true, Comes::Rate(rate / 10.0));
        program.meet(
            [reads, writes],
            1.0,
            [Rate(rate), Rate(rate / 10.0)],
            Order::None,
        );
    }
    program
}

pub(super) fn crowd(seed: u64) -> Program {
    let about = "16 busy threads on 2 processors, with five variables that are read and written in no order, a million to a hundred times a second";
    crowded(usual("crowd", about, seed).0, 16.0)
}

pub(super) fn throng(seed: u64) -> Program {
    crowded(usual("throng", "the same with 200 threads", seed).0, 200.0)
}
