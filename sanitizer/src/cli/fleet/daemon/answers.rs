//! What is said to whoever asks the daemon.

use std::time::Duration;

use super::{Daemon, lease::Lease, lease::Why};
use crate::cli::{
    fleet::{
        control::{Answer, Question},
        status::{LeaseStatus, ProcessStatus, Status},
    },
    messages::tell,
};

impl Daemon {
    /// Answers a question; what it asks for is done with the next step.
    pub(super) fn answer(&mut self, question: Question) -> Answer {
        let now = self.now();
        match question {
            Question::Status => Answer::Status(Box::new(self.status())),
            Question::Pause(time) => {
                self.pause.pause(time.map(|time| now.saturating_add(time)));
                self.tell_pause();
                Answer::Done(match time {
                    Some(time) => format!(
                        "Nobody is watched for {}.",
                        humantime::format_duration(time)
                    ),
                    None => "Nobody is watched until `gwp-race fleet resume`.".to_owned(),
                })
            }
            Question::Resume => {
                self.pause.resume();
                self.tell_pause();
                if self.pause.is_by_file() {
                    return Answer::Refused(format!(
                        "nobody is watched as long as {} is there: remove it",
                        self.config.places.pause.display()
                    ));
                }
                Answer::Done("Processes are watched again.".to_owned())
            }
            Question::Ignore(pid) => self.ignore(pid),
        }
    }

    fn ignore(&mut self, pid: u32) -> Answer {
        let Some(known) = self.roster.get(pid) else {
            return Answer::Refused(format!(
                "process {pid} is none of those that may be watched: `gwp-race fleet status` lists them"
            ));
        };
        let who = std::rc::Rc::clone(&known.who);
        self.roster.ignore(&who);
        self.forget(pid, Why::Ignored);
        self.is_urgent = true;
        tell(&format!(
            "process {pid} ({}) is let alone: somebody has said `gwp-race fleet ignore`",
            who.exe
        ));
        Answer::Done(format!("Process {pid} ({}) is let alone.", who.exe))
    }

    /// Why no lease begins, in a word.
    pub(super) fn held(&mut self) -> Option<&'static str> {
        let now = self.now();
        match () {
            () if self.pause.is_by_file() => Some("file"),
            () if self.pause.is_paused(now) => Some("command"),
            () if self.is_pressed => Some("pressure"),
            () if self.scheduler.makes_room(now).is_some() => Some("breakpoints"),
            () if self.memory.is_full() => Some("memory"),
            () if self.sampler.usable() == 0 => Some("tracer"),
            () => None,
        }
    }

    fn status(&mut self) -> Status {
        let now = self.now();
        let held = self.held();
        let held_for = match held {
            Some("breakpoints") => self.scheduler.makes_room(now),
            _ => self.pause.left(now),
        };
        let all: Vec<_> = self.roster.all().map(|known| known.process).collect();
        let purses: Vec<_> = all
            .into_iter()
            .map(|process| self.scheduler.purse(now, process).as_secs_f64())
            .collect();
        let leases = &self.leases;
        let processes = self.roster.all().zip(purses).map(|(known, purse_s)| {
            let lease = leases.iter().find(|lease| lease.process == known.process);
            ProcessStatus {
                pid: known.who.pid,
                start_ticks: known.who.start_ticks,
                comm: known.who.comm.clone(),
                exe: known.who.exe.clone(),
                user: known.who.user,
                cgroup: known.who.cgroup.clone(),
                container: known.who.container.clone(),
                pod: known.who.pod.clone(),
                rule: known.who.rule.clone(),
                lease: lease.map(|lease| lease_status(lease, now)),
                leases: known.leases,
                races: known.races,
                cost_s: known.cost.as_secs_f64(),
                purse_s,
            }
        });
        let processes = processes.collect();
        let started = humantime::format_rfc3339_seconds(self.started_at);
        Status {
            pid: std::process::id(),
            since: started.to_string(),
            held: held.map(str::to_owned),
            held_s: held_for.map(|left| left.as_secs_f64()),
            slots: self.config.settings.leases,
            slots_usable: self.sampler.usable(),
            leases: self.leases_over,
            races: self.races,
            cost_s: self.cost.as_secs_f64(),
            overhead_s: self.overhead.as_secs_f64(),
            purse_s: self.scheduler.purse_of_machine(now).as_secs_f64(),
            memory_bytes: self.memory.taken(),
            builds_left_alone: self.builds_left_alone,
            processes,
        }
    }
}

fn lease_status(lease: &Lease, now: Duration) -> LeaseStatus {
    LeaseStatus {
        control: lease.link.is_none(),
        lasted_s: lease.lasted(now).as_secs_f64(),
        most_s: lease.most.as_secs_f64(),
        cost_s: lease.cost.as_secs_f64(),
        remembered: lease.remembered,
        stalls: lease.stalls,
    }
}
