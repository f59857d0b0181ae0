//! A thread is held before its access, and the bytes are watched.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::{KNOWN_BITS, phase};

use crate::hunt::bounds::{latest_end, longest_stall};
use crate::hunt::engine::adviser::Adviser;
use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::{Rig, Standing, WATCHPOINT_FAILED};
use crate::hunt::engine::waiting::{Early, NOT_READY};
use crate::hunt::learned::WaitedFor;
use crate::hunt::strategy::{Outcome, Patience};
use crate::hunt::watched;
use crate::hunt::watched::Watched;
use crate::hunt::wire::Notice;
use crate::kernel::perf::WatchKind;
use crate::kernel::process::{monotonic_ns, nanos};
use crate::tracee::memory;

use super::pairs::Spot;
use super::state::{Deep, Stalled};
use super::{Sampler, State};

/// Why a thread was only looked at that would have been stalled else.
const HOLDS_LOCK: &str = "holds-lock";

/// What is known of a stall that has begun.
pub(super) struct Opened {
    pub(super) kind: WatchKind,
    pub(super) before: Vec<u8>,
    pub(super) at: u64,
    pub(super) traps: u64,
    /// CPU time that the program had used by then, ns, where that was looked at.
    pub(super) used: Option<u64>,
}

/// What is watched while a thread stands, or has stood.
struct Chosen {
    /// What the strategy calls the place.
    site: u64,
    watched: Watched,
    early: Option<Early>,
}

impl Sampler {
    /// A thread stands at a place where the strategy wants it: it is held, or it is only looked at who uses what it is about to access, or it is
    /// let go.
    pub fn begin_stall(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        thread: Standing,
        site: u64,
        patience: Patience,
    ) {
        let tid = thread.tid;
        let ahead = self.waiting.ahead.take();
        let is_spared = patience != Patience::Look && adviser.rather_looks(rig, tid);
        let patience = if is_spared { Patience::Look } else { patience };
        // Of what is only looked at, the strategy has to know the place.
        let is_fixed = patience == Patience::Look || ahead.is_some();
        let watched = match adviser.choose(rig, &thread, site, is_fixed) {
            Ok(watched) => watched,
            Err(reason) => {
                let outcome = match reason {
                    watched::KNOWN_PRIVATE => Outcome::KnownPrivate,
                    _ => Outcome::Unsuitable,
                };
                adviser.came_to(rig, adviser.decisions.way, site, outcome);
                rig.figures.no_stall(reason);
                return self.let_go(rig, tid);
            }
        };
        let pc = thread.regs.rip;
        let early = ahead.and_then(|ahead| {
            self.waiting
                .stands_since_claim(rig, self.generation, &ahead, &thread.regs, &watched)
        });
        let (watched, early) = match early {
            Some((watched, early)) => (watched, Some(early)),
            None => (adviser.watch_aliases(rig, watched), None),
        };
        let site = if watched.pc == pc {
            site
        } else {
            adviser.came_to(rig, adviser.decisions.way, site, Outcome::Beside);
            watched.pc
        };
        let about = watched.address.0.wrapping_sub(watched.alias);
        adviser.strategy.about(site, about);
        let chosen = Chosen {
            site,
            watched,
            early,
        };
        let Patience::Hold(patience) = patience else {
            if is_spared {
                adviser.came_to(rig, adviser.decisions.way, site, Outcome::Held);
                rig.figures.no_stall(HOLDS_LOCK);
            }
            return self.look_at(rig, adviser, tid, &chosen, is_spared);
        };
        if let Err(reason) = self.hold(rig, adviser, thread, chosen, patience) {
            rig.figures.no_stall(reason);
            self.let_go(rig, tid);
        }
    }

