//! Waiting at an access site while no sample is in hand: for any thread that comes there.
//!
//! The watchpoints of threads serve as breakpoints meanwhile, processors have some of their own; the gate claims
//! a thread as a clock sample does.
//! After a stall that nobody has ended they may stay where they are for a while, to see who uses the bytes, without
//! holding anybody.
//!
//! While the budget has nothing left, a variable that changes is watched as well for who writes it: by the processors' watchpoints,
//! which have nothing to do as long as a site is waited at, or in place of that.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::phase;
use gwp_race_abi::{HELD_TRAPS, NO_REGISTER, NOBODY, OWN_ACCESSES, TRAPS_PER_STALL, UNMET_TRAPS};

use crate::addr::RuntimeAddr;
use crate::hunt::budget::Budget;
use crate::hunt::strategy::CodeView as _;
use crate::hunt::strategy::Conflict;
use crate::hunt::strategy::Means;
use crate::hunt::strategy::Outcome;
use crate::hunt::strategy::Step;
use crate::hunt::strategy::Turn;
use crate::hunt::strategy::Unexplained;
use crate::hunt::strategy::Wait;
use crate::hunt::wire::Notice;
use crate::insn::x86_64::{AddressForm, address_form};
use crate::kernel::perf::WatchKind;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;

use super::decisions::{VARIABLE, VARIABLE_BESIDE};
use super::wanted::Ahead;
use super::{CLAIM_TIME, Engine, EngineError, State, longest_stall};

/// The budget is asked again after this time, then after twice as long each time: a program that does
/// nothing earns nothing, and is not to be looked at all the time.
const SHORTEST_REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(640);

/// What a thread that comes to a site which is rarely reached may cost before it was earned.
const MEANWHILE_CREDIT: Duration = Duration::from_millis(5);

/// How long the events may take until they are ready for a site, and how often that is looked at. A grace period
/// of RCU on all processors takes less, as a rule.
const LONGEST_PREPARATION: Duration = Duration::from_millis(100);
const PREPARATION: Duration = Duration::from_millis(2);

/// How long a variable is watched for who writes it, where no site is waited at meanwhile. While the budget has nothing left, how often that
/// is done in place of a wait; else for what part of the time. Both at most: the less it is worth, the less.
const WATCHED: Duration = Duration::from_millis(500);
const INSTEAD: f64 = 0.25;
const PART_WATCHED: f64 = 0.2;

/// Addresses remembered at which a stall was quiet.
const QUIET: usize = 16;

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
    /// A thread at a site, which may cost so much more than was earned; or a clock sample, where that may claim one
    /// meanwhile (`clock`).
    Site {
        wait: Wait,
        credit: Duration,
        clock: bool,
    },
    /// Nobody: it is watched who writes a variable.
    Writers(Unexplained),
}

impl Coming {
    /// What the other threads' accesses are going to be watched for.
    const fn kind(&self) -> WatchKind {
        match self {
            Self::Sample(_, kind) => *kind,
            Self::Site { wait, .. } if wait.writes => WatchKind::ReadsAndWrites,
            Self::Site { .. } | Self::Writers(_) => WatchKind::Writes,
        }
    }
}

/// Bytes that stay watched without holding anybody.
#[derive(Clone, Debug)]
pub(super) struct Look {
    site: u64,
    /// Why that was chosen.
    why: &'static str,
    until: u64,
    /// The thread that was stalled there held a lock for which others waited. It may well use the bytes some times
    /// before one of them gets it.
    is_locked: bool,
    /// Who used them since the thread was claimed, where they were watched by then.
    pub(super) early: Vec<Conflict>,
}

/// A variable that is watched for who writes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watching {
    variable: u64,
    /// In what circumstances.
    why: &'static str,
    since: u64,
    until: u64,
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
    /// The variable that is watched, beside a site that is waited at or instead.
    pub(super) watching: Option<Watching>,
    /// What is watched in advance, for the thread that is waited for.
    pub(super) ahead: Option<Ahead>,
    /// The last generation for which accesses may have been recorded before its stall.
    pub(super) recorded_early: u64,
    /// When the thread in hand was claimed by a gate.
    pub(super) claimed: u64,
    /// From when on that may be done while there is budget for others.
    next_watching: u64,
    /// The last addresses at which nobody came while a thread was stalled. What an allocator hands from thread to thread
    /// is in use by several, but by one at a time.
    pub(super) quiet: VecDeque<u64>,
    /// Whose turn it is to claim a thread; `None` where that is to be decided.
    turn: Option<Turn>,
    /// When to look at that again.
    next: u64,
    rest: Duration,
    /// The events are breakpoints on a site, or watch bytes without a stall.
    armed: bool,
    /// The strategy is to forget a part of what it knows, when nobody can be claimed: that takes its time.
    pub(super) decays: bool,
    /// It is to be looked after the program, as soon as nobody is waited for.
    pub(super) delays_scan: bool,
    /// Clock samples that the strategy was told of.
    seen: u64,
    /// How often a site was waited at.
    pub(super) count: u64,
}

