//! What an action is worth: races to be expected for what it costs, in time and of the budget.

use std::time::Duration;

use super::{
    action::Then,
    belief::{AtHand, Belief},
    event::AddressId,
    news::News,
    posterior::{Beta, Gamma},
    price::Price,
    prior,
};

/// How long one may wait, hold and look, s. (No stall is longer than the engine allows.)
const WAITS_S: [f64; 4] = [5e-3, 20e-3, 100e-3, 0.5];
const HOLDS_S: [f64; 4] = [0.2e-3, 1e-3, 2.5e-3, 5e-3];
/// Once a second is the rhythm of many clocks, and whoever waits a little longer than that meets them: where it is known that others use the bytes, and
/// for who writes a variable that changes. What nobody has been seen to use is not worth so long a wait.
const CLOCK_S: f64 = 1.2;
/// No wait is longer, however little comes in.
const MOST_PATIENT_S: f64 = 5.0;

/// Whether others were seen to use the bytes of a site.
fn is_used(belief: &Belief) -> bool {
    belief.sigma.yes >= 1.0
}

/// The longest wait at a site: where a wait costs what takes longer to earn, so long, as a shorter one would only have to be followed by a rest.
fn longest_wait(is_used: bool, price: &Price) -> f64 {
    let usual = if is_used {
        CLOCK_S
    } else {
        WAITS_S[WAITS_S.len() - 1]
    };
    price.earned_in_s.clamp(usual, MOST_PATIENT_S)
}

/// How long a look lasts.
pub const LOOK: Duration = Duration::from_millis(20);

/// What is thought of a site, as if it were known.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    /// Arrivals: how long to wait follows from how sure that is.
    pub lambda: Gamma,
    /// The chance that a stall there, if it is long enough, shows a race that was not known.
    pub race: f64,
    /// How likely that shows where the bytes are watched only when a thread stands.
    pub in_time: f64,
    /// Accesses of others in a second, where that is so.
    pub mu: f64,
    /// Races that are to be expected by and by from what a look shows.
    pub look: f64,
    /// Others were seen to use the bytes.
    pub is_used: bool,
}

/// A value of what is unknown: one by chance, or without that what is to be expected.
struct Value<'a>(Option<&'a mut fastrand::Rng>);

impl Value<'_> {
    fn of_beta(&mut self, beta: Beta) -> f64 {
        match &mut self.0 {
            Some(random) => beta.draw(random),
            None => beta.mean(),
        }
    }

    fn of_gamma(&mut self, gamma: Gamma) -> f64 {
        match &mut self.0 {
            Some(random) => gamma.draw(random),
            None => gamma.mean(),
        }
    }

    fn of_news(&mut self, news: News) -> f64 {
        match &mut self.0 {
            Some(random) => news.draw(random),
            None => news.mean(),
        }
    }
}

impl Guess {
    /// One that is as likely as it is thought to be. `look`: what it is worth to see that others use the bytes; `at_hand`: of those who are about to
    /// access an address that two threads were seen to use.
    pub fn draw(
        belief: &Belief,
        at_hand: Option<&AtHand>,
        look: f64,
        random: &mut fastrand::Rng,
    ) -> Self {
        Self::with(belief, at_hand, look, &mut Value(Some(random)))
    }

    /// What is to be expected of it.
    #[must_use]
    pub fn mean(belief: &Belief, at_hand: Option<&AtHand>, look: f64) -> Self {
        Self::with(belief, at_hand, look, &mut Value(None))
    }

    fn with(belief: &Belief, at_hand: Option<&AtHand>, look: f64, value: &mut Value<'_>) -> Self {
        let all = Self::if_it_may(belief, at_hand, look, value, |_| true);
        all.unwrap_or(Self {
            lambda: belief.lambda,
            race: 0.0,
            in_time: 0.0,
            mu: 0.0,
            look: 0.0,
            is_used: false,
        })
    }

