//! Waiting at an access site while no sample is in hand: for any thread that comes there.
//!
//! The watchpoints of threads serve as breakpoints meanwhile, processors have some of their own; the gate claims
//! a thread as a clock sample does.
//! What is waited for next, or done instead, the strategy says.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::phase;
use gwp_race_abi::{HELD_TRAPS, UNMET_TRAPS};

use crate::addr::RuntimeAddr;
use crate::hunt::strategy::Means;
use crate::hunt::strategy::Outcome;
use crate::hunt::strategy::Step;
use crate::hunt::strategy::Unexplained;
use crate::hunt::strategy::Wait;
use crate::hunt::wire::Notice;
use crate::kernel::perf::WatchKind;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;

use super::decisions::Way;
use super::looks::Look;
use super::wanted::Ahead;
use super::writers::Watching;
use super::{CLAIM_TIME, Engine, EngineError, State};

/// The budget is asked again after this time, then after twice as long each time: a program that does
/// nothing earns nothing, and is not to be looked at all the time.
const SHORTEST_REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(640);

/// What a thread that comes to a site may cost before it was earned.
const CREDIT: Duration = Duration::from_millis(5);

/// How long the events may take until they are ready for a site, and how often that is looked at. A grace period
/// of RCU on all processors takes less, as a rule.
const LONGEST_PREPARATION: Duration = Duration::from_millis(100);
const PREPARATION: Duration = Duration::from_millis(2);

/// Why a site was not waited at, or a thread not stalled.
pub(super) const NOT_READY: &str = "watchpoint-not-ready";

/// How many of 256 clock samples watch for all accesses, where that has to be known before: that of a thread which is
/// about to read is for nothing then.
const ALL_ACCESSES: u8 = 85;

/// What is waited for next.
#[derive(Clone, Copy, Debug)]
enum Coming {
    /// A clock sample, for so long.
    Sample(Duration, WatchKind),
    /// A thread at a site.
    Site(Wait),
    /// Nobody: it is watched who writes a variable.
    Writers(Unexplained),
}

impl Coming {
    /// What the other threads' accesses are going to be watched for.
    const fn kind(&self) -> WatchKind {
        match self {
            Self::Sample(_, kind) => *kind,
            Self::Site(wait) if wait.writes => WatchKind::ReadsAndWrites,
            Self::Site(_) | Self::Writers(_) => WatchKind::Writes,
        }
    }
}

/// What the engine knows of its waiting.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The site that is waited at, and until when.
    pub(super) at: Option<(Wait, u64)>,
    /// The last one that was, and since when: a thread may have been claimed there when the wait was ended.
    pub(super) last: Option<(Wait, u64)>,
    /// What is waited for as soon as the events are ready for it, and until when that may take.
    coming: Option<(Coming, u64)>,
    /// The site whose bytes stay watched.
    pub(super) shared: Option<Look>,
    /// The variable that is watched, while no site is waited at.
    pub(super) watching: Option<Watching>,
    /// What is watched in advance, for the thread that is waited for.
    pub(super) ahead: Option<Ahead>,
    /// The last generation for which accesses may have been recorded before its stall.
    pub(super) recorded_early: u64,
    /// When the thread in hand was claimed by a gate.
    pub(super) claimed: u64,
    /// When to look after that again.
    next: u64,
    rest: Duration,
    /// The events are breakpoints on a site, or watch bytes without a stall.
    pub(super) armed: bool,
    /// The strategy is to forget a part of what it knows, when nobody can be claimed: that takes its time.
    pub(super) decays: bool,
    /// It is to be looked after the program, as soon as nobody is waited for.
    pub(super) delays_scan: bool,
    /// Clock samples of which the strategy was told the places.
    seen: u64,
    /// How often a site was waited at.
    pub(super) count: u64,
}

impl Waiting {
    /// Whether a site is waited at, or bytes are watched.
    pub(super) const fn is_under_way(&self) -> bool {
        self.at.is_some() || self.shared.is_some() || self.watching.is_some()
    }

    /// When the engine has to look after it.
    pub(super) const fn due(&self) -> u64 {
        match (&self.at, &self.shared, &self.watching) {
            (Some((_, until)), ..)
            | (None, Some(Look { until, .. }), _)
            | (None, None, Some(Watching { until, .. })) => *until,
            (None, None, None) => self.next,
        }
    }
}

