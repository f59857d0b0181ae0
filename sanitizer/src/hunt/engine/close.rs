//! The end of a stall: who has come, and what is told of it.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::Counter;
use gwp_race_abi::HITS;
use gwp_race_abi::KNOWN_BITS;
use gwp_race_abi::phase;

use crate::addr::RuntimeAddr;
use crate::hunt::classify::StalledSide;
use crate::hunt::classify::racing_call;
use crate::hunt::strategy::Conflict;
use crate::hunt::strategy::Outcome;
use crate::hunt::system_call;
use crate::hunt::wire::Notice;
use crate::kernel::gates::Hit;
use crate::kernel::process::monotonic_ns;
use crate::tracee;
use crate::tracee::memory;
use crate::verdict::Reason;

use super::confirm::memory_of;
use super::pairs::{Seen, Spot};
use super::{CONFIRM_TIME, Confirm, Engine, RECORD_TIME, STANDING_STACK, Stalled, State, as_pid};

/// Why hits are no evidence that were made at another address of the same memory: it was mapped anew meanwhile.
const MAPPING_CHANGED: &str = "mapping-changed";

impl Engine {
    /// Ends a stall whose bytes are accessed all the time.
    pub(super) fn cut_stall_short(&mut self) {
        self.figures.stalls_cut_short += 1;
        self.close_stall(None, false);
    }

    /// Closes the stall in hand, lets its thread go, and keeps the evidence if there is any.
    /// `deep` is the whole stack of a racing thread that stands still as well.
    pub(super) fn end_stall(&mut self, deep: Option<(u32, Vec<u8>)>) {
        self.close_stall(deep, true);
    }

