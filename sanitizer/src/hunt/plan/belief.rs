//! What is thought of a site, by what was seen there and of its relatives.
//!
//! - `lambda`: how often a thread comes;
//! - `sigma`: whether another thread uses the bytes that it is about to access;
//! - `rho`: whether nothing orders the two;
//! - `mu`: how soon the other one comes, if so;
//! - `nu`: whether what is caught is news.

use super::{
    counts::Counts,
    news::News,
    posterior::{Beta, Gamma},
    prior,
};

/// What is known beside a site's own counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circumstances {
    /// Whether somebody comes within a first wait, by what is seen of sites of its class.
    pub comes: f64,
    /// Sites that name a variable, or do not, and that write, or do not, as it does: those whose bytes others were seen to use, and those at
    /// which nobody did, each counted once.
    pub uses: Beta,
    /// It writes.
    pub writes: bool,
    /// It names its variable.
    pub names: bool,
    /// How soon others come in this program, s, as a rule: by what was seen of others.
    pub meets_s: f64,
    /// Its variable is shared or changes, or its member has raced.
    pub is_related: bool,
    /// What was seen at all sites that write, or at all that do not.
    pub of_kind: Counts,
    /// What was seen in the same function.
    pub of_function: Counts,
    /// What was seen at the same variable or member.
    pub of_object: Counts,
}

impl Default for Circumstances {
    fn default() -> Self {
        Self {
            comes: 0.0,
            uses: Beta::default(),
            writes: false,
            names: false,
            meets_s: MEETS_S,
            is_related: false,
            of_kind: Counts::default(),
            of_function: Counts::default(),
            of_object: Counts::default(),
        }
    }
}

/// How soon others come, s, before any was seen.
pub const MEETS_S: f64 = prior::MEETS_TIME / prior::MEETS_SHAPE;

/// All five.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// Arrivals.
    pub lambda: Gamma,
    /// Another thread uses the bytes.
    pub sigma: Beta,
    /// Nothing orders the two, as far as it is known without stalls at the site itself.
    pub rho: Beta,
    /// The other one's accesses.
    pub mu: Gamma,
    /// It is news.
    pub nu: News,
    /// What stalls at the site itself have shown of an order.
    pub stalls: Stalls,
}

/// What stalls at a site have shown of whether something orders it with those that use the same bytes. Where it goes by a pointer, it may be but a few of
/// the addresses at which nothing does: how large that part is, is as unknown as whether there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalls {
    /// They were of one address.
    is_one: bool,
    /// Those in which nobody came: whose bytes were watched before the thread came, and the others; how long each was, s.
    ahead: f64,
    late: f64,
    each_s: f64,
    locked: f64,
    /// Those in which somebody was caught, and of these the ones whose bytes were watched only when the thread stood.
    caught: f64,
    in_time: f64,
}

impl Stalls {
    /// Of what was seen, at one address or at any.
    #[must_use]
    pub fn of(counts: &Counts, is_one: bool) -> Self {
        Self {
            is_one,
            ahead: counts.quiet_ahead,
            late: (counts.quiet - counts.quiet_ahead).max(0.0),
            each_s: counts.quiet_s / counts.quiet.max(1e-9),
            locked: counts.locked,
            caught: counts.caught,
            in_time: counts.in_time,
        }
    }

    /// How likely nothing orders the two after that, where it was so likely before.
    #[must_use]
    pub fn after(&self, before: f64, sigma: f64, mu: f64) -> f64 {
        self.after_and_in_time(before, sigma, mu).0
    }

    /// The same, and whether the other one comes in time then.
    #[must_use]
    pub fn after_and_in_time(&self, before: f64, sigma: f64, mu: f64) -> (f64, f64) {
        let (in_time, early) = self.if_unordered(sigma, mu);
        let all = in_time + early;
        (self.times(before, all), in_time / all)
    }

    /// No likelier, whatever the others' use is.
    #[must_use]
    pub fn after_at_most(&self, before: f64) -> f64 {
        self.times(before, 1.0)
    }

    /// How likely nothing orders the two, where it was so likely before, and what was seen in quiet stalls is so likely then.
    fn times(&self, before: f64, seen: f64) -> f64 {
        let shown = prior::CAUGHT * self.caught - prior::LOCKED * self.locked;
        let odds = before / (1.0 - before).max(1e-12) * seen * shown.exp();
        if odds.is_finite() {
            odds / (1.0 + odds)
        } else {
            1.0
        }
    }

