//! Waiting at an access site while no sample is in hand: for any thread that comes there.
//!
//! The watchpoints of threads serve as breakpoints meanwhile, processors have some of their own; the gate claims
//! a thread as a clock sample does.
//! What is waited for next, or done instead, the strategy says.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::addr::RuntimeAddr;
use crate::hunt::engine::adviser::{Adviser, Way};
use crate::hunt::engine::profiler::Profiler;
use crate::hunt::engine::rig::{CREDIT, Rig};
use crate::hunt::strategy::{Outcome, Step, Wait};
use crate::hunt::wire::Notice;
use crate::kernel::perf::WatchKind;
use crate::kernel::process::{monotonic_ns, nanos};

use coming::Coming;
use looks::Look;
use wanted::Ahead;
use writers::Watching;

mod coming;
mod looks;
mod wanted;
mod writers;

pub use wanted::Early;

/// The budget is asked again after this time, then after twice as long each time: a program that does
/// nothing earns nothing, and is not to be looked at all the time.
const SHORTEST_REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(640);

/// How long the events may take until they are ready for a site. A grace period of RCU on all processors takes less, as a rule.
const LONGEST_PREPARATION: Duration = Duration::from_millis(100);

/// Why a site was not waited at, or a thread not stalled.
pub const NOT_READY: &str = "watchpoint-not-ready";

/// What is done while no sample is in hand. Times are CLOCK_MONOTONIC, ns.
#[derive(Debug, Default)]
enum Doing {
    /// Nothing but waiting for a clock sample, or for what there is to spend.
    #[default]
    Nothing,
    /// The events are made ready for something, which may take until then.
    Preparing(Coming, u64),
    /// It is waited at a site, until then.
    AtSite(Wait, u64),
    /// Bytes stay watched for who uses them.
    Looking(Look),
    /// A variable is watched for who writes it.
    Watching(Watching),
}

/// What the engine knows of its waiting.
#[derive(Debug, Default)]
pub struct Waiting {
    doing: Doing,
    /// The last site that was waited at, and since when: a thread may have been claimed there when the wait was ended.
    pub last: Option<(Wait, u64)>,
    /// What is watched in advance, for the thread that is waited for.
    pub ahead: Option<Ahead>,
    /// The last generation for which accesses may have been recorded before its stall.
    pub recorded_early: u64,
    /// When the thread in hand was claimed by a gate.
    pub claimed: u64,
    /// When to look after that again.
    next: u64,
    rest: Duration,
    /// The events are breakpoints on a site, or watch bytes without a stall.
    pub armed: bool,
    /// The strategy is to forget a part of what it knows, when nobody can be claimed: that takes its time.
    pub decays: bool,
    /// It is to be looked after the program, as soon as nobody is waited for.
    pub delays_scan: bool,
    /// Clock samples of which the strategy was told the places.
    seen: u64,
    /// How often a site was waited at.
    pub count: u64,
    /// Somebody who is off its processor is to be taken now.
    takes_preempted: bool,
    /// What others' accesses are to be watched for if somebody is taken who is off its processor, as was seen right before the decision; `None` where nobody
    /// is who could be.
    pub for_preempted: Option<WatchKind>,
    /// Whoever comes to a probe that stands may be claimed, not whom a clock finds.
    for_arrivals: bool,
}

impl Waiting {
    /// Whether a site is waited at, or bytes are watched.
    pub const fn is_under_way(&self) -> bool {
        matches!(
            self.doing,
            Doing::AtSite(..) | Doing::Looking(_) | Doing::Watching(_)
        )
    }

    /// Whether it is waited at a site.
    pub const fn is_at_site(&self) -> bool {
        matches!(self.doing, Doing::AtSite(..))
    }

    /// How a thread was found that has not come to a site that was waited at.
    pub const fn way(&self) -> Way {
        if self.for_arrivals {
            Way::Arrival
        } else {
            Way::Sample
        }
    }

    /// When the engine has to look after it.
    pub const fn due(&self) -> u64 {
        match &self.doing {
            Doing::AtSite(_, until)
            | Doing::Looking(Look { until, .. })
            | Doing::Watching(Watching { until, .. }) => *until,
            Doing::Nothing | Doing::Preparing(..) => self.next,
        }
    }
}

