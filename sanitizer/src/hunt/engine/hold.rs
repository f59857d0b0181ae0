//! A thread is held before its access, and the bytes are watched.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::Counter;
use gwp_race_abi::HITS;
use gwp_race_abi::KNOWN_BITS;
use gwp_race_abi::own;
use gwp_race_abi::phase;

use crate::addr::RuntimeAddr;
use crate::hunt::bounds::{latest_end, longest_stall};
use crate::hunt::classify::BEYOND;
use crate::hunt::routine_call::RoutineCall;
use crate::hunt::strategy::CodeView as _;
use crate::hunt::strategy::Outcome;
use crate::hunt::strategy::Patience;
use crate::hunt::watched;
use crate::hunt::watched::Watched;
use crate::hunt::wire::Notice;
use crate::insn::Regs;
use crate::kernel::KernelError;
use crate::kernel::gates::Hit;
use crate::kernel::perf::WatchKind;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;
use crate::tracee::memory::{self, Resident};
use crate::verdict::Reason;

use super::pairs::Spot;
use super::waiting::NOT_READY;
use super::wanted::Early;
use super::{Engine, Stalled, State, as_pid};

/// Why a thread was only looked at that would have been stalled else.
const HOLDS_LOCK: &str = "holds-lock";

/// Bytes by which a call moves the stack pointer.
const RETURN_ADDRESS: u64 = 8;

