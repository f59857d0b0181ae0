//! Looking who uses bytes, without holding anybody: after a stall that nobody has ended, or in its place, the watchpoints stay where they are for a while.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::OWN_ACCESSES;

use crate::addr::RuntimeAddr;
use crate::hunt::bounds::longest_stall;
use crate::hunt::strategy::{Conflict, Outcome};
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;

use super::Engine;
use super::decisions::Way;

/// Bytes that stay watched without holding anybody.
#[derive(Clone, Debug)]
pub(super) struct Look {
    site: u64,
    /// How it came to that.
    way: Way,
    pub(super) until: u64,
    /// The thread that was stalled there held a lock for which others waited. It may well use the bytes some times
    /// before one of them gets it.
    is_locked: bool,
    /// Who used them since the thread was claimed, where they were watched by then.
    pub(super) early: Vec<Conflict>,
}

impl Engine {
    /// Leaves the bytes of a stall that nobody has ended watched if the strategy wants to know who uses them; false if
    /// not.
    pub(super) fn begin_probe(
        &mut self,
        site: u64,
        tid: u32,
        address: RuntimeAddr,
        is_locked: bool,
    ) -> bool {
        // Without gates a stall is told from what came before it by the bytes' not being watched.
        if self.substitute.is_some() {
            return false;
        }
        let Some(time) = self.strategy.probe(site) else {
            return false;
        };
        self.gates.control().site.at.store(0, SeqCst);
        let now = self.begin_sharing(u64::from(tid), address);
        self.waiting.shared = Some(Look {
            site,
            way: self.decisions.way,
            until: now + nanos(time),
            is_locked,
            early: Vec::new(),
        });
        true
    }

    /// Has the gate tell from now on who else than this thread uses the bytes at an address; the time.
    pub(super) fn begin_sharing(&mut self, tid: u64, address: RuntimeAddr) -> u64 {
        let control = self.gates.control();
        let sharing = &control.sharing;
        sharing.ahead.store(0, SeqCst);
        sharing.tid.store(tid, SeqCst);
        control.stall.traps.store(0, SeqCst);
        sharing.own.store(0, SeqCst);
        let now = monotonic_ns();
        sharing.since_ns.store(now, SeqCst);
        sharing.others.store(0, SeqCst);
        sharing.until_ns.store(u64::MAX, SeqCst);
        for [user, ..] in &sharing.users {
            user.store(0, SeqCst);
        }
        sharing.user_count.store(0, SeqCst);
        self.keep_results(address);
        control.sharing.address.store(address.0, SeqCst);
        self.waiting.armed = true;
        now
    }

    /// Who was seen to use them, the first one first.
    pub(super) fn users(&self) -> Vec<Conflict> {
        let users = self.users_by_thread().into_iter();
        users.map(|(user, _)| user).collect()
    }

    /// The same, with the threads, where those are of interest.
    pub(super) fn users_by_thread(&self) -> Vec<(Conflict, u64)> {
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

    /// Enough was seen of who uses the bytes that are watched.
    pub(super) fn end_sharing(&mut self) {
        if self.end_ahead() {
            return;
        }
        self.end_probe();
        let is_watching = self.waiting.watching.is_some();
        self.end_watching();
        if is_watching {
            // What is written all the time is not watched all the time.
            self.pause();
        }
    }

    /// Tells the strategy what was seen of the bytes that stayed watched.
    pub(super) fn end_probe(&mut self) {
        let Some(Look {
            site,
            way,
            is_locked,
            mut early,
            ..
        }) = self.waiting.shared.take()
        else {
            return;
        };
        let address = self.gates.control().sharing.address.load(SeqCst);
        self.disarm_site();
        early.extend(self.users());
        if let Some((first, others)) = early.split_first() {
            self.learned.lines.shared(address);
            if first.distance <= longest_stall(&self.setup) {
                self.learned.quiet.forget(address);
            }
            self.came_to(way, site, Outcome::Shared(*first));
            for other in others {
                self.strategy.uses(*other);
            }
        } else if self.gates.control().sharing.own.load(SeqCst) >= OWN_ACCESSES && !is_locked {
            self.came_to(way, site, Outcome::Private);
        } else {
            self.came_to(way, site, Outcome::Unused);
        }
    }
}