impl Waiting {
    /// The events may be ready by now.
    pub const fn hear(&mut self) {
        if matches!(self.doing, Doing::Preparing(..)) {
            self.next = 0;
        }
    }

    /// Goes on preparing the next wait; false if none is prepared.
    pub fn goes_on(&mut self, rig: &mut Rig, adviser: &mut Adviser, now: u64) -> bool {
        let Doing::Preparing(coming, until) = self.doing else {
            return false;
        };
        self.doing = Doing::Nothing;
        if now < until {
            self.wait_when_ready(rig, adviser, coming, until);
        } else {
            rig.figures.no_stall(NOT_READY);
            self.rest();
        }
        true
    }

    /// Whether somebody who is off its processor is to be taken now; asked once.
    pub fn takes_preempted(&mut self) -> bool {
        std::mem::take(&mut self.takes_preempted)
    }

    /// What is to be told and forgotten before the next decision.
    pub fn tell_news(&mut self, rig: &Rig, adviser: &mut Adviser) {
        if std::mem::take(&mut self.decays) {
            adviser.forget_some();
        }
        self.tell_seen(rig, adviser);
    }

    /// Begins the next wait.
    pub fn begin(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        profiler: &mut Profiler,
        now: u64,
    ) {
        let until = now.saturating_add(nanos(LONGEST_PREPARATION));
        adviser.tell_of_ahead(rig);
        profiler.tell(adviser);
        let means = rig.means();
        let step = (adviser.strategy).step(Duration::from_nanos(now), &means, &*rig.modules);
        self.follow(rig, adviser, profiler, step, until);
    }

    /// Does what the strategy wants to be done next.
    fn follow(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        profiler: &mut Profiler,
        step: Step,
        until: u64,
    ) {
        self.rest = SHORTEST_REST;
        let coming = match step {
            Step::Sample(time) => Coming::sample(time, &mut adviser.random),
            Step::Arrival(but, time) => {
                profiler.spare(&but);
                Coming::arrival(time, &mut adviser.random)
            }
            Step::Wait(wait) => Coming::Site(wait),
            Step::Preempted => match self.for_preempted {
                Some(kind) => Coming::Preempted(kind),
                None => return self.rest(),
            },
            Step::Watch(variable) => Coming::Writers(variable),
            Step::Profile(probes, time) => {
                return match profiler.begin(rig, adviser, &probes, time) {
                    Some(time) => self.pause_for(time),
                    None => self.rest(),
                };
            }
            Step::Rest(time) => {
                let time = time.clamp(SHORTEST_REST, LONGEST_REST);
                self.next = monotonic_ns().saturating_add(nanos(time));
                return;
            }
        };
        self.wait_when_ready(rig, adviser, coming, until);
    }

    /// Waits, now or when the events have been made ready to watch who else accesses the bytes.
    fn wait_when_ready(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        coming: Coming,
        until: u64,
    ) {
        let now = monotonic_ns();
        if !rig.arming.watchpoints().prepare(coming.kind()) {
            self.doing = Doing::Preparing(coming, until);
            self.next = until;
            return;
        }
        self.for_arrivals = matches!(coming, Coming::Arrival(..));
        match coming {
            Coming::Arrival(time, _) => {
                let until = now.saturating_add(nanos(time));
                rig.arrivals_may_claim(until);
                self.next = until;
            }
            Coming::Sample(time, _) => {
                rig.clock_may_claim(true);
                self.next = now.saturating_add(nanos(time));
            }
            Coming::Site(wait) => self.wait_at(rig, adviser, wait),
            Coming::Preempted(_) => {
                self.takes_preempted = true;
                self.next = 0;
            }
            Coming::Writers(variable) => {
                self.watch_for_writers(rig, variable);
                if !self.is_under_way() {
                    self.disarm_site(rig);
                    self.rest();
                }
            }
        }
    }

