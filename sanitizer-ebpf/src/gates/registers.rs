//! The registers of the current thread, as the kernel has saved them for an event.

use core::ptr;

use aya_ebpf::{
    bindings::bpf_perf_event_data,
    helpers::generated::{bpf_get_current_task_btf, bpf_task_pt_regs},
};
use sanitizer_ebpf::TrapRegs;

use crate::task::read_kernel;

/// Those with which the current thread has entered the kernel, be it a system call or an interrupt; all of user mode, unless that has interrupted the kernel.
#[inline(always)]
pub(super) fn user_registers() -> Option<TrapRegs> {
    // SAFETY: the helpers have no preconditions; the task is the current one, which has a kernel stack.
    let entry = unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()) } as u64;
    read_kernel(entry, 0)
}

/// A general register by its number in instructions; 0 for [`NO_REGISTER`].
#[inline(always)]
pub(super) fn register(ctx: *const bpf_perf_event_data, number: u64) -> u64 {
    macro_rules! field {
        // Volatile, so that the compiler does not compute which one: the verifier allows loads of single fields only.
        ($name:ident) => {
            // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the access.
            unsafe { ptr::read_volatile(&raw const (*ctx).regs.$name) }
        };
    }
    match number {
        0 => field!(rax),
        1 => field!(rcx),
        2 => field!(rdx),
        3 => field!(rbx),
        4 => field!(rsp),
        5 => field!(rbp),
        6 => field!(rsi),
        7 => field!(rdi),
        8 => field!(r8),
        9 => field!(r9),
        10 => field!(r10),
        11 => field!(r11),
        12 => field!(r12),
        13 => field!(r13),
        14 => field!(r14),
        15 => field!(r15),
        _ => 0,
    }
}

/// # Safety
/// `ctx` is the context of the running program, `to` points to writable memory of this size.
#[inline(always)]
pub(super) unsafe fn copy_regs(ctx: *mut bpf_perf_event_data, to: *mut TrapRegs) {
    macro_rules! copy {
        // Volatile: the verifier allows only 8-byte loads of single fields here, and the
        // compiler would otherwise make them a memcpy.
        ($($to:ident = $from:ident),*) => {
            // SAFETY: as the caller promises.
            unsafe { $( (*to).$to = ptr::read_volatile(&raw const (*ctx).regs.$from); )* }
        };
    }
    copy!(
        r15 = r15,
        r14 = r14,
        r13 = r13,
        r12 = r12,
        rbp = rbp,
        rbx = rbx,
        r11 = r11,
        r10 = r10,
        r9 = r9,
        r8 = r8,
        rax = rax,
        rcx = rcx,
        rdx = rdx,
        rsi = rsi,
        rdi = rdi,
        orig_rax = orig_rax,
        rip = rip,
        cs = cs,
        eflags = eflags,
        rsp = rsp,
        ss = ss
    );
}