impl Engine {
    /// Ends a wait that has lasted long enough, and begins the next one, or looks after the program where that is due.
    pub(super) fn tend_wait(&mut self, now: u64) -> Result<(), EngineError> {
        if !matches!(self.state, State::Idle) || now < self.waiting.due() {
            return Ok(());
        }
        // From here on no gate claims a thread, and none waits for what takes its time.
        self.clock_may_claim(false);
        self.end_probe();
        self.end_wait(Outcome::NotReached);
        self.end_watching();
        let control = self.gates.control();
        if self.gates.phase().is(phase::CLAIMED) {
            let since = control.claim.time_ns.load(SeqCst);
            if now.saturating_sub(since) > nanos(CLAIM_TIME) {
                // Its stop was lost: the thread blocks the signal by now, or has thrown it away.
                self.void_claim(control.claim.owner.load(SeqCst) as u32);
            }
        }
        if !self.gates.phase().is(phase::IDLE) || !self.schedule.has_begun() {
            self.rest();
            return Ok(());
        }
        if self.waiting.delays_scan {
            return self.look_after_program();
        }
        self.begin_wait(now);
        Ok(())
    }

    /// Begins the next wait, or goes on preparing it.
    fn begin_wait(&mut self, now: u64) {
        if let Some((coming, until)) = self.waiting.coming.take() {
            if now < until {
                self.wait_when_ready(coming, until);
            } else {
                self.figures.no_stall(NOT_READY);
                self.rest();
            }
            return;
        }
        if std::mem::take(&mut self.waiting.decays) {
            self.forget_some();
        }
        self.tell_seen();
        // What the tracer has just done is to be paid first.
        self.settle();
        let until = now.saturating_add(nanos(LONGEST_PREPARATION));
        self.tell_of_ahead();
        let means = self.means();
        let step = (self.strategy).step(Duration::from_nanos(now), &means, &*self.modules);
        self.follow(step, until);
    }

    /// A clock sample, for so long. It is unknown what is going to be watched; who writes is of interest in any case.
    fn sample(&mut self, time: Duration) -> Coming {
        let kind = if self.random.u8(..) < ALL_ACCESSES {
            WatchKind::ReadsAndWrites
        } else {
            WatchKind::Writes
        };
        Coming::Sample(time, kind)
    }

    /// What may be spent now.
    fn means(&self) -> Means {
        let control = self.gates.control();
        Means {
            purse: self.budget.purse(control, CREDIT),
            spent_s: Duration::from_nanos(control.budget.spent_ns.load(SeqCst)).as_secs_f64(),
        }
    }

    /// Does what the strategy wants to be done next.
    fn follow(&mut self, step: Step, until: u64) {
        self.waiting.rest = SHORTEST_REST;
        let coming = match step {
            Step::Sample(time) => self.sample(time),
            Step::Wait(wait) => Coming::Site(wait),
            Step::Watch(variable) => Coming::Writers(variable),
            Step::Rest(time) => {
                let time = time.clamp(SHORTEST_REST, LONGEST_REST);
                self.waiting.next = monotonic_ns().saturating_add(nanos(time));
                return;
            }
        };
        self.wait_when_ready(coming, until);
    }

    /// Waits, now or when the events have been made ready to watch who else accesses the bytes.
    fn wait_when_ready(&mut self, coming: Coming, until: u64) {
        let now = monotonic_ns();
        if !self.arming.watchpoints().prepare(coming.kind()) {
            self.waiting.coming = Some((coming, until));
            self.waiting.next = now.saturating_add(nanos(PREPARATION));
            return;
        }
        match coming {
            Coming::Sample(time, _) => {
                self.clock_may_claim(true);
                self.waiting.next = now.saturating_add(nanos(time));
            }
            Coming::Site(wait) => self.wait_at(wait),
            Coming::Writers(variable) => {
                self.watch_for_writers(variable);
                if self.waiting.watching.is_none() {
                    self.disarm_site();
                    self.rest();
                }
            }
        }
    }

