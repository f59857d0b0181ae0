//! Events of the calling thread.

use std::{fs::File, io, os::fd::FromRawFd as _};

use anyhow::{Context as _, Result};
use perf_event_open_sys::{self as sys, bindings as raw};

/// Opens one; `size` is that of the structure.
pub fn open(mut attributes: raw::perf_event_attr) -> Result<File> {
    let flags = raw::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the attributes are a structure of that very size, and outlive the call.
    let descriptor = unsafe { sys::perf_event_open(&raw mut attributes, 0, -1, -1, flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error()).context("perf_event_open");
    }
    // SAFETY: the call has just opened it, and nobody else knows of it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
