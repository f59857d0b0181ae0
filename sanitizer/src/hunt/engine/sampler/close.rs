//! The end of a stall: who has come, and what is told of it.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::{KNOWN_BITS, phase};

use crate::hunt::classify::{StalledSide, racing_call};
use crate::hunt::engine::adviser::{Adviser, SeenLocks};
use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::{Rig, Standing};
use crate::hunt::strategy::{Conflict, Outcome};
use crate::hunt::system_call;
use crate::hunt::wire::Notice;
use crate::kernel::gates::Hit;
use crate::kernel::process::{monotonic_ns, nanos};
use crate::tracee;
use crate::tracee::memory;
use crate::verdict::Reason;

use super::confirm::memory_of;
use super::pairs::{Seen, Spot};
use super::state::{Confirm, Deep, Stalled};
use super::{Sampler, State};

/// A stalled thread that has not made its access this long after its release is given up.
const CONFIRM_TIME: Duration = Duration::from_millis(50);

/// Why hits are no evidence that were made at another address of the same memory: it was mapped anew meanwhile.
const MAPPING_CHANGED: &str = "mapping-changed";

impl Sampler {
    /// Ends a stall whose bytes are accessed all the time.
    pub fn cut_stall_short(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        rig.figures.stalls_cut_short += 1;
        self.close_stall(rig, adviser, None, false);
    }

    /// Closes the stall in hand, lets its thread go, and keeps the evidence if there is any.
    /// `deep` was read of a racing thread that stands still as well.
    pub fn end_stall(&mut self, rig: &mut Rig, adviser: &mut Adviser, deep: Option<Deep>) {
        self.close_stall(rig, adviser, deep, true);
    }

    /// The same; the bytes may stay watched afterwards, or not.
    fn close_stall(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        deep: Option<Deep>,
        may_probe: bool,
    ) {
        let State::Stalled(stalled) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        let both_stand = deep.is_some();
        // What stands in the rings while the thread stands still was made meanwhile.
        let _ = rig.take_records(false);
        self.enter(rig, phase::CLOSED);
        let closed = monotonic_ns();
        let closed = match &stalled.preempted {
            Some(thread) => self.saw_off(rig, thread, closed),
            None => closed,
        };
        let lasted = closed.saturating_sub(stalled.opened);
        rig.figures.watched_ns += lasted;
        adviser.strategy.stalled(Duration::from_nanos(lasted));
        let hits = self.evidence(rig, adviser, &stalled);
        self.tell_known(rig, stalled.watched.pc);
        if let Some(thread) = stalled.preempted {
            // Nobody waits for one that was not made to stand, or would wait no less.
            return if hits.is_empty() {
                self.end_unmet(rig, adviser, &stalled, false, false);
            } else {
                self.await_preempted(rig, adviser, *stalled, &thread, hits, closed);
            };
        }
        rig.stood_since(stalled.opened, stalled.used);
        let waiting = match stalled.waiting {
            // Where another one stands as well, it was short.
            0 if !both_stand => adviser.waiting_for_locks_of(rig, stalled.thread.tid),
            seen => seen,
        };
        rig.budget
            .charge_others(rig.gates.control(), waiting as u64 * lasted / 2);
        if hits.is_empty() {
            self.end_unmet(rig, adviser, &stalled, waiting > 0, may_probe);
        } else {
            self.begin_confirm(rig, adviser, *stalled, hits, deep, closed);
        }
    }

    /// What was caught in a stall that has ended, as far as it is evidence.
    fn evidence(&self, rig: &mut Rig, adviser: &mut Adviser, stalled: &Stalled) -> Vec<Hit> {
        let mut hits = rig.complete_hits(self.generation);
        let recorded = hits.len();
        hits.retain(|hit| stalled.early.is_some() || !hit.early);
        let outside = recorded - hits.len();
        rig.figures
            .not_reported(Reason::OutsideStall.name(), outside);
        if hits.iter().any(|hit| hit.early) {
            adviser.caught_early();
        }
        if !hits.is_empty() && !rig.is_still_alias(&stalled.watched) {
            rig.figures.not_reported(MAPPING_CHANGED, hits.len());
            hits.clear();
        }
        hits
    }

    /// Tells which known partners of the access at `stalled` have come to a stall that has ended, whom the gate has let pass.
    fn tell_known(&self, rig: &mut Rig, stalled: u64) {
        let stall = &rig.gates.control().stall;
        let known = stall.known.iter().zip(&stall.known_met);
        let met = known.filter(|(_, met)| met.load(SeqCst) == self.generation);
        let racing: Vec<u64> = met.map(|(known, _)| known.load(SeqCst)).collect();
        for racing in racing {
            rig.outbox.send(&Notice::Repeat { stalled, racing });
        }
    }

