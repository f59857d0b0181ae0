//! The program and its maps.

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, bpf_perf_event_data},
    btf_maps::Array,
    helpers::{bpf_get_attach_cookie, bpf_get_current_task, bpf_ktime_get_ns, bpf_probe_read_user},
    macros::btf_map,
};
use sanitizer_ebpf::probes::{Control, DEREFERENCES, PROBES, Probe, Recipe, USES, Use};

use crate::{atomic, registers::register, task::Namespace};

const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

#[btf_map]
static CONTROL: Array<Control, 1, MMAPABLE> = Array::new();

/// Those of the present burst.
#[btf_map]
static PROBES_OF_BURST: Array<Probe, PROBES, MMAPABLE> = Array::new();

/// What it has noted.
#[btf_map]
static USES_OF_BURST: Array<Use, USES, MMAPABLE> = Array::new();

/// A thread has come to a probe. By hand: it is attached to many places at once, of which aya's own kind of program knows nothing. Its context
/// is a `struct pt_regs`, with which a `bpf_perf_event_data` begins.
#[unsafe(no_mangle)]
#[unsafe(link_section = "uprobe/probe")]
extern "C" fn probe(ctx: *const bpf_perf_event_data) -> i32 {
    let _ = note(ctx);
    0
}

#[inline(always)]
fn note(ctx: *const bpf_perf_event_data) -> Option<()> {
    let control = CONTROL.get_ptr(0)?;
    // SAFETY: a map value lives as long as its map, and all fields that change while the program runs are atomics.
    let control = unsafe { &*control };
    atomic::add(&control.hits, 1);
    let burst = atomic::load(&control.burst);
    // SAFETY: the helper takes the context of the running program.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.cast_mut().cast()) };
    // Another one's probes may still be there when the next one begins.
    if burst == 0 || cookie >> 32 != burst & 0xffff_ffff || atomic::load(&control.is_over) != 0 {
        return None;
    }
    if atomic::add(&control.burst_hits, 1) + 1 >= atomic::load(&control.most_hits) {
        atomic::store(&control.is_over, 1);
    }
    // SAFETY: the helper has no preconditions.
    let task = unsafe { bpf_get_current_task() };
    let namespace = Namespace {
        pointer: atomic::load(&control.namespace.pointer),
        level: atomic::load(&control.namespace.level),
    };
    // A child of vfork(2) has the same memory, which is all that the kernel has compared.
    let process = namespace.process_of(&control.offsets, task)?;
    if u64::from(process) != atomic::load(&control.tgid) {
        return None;
    }
    let place = cookie as u32;
    // SAFETY: as above.
    let probe = unsafe { &*PROBES_OF_BURST.get_ptr(place)? };
    if atomic::add(&probe.hits, 1) >= atomic::load(&control.hits_per_probe) {
        return None;
    }
    let address = address(&probe.recipe, ctx)?;
    let tid = namespace.id_of(&control.offsets, task)?;
    let taken = atomic::add(&control.taken, 1);
    if taken >= USES as u64 {
        atomic::store(&control.is_over, 1);
        return None;
    }
    let place_of_use = USES_OF_BURST.get_ptr_mut(taken as u32)?;
    // SAFETY: the place was given to this thread alone, and the burst's number tells when it is written.
    unsafe {
        (*place_of_use).probe = place;
        (*place_of_use).tid = tid;
        (*place_of_use).time_ns = bpf_ktime_get_ns();
        (*place_of_use).address = address;
        atomic::store(&(*place_of_use).burst, burst);
    }
    Some(())
}

/// What the thread is about to use.
#[inline(always)]
fn address(recipe: &Recipe, ctx: *const bpf_perf_event_data) -> Option<u64> {
    let index = register(ctx, recipe.index) << (recipe.shift & 3);
    let mut sum = register(ctx, recipe.base);
    for stage in 0..=DEREFERENCES {
        if stage as u64 > recipe.dereferences {
            break;
        }
        if stage > 0 {
            // SAFETY: the helper checks the address.
            sum = unsafe { bpf_probe_read_user(sum as *const u64) }.ok()?;
        }
        sum = sum.wrapping_add(recipe.displacements[stage]);
        if stage as u64 == recipe.index_after {
            sum = sum.wrapping_add(index);
        }
    }
    Some(sum)
}
