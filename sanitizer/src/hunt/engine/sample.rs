//! The life of one sample: claim, seek, stall, confirmation, judgement.

use std::cell::OnceCell;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use gwp_race_abi::Counter;
use gwp_race_abi::HITS;
use gwp_race_abi::KNOWN_BITS;
use gwp_race_abi::own;
use gwp_race_abi::phase;
use nix::unistd::Pid;

use crate::addr::RuntimeAddr;
use crate::hunt::alias;
use crate::hunt::caller;
use crate::hunt::caller::RoutineCall;
use crate::hunt::classify::Circumstances;
use crate::hunt::classify::StalledSide;
use crate::hunt::classify::classify;
use crate::hunt::classify::{BEYOND, racing_call};
use crate::hunt::site;
use crate::hunt::stall;
use crate::hunt::stall::Watched;
use crate::hunt::strategy::CodeView as _;
use crate::hunt::strategy::Conflict;
use crate::hunt::strategy::Outcome;
use crate::hunt::strategy::Patience;
use crate::hunt::strategy::Proposal;
use crate::hunt::strategy::Sample;
use crate::hunt::system_call;
use crate::hunt::wire::Notice;
use crate::insn::x86_64::{Upcoming, upcoming};
use crate::insn::{MemAccess, Regs};
use crate::kernel::calibrate::SAMPLED_STACK;
use crate::kernel::gates::Hit;
use crate::kernel::perf::WatchKind;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;
use crate::kernel::ptrace;
use crate::pcmeta::Atomicity;
use crate::symbols::StackSnapshot;
use crate::tracee;
use crate::tracee::maps::Maps;
use crate::tracee::memory;
use crate::tracee::threads::Scheduling;
use crate::verdict::Reason;

use super::decisions::CLOCK;
use super::pairs::{Seen, Spot};
use super::waiting::NOT_READY;
use super::{
    CLAIM_TIME, CONFIRM_TIME, Confirm, Engine, LATE_STOP, Purpose, RECORD_TIME, SEEK_TIME,
    STANDING_STACK, Stalled, State, as_pid, latest_end, longest_stall, release,
};

/// Why a thread was only looked at that would have been stalled else.
const HOLDS_LOCK: &str = "holds-lock";

/// Bytes by which a call moves the stack pointer.
const RETURN_ADDRESS: u64 = 8;

/// Why hits are no evidence that were made at another address of the same memory: it was mapped anew meanwhile.
const MAPPING_CHANGED: &str = "mapping-changed";

impl Engine {
    /// Whether the gate has stopped this thread for the sample in hand.
    pub(super) fn is_sample_of(&mut self, tid: u32) -> bool {
        let control = self.gates.control();
        let word = control.phase.load(SeqCst);
        let ours = control.claim.owner.load(SeqCst) == u64::from(tid);
        match (phase::of(word), &self.state) {
            (phase::CLAIMED, State::Idle) if ours => {
                let generation = phase::generation(word);
                let reached = phase::word(generation, phase::REACHED);
                // The gate may declare the claim void at this very moment.
                if control
                    .phase
                    .compare_exchange(word, reached, SeqCst, SeqCst)
                    .is_err()
                {
                    return false;
                }
                self.generation = generation;
                true
            }
            (phase::REACHED, State::Seek { tid: owner, .. }) => *owner == tid,
            _ => false,
        }
    }

    /// A thread that a gate has claimed has ended, or stands for another reason: its stop for the
    /// sample will not come, or comes too late.
    pub(super) fn void_claim(&mut self, tid: u32) {
        let control = self.gates.control();
        let word = control.phase.load(SeqCst);
        if phase::of(word) == phase::CLAIMED && control.claim.owner.load(SeqCst) == u64::from(tid) {
            let generation = phase::generation(word);
            let closed = phase::word(generation, phase::CLOSED);
            // Another gate may have declared it void at this very moment.
            let ours = control.phase.compare_exchange(word, closed, SeqCst, SeqCst);
            if ours.is_ok() {
                self.generation = generation;
                self.go_idle();
            }
        }
    }

