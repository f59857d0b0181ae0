//! What the daemon does at a moment: for people as a table, and for programs.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{cli::size::size, report::clean::clean};

/// The widths of the columns of names.
const NAME: usize = 24;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Status {
    /// The daemon's process.
    pub pid: u32,
    /// When it was started, RFC 3339 in UTC.
    pub since: String,
    /// Why no lease begins, where that is so: `command`, `file`, `pressure`, `breakpoints`, `memory` or `tracer`.
    pub held: Option<String>,
    /// Seconds until that is over, where it is known: the end of a command's pause, or of making room for another tool.
    pub held_s: Option<f64>,
    /// Processes that can be watched at the same time, if the tracer is there.
    pub slots: usize,
    /// The same now.
    pub slots_usable: usize,
    /// Leases that are over.
    pub leases: u64,
    /// Different races that were reported.
    pub races: u64,
    /// Seconds that leases have cost.
    pub cost_s: f64,
    /// Seconds of CPU time that gwp-race has used otherwise.
    pub overhead_s: f64,
    /// Seconds that the machine's purse holds.
    pub purse_s: f64,
    /// Memory that all processes of gwp-race take together, bytes (PSS).
    pub memory_bytes: u64,
    /// Builds that are left alone since they did not bear it.
    pub builds_left_alone: usize,
    /// Processes that may be watched.
    pub processes: Vec<ProcessStatus>,
}

/// A process that may be watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessStatus {
    /// Its id.
    pub pid: u32,
    /// When it was started, in clock ticks after boot.
    pub start_ticks: u64,
    /// Its name, as the kernel keeps it.
    pub comm: String,
    /// The program's file, as the process sees it.
    pub exe: String,
    /// The effective user, as this machine counts them.
    pub user: u32,
    /// Its control group.
    pub cgroup: String,
    /// The id of its container.
    pub container: Option<String>,
    /// The id of its pod, from the names of control groups.
    pub pod: Option<String>,
    /// What decides that it is watched, as `decided_by`; of a rule with its line (`rule:21`).
    pub rule: String,
    /// The lease that it has.
    pub lease: Option<LeaseStatus>,
    /// Leases that it has had before.
    pub leases: u64,
    /// Different races that were first found in it.
    pub races: u64,
    /// Seconds that its leases have cost.
    pub cost_s: f64,
    /// Seconds that its purse holds.
    pub purse_s: f64,
}

/// A lease that goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LeaseStatus {
    /// Nothing is done, for comparison.
    pub control: bool,
    /// Seconds since it began.
    pub lasted_s: f64,
    /// Seconds that it costs at most.
    pub most_s: f64,
    /// Seconds that it has cost.
    pub cost_s: f64,
    /// Functions of which the tracer was told what was learned before.
    pub remembered: usize,
    /// Stalls.
    pub stalls: u64,
}

impl Status {
    /// As a table: those first that are watched, then by what they have cost.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let leased = self.processes.iter().filter(|one| one.lease.is_some());
        // A string takes all that is written to it.
        let _ = writeln!(
            text,
            "gwp-race fleet, process {}, since {}: {}",
            self.pid,
            clean(&self.since),
            self.state()
        );
        let _ = writeln!(
            text,
            "processes {}, slots taken {} of {}; leases {}, races {}, builds left alone {}; cost {:.1} s, otherwise {:.1} s, purse {:.2} s; memory {}",
            self.processes.len(),
            leased.count(),
            self.slots,
            self.leases,
            self.races,
            self.builds_left_alone,
            self.cost_s,
            self.overhead_s,
            self.purse_s,
            size(self.memory_bytes),
        );
        let _ = writeln!(
            text,
            "{:>7}  {:<NAME$}  {:<10}  {:>6}  {:>5}  {:>8}  {:>8}",
            "PID", "PROGRAM", "LEASE", "LEASES", "RACES", "COST", "PURSE"
        );
        let mut processes: Vec<_> = self.processes.iter().collect();
        processes.sort_by(|one, other| {
            let order = other.lease.is_some().cmp(&one.lease.is_some());
            order.then(other.cost_s.total_cmp(&one.cost_s))
        });
        for one in processes {
            let lease = match &one.lease {
                Some(lease) if lease.control => format!("control {:.0}", lease.lasted_s),
                Some(lease) => format!("{:.0} s", lease.lasted_s),
                None => "-".to_owned(),
            };
            let _ = writeln!(
                text,
                "{:>7}  {:<NAME$}  {lease:<10}  {:>6}  {:>5}  {:>7.2}s  {:>7.2}s",
                one.pid,
                clean(&one.exe),
                one.leases,
                one.races,
                one.cost_s,
                one.purse_s,
            );
        }
        text
    }

    fn state(&self) -> String {
        let held = match self.held.as_deref() {
            None => return "watching".to_owned(),
            Some("command") => "paused",
            Some("file") => "paused by a file",
            Some("pressure") => "not watching: the machine is short of processors or memory",
            Some("breakpoints") => "not watching: another tool has taken breakpoints",
            Some("memory") => "watching nobody anew: gwp-race takes more memory than it may",
            Some("tracer") => "not watching: the tracer is being started",
            Some(other) => return clean(other).into_owned(),
        };
        match self.held_s {
            Some(seconds) => format!("{held}, for another {seconds:.0} s"),
            None => held.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that those who are watched come first, then those who have cost most, and that no name breaks a line.
    #[test]
    fn a_table() {
        let process = |pid, cost_s, lease| ProcessStatus {
            pid,
            exe: format!("/srv/{pid}\nx"),
            cost_s,
            lease,
            ..ProcessStatus::default()
        };
        let lease = LeaseStatus {
            lasted_s: 12.4,
            ..LeaseStatus::default()
        };
        let mut status = Status {
            processes: vec![
                process(1, 2.0, None),
                process(2, 3.0, None),
                process(3, 1.0, Some(lease)),
            ],
            slots: 4,
            ..Status::default()
        };
        let text = status.text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(lines[0].ends_with(": watching"));
        assert!(lines[1].starts_with("processes 3, slots taken 1 of 4;"));
        let pids = lines[3..]
            .iter()
            .map(|line| line.split_whitespace().next().unwrap());
        assert_eq!(pids.collect::<Vec<_>>(), ["3", "2", "1"]);
        assert!(lines[3].contains("12 s"));
        (status.held, status.held_s) = (Some("command".to_owned()), Some(3600.0));
        assert!(status.text().contains(": paused, for another 3600 s\n"));
        (status.held, status.held_s) = (Some("breakpoints".to_owned()), Some(44.6));
        let text = status.text();
        let told = ": not watching: another tool has taken breakpoints, for another 45 s\n";
        assert!(text.contains(told), "{text}");
        (status.held, status.held_s) = (Some("memory".to_owned()), None);
        status.memory_bytes = 151 << 20;
        let text = status.text();
        assert!(text.contains("takes more memory than it may\n"), "{text}");
        assert!(text.contains("; memory 151MiB\n"), "{text}");
    }
}
