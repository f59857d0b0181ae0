//! Looking who uses bytes, without holding anybody: after a stall that nobody has ended, or in its place, the watchpoints stay where they are for a while.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::OWN_ACCESSES;

use crate::addr::RuntimeAddr;
use crate::hunt::bounds::longest_stall;
use crate::hunt::engine::adviser::{Adviser, Way};
use crate::hunt::engine::rig::Rig;
use crate::hunt::strategy::{Conflict, Outcome};
use crate::kernel::process::{monotonic_ns, nanos};

use super::{Doing, Waiting};

/// Bytes that stay watched without holding anybody.
#[derive(Clone, Debug)]
pub struct Look {
    site: u64,
    /// How it came to that.
    way: Way,
    pub until: u64,
    /// The thread that was stalled there held a lock for which others waited. It may well use the bytes some times
    /// before one of them gets it.
    is_locked: bool,
    /// Who used them since the thread was claimed, where they were watched by then.
    early: Vec<Conflict>,
}

impl Waiting {
    /// Leaves the bytes of a stall that nobody has ended watched if the strategy wants to know who uses them; false if
    /// not.
    pub fn begin_probe(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        site: u64,
        tid: u32,
        address: RuntimeAddr,
        is_locked: bool,
    ) -> bool {
        // Without gates a stall is told from what came before it by the bytes' not being watched.
        if !rig.has_gates() {
            return false;
        }
        let Some(time) = adviser.strategy.probe(site) else {
            return false;
        };
        rig.gates.control().site.at.store(0, SeqCst);
        let now = self.begin_sharing(rig, u64::from(tid), address);
        self.doing = Doing::Looking(Look {
            site,
            way: adviser.decisions.way,
            until: now + nanos(time),
            is_locked,
            early: Vec::new(),
        });
        true
    }

    /// The bytes that stay watched were used by these since the thread was claimed.
    pub fn were_used_early(&mut self, users: Vec<Conflict>) {
        if let Doing::Looking(look) = &mut self.doing {
            look.early = users;
        }
    }

    /// Has the gate tell from now on who else than this thread uses the bytes at an address; the time.
    pub fn begin_sharing(&mut self, rig: &mut Rig, tid: u64, address: RuntimeAddr) -> u64 {
        let control = rig.gates.control();
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
        rig.keep_results(address);
        control.sharing.address.store(address.0, SeqCst);
        self.armed = true;
        now
    }

    /// Enough was seen of who uses the bytes that are watched.
    pub fn end_sharing(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        if self.end_ahead(rig) {
            return;
        }
        self.end_probe(rig, adviser);
        let is_watching = matches!(self.doing, Doing::Watching(_));
        self.end_watching(rig, adviser);
        if is_watching {
            // What is written all the time is not watched all the time.
            self.pause();
        }
    }

    /// Tells the strategy what was seen of the bytes that stayed watched.
    pub fn end_probe(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        let Look {
            site,
            way,
            is_locked,
            mut early,
            ..
        } = match std::mem::take(&mut self.doing) {
            Doing::Looking(look) => look,
            other => {
                self.doing = other;
                return;
            }
        };
        let address = rig.gates.control().sharing.address.load(SeqCst);
        self.disarm_site(rig);
        early.extend(rig.users());
        if let Some((first, others)) = early.split_first() {
            adviser.learned.lines.shared(address);
            if first.distance <= longest_stall(&rig.setup) {
                adviser.learned.quiet.forget(address);
            }
            adviser.came_to(rig, way, site, Outcome::Shared(*first));
            for other in others {
                adviser.strategy.uses(*other);
            }
        } else if rig.gates.control().sharing.own.load(SeqCst) >= OWN_ACCESSES && !is_locked {
            adviser.came_to(rig, way, site, Outcome::Private);
        } else {
            adviser.came_to(rig, way, site, Outcome::Unused);
        }
    }
}
