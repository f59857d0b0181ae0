//! Hardware breakpoints that another tool than gwp-race has.

use std::{io, os::fd::OwnedFd};

use perf_event_open_sys::bindings as raw;

use crate::perf_event;

/// Those of a processor: x86 has four.
pub const ALL: usize = 4;

/// A breakpoint of all threads on the first processor, at a place where nothing is.
///
/// # Errors
/// Fails where perf_event_open(2) does: `ENOSPC` where it is not to be had.
pub fn of_first_processor() -> io::Result<OwnedFd> {
    open(-1, 0)
}

/// The same of the calling thread alone, on all processors.
///
/// # Errors
/// As [`of_first_processor`].
pub fn of_this_thread() -> io::Result<OwnedFd> {
    open(0, -1)
}

/// As many as are to be had.
pub fn as_many_as(open: impl Fn() -> io::Result<OwnedFd>) -> Vec<OwnedFd> {
    (0..ALL).map_while(|_| open().ok()).collect()
}

fn open(pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let mut attributes = raw::perf_event_attr {
        type_: raw::PERF_TYPE_BREAKPOINT,
        size: size_of::<raw::perf_event_attr>() as u32,
        bp_type: raw::HW_BREAKPOINT_W,
        ..Default::default()
    };
    attributes.__bindgen_anon_3.bp_addr = 8;
    attributes.__bindgen_anon_4.bp_len = 8;
    attributes.set_disabled(1);
    attributes.set_exclude_kernel(1);
    attributes.set_exclude_hv(1);
    Ok(perf_event::open(attributes, pid, cpu)?.into())
}