    /// Arms the events at a site.
    fn wait_at(&mut self, rig: &mut Rig, adviser: &mut Adviser, wait: Wait) {
        adviser.spare_holders(rig, &wait);
        let control = rig.gates.control();
        control.site.skip.store(wait.skip, SeqCst);
        control.site.credit_ns.store(nanos(CREDIT), SeqCst);
        control.site.traps.store(0, SeqCst);
        control.site.not_held.store(0, SeqCst);
        control.site.first_ns.store(0, SeqCst);
        let form = rig.tell_address(&wait, adviser.strategy.own_frame(wait.at));
        rig.wait_for_company(&wait, form.is_some(), &adviser.learned.quiet);
        self.wait_for_wanted(rig, adviser, &wait, form);
        rig.gates.control().site.at.store(wait.at, SeqCst);
        self.armed = true;
        self.count += 1;
        if let Err(error) = rig.arming.watchpoints().break_at(RuntimeAddr(wait.at)) {
            rig.outbox.send(&Notice::Debug(error.to_string()));
            self.disarm_site(rig);
            adviser.came_to(rig, Way::Wait(wait.known), wait.site, Outcome::Unsuitable);
            self.rest();
            return;
        }
        let now = monotonic_ns();
        let until = now + nanos(wait.time);
        self.doing = Doing::AtSite(wait, until);
        self.last = Some((wait, now));
    }

    /// The site that is waited at is passed all the time.
    pub fn site_is_busy(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        // Nobody shall be claimed while the events are disarmed.
        rig.nobody_may_claim();
        self.end_wait(rig, adviser, Outcome::TooOften);
    }

    /// Does not wait any more; what came of it is said to the strategy.
    pub fn end_wait(&mut self, rig: &mut Rig, adviser: &mut Adviser, outcome: Outcome) {
        if let Doing::AtSite(wait, _) = self.doing {
            self.doing = Doing::Nothing;
            self.tell_ahead(rig, adviser, None);
            self.tell_waited(adviser, &wait);
            self.disarm_site(rig);
            let outcome = rig.unless_let_pass(outcome);
            adviser.came_to(rig, Way::Wait(wait.known), wait.site, outcome);
        }
    }

    /// A thread was claimed: what is next is decided when it goes on.
    pub fn end_turn(&mut self, rig: &Rig) {
        rig.nobody_may_claim();
        self.next = 0;
    }

    /// Nothing is done any more: what was seen of a variable's writers is told, all else is for nothing.
    pub fn break_off(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        self.tell_writers(rig, adviser);
        self.doing = Doing::Nothing;
    }

    /// Gives up waiting for a reason that says nothing about the site.
    pub fn stop_waiting(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        self.break_off(rig, adviser);
        self.disarm_site(rig);
    }

    /// The events are breakpoints no more, but watch something, or were closed.
    pub fn site_is_disarmed(&mut self, rig: &Rig) {
        self.armed = false;
        rig.gates.control().site.at.store(0, SeqCst);
        self.forget_ahead(rig);
    }

    pub fn disarm_site(&mut self, rig: &mut Rig) {
        if self.armed {
            self.site_is_disarmed(rig);
            rig.arming.watchpoints().unwatch();
        }
    }

    /// Nothing is done for a short time.
    pub fn pause(&mut self) {
        self.pause_for(SHORTEST_REST);
    }

    fn pause_for(&mut self, time: Duration) {
        self.next = monotonic_ns().saturating_add(nanos(time));
    }

    pub fn rest(&mut self) {
        let rest = self.rest.clamp(SHORTEST_REST, LONGEST_REST);
        self.rest = rest * 2;
        self.next = monotonic_ns() + nanos(rest);
    }

    /// Tells the strategy where threads were seen since the last time.
    fn tell_seen(&mut self, rig: &Rig, adviser: &mut Adviser) {
        let samples = &rig.gates.control().samples;
        let count = samples.seen_count.load(SeqCst);
        let kept = samples.seen.len() as u64;
        let first = self.seen.max(count.saturating_sub(kept));
        for place in first..count {
            let index = (place % kept) as usize;
            let pc = samples.seen.get(index).map_or(0, |pc| pc.load(SeqCst));
            adviser.strategy.seen(pc, &*rig.modules);
        }
        self.seen = count;
    }
}