    /// Holds a thread; why not, where that cannot be.
    fn hold(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        thread: Standing,
        chosen: Chosen,
        patience: Duration,
    ) -> Result<(), &'static str> {
        let Chosen {
            site,
            watched,
            early,
        } = chosen;
        if early.is_none() && !rig.arming.watchpoints().can_watch(watched.kind) {
            adviser.came_to(rig, adviser.decisions.way, site, Outcome::Blind);
            return Err(NOT_READY);
        }
        let Opened {
            kind,
            before,
            at: opened,
            traps,
            used,
        } = self.open(rig, adviser, &thread, &watched, early)?;
        let (look_at_locks, deadline) = times(rig, patience);
        self.state = State::Stalled(Box::new(Stalled {
            thread,
            preempted: None,
            site,
            is_blind_to_reads: kind != watched.kind,
            watched,
            before,
            early,
            opened,
            used,
            traps,
            look_at_locks,
            waiting: 0,
            has_caught: false,
            deep: None,
            deadline,
        }));
        if early.is_some() && rig.caught() > 0 {
            self.has_caught(None);
            self.shorten_stall();
        }
        Ok(())
    }

    /// A stall begins: accesses count from now on, and what is not armed yet is. Why it does not, where that cannot be.
    pub(super) fn open(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        thread: &Standing,
        watched: &Watched,
        early: Option<Early>,
    ) -> Result<Opened, &'static str> {
        let before = bytes_before(rig, watched, early)?;
        // What was recorded before is of no stall; the watchpoints are armed for nothing that is recorded.
        let _ = rig.take_records(false);
        self.pass_known(rig, adviser, Spot::new(watched.pc, thread.call.as_ref()));
        let control = rig.gates.control();
        if self.waiting.recorded_early != self.generation {
            control.stall.hits.store(0, SeqCst);
        }
        control.stall.traps.store(0, SeqCst);
        control.stall.address.store(watched.address.0, SeqCst);
        rig.keep_results(watched.address);
        let traps = rig.traps_seen();
        let used = rig.used_by_now();
        let opened = monotonic_ns();
        self.enter(rig, phase::STALL);
        let armed = rig.watch_stalled(watched, early.is_some());
        let kind = armed.map_err(|error| {
            rig.outbox.send(&Notice::Debug(error.to_string()));
            WATCHPOINT_FAILED
        })?;
        self.waiting.site_is_disarmed(rig);
        rig.figures.stalls += 1;
        Ok(Opened {
            kind,
            before,
            at: opened,
            traps,
            used,
        })
    }

    /// Lets the gate pass accesses that are known to race with the one of the stalled thread: the stall is for those that
    /// are not. Now and then they are looked at all the same, as what is told of a place is told of one of its accesses.
    fn pass_known(&mut self, rig: &mut Rig, adviser: &mut Adviser, stalled: Spot) {
        /// How many of 256 stalls take whatever comes.
        const ALL: u8 = 32;
        let partners = if !rig.takes_places_once() || adviser.random.u8(..) < ALL {
            &[]
        } else {
            self.pairs.partners(stalled)
        };
        let control = rig.gates.control();
        control
            .stall
            .known_hits
            .store(self.generation << KNOWN_BITS, SeqCst);
        let partners = partners.iter().copied().chain(std::iter::repeat(0));
        for (known, partner) in control.stall.known.iter().zip(partners) {
            known.store(partner, SeqCst);
        }
    }

    /// Watches who uses the bytes without holding anybody; `is_locked`: the thread holds a lock for which others wait now and then.
    fn look_at(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        tid: u32,
        chosen: &Chosen,
        is_locked: bool,
    ) {
        let Chosen {
            site,
            watched,
            early,
        } = chosen;
        let users = early.map_or_else(Vec::new, |early| {
            rig.early_users(self.generation, early.since)
        });
        let waiting = &mut self.waiting;
        if waiting.begin_probe(rig, adviser, *site, tid, watched.address, is_locked) {
            waiting.were_used_early(users);
            match rig.watch_stalled(watched, early.is_some()) {
                Ok(kind) if kind == watched.kind => {}
                // Who reads would not be seen.
                Ok(_) => waiting.stop_waiting(rig, adviser),
                Err(error) => {
                    rig.cannot_arm(&error, WATCHPOINT_FAILED);
                    waiting.stop_waiting(rig, adviser);
                }
            }
        } else {
            waiting.disarm_site(rig);
        }
        rig.charge_and_release(tid);
        self.go_idle(rig);
    }

    /// The racing thread that was stopped as well goes on. What could only be read while it stood still is kept until the
    /// stall ends.
    pub fn has_caught(&mut self, deep: Option<Deep>) {
        if let State::Stalled(stalled) = &mut self.state {
            stalled.has_caught = true;
            stalled.deep = deep;
        }
    }

    /// Somebody has come of whom it is known: of others, those who come about as often are still waited for.
    pub fn shorten_stall(&mut self) {
        /// And a little longer, for those that come right after.
        const LONGER: Duration = Duration::from_millis(1);
        if let State::Stalled(stalled) = &mut self.state {
            let now = monotonic_ns();
            let until = now + now.saturating_sub(stalled.opened) + nanos(LONGER);
            stalled.deadline = stalled.deadline.min(until);
            stalled.look_at_locks = stalled.look_at_locks.min(stalled.deadline);
        }
    }

    /// Nobody who waits for a lock of the stalled thread can race with it, and there is no reason to let them wait
    /// any longer; but now and then it is worth it for those that forget the lock.
    pub fn look_at_locks(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        let State::Stalled(stalled) = &mut self.state else {
            return;
        };
        stalled.look_at_locks = stalled.deadline;
        let tid = stalled.thread.tid;
        let waiting = adviser.waiting_for_locks_of(rig, tid);
        if let State::Stalled(stalled) = &mut self.state {
            stalled.waiting = waiting;
        }
        if waiting > 0 && WaitedFor::cuts_short(&mut adviser.random) {
            self.end_stall(rig, adviser, None);
        }
    }
}

/// What stands at the bytes of a stall before it begins; why it must not begin, where that cannot be known.
fn bytes_before(
    rig: &Rig,
    watched: &Watched,
    early: Option<Early>,
) -> Result<Vec<u8>, &'static str> {
    if !rig.is_in_memory(watched.address) {
        // Whoever fetches it from where it is must not be waited for while somebody is held.
        return Err("not-in-memory");
    }
    let mut before = vec![0; usize::from(watched.len)];
    let pid = as_pid(rig.program.pid);
    if !matches!(
        memory::read_exact(pid, watched.address, &mut before),
        Ok(true)
    ) {
        // The access is about to fault: that is the program's own business.
        return Err("unmapped");
    }
    Ok(match early {
        Some(early) => {
            let value = early.before.to_le_bytes();
            value.into_iter().take(before.len()).collect()
        }
        None => before,
    })
}

/// When it is looked who waits for the thread of a stall that has begun, and when that ends, CLOCK_MONOTONIC, ns.
fn times(rig: &Rig, patience: Duration) -> (u64, u64) {
    let usual = Duration::from_nanos(rig.setup.stall_ns);
    let stall = patience.min(longest_stall(&rig.setup)).max(usual);
    let now = monotonic_ns();
    // With many processors it takes its time to arm them all, and to disarm them.
    let claimed = rig.gates.control().claim.time_ns.load(SeqCst);
    let latest = claimed.saturating_add(nanos(latest_end(&rig.setup)));
    let deadline = now.saturating_add(nanos(stall)).min(latest.max(now));
    // At the end of a short one it is looked anyway.
    let look_at_locks = if stall > 2 * usual {
        now + nanos(usual)
    } else {
        deadline
    };
    (look_at_locks, deadline)
}