    /// The same, as long as it may come to so many races, with what is taken for known by then; nothing where it may not.
    fn if_it_may(
        belief: &Belief,
        at_hand: Option<&AtHand>,
        look: f64,
        value: &mut Value<'_>,
        may: impl Fn(f64) -> bool,
    ) -> Option<Self> {
        let rho = value.of_beta(belief.rho);
        let news = belief.nu.at_most();
        let races = belief.stalls.after_at_most(rho);
        let races = at_hand.map_or(races, |at_hand| at_hand.stalls.after_at_most(races));
        if !may(races * news + look) {
            return None;
        }
        let (anywhere, mu) = (value.of_beta(belief.sigma), value.of_gamma(belief.mu));
        let sigma = at_hand.map_or(anywhere, |at_hand| value.of_beta(at_hand.sigma));
        let (races, in_time) = belief.stalls.after_and_in_time(rho, anywhere, mu);
        let after = |races| match at_hand {
            Some(at_hand) => at_hand.stalls.after_and_in_time(races, sigma, mu).0,
            None => races,
        };
        if !may(sigma * (after(races) * news + look)) {
            return None;
        }
        let [of_timely, of_early] = (belief.stalls)
            .parts(anywhere, mu)
            .map(|part| value.of_beta(part));
        let shows = in_time * of_timely;
        let in_all = shows + (1.0 - in_time) * of_early;
        Some(Self {
            lambda: at_hand.map_or(belief.lambda, |at_hand| at_hand.lambda),
            race: sigma * after(races * in_all) * value.of_news(belief.nu),
            in_time: shows / in_all.max(1e-12),
            mu,
            look: sigma * look,
            is_used: is_used(belief),
        })
    }

    /// Races that are to be expected of doing that with somebody who has come.
    #[must_use]
    pub fn brings(&self, then: Then, is_ahead: bool) -> f64 {
        match then {
            Then::Hold { at_most, look } => {
                let caught = 1.0 - (-self.mu * at_most.as_secs_f64()).exp();
                let looks = if look.is_zero() { 0.0 } else { self.look };
                let in_time = if is_ahead { 1.0 } else { self.in_time };
                self.race * in_time * caught + looks
            }
            Then::Look(_) => self.look,
            Then::LetGo => 0.0,
        }
    }
}

/// What is to be done at a site must be worth more than this.
#[derive(Clone, Copy, Debug)]
pub struct Bar(pub f64);

impl Bar {
    /// What is thought of a site, as if it were known ([`Guess::draw`]); nothing where whatever could be done there would be worth less than the bar: no
    /// more is drawn then than is needed to know that.
    pub fn draw(
        self,
        belief: &Belief,
        at_hand: Option<&AtHand>,
        look: f64,
        price: &Price,
        random: &mut fastrand::Rng,
    ) -> Option<Guess> {
        let lambda = at_hand.map_or(belief.lambda, |at_hand| at_hand.lambda);
        let (comes, _) = lambda.within(longest_wait(is_used(belief), price));
        // To wait costs at least this, however that is done; and to stop somebody who has come, if it is not watched in advance.
        let least = price.of_budget * (price.wait_s + comes * price.stop_s);
        let may = |brings: f64| comes * brings > self.0 * least;
        Guess::if_it_may(belief, at_hand, look, &mut Value(Some(random)), may)
    }
}

/// What is to be done at a site, and what that is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Races for what they cost.
    pub worth: f64,
    /// How long to wait at most.
    pub at_most: Duration,
    /// What to do with whoever comes.
    pub then: Then,
    /// Who is waited for.
    pub wanted: Option<AddressId>,
}

impl Plan {
    /// Another one, if it is worth more.
    #[must_use]
    pub fn or_better(self, other: Self) -> Self {
        if other.worth > self.worth {
            other
        } else {
            self
        }
    }
}

/// What is watched before anybody comes who is about to access it.
#[derive(Clone, Copy, Debug)]
pub struct Advance {
    /// Its address.
    pub address: AddressId,
    /// Threads that come to the site and are let pass, in a second.
    pub passed: f64,
}

