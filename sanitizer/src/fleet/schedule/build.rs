//! What is kept of a build: what it promises, and how long its processes live.
//!
//! What it promises is how many new races were to be expected of its last leases for what these have cost, as their planners tell it: little where all has been
//! tried that can be, whoever of its processes it was tried in, and more again as soon as code is executed that was not before. It is compared with the build that promises most.
//!
//! Processes that live shortly earn too little for a lease of their own. So each leaves what it has earned to its build, which pays for others: what that comes
//! to is bounded by the same purse, for all of them together.

use std::time::Duration;

use super::{LEAST, SHORTEST, record::Record};
use crate::fleet::purse::Purse;

/// A process that lives no longer than this lives shortly.
pub(super) const SHORT: Duration = Duration::from_secs(60);
/// So many processes must have ended before it is known how long they live.
const KNOWN: u32 = 3;
/// How much the last one counts.
const FRESH: f64 = 0.2;
/// What leases must have cost, seconds, before it is known what they bring.
const TRIED: f64 = 0.1;
/// What they have cost after which a third of what was known of them counts, seconds.
const FADES: f64 = 1.0;
/// Promise below which a short life is no reason for hurry.
const PROMISING: f64 = 0.2;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Build {
    /// New races that were to be expected of its last leases, and what those have cost, seconds.
    expected: f64,
    cost: f64,
    pub(super) is_left_alone: bool,
    /// That of all its processes which live shortly.
    pub(super) purse: Purse,
    ended: u32,
    /// How long they have lived, and what CPU time they have used; seconds, the last ones counting most.
    life: f64,
    cpu: f64,
}

impl Build {
    /// One of which nothing is known.
    pub(super) const fn new(purse: Purse) -> Self {
        Self {
            expected: 0.0,
            cost: 0.0,
            is_left_alone: false,
            purse,
            ended: 0,
            life: 0.0,
            cpu: 0.0,
        }
    }

    /// A process of it has ended.
    pub(super) fn has_ended(&mut self, now: Duration, record: &Record) {
        let life = now.saturating_sub(record.began());
        let weight = if self.ended == 0 { 1.0 } else { FRESH };
        self.ended = self.ended.saturating_add(1);
        self.life += weight * (life.as_secs_f64() - self.life);
        self.cpu += weight * (record.cpu().as_secs_f64() - self.cpu);
        // Whoever has paid himself has nothing to leave.
        if life <= SHORT && !record.has_paid() {
            self.purse.earn(now, record.cpu());
        }
    }

    /// A lease of it has cost something, of which so many new races were to be expected.
    pub(super) fn was_tried(&mut self, cost: Duration, expected: f64) {
        let cost = cost.as_secs_f64();
        let left = (-cost / FADES).exp();
        self.cost = left * self.cost + cost;
        self.expected = left * self.expected + expected.max(0.0);
    }

    /// New races that are to be expected for each second of what leases cost, where that is known.
    pub(super) fn yields(&self) -> Option<f64> {
        (self.cost >= TRIED).then(|| self.expected / self.cost)
    }

    /// What it promises where so much is to be expected of the best build: from 0 (nothing) to 1 (as much as of that one, or as it is not known).
    pub(super) fn promise(&self, best: f64) -> f64 {
        match self.yields() {
            Some(yields) if best > 0.0 => (yields / best).min(1.0),
            _ => 1.0,
        }
    }

    /// Whether its processes are to be leased as soon as they begin, where so much is to be expected of the best build.
    pub(super) fn is_short_lived(&self, best: f64) -> bool {
        self.ended >= KNOWN && self.life <= SHORT.as_secs_f64() && self.promise(best) >= PROMISING
    }

    /// Whether its purse, and what is free of the machine's, pay for a lease of the next process that lives shortly.
    pub(super) fn can_pay(&mut self, now: Duration, share: f64, free: Duration) -> bool {
        if self.is_left_alone {
            return false;
        }
        // As much of its life as the shortest lease lasts.
        let part = (SHORTEST.as_secs_f64() / self.life.max(1e-3)).min(1.0);
        let needs = Duration::from_secs_f64(share * self.cpu * part).max(LEAST);
        needs <= self.purse.left(now).min(free)
    }
}
