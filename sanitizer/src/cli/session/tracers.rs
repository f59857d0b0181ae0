//! The tracers of a session: which process each of them watches, and those that are ready for one that is still to come.

use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::{Happening, STOP_TIME, Session, is_alive, link_of};
use crate::{
    cli::{
        args::{Mixed, StrategyName, Unanalyzed, YesNo},
        descendants::start_ticks,
        link::{Death, Link, LinkId, tracer_died},
        not_watched::Reason,
        starts::Step,
        told,
        watched::Process,
    },
    hunt::{
        watchdog::RELEASED,
        wire::{Preparation, Setup},
    },
    kernel::process::nanos,
};

/// Processes watched at the same time.
const MAX_TRACERS: usize = 64;
/// When one is tried again that is beyond those.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// Tracers that a process may lose before it is watched, less one.
const TRIES: u32 = 3;

impl Session {
    /// Lets a tracer watch a process: one that is ready, or a new one.
    ///
    /// # Errors
    /// Fails when none can be started.
    pub fn watch(&mut self, pid: u32, launch: bool) -> anyhow::Result<()> {
        let start_ticks = start_ticks(pid);
        self.launches |= launch;
        let link = match self.spares.take_for_another() {
            Some(link) => link,
            None => self.make_tracer()?,
        };
        self.give(link, pid, launch, start_ticks);
        Ok(())
    }

    /// Starts a tracer, which makes itself ready.
    pub(super) fn make_tracer(&mut self) -> anyhow::Result<LinkId> {
        let preparation = Preparation {
            stop_deadline_ns: nanos(self.args.stop_deadline),
            gate_log: self.args.verbose >= 2,
            slots: 1,
            // They are yours: who runs this knows what else he runs.
            leaves_breakpoints: false,
        };
        let id = self.next_link;
        self.next_link += 1;
        let links = Link::start(std::iter::once(id), preparation, &self.message_sender)?;
        self.links.extend(links);
        Ok(id)
    }

    /// Lets a tracer watch a process, which was started at that time.
    pub(super) fn give(&mut self, link: LinkId, pid: u32, launch: bool, start_ticks: Option<u64>) {
        let setup = Setup {
            pid,
            start_ticks,
            launch,
            is_child: pid != self.first,
            sample_period_ns: self.args.sample_period.map(nanos),
            stall_ns: nanos(self.args.stall),
            stop_deadline_ns: nanos(self.args.stop_deadline),
            strategy: self.args.strategy.into(),
            learns: self.args.strategy != StrategyName::PlainClock,
            max_overhead: self.args.max_overhead,
            allowance: None,
            seed: self.seed.wrapping_add(self.watched.times()),
            report_mixed: self.args.mixed == Mixed::Report,
            report_unanalyzed: self.args.unanalyzed == Unanalyzed::Report,
            // A suppression may be about any frame, and a known race about another variable, so each report needs its own stacks.
            full_repeats: self.args.suppressions.is_some() || self.reporter.knows_races(),
            explain: self.args.verbose >= 1,
            coverage: self.args.coverage.is_some(),
            decision_log: self.decision_log.is_some(),
            probes: self.args.probes == YesNo::Yes,
            free_stalls: self.args.free_stalls == YesNo::Yes,
            memory: self.keeper.keeps(),
        };
        if pid == self.first
            && let Some(descendants) = &mut self.descendants
        {
            descendants.follow(pid);
        }
        self.watched.begin(pid, link);
        self.keeper.begin(pid);
        if let Some(link) = self.links.get_mut(&link) {
            link.watch(setup);
        }
        self.tell_company();
        if let Some(link) = self.links.get_mut(&link) {
            link.has_company(company(self.has_company));
        }
    }

    /// The tracer of a process.
    pub(super) fn link_of(&mut self, pid: u32) -> Option<&mut Link> {
        link_of(&self.watched, &mut self.links, pid)
    }

    /// Tells the tracers whether there are several, where that has changed.
    pub(super) fn tell_company(&mut self) {
        let has = self.watched.len() > 1;
        if std::mem::replace(&mut self.has_company, has) != has {
            self.links
                .values_mut()
                .for_each(|link| link.has_company(company(has)));
        }
    }

    /// A process below the first one is worth a tracer.
    pub(super) fn take_in(&mut self, pid: u32) {
        let now = Instant::now();
        let Some(descendants) = &mut self.descendants else {
            return;
        };
        if self
            .watched
            .get(pid)
            .is_some_and(|process| process.link.is_some())
        {
            descendants.begin(pid);
            return;
        }
        if self.watched.len() >= MAX_TRACERS {
            descendants.try_again(pid, Reason::Limit, TRY_AGAIN);
            return;
        }
        if !self.starts.may_begin(now) {
            descendants.try_again(pid, Reason::Budget, TRY_AGAIN);
            return;
        }
        if let Some(link) = self.spares.take() {
            let start = descendants.begin(pid);
            self.starts.begin(Step::TakeIn);
            self.give(link, pid, false, start.start_ticks);
            if let Some(process) = self.watched.get_mut(pid) {
                process.start = Some(start);
            }
            self.make_spares(now);
            return;
        }
        // Not one of its own, which would come too late as often as not: whichever is ready first.
        self.make_spares(now);
        let Some(descendants) = &mut self.descendants else {
            return;
        };
        if self.spares.is_making() {
            descendants.wait_for_tracer(pid, Reason::EndedEarly);
        } else {
            let reason = if self.starts.may_begin(now) {
                Reason::Refused
            } else {
                Reason::Budget
            };
            descendants.try_again(pid, reason, TRY_AGAIN);
        }
    }

