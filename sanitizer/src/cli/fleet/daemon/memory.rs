//! What all of gwp-race takes of the machine's memory, and whether that is more than it may: then no lease begins, and a tracer that has had leases ends with the last of them, since it is
//! there that most is kept of what was watched. Another one is started in its place.

use std::time::Duration;

use nix::unistd::Pid;
use tracing::{info, warn};

use super::Daemon;
use crate::{
    cli::size::size,
    fleet::schedule::Event,
    tracee::memory_use::{all_below, memory_of},
};

/// How often it is looked: the kernel walks all pages that are mapped, which takes 3 ms for 100 MiB.
const PERIOD: Duration = Duration::from_secs(10);

/// What was seen by the last look.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    most: u64,
    taken: u64,
    /// When it is looked again.
    next: Duration,
    was_told: bool,
}

impl Memory {
    /// It may be so many bytes. Nobody has looked yet.
    pub const fn new(most: u64) -> Self {
        Self {
            most,
            taken: 0,
            next: Duration::ZERO,
            was_told: false,
        }
    }

    /// Bytes that are taken.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether that is more than it may be.
    pub const fn is_full(&self) -> bool {
        self.taken > self.most
    }

    /// Whether it is time to look.
    fn is_due(&mut self, now: Duration) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.next = now + PERIOD;
        }
        is_due
    }

    /// So much is taken. Whether it is more than it may be, where that has changed.
    fn take(&mut self, bytes: u64) -> Option<bool> {
        let was_full = self.is_full();
        self.taken = bytes;
        (self.is_full() != was_full).then_some(self.is_full())
    }
}

impl Daemon {
    /// Looks at what is taken, where it is time to, and gives some of it back.
    pub(super) fn look_at_memory(&mut self) {
        let now = self.now();
        if self.memory.is_due(now) {
            let own = all_below(Pid::this());
            let taken = own.into_iter().filter_map(memory_of).sum();
            if let Some(is_full) = self.memory.take(taken) {
                self.scheduler.take(now, Event::Full { is_full });
                self.tell_memory(is_full);
            }
        }
        let is_leased = self.leases.iter().any(|lease| lease.link.is_some());
        if self.memory.is_full() && !is_leased {
            self.sampler.renew(std::time::Instant::now());
        }
    }

    /// Once as a warning: where it comes again, it does so all the time.
    fn tell_memory(&mut self, is_full: bool) {
        let Memory { most, taken, .. } = self.memory;
        let text = format!(
            "gwp-race takes {} of memory; memory of [limits] is {}",
            size(taken),
            size(most)
        );
        if !is_full {
            info!("{text}: processes are watched again");
        } else if std::mem::replace(&mut self.memory.was_told, true) {
            info!("{text}: nobody is watched anew until it is less");
        } else {
            warn!(
                "{text}: nobody is watched anew until it is less, and the tracer is started anew; if that comes often, raise the limit"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each change is told once, that as much as it may be is not too much, and that it is looked from time to time.
    #[test]
    fn changes() {
        let mut memory = Memory::new(100);
        let told = [100, 101, 102, 100, 0].map(|taken| memory.take(taken));
        assert_eq!(told, [None, Some(true), None, Some(false), None]);
        let at = |second| Duration::from_secs(second);
        let due = [0, 1, 9, 10, 11, 100].map(|second| memory.is_due(at(second)));
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
