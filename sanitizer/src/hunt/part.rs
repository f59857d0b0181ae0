//! A part of the budget for work that the program causes, such as that for its new threads: what was earned of it, and what such work costs.

use std::time::Duration;

use crate::kernel::process::nanos;

/// How much of the budget it is.
pub const PART: f64 = 0.25;
/// What may be spent before anything was earned: many programs create their threads, fork, or get signals at their start only.
pub const FIRST: Duration = Duration::from_millis(5);
/// What is saved is enough for so many.
pub const SAVED: f64 = 64.0;
/// The measured cost is an average over about so many.
const AVERAGED: f64 = 16.0;

/// See the module.
#[derive(Debug)]
pub struct Part {
    /// Of the program's CPU time, what may be spent.
    share: f64,
    /// What may be spent, ns; negative where more was.
    left_ns: f64,
    /// What the tracer works at a time, ns.
    each_ns: f64,
    /// How often it had to since it was looked how long it has worked.
    heard: u64,
}

impl Part {
    /// For a budget of such a share of the program's CPU time. `each_ns`: what the tracer works at a time, until that was measured.
    #[must_use]
    pub fn new(budget: f64, each_ns: f64) -> Self {
        Self {
            share: budget * PART,
            left_ns: nanos(FIRST) as f64,
            each_ns,
            heard: 0,
        }
    }

    /// The program has used so much more CPU time, ns. No more is saved than this, ns.
    pub fn earn(&mut self, used_ns: u64, saved_ns: f64) {
        let most = saved_ns.max(self.left_ns);
        self.left_ns = (self.left_ns + used_ns as f64 * self.share).min(most);
    }

    /// So much is spent, ns.
    pub fn spend(&mut self, ns: f64) {
        self.left_ns -= ns;
    }

    /// What is left, ns.
    #[must_use]
    pub const fn left_ns(&self) -> f64 {
        self.left_ns
    }

    /// What the tracer works at a time, ns.
    #[must_use]
    pub const fn each_ns(&self) -> f64 {
        self.each_ns
    }

    /// The tracer has to work once more.
    pub const fn hear(&mut self) {
        self.heard += 1;
    }

    /// How often since [`Part::worked`].
    #[must_use]
    pub const fn heard(&self) -> u64 {
        self.heard
    }

    /// The tracer has worked for so long since the last time, ns.
    pub fn worked(&mut self, ns: f64) {
        let heard = std::mem::take(&mut self.heard) as f64;
        if heard > 0.0 {
            let weight = (heard / AVERAGED).min(1.0);
            self.each_ns += (ns / heard - self.each_ns) * weight;
        }
    }
}
