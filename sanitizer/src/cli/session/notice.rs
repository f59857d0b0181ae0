//! What tracers say, and what is done about it.

use std::time::Duration;

use tracing::{debug, info, warn};

use crate::cli::heard::{Heard, hear};
use crate::cli::link::LinkId;
use crate::hunt::wire::{Ending, Notice};
use crate::kernel::process::thread_cpu_time_ns;

use super::{Happening, Session, is_alive, link_of};

impl Session {
    pub(super) fn on_message(&mut self, link: LinkId, notice: Notice) -> Option<Happening> {
        match (notice, self.watched.of(link)) {
            (Notice::Ready { cpu_ns }, _) => self.on_ready(link, Duration::from_nanos(cpu_ns)),
            (notice, Some(pid)) => self.on_notice(pid, notice),
            (Notice::WithoutGates(refusal), None) => {
                self.warn_of_missing_gates(&refusal);
                None
            }
            (Notice::Failed(text), None) => {
                warn!(
                    "processes are not watched for a while, since no tracer could be made ready: {text}"
                );
                None
            }
            (notice, None) => {
                debug!("of no process: {notice:?}");
                None
            }
        }
    }

    fn on_notice(&mut self, pid: u32, notice: Notice) -> Option<Happening> {
        if let Notice::Modules(modules, ..) = &notice {
            self.keeper.modules(pid, modules);
        }
        let notice = match hear(&self.reporter, pid, notice) {
            Heard::Done | Heard::Race { is_taken: true } => return None,
            Heard::Race { is_taken: false } => {
                self.dropped += 1;
                if let Some(link) = self.link_of(pid) {
                    link.tell_again();
                }
                return None;
            }
            Heard::Else(notice) => *notice,
        };
        match notice {
            // See `on_message`.
            Notice::Ready { .. } => {}
            Notice::Seized => {
                self.launches = false;
                return Some(Happening::Seized);
            }
            Notice::Watching {
                analyzed_modules,
                cpu_ns,
            } => {
                let cpu = Duration::from_nanos(cpu_ns);
                if let Some(process) = self.watched.get_mut(pid) {
                    process.was_watched = true;
                }
                self.has_begun(pid, Some(cpu));
                if pid == self.first {
                    self.first_was_watched = true;
                    self.warn_of_search();
                }
                if analyzed_modules > 0 {
                    self.has_analyzed = true;
                    info!("watching process {pid}; modules with metadata: {analyzed_modules}");
                } else if pid == self.first && self.descendants.is_none() {
                    self.warn_of_no_metadata();
                }
                return (pid == self.first).then_some(Happening::Watching);
            }
            Notice::WithoutGates(refusal) => self.warn_of_missing_gates(&refusal),
            Notice::DecisionLog(records) => {
                if let Some(log) = &mut self.decision_log {
                    log.add(pid, &records);
                }
            }
            Notice::Remembers => {
                let link = link_of(&self.watched, &mut self.links, pid);
                self.keeper.tell_more(pid, link);
            }
            Notice::Gained(gained) => self.keeper.gained(pid, gained),
            Notice::Statistics(statistics) => {
                self.watched.count(pid, statistics);
                self.charge_own_work(pid);
                // By now it would have started what it is there to start.
                if pid == self.first {
                    self.warn_of_no_metadata();
                }
            }
            Notice::Ended(ending, statistics) => {
                self.watched.count(pid, statistics);
                self.says_farewell(pid);
                match ending {
                    Ending::FatalSignal(signal) => {
                        debug!("process {pid} was released before signal {signal}");
                        self.pause(pid);
                    }
                    // Its tracer was wrong about that.
                    Ending::TargetEnded if is_alive(pid) => self.pause(pid),
                    Ending::TargetEnded | Ending::Stopped | Ending::Spent => {}
                }
            }
            Notice::Failed(text) => {
                self.says_farewell(pid);
                return self.on_failure(pid, text);
            }
            // `hear` is done with them, but for breakpoints: of those that are taken tells the failure that follows, or the number of threads.
            _ => {}
        }
        None
    }

    /// Charges what this thread has worked since the last time to a process, which has just told what it has done meanwhile. What
    /// it took to get here is no cost of sampling.
    fn charge_own_work(&mut self, pid: u32) {
        let used = thread_cpu_time_ns();
        if let (Some(charged), Some(link)) = (self.charged_ns.replace(used), self.link_of(pid)) {
            link.charge(used.saturating_sub(charged));
        }
    }
}
