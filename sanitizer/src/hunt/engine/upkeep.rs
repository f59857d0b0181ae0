//! What the engine keeps up beside its samples: threads, modules, delivery, figures.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use gwp_race_abi::Counter;
use gwp_race_abi::phase;

use crate::addr::RuntimeAddr;
use crate::hunt::budget::Budget;
use crate::hunt::clocks;
use crate::hunt::loader::Look;
use crate::hunt::modules::{ModuleSet, Place, RefreshError};
use crate::hunt::tracer;
use crate::hunt::wire::Notice;
use crate::hunt::wire::Statistics;
use crate::kernel::cpus;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;
use crate::kernel::process::pair_cpu_time_ns;
use crate::target;
use crate::target::memory;
use crate::target::memory::Resident;
use crate::target::threads::Scheduling;

use super::activity::{self, Activity};
use super::{
    Confirm, DECAY_ROUNDS, Engine, EngineError, Purpose, SETTLING, State, as_pid, set_delivery,
};

/// To add up the CPU times of so many threads takes some microseconds, while one stands still.
const MOST_THREADS: usize = 256;
/// Why a hit was not reported whose modules could not be looked at in time.
const MODULES_UNKNOWN: &str = "modules-unknown";

impl Engine {
    /// Seizes threads and opens their events until two looks agree: a thread created between
    /// its creator's seizing and opening has none by inheritance.
    pub(super) fn adopt_threads(&mut self) -> Result<(), EngineError> {
        /// A process that creates threads all the time never agrees with itself.
        const PASSES: usize = 8;
        /// The kernel goes through all tracees to tell of their stops.
        const BETWEEN_LOOKS: Duration = Duration::from_micros(500);
        let mut looked = Instant::now();
        for _ in 0..PASSES {
            let mut news = false;
            for tid in target::threads::list(as_pid(self.pid))? {
                let tid = tid.as_raw().cast_unsigned();
                if self.arming.knows(tid) {
                    continue;
                }
                news = true;
                if self.arming.seize(tid)? {
                    if self.arming.len() == 1 {
                        // As long as one of its threads is traced, the id is nobody else's.
                        self.check_identity()?;
                    }
                    self.open_events(tid)?;
                }
                // There may be thousands, and those that are held already get signals.
                if !self.arming.is_empty() && looked.elapsed() > BETWEEN_LOOKS {
                    self.on_stops()?;
                    looked = Instant::now();
                }
                if self.ending.is_some() {
                    return Ok(());
                }
            }
            if !news {
                break;
            }
        }
        Ok(())
    }

    /// Takes in threads that were created since, as many as are allowed.
    pub(super) fn take_in_new_threads(&mut self) -> Result<(), EngineError> {
        let allowed = usize::try_from(self.adoption.allowance()).unwrap_or(usize::MAX);
        if allowed > 0 {
            let tids = target::threads::list(as_pid(self.pid)).unwrap_or_default();
            let tids = tids.into_iter().map(|tid| tid.as_raw().cast_unsigned());
            let new = tids.filter(|&tid| !self.arming.knows(tid)).take(allowed);
            for tid in new.collect::<Vec<_>>() {
                self.take_in_thread(tid)?;
            }
        }
        self.allow_threads();
        Ok(())
    }

    /// Takes in a thread that was created since. It has inherited its events, where that is done.
    pub(super) fn take_in_thread(&mut self, tid: u32) -> Result<(), EngineError> {
        self.adoption.took_in();
        if self.arming.seize(tid)? && !self.arming.inherits() {
            self.open_events(tid)?;
        }
        Ok(())
    }

    /// Says to the gate how many new threads it may tell of.
    pub(super) fn allow_threads(&self) {
        let control = self.gates.control();
        let allowance = self.adoption.allowance();
        control.threads_allowed.store(allowance, SeqCst);
    }

    /// The program creates threads faster than they can be taken in. Those that are left alone, too, have events where each thread has its own,
    /// which makes their creation dear.
    pub(super) fn left_threads(&mut self) {
        // Those that were created at once may have cost less than was thought.
        self.allow_threads();
        self.adoption.leave();
        self.arming.want_cpus();
        if self.arming.wants_others(self.arming.known()) {
            self.look_when_idle();
        }
    }