    /// Arms the events at a site.
    fn wait_at(&mut self, wait: Wait) {
        self.spare_holders(&wait);
        let control = self.gates.control();
        control.site.skip.store(wait.skip, SeqCst);
        control.site.credit_ns.store(nanos(CREDIT), SeqCst);
        control.site.traps.store(0, SeqCst);
        control.site.not_held.store(0, SeqCst);
        control.site.first_ns.store(0, SeqCst);
        let form = self.tell_address(&wait);
        self.wait_for_company(&wait, form.is_some());
        self.wait_for_wanted(&wait, form);
        self.gates.control().site.at.store(wait.at, SeqCst);
        self.waiting.armed = true;
        self.waiting.count += 1;
        // Whoever was created before may be gone when somebody is waited for.
        self.allow_threads();
        if let Err(error) = self.arming.watchpoints().break_at(RuntimeAddr(wait.at)) {
            self.outbox.send(&Notice::Debug(error.to_string()));
            self.disarm_site();
            self.came_to(Way::Wait(wait.known), wait.site, Outcome::Unsuitable);
            self.rest();
            return;
        }
        let now = monotonic_ns();
        let until = now + nanos(wait.time);
        self.waiting.at = Some((wait, until));
        self.waiting.last = Some((wait, now));
    }

    /// The site that is waited at is passed all the time.
    pub(super) fn site_is_busy(&mut self) {
        // Nobody shall be claimed while the events are disarmed.
        self.clock_may_claim(false);
        self.end_wait(Outcome::TooOften);
    }

    /// Nobody was claimed at the site that is waited at: mostly because of locks, or since they used what is their own, or for
    /// this reason.
    fn unless_let_pass(&self, outcome: Outcome) -> Outcome {
        let control = self.gates.control();
        let wanted = &control.site.wanted.size;
        let unmet = control.site.company.unmet.load(SeqCst);
        if wanted.load(SeqCst) != 0 && unmet >= UNMET_TRAPS {
            // Who came was not wanted.
            return Outcome::NotReached;
        }
        let held = control.site.locks.held.load(SeqCst);
        let own = control.site.own.traps.load(SeqCst);
        // Those beyond the ones that do not count as traps.
        let others = control.site.traps.load(SeqCst);
        let others = others.saturating_sub(held.saturating_sub(HELD_TRAPS));
        if own > held && 2 * own > others {
            Outcome::Unsuitable
        } else if held > others {
            Outcome::Held
        } else {
            outcome
        }
    }

    /// Does not wait any more; what came of it is said to the strategy.
    fn end_wait(&mut self, outcome: Outcome) {
        if let Some((wait, _)) = self.waiting.at.take() {
            self.tell_ahead(None);
            self.tell_waited(&wait);
            self.disarm_site();
            let outcome = self.unless_let_pass(outcome);
            self.came_to(Way::Wait(wait.known), wait.site, outcome);
        }
    }

    /// A thread was claimed: what is next is decided when it goes on.
    pub(super) fn end_turn(&mut self) {
        self.clock_may_claim(false);
        self.waiting.coming = None;
        self.waiting.next = 0;
    }

    pub(super) fn clock_may_claim(&self, may: bool) {
        let claims = &self.gates.control().claim.by_clock;
        claims.store(u64::from(may), SeqCst);
    }

    /// Gives up waiting for a reason that says nothing about the site.
    pub(super) fn stop_waiting(&mut self) {
        self.waiting.at = None;
        self.waiting.coming = None;
        self.waiting.shared = None;
        self.tell_writers();
        self.disarm_site();
    }

    /// The events are breakpoints no more, but watch something, or were closed.
    pub(super) fn site_is_disarmed(&mut self) {
        self.waiting.armed = false;
        self.gates.control().site.at.store(0, SeqCst);
        self.forget_ahead();
    }

    pub(super) fn disarm_site(&mut self) {
        if self.waiting.armed {
            self.site_is_disarmed();
            self.arming.watchpoints().unwatch();
        }
    }

    /// Nothing is done for a short time.
    pub(super) fn pause(&mut self) {
        self.waiting.next = monotonic_ns().saturating_add(nanos(SHORTEST_REST));
    }

    fn rest(&mut self) {
        let rest = self.waiting.rest.clamp(SHORTEST_REST, LONGEST_REST);
        self.waiting.rest = rest * 2;
        self.waiting.next = monotonic_ns() + nanos(rest);
    }

    /// Tells the strategy where threads were seen since the last time.
    fn tell_seen(&mut self) {
        let samples = &self.gates.control().samples;
        let count = samples.seen_count.load(SeqCst);
        let kept = samples.seen.len() as u64;
        let first = self.waiting.seen.max(count.saturating_sub(kept));
        for place in first..count {
            let index = (place % kept) as usize;
            let pc = samples.seen.get(index).map_or(0, |pc| pc.load(SeqCst));
            self.strategy.seen(pc, &*self.modules);
        }
        self.waiting.seen = count;
    }
}
