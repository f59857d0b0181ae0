//! Waiting for a thread that is about to access one given address, which is watched from the beginning of the wait on.
//!
//! The gate lets all others pass. Who uses the address meanwhile is told; from the claim of that thread on such accesses are recorded for the stall
//! that is about to begin. They are evidence only if the thread provably stands before its access since it was claimed. It may go on before its
//! signal reaches it, or a handler of the program may be carried out first. So it has to be seen to stand at the site, with the same stack and the flag of a breakpoint that has just trapped, not to have come there again (whoever goes
//! on comes by that breakpoint before it stands there once more), and not to have stopped for anything else. All else is a thread that has come to the site, and nothing is known of
//! what came before its stall.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::{NOBODY, phase};

use crate::addr::RuntimeAddr;
use crate::hunt::engine::adviser::Adviser;
use crate::hunt::engine::rig::{Rig, WATCHPOINT_FAILED};
use crate::hunt::strategy::{CodeView as _, Conflict, Wait};
use crate::hunt::watched::Watched;
use crate::insn::Regs;
use crate::insn::x86_64::{AddressForm, extent};
use crate::kernel::perf::WatchKind;
use crate::kernel::process::{monotonic_ns, nanos};

use super::Waiting;

/// Bytes that are watched while it is waited for a thread that is about to access them.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// The site that is waited at.
    site: u64,
    /// The first byte that is watched, how many are, and for what accesses.
    address: u64,
    len: u8,
    kind: WatchKind,
    since: u64,
    /// Of the claim that is waited for.
    generation: u64,
    /// For how long they were watched, ns, where that is over.
    lasted: Option<u64>,
    /// What was seen was told.
    is_told: bool,
    /// The claimed thread has stopped for something else.
    is_spoiled: bool,
}

/// The bytes of a stall that were watched before it, and what is known of the claim of its thread.
#[derive(Clone, Copy, Debug)]
pub struct Early {
    /// When the thread was claimed: since then it stands.
    pub since: u64,
    /// What stood at the first watched bytes right before.
    pub before: u64,
}

/// What an address that is wanted is for the instruction at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    /// The gate can tell whether it is accessed, by the first of so many bytes.
    ByGate(u32),
    /// It is what is accessed each time: so many bytes.
    Always(u32),
    /// It cannot be told, or is never accessed there.
    Unknown,
}

fn matches(form: Option<AddressForm>, extent: Option<(u32, Option<u64>)>, wanted: u64) -> Match {
    match (form, extent) {
        (_, Some((size, Some(address)))) if wanted.wrapping_sub(address) < size.into() => {
            Match::Always(size)
        }
        (Some(_), Some((size @ 1.., None))) => Match::ByGate(size),
        _ => Match::Unknown,
    }
}