    /// Makes tracers for processes that are still to come, as many as are wanted and paid for.
    pub(super) fn make_spares(&mut self, now: Instant) {
        while !self.stopping && self.spares.wants_more(now) && self.starts.may_begin(now) {
            match self.make_tracer() {
                Ok(link) => {
                    self.spares.begin(link);
                    self.starts.begin(Step::Make);
                }
                Err(error) => {
                    warn!("processes are not watched for a while: {error:#}");
                    self.spares.fail(now);
                }
            }
        }
    }

    /// Lets those end that are not needed, and makes those that could not be paid for before.
    pub(super) fn look_after_spares(&mut self) {
        let now = Instant::now();
        if let Some(link) = self.spares.surplus(now)
            && let Some(link) = self.links.get_mut(&link)
        {
            link.stop();
        }
        self.make_spares(now);
    }

    /// A tracer is ready for a process: it was just made, or has told all of one that has ended.
    pub(super) fn on_ready(&mut self, link: LinkId, cpu: Duration) -> Option<Happening> {
        if let Some(pid) = self.watched.of(link) {
            let is_over = |process: &Process| process.said_farewell;
            if !self.watched.get(pid).is_some_and(is_over) {
                // It was made for this one.
                return None;
            }
            if pid != self.first {
                self.starts.spend(cpu);
            }
            self.has_left(pid);
        }
        if self.spares.add(link) {
            debug!("a tracer was made in {cpu:?} of CPU time");
            self.starts.end(Step::Make, Some(cpu));
        }
        if self.stopping {
            if let Some(link) = self.links.get_mut(&link) {
                link.stop();
            }
        } else {
            if let Some(descendants) = &mut self.descendants {
                descendants.a_tracer_is_ready();
            }
            self.look_after_spares();
        }
        self.all_ended()
    }

    /// The tracer of a process watches it no more, and all was told of it.
    pub(super) fn has_left(&mut self, pid: u32) {
        self.has_begun(pid, None);
        self.watched.end(pid);
        self.tell_company();
        self.forget(pid);
    }

    /// Forgets a process, if it is not to be watched again.
    pub(super) fn forget(&mut self, pid: u32) {
        if self.watched.forget(pid) {
            self.reporter.forget(pid);
            self.keeper.forget(pid);
        }
    }

    /// The tracer of a child has watched it, or is gone before it did.
    pub(super) fn has_begun(&mut self, pid: u32, cpu: Option<Duration>) {
        let start = self.watched.get_mut(pid);
        let Some(start) = start.and_then(|process| process.start.take()) else {
            return;
        };
        if let Some(cpu) = cpu {
            let after = start.since.elapsed();
            debug!(
                "process {pid}: watched {after:?} after it was told of, with {cpu:?} of CPU time"
            );
        }
        self.starts.end(Step::TakeIn, cpu);
        let in_time = cpu.is_some();
        let Some(descendants) = &mut self.descendants else {
            return;
        };
        let lives = in_time || is_alive(pid);
        if in_time || !lives {
            descendants.traced(&start, in_time);
        }
        if !in_time {
            let reason = if lives && !self.stopping {
                Reason::Refused
            } else {
                Reason::EndedEarly
            };
            descendants.count(&start.name, reason);
        }
    }

    pub(super) async fn on_gone(&mut self, link: LinkId) -> Option<Happening> {
        let pid = self.watched.of(link);
        let was_made = self.spares.remove(link);
        let mut link = self.links.remove(&link)?;
        let death = link.ended(STOP_TIME).await;
        if was_made && !self.stopping {
            self.starts.end(Step::Make, None);
            self.spares.fail(Instant::now());
            if let Some(descendants) = &mut self.descendants {
                // They will be told that there is none.
                descendants.a_tracer_is_ready();
            }
        }
        let pid = pid?;
        let farewell = self.watched.get(pid);
        let farewell = farewell.is_some_and(|process| process.said_farewell);
        if !farewell && self.has_watched(pid) {
            self.reporter.coverage_is_cut(pid);
        }
        let is_launched = pid == self.first && self.launches;
        let released = death == Death::Tracer(RELEASED);
        let text = if released {
            self.releases += 1;
            format!(
                "the watchdog has released process {pid}: its tracer held a thread for more than {}",
                humantime::format_duration(self.args.stop_deadline)
            )
        } else {
            tracer_died(&death)
        };
        // A launcher waits for nothing but being held.
        if !farewell && (!released || is_launched) && self.has_another_try(pid) {
            warn!("process {pid} gets another tracer: {text}");
            return self.give_another(pid, is_launched);
        }
        let mut failure = None;
        if released && !is_launched {
            info!("{text}");
            self.pause(pid);
        } else if !farewell {
            failure = self.on_failure(pid, text);
        }
        self.has_left(pid);
        failure.or_else(|| self.all_ended())
    }

    /// Whether a process that is not watched yet has lost its tracer for the first few times only: without a word, by something that
    /// has to do with neither of them, as it seems. Who starts a server must not find it not started because of that.
    fn has_another_try(&mut self, pid: u32) -> bool {
        if self.stopping || self.has_watched(pid) || !is_alive(pid) {
            return false;
        }
        let Some(process) = self.watched.get_mut(pid) else {
            return false;
        };
        process.lost_tracers += 1;
        process.lost_tracers < TRIES
    }

    /// Lets another tracer watch a process that has lost its own before that had begun.
    fn give_another(&mut self, pid: u32, launch: bool) -> Option<Happening> {
        self.watched.end(pid);
        match self.watch(pid, launch) {
            Ok(()) => None,
            Err(error) => {
                let failure = self.on_failure(pid, told(&error));
                self.has_left(pid);
                failure.or_else(|| self.all_ended())
            }
        }
    }
}

/// What a tracer is told of others: nobody looks at what the machine's processors are used for.
fn company(has: bool) -> Option<f64> {
    has.then_some(1.0)
}