impl Waiting {
    /// Nobody came while a thread was stalled that was about to access this address.
    pub(super) fn was_quiet(&mut self, address: u64) {
        if self.quiet.contains(&address) {
            return;
        }
        self.quiet.truncate(QUIET - 1);
        self.quiet.push_front(address);
    }

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
        let word = control.phase.load(SeqCst);
        if phase::of(word) == phase::CLAIMED {
            let since = control.claim.time_ns.load(SeqCst);
            if now.saturating_sub(since) > nanos(CLAIM_TIME) {
                // Its stop was lost: the thread blocks the signal by now, or has thrown it away.
                self.void_claim(control.claim.owner.load(SeqCst) as u32);
            }
        }
        if phase::of(self.gates.control().phase.load(SeqCst)) != phase::IDLE
            || self.next_housekeeping == 0
        {
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
                self.count_no_stall(NOT_READY);
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
        if let Some(step) = step {
            return self.follow(step, until);
        }
        let spent = Budget::is_spent(self.gates.control());
        let turn = match self.waiting.turn.take() {
            Some(Turn::Clock(time)) if spent => Turn::Clock(time),
            // It had its time.
            Some(Turn::Clock(_)) => {
                self.strategy.turn_was_in_vain();
                Turn::Site
            }
            Some(turn) => turn,
            None => match self.strategy.turn(Duration::from_nanos(now)) {
                Turn::Clock(time) => {
                    let coming = self.sample(time);
                    self.wait_when_ready(coming, until);
                    return;
                }
                turn => turn,
            },
        };
        let clock = turn != Turn::Site;
        if spent {
            self.waiting.turn = Some(turn);
            // Where even those who are worth it have come too often, nobody is waited for.
            let may_wait = !Budget::owes_more_than(self.gates.control(), MEANWHILE_CREDIT);
            let coming = may_wait.then(|| self.meanwhile()).flatten();
            if let Some(coming) = coming {
                self.wait_when_ready(coming, until);
            } else {
                self.clock_may_claim(clock);
                self.rest();
            }
            return;
        }
        if now >= self.waiting.next_watching {
            let pause = WATCHED.div_f64(PART_WATCHED);
            self.waiting.next_watching = now.saturating_add(nanos(pause));
            if let Some(variable) = self.unexplained(1.0) {
                return self.wait_when_ready(Coming::Writers(variable), until);
            }
        }
        let Some(wait) = self.strategy.wait(&*self.modules) else {
            self.clock_may_claim(true);
            self.rest();
            return;
        };
        self.waiting.rest = SHORTEST_REST;
        let coming = Coming::Site {
            wait,
            credit: Duration::ZERO,
            clock,
        };
        self.wait_when_ready(coming, until);
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
            purse: self.budget.purse(control, MEANWHILE_CREDIT),
            spent_s: Duration::from_nanos(control.budget.spent_ns.load(SeqCst)).as_secs_f64(),
        }
    }

    /// Does what the strategy wants to be done next.
    fn follow(&mut self, step: Step, until: u64) {
        let coming = match step {
            Step::Sample(time) => self.sample(time),
            Step::Wait(wait) => Coming::Site {
                wait,
                credit: MEANWHILE_CREDIT,
                clock: false,
            },
            Step::Watch(variable) => Coming::Writers(variable),
            Step::Rest(time) => {
                let time = time.clamp(SHORTEST_REST, LONGEST_REST);
                self.waiting.next = monotonic_ns().saturating_add(nanos(time));
                return;
            }
        };
        self.wait_when_ready(coming, until);
    }

    /// What to do while the budget has nothing left.
    fn meanwhile(&mut self) -> Option<Coming> {
        if let Some(variable) = self.unexplained(INSTEAD) {
            return Some(Coming::Writers(variable));
        }
        let wait = self.strategy.wait_meanwhile()?;
        Some(Coming::Site {
            wait,
            credit: MEANWHILE_CREDIT,
            clock: false,
        })
    }

    /// A variable to watch for who writes it, so often at most: the less that is worth, the less often.
    fn unexplained(&mut self, most: f64) -> Option<Unexplained> {
        let variable = self.strategy.unexplained()?;
        (self.random.f64() < most * variable.weight).then_some(variable)
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
                self.waiting.turn = Some(Turn::Clock(time));
                self.waiting.next = now.saturating_add(nanos(time));
            }
            Coming::Site {
                wait,
                credit,
                clock,
            } => {
                self.wait_at(wait, credit);
                self.clock_may_claim(clock);
            }
            Coming::Writers(variable) => {
                self.clock_may_claim(false);
                self.watch_for_writers(variable, VARIABLE);
                if self.waiting.watching.is_none() {
                    self.disarm_site();
                    self.rest();
                }
            }
        }
    }

    /// Watches who writes a variable, if the watchpoints can do that now.
    fn watch_for_writers(&mut self, unexplained: Unexplained, why: &'static str) {
        let Unexplained { variable, byte, .. } = unexplained;
        let since = self.begin_sharing(NOBODY, RuntimeAddr(byte));
        let watchpoints = self.arming.watchpoints();
        match watchpoints.watch_beside(RuntimeAddr(byte), 1, WatchKind::Writes) {
            Ok(()) => {
                self.waiting.watching = Some(Watching {
                    variable,
                    why,
                    since,
                    until: since.saturating_add(nanos(WATCHED)),
                });
            }
            Err(error) => {
                self.outbox.send(&Notice::Debug(error.to_string()));
                self.gates.control().sharing.address.store(0, SeqCst);
                self.count_no_stall("watchpoint-failed");
            }
        }
    }

    /// Does not watch a variable any more.
    pub(super) fn end_watching(&mut self) {
        if self.waiting.watching.is_none() {
            return;
        }
        self.tell_writers();
        if self.waiting.at.is_some() {
            self.arming.watchpoints().unwatch_beside();
        } else {
            self.disarm_site();
        }
    }

    /// Tells the strategy who was seen to write the variable that was watched. What is still armed tells nothing from here on.
    pub(super) fn tell_writers(&mut self) {
        let Some(watching) = self.waiting.watching.take() else {
            return;
        };
        let Watching { variable, why, .. } = watching;
        let control = self.gates.control();
        control.sharing.address.store(0, SeqCst);
        let part = if control.stall.traps.load(SeqCst) < TRAPS_PER_STALL {
            let lasted = monotonic_ns().saturating_sub(watching.since);
            Duration::from_nanos(lasted).div_duration_f64(WATCHED)
        } else {
            1.0
        };
        let writers = self.users();
        self.saw_writers(why, variable, &writers);
        self.strategy.watched(variable, part.min(1.0), &writers);
    }

    /// Arms the events at a site, where a thread may be claimed that costs so much more than was earned.
    fn wait_at(&mut self, wait: Wait, credit: Duration) {
        self.spare_holders(&wait);
        let control = self.gates.control();
        control.site.skip.store(wait.skip, SeqCst);
        control.site.credit_ns.store(nanos(credit), SeqCst);
        control.site.traps.store(0, SeqCst);
        control.site.not_held.store(0, SeqCst);
        control.site.first_ns.store(0, SeqCst);
        let form = self.tell_address(&wait);
        self.wait_for_company(&wait, form.is_some());
        let is_ahead = self.wait_for_wanted(&wait, form);
        // In a short wait there is not much to be seen.
        if !is_ahead && !credit.is_zero() {
            self.watch_for_writers_beside();
        }
        self.gates.control().site.at.store(wait.at, SeqCst);
        self.waiting.armed = true;
        self.waiting.count += 1;
        // Whoever was created before may be gone when somebody is waited for.
        self.allow_threads();
        if let Err(error) = self.arming.watchpoints().break_at(RuntimeAddr(wait.at)) {
            self.outbox.send(&Notice::Debug(error.to_string()));
            self.tell_writers();
            self.disarm_site();
            self.came_to(wait.why, wait.site, Outcome::Unsuitable);
            self.rest();
            return;
        }
        let now = monotonic_ns();
        let until = now + nanos(wait.time);
        self.waiting.at = Some((wait, until));
        self.waiting.last = Some((wait, now));
    }

    /// Watches who writes some variable while a site is waited at, where the watchpoints have nothing else to do. Nobody can be claimed yet.
    fn watch_for_writers_beside(&mut self) {
        let watchpoints = self.arming.watchpoints();
        if watchpoints.have_others_beside(WatchKind::Writes)
            && let Some(variable) = self.strategy.unexplained()
        {
            self.watch_for_writers(variable, VARIABLE_BESIDE);
        }
    }

    /// Tells the gate how to compute the address that is accessed at a site, and lets whoever is about to access what only it uses pass
    /// there; how, if it is that of an access, not of a routine's.
    fn tell_address(&self, wait: &Wait) -> Option<AddressForm> {
        let modules = &self.modules;
        let code = modules.code(wait.at);
        let routine = modules.routine_at(wait.at);
        let contract = routine.and_then(|entry| modules.routines().contract(entry));
        let (form, other) = if let Some(contract) = contract {
            let mut pointers = contract.pointers();
            let form = pointers.next().map(|register| AddressForm {
                base: Some(register),
                index: None,
                shift: 0,
                displacement: 0,
            });
            (form, pointers.next())
        } else {
            (address_form(code, wait.at), None)
        };
        let site = &self.gates.control().site;
        site.own.traps.store(0, SeqCst);
        let frame = self.strategy.own_frame(wait.at);
        site.own.frame.store(frame, SeqCst);
        let passes_own = form.is_some() && frame > 0;
        site.own.passes.store(u64::from(passes_own), SeqCst);
        let number = |register: Option<u8>| register.map_or(NO_REGISTER, u64::from);
        let form = form.unwrap_or(AddressForm {
            base: None,
            index: None,
            shift: 0,
            displacement: 0,
        });
        let operand = &site.operand;
        operand.other.store(number(other), SeqCst);
        operand.base.store(number(form.base), SeqCst);
        operand.index.store(number(form.index), SeqCst);
        operand.shift.store(form.shift.into(), SeqCst);
        operand.displacement.store(form.displacement, SeqCst);
        let has_registers = form.base.or(form.index).is_some();
        (contract.is_none() && has_registers).then_some(form)
    }

    /// Of those who come to a site the gate claims for a while only one that is about to access what another thread
    /// has accessed there a moment before: of many objects, those that are in use by several threads.
    fn wait_for_company(&self, wait: &Wait, has_form: bool) {
        /// How long, at most: most sites that are reached often have shown some such object by then.
        const TIME: Duration = Duration::from_millis(10);
        let control = self.gates.control();
        let until = if has_form && self.arming.len() > 1 && wait.meets {
            monotonic_ns().saturating_add(nanos(TIME.min(wait.time / 2)))
        } else {
            0
        };
        let quiet = self.waiting.quiet.iter().zip(&control.site.company.met);
        for (address, [known, tid]) in quiet {
            known.store(*address, SeqCst);
            tid.store(NOBODY, SeqCst);
        }
        let known = self.waiting.quiet.len() as u64;
        control.site.company.met_count.store(known, SeqCst);
        control.site.company.unmet.store(0, SeqCst);
        control.site.company.until_ns.store(until, SeqCst);
    }

    /// Leaves the bytes of a stall that nobody has ended watched if the strategy wants to know who uses them; false if
    /// not.
    pub(super) fn begin_probe(
        &mut self,
        site: u64,
        tid: u32,
        address: RuntimeAddr,
        is_locked: bool,
    ) -> bool {
        // Without gates a stall is told from what came before it by the bytes' not being watched.
        if self.substitute.is_some() {
            return false;
        }
        let Some(time) = self.strategy.probe(site) else {
            return false;
        };
        self.gates.control().site.at.store(0, SeqCst);
        let now = self.begin_sharing(u64::from(tid), address);
        self.waiting.shared = Some(Look {
            site,
            why: self.decisions.why,
            until: now + nanos(time),
            is_locked,
            early: Vec::new(),
        });
        true
    }

    /// Has the gate tell from now on who else than this thread uses the bytes at an address; the time.
    pub(super) fn begin_sharing(&mut self, tid: u64, address: RuntimeAddr) -> u64 {
        let control = self.gates.control();
        let sharing = &control.sharing;
        sharing.ahead.store(0, SeqCst);
        sharing.tid.store(tid, SeqCst);
        control.stall.traps.store(0, SeqCst);
        sharing.own.store(0, SeqCst);
        let now = monotonic_ns();
        sharing.since_ns.store(now, SeqCst);
        sharing.others.store(0, SeqCst);
        sharing.until_ns.store(u64::MAX, SeqCst);
        for [user, ..] in &sharing.users {
            user.store(0, SeqCst);
        }
        sharing.user_count.store(0, SeqCst);
        self.keep_results(address);
        control.sharing.address.store(address.0, SeqCst);
        self.waiting.armed = true;
        now
    }

    /// Who was seen to use them, the first one first.
    fn users(&self) -> Vec<Conflict> {
        let users = self.users_by_thread().into_iter();
        users.map(|(user, _)| user).collect()
    }

    /// The same, with the threads, where those are of interest.
    pub(super) fn users_by_thread(&self) -> Vec<(Conflict, u64)> {
        let users = self.gates.control().sharing.users.iter();
        let mut users: Vec<_> = users
            .map(|[behind, after_ns, by]| {
                let user = Conflict {
                    // Written last of what the gate tells of an access.
                    behind: behind.load(SeqCst),
                    distance: Duration::from_nanos(after_ns.load(SeqCst)),
                };
                (user, by.load(SeqCst))
            })
            .filter(|(user, _)| user.behind != 0)
            .collect();
        users.sort_by_key(|(user, _)| user.distance);
        users
    }

    /// Enough was seen of who uses the bytes that are watched.
    pub(super) fn end_sharing(&mut self) {
        if self.end_ahead() {
            return;
        }
        self.end_probe();
        let is_all = self.waiting.at.is_none() && self.waiting.watching.is_some();
        self.end_watching();
        if is_all {
            // What is written all the time is not watched all the time.
            self.waiting.next = monotonic_ns().saturating_add(nanos(SHORTEST_REST));
        }
    }

    /// Tells the strategy what was seen of the bytes that stayed watched.
    pub(super) fn end_probe(&mut self) {
        let Some(Look {
            site,
            why,
            is_locked,
            mut early,
            ..
        }) = self.waiting.shared.take()
        else {
            return;
        };
        let address = self.gates.control().sharing.address.load(SeqCst);
        self.disarm_site();
        early.extend(self.users());
        if let Some((first, others)) = early.split_first() {
            self.is_shared(address);
            if first.distance <= longest_stall(&self.setup) {
                self.waiting.quiet.retain(|quiet| *quiet != address);
            }
            self.came_to(why, site, Outcome::Shared(*first));
            for other in others {
                self.strategy.uses(*other);
            }
        } else if self.gates.control().sharing.own.load(SeqCst) >= OWN_ACCESSES && !is_locked {
            self.came_to(why, site, Outcome::Private);
        } else {
            self.came_to(why, site, Outcome::Unused);
        }
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
            self.tell_writers();
            self.tell_ahead(None);
            self.tell_waited(&wait);
            self.disarm_site();
            let outcome = self.unless_let_pass(outcome);
            self.came_to(wait.why, wait.site, outcome);
        }
    }

    /// A thread was claimed: what is next is decided when it goes on.
    pub(super) fn end_turn(&mut self) {
        self.clock_may_claim(false);
        self.waiting.coming = None;
        self.waiting.turn = None;
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
        self.strategy
            .sampled(count.saturating_sub(self.waiting.seen));
        let first = self.waiting.seen.max(count.saturating_sub(kept));
        for place in first..count {
            let index = (place % kept) as usize;
            let pc = samples.seen.get(index).map_or(0, |pc| pc.load(SeqCst));
            self.strategy.seen(pc, &*self.modules);
        }
        self.waiting.seen = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the last addresses are remembered, each once.
    #[test]
    fn quiet_addresses_are_remembered() {
        let mut waiting = Waiting::default();
        for address in 0..3 * QUIET as u64 {
            waiting.was_quiet(address);
            waiting.was_quiet(address);
        }
        assert_eq!(waiting.quiet.len(), QUIET);
        assert!(
            waiting
                .quiet
                .iter()
                .all(|&address| address >= 2 * QUIET as u64)
        );
    }
}