    /// By how much that speaks for an order, where others use the bytes with a probability `sigma` and come `mu` times a second: the logarithm of how
    /// much likelier it is if there is one.
    #[must_use]
    pub fn against(&self, sigma: f64, mu: f64) -> f64 {
        let (in_time, early) = self.if_unordered(sigma, mu);
        prior::LOCKED * self.locked - prior::CAUGHT * self.caught - (in_time + early).ln()
    }

    /// How likely all this is so if nothing orders the two, and the other one comes in time to be seen where the bytes are watched when the thread
    /// stands; and if it comes always before.
    fn if_unordered(&self, sigma: f64, mu: f64) -> (f64, f64) {
        let missed = Beta::prior(prior::MISSED, 1.0).mean();
        let quiet = |stalls| (-self.quiet(stalls, sigma, mu)).exp().max(1e-12);
        let in_time = (1.0 - missed) * quiet(self.ahead + self.late);
        let early = missed * quiet(self.ahead) * (-prior::CAUGHT * self.in_time).exp();
        (in_time, early)
    }

    /// By how much it speaks against a race that so many stalls were quiet, where somebody would be seen in them.
    fn quiet(&self, stalls: f64, sigma: f64, mu: f64) -> f64 {
        /// No single stall proves more.
        const LEAST: f64 = 1e-3;
        let comes = self.comes(sigma, mu);
        if self.is_one {
            -stalls * (1.0 - comes).max(LEAST).ln()
        } else {
            // On average over all parts: of a small one they say little.
            let Beta { yes, no } = prior_of_part();
            yes * (1.0 + stalls * comes / no).ln()
        }
    }

    /// Of those who come and meet others, how many do so in no order, if anybody does: where the other one comes in time, and where it comes always before.
    #[must_use]
    pub fn parts(&self, sigma: f64, mu: f64) -> [Beta; 2] {
        [self.ahead + self.late, self.ahead].map(|stalls| {
            if self.is_one {
                return Beta { yes: 1.0, no: 0.0 };
            }
            prior_of_part().with(self.caught, stalls * self.comes(sigma, mu))
        })
    }

    /// How likely somebody would have come in a quiet one, if nothing ordered the two.
    fn comes(&self, sigma: f64, mu: f64) -> f64 {
        sigma * (1.0 - (-mu * self.each_s).exp())
    }
}

/// Either all or few: it has a maximum at both ends.
fn prior_of_part() -> Beta {
    Beta::prior(prior::PART, prior::PART_WEIGHT)
}

impl Belief {
    /// What follows from what was seen.
    #[must_use]
    pub fn of(own: &Counts, around: &Circumstances) -> Self {
        let (sigma, mu) = use_of(own, around);
        let relatives = relatives(own, &around.of_function, &around.of_object);
        Self {
            lambda: rate(around.comes).with(own.came, own.waited_s),
            sigma,
            rho: prior_of_races(around).with(relatives.yes, relatives.no),
            mu,
            nu: News::of(own),
            stalls: Stalls::of(own, around.names),
        }
    }

    /// How likely nothing orders the two, where that was so likely before any stall at the site, and the others' use is this. What orders two
    /// accesses does so each time: of an order many quiet stalls speak together, but only as far as somebody would have come in them.
    #[must_use]
    pub fn races(&self, before: f64, sigma: f64, mu: f64) -> f64 {
        self.stalls.after(before, sigma, mu)
    }
}

/// What is thought of an address that two threads were seen to use, where it may be at hand at a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtHand {
    /// How often somebody comes who is about to access it.
    pub lambda: Gamma,
    /// Another thread uses it again.
    pub sigma: Beta,
    /// What stalls of those who were about to access it have shown of an order.
    pub stalls: Stalls,
}

impl AtHand {
    /// What follows from what was seen of it, and of all such addresses at the site, where somebody comes so often.
    #[must_use]
    pub fn of(own: &Counts, of_site: &Counts, lambda: Gamma) -> Self {
        let share = Beta::prior(prior::AT_HAND, 1.0).mean();
        let rate = Gamma {
            events: prior::AT_HAND_WEIGHT,
            time_s: prior::AT_HAND_WEIGHT / (share * lambda.mean()),
        };
        Self {
            lambda: rate.with(of_site.came, of_site.waited_s),
            sigma: Beta::prior(prior::USED_AGAIN, 1.0).with(own.used, own.unused),
            stalls: Stalls::of(own, true),
        }
    }
}