    /// The same; the bytes may stay watched afterwards, or not.
    fn close_stall(&mut self, deep: Option<(u32, Vec<u8>)>, may_probe: bool) {
        let State::Stalled(stalled) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        let Stalled {
            tid,
            site,
            regs,
            call,
            watched,
            is_blind_to_reads,
            before,
            early,
            opened,
            used,
            traps,
            waiting,
            deep: earlier,
            ..
        } = *stalled;
        let both_stand = deep.is_some();
        // What stands in the rings while the thread stands still was made meanwhile.
        let _ = self.take_records();
        self.enter(phase::CLOSED);
        let closed = monotonic_ns();
        self.stood_since(opened, used);
        self.figures.watched_ns += closed - opened;
        (self.strategy).stalled(Duration::from_nanos(closed.saturating_sub(opened)));
        let mut hits = self.complete_hits();
        let recorded = hits.len();
        hits.retain(|hit| early.is_some() || !hit.early);
        self.figures
            .not_reported(Reason::OutsideStall.name(), recorded - hits.len());
        if hits.iter().any(|hit| hit.early) {
            self.caught_early();
        }
        let since = early.map_or(opened, |early| early.since);
        if !hits.is_empty() && !self.is_still_alias(&watched) {
            self.figures.not_reported(MAPPING_CHANGED, hits.len());
            hits.clear();
        }
        let waiting = match waiting {
            // Where another one stands as well, it was short.
            0 if !both_stand => self.waiting_for_locks_of(tid),
            seen => seen,
        };
        self.budget
            .charge_others(self.gates.control(), waiting as u64 * (closed - opened) / 2);
        if hits.is_empty() {
            let mut after = vec![0; before.len()];
            let read = memory::read_exact(as_pid(self.program.pid), watched.address, &mut after);
            let trapped = self.counter(Counter::Traps) - self.counter(Counter::HitKernel) != traps;
            if matches!(read, Ok(true)) && after != before && !trapped {
                self.figures.value_changed += 1;
                self.learned.lines.shared(watched.address.0);
            }
            let known = self.gates.control().stall.known_hits.load(SeqCst);
            let outcome = if known != self.generation << KNOWN_BITS {
                self.learned.lines.shared(watched.address.0);
                self.outbox.send(&Notice::Repeat(watched.pc));
                Outcome::Repeat
            } else if waiting > 0 {
                Outcome::Locked
            } else if is_blind_to_reads {
                // That nobody was seen to read proves nothing then, nor would it afterwards.
                Outcome::Blind
            } else {
                self.learned.quiet.note(watched.address.0);
                Outcome::Quiet
            };
            self.came_to(self.decisions.way, site, outcome);
            self.charge_and_release(tid);
            let may_probe = may_probe
                && !is_blind_to_reads
                && matches!(outcome, Outcome::Quiet | Outcome::Locked);
            let is_locked = outcome == Outcome::Locked;
            if !may_probe || !self.begin_probe(site, tid, watched.address, is_locked) {
                self.arming.watchpoints().unwatch();
            }
            return self.go_idle();
        }
        // From here on a trap would cost the other threads time for nothing.
        self.arming.watchpoints().unwatch();
        if let Some((racing, stack)) = deep.or(earlier)
            && let Some(hit) = hits
                .iter_mut()
                .find(|hit| hit.tid == racing && hit.stopping)
            && stack.len() > hit.stack.len()
        {
            hit.stack = stack;
        }
        let spot = Spot::new(watched.pc, call.as_ref());
        // Once for each: both threads stand still.
        let seen: Vec<Seen> = hits.iter().map(|hit| self.seen(spot, hit)).collect();
        let told = seen.iter().all(|seen| self.pairs.is_told(seen));
        let new = hits.iter().zip(&seen);
        let new = new.filter(|(_, seen)| !self.pairs.is_settled(seen));
        let new = new.map(|(hit, Seen { racing, .. })| Conflict {
            behind: racing.behind(),
            distance: Duration::from_nanos(hit.time_ns.saturating_sub(since)),
        });
        let new: Vec<_> = new.collect();
        self.learned.lines.shared(watched.address.0);
        let outcome = new.first().copied().map_or(Outcome::Repeat, Outcome::Hit);
        self.came_to(self.decisions.way, site, outcome);
        for other in new.into_iter().skip(1) {
            self.strategy.uses(other);
        }
        let stack = if told && !self.setup.full_repeats {
            Vec::new()
        } else {
            self.read_stack(regs.rsp)
        };
        let name = tracee::threads::name(as_pid(self.program.pid), as_pid(tid)).unwrap_or_default();
        let behind = watched.behind;
        let control = self.gates.control();
        control.claim.breakpoint.store(behind.0, SeqCst);
        self.enter(phase::CONFIRM);
        let confirm = Confirm {
            side: StalledSide {
                tid,
                regs,
                call,
                watched,
                stack,
                before,
            },
            hits,
            name,
            open: since..closed,
            deadline: monotonic_ns() + CONFIRM_TIME.as_nanos() as u64,
        };
        self.state = State::Confirm(Box::new(confirm));
        if let Err(error) = self.arming.break_behind(tid, behind, &self.gates) {
            self.outbox.send(&Notice::Debug(error.to_string()));
        }
        self.charge_and_release(tid);
        if !both_stand {
            self.nobody_stands();
        }
    }

    /// The kernel has accessed the bytes of the stall in hand: where that is evidence, there is nothing to
    /// wait for any more.
    pub(super) fn on_hit_in_kernel(&mut self) {
        let State::Stalled(stalled) = &self.state else {
            return;
        };
        let watch = (stalled.watched.address.0, stalled.watched.len.into());
        let hits = self.gates.hits(self.generation);
        let pid = as_pid(self.program.pid);
        let is_evidence = |hit: &Hit| {
            hit.in_kernel
                && system_call::of_hit(hit, watch, &memory_of(pid)).is_some()
                && racing_call(&self.modules, hit).is_some()
        };
        if hits.iter().any(is_evidence) {
            self.end_stall(None);
        }
    }

    pub(super) fn read_stack(&self, from: u64) -> Vec<u8> {
        let mut stack = vec![0; STANDING_STACK];
        let len =
            memory::read(as_pid(self.program.pid), RuntimeAddr(from), &mut stack).unwrap_or(0);
        stack.truncate(len);
        stack
    }

    /// The hits of the stall, when the gates that were writing them are done.
    pub(super) fn complete_hits(&self) -> Vec<Hit> {
        let until = monotonic_ns() + RECORD_TIME.as_nanos() as u64;
        loop {
            let claimed = self
                .gates
                .control()
                .stall
                .hits
                .load(SeqCst)
                .min(HITS as u64);
            let hits = self.gates.hits(self.generation);
            if hits.len() as u64 >= claimed || monotonic_ns() > until {
                return hits;
            }
            std::thread::yield_now();
        }
    }
}
