//! The stalled thread makes its access, and what was caught is judged.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gwp_race_abi::phase;
use nix::unistd::Pid;

use crate::addr::RuntimeAddr;
use crate::hunt::classify::{Circumstances, classify};
use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::Rig;
use crate::hunt::wire::Notice;
use crate::kernel::gates::Hit;
use crate::kernel::process::{monotonic_ns, nanos};
use crate::report::finding::CreatorFacts;
use crate::tracee::memory;
use crate::verdict::{Policy, Reason};

use super::pairs::{Pairs, Seen, Spot};
use super::{Confirm, Purpose, Sampler, State};

/// Threads that have not released their locks this long after their accesses are not waited for: nothing else is hunted meanwhile.
const RELEASE_TIME: Duration = Duration::from_millis(10);
/// How often it is looked whether they have.
const LOOK_TIME: Duration = Duration::from_millis(1);

impl Confirm {
    /// Tells what of it is a race, and why the rest is none. `completed`: the stalled thread was seen to make its access. `creator` knows who has created a thread.
    pub fn judge(
        &mut self,
        completed: bool,
        pairs: &mut Pairs,
        rig: &mut Rig,
        creator: impl Fn(u32) -> Option<CreatorFacts>,
    ) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let circumstances = Circumstances {
            pid: rig.program.pid,
            exe: rig.program.exe.clone(),
            stalled_name: self.name.clone(),
            clock_offset_ns: (now.as_nanos() as u64).wrapping_sub(monotonic_ns()),
            completed,
            open: self.open.clone(),
        };
        let memory = memory_of(as_pid(rig.program.pid));
        let policy = Policy {
            mixed: rig.setup.report_mixed,
            unanalyzed: rig.setup.report_unanalyzed,
        };
        let spot = Spot::new(self.side.watched.pc, self.side.call.as_ref());
        self.unwatch_locks();
        let stalled_holds = self.stalled_locks.holds();
        let hits = std::mem::take(&mut self.hits);
        for hit in &hits {
            let holds = [&stalled_holds, &self.holds_at(hit)];
            let (modules, side) = (&rig.modules, &self.side);
            match classify(modules, side, hit, holds, &circumstances, &policy, &memory) {
                Ok(mut finding) => {
                    let seen = Seen::of(spot, hit, &rig.modules);
                    if let Some(reason) = pairs.refuted(&seen) {
                        rig.figures.not_reported(reason.name(), 1);
                        continue;
                    }
                    let is_told_by_pc = rig.is_told_by_pc(hit, finding.racing.pc);
                    if !pairs.tell(seen, is_told_by_pc) && !rig.setup.full_repeats {
                        rig.outbox.send(&Notice::Repeat {
                            stalled: self.side.watched.pc,
                            racing: seen.racing.behind(),
                        });
                    } else {
                        let addresses = [
                            finding.stalled.address,
                            finding.racing.address,
                            finding.watch_address,
                        ];
                        let maps = rig.modules.map_infos(&addresses);
                        for side in [&mut finding.stalled, &mut finding.racing] {
                            side.creator = creator(side.tid);
                        }
                        if rig.outbox.send(&Notice::Race(Box::new(finding), maps)) {
                            pairs.note_news(self.side.watched.behind.0, seen.racing.behind());
                        } else {
                            pairs.take_back(&seen);
                        }
                    }
                }
                Err(reason) => {
                    rig.figures.not_reported(reason, 1);
                    // Which bytes they share is another matter each time.
                    let by_chance = [
                        Reason::NotCompleted,
                        Reason::OutsideStall,
                        Reason::BytesUnused,
                        Reason::OverlapUncertain,
                    ];
                    if by_chance.iter().all(|chance| chance.name() != reason) {
                        let seen = Seen::of(spot, hit, &rig.modules);
                        pairs.refuse(seen);
                    }
                }
            }
        }
    }
}

impl Sampler {
    /// The owner has made its access, or was not seen to.
    pub fn end_confirm(&mut self, rig: &mut Rig, completed: bool) {
        let State::Confirm(mut confirm) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        let completed = completed || rig.gates.phase().is(phase::CONFIRMED);
        rig.arming.unbreak(confirm.side.tid);
        let spot = Spot::new(confirm.side.watched.pc, confirm.side.call.as_ref());
        let is_settled = |hit: &Hit| self.pairs.is_settled(&Seen::of(spot, hit, &rig.modules));
        let is_worth_it = completed && confirm.may_wait() && !confirm.hits.iter().all(is_settled);
        if is_worth_it && confirm.awaits_release() {
            self.enter(rig, phase::CLOSED);
            rig.nobody_stands();
            let now = monotonic_ns();
            self.state = State::Settle {
                confirm,
                completed,
                until: now + nanos(RELEASE_TIME),
                look: now + nanos(LOOK_TIME),
            };
        } else {
            self.begin_judging(rig, confirm, completed);
        }
    }

    /// Has the modules looked at, for what was caught to be judged. What threads do with their locks is not seen any more: that may take long.
    fn begin_judging(&mut self, rig: &mut Rig, mut confirm: Box<Confirm>, completed: bool) {
        confirm.unwatch_locks();
        self.begin_scan(rig, Purpose::Judge { confirm, completed }, false);
    }

    /// Does not wait for what a thread does with its lock: the thread stands still, and will not be held from now on.
    pub fn unwatch_lock_of(&mut self, tid: u32) {
        match &mut self.state {
            // The one that was caught may have gone on before the stall ends.
            State::Stalled(stalled) => {
                if let Some(deep) = stalled.deep.as_mut().filter(|deep| deep.tid == tid) {
                    deep.locks.close();
                }
            }
            State::Confirm(confirm)
            | State::Settle { confirm, .. }
            | State::Scanning(Purpose::Judge { confirm, .. }) => confirm.unwatch_lock_of(tid),
            State::Idle | State::Seek { .. } | State::Scanning(_) => {}
        }
    }

    /// Looks what the threads that were caught have done with their locks.
    pub(super) fn settle(&mut self, rig: &mut Rig, now: u64) {
        let State::Settle {
            mut confirm,
            completed,
            until,
            ..
        } = std::mem::replace(&mut self.state, State::Idle)
        else {
            return;
        };
        if now < until && confirm.awaits_release() {
            self.state = State::Settle {
                confirm,
                completed,
                until,
                look: until.min(now + nanos(LOOK_TIME)),
            };
        } else {
            self.begin_judging(rig, confirm, completed);
        }
    }

    /// The race of these two places was told already: its stacks are not wanted.
    pub fn is_known(&self, rig: &Rig, stalled: Spot, hit: &Hit) -> bool {
        !rig.setup.full_repeats && self.pairs.is_told(&Seen::of(stalled, hit, &rig.modules))
    }
}

/// Reads a process's memory.
pub fn memory_of(pid: Pid) -> impl Fn(RuntimeAddr, &mut [u8]) -> bool {
    move |address, bytes| matches!(memory::read_exact(pid, address, bytes), Ok(true))
}