/// What can be done with somebody who has come.
#[derive(Clone, Copy)]
struct Way {
    then: Then,
    /// For how long it makes him stand, and how long it takes in all, s.
    hold_s: f64,
    time_s: f64,
    /// Races that are to be expected.
    brings: f64,
}

/// How many there are.
const WAYS: usize = 1 + 2 * HOLDS_S.len();

/// All of them: a look, and each stall with a look and without.
fn ways(guess: &Guess, is_ahead: bool) -> [Way; WAYS] {
    let mut all = [Then::Look(LOOK); WAYS];
    for (pair, hold) in all[1..].chunks_exact_mut(2).zip(HOLDS_S) {
        let at_most = Duration::from_secs_f64(hold);
        for (then, look) in pair.iter_mut().zip([LOOK, Duration::ZERO]) {
            *then = Then::Hold { at_most, look };
        }
    }
    all.map(|then| {
        let (hold, look) = then.times();
        let hold_s = hold.as_secs_f64();
        Way {
            then,
            hold_s,
            time_s: hold_s + look.as_secs_f64(),
            brings: guess.brings(then, is_ahead),
        }
    })
}

/// The best that can be done at a site, where something is watched in advance, or nothing.
#[must_use]
pub fn best(guess: &Guess, price: &Price, advance: Option<Advance>) -> Plan {
    /// No more are let pass, and no more uses of what is watched are seen.
    const PASSED: f64 = 96.0;
    const TRAPS: f64 = 64.0;
    let mut best = Plan {
        worth: 0.0,
        at_most: Duration::from_secs_f64(WAITS_S[0]),
        then: Then::Look(LOOK),
        wanted: advance.map(|advance| advance.address),
    };
    let ways = ways(guess, advance.is_some());
    let longest = longest_wait(guess.is_used, price);
    let shorter = WAITS_S.into_iter().filter(|wait| *wait < longest);
    for wait in shorter.chain([longest]) {
        // Then enough were let pass, or used what is watched.
        let passed = advance.map_or(0.0, |advance| advance.passed);
        let over = advance.map_or(wait, |_| (PASSED / passed).min(TRAPS / guess.mu));
        let (comes, waited) = guess.lambda.within(wait.min(over));
        // To arm twice, and then no more; and all that traps meanwhile.
        let traps = waited * (passed + guess.mu);
        let (wait_s, stop_s) = match advance {
            Some(_) => (
                2.0 * price.wait_s + prior::COST_TRAP * traps,
                (price.stop_s - price.wait_s).max(0.0),
            ),
            None => (price.wait_s, price.stop_s),
        };
        for way in &ways {
            let time = waited + comes * way.time_s;
            let budget = wait_s + comes * (stop_s + way.hold_s);
            let worth = comes * way.brings / price.cost(time, budget);
            if worth > best.worth {
                best = Plan {
                    worth,
                    at_most: Duration::from_secs_f64(wait),
                    then: way.then,
                    ..best
                };
            }
        }
    }
    best
}

/// How long to watch a variable for who writes it, which happens so often a second, and what that is worth where to know it brings so many races.
#[must_use]
pub fn best_watch(writes: f64, tells: f64, price: &Price) -> (f64, Duration) {
    let of = |seconds: f64| {
        let seen = 1.0 - (-writes * seconds).exp();
        let worth = tells * seen / price.cost(seconds, price.wait_s);
        (worth, Duration::from_secs_f64(seconds))
    };
    let all = [false, true].map(|is_used| of(longest_wait(is_used, price)));
    let all = all.into_iter();
    all.reduce(|best, other| if other.0 > best.0 { other } else { best })
        .unwrap_or_default()
}

/// The best that can be done with a thread that stands at a site: what is to be expected of it in races, above what they would cost elsewhere,
/// where races bring so much for what they cost.
#[must_use]
pub fn best_of_stopped(guess: &Guess, price: &Price, worth: f64) -> (f64, Then) {
    let mut best = (0.0, Then::LetGo);
    for way in ways(guess, false) {
        let cost = price.of_stopped(way.then);
        let gain = way.brings - worth * cost;
        if gain > best.0 {
            best = (gain, way.then);
        }
    }
    best
}