/// The largest block that a watchpoint can cover from an address on, within so many bytes.
fn block(address: u64, size: u32) -> u8 {
    let fits = |len: &u8| u32::from(*len) <= size && address.is_multiple_of(u64::from(*len));
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

impl Waiting {
    /// Has the gate claim only a thread that is about to access what is wanted, and watches that from now on, before anybody can be claimed. Whether it does; else
    /// any thread is claimed that comes.
    pub fn wait_for_wanted(
        &mut self,
        rig: &mut Rig,
        adviser: &mut Adviser,
        wait: &Wait,
        form: Option<AddressForm>,
    ) -> bool {
        let site = &rig.gates.control().site;
        site.wanted.size.store(0, SeqCst);
        let Some(wanted) = wait.wanted else {
            return false;
        };
        let kind = if wait.writes {
            WatchKind::ReadsAndWrites
        } else {
            WatchKind::Writes
        };
        let extent = extent(rig.modules.code(wait.at), wait.at);
        let (size, asks) = match matches(form, extent, wanted) {
            Match::ByGate(size) => (size, true),
            Match::Always(size) => (size, false),
            Match::Unknown => (0, false),
        };
        if size == 0 || !rig.arming.watchpoints().have_others_beside(kind) {
            adviser.strategy.waits_for_any();
            return false;
        }
        let len = block(wanted, size);
        let control = rig.gates.control();
        let generation = rig.gates.phase().read().generation() + 1;
        control.stall.hits.store(0, SeqCst);
        let since = self.begin_sharing(rig, NOBODY, RuntimeAddr(wanted));
        let control = rig.gates.control();
        control.sharing.ahead.store(generation, SeqCst);
        let watchpoints = rig.arming.watchpoints();
        if let Err(error) = watchpoints.watch_beside(RuntimeAddr(wanted), len, kind) {
            rig.cannot_arm(&error, WATCHPOINT_FAILED);
            self.forget_ahead(rig);
            adviser.strategy.waits_for_any();
            return false;
        }
        let site = &rig.gates.control().site;
        site.wanted.address.store(wanted, SeqCst);
        let size = if asks { size.into() } else { 0 };
        site.wanted.size.store(size, SeqCst);
        self.recorded_early = generation;
        self.ahead = Some(Ahead {
            site: wait.site,
            address: wanted,
            len,
            kind,
            since,
            generation,
            lasted: None,
            is_told: false,
            is_spoiled: false,
        });
        true
    }

    /// Nothing is watched in advance any more, or what is, is for something else.
    pub fn forget_ahead(&mut self, rig: &Rig) {
        self.ahead = None;
        let sharing = &rig.gates.control().sharing;
        sharing.address.store(0, SeqCst);
        sharing.ahead.store(0, SeqCst);
    }

    /// Enough was seen of who uses what is watched in advance; it is still waited for whoever is about to access it. False where nothing is.
    pub fn end_ahead(&mut self, rig: &mut Rig) -> bool {
        let Some(ahead) = &mut self.ahead else {
            return false;
        };
        let lasted = monotonic_ns().saturating_sub(ahead.since);
        ahead.lasted.get_or_insert(lasted);
        let sharing = &rig.gates.control().sharing;
        sharing.address.store(0, SeqCst);
        sharing.ahead.store(0, SeqCst);
        rig.arming.watchpoints().unwatch_beside();
        true
    }

    /// A thread has stopped for something else than what it was claimed for: it may have done anything before it stands where it was.
    pub fn spoils_claim(&mut self, rig: &Rig, tid: u32) {
        let control = rig.gates.control();
        let is_claimed = rig.gates.phase().is(phase::CLAIMED)
            && control.claim.owner.load(SeqCst) == u64::from(tid);
        if let Some(ahead) = self.ahead.as_mut().filter(|_| is_claimed) {
            ahead.is_spoiled = true;
        }
    }

    /// Tells the strategy who has used what was watched in advance, but for the thread that has come (with the time): its own accesses are no conflict.
    /// Where nobody has, it is unknown whose they would be one with, unless two have used it.
    pub fn tell_ahead(&mut self, rig: &mut Rig, adviser: &mut Adviser, came: Option<(u32, u64)>) {
        let Some(ahead) = &mut self.ahead else {
            return;
        };
        if std::mem::replace(&mut ahead.is_told, true) {
            return;
        }
        let Ahead {
            site,
            address,
            since,
            lasted,
            ..
        } = *ahead;
        let until = came.map_or_else(monotonic_ns, |(_, claimed)| claimed);
        let lasted = lasted.unwrap_or_else(|| until.saturating_sub(since));
        let users = rig.users_by_thread();
        let Some(others) = others(&users, came.map(|(tid, _)| tid)) else {
            return;
        };
        let lasted = Duration::from_nanos(lasted);
        (adviser.strategy).watched_ahead(site, address, lasted, &others);
        if !others.is_empty() {
            adviser.learned.lines.shared(address);
        }
    }

    /// What a thread that stands is about to access was watched in advance, if it provably stands there since its claim. `watched` is what would
    /// be watched of it else.
    pub fn stands_since_claim(
        &self,
        rig: &Rig,
        generation: u64,
        ahead: &Ahead,
        regs: &Regs,
        watched: &Watched,
    ) -> Option<(Watched, Early)> {
        let claim = &rig.gates.control().claim;
        let access = watched.access;
        let end = access.address.checked_add(access.size.into())?;
        let is_inside =
            access.address <= ahead.address && ahead.address + u64::from(ahead.len) <= end;
        let stands = ahead.generation == generation
            && ahead.lasted.is_none()
            && !ahead.is_spoiled
            && claim.again.load(SeqCst) == 0
            && claim.stack_pointer.load(SeqCst) == regs.rsp
            && regs.has_just_trapped()
            && watched.pc == regs.rip
            && ahead.site == regs.rip
            && ahead.kind == watched.kind;
        let early = Early {
            since: self.claimed,
            before: claim.value.load(SeqCst),
        };
        let watched = Watched {
            address: RuntimeAddr(ahead.address),
            len: ahead.len,
            alias: 0,
            ..*watched
        };
        (stands && is_inside).then_some((watched, early))
    }

    /// For how long it is waited at the site.
    pub fn waited_ns(&self) -> u64 {
        let since = self.last.map(|(_, since)| since);
        since.map_or(0, |since| monotonic_ns().saturating_sub(since))
    }

    /// Where it was waited for one address in vain, it is told for how long.
    pub fn tell_waited(&mut self, adviser: &mut Adviser, wait: &Wait) {
        if wait.wanted.is_some() {
            let most = nanos(wait.time);
            let waited = Duration::from_nanos(self.waited_ns().min(most));
            adviser.strategy.waited(waited);
        }
    }
}

/// Of those who have used some bytes, each place with the threads that did, the others than a thread; each place once. Without a thread they are others only if there are
/// two of them, or none.
fn others(users: &[(Conflict, u64)], but: Option<u32>) -> Option<Vec<Conflict>> {
    let is_other = |by: u64| but.is_none_or(|tid| by != u64::from(tid));
    let one = users.first().map(|(_, by)| *by);
    if but.is_none() && one.is_some() && users.iter().all(|(_, by)| Some(*by) == one) {
        return None;
    }
    let mut others: Vec<Conflict> = Vec::new();
    for (user, by) in users {
        if is_other(*by) && others.iter().all(|other| other.behind != user.behind) {
            others.push(*user);
        }
    }
    Some(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: AddressForm = AddressForm {
        base: Some(7),
        index: None,
        shift: 0,
        displacement: 8,
    };

    /// Check that the gate is asked only where registers tell what is accessed, and a fixed address only taken where it is the wanted one.
    #[test]
    fn what_can_be_waited_for() {
        let by_form = matches(Some(FORM), Some((4, None)), 0x1000);
        assert_eq!(by_form, Match::ByGate(4));
        for (wanted, expected) in [
            (0xfff, Match::Unknown),
            (0x1000, Match::Always(4)),
            (0x1003, Match::Always(4)),
            (0x1004, Match::Unknown),
        ] {
            let found = matches(None, Some((4, Some(0x1000))), wanted);
            assert_eq!(found, expected, "{wanted:#x}");
        }
        assert_eq!(matches(None, Some((4, None)), 0x1000), Match::Unknown);
        assert_eq!(matches(Some(FORM), None, 0x1000), Match::Unknown);
        assert_eq!(matches(Some(FORM), Some((0, None)), 0), Match::Unknown);
    }

    /// Check that blocks are as large as the access and the hardware allow.
    #[test]
    fn blocks_are_aligned() {
        for (address, size, expected) in [
            (0x1000, 1, 1),
            (0x1000, 4, 4),
            (0x1000, 7, 4),
            (0x1000, 32, 8),
            (0x1004, 8, 4),
            (0x1006, 8, 2),
            (0x1007, 8, 1),
        ] {
            assert_eq!(block(address, size), expected, "{address:#x} {size}");
        }
    }

    /// Check whose accesses are in conflict with those of whoever came, and of nobody.
    #[test]
    fn others_than_who_came() {
        let user = |behind, by| {
            let conflict = Conflict {
                behind,
                distance: Duration::ZERO,
            };
            (conflict, by)
        };
        let behind = |users: &[_], but| {
            let others = others(users, but)?;
            Some(others.iter().map(|user| user.behind).collect::<Vec<_>>())
        };
        let two = [user(1, 7), user(1, 8), user(2, 8), user(2, 9)];
        assert_eq!(behind(&two, Some(7)), Some(vec![1, 2]));
        assert_eq!(behind(&two, None), Some(vec![1, 2]));
        let one = [user(1, 7), user(2, 7)];
        assert_eq!(behind(&one, Some(7)), Some(vec![]));
        assert_eq!(behind(&one, Some(8)), Some(vec![1, 2]));
        assert_eq!(behind(&one, None), None);
        assert_eq!(behind(&[], None), Some(vec![]));
    }
}