    /// Lets threads that are created from now on have no events until they are taken in, where the processors' are not to be had and they
    /// are too many. Nobody may stand still.
    fn spare_new_threads(&mut self) {
        if self.arming.watchpoints().are_by_cpu()
            || !self.adoption.has_left()
            || !self.arming.inherits()
        {
            return;
        }
        self.arming.end_inheritance();
        let mut held: Vec<u32> = self.arming.tids().collect();
        held.sort_unstable();
        for tid in held {
            // Without them it is not watched, as any that is left alone.
            if let Err(error) = self.open_events(tid) {
                self.outbox.send(&Notice::Debug(error.to_string()));
            }
        }
    }

    pub(super) fn open_events(&mut self, tid: u32) -> Result<(), EngineError> {
        match self.arming.open(tid, &self.gates) {
            Ok(()) => Ok(()),
            Err(error) if self.arming.len() <= 1 => Err(error.into()),
            Err(error) => {
                self.arming.mark_unwatchable(tid);
                self.outbox.send(&Notice::Debug(error.to_string()));
                Ok(())
            }
        }
    }

    pub(super) fn check_architecture(&self) -> Result<(), EngineError> {
        if target::process::Architecture::of(as_pid(self.pid))?.is_x86_64() {
            Ok(())
        } else {
            Err(EngineError::Foreign(self.pid))
        }
    }

    /// Looks at the modules for the first time; once they are known, watching begins.
    pub(super) fn begin_watching(&mut self, anew: bool) {
        self.exe = std::fs::read_link(format!("/proc/{}/exe", self.pid))
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default();
        self.begin_look(Purpose::Start, anew);
    }

    /// Looks for new modules if no sample is in hand; none is taken meanwhile.
    pub(super) fn look_when_idle(&mut self) {
        let control = self.gates.control();
        let word = control.phase.load(SeqCst);
        let generation = phase::generation(word);
        let closed = phase::word(generation, phase::CLOSED);
        if matches!(self.state, State::Idle)
            && phase::of(word) == phase::IDLE
            && control
                .phase
                .compare_exchange(word, closed, SeqCst, SeqCst)
                .is_ok()
        {
            self.generation = generation;
            self.stop_waiting();
            // Whatever is known of them: none may stay armed for nothing.
            self.arming.watchpoints().unwatch();
            self.fit_events(self.arming.known());
            if self.is_look_due() {
                self.begin_look(Purpose::Upkeep, false);
            } else {
                self.go_idle();
            }
        }
    }

    /// The same where code runs that no module is known for.
    pub(super) fn look_for_code(&mut self) {
        if self.is_look_due() {
            self.look_when_idle();
        }
    }

    fn is_look_due(&self) -> bool {
        monotonic_ns() >= self.next_look
    }

    /// Watches by thread or by processor, as the number of threads suggests. Nobody may stand still.
    pub(super) fn fit_events(&mut self, threads: usize) {
        let was_by_cpu = self.arming.watchpoints().are_by_cpu();
        if let Err(error) = self.arming.choose_events(threads, &self.gates) {
            let text = format!("other clocks and watchpoints could not be opened: {error}");
            self.outbox.send(&Notice::Debug(text));
        }
        self.spare_new_threads();
        let control = self.gates.control();
        let clock_by_cpu = self.arming.ticking_cpus() > 0;
        control.clock_by_cpu.store(clock_by_cpu.into(), SeqCst);
        let sample_ns = if clock_by_cpu { 0 } else { self.period_ns };
        self.budget.set_period(control, sample_ns);
        let by_cpu = self.arming.watchpoints().are_by_cpu();
        if by_cpu && !was_by_cpu {
            let text = format!("{threads} threads: memory is watched by processor");
            self.outbox.send(&Notice::Debug(text));
        }
        self.gates
            .control()
            .watch_by_cpu
            .store(u64::from(by_cpu), SeqCst);
    }

    /// Asks the loader; what is in hand must be no sample, and no thread stand still for one.
    pub(super) fn begin_look(&mut self, purpose: Purpose, anew: bool) {
        let closed = phase::word(self.generation, phase::CLOSED);
        self.gates.control().phase.store(closed, SeqCst);
        self.nobody_stands();
        match &purpose {
            Purpose::Judge { confirm, .. } => self.loader.look_to_judge(self.pid, confirm.places()),
            _ => self.loader.look(self.pid, anew),
        }
        self.state = State::Looking(purpose);
    }

