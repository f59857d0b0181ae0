//! What the tracer says, and its end.

use std::time::Duration;

use tracing::{debug, info, warn};

use super::{
    Daemon, audit,
    lease::{Counted, Why},
    leases::FORGET_TIME,
};
use crate::{
    cli::{
        heard::{Heard, answer, hear},
        keeper::Recalled,
        link::{Death, LinkId, tracer_died},
        reporter::{Explained, Fate},
    },
    fleet::schedule::{Event, Reason},
    hunt::{
        watchdog::RELEASED,
        wire::{Ending, Notice, Statistics},
    },
    kernel::settings::mend_gates,
    report::{build_name, digits},
};

impl Daemon {
    /// Takes in what a slot says.
    pub(super) fn hear(&mut self, link: LinkId, notice: Notice) {
        let Some(lease) = self.lease_of(link) else {
            self.hear_of_nobody(link, notice);
            return;
        };
        let pid = lease.who.pid;
        if let Notice::Modules(modules, _, exe) = &notice {
            let file = modules.iter().find(|module| module.path == *exe);
            let id = file.map(|file| digits(&file.build_id));
            lease.build = file.map(|_| build_name(exe, id.as_deref().filter(|id| !id.is_empty())));
        }
        if let Notice::Modules(modules, ..) = &notice {
            self.keeper.modules(pid, modules);
        }
        match hear(&self.reporter, pid, notice) {
            Heard::Done => {}
            Heard::Race { is_taken } => {
                if let Some(lease) = self.lease_of(link) {
                    lease.caught += 1;
                    lease.awaited += u64::from(is_taken);
                }
                if let (false, Some(link)) = (is_taken, self.sampler.link(link)) {
                    link.tell_again();
                }
            }
            Heard::Else(notice) => self.hear_of_lease(link, *notice),
        }
    }

    fn hear_of_nobody(&mut self, link: LinkId, notice: Notice) {
        match notice {
            Notice::Ready { cpu_ns } => {
                self.charge_overhead(Duration::from_nanos(cpu_ns));
                self.sampler.is_ready(link);
                self.is_urgent = true;
            }
            Notice::WithoutGates(refusal) => self.warn_of_missing_gates(&refusal),
            Notice::Failed(text) => warn!("no tracer could be made ready: {text}"),
            // What it is may be a race, with what was in memory.
            notice => debug!("of no process: {:?}", std::mem::discriminant(&notice)),
        }
    }

    /// The tracer of a process is told what is remembered of its modules.
    pub(super) fn remember(&mut self, recalled: Recalled) {
        let mut leases = self.leases.iter_mut();
        let lease = leases.find(|one| one.who.pid == recalled.pid && one.link.is_some());
        if let Some(lease) = lease {
            let link = lease.link.and_then(|link| self.sampler.link(link));
            lease.remembered += self.keeper.tell(recalled, link);
        }
    }

    /// What is not about a finding.
    fn hear_of_lease(&mut self, link: LinkId, notice: Notice) {
        let now = self.now();
        let Some(lease) = self.lease_of(link) else {
            return;
        };
        let (process, pid) = (lease.process, lease.who.pid);
        match notice {
            Notice::Ready { cpu_ns } => {
                self.charge_overhead(Duration::from_nanos(cpu_ns));
                self.sampler.is_ready(link);
                self.close_of(link, Why::ProcessEnded);
            }
            Notice::Watching { cpu_ns, .. } => self.charge_overhead(Duration::from_nanos(cpu_ns)),
            Notice::WithoutGates(refusal) => self.warn_of_missing_gates(&refusal),
            Notice::Remembers => self.keeper.tell_more(pid, self.sampler.link(link)),
            Notice::Gained(gained) => self.keeper.gained(pid, gained),
            Notice::Statistics(statistics) => self.count(link, &statistics),
            Notice::Ended(ending, statistics) => {
                self.count(link, &statistics);
                self.sum.add(&statistics);
                if let Some(lease) = self.lease_of(link) {
                    lease.deadline = Some(now + FORGET_TIME);
                    match ending {
                        Ending::FatalSignal(_) => drop(lease.ends(Why::FatalSignal)),
                        Ending::TargetEnded => drop(lease.ends(Why::ProcessEnded)),
                        Ending::Spent => drop(lease.ends(Why::Scheduled(Reason::Spent))),
                        Ending::Stopped => {}
                    }
                }
                if matches!(ending, Ending::FatalSignal(_)) {
                    self.rest(process);
                }
            }
            Notice::Failed(text) => {
                info!("process {pid}: {text}");
                lease.said = Some(text);
                lease.deadline = Some(now + FORGET_TIME);
                if lease.ends(Why::Failed) {
                    self.rest(process);
                }
            }
            Notice::ByProcessor(is_by_processor) => {
                if let Some(lease) = self.lease_of(link) {
                    lease.is_by_processor = is_by_processor;
                }
            }
            Notice::BreakpointsTaken => {
                self.end_lease(process, Why::Scheduled(Reason::Breakpoints));
                self.rest(process);
                if self.contention.refused(process, now) {
                    self.make_room("has the breakpoints");
                }
            }
            // `hear` is done with what is not for a command to know.
            _ => {}
        }
    }