/// How long to watch what a thread is about to access that is off its processor for so long anyway, and what that is worth: it stands at no cost, so
/// only what is armed and the time count.
#[must_use]
pub fn best_of_preempted(guess: &Guess, price: &Price, left: Duration) -> (f64, Duration) {
    let holds = HOLDS_S.into_iter().map(Duration::from_secs_f64);
    let shorter = holds.filter(|hold| *hold < left);
    let mut best = (0.0, left);
    for at_most in shorter.chain([left]) {
        let hold = Then::Hold {
            at_most,
            look: Duration::ZERO,
        };
        let budget = price.wait_s + prior::COST_TRAP;
        let worth = guess.brings(hold, false) / price.cost(at_most.as_secs_f64(), budget);
        if worth > best.0 {
            best = (worth, at_most);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::{belief::Circumstances, counts::Counts};
    use super::*;

    const PRICE: Price = Price {
        of_budget: 50.0,
        wait_s: 0.5e-3,
        stop_s: 1e-3,
        earned_in_s: 0.05,
    };

    const OFTEN: Gamma = Gamma {
        events: 100.0,
        time_s: 1.0,
    };

    const GUESS: Guess = Guess {
        lambda: OFTEN,
        race: 0.5,
        in_time: 0.8,
        mu: 200.0,
        look: 0.0,
        is_used: true,
    };

    /// Check that more is worth more: who comes more often, races more likely, and meets others sooner; and that what is dearer is worth less.
    #[test]
    fn worth_follows_the_chances() {
        let worth = |guess: Guess| best(&guess, &PRICE, None).worth;
        let usual = worth(GUESS);
        for better in [
            Guess {
                lambda: OFTEN.with(100.0, 0.0),
                ..GUESS
            },
            Guess { race: 0.6, ..GUESS },
            Guess {
                in_time: 1.0,
                ..GUESS
            },
            Guess { mu: 400.0, ..GUESS },
            Guess { look: 0.1, ..GUESS },
        ] {
            assert!(worth(better) > usual);
        }
        let dear = Price {
            of_budget: 100.0,
            ..PRICE
        };
        assert!(best(&GUESS, &dear, None).worth < usual);
    }

    /// Check that who comes seldom is waited for as long as it takes, but where it is unknown whether anybody comes only while time is free, and that a stall is the shorter the sooner others come; and that a wait is the longer the longer it takes to earn what it costs.
    #[test]
    fn times_follow_the_chances() {
        let rare = |events, time_s| Guess {
            lambda: Gamma { events, time_s },
            ..GUESS
        };
        let poor = Price {
            of_budget: 1e5,
            ..PRICE
        };
        let rich = Price {
            of_budget: 0.1,
            ..PRICE
        };
        for price in [&poor, &rich] {
            let known = best(&rare(200.0, 100.0), price, None);
            assert!(known.at_most >= Duration::from_millis(100));
        }
        let unknown = rare(0.1, 0.01);
        assert!(best(&unknown, &rich, None).at_most <= Duration::from_millis(20));
        let longest = |is_used, earned_in_s| {
            let price = Price {
                earned_in_s,
                ..poor
            };
            best(&Guess { is_used, ..unknown }, &price, None).at_most
        };
        for (earned_in_s, usual) in [(0.05, [0.5, CLOCK_S]), (2.0, [2.0; 2]), (60.0, [5.0; 2])] {
            let longest = [false, true].map(|is_used| longest(is_used, earned_in_s));
            assert_eq!(longest, usual.map(Duration::from_secs_f64));
        }
        let held = |mu| match best(&Guess { mu, ..GUESS }, &PRICE, None).then {
            Then::Hold { at_most, .. } => at_most,
            Then::Look(_) | Then::LetGo => Duration::ZERO,
        };
        assert!(held(10.0) > held(1000.0) && held(1000.0) > held(1e5));
    }

    /// Check that a thread that stands already is held where that brings more than it would cost elsewhere, and else let go.
    #[test]
    fn who_is_stopped_is_held_if_that_is_worth_it() {
        let then = |worth| best_of_stopped(&GUESS, &PRICE, worth).1;
        assert!(matches!(then(0.01), Then::Hold { .. }));
        assert_eq!(then(100.0), Then::LetGo);
        let unknown = Guess {
            race: 0.0,
            look: 0.1,
            ..GUESS
        };
        assert_eq!(best_of_stopped(&unknown, &PRICE, 0.01).1, Then::Look(LOOK));
    }

    /// Check that a thread that stands anyway is worth more than one that is made to, the more so the dearer the budget, and that it is watched the
    /// longer the later others come, but never for longer than it stands.
    #[test]
    fn who_is_off_costs_nothing() {
        let left = Duration::from_millis(25);
        let watched = |mu| best_of_preempted(&Guess { mu, ..GUESS }, &PRICE, left);
        let (worth, long) = watched(200.0);
        assert!(worth > best(&GUESS, &PRICE, None).worth);
        assert!(watched(1e5).1 < long && watched(1.0).1 == left);
        let short = Duration::from_micros(100);
        assert_eq!(best_of_preempted(&GUESS, &PRICE, short).1, short);
        let none = Guess { race: 0.0, ..GUESS };
        assert_eq!(best_of_preempted(&none, &PRICE, left).0, 0.0);
    }

    /// Check that nothing is passed over that would be better than what it has to be better than, with the same draws, and much of what would be far from it.
    #[test]
    fn only_what_is_worse_is_passed_over() {
        const TRIES: u64 = 2000;
        let mut random = fastrand::Rng::with_seed(1);
        let (mut all, mut passed) = (0, 0);
        for seed in 0..TRIES {
            let mut some = |most: f64| most * random.f64() * f64::from(u8::from(random.bool()));
            let caught = some(3.0);
            let counts = Counts {
                came: some(20.0),
                waited_s: some(2.0),
                used: some(4.0),
                unused: some(4.0),
                met: some(4.0),
                meeting_s: some(0.1),
                quiet: 1.0 + some(20.0),
                quiet_ahead: some(1.0),
                quiet_s: some(0.05),
                locked: some(2.0),
                caught,
                in_time: some(caught),
                news: some(caught),
                ..Counts::default()
            };
            let around = Circumstances {
                comes: some(1.0),
                writes: some(1.0) > 0.0,
                names: some(1.0) > 0.0,
                ..Circumstances::default()
            };
            let belief = Belief::of(&counts, &around);
            let at_hand = AtHand::of(&counts, &counts, belief.lambda);
            let at_hand = (some(1.0) > 0.0).then_some(&at_hand);
            let look = some(0.3);
            let draw = |worth| {
                let mut random = fastrand::Rng::with_seed(seed);
                Bar(worth).draw(&belief, at_hand, look, &PRICE, &mut random)
            };
            let Some(guess) = draw(0.0) else {
                continue;
            };
            let advance = Advance {
                address: AddressId(1),
                passed: 0.0,
            };
            let ways = [None, Some(advance)].map(|advance| best(&guess, &PRICE, advance).worth);
            let worth = ways[0].max(ways[1]);
            assert_eq!(
                draw(0.999 * worth).map(|guess| guess.race),
                Some(guess.race)
            );
            all += 1;
            passed += usize::from(draw(20.0 * worth).is_none());
        }
        assert!(all > 1000 && 3 * passed > all, "{passed} of {all}");
    }

    /// Check that a look is taken where it tells more than a stall finds.
    #[test]
    fn looks_are_taken() {
        let unknown = Guess {
            race: 0.02,
            look: 0.1,
            ..GUESS
        };
        assert_eq!(best(&unknown, &PRICE, None).then, Then::Look(LOOK));
        let plan = best(
            &Guess {
                look: 0.0,
                ..unknown
            },
            &PRICE,
            None,
        );
        assert!(matches!(
            plan.then,
            Then::Hold {
                look: Duration::ZERO,
                ..
            }
        ));
    }
}
