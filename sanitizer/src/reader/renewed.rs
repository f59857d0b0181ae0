//! A reader that is started when it is needed, and anew after its end.

use std::{
    io,
    thread::sleep,
    time::{Duration, Instant},
};

use super::process::{LONGEST_END, Process, Program};
use crate::kernel::limits::{explained, is_shortage};

/// Where no reader can be started, it is not tried again for so long.
const RETRY: Duration = Duration::from_secs(10);

/// So many may be on their way to their ends: each has a descriptor.
const MOST_RETIRED: usize = 16;

/// What readers are for, in the words of messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Duty {
    /// What they read.
    pub(super) reads: &'static str,
    /// What comes of it that there is none.
    pub(super) without: &'static str,
}

/// That none could be started.
#[derive(Debug)]
struct Refusal {
    when: Instant,
    why: String,
    /// For want of descriptors or memory.
    is_short: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Renewed {
    program: Program,
    duty: Duty,
    process: Option<Process>,
    /// Those that were ended, and may not have come to their end yet.
    retired: Vec<Process>,
    refused: Option<Refusal>,
    /// CPU time of readers that are gone, ns.
    spent_ns: u64,
    has_told: bool,
}

impl Renewed {
    /// None is there yet.
    pub(super) const fn new(program: Program, duty: Duty) -> Self {
        Self {
            program,
            duty,
            process: None,
            retired: Vec::new(),
            refused: None,
            spent_ns: 0,
            has_told: false,
        }
    }

    /// CPU time that all of them have used, ns.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.spent_ns + self.process.as_ref().map_or(0, Process::cpu_ns)
    }

    /// Ends the one that is there.
    pub(super) fn rest(&mut self) {
        if let Some(process) = self.process.take() {
            self.spent_ns += process.cpu_ns();
        }
    }

    /// Ends one that was [taken](Self::take), and does not wait for its end.
    pub(super) fn retire_other(&mut self, mut process: Process) {
        if self.retired.len() >= MOST_RETIRED / 2 {
            self.part();
        }
        self.spent_ns += process.cpu_ns();
        process.kill();
        self.retired.push(process);
    }

    /// Gives away the one that is there. What it has used is not counted until it is retired.
    pub(super) const fn take(&mut self) -> Option<Process> {
        self.process.take()
    }

    /// Waits for the ends of those that were retired: most have come to them by now. Those that the kernel does not let end stay, so that somebody looks again.
    pub(super) fn part(&mut self) {
        let until = Instant::now() + LONGEST_END;
        loop {
            self.retired.retain_mut(|process| !process.is_gone());
            if self.retired.is_empty() || Instant::now() >= until {
                return;
            }
            sleep(Duration::from_millis(1));
        }
    }

    /// Whether the one that was there has ended when nobody had asked it anything: somebody has killed it, and that was no file's fault.
    pub(super) fn is_gone(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_gone)
    }

    /// The one that is there.
    pub(super) const fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// The same, started if there is none; nothing where it does not say until then that it is ready.
    pub(super) fn started(&mut self, until: Instant) -> Option<&mut Process> {
        self.started_while(until, &mut |_| false)
    }

    /// The same, in place of one that [is gone](Self::is_gone).
    pub(super) fn alive(&mut self, until: Instant) -> Option<&mut Process> {
        if self.is_gone() {
            self.rest();
        }
        self.started(until)
    }

    /// The same as long as it is [wanted](Process::hear_while).
    pub(super) fn started_while(
        &mut self,
        until: Instant,
        is_past: &mut dyn FnMut(u64) -> bool,
    ) -> Option<&mut Process> {
        if self.retired.len() >= MOST_RETIRED {
            self.part();
        }
        if self.process.is_none() && self.may_start() {
            self.start(until, is_past);
        }
        self.process.as_mut()
    }

    /// Whether it is tried to start one, should one be needed: it is not for some time after it could not be, nor as long as too many do not come to their ends.
    pub(super) fn may_start(&self) -> bool {
        let refused = self.refused.as_ref();
        self.retired.len() < MOST_RETIRED
            && refused.is_none_or(|refused| refused.when.elapsed() >= RETRY)
    }

    /// Why none can be started, where that is so.
    pub(super) fn refusal(&self) -> Option<String> {
        let why = &self.refused.as_ref()?.why;
        let reads = self.duty.reads;
        Some(format!(
            "the process that reads {reads} cannot be started: {why}"
        ))
    }

    /// Whether none can be started for want of descriptors or memory.
    pub(super) const fn is_short(&self) -> bool {
        matches!(&self.refused, Some(refused) if refused.is_short)
    }

    #[cfg(test)]
    pub(super) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    fn start(&mut self, until: Instant, is_past: &mut dyn FnMut(u64) -> bool) {
        let Duty { reads, without } = self.duty;
        match Process::start(&self.program, until, is_past) {
            Ok(process) => {
                if !self.has_told && !process.missing.is_empty() {
                    tracing::info!(
                        "the process that reads {reads} does without {}; `gwp-race doctor` tells more",
                        process.missing.join(", ")
                    );
                }
                self.has_told = true;
                self.refused = None;
                self.process = Some(process);
            }
            // Nobody wants it any more.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let is_new = self.refused.is_none();
                self.refused = Some(Refusal {
                    when: Instant::now(),
                    why: explained(&error),
                    is_short: is_shortage(&error),
                });
                if let Some(refusal) = self.refusal().filter(|_| is_new) {
                    tracing::warn!("{refusal}; until it can, {without}");
                }
            }
        }
    }
}
