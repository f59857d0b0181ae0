//! The records of conflicting accesses.

use core::ffi::c_void;

use aya_ebpf::helpers::{
    bpf_probe_read_user,
    generated::{bpf_get_current_comm, bpf_probe_read_user as read_user},
};
use sanitizer_ebpf::{Control, Counter, HITS, HitRecord, STACK_BYTES, STACK_CHUNK, phase};

use crate::atomic;

use super::{
    block::{count, now},
    current::of_current,
    maps::HIT_RECORDS,
};

/// Whether an access that traps there was recorded in this generation, of which the tracer knows that it goes on: it was told by
/// the first one's stop.
#[inline(always)]
pub(super) fn is_recorded(generation: u64, pc: u64) -> bool {
    let mut goes_on = false;
    (0..HITS as u32).any(|index| {
        let Some(record) = HIT_RECORDS.get_ptr(index) else {
            return false;
        };
        // SAFETY: a map value lives as long as its map. One of this generation is complete, and written no more.
        unsafe {
            let is_ours = atomic::load(&(*record).generation) == generation;
            goes_on |= index == 0 && is_ours && (*record).stopping != 0;
            goes_on && is_ours && (*record).regs.rip == pc && (*record).in_kernel == 0
        }
    })
}

/// A record that nobody else writes, with its number; `None` where the stall has enough of them.
#[inline(always)]
pub(super) fn next_record(control: &Control) -> Option<(*mut HitRecord, u64)> {
    let index = atomic::add(&control.stall.hits, 1);
    if index as usize >= HITS {
        count(control, Counter::HitOverflow);
        return None;
    }
    // The index is reset only between generations.
    Some((HIT_RECORDS.get_ptr_mut(index as u32)?, index))
}

/// Fills in what is alike in all records; from here on it counts.
///
/// # Safety
/// `record` points to a map value that no other program writes.
#[inline(always)]
pub(super) unsafe fn complete(
    control: &Control,
    record: *mut HitRecord,
    word: u64,
    address: u64,
    tid: u32,
    stack: u64,
) {
    // SAFETY: as the caller promises.
    unsafe {
        (*record).time_ns = now();
        (*record).tid = tid;
        (*record).value = bpf_probe_read_user(address as *const u64).unwrap_or(0);
        (*record).fs_base = of_current(control.offsets.task_fs_base);
        bpf_get_current_comm((&raw mut (*record).comm).cast::<c_void>(), 16);
        (*record).stack_len = copy_stack(stack, (&raw mut (*record).stack).cast());
        atomic::store(&(*record).generation, phase::generation(word));
    }
}

/// Copies user stack from `from` up; the result is the number of valid bytes.
///
/// # Safety
/// `to` points to `STACK_BYTES` writable bytes of a map value.
#[inline(always)]
unsafe fn copy_stack(from: u64, to: *mut u8) -> u32 {
    /// Towards the end of a stack whole chunks fail; these pieces save what there is.
    const PIECE: usize = 512;
    let mut length = 0;
    for chunk in 0..STACK_BYTES / STACK_CHUNK {
        let offset = chunk * STACK_CHUNK;
        let source = from.wrapping_add(offset as u64);
        // SAFETY: `offset + STACK_CHUNK` is within the buffer; the helper checks the source.
        let result = unsafe {
            read_user(
                to.add(offset).cast(),
                STACK_CHUNK as u32,
                source as *const c_void,
            )
        };
        if result == 0 {
            length = offset + STACK_CHUNK;
            continue;
        }
        for piece in 0..STACK_CHUNK / PIECE {
            let offset = offset + piece * PIECE;
            let source = from.wrapping_add(offset as u64);
            // SAFETY: as above.
            let result =
                unsafe { read_user(to.add(offset).cast(), PIECE as u32, source as *const c_void) };
            if result != 0 {
                break;
            }
            length = offset + PIECE;
        }
        break;
    }
    length as u32
}