impl Engine {
    pub(super) fn begin_stall(
        &mut self,
        tid: u32,
        regs: Regs,
        call: Option<RoutineCall>,
        site: u64,
        patience: Patience,
    ) {
        let ahead = self.waiting.ahead.take();
        let is_spared = patience != Patience::Look && self.rather_looks(tid);
        let patience = if is_spared { Patience::Look } else { patience };
        let choice = if self.in_rseq(tid, &regs) {
            Err("restartable-sequence")
        } else if let (Some(call), Some(contract)) =
            (&call, self.modules.routines().contract(regs.rip))
        {
            let behind = RuntimeAddr(call.return_address);
            // As the gate has it, which looks at the call.
            let frame = match self.strategy.own_frame(site) {
                0 => 0,
                frame => frame + RETURN_ADDRESS,
            };
            let is_own = |_, address| own::is_own(address, regs.rsp, regs.fs_base, frame);
            watched::choose_in_call(contract, &regs, behind, is_own, &mut self.random)
        } else if call.is_none() && self.modules.is_routine(regs.rip) {
            Err(Reason::UnanalyzedCaller.name())
        } else {
            // Of what is only looked at, the strategy has to know the place.
            let is_fixed = call.is_some() || patience == Patience::Look || ahead.is_some();
            let choice = self.choose_ahead(tid, &regs, is_fixed);
            match (&call, choice) {
                (Some(call), Ok(watched)) if call.may_be_beyond(watched.access.kind) => Err(BEYOND),
                (_, choice) => choice,
            }
        };
        let watched = match choice {
            Ok(watched) => watched,
            Err(reason) => {
                let outcome = match reason {
                    watched::KNOWN_PRIVATE => Outcome::KnownPrivate,
                    _ => Outcome::Unsuitable,
                };
                self.came_to(self.decisions.way, site, outcome);
                self.figures.no_stall(reason);
                return self.let_go(tid);
            }
        };
        let early = ahead.and_then(|ahead| self.stands_since_claim(&ahead, &regs, &watched));
        let (watched, early) = match early {
            Some((watched, early)) => (watched, Some(early)),
            None => (self.watch_aliases(watched), None),
        };
        let site = if watched.pc == regs.rip {
            site
        } else {
            self.came_to(self.decisions.way, site, Outcome::Beside);
            watched.pc
        };
        let about = watched.address.0.wrapping_sub(watched.alias);
        self.strategy.about(site, about);
        let Patience::Hold(patience) = patience else {
            if is_spared {
                self.came_to(self.decisions.way, site, Outcome::Held);
                self.figures.no_stall(HOLDS_LOCK);
            }
            return self.look_at(tid, site, &watched, early, is_spared);
        };
        if early.is_none() && !self.arming.watchpoints().can_watch(watched.kind) {
            self.came_to(self.decisions.way, site, Outcome::Blind);
            self.figures.no_stall(NOT_READY);
            return self.let_go(tid);
        }
        if !self.is_in_memory(watched.address) {
            // Whoever fetches it from where it is must not be waited for while somebody is held.
            self.figures.no_stall("not-in-memory");
            return self.let_go(tid);
        }
        let mut before = vec![0; usize::from(watched.len)];
        if !matches!(
            memory::read_exact(as_pid(self.program.pid), watched.address, &mut before),
            Ok(true)
        ) {
            // The access is about to fault: that is the program's own business.
            self.figures.no_stall("unmapped");
            return self.let_go(tid);
        }
        if let Some(early) = early {
            let value = early.before.to_le_bytes();
            before = value.into_iter().take(before.len()).collect();
        }
        // What was recorded before is of no stall; the watchpoints are armed for nothing that is recorded.
        let _ = self.take_records();
        self.pass_known(Spot::new(watched.pc, call.as_ref()));
        let control = self.gates.control();
        if self.waiting.recorded_early != self.generation {
            control.stall.hits.store(0, SeqCst);
        }
        control.stall.traps.store(0, SeqCst);
        control.stall.address.store(watched.address.0, SeqCst);
        self.keep_results(watched.address);
        let counted = |counter| control.counters[counter as usize].load(SeqCst);
        // What the kernel does unseen may have changed the bytes all the same.
        let traps = counted(Counter::Traps) - counted(Counter::HitKernel);
        let used = self.used_by_now();
        let opened = monotonic_ns();
        self.enter(phase::STALL);
        let kind = match self.watch_stalled(&watched, early.is_some()) {
            Ok(kind) => kind,
            Err(error) => {
                self.outbox.send(&Notice::Debug(error.to_string()));
                self.figures.no_stall("watchpoint-failed");
                return self.let_go(tid);
            }
        };
        self.site_is_disarmed();
        self.figures.stalls += 1;
        let usual = Duration::from_nanos(self.setup.stall_ns);
        let stall = patience.min(longest_stall(&self.setup)).max(usual);
        let now = monotonic_ns();
        // With many processors it takes its time to arm them all, and to disarm them.
        let claimed = self.gates.control().claim.time_ns.load(SeqCst);
        let latest = claimed.saturating_add(nanos(latest_end(&self.setup)));
        let deadline = now.saturating_add(nanos(stall)).min(latest.max(now));
        // At the end of a short one it is looked anyway.
        let look_at_locks = if stall > 2 * usual {
            now + nanos(usual)
        } else {
            deadline
        };
        self.state = State::Stalled(Box::new(Stalled {
            tid,
            site,
            regs,
            call,
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
        if early.is_some() && self.caught() > 0 {
            self.has_caught(None);
            self.shorten_stall();
        }
    }

    /// Arms what is not armed yet for the bytes of a stall.
    fn watch_stalled(
        &mut self,
        watched: &Watched,
        is_watched: bool,
    ) -> Result<WatchKind, KernelError> {
        let watchpoints = self.arming.watchpoints();
        if is_watched {
            watchpoints.unbreak();
            return Ok(watched.kind);
        }
        watchpoints.watch(watched.address, watched.len, watched.kind)
    }

    /// Whether what is at an address can be read without fetching it from a file, from swap, or from whoever provides it; where that
    /// cannot be known, it has to be taken for true.
    fn is_in_memory(&self, address: RuntimeAddr) -> bool {
        let resident = Resident::of(as_pid(self.program.pid));
        resident.map_or(true, |resident| resident.has(address))
    }

    /// A stalled thread that is inside a restartable sequence may be sent to its abort handler
    /// instead of making its access.
    pub(super) fn in_rseq(&mut self, tid: u32, regs: &Regs) -> bool {
        /// Offset of `rseq_cs` in `struct rseq` (`include/uapi/linux/rseq.h`).
        const CRITICAL_SECTION: i64 = 8;
        let Some(area) = self.arming.rseq_area(tid) else {
            return false;
        };
        let pid = as_pid(self.program.pid);
        let mut pointer = [0; 8];
        let slot = RuntimeAddr(area).offset(CRITICAL_SECTION);
        if !matches!(memory::read_exact(pid, slot, &mut pointer), Ok(true)) {
            return false;
        }
        let descriptor = u64::from_ne_bytes(pointer);
        if descriptor == 0 {
            return false;
        }
        // struct rseq_cs: version and flags (8 bytes), start_ip, post_commit_offset, abort_ip.
        let mut section = [0; 24];
        if !matches!(
            memory::read_exact(pid, RuntimeAddr(descriptor), &mut section),
            Ok(true)
        ) {
            return true;
        }
        let word = |index: usize| {
            section
                .get(index..index + 8)
                .map_or(0, |bytes| bytes.try_into().map_or(0, u64::from_ne_bytes))
        };
        regs.rip.wrapping_sub(word(8)) < word(16)
    }

    /// Lets the gate pass accesses that are known to race with the one of the stalled thread: the stall is for those that
    /// are not. Now and then they are looked at all the same, as what is told of a place is told of one of its accesses.
    fn pass_known(&mut self, stalled: Spot) {
        /// How many of 256 stalls take whatever comes.
        const ALL: u8 = 32;
        let partners = if !self.takes_places_once() || self.random.u8(..) < ALL {
            &[]
        } else {
            self.pairs.partners(stalled)
        };
        let control = self.gates.control();
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
        tid: u32,
        site: u64,
        watched: &Watched,
        early: Option<Early>,
        is_locked: bool,
    ) {
        let users = early.map_or_else(Vec::new, |early| self.early_users(&early));
        if self.begin_probe(site, tid, watched.address, is_locked) {
            if let Some(look) = &mut self.waiting.shared {
                look.early = users;
            }
            match self.watch_stalled(watched, early.is_some()) {
                Ok(kind) if kind == watched.kind => {}
                // Who reads would not be seen.
                Ok(_) => self.stop_waiting(),
                Err(error) => {
                    self.outbox.send(&Notice::Debug(error.to_string()));
                    self.figures.no_stall("watchpoint-failed");
                    self.stop_waiting();
                }
            }
        } else {
            self.disarm_site();
        }
        self.charge_and_release(tid);
        self.go_idle();
    }

    /// Somebody was caught, and goes on: the stall is for those that come to other places from now on. False where the gate
    /// cannot tell the places, or each access is of interest.
    pub(super) fn goes_on_past(&self, hit: &Hit) -> bool {
        self.takes_places_once() && self.is_told_by_pc(hit, hit.regs.rip.wrapping_sub(1))
    }

    /// Whether one access made at each place is enough.
    pub(super) const fn takes_places_once(&self) -> bool {
        self.setup.learns && !self.setup.full_repeats
    }

    /// The racing thread that was stopped as well goes on. What could only be read while it stood still is kept until the
    /// stall ends.
    pub(super) fn has_caught(&mut self, deep: Option<(u32, Vec<u8>)>) {
        if let State::Stalled(stalled) = &mut self.state {
            stalled.has_caught = true;
            stalled.deep = deep;
        }
    }

    /// Accesses recorded in the stall in hand.
    pub(super) fn caught(&self) -> usize {
        let recorded = self.gates.control().stall.hits.load(SeqCst);
        usize::try_from(recorded).map_or(HITS, |recorded| recorded.min(HITS))
    }

    /// Somebody has come of whom it is known: of others, those who come about as often are still waited for.
    pub(super) fn shorten_stall(&mut self) {
        /// And a little longer, for those that come right after.
        const LONGER: Duration = Duration::from_millis(1);
        if let State::Stalled(stalled) = &mut self.state {
            let now = monotonic_ns();
            let until = now + now.saturating_sub(stalled.opened) + nanos(LONGER);
            stalled.deadline = stalled.deadline.min(until);
            stalled.look_at_locks = stalled.look_at_locks.min(stalled.deadline);
        }
    }
}
