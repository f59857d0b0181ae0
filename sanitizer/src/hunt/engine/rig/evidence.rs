//! Who has accessed the bytes that are watched, as the gates tell, and what they are to keep.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::{HITS, phase};

use crate::addr::RuntimeAddr;
use crate::hunt::strategy::Conflict;
use crate::hunt::watched::Watched;
use crate::kernel::KernelError;
use crate::kernel::gates::Hit;
use crate::kernel::perf::WatchKind;
use crate::kernel::process::{monotonic_ns, nanos};

use super::Rig;

/// A gate that is writing a record needs microseconds; after this its record is given up.
const RECORD_TIME: Duration = Duration::from_millis(1);

impl Rig {
    /// Arms what is not armed yet for the bytes of a stall.
    pub fn watch_stalled(
        &mut self,
        watched: &Watched,
        is_watched: bool,
    ) -> Result<WatchKind, KernelError> {
        let watchpoints = self.arming.watchpoints();
        if is_watched {
            watchpoints.unbreak();
            return Ok(watched.kind);
        }
        watchpoints.watch(watched.address, watched.len, watched.kind)
    }

    /// Has the gate keep accesses by libraries, where they may be results that the program has called for.
    pub fn keep_results(&self, watched: RuntimeAddr) {
        let may_hold_results = self.modules.may_hold_results(watched.0);
        let keep = &self.gates.control().evidence.keep_results;
        keep.store(u64::from(may_hold_results), SeqCst);
    }

    /// The hits of a stall, when the gates that were writing them are done.
    pub fn complete_hits(&self, generation: u64) -> Vec<Hit> {
        let until = monotonic_ns() + RECORD_TIME.as_nanos() as u64;
        loop {
            let claimed = self
                .gates
                .control()
                .stall
                .hits
                .load(SeqCst)
                .min(HITS as u64);
            let hits = self.gates.hits(generation);
            if hits.len() as u64 >= claimed || monotonic_ns() > until {
                return hits;
            }
            std::thread::yield_now();
        }
    }

    /// Others who were seen to access the bytes since the claim of a thread that is only looked at.
    pub fn early_users(&self, generation: u64, since: u64) -> Vec<Conflict> {
        let hits = self
            .complete_hits(generation)
            .into_iter()
            .filter(|hit| hit.early);
        hits.map(|hit| Conflict {
            behind: hit.regs.rip,
            distance: Duration::from_nanos(hit.time_ns.saturating_sub(since)),
        })
        .collect()
    }

    /// Who was seen to use them, the first one first.
    pub fn users(&self) -> Vec<Conflict> {
        let users = self.users_by_thread().into_iter();
        users.map(|(user, _)| user).collect()
    }

    /// The same, with the threads, where those are of interest.
    pub fn users_by_thread(&self) -> Vec<(Conflict, u64)> {
        let users = self.gates.control().sharing.users.iter();
        let mut users: Vec<_> = users
            .map(|[behind, after_ns, by]| {
                let user = Conflict {
                    // Written last of what the gate tells of an access.
                    behind: behind.load(SeqCst),
                    distance: Duration::from_nanos(after_ns.load(SeqCst)),
                };
                (user, by.load(SeqCst))
            })
            .filter(|(user, _)| user.behind != 0)
            .collect();
        users.sort_by_key(|(user, _)| user.distance);
        users
    }

    /// Whether a thread that was let go makes its access at once, while another one waits for its end.
    pub fn is_confirmed_soon(&self) -> bool {
        const TIME: Duration = Duration::from_millis(2);
        // It may need the processor on which this is executed, at a higher priority.
        const PAUSE: Duration = Duration::from_micros(50);
        let until = monotonic_ns() + nanos(TIME);
        // Without gates its stop would have to be taken.
        while self.gates.phase().is(phase::CONFIRM) && monotonic_ns() < until && self.has_gates() {
            std::thread::sleep(PAUSE);
        }
        self.gates.phase().is(phase::CONFIRMED)
    }
}
