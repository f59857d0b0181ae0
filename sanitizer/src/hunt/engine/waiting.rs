//! Waiting at an access site while no sample is in hand: for any thread that comes there.
//!
//! The watchpoints serve as breakpoints meanwhile; the gate claims a thread as a clock sample does.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::phase;

use crate::addr::RuntimeAddr;
use crate::hunt::strategy::Name;
use crate::hunt::strategy::Outcome;
use crate::hunt::strategy::Wait;
use crate::hunt::wire::Notice;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;

use super::{Engine, State};

/// The budget is asked again after this time, then after twice as long each time: a program that does
/// nothing earns nothing, and is not to be looked at all the time.
const SHORTEST_REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(640);

/// What the engine knows of its waiting.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The site that is waited at, and until when.
    pub(super) at: Option<(Wait, u64)>,
    /// When to wait next.
    next: u64,
    rest: Duration,
    /// The events are breakpoints on a site.
    armed: bool,
    /// Clock samples that the strategy was told of.
    seen: u64,
    /// How often a site was waited at.
    pub(super) count: u64,
}

impl Waiting {
    /// When the engine has to look after it.
    pub(super) const fn due(&self) -> u64 {
        match self.at {
            Some((_, until)) => until,
            None => self.next,
        }
    }
}

impl Engine {
    /// Ends a wait that has lasted long enough, and begins the next one.
    pub(super) fn tend_wait(&mut self, now: u64) {
        if !matches!(self.state, State::Idle) || now < self.waiting.due() {
            return;
        }
        self.end_wait(Outcome::NotReached);
        let control = self.gates.control();
        if phase::of(control.phase.load(SeqCst)) != phase::IDLE || self.next_housekeeping == 0 {
            self.rest();
            return;
        }
        self.tell_seen();
        let control = self.gates.control();
        // What the tracer has just done is to be paid first.
        self.budget.settle(control);
        if control.spent_ns.load(SeqCst) > control.earned_ns.load(SeqCst) {
            self.rest();
            return;
        }
        let Some(wait) = self.strategy.wait(&*self.modules) else {
            self.rest();
            return;
        };
        control.site_skip.store(wait.skip, SeqCst);
        control.site_traps.store(0, SeqCst);
        control.site.store(wait.at, SeqCst);
        self.waiting.armed = true;
        self.waiting.count += 1;
        if let Err(error) = self.arming.watchpoints().break_at(RuntimeAddr(wait.at)) {
            self.outbox.send(&Notice::Debug(error.to_string()));
            self.disarm_site();
            self.strategy.outcome(wait.site, Outcome::Unsuitable);
            self.rest();
            return;
        }
        self.waiting.rest = SHORTEST_REST;
        self.waiting.at = Some((wait, monotonic_ns() + nanos(wait.time)));
    }

    /// The site that is waited at is passed all the time.
    pub(super) fn site_is_busy(&mut self) {
        self.end_wait(Outcome::TooOften);
    }

    /// Does not wait any more; what came of it is said to the strategy.
    fn end_wait(&mut self, outcome: Outcome) {
        if let Some((wait, _)) = self.waiting.at.take() {
            self.disarm_site();
            self.strategy.outcome(wait.site, outcome);
        }
        self.clock_may_claim(true);
    }

    /// Clock and site take turns where both are wanted.
    pub(super) fn clock_may_claim(&self, may: bool) {
        let may = match self.setup.strategy {
            Name::Auto => may,
            Name::Clock => true,
            Name::Site => false,
        };
        let claims = &self.gates.control().clock_claims;
        claims.store(u64::from(may), SeqCst);
    }

    /// Gives up waiting for a reason that says nothing about the site.
    pub(super) fn stop_waiting(&mut self) {
        self.waiting.at = None;
        self.disarm_site();
    }

    /// The events are breakpoints no more, but watch something, or were closed.
    pub(super) fn site_is_disarmed(&mut self) {
        self.waiting.armed = false;
        self.gates.control().site.store(0, SeqCst);
    }

    pub(super) fn disarm_site(&mut self) {
        if self.waiting.armed {
            self.site_is_disarmed();
            self.arming.watchpoints().unwatch();
        }
    }

    fn rest(&mut self) {
        let rest = self.waiting.rest.clamp(SHORTEST_REST, LONGEST_REST);
        self.waiting.rest = rest * 2;
        self.clock_may_claim(true);
        self.waiting.next = monotonic_ns() + nanos(rest);
    }

    /// Tells the strategy where threads were seen since the last time.
    fn tell_seen(&mut self) {
        let control = self.gates.control();
        let count = control.seen_count.load(SeqCst);
        let kept = control.seen.len() as u64;
        let first = self.waiting.seen.max(count.saturating_sub(kept));
        for place in first..count {
            let index = (place % kept) as usize;
            let pc = control.seen.get(index).map_or(0, |pc| pc.load(SeqCst));
            self.strategy.seen(pc, &*self.modules);
        }
        self.waiting.seen = count;
    }
}
