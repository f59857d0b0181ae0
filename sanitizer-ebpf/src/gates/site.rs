//! The site that is waited at: is the thread that has come there the one to be stalled?

use core::ptr;

use aya_ebpf::{bindings::bpf_perf_event_data, helpers::bpf_probe_read_user};
use sanitizer_ebpf::{
    Control, Counter, EVENT_BUSY, HELD_TRAPS, MET, NO_REGISTER, NOBODY, NOT_HELD_TRAPS, OWN_TRAPS,
    TRAPS_PER_SITE, UNMET_TRAPS, access, lock, own, phase,
};

use crate::atomic;

use super::{
    block::{count, now, swallow, tell},
    current::{current_tgid, current_tid, innermost_tid, is_watched, of_current},
    registers::register,
    stop::{cannot_stop, claim, stop},
};

/// A thread has come to the site that is waited at: is it the one to be stalled?
#[inline(always)]
pub(super) fn site_reached(control: &Control, word: u64, ctx: *const bpf_perf_event_data) -> u32 {
    count(control, Counter::SiteTraps);
    // Whoever traps here, it costs.
    let trap = atomic::add(&control.site.traps, 1);
    if trap + 1 == TRAPS_PER_SITE {
        tell(EVENT_BUSY, current_tid(control), 0, phase::generation(word));
    }
    // It was claimed here, and was not stopped in time.
    if phase::of(word) != phase::IDLE
        && atomic::load(&control.claim.owner) == u64::from(current_tid(control))
    {
        atomic::add(&control.claim.again, 1);
    }
    let now = now();
    let unmet = atomic::load(&control.site.company.unmet);
    let by_cpu = atomic::load(&control.events.watch_by_cpu) != 0;
    let foreign = by_cpu && !is_watched(control, current_tgid(control));
    if !foreign {
        atomic::replace(&control.site.first_ns, 0, now);
    }
    // A wait for company, once begun, shall not end for what it has cost itself.
    let company_ns = unmet * atomic::load(&control.budget.trap_cost_ns);
    if foreign
        || trap < atomic::load(&control.site.skip)
        || phase::of(word) != phase::IDLE
        || atomic::load(&control.budget.spent_ns)
            > atomic::load(&control.budget.earned_ns)
                + atomic::load(&control.site.credit_ns)
                + company_ns
    {
        return swallow(control, Counter::SiteSwallowed);
    }
    let address = site_address(control, ctx);
    let size = atomic::load(&control.site.wanted.size);
    if size != 0 && !access::covers(address, size, atomic::load(&control.site.wanted.address)) {
        return pass_unwanted(control, word);
    }
    if atomic::load(&control.site.own.passes) != 0 && is_own(control, ctx, address) {
        if atomic::add(&control.site.own.traps, 1) + 1 == OWN_TRAPS {
            tell(EVENT_BUSY, current_tid(control), 0, phase::generation(word));
        }
        return swallow(control, Counter::SiteOwn);
    }
    let waits_for_company =
        now < atomic::load(&control.site.company.until_ns) && unmet < UNMET_TRAPS;
    let meets = waits_for_company && meets(control, address);
    if waits_for_company && !meets {
        atomic::add(&control.site.company.unmet, 1);
        atomic::add(&control.site.traps, u64::MAX);
        return swallow(control, Counter::SiteUnmet);
    }
    if atomic::load(&control.site.locks.spares_holders) != 0 && holds_lock(control) {
        if atomic::add(&control.site.locks.held, 1) < HELD_TRAPS {
            atomic::add(&control.site.traps, u64::MAX);
        }
        return swallow(control, Counter::SiteHeld);
    }
    if let Some(reason) = cannot_stop(control) {
        // Where threads come and go, there are many of them for one that can be stopped.
        if matches!(reason, Counter::SampleNotHeld)
            && atomic::add(&control.site.not_held, 1) < NOT_HELD_TRAPS
        {
            atomic::add(&control.site.traps, u64::MAX);
        }
        return swallow(control, reason);
    }
    let value = value_ahead(control);
    if !claim(control, word, now) {
        return swallow(control, Counter::SiteSwallowed);
    }
    atomic::store(&control.claim.value, value);
    // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the access.
    let stack_pointer = unsafe { ptr::read_volatile(&raw const (*ctx).regs.rsp) };
    atomic::store(&control.claim.stack_pointer, stack_pointer);
    count(control, Counter::SitePassed);
    if meets {
        count(control, Counter::SiteMet);
    }
    stop(control, by_cpu)
}