/// Whether others use the bytes of a site, and how soon.
fn use_of(own: &Counts, around: &Circumstances) -> (Beta, Gamma) {
    let mu = Gamma {
        events: prior::MEETS_SHAPE,
        time_s: prior::MEETS_SHAPE * around.meets_s,
    };
    (
        prior_of_use(around).with(own.used, own.unused),
        mu.with(own.met, own.meeting_s),
    )
}

/// Whether a site races, and whether it shows an order, both from 0 to 1, by its own stalls.
#[must_use]
pub fn shown(own: &Counts, around: &Circumstances) -> (f64, f64) {
    let racing = own.caught.min(1.0);
    let (sigma, mu) = use_of(own, around);
    let against = Stalls::of(own, around.names)
        .against(sigma.mean(), mu.mean())
        .max(0.0);
    (racing, (1.0 - racing) * (1.0 - (-against).exp()))
}

/// A rate of which it is known how likely somebody comes within a first wait.
fn rate(comes: f64) -> Gamma {
    // That nobody comes within a time T has a probability of (t / (t + T))^n, where n events in a time t are the prior.
    let of_one = (prior::RATE_TIME / (prior::RATE_TIME + prior::FIRST_WAIT)).ln();
    let nobody = (1.0 - comes).clamp(1e-6, 1.0 - 1e-6);
    Gamma {
        events: nobody.ln() / of_one,
        time_s: prior::RATE_TIME,
    }
}

/// How often a variable that changes is written, which was watched so long in vain, s.
#[must_use]
pub fn writes(watched_s: f64) -> Gamma {
    /// For how long the prior holds, s.
    const FIRST: f64 = 0.5;
    // As above: nobody writes it within a time T with a probability of (t / (t + T))^n.
    let nobody = 1.0 - Beta::prior(prior::CHANGES, 1.0).mean();
    let left = nobody.powf(1.0 / prior::CHANGES_SHAPE);
    let prior = Gamma {
        events: prior::CHANGES_SHAPE,
        time_s: FIRST * left / (1.0 - left),
    };
    prior.with(0.0, watched_s)
}

/// Whether another thread uses the bytes of a site at which nobody has looked.
#[must_use]
pub fn prior_of_use(around: &Circumstances) -> Beta {
    let odds = match (around.is_related, around.names) {
        (true, _) => prior::USED_RELATED,
        (false, true) => prior::USED_NAMED,
        (false, false) => prior::USED_POINTER,
    };
    if around.is_related {
        return Beta::prior(odds, prior::USED_WEIGHT);
    }
    let pool = Beta::prior(odds, prior::USED_POOL);
    let pool = pool.with(around.uses.yes, around.uses.no);
    Beta::around(pool.mean(), prior::USED_WEIGHT)
}

/// Whether others use the bytes of a site, as far as looks and stalls at it have shown: counted once, however often that was.
#[must_use]
pub fn uses(own: &Counts) -> Beta {
    let all = (own.used + own.unused).max(1.0);
    Beta {
        yes: own.used / all,
        no: own.unused / all,
    }
}

/// Whether nothing orders what happens at a site, by how many of those that write, or read, race in this program.
fn prior_of_races(around: &Circumstances) -> Beta {
    let odds = if around.writes {
        prior::RACES_WRITE
    } else {
        prior::RACES_READ
    };
    let of_kind = Beta::prior(odds, prior::RACES_POOL);
    let of_kind = of_kind.with(around.of_kind.racing, around.of_kind.ordered);
    Beta::around(of_kind.mean(), prior::RACES_WEIGHT)
}

/// Relatives that race, and those that show an order; a part of each counts.
fn relatives(own: &Counts, function: &Counts, object: &Counts) -> Beta {
    let (mut yes, mut no) = (0.0, 0.0);
    for counts in [function, object] {
        yes += prior::RELATIVES * (counts.racing - own.racing).max(0.0);
        no += prior::RELATIVES * (counts.ordered - own.ordered).max(0.0);
    }
    let all = yes + no;
    let part = if all > prior::RELATIVES_MOST {
        prior::RELATIVES_MOST / all
    } else {
        1.0
    };
    Beta {
        yes: yes * part,
        no: no * part,
    }
}
