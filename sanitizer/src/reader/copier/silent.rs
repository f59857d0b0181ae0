//! File systems that have not answered.

use std::time::{Duration, Instant};

use crate::reader::process::Process;

/// One is not asked again for so long, nor as long as whoever has asked it waits still.
const REST: Duration = Duration::from_secs(60);
/// So many may wait: then no other one is asked either.
const MOST: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Silent(Vec<Waits>);

/// One who was killed and may wait still.
#[derive(Debug)]
struct Waits {
    device: u64,
    since: Instant,
    process: Process,
}

impl Silent {
    /// A file system has not answered this process, which has been killed.
    pub(super) fn add(&mut self, device: u64, process: Process, now: Instant) {
        self.0.push(Waits {
            device,
            since: now,
            process,
        });
    }

    /// Whether a file system may be asked.
    pub(super) fn may_ask(&mut self, device: u64, now: Instant) -> bool {
        self.0.retain_mut(|waits| {
            now.saturating_duration_since(waits.since) < REST || !waits.process.is_gone()
        });
        self.0.len() < MOST && self.0.iter().all(|waits| waits.device != device)
    }
}