    /// A thread that a gate has claimed may have had to wait for a processor before it came to its
    /// stop. Then it has not stood still since, and others have had the time.
    fn discount_waiting(&self, tid: u32) {
        let control = self.gates.control();
        let claimed = control.claim.time_ns.load(SeqCst);
        let now = monotonic_ns();
        // Without gates, and where the kernel does not count, it is 0.
        let before = control.claim.run_delay_ns.load(SeqCst);
        if now.saturating_sub(claimed) < nanos(LATE_STOP) || before == 0 {
            return;
        }
        if let Some(scheduling) = Scheduling::read(as_pid(self.pid), as_pid(tid)) {
            let waited = nanos(scheduling.waited).saturating_sub(before);
            let since = claimed.saturating_add(waited).min(now);
            control.claim.time_ns.store(since, SeqCst);
            control.watchdog.standing_since_ns.store(since, SeqCst);
        }
    }

    /// A thread of ours stands at a sampled or sought instruction.
    pub(super) fn on_sample(&mut self, tid: u32) {
        self.stops += 1;
        self.discount_waiting(tid);
        let Ok(regs) = ptrace::registers(tid) else {
            self.arming.unbreak(tid);
            return self.let_go(tid);
        };
        let pid = as_pid(self.pid);
        let read = OnceCell::new();
        let stack = || read.get_or_init(|| sampled_stack(pid, &regs));
        let call = self.routine_call(&regs, &stack);
        if let State::Seek { site, patience, .. } = self.state {
            self.arming.unbreak(tid);
            self.state = State::Idle;
            return self.begin_stall(tid, regs, call, site, patience);
        }
        self.waiting.at = None;
        self.waiting.shared = None;
        self.tell_writers();
        let came = self.waiting.last.take();
        let came = came.filter(|(wait, _)| wait.at == regs.rip);
        self.decisions.why = came.map_or(CLOCK, |(wait, _)| wait.why);
        if came.is_none() {
            self.decide_on_holders();
        }
        let waited = came.map(|(_, since)| {
            let control = self.gates.control();
            let came = if control.site.company.until_ns.load(SeqCst) == 0 {
                control.claim.time_ns.load(SeqCst)
            } else {
                // From then on it was another thread's company that was waited for.
                control.site.first_ns.load(SeqCst)
            };
            Duration::from_nanos(came.saturating_sub(since))
        });
        self.end_turn();
        match self.propose(&regs, call.as_ref(), waited, &stack) {
            Proposal::Pass(reason) => {
                self.count_no_stall(reason);
                self.let_go(tid);
            }
            Proposal::StallHere { site, patience } => {
                self.begin_stall(tid, regs, call, site, patience);
            }
            Proposal::Seek { at, site, patience } => self.begin_seek(tid, at, site, patience),
        }
    }

