//! What surrounds the races in a family of programs: functions that find nothing for anybody who waits there.

use crate::hunt::plan::event::MemberId;

use super::program::{After::Rate, Comes, Order, Program};

/// Sites a function in what surrounds the races.
const SITES: usize = 6;

/// What surrounds the races: functions, the first ones of which are executed, the more seldom the later; all they access is their threads' own, or constant.
pub(super) fn surround(
    program: &mut Program,
    functions: usize,
    executed: usize,
    random: &mut fastrand::Rng,
) {
    const OFTEN: f64 = 3e4;
    const SKEW: f64 = 1.2;
    const NAMED: f64 = 0.3;
    const WRITES: f64 = 0.35;
    for function in 0..functions {
        program.function();
        let variable = program.variable();
        let rate = OFTEN / ((function + 1) as f64).powf(SKEW);
        for _ in 0..SITES {
            let comes = if function < executed {
                Comes::Rate(rate * 10_f64.powf(-2.0 * random.f64()))
            } else {
                Comes::Never
            };
            let writes = random.f64() < WRITES;
            if random.f64() < NAMED {
                program.naming(variable, writes, comes);
            } else {
                let member = MemberId(8 * random.u32(1..32));
                program.pointing(Some(member), writes, comes);
            }
        }
    }
}

/// The most usual surroundings.
pub(super) fn usual(
    name: &'static str,
    about: &'static str,
    seed: u64,
) -> (Program, fastrand::Rng) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut program = Program::new(name, about);
    surround(&mut program, 500, 80, &mut random);
    ordered(&mut program, 12, Order::Lock, 200.0, &mut random);
    (program, random)
}

/// Pairs of sites that use the same bytes some hundred times a second, in an order.
pub(super) fn ordered(
    program: &mut Program,
    pairs: usize,
    order: Order,
    rate: f64,
    random: &mut fastrand::Rng,
) {
    for _ in 0..pairs {
        let rate = rate * 10_f64.powf(random.f64());
        program.function();
        let reads = program.pointing(Some(MemberId(16)), false, Comes::Rate(rate));
        program.function();
        let writes = program.pointing(Some(MemberId(16)), true, Comes::Rate(rate));
        let objects = program.area(16);
        program.access(&[reads, writes], objects.shared(0.8));
        program.meet([reads, writes], 0.8, [Rate(rate), Rate(rate)], order);
    }
}

/// Pairs of functions that use the same objects by a member, one of which writes: some in an order, others in none.
pub(super) struct Objects {
    /// Pairs in an order, two in three of them by a lock.
    pub(super) ordered: usize,
    /// Pairs in none.
    pub(super) races: usize,
    /// Members by which they do.
    pub(super) members: u32,
    /// How often threads come there, a second: from the first to the second, evenly by the logarithm.
    pub(super) seldom: f64,
    /// See above.
    pub(super) often: f64,
}

impl Objects {
    /// Has a program use them.
    pub(super) fn use_in(&self, program: &mut Program, random: &mut fastrand::Rng) {
        for number in 0..self.ordered + self.races {
            let order = match number {
                _ if number >= self.ordered => Order::None,
                _ if number % 3 > 0 => Order::Lock,
                _ => Order::Other,
            };
            let member = Some(MemberId(8 * random.u32(1..=self.members)));
            let rate = self.seldom * (self.often / self.seldom).powf(random.f64());
            let sites = [true, false].map(|writes| {
                program.function();
                program.pointing(member, writes, Comes::Rate(rate))
            });
            let objects = program.area(16).shared(0.4);
            program.access(&sites, objects);
            program.meet(sites, 0.3, [Rate(rate / 4.0); 2], order);
        }
    }
}
