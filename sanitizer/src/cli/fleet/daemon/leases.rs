//! Leases as the scheduler wants them: begun, ended, and told of when they are over.

use std::{
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use tracing::debug;

use super::{
    Daemon, audit,
    lease::{Lease, Why},
    sampler::END_TIME,
};
use crate::{
    cli::{
        args::{Mixed, Unanalyzed, YesNo},
        link::LinkId,
        pauses::Pauses,
    },
    fleet::{
        breaker::Arm,
        schedule::{Action, Event, LONGEST, ProcessId},
    },
    hunt::{budget::Allowance, wire::Setup},
    kernel::process::nanos,
};

/// After its lease is over, a slot may read the rest of a large file for so long.
pub(super) const FORGET_TIME: Duration = Duration::from_secs(60);

impl Daemon {
    /// Does what the scheduler wants now.
    pub(super) fn carry_out(&mut self) {
        let now = self.now();
        let slots = self.config.settings.leases;
        let slots = slots.saturating_sub(self.slots());
        self.scheduler.take(now, Event::Taken { slots });
        for action in self.scheduler.decide(now) {
            match action {
                Action::Begin {
                    process,
                    most,
                    share,
                } => {
                    if !self.begin_lease(process, (most, share)) {
                        self.scheduler.take(now, Event::LeaseEnded { process });
                    }
                }
                Action::End { process, reason } => self.end_lease(process, Why::Scheduled(reason)),
            }
        }
    }

    /// Begins a lease, or a control in its place; whether there is one.
    fn begin_lease(&mut self, process: ProcessId, bounds: (Duration, f64)) -> bool {
        let now = self.now();
        let Some(known) = self.roster.of(process) else {
            return false;
        };
        let (who, build) = (Rc::clone(&known.who), known.build);
        // What it executed before may still have one, which ends.
        let is_held = self.leases.iter().any(|one| one.who.pid == who.pid);
        if is_held || !self.sampler.has_free() {
            return false;
        }
        let Some(arm) = self.trials.begin(process, build, now, fastrand::bool()) else {
            return false;
        };
        let link = match arm {
            Arm::Control => None,
            Arm::Lease => {
                self.see_breakpoints();
                let processors = self.scheduler.activity(process);
                let setup = self.setup((who.pid, who.start_ticks), bounds, processors);
                let Some(link) = self.sampler.watch(setup) else {
                    return false;
                };
                self.keeper.begin(who.pid);
                self.counts.begin();
                Some(link)
            }
        };
        debug!("process {}: {arm:?} of {:?}", who.pid, bounds.0);
        self.leases
            .push(Lease::new(process, who, link, now, bounds));
        true
    }

    fn setup(
        &mut self,
        (pid, start_ticks): (u32, u64),
        (most, share): (Duration, f64),
        processors: f32,
    ) -> Setup {
        self.seed = self.seed.wrapping_add(1);
        let args = &self.args;
        Setup {
            pid,
            start_ticks: Some(start_ticks),
            launch: false,
            is_child: false,
            sample_period_ns: args.sample_period.map(nanos),
            stall_ns: nanos(args.stall),
            stop_deadline_ns: nanos(args.stop_deadline),
            strategy: args.strategy.into(),
            learns: true,
            max_overhead: share,
            allowance: Some(Allowance {
                most_ns: nanos(most),
                lasts_ns: nanos(LONGEST),
                processors: processors.into(),
            }),
            seed: self.seed,
            report_mixed: args.mixed == Mixed::Report,
            report_unanalyzed: args.unanalyzed == Unanalyzed::Report,
            full_repeats: self.reporter.knows_races(),
            explain: args.verbose >= 1,
            coverage: false,
            decision_log: false,
            memory: self.keeper.keeps(),
            probes: args.probes == YesNo::Yes,
            free_stalls: args.free_stalls == YesNo::Yes,
        }
    }

    /// Ends the lease of a process, if it has one, for this reason.
    pub(super) fn end_lease(&mut self, process: ProcessId, why: Why) {
        let now = self.now();
        let Some(at) = self.leases.iter().position(|one| one.process == process) else {
            return;
        };
        let Some(lease) = self.leases.get_mut(at) else {
            return;
        };
        if !lease.ends(why) {
            return;
        }
        match lease.link {
            None => self.close(at),
            Some(link) => {
                lease.deadline.get_or_insert(now + END_TIME);
                if let Some(link) = self.sampler.link(link) {
                    link.leave();
                }
            }
        }
    }

    /// The lease of a slot.
    pub(super) fn lease_of(&mut self, link: LinkId) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|one| one.link == Some(link))
    }

    /// A slot holds nobody any more.
    pub(super) fn close_of(&mut self, link: LinkId, why: Why) {
        let mut leases = self.leases.iter_mut();
        if let Some(at) = leases.position(|one| one.link == Some(link)) {
            if let Some(lease) = self.leases.get_mut(at) {
                lease.ends(why);
            }
            self.close(at);
        }
    }

    /// A lease is over.
    fn close(&mut self, at: usize) {
        let now = self.now();
        self.is_urgent = true;
        let mut lease = self.leases.remove(at);
        lease.ended = Some((now, SystemTime::now()));
        let process = lease.process;
        self.scheduler.take(now, Event::LeaseEnded { process });
        if lease.link.is_some() {
            // What it has said is before that.
            self.reporter.forget(lease.who.pid);
            self.keeper.forget(lease.who.pid);
            self.leases_over += 1;
            self.counts.end(&lease);
            if let Some(known) = self.roster.of_mut(process) {
                known.leases += 1;
                known.cost += lease.cost;
            }
        }
        if lease.awaited > 0 {
            self.over.push(lease);
        } else {
            audit::tell_of(&lease, self.log);
        }
    }

    /// Lets a process alone for a while, as after a release by the watchdog.
    pub(super) fn rest(&mut self, process: ProcessId) {
        let instant = Instant::now();
        let now = self.now();
        if let Some(known) = self.roster.of_mut(process) {
            let pauses = known.pauses.get_or_insert_with(|| Pauses::new(instant));
            let until = now + pauses.begin(instant);
            self.scheduler.take(now, Event::Rests { process, until });
        }
    }

    /// Kills the tracer where a slot does not come to the end of a lease: that lets all go.
    pub(super) fn hurry_leases(&mut self) {
        let now = self.now();
        let late = |lease: &Lease| lease.deadline.is_some_and(|deadline| deadline <= now);
        if let Some(lease) = self.leases.iter_mut().find(|lease| late(lease)) {
            tracing::warn!(
                "the tracer is ended, since it does not let go of process {} ({})",
                lease.who.pid,
                lease.who.exe
            );
            lease.deadline = None;
            self.sampler.kill();
        }
    }
}
