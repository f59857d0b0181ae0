//! Stalls of threads that nobody holds: they were taken from their processors right before an access, and stand until they get one again.
//!
//! The gate on the scheduler's switches notes which threads are off, with their registers. Of those that are certain to make an access next the strategy
//! chooses one. Its bytes are watched as in any stall; nobody is stopped, neither it nor whoever comes. The gate closes the stall when the thread gets a
//! processor, before it can move. Whatever was caught until then is evidence only where [`Preemption::refuted`] says so, and the thread is seen to have
//! made its access.

use std::time::Duration;

use gwp_race_abi::phase;

use crate::addr::RuntimeAddr;
use crate::hunt::classify::StalledSide;
use crate::hunt::engine::adviser::{Adviser, SeenLocks, Way};
use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::{Rig, Standing};
use crate::hunt::strategy::{About, Outcome};
use crate::hunt::watched::{kind_for, watched};
use crate::hunt::wire::Notice;
use crate::insn::MemAccess;
use crate::kernel::gates::{Hit, Preempted};
use crate::kernel::perf::WatchKind;
use crate::kernel::process::{monotonic_ns, nanos};
use crate::tracee;
use crate::verdict::Preemption;

use super::hold::Opened;
use super::state::{Confirm, Stalled};
use super::{Sampler, State};

/// Threads that are looked at each time: to decode what they do next takes some microseconds each.
const MOST: usize = 16;
/// No stall is longer.
const LONGEST: Duration = Duration::from_millis(100);
/// How long a thread may be off until it makes its access: with hundreds of threads to a processor that takes its time.
const LONGEST_OFF: Duration = Duration::from_secs(1);
/// How long it may take to that when it has got one.
const CONFIRM_TIME: Duration = Duration::from_millis(50);
/// Why there is no stall where nobody is off who is certain to access anything.
const NOBODY_PREEMPTED: &str = "nobody-preempted";

/// How long threads are off their processors.
#[derive(Clone, Copy, Debug)]
pub struct Off {
    mean_ns: f64,
}

impl Default for Off {
    fn default() -> Self {
        /// Some turns of others, as the scheduler gives them.
        const USUAL: Duration = Duration::from_millis(10);
        Self {
            mean_ns: USUAL.as_nanos() as f64,
        }
    }
}

impl Off {
    /// One was off for so long, ns.
    fn saw(&mut self, ns: u64) {
        /// How much the last one counts.
        const PART: f64 = 0.1;
        self.mean_ns += PART * (ns as f64 - self.mean_ns);
    }

    /// Looks whether somebody is off who is certain to access something: what accesses of others are to be watched for then. To make the events ready for
    /// others takes about as long as most threads are off, so they are taken as they are, as a rule, where that will do.
    pub fn look(rig: &mut Rig, adviser: &mut Adviser) -> Option<WatchKind> {
        /// How many of 256 times the others are preferred.
        const CHANGES: u8 = 32;
        if !rig.gates.note_switches() {
            return None;
        }
        let changes = adviser.random.u8(..) < CHANGES;
        let (mut present, mut other) = (None, None);
        for thread in those_off(rig) {
            for (_, _, access) in adviser.certain(rig, &thread.regs) {
                let kind = kind_for(access.kind);
                if rig.arming.watchpoints().are_for(kind) {
                    present = Some(kind);
                } else {
                    other = Some(kind);
                }
            }
            let preferred = if changes { other } else { present };
            if preferred.is_some() {
                return preferred;
            }
        }
        present.or(other)
    }

    /// How long one is likely to be off still that has been for so long, ns.
    fn left(self, ns: u64) -> Duration {
        /// A part of the mean at least: some wait for longer than others.
        const LEAST: f64 = 0.1;
        let left = (self.mean_ns - ns as f64).max(LEAST * self.mean_ns);
        Duration::from_nanos(left as u64).min(LONGEST)
    }
}

/// Threads that are off their processors and may be taken, those first that have been so for the shortest time: they are off for longest from now on.
fn those_off(rig: &Rig) -> Vec<Preempted> {
    let mut threads = rig.gates.preempted();
    threads.retain(|thread| rig.arming.holds(thread.tid) && !thread.is_signal_pending);
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.out_ns));
    threads.truncate(MOST);
    threads
}

/// A thread that may be taken, for an access.
struct Choice {
    thread: Preempted,
    pc: u64,
    behind: RuntimeAddr,
    access: MemAccess,
}