    /// The call of the memory routine in which a stopped thread stands, if it does in one and
    /// analyzed code has called it.
    pub(super) fn routine_call<'a>(
        &self,
        regs: &Regs,
        stack: &dyn Fn() -> &'a StackSnapshot,
    ) -> Option<RoutineCall> {
        self.modules
            .is_routine(regs.rip)
            .then(|| caller::of_routine(&self.modules, regs, stack()))
            .flatten()
    }

    /// Asks the strategy what to do with a sampled thread.
    pub(super) fn propose<'a>(
        &mut self,
        regs: &Regs,
        call: Option<&RoutineCall>,
        waited: Option<Duration>,
        stack: &dyn Fn() -> &'a StackSnapshot,
    ) -> Proposal {
        let words = || {
            let words = stack().bytes.chunks_exact(8);
            words
                .map(|word| word.try_into().map_or(0, u64::from_le_bytes))
                .collect()
        };
        let sample = Sample {
            stack: &words,
            waited,
            regs,
            routine_returns_to: call.map(|call| call.return_address),
            own_frame: &|_| own::FRAME,
            rbp_is_frame: regs.rbp >= regs.rsp && regs.rbp < self.stack_end(regs),
        };
        self.strategy.propose(&sample, &*self.modules)
    }

    pub(super) fn stack_end(&self, regs: &Regs) -> u64 {
        self.modules
            .mapping_end(regs.rsp)
            .unwrap_or_else(|| regs.rsp.saturating_add(8 << 20))
    }

    pub(super) fn begin_seek(&mut self, tid: u32, at: u64, site: u64, patience: Patience) {
        self.disarm_site();
        let control = self.gates.control();
        control.claim.breakpoint.store(at, SeqCst);
        control.stall.traps.store(0, SeqCst);
        control
            .phase
            .store(phase::word(self.generation, phase::SEEK), SeqCst);
        if let Err(error) = self.arming.break_at(tid, RuntimeAddr(at), &self.gates) {
            self.outbox.send(&Notice::Debug(error.to_string()));
            self.count_no_stall("breakpoint-failed");
            // Some may be armed where others are not.
            self.arming.unbreak(tid);
            return self.let_go(tid);
        }
        let now = monotonic_ns();
        let claimed = self.gates.control().claim.time_ns.load(SeqCst);
        self.budget
            .charge_stop(self.gates.control(), now.saturating_sub(claimed));
        self.state = State::Seek {
            tid,
            site,
            patience,
            deadline: now + SEEK_TIME.as_nanos() as u64,
            void: now + CLAIM_TIME.as_nanos() as u64,
        };
        self.nobody_stands();
        release(tid, 0);
    }

    pub(super) fn give_up_seek(&mut self, tid: u32, site: u64) {
        let control = self.gates.control();
        let seeking = phase::word(self.generation, phase::SEEK);
        let idle = phase::word(self.generation, phase::IDLE);
        let now = monotonic_ns();
        if control
            .phase
            .compare_exchange(seeking, idle, SeqCst, SeqCst)
            .is_err()
        {
            if let State::Seek { deadline, void, .. } = &mut self.state
                && now < *void
            {
                // It has arrived this moment: its stop is on the way.
                self.arming.unbreak(tid);
                *deadline = now + SEEK_TIME.as_nanos() as u64;
                return;
            }
            self.nobody_stands();
            self.gates.control().phase.store(idle, SeqCst);
        }
        self.arming.unbreak(tid);
        self.came_to(self.decisions.why, site, Outcome::NotReached);
        self.count_no_stall("site-not-reached");
        self.state = State::Idle;
    }

    pub(super) fn begin_stall(
        &mut self,
        tid: u32,
        regs: Regs,
        call: Option<RoutineCall>,
        site: u64,
        patience: Patience,
    ) {
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
            stall::choose_in_call(contract, &regs, behind, is_own, &mut self.random)
        } else if call.is_none() && self.modules.is_routine(regs.rip) {
            Err(Reason::UnanalyzedCaller.name())
        } else {
            // Of what is only looked at, the strategy has to know the place.
            let is_fixed = call.is_some() || patience == Patience::Look;
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
                    stall::KNOWN_PRIVATE => Outcome::KnownPrivate,
                    _ => Outcome::Unsuitable,
                };
                self.came_to(self.decisions.why, site, outcome);
                self.count_no_stall(reason);
                return self.let_go(tid);
            }
        };
        let watched = self.watch_aliases(watched);
        let site = if watched.pc == regs.rip {
            site
        } else {
            self.came_to(self.decisions.why, site, Outcome::Beside);
            watched.pc
        };
        let Patience::Hold(patience) = patience else {
            if is_spared {
                self.came_to(self.decisions.why, site, Outcome::Held);
                self.count_no_stall(HOLDS_LOCK);
            }
            return self.look_at(tid, site, &watched, is_spared);
        };
        if !self.arming.watchpoints().can_watch(watched.kind) {
            self.came_to(self.decisions.why, site, Outcome::Blind);
            self.count_no_stall(NOT_READY);
            return self.let_go(tid);
        }
        let mut before = vec![0; usize::from(watched.len)];
        if !matches!(
            memory::read_exact(as_pid(self.pid), watched.address, &mut before),
            Ok(true)
        ) {
            // The access is about to fault: that is the program's own business.
            self.count_no_stall("unmapped");
            return self.let_go(tid);
        }
        // What was recorded before is of no stall; the watchpoints are armed for nothing that is recorded.
        let _ = self.take_records();
        self.pass_known(Spot::new(watched.pc, call.as_ref()));
        let control = self.gates.control();
        control.stall.hits.store(0, SeqCst);
        control.stall.traps.store(0, SeqCst);
        control.stall.address.store(watched.address.0, SeqCst);
        self.keep_results(watched.address);
        let counted = |counter| control.counters[counter as usize].load(SeqCst);
        // What the kernel does unseen may have changed the bytes all the same.
        let traps = counted(Counter::Traps) - counted(Counter::HitKernel);
        let used = self.used_by_now();
        let opened = monotonic_ns();
        control
            .phase
            .store(phase::word(self.generation, phase::STALL), SeqCst);
        let watchpoints = self.arming.watchpoints();
        let kind = match watchpoints.watch(watched.address, watched.len, watched.kind) {
            Ok(kind) => kind,
            Err(error) => {
                self.outbox.send(&Notice::Debug(error.to_string()));
                self.count_no_stall("watchpoint-failed");
                return self.let_go(tid);
            }
        };
        self.site_is_disarmed();
        self.stalls += 1;
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
            opened,
            used,
            traps,
            look_at_locks,
            waiting: 0,
            has_caught: false,
            deep: None,
            deadline,
        }));
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

    /// Whether a thread that was let go makes its access at once, while another one waits for its end.
    pub(super) fn is_confirmed_soon(&self) -> bool {
        const TIME: Duration = Duration::from_millis(2);
        // It may need the processor on which this is executed, at a higher priority.
        const PAUSE: Duration = Duration::from_micros(50);
        let until = monotonic_ns() + nanos(TIME);
        let phase = || phase::of(self.gates.control().phase.load(SeqCst));
        // Without gates its stop would have to be taken.
        while phase() == phase::CONFIRM && monotonic_ns() < until && self.substitute.is_none() {
            std::thread::sleep(PAUSE);
        }
        phase() == phase::CONFIRMED
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

    /// Chooses one of the accesses that a thread is certain to make next, and takes note of what all of them use.
    /// What leads to a memory routine, or stands in one, is taken as it is.
    fn choose_ahead(
        &mut self,
        tid: u32,
        regs: &Regs,
        is_fixed: bool,
    ) -> Result<Watched, stall::Unsuitable> {
        /// Instructions ahead, at most.
        const AHEAD: usize = 12;
        /// How much more the strategy's own choice is worth than what stands beside it, and one that is known to be
        /// contended.
        const SITE: f64 = 2.0;
        const CONTENDED: f64 = 16.0;
        /// The same of what the thread's callers keep on its stack, against all other memory: they seldom share it.
        const OWN_STACK: f64 = 0.5;
        let own_stack = regs.rsp..self.stack_end(regs);
        let strategy = &self.strategy;
        let is_own = |pc: u64, address: u64| {
            own::is_own(address, regs.rsp, regs.fs_base, strategy.own_frame(pc))
        };
        let learns = self.setup.learns;
        let limit = if is_fixed || !learns { 1 } else { AHEAD };
        let can = [WatchKind::Writes, WatchKind::ReadsAndWrites]
            .map(|kind| (kind, self.arming.watchpoints().are_for(kind)));
        let modules = &self.modules;
        let mut ahead = upcoming(modules.code(regs.rip), regs, limit);
        let may_synchronize = |step: &&Upcoming| {
            let (Some(place), Ok(accesses)) = (modules.place(step.pc), &step.accesses) else {
                return true;
            };
            let Some(metadata) = &place.module.metadata else {
                return true;
            };
            let known = accesses.iter().map(|access| (access.kind, access.size));
            let mut all = known.chain(step.elsewhere.iter().copied());
            metadata.is_atomic(place.link)
                || all.any(|(kind, size)| {
                    metadata.atomicity(place.link, size.into(), kind) != Atomicity::Plain
                })
        };
        // What comes behind such an instruction may be ordered by it.
        let plain = ahead.iter().take_while(|step| !may_synchronize(step));
        ahead.truncate(plain.count().max(1));
        let lines = &self.lines;
        let sought = match self.decisions.why {
            site::CONTENDED | site::MEMBER => CONTENDED,
            _ => SITE,
        };
        let worth = |index: usize, access: &MemAccess| {
            if !learns {
                return 1.0;
            }
            let sought = match index {
                0 => sought,
                _ if can.contains(&(stall::kind_for(access.kind), true)) => 1.0,
                // The processors' watchpoints are for something else.
                _ => return 0.0,
            };
            let place = if own_stack.contains(&access.address) {
                OWN_STACK
            } else {
                1.0
            };
            sought * place * lines.worth(access.address, tid)
        };
        let chosen = stall::choose(&ahead, is_own, worth, &mut self.random);
        let shared = ahead.iter().flat_map(|step| {
            let accesses = step.accesses.iter().flatten();
            let shared = accesses.filter(|access| {
                let is_own = is_own(step.pc, access.address);
                !access.stack_implicit && !access.thread_local && !is_own
            });
            shared.map(|access| access.address)
        });
        self.lines.used(shared, tid);
        chosen
    }

    /// Has the gate keep accesses by libraries, where they may be results that the program has called for.
    pub(super) fn keep_results(&self, watched: RuntimeAddr) {
        let may_hold_results = self.modules.may_hold_results(watched.0);
        let keep = &self.gates.control().evidence.keep_results;
        keep.store(u64::from(may_hold_results), SeqCst);
    }

    /// Where memory is mapped at several addresses, each of them is watched as often: others may reach it there.
    fn watch_aliases(&mut self, watched: Watched) -> Watched {
        // Whether one is still there is asked of all mappings.
        let aliases = match self.loader.is_dear() {
            true => Vec::new(),
            false => self.modules.aliases(watched.address.0),
        };
        if aliases.is_empty() {
            return watched;
        }
        let choice = self.random.usize(..=aliases.len());
        let chosen = aliases.get(choice).map(|alias| watched.elsewhere(*alias));
        chosen
            .filter(|watched| self.is_still_alias(watched))
            .unwrap_or(watched)
    }

    /// Whether the bytes that are watched are those that are about to be accessed, as of now: mappings change.
    fn is_still_alias(&self, watched: &Watched) -> bool {
        let address = watched.address.0.wrapping_sub(watched.alias);
        watched.alias == 0
            || Maps::read(as_pid(self.pid))
                .is_ok_and(|maps| alias::others(&maps, address).contains(&watched.alias))
    }

    /// Watches who uses the bytes without holding anybody; `is_locked`: the thread holds a lock for which others wait now and then.
    fn look_at(&mut self, tid: u32, site: u64, watched: &Watched, is_locked: bool) {
        if self.begin_probe(site, tid, watched.address, is_locked) {
            let watchpoints = self.arming.watchpoints();
            match watchpoints.watch(watched.address, watched.len, watched.kind) {
                Ok(kind) if kind == watched.kind => {}
                // Who reads would not be seen.
                Ok(_) => self.stop_waiting(),
                Err(error) => {
                    self.outbox.send(&Notice::Debug(error.to_string()));
                    self.count_no_stall("watchpoint-failed");
                    self.stop_waiting();
                }
            }
        } else {
            self.disarm_site();
        }
        self.charge_and_release(tid);
        self.go_idle();
    }

    /// A stalled thread that is inside a restartable sequence may be sent to its abort handler
    /// instead of making its access.
    pub(super) fn in_rseq(&mut self, tid: u32, regs: &Regs) -> bool {
        /// Offset of `rseq_cs` in `struct rseq` (`include/uapi/linux/rseq.h`).
        const CRITICAL_SECTION: i64 = 8;
        let Some(area) = self.arming.rseq_area(tid) else {
            return false;
        };
        let pid = as_pid(self.pid);
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

    /// Ends a stall whose bytes are accessed all the time.
    pub(super) fn cut_stall_short(&mut self) {
        self.stalls_cut_short += 1;
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
        let control = self.gates.control();
        control
            .phase
            .store(phase::word(self.generation, phase::CLOSED), SeqCst);
        let closed = monotonic_ns();
        self.stood_since(opened, used);
        self.watched_ns += closed - opened;
        self.budget.note_stall(closed - opened);
        (self.strategy).stalled(Duration::from_nanos(closed.saturating_sub(opened)));
        let mut hits = self.complete_hits();
        if !hits.is_empty() && !self.is_still_alias(&watched) {
            self.count_not_reported(MAPPING_CHANGED, hits.len());
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
            let read = memory::read_exact(as_pid(self.pid), watched.address, &mut after);
            let trapped = self.counter(Counter::Traps) - self.counter(Counter::HitKernel) != traps;
            if matches!(read, Ok(true)) && after != before && !trapped {
                self.value_changed += 1;
                self.is_shared(watched.address.0);
            }
            let known = self.gates.control().stall.known_hits.load(SeqCst);
            let outcome = if known != self.generation << KNOWN_BITS {
                self.is_shared(watched.address.0);
                self.outbox.send(&Notice::Repeat(watched.pc));
                Outcome::Repeat
            } else if waiting > 0 {
                Outcome::Locked
            } else if is_blind_to_reads {
                // That nobody was seen to read proves nothing then, nor would it afterwards.
                Outcome::Blind
            } else {
                self.waiting.was_quiet(watched.address.0);
                Outcome::Quiet
            };
            self.came_to(self.decisions.why, site, outcome);
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
            distance: Duration::from_nanos(hit.time_ns.saturating_sub(opened)),
        });
        let new: Vec<_> = new.collect();
        self.is_shared(watched.address.0);
        let outcome = new.first().copied().map_or(Outcome::Repeat, Outcome::Hit);
        self.came_to(self.decisions.why, site, outcome);
        for other in new.into_iter().skip(1) {
            self.strategy.uses(other);
        }
        let stack = if told && !self.setup.full_repeats {
            Vec::new()
        } else {
            self.read_stack(regs.rsp)
        };
        let name = tracee::threads::name(as_pid(self.pid), as_pid(tid)).unwrap_or_default();
        let behind = watched.behind;
        let control = self.gates.control();
        control.claim.breakpoint.store(behind.0, SeqCst);
        control
            .phase
            .store(phase::word(self.generation, phase::CONFIRM), SeqCst);
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
            open: opened..closed,
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
        let pid = as_pid(self.pid);
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
        let len = memory::read(as_pid(self.pid), RuntimeAddr(from), &mut stack).unwrap_or(0);
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

    /// The owner has made its access, or was not seen to.
    pub(super) fn end_confirm(&mut self, completed: bool) {
        let State::Confirm(confirm) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        let completed =
            completed || phase::of(self.gates.control().phase.load(SeqCst)) == phase::CONFIRMED;
        self.arming.unbreak(confirm.side.tid);
        self.begin_look(Purpose::Judge { confirm, completed }, false);
    }

    pub(super) fn judge(&mut self, confirm: &Confirm, completed: bool) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let circumstances = Circumstances {
            pid: self.pid,
            exe: self.exe.clone(),
            stalled_name: confirm.name.clone(),
            clock_offset_ns: (now.as_nanos() as u64).wrapping_sub(monotonic_ns()),
            completed,
            open: confirm.open.clone(),
        };
        let memory = memory_of(as_pid(self.pid));
        let side = &confirm.side;
        let spot = Spot::new(side.watched.pc, side.call.as_ref());
        for hit in &confirm.hits {
            match classify(
                &self.modules,
                side,
                hit,
                &circumstances,
                &self.policy,
                &memory,
            ) {
                Ok(finding) => {
                    let seen = self.seen(spot, hit);
                    if let Some(reason) = self.pairs.refuted(&seen) {
                        self.count_not_reported(reason.name(), 1);
                        continue;
                    }
                    let is_told_by_pc = self.is_told_by_pc(hit, finding.racing.pc);
                    if !self.pairs.tell(seen, is_told_by_pc) && !self.setup.full_repeats {
                        self.outbox.send(&Notice::Repeat(side.watched.pc));
                    } else {
                        let addresses = [
                            finding.stalled.address,
                            finding.racing.address,
                            finding.watch_address,
                        ];
                        let maps = self.modules.map_infos(&addresses);
                        if !self.outbox.send(&Notice::Race(Box::new(finding), maps)) {
                            self.pairs.take_back(&seen);
                        }
                    }
                }
                Err(reason) => {
                    *self.not_reported.entry(reason.to_owned()).or_default() += 1;
                    // Which bytes they share is another matter each time.
                    let by_chance = [
                        Reason::NotCompleted,
                        Reason::OutsideStall,
                        Reason::BytesUnused,
                        Reason::OverlapUncertain,
                    ];
                    if by_chance.iter().all(|chance| chance.name() != reason) {
                        let seen = self.seen(spot, hit);
                        self.pairs.refuse(seen);
                    }
                }
            }
        }
    }

    /// Whether no other access traps at the program counter of a hit that an instruction at `pc` has made: that of a memory
    /// routine has many callers, and a repeated string instruction traps where it stands.
    fn is_told_by_pc(&self, hit: &Hit, pc: u64) -> bool {
        const PREFIXES: usize = 4;
        const REPEATED: [u8; 2] = [0xf2, 0xf3];
        let behind = hit.regs.rip;
        let next = self.modules.code(behind);
        !hit.in_kernel
            && pc < behind
            && !self.modules.is_routine(pc)
            && !next
                .iter()
                .take(PREFIXES)
                .any(|byte| REPEATED.contains(byte))
    }

    /// The race of these two places was told already: its stacks are not wanted.
    pub(super) fn is_known(&self, stalled: Spot, hit: &Hit) -> bool {
        !self.setup.full_repeats && self.pairs.is_told(&self.seen(stalled, hit))
    }

    fn seen(&self, stalled: Spot, hit: &Hit) -> Seen {
        let call = racing_call(&self.modules, hit);
        let racing = Spot::new(hit.regs.rip, call.as_ref());
        Seen { stalled, racing }
    }

    /// No thread is held for a sample any more: the watchdog may sleep. Must come before the gate
    /// may stop the next one.
    pub(super) fn nobody_stands(&self) {
        let control = self.gates.control();
        control.watchdog.standing_since_ns.store(0, SeqCst);
    }

    /// Nothing is in hand any more, and the gate may claim the next thread.
    pub(super) fn go_idle(&mut self) {
        self.state = State::Idle;
        self.nobody_stands();
        self.gates
            .control()
            .phase
            .store(phase::word(self.generation, phase::IDLE), SeqCst);
    }

    /// Lets the owner go and is idle.
    pub(super) fn let_go(&mut self, tid: u32) {
        let word = self.gates.control().phase.load(SeqCst);
        if phase::of(word) == phase::STALL {
            self.gates
                .control()
                .phase
                .store(phase::word(self.generation, phase::CLOSED), SeqCst);
        }
        self.charge_and_release(tid);
        self.disarm_site();
        self.go_idle();
    }

    pub(super) fn charge_and_release(&mut self, tid: u32) {
        let control = self.gates.control();
        let claimed = control.claim.time_ns.load(SeqCst);
        self.budget
            .charge_stop(control, monotonic_ns().saturating_sub(claimed));
        release(tid, 0);
    }

    pub(super) fn abandon_if_owner(&mut self, tid: u32) {
        let owner = match &self.state {
            State::Idle | State::Looking(_) => return,
            State::Seek { tid, .. } => *tid,
            State::Stalled(stalled) => stalled.tid,
            State::Confirm(confirm) => confirm.side.tid,
        };
        if owner == tid {
            self.abandon();
        }
    }

    /// Closes whatever is in hand; its thread is gone or will be released by our exit.
    pub(super) fn abandon(&mut self) {
        if matches!(self.state, State::Confirm(_)) {
            return self.end_confirm(false);
        }
        if matches!(self.state, State::Stalled(_)) {
            self.count_not_reported(Reason::NotCompleted.name(), self.caught());
        }
        if !matches!(self.state, State::Idle | State::Looking(_)) {
            self.gates
                .control()
                .phase
                .store(phase::word(self.generation, phase::CLOSED), SeqCst);
            self.arming.watchpoints().unwatch();
            self.go_idle();
        }
    }

    pub(super) fn count_no_stall(&mut self, reason: &str) {
        match self.no_stall.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(self.no_stall.insert(reason.to_owned(), 1)),
        }
    }
}

/// Reads a process's memory.
fn memory_of(pid: Pid) -> impl Fn(RuntimeAddr, &mut [u8]) -> bool {
    move |address, bytes| matches!(memory::read_exact(pid, address, bytes), Ok(true))
}

/// What of a stopped thread's stack a strategy may look at.
fn sampled_stack(pid: Pid, regs: &Regs) -> StackSnapshot {
    let mut bytes = vec![0; usize::from(SAMPLED_STACK)];
    let read = memory::read(pid, RuntimeAddr(regs.rsp), &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    StackSnapshot {
        base: regs.rsp,
        bytes,
    }
}
