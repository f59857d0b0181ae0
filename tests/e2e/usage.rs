//! What gwp-race's own processes use.

use std::{fs, time::Instant};

use gwp_race_tests::children::{descendants, status_field};
use nix::unistd::Pid;

/// What they use, summed up.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Seconds since the start of the test.
    pub seconds: f64,
    /// Processes.
    pub processes: usize,
    /// What they take of the machine's memory, KiB: of each page the share of each that has it (PSS), so that the program's own code, which they all
    /// have, counts once.
    pub pss_kib: u64,
    /// Open descriptors.
    pub fds: usize,
}

/// Looks at gwp-race's processes that are for the program itself: those for its children are
/// as short-lived as they are.
pub fn look(gwp_race: Pid, start: Instant) -> Usage {
    let names = [
        "gwp-race",
        "gwp-race-guard",
        "gwp-race-tracer",
        "gwp-race-reader",
    ];
    let all = std::iter::once(gwp_race).chain(descendants(gwp_race));
    let own: Vec<Pid> = all
        .filter(|&pid| status_field(pid, "Name").is_some_and(|name| names.contains(&&*name)))
        .collect();
    let pss = |&pid: &Pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let field = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        field.split_whitespace().next()?.parse::<u64>().ok()
    };
    let fds = |&pid: &Pid| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    Usage {
        seconds: start.elapsed().as_secs_f64(),
        processes: own.len(),
        pss_kib: own.iter().filter_map(pss).sum(),
        fds: own.iter().map(fds).sum(),
    }
}
