//! Events of perf that tests open themselves.

use std::{fs::File, io, os::fd::FromRawFd as _};

use perf_event_open_sys::{self as sys, bindings as raw};

/// Opens one of a thread (0: the calling one; -1: all) on a processor (-1: all). `size` of the attributes is that of the structure.
///
/// # Errors
/// Fails where perf_event_open(2) does.
pub fn open(mut attributes: raw::perf_event_attr, tid: i32, cpu: i32) -> io::Result<File> {
    let flags = raw::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the attributes are a structure of that very size, and outlive the call.
    let descriptor = unsafe { sys::perf_event_open(&raw mut attributes, tid, cpu, -1, flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just opened it, and nobody else knows of it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