    /// A lease has cost something.
    fn count(&mut self, link: LinkId, statistics: &Statistics) {
        let now = self.now();
        let Some(lease) = self.lease_of(link) else {
            return;
        };
        let (process, pid) = (lease.process, lease.who.pid);
        let Counted {
            cost,
            is_new,
            expected,
        } = lease.count(statistics);
        self.cost += cost;
        // Its purse earns meanwhile.
        self.look_at_cpu(process, pid);
        self.is_urgent = true;
        let event = Event::Charged {
            process,
            cost,
            is_new,
            expected,
        };
        self.scheduler.take(now, event);
    }

    /// A race was explained.
    pub(super) fn explained(&mut self, explained: &Explained) {
        let now = self.now();
        let is_of =
            |lease: &&mut super::lease::Lease| lease.who.pid == explained.pid && lease.awaited > 0;
        // They are explained in the order in which they were caught.
        let mut leases = self.over.iter_mut().chain(&mut self.leases);
        let lease = leases.find(is_of);
        let is_new = matches!(explained.fate, Fate::Reported(_));
        let mut owner = None;
        if let Some(lease) = lease {
            lease.awaited -= 1;
            lease.new += u64::from(is_new);
            owner = Some((lease.process, lease.link, lease.ended.is_some()));
        }
        self.races += u64::from(is_new);
        match owner {
            Some((process, link, false)) => {
                if let Some(link) = link.and_then(|link| self.sampler.link(link)) {
                    answer(link, explained);
                }
                if is_new {
                    let cost = Duration::ZERO;
                    let event = Event::Charged {
                        process,
                        cost,
                        is_new,
                        expected: 0.0,
                    };
                    self.scheduler.take(now, event);
                }
            }
            _ => self.charge_overhead(Duration::from_nanos(explained.cpu_ns)),
        }
        if let (true, Some((process, ..))) = (is_new, owner)
            && let Some(known) = self.roster.of_mut(process)
        {
            known.races += 1;
        }
        let log = self.log;
        for lease in self.over.extract_if(.., |lease| lease.awaited == 0) {
            audit::tell_of(&lease, log);
        }
    }

    /// A slot is gone: so is the tracer, which has let all go.
    pub(super) async fn lose(&mut self, link: LinkId) {
        if self.sampler.is_renewed() {
            self.is_urgent |= self.sampler.has_stopped(link).await;
            return;
        }
        let Some(death) = self.sampler.has_gone(link).await else {
            return;
        };
        let text = if death == Death::Tracer(RELEASED) {
            "the watchdog has ended the tracer, which held a thread for too long".to_owned()
        } else {
            tracer_died(&death)
        };
        warn!("{text}");
        let held: Vec<_> = self
            .leases
            .iter()
            .filter_map(|lease| Some((lease.link?, lease.process)))
            .collect();
        for (link, process) in held {
            self.close_of(link, Why::TracerDied);
            self.rest(process);
        }
    }

    /// Said once: all slots have the same rights.
    fn warn_of_missing_gates(&mut self, refusal: &str) {
        debug!("{refusal}");
        if !std::mem::replace(&mut self.gates_are_missing, true) {
            warn!(
                "eBPF is not permitted here: programs of one's own alone are watched, by the clock strategy, which finds less at the same cost; for the gates, {}",
                mend_gates()
            );
        }
    }
}