    /// Goes on with what the look was for, when the loader has answered.
    pub(super) fn on_look(&mut self) -> Result<(), EngineError> {
        if !matches!(self.state, State::Looking(_)) {
            return Ok(());
        }
        let Some(look) = self.loader.answer() else {
            return Ok(());
        };
        let pause = self.loader.pause(self.setup.max_overhead);
        self.next_look = monotonic_ns().saturating_add(pause.as_nanos() as u64);
        let State::Looking(purpose) = std::mem::replace(&mut self.state, State::Idle) else {
            return Ok(());
        };
        match purpose {
            Purpose::Start => {
                self.take_in(look)?;
                self.outbox.send(&Notice::Watching {
                    analyzed_modules: self.modules.analyzed(),
                    cpu_ns: pair_cpu_time_ns().saturating_sub(self.cpu_before_start_ns),
                });
                self.next_housekeeping = monotonic_ns() + SETTLING.as_nanos() as u64;
                // Reading the modules was start-up, not sampling.
                self.budget.restart();
                self.rounds = 0;
            }
            Purpose::Upkeep => match self.take_in(look) {
                Err(EngineError::Modules(RefreshError::Target(error))) if error.is_vanished() => {}
                result => {
                    result?;
                    if self.rounds <= 1 {
                        // So is what could only be read when they were relocated.
                        self.budget.restart();
                    }
                }
            },
            Purpose::Judge { confirm, completed } => self.judge_by(look, &confirm, completed),
        }
        self.go_idle();
        Ok(())
    }

    fn take_in(&mut self, look: Look) -> Result<(), EngineError> {
        let (modules, changes) = look?;
        if changes.changed && changes.unloaded {
            // By the modules that were there when it was executed; what none of them is known for is told later.
            self.tell_elsewhere(|modules, pc| modules.place(pc).is_some());
        }
        self.modules = modules;
        if changes.changed {
            if changes.unloaded {
                // Other code may stand at the same addresses now.
                self.pairs.forget();
                self.tell_coverage_and_forget();
                self.strategy.forget();
                self.lines.forget();
            } else {
                self.strategy.extend();
            }
            // The memory routines that new modules call are known when those are relocated.
            let soon = monotonic_ns() + SETTLING.as_nanos() as u64;
            self.next_housekeeping = self.next_housekeeping.min(soon);
            self.outbox.send(&Notice::Modules(self.modules.infos()));
        }
        for warning in changes.warnings {
            self.outbox.warn(warning);
        }
        Ok(())
    }

    /// Judges what was caught by the modules of a look. A process that has ended this moment had those of the look before.
    fn judge_by(&mut self, look: Look, confirm: &Confirm, completed: bool) {
        let before = self.modules.clone();
        if let Err(error) = self.take_in(look) {
            self.outbox.send(&Notice::Debug(error.to_string()));
        }
        // What was executed there may have been another library's code, and have had another meaning.
        let mut all = confirm.places().into_iter();
        if all.any(|pc| before.is_replaced_in(&self.modules, pc)) {
            self.count_not_reported(MODULES_UNKNOWN, confirm.hits.len());
        } else {
            self.judge(confirm, completed);
        }
    }

    /// Judges what is in hand when everything is disarmed: there is no later turn to do it.
    pub(super) fn judge_last(&mut self, completed: bool) {
        let (confirm, completed) = match std::mem::replace(&mut self.state, State::Idle) {
            State::Confirm(confirm) => {
                // There is no time for more: what was read of the code before must do.
                self.loader.look(self.pid, false);
                (confirm, completed)
            }
            State::Looking(Purpose::Judge { confirm, completed }) => (confirm, completed),
            _ => return,
        };
        match self.loader.answer_within(2 * self.last_words()) {
            Some(look) => self.judge_by(look, &confirm, completed),
            None => self.count_not_reported(MODULES_UNKNOWN, confirm.hits.len()),
        }
    }

