//! What is kept of a build: what it promises, and how long its processes live.
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
/// Promise below which a short life is no reason for hurry.
const PROMISING: f64 = 0.2;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Build {
    /// From 0 to 1.
    pub(super) promise: f64,
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
            promise: 1.0,
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

    /// Whether its processes are to be leased as soon as they begin.
    pub(super) fn is_short_lived(&self) -> bool {
        self.ended >= KNOWN && self.life <= SHORT.as_secs_f64() && self.promise >= PROMISING
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