    /// Nobody has come to a stall. The bytes may stay watched, where that is worth it.
    pub(super) fn end_unmet(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        stalled: &Stalled,
        is_waited_for: bool,
        may_probe: bool,
    ) {
        let Stalled {
            site,
            watched,
            is_blind_to_reads,
            before,
            traps,
            ..
        } = stalled;
        let tid = stalled.thread.tid;
        let mut after = vec![0; before.len()];
        let read = memory::read_exact(as_pid(rig.program.pid), watched.address, &mut after);
        if matches!(read, Ok(true)) && after != *before && rig.traps_seen() == *traps {
            rig.figures.value_changed += 1;
            adviser.learned.lines.shared(watched.address.0);
        }
        let known = rig.gates.control().stall.known_hits.load(SeqCst);
        let outcome = if known != self.generation << KNOWN_BITS {
            adviser.learned.lines.shared(watched.address.0);
            Outcome::Repeat
        } else if is_waited_for {
            Outcome::Locked
        } else if *is_blind_to_reads {
            // That nobody was seen to read proves nothing then, nor would it afterwards.
            Outcome::Blind
        } else {
            adviser.learned.quiet.note(watched.address.0);
            Outcome::Quiet
        };
        adviser.came_to(rig, adviser.decisions.way, *site, outcome);
        if stalled.preempted.is_none() {
            rig.charge_and_release(tid);
        }
        let is_locked = outcome == Outcome::Locked;
        let may_probe = may_probe && !is_blind_to_reads && (is_locked || outcome == Outcome::Quiet);
        let waiting = &mut self.waiting;
        if !may_probe || !waiting.begin_probe(rig, adviser, *site, tid, watched.address, is_locked)
        {
            rig.arming.watchpoints().unwatch();
        }
        self.go_idle(rig);
    }

    /// Somebody has come to a stall that has ended: its thread goes on, and it is seen whether it makes its access.
    fn begin_confirm(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        stalled: Stalled,
        mut hits: Vec<Hit>,
        deep: Option<Deep>,
        closed: u64,
    ) {
        let both_stand = deep.is_some();
        let since = stalled.since();
        // From here on a trap would cost the other threads time for nothing.
        rig.arming.watchpoints().unwatch();
        let told = self.tell_caught(rig, adviser, &stalled, &hits);
        let deep = deep.or(stalled.deep);
        let racing_locks = deep.map(|Deep { tid, stack, locks }| {
            let mut hits = hits.iter_mut();
            let hit = hits.find(|hit| hit.tid == tid && hit.stopping);
            if let Some(hit) = hit.filter(|hit| stack.len() > hit.stack.len()) {
                hit.stack = stack;
            }
            (tid, locks)
        });
        let Standing { tid, regs, call } = stalled.thread;
        let watched = stalled.watched;
        let (stack, stalled_locks) = if told && !rig.setup.full_repeats {
            (Vec::new(), SeenLocks::default())
        } else {
            let stack = rig.read_stack(regs.rsp);
            let locks = adviser.held_by(rig, (tid, regs.rip), &regs, &stack);
            (stack, locks)
        };
        let name = tracee::threads::name(as_pid(rig.program.pid), as_pid(tid)).unwrap_or_default();
        let behind = watched.behind;
        rig.gates.control().claim.breakpoint.store(behind.0, SeqCst);
        self.enter(rig, phase::CONFIRM);
        self.state = State::Confirm(Box::new(Confirm {
            side: StalledSide {
                tid,
                regs,
                call,
                watched,
                stack,
                before: stalled.before,
            },
            preempted_until: None,
            hits,
            stalled_locks,
            racing_locks,
            name,
            open: since..closed,
            deadline: monotonic_ns() + nanos(CONFIRM_TIME),
        }));
        if let Err(error) = rig.arming.break_behind(tid, behind, &rig.gates) {
            rig.outbox.send(&Notice::Debug(error.to_string()));
        }
        rig.charge_and_release(tid);
        if !both_stand {
            rig.nobody_stands();
        }
    }

    /// Tells the strategy who has come to a stall that has ended; whether all of them were told of before.
    pub(super) fn tell_caught(
        &self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        stalled: &Stalled,
        hits: &[Hit],
    ) -> bool {
        let since = stalled.since();
        let spot = Spot::new(stalled.watched.pc, stalled.thread.call.as_ref());
        // Once for each: both threads stand still.
        let seen = hits.iter().map(|hit| Seen::of(spot, hit, &rig.modules));
        let seen: Vec<Seen> = seen.collect();
        let told = seen.iter().all(|seen| self.pairs.is_told(seen));
        let new = hits.iter().zip(&seen);
        let new = new.filter(|(_, seen)| !self.pairs.is_settled(seen));
        let new = new.map(|(hit, Seen { racing, .. })| Conflict {
            behind: racing.behind(),
            distance: Duration::from_nanos(hit.time_ns.saturating_sub(since)),
        });
        let mut new: Vec<_> = new.collect();
        let (strategy, site) = (&mut adviser.strategy, stalled.site);
        new.retain(|conflict| !strategy.knows_race(site, conflict.behind, &*rig.modules));
        adviser.learned.lines.shared(stalled.watched.address.0);
        let outcome = new.first().copied().map_or(Outcome::Repeat, Outcome::Hit);
        adviser.came_to(rig, adviser.decisions.way, stalled.site, outcome);
        for other in new.into_iter().skip(1) {
            adviser.strategy.uses(other);
        }
        told
    }

    /// The bytes of the stall in hand were accessed by somebody who does not stop for it: by the kernel, or while nobody is held. Where that is evidence,
    /// there is nothing to wait for any more.
    pub fn on_hit_of_running(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        let State::Stalled(stalled) = &self.state else {
            return;
        };
        if stalled.preempted.is_some() {
            return self.end_stall(rig, adviser, None);
        }
        let watch = (stalled.watched.address.0, stalled.watched.len.into());
        let hits = rig.gates.hits(self.generation);
        let pid = as_pid(rig.program.pid);
        let is_evidence = |hit: &Hit| {
            hit.in_kernel
                && system_call::of_hit(hit, watch, &memory_of(pid)).is_some()
                && racing_call(&rig.modules, hit).is_some()
        };
        if hits.iter().any(is_evidence) {
            self.end_stall(rig, adviser, None);
        }
    }
}