    /// What was caught in a program that the process does not execute any more: what its program
    /// counters meant can no longer be known.
    fn forget_caught(&mut self) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Confirm(confirm) | State::Looking(Purpose::Judge { confirm, .. }) => {
                self.count_not_reported(MODULES_UNKNOWN, confirm.hits.len());
            }
            State::Stalled(_) => self.count_not_reported(MODULES_UNKNOWN, self.caught()),
            _ => {}
        }
    }

    pub(super) fn count_not_reported(&mut self, reason: &str, hits: usize) {
        if hits > 0 {
            *self.not_reported.entry(reason.to_owned()).or_default() += hits as u64;
        }
    }

    /// Programs change what they do, and memory is used for something else.
    pub(super) fn forget_some(&mut self) {
        self.strategy.decay();
        self.lines.decay();
        self.waiting.quiet.clear();
        self.locks.decay();
    }

    pub(super) fn housekeeping(&mut self) -> Result<(), EngineError> {
        self.rounds += 1;
        self.gates.flush_log();
        self.look_for_exec()?;
        if self.ending.is_some() {
            return Ok(());
        }
        // What the program does once a second would never be met if each wait ended then.
        let is_free = self.is_at_rest() && !self.waiting.is_under_way();
        if self.substitute.is_some() || is_free {
            self.look_after_program()?;
        } else if !matches!(self.state, State::Looking(Purpose::Upkeep)) {
            self.waiting.delays_look = true;
        }
        if self.rounds.is_multiple_of(DECAY_ROUNDS) {
            self.budget.decay();
            if self.substitute.is_some() {
                self.forget_some();
            } else {
                self.waiting.decays = true;
            }
        }
        self.settle();
        self.budget.charge_guard(self.gates.control());
        self.tell_cost_of_stalls();
        let statistics = self.statistics();
        self.outbox.send(&Notice::Statistics(statistics));
        Ok(())
    }

    /// Looks for what is new in the program: modules, values, threads, how it uses the processors. That takes its time.
    pub(super) fn look_after_program(&mut self) -> Result<(), EngineError> {
        if matches!(self.state, State::Idle) {
            self.choose_delivery()?;
            self.look_when_idle();
        }
        // A thread may have been claimed at this very moment.
        self.waiting.delays_look &= !matches!(self.state, State::Looking(_)) && self.is_look_due();
        self.look_at_values();
        if matches!(self.state, State::Idle | State::Looking(_)) {
            self.tell_coverage();
        }
        // What it has used until now is compared with the time.
        self.settle();
        self.look_after_clocks();
        // Creations of threads are told by the gates, but a full buffer may have lost some.
        self.take_in_new_threads()?;
        self.take_back()?;
        Ok(())
    }

    /// Lets the strategy look at values, while nobody can be claimed: that takes its time. Nothing is fetched from anywhere
    /// for it.
    fn look_at_values(&mut self) {
        let pid = as_pid(self.pid);
        if matches!(self.state, State::Looking(_))
            && let Ok(resident) = Resident::of(pid)
        {
            let read = |address, bytes: &mut [u8]| {
                let address = RuntimeAddr(address);
                resident.has(address) && matches!(memory::read_exact(pid, address, bytes), Ok(true))
            };
            self.strategy.look_at_values(&read);
        }
    }

    /// Tells the strategy what it costs to get to a stall.
    fn tell_cost_of_stalls(&mut self) {
        /// So many that one dear one says little.
        const ENOUGH: u64 = 8;
        let spent = self.gates.control().spent_ns.load(SeqCst);
        // What comes of a stall is no cost of getting to it.
        let beside = spent.saturating_sub(self.budget.stalls_and_consequences_ns());
        let (told, told_stalls) = self.told_of_costs;
        let stalls = self.stalls - told_stalls;
        if stalls >= ENOUGH {
            self.told_of_costs = (beside, self.stalls);
            let each = beside.saturating_sub(told) / stalls;
            // What stands still so long costs as much.
            let each = each as f64 / self.budget.loss_share();
            self.strategy.costs(Duration::from_nanos(each as u64));
        }
    }

    /// A program may install or remove a handler for the signal that stops it: the gates then
    /// refuse (I1), and another signal must do.
    pub(super) fn choose_delivery(&mut self) -> Result<(), EngineError> {
        let unstoppable = self.counter(Counter::SampleUnstoppable);
        if unstoppable == self.unstoppable {
            return Ok(());
        }
        self.unstoppable = unstoppable;
        let chosen = match tracer::choose_delivery(self.pid, &self.gates) {
            Ok(Some(chosen)) if chosen != self.arming.delivery() => chosen,
            Ok(None) => {
                self.cannot_stop();
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.outbox.send(&Notice::Debug(format!(
            "threads are stopped by {chosen:?} from now on"
        )));
        self.stop_waiting();
        self.arming.close_events(chosen);
        set_delivery(self.gates.control(), chosen);
        self.fit_events(self.arming.known());
        for tid in target::threads::list(as_pid(self.pid))? {
            let tid = tid.as_raw().cast_unsigned();
            if self.arming.seize(tid)? {
                self.open_events(tid)?;
            }
        }
        Ok(())
    }

    /// Tells once that a program's threads cannot be stopped.
    fn cannot_stop(&mut self) {
        if !std::mem::replace(&mut self.told_unstoppable, true) {
            self.outbox.warn(format!(
                "process {} handles or blocks SIGTRAP, SIGURG and SIGWINCH itself, as all programs of Go do: none of its \
                 threads can be stopped without its noticing, so none is, and no race is found in it; watch the code in a program that leaves one of them \
                 alone (see \"Go\" in docs/compatibility.md)",
                self.pid
            ));
        }
    }

    /// A thread stands at the end of an exec. It is armed; the modules are read when it runs again.
    pub(super) fn on_exec(&mut self, tid: u32) -> Result<(), EngineError> {
        self.forget_caught();
        self.abandon();
        self.stop_waiting();
        let closed = phase::word(self.generation, phase::CLOSED);
        self.gates.control().phase.store(closed, SeqCst);
        self.arming.reset_to(tid);
        self.pid = tid;
        self.check_architecture()?;
        let delivery = tracer::choose_delivery(tid, &self.gates)?.unwrap_or(tracer::LAST_RESORT);
        self.told_unstoppable = false;
        self.arming.close_events(delivery);
        set_delivery(self.gates.control(), delivery);
        // Nothing is armed, and nobody can be claimed.
        self.gates.control().tgid.store(u64::from(tid), SeqCst);
        self.adoption.forget();
        self.count_alone();
        self.fit_events(1);
        self.budget.forget();
        self.locks.forget();
        self.begin_activity();
        self.open_events(tid)
    }

    /// Tells where the program was seen to execute outside analyzed functions, at those addresses that are `wanted` now.
    ///
    /// The gate counts by the modules that it knows: what was executed before they were read counts as analyzed
    /// here, where it turned out to be.
    pub(super) fn tell_elsewhere(&mut self, wanted: impl Fn(&ModuleSet, u64) -> bool) {
        let (mut late, mut counted) = (0, Vec::new());
        for [place, number] in &self.gates.control().elsewhere {
            if !wanted(&self.modules, place.load(SeqCst)) {
                continue;
            }
            let (pc, number) = (place.swap(0, SeqCst), number.swap(0, SeqCst));
            let place = self.modules.place(pc);
            let function = place.as_ref().and_then(Place::function);
            if function.is_some_and(|function| function.is_analyzed()) {
                late += number;
            } else if number > 0 {
                counted.push((pc, number));
            }
        }
        self.add(Counter::SamplesAnalyzed, late);
        if !counted.is_empty() {
            self.outbox.send(&Notice::Elsewhere(counted));
        }
    }

    /// What the program has done until now is not what it does.
    pub(super) fn begin_activity(&mut self) {
        let pid = as_pid(self.pid);
        let mut tids: Vec<u32> = self.arming.tids().collect();
        tids.sort_unstable();
        let some = tids.iter().take(activity::SOME);
        let threads = some.filter_map(|&tid| Some((tid, Scheduling::read(pid, as_pid(tid))?)));
        self.activity = Activity {
            time_ns: monotonic_ns(),
            used_ns: self.cpu_seen_ns,
            threads: threads.collect(),
            count: tids.len(),
            dear: 0,
        };
    }

    /// Lets the processors' clocks tick as often as what the program does can pay for, and wants them where those of
    /// threads are dear.
    fn look_after_clocks(&mut self) {
        /// A look at less says nothing.
        const LEAST: Duration = Duration::from_millis(500);
        /// Looks in a row: what a program does at its start is not what it does.
        const LOOKS: u32 = 3;
        let passed_ns = monotonic_ns().saturating_sub(self.activity.time_ns);
        // To look takes its time, and somebody may stand still.
        if passed_ns < nanos(LEAST) || !matches!(self.state, State::Idle | State::Looking(_)) {
            return;
        }
        let passed_ns = passed_ns as f64;
        let share = self.setup.max_overhead;
        let ticking = self.arming.ticking_cpus();
        let before = std::mem::take(&mut self.activity);
        self.begin_activity();
        let done = self.activity.since(&before);
        let used = self.activity.used_ns.saturating_sub(before.used_ns) as f64 / passed_ns;
        if self.substitute.is_none() {
            let waiting = done.map_or(0.0, |done| done.waited * 1e9 / passed_ns);
            let of = cpus::usable_by(as_pid(self.pid));
            self.budget.program_uses(used, of, waiting);
        }
        if self.arming.may_be_dear()
            && let Some(done) = done
            && clocks::are_dear(done.turns * 1e9 / passed_ns, used, share)
        {
            self.activity.dear = before.dear + 1;
            if self.activity.dear >= LOOKS {
                self.arming.want_cpus();
            }
        }
        let period_ns = if ticking == 0 || self.setup.sample_period_ns.is_some() {
            self.period_ns
        } else {
            let trap_cost_ns = self.gates.control().trap_cost_ns.load(SeqCst);
            Budget::period_of_cpus_ns(self.period_ns, ticking, used, share, trap_cost_ns)
        };
        self.arming
            .set_period_of_cpus(Duration::from_nanos(period_ns));
    }

    pub(super) fn counter(&self, counter: Counter) -> u64 {
        self.gates.control().counters[counter as usize].load(SeqCst)
    }

    /// CPU time that the target has used while it was watched, and that which samples stand for, ns.
    fn cpu_used(&self) -> (u64, u64) {
        let cpu = target::process::cpu_time(as_pid(self.pid)).unwrap_or_default();
        let sampled = self.gates.control().sampled_ns.load(SeqCst);
        let used = nanos(cpu.saturating_sub(self.cpu_before));
        // Of one that has ended this moment only that is known which was seen before.
        (used.max(self.cpu_seen_ns), sampled)
    }

    /// CPU time that the program has used until a stall begins, or ends, ns.
    pub(super) fn used_by_now(&self) -> Option<u64> {
        (self.arming.len() <= MOST_THREADS).then(|| self.cpu_used().0)
    }

    /// A thread stood still from a time until now: learns what that cost the program.
    pub(super) fn stood_since(&mut self, opened: u64, used: Option<u64>) {
        if let (Some(before), Some(now)) = (used, self.used_by_now()) {
            let passed =
                |from, to: u64| Duration::from_nanos(to.saturating_sub(from)).as_secs_f64();
            let (stood, used) = (passed(opened, monotonic_ns()), passed(before, now));
            self.budget.learn_loss(stood, used);
        } else {
            self.budget.forget_losses();
        }
    }

    /// Brings the budget up to date.
    pub(super) fn settle(&mut self) {
        let (used, sampled) = self.cpu_used();
        self.adoption.earn(used.saturating_sub(self.cpu_seen_ns));
        self.respite.earn(used.saturating_sub(self.cpu_seen_ns));
        self.cpu_seen_ns = used;
        let control = self.gates.control();
        self.budget.earn(control, used, sampled);
        let worked = self.budget.settle(control);
        self.has_worked(worked);
    }

    /// Says for what the tracer has worked so long, ns: mostly for what it was woken for.
    pub(super) fn has_worked(&mut self, ns: u64) {
        let [threads, stops] = [self.adoption.heard(), self.respite.heard()];
        if threads + stops > 0 {
            let for_stops =
                (u128::from(ns) * u128::from(stops) / u128::from(threads + stops)) as u64;
            self.respite.worked(for_stops);
            self.adoption.worked(ns - for_stops);
        }
    }

    pub(super) fn statistics(&self) -> Statistics {
        const NANO: f64 = 1e-9;
        let (used, sampled) = self.cpu_used();
        let cpu_s = used.max(sampled) as f64 * NANO;
        let [own_stops, times_let_alone] = self.respite.counts();
        Statistics {
            gates: Counter::ALL
                .iter()
                .map(|&counter| (counter.name().to_owned(), self.counter(counter)))
                .collect(),
            not_reported: self.not_reported.clone(),
            no_stall: self.no_stall.clone(),
            stops: self.stops,
            own_stops,
            times_let_alone,
            let_alone_s: self.respite.alone_ns(monotonic_ns()) as f64 * NANO,
            stalls: self.stalls,
            waits: self.waiting.count,
            coverage: self.strategy.coverage(),
            decisions: self.decisions.named(),
            stalls_cut_short: self.stalls_cut_short,
            watched_s: self.watched_ns as f64 * NANO,
            stopped_s: self.budget.stopped_ns as f64 * NANO,
            spent_s: self.budget.spent_s(self.gates.control()),
            target_cpu_s: cpu_s,
            value_changed_unknown_origin: self.value_changed,
            unwatchable_threads: self.arming.unwatchable() as u64,
            dropped_messages: self.outbox.dropped(),
        }
    }
}
