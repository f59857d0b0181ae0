//! An address that stays watched without a stall: who uses it?

use sanitizer_ebpf::{Control, EVENT_SHARED, MORE_NS, OTHERS, OWN_ACCESSES};

use crate::atomic;

use super::block::{now, tell};

/// The thread that was stalled has accessed its bytes again, which stay watched.
#[inline(always)]
pub(super) fn share_own(control: &Control) -> u32 {
    let now = now();
    let is_alone = atomic::load(&control.sharing.others) == 0;
    if atomic::add(&control.sharing.own, 1) + 1 == OWN_ACCESSES && is_alone {
        // That is soon done by who goes on at once, and whom the others await a processor meanwhile.
        let until = atomic::load(&control.sharing.since_ns).wrapping_add(MORE_NS);
        atomic::replace(&control.sharing.until_ns, u64::MAX, until);
    }
    end_sharing(control, now);
    0
}

/// Another thread has accessed them, in a way that would be evidence in a stall.
#[inline(always)]
pub(super) fn share_other(control: &Control, pc: u64, tid: u32) -> u32 {
    let now = now();
    let waited = now.saturating_sub(atomic::load(&control.sharing.since_ns));
    let is_ahead = atomic::load(&control.sharing.ahead) != 0;
    // Whoever is waited for may use them as well.
    let by = if is_ahead { u64::from(tid) } else { 0 };
    let others = atomic::add(&control.sharing.others, 1);
    if others == 0 {
        let until = now.wrapping_add(4 * waited).wrapping_add(MORE_NS);
        atomic::store(&control.sharing.until_ns, until);
    }
    if !is_user(control, pc, by) {
        let place = atomic::add(&control.sharing.user_count, 1) as usize;
        if let Some([user, after_ns, user_by]) = control.sharing.users.get(place) {
            atomic::store(after_ns, waited);
            atomic::store(user_by, by);
            // Last: it says that the other one is there.
            atomic::store(user, pc);
        }
    }
    if is_ahead {
        // They are watched until somebody comes.
        return 0;
    }
    if others + 1 == OTHERS {
        tell_of_sharing(control);
    } else {
        end_sharing(control, now);
    }
    0
}

/// Whether an access there was noted.
#[inline(always)]
fn is_user(control: &Control, pc: u64, by: u64) -> bool {
    let mut users = control.sharing.users.iter();
    users.any(|[user, _, user_by]| atomic::load(user) == pc && atomic::load(user_by) == by)
}

/// Enough was seen of who uses the bytes that stay watched.
#[inline(always)]
pub(super) fn tell_of_sharing(control: &Control) {
    tell(EVENT_SHARED, 0, 0, atomic::load(&control.sharing.since_ns));
}

/// Tells the tracer, once, when enough was seen of who uses the bytes that stay watched.
#[inline(always)]
fn end_sharing(control: &Control, now: u64) {
    let until = atomic::load(&control.sharing.until_ns);
    if now > until && atomic::replace(&control.sharing.until_ns, until, u64::MAX) {
        tell_of_sharing(control);
    }
}