/// Lets the current thread pass, which is about to access something else than what is wanted.
#[inline(always)]
fn pass_unwanted(control: &Control, word: u64) -> u32 {
    let before = atomic::add(&control.site.company.unmet, 1);
    if before < UNMET_TRAPS {
        atomic::add(&control.site.traps, u64::MAX);
    }
    if before + 1 == UNMET_TRAPS {
        tell(EVENT_BUSY, current_tid(control), 0, phase::generation(word));
    }
    swallow(control, Counter::SiteUnmet)
}

/// The eight bytes at the address that is watched in advance.
#[inline(always)]
fn value_ahead(control: &Control) -> u64 {
    if atomic::load(&control.sharing.ahead) == 0 {
        return 0;
    }
    let address = atomic::load(&control.sharing.address);
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_user(address as *const u64) }.unwrap_or(0)
}

/// Whether the current thread holds a lock for which others have waited.
#[inline(always)]
fn holds_lock(control: &Control) -> bool {
    let Some(tid) = innermost_tid(control) else {
        return false;
    };
    let known = control.site.locks.known.iter().map(atomic::load);
    let mut locks = known.take_while(|lock| *lock != 0);
    locks.any(|lock| {
        let (form, futex) = lock::Form::of_word(lock);
        // SAFETY: the helper checks the address.
        let words = unsafe { bpf_probe_read_user(futex as *const lock::Words) };
        words.is_ok_and(|words| form.is_held_by(words, tid))
    })
}

/// The address that the current thread is about to access at the site.
#[inline(always)]
fn site_address(control: &Control, ctx: *const bpf_perf_event_data) -> u64 {
    let index = register(ctx, atomic::load(&control.site.operand.index));
    atomic::load(&control.site.operand.displacement)
        .wrapping_add(register(ctx, atomic::load(&control.site.operand.base)))
        .wrapping_add(index << (atomic::load(&control.site.operand.shift) & 3))
}

/// Whether the current thread is about to access there what only it uses, as far as its registers tell.
#[inline(always)]
fn is_own(control: &Control, ctx: *const bpf_perf_event_data, address: u64) -> bool {
    // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the access.
    let stack_pointer = unsafe { ptr::read_volatile(&raw const (*ctx).regs.rsp) };
    let thread_pointer = of_current(control.offsets.task_fs_base);
    let frame = atomic::load(&control.site.own.frame);
    let other = atomic::load(&control.site.operand.other);
    own::is_own(address, stack_pointer, thread_pointer, frame)
        && (other == NO_REGISTER
            || own::is_own(register(ctx, other), stack_pointer, thread_pointer, frame))
}

/// Whether the current thread is about to access what another one has accessed at the site lately.
#[inline(always)]
fn meets(control: &Control, address: u64) -> bool {
    let tid = u64::from(current_tid(control));
    let known = atomic::load(&control.site.company.met_count);
    for (place, [known_address, known_tid]) in control.site.company.met.iter().enumerate() {
        if place as u64 >= known {
            break;
        }
        if atomic::load(known_address) == address {
            let known_tid = atomic::load(known_tid);
            return known_tid != tid && known_tid != NOBODY;
        }
    }
    let [new_address, new_tid] =
        &control.site.company.met[atomic::add(&control.site.company.met_count, 1) as usize % MET];
    atomic::store(new_address, address);
    atomic::store(new_tid, tid);
    false
}
