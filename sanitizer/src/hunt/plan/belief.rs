//! What is thought of a site, by what was seen there and of its relatives.
//!
//! - `lambda`: how often a thread comes;
//! - `sigma`: whether another thread uses the bytes that it is about to access;
//! - `rho`: whether nothing orders the two;
//! - `mu`: how soon the other one comes, if so;
//! - `nu`: whether what is caught is news.

use super::{
    counts::Counts,
    posterior::{Beta, Gamma},
    prior,
};

/// What is known beside a site's own counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Circumstances {
    /// Whether somebody comes within a first wait, by what is seen of sites of its class.
    pub comes: f64,
    /// It writes.
    pub writes: bool,
    /// It names its variable.
    pub names: bool,
    /// Its variable is shared or changes, or its member has raced.
    pub is_related: bool,
    /// What was seen at all sites that write, or at all that do not.
    pub of_kind: Counts,
    /// What was seen in the same function.
    pub of_function: Counts,
    /// What was seen at the same variable or member.
    pub of_object: Counts,
}

/// All five.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// Arrivals.
    pub lambda: Gamma,
    /// Another thread uses the bytes.
    pub sigma: Beta,
    /// Nothing orders the two.
    pub rho: Beta,
    /// The other one's accesses.
    pub mu: Gamma,
    /// It is news.
    pub nu: Beta,
}

impl Belief {
    /// What follows from what was seen.
    #[must_use]
    pub fn of(own: &Counts, around: &Circumstances) -> Self {
        let sigma = prior_of_use(around).with(own.used, own.unused);
        let mu = Gamma {
            events: prior::MEETS_SHAPE,
            time_s: prior::MEETS_TIME,
        };
        let mu = mu.with(own.met, own.meeting_s);
        let rho = prior_of_races(around);
        let relatives = relatives(own, &around.of_function, &around.of_object);
        let (raced, ordered) = evidence(own);
        Self {
            lambda: rate(around.comes).with(own.came, own.waited_s),
            sigma,
            rho: rho.with(relatives.yes, relatives.no).with(raced, ordered),
            mu,
            nu: Beta::prior(prior::NEW, prior::NEW_WEIGHT).with(own.news, own.caught - own.news),
        }
    }
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

/// Whether another thread uses the bytes of a site at which nobody has looked.
#[must_use]
pub fn prior_of_use(around: &Circumstances) -> Beta {
    let odds = match (around.is_related, around.names) {
        (true, _) => prior::USED_RELATED,
        (false, true) => prior::USED_NAMED,
        (false, false) => prior::USED_POINTER,
    };
    Beta::prior(odds, prior::USED_WEIGHT)
}

/// Whether nothing orders what happens at a site at which nobody was held, by what stalls find in this program at all that write, or read.
fn prior_of_races(around: &Circumstances) -> Beta {
    let odds = if around.writes {
        prior::RACES_WRITE
    } else {
        prior::RACES_READ
    };
    let (raced, ordered) = evidence(&around.of_kind);
    let of_kind = Beta::prior(odds, prior::RACES_POOL).with(raced, ordered);
    Beta::around(of_kind.mean(), prior::RACES_WEIGHT)
}

/// What speaks for and against a race. A quiet stall where somebody would have come with a probability p, if nothing ordered the two, counts p.
fn evidence(counts: &Counts) -> (f64, f64) {
    let quiet = if counts.quiet > 0.0 {
        let mu = (prior::MEETS_SHAPE + counts.met) / (prior::MEETS_TIME + counts.meeting_s);
        let looked = counts.used + counts.unused;
        // Of those that others used.
        let used = if looked > 0.0 {
            counts.used / looked
        } else {
            0.0
        };
        let each = counts.quiet_s / counts.quiet;
        counts.quiet * used * (1.0 - (-mu * each).exp())
    } else {
        0.0
    };
    (counts.caught, counts.locked + quiet)
}

/// What was seen of relatives, of which a part counts.
fn relatives(own: &Counts, function: &Counts, object: &Counts) -> Beta {
    let (mut yes, mut no) = (0.0, 0.0);
    let (own_yes, own_no) = evidence(own);
    for counts in [function, object] {
        let (raced, ordered) = evidence(counts);
        yes += prior::RELATIVES * (raced - own_yes).max(0.0);
        no += prior::RELATIVES * (ordered - own_no).max(0.0);
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