impl Sampler {
    /// Takes one of the threads that are off their processors, where that is worth it.
    pub fn take_preempted(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        adviser.decisions.way = Way::Preempted;
        let begun = self.choose_preempted(rig, adviser);
        if let Err(reason) = begun {
            rig.figures.no_stall(reason);
            self.waiting.pause();
        }
    }

    fn choose_preempted(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
    ) -> Result<(), &'static str> {
        let now = monotonic_ns();
        let (mut choices, mut abouts) = (Vec::new(), Vec::new());
        for thread in those_off(rig) {
            let left = self.off.left(now.saturating_sub(thread.out_ns));
            for (pc, behind, access) in adviser.certain(rig, &thread.regs) {
                if rig.arming.watchpoints().are_for(kind_for(access.kind)) {
                    abouts.push(About { pc, left });
                    choices.push(Choice {
                        thread,
                        pc,
                        behind,
                        access,
                    });
                }
            }
        }
        if choices.is_empty() {
            return Err(NOBODY_PREEMPTED);
        }
        let chosen = adviser.strategy.preempted(&abouts, &*rig.modules);
        let choice = chosen.and_then(|(index, at_most)| Some((choices.get(index)?, at_most)));
        let (choice, at_most) = choice.ok_or("not-worth-it")?;
        self.hold_preempted(rig, adviser, choice, at_most)
    }

    /// Watches what a thread is about to access; why not, where that cannot be.
    fn hold_preempted(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        choice: &Choice,
        at_most: Duration,
    ) -> Result<(), &'static str> {
        use std::sync::atomic::Ordering::SeqCst;
        let Choice {
            thread,
            pc,
            behind,
            access,
        } = choice;
        let chosen = watched(*pc, *access, *behind, &mut adviser.random);
        let watched = adviser.watch_aliases(rig, chosen);
        let idle = rig.gates.phase().read();
        if idle.phase() != phase::IDLE {
            return Err("sample-busy");
        }
        let begun = rig.gates.phase().begin(idle, phase::REACHED);
        self.generation = begun.ok_or("sample-busy")?;
        let control = rig.gates.control();
        control.claim.owner.store(u64::from(thread.tid), SeqCst);
        control.claim.time_ns.store(monotonic_ns(), SeqCst);
        rig.tell_of_preempted(self.generation, thread);
        let standing = Standing {
            tid: thread.tid,
            regs: thread.regs,
            call: None,
        };
        let is_in_sequence =
            (thread.rseq).is_some_and(|area| rig.is_in_sequence(area, &thread.regs));
        let opened = if is_in_sequence {
            Err("restartable-sequence")
        } else {
            self.open(rig, adviser, &standing, &watched, None)
        };
        // Asked last: what was read of it, and of its memory, was as it is now.
        let opened = opened.and_then(|opened| match rig.gates.is_still_off(thread) {
            true => Ok(opened),
            false => Err("ran-on"),
        });
        let Opened {
            kind,
            before,
            at,
            traps,
            ..
        } = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                self.enter(rig, phase::CLOSED);
                rig.arming.watchpoints().unwatch();
                self.go_idle(rig);
                return Err(reason);
            }
        };
        rig.figures.stalls_of_preempted += 1;
        let about = watched.address.0.wrapping_sub(watched.alias);
        adviser.strategy.about(*pc, about);
        let deadline = at + nanos(at_most.min(LONGEST));
        self.state = State::Stalled(Box::new(Stalled {
            thread: standing,
            preempted: Some(*thread),
            site: *pc,
            is_blind_to_reads: kind != watched.kind,
            watched,
            before,
            early: None,
            opened: at,
            used: None,
            traps,
            look_at_locks: deadline,
            waiting: 0,
            has_caught: false,
            deep: None,
            deadline,
        }));
        Ok(())
    }

    /// The stall of a thread that is off its processor, or was, has ended by now; when it was over.
    pub(super) fn saw_off(&mut self, rig: &Rig, thread: &Preempted, closed: u64) -> u64 {
        let Some(back) = rig.preempted_back() else {
            return closed;
        };
        self.off.saw(back.saturating_sub(thread.out_ns));
        closed.min(back)
    }

    /// Somebody has come to the stall of a thread that is off its processor: it is seen whether it makes its access. What is no evidence is counted.
    pub(super) fn await_preempted(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        stalled: Stalled,
        thread: &Preempted,
        mut hits: Vec<Hit>,
        closed: u64,
    ) {
        use std::sync::atomic::Ordering::SeqCst;
        rig.arming.watchpoints().unwatch();
        let (Standing { tid, regs, .. }, watched) = (&stalled.thread, stalled.watched);
        let (tid, regs) = (*tid, *regs);
        rig.gates
            .control()
            .claim
            .breakpoint
            .store(watched.behind.0, SeqCst);
        self.enter(rig, phase::CONFIRM);
        let armed = rig.arming.break_behind(tid, watched.behind, &rig.gates);
        let stack = rig.read_stack(regs.rsp);
        // Asked last: the breakpoint was there, and the stack was that of where it stood, before it could move.
        let back_ns = rig.preempted_back();
        let preemption = Preemption {
            out_ns: thread.out_ns,
            is_same: true,
            is_signal_pending: thread.is_signal_pending,
            is_in_sequence: false,
            armed_ns: stalled.opened,
            back_ns,
            is_awaited: armed.is_ok() && back_ns.is_none(),
        };
        if let Err(error) = armed {
            rig.outbox.send(&Notice::Debug(error.to_string()));
        }
        hits.retain(|hit| match preemption.refuted(hit.time_ns) {
            Some(reason) => {
                rig.figures.not_reported(reason.name(), 1);
                false
            }
            None => true,
        });
        if hits.is_empty() {
            rig.arming.unbreak(tid);
            adviser.learned.lines.shared(watched.address.0);
            adviser.came_to(rig, Way::Preempted, stalled.site, Outcome::Blind);
            self.enter(rig, phase::CLOSED);
            return self.go_idle(rig);
        }
        let told = self.tell_caught(rig, adviser, &stalled, &hits);
        let is_full = !told || rig.setup.full_repeats;
        let mut stalled_locks = SeenLocks::default();
        if is_full {
            stalled_locks = adviser.held_by(rig, (tid, regs.rip), &regs, &stack);
            // It may have gone on meanwhile: then they are not those of where it stood.
            if rig.preempted_back().is_some() {
                stalled_locks = SeenLocks::default();
            }
        }
        let name = tracee::threads::name(as_pid(rig.program.pid), as_pid(tid)).unwrap_or_default();
        let now = monotonic_ns();
        self.state = State::Confirm(Box::new(Confirm {
            side: StalledSide {
                tid,
                regs,
                call: stalled.thread.call,
                watched,
                stack: match is_full {
                    true => stack,
                    false => Vec::new(),
                },
                before: stalled.before,
            },
            preempted_until: Some(now + nanos(LONGEST_OFF)),
            hits,
            stalled_locks,
            racing_locks: None,
            name,
            open: stalled.opened..closed,
            deadline: now + nanos(CONFIRM_TIME),
        }));
    }

    /// The thread in hand was not seen to make its access in time: it is given up, unless it is off its processor still, or was a moment ago.
    pub(super) fn end_confirm_in_vain(&mut self, rig: &mut Rig, now: u64) {
        if !self.waits_for_processor(rig, now) {
            self.end_confirm(rig, false);
        }
    }

    fn waits_for_processor(&mut self, rig: &Rig, now: u64) -> bool {
        let State::Confirm(confirm) = &mut self.state else {
            return false;
        };
        let Some(until) = confirm.preempted_until else {
            return false;
        };
        let since = rig.preempted_back().unwrap_or(now);
        confirm.deadline = (since + nanos(CONFIRM_TIME)).min(until);
        now < confirm.deadline
    }

    /// A thread has stopped for whatever reason: if nobody holds it for the stall in hand, its signal or what it stops for comes before its access.
    pub fn stops_for_another_reason(&mut self, rig: &mut Rig, tid: u32) {
        match &self.state {
            State::Stalled(stalled) if stalled.preempted.is_some() && stalled.thread.tid == tid => {
                self.abandon(rig);
            }
            State::Confirm(confirm)
                if confirm.preempted_until.is_some() && confirm.side.tid == tid =>
            {
                self.end_confirm(rig, false);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what is left follows from how long threads are off, and never is nothing, or too long.
    #[test]
    fn how_long_threads_are_off() {
        let mut off = Off::default();
        for _ in 0..200 {
            off.saw(25_000_000);
        }
        let left = |ns| off.left(ns).as_secs_f64();
        assert!((left(5_000_000) - 0.02).abs() < 1e-4);
        assert!((left(60_000_000) - 0.0025).abs() < 1e-4);
        off.saw(u64::MAX);
        assert_eq!(off.left(0), LONGEST);
    }
}
