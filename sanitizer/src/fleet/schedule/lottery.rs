//! The lottery: who has waited long enough is next; of the others chance decides, weighted.

use std::time::Duration;

use super::event::ProcessId;

/// Whoever has waited so long is next, before all others: so that nobody waits for twice as long.
pub(super) const LONG: Duration = Duration::from_secs(12 * 3600);
/// A weight that is doubled after so long, and grows on like this.
const DOUBLED: Duration = Duration::from_secs(600);
/// What a build counts from which nothing is expected: what is not looked at cannot show that more is to be expected.
const LEAST_PROMISE: f64 = 0.05;
/// The same of a process that hardly works.
const LEAST_ACTIVITY: f64 = 0.01;

/// A process that takes part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) process: ProcessId,
    /// What the shortest lease costs it.
    pub(super) needs: Duration,
    pub(super) promise: f64,
    pub(super) activity: f32,
    pub(super) waited: Duration,
}

impl Ticket {
    fn weight(&self) -> f64 {
        // More than one processor shows little more of the code.
        let activity = f64::from(self.activity).clamp(LEAST_ACTIVITY, 1.0);
        let promise = self.promise.clamp(LEAST_PROMISE, 1.0);
        let waited = 1.0 + self.waited.as_secs_f64() / DOUBLED.as_secs_f64();
        promise * activity * waited
    }
}

/// Draws one. The order of the tickets does not matter: they are sorted, so that the same seed gives the same lots.
pub(super) fn draw(tickets: &mut [Ticket], random: &mut fastrand::Rng) -> Option<Ticket> {
    tickets.sort_unstable_by_key(|ticket| ticket.process);
    let longest = tickets.iter().max_by_key(|ticket| ticket.waited)?;
    if longest.waited >= LONG {
        return Some(*longest);
    }
    let all: f64 = tickets.iter().map(Ticket::weight).sum();
    let mut lot = random.f64() * all;
    let drawn = tickets.iter().find(|ticket| {
        lot -= ticket.weight();
        lot < 0.0
    });
    // Rounding may leave a little of it.
    drawn.or(tickets.last()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(process: u64, promise: f64, activity: f32, waited: u64) -> Ticket {
        Ticket {
            process: ProcessId(process),
            needs: Duration::ZERO,
            promise,
            activity,
            waited: Duration::from_secs(waited),
        }
    }

    /// Check that lots fall as the weights say, and that nobody has none.
    #[test]
    fn lots_fall_as_weights_say() {
        const DRAWS: u32 = 20_000;
        let mut random = fastrand::Rng::with_seed(1);
        // Weights of 1, 2, 0.5, 0.05 and 0.01.
        let tickets = [
            ticket(1, 1.0, 1.0, 0),
            ticket(2, 1.0, 3.0, 600),
            ticket(3, 0.5, 1.0, 0),
            ticket(4, 0.0, 1.0, 0),
            ticket(5, 1.0, 0.0, 0),
        ];
        let mut drawn = [0u32; 6];
        for _ in 0..DRAWS {
            let chosen = draw(&mut tickets.clone(), &mut random).unwrap();
            drawn[chosen.process.0 as usize] += 1;
        }
        for (process, weight) in [(1, 1.0), (2, 2.0), (3, 0.5), (4, 0.05), (5, 0.01)] {
            let expected = f64::from(DRAWS) * weight / 3.56;
            let off = (f64::from(drawn[process]) - expected).abs();
            // Four standard deviations of a count.
            assert!(off <= 4.0 * expected.sqrt(), "{process}: {drawn:?}");
        }
        assert!(draw(&mut [], &mut random).is_none());
    }

    /// Check that whoever has waited half a day is next, the one who has waited longest first.
    #[test]
    fn who_has_waited_long_is_next() {
        let mut random = fastrand::Rng::with_seed(1);
        let long = LONG.as_secs();
        let mut tickets = [
            ticket(1, 1.0, 1.0, long - 1),
            ticket(2, 0.0, 0.0, long),
            ticket(3, 0.0, 0.0, long + 1),
        ];
        for _ in 0..100 {
            let drawn = draw(&mut tickets, &mut random).unwrap();
            assert_eq!(drawn.process, ProcessId(3));
        }
    }
}
