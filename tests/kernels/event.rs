//! Events of the calling thread.

use std::{fs::File, io, os::fd::FromRawFd as _};

use anyhow::{Context as _, Result};
use perf_event_open_sys::{self as sys, bindings as raw};

/// One that counts nothing. As long as there is one of a thread, the kernel does not patch its code when others come and go: it puts a breakpoint
/// there for a moment, which an emulator's processor now and then still executes when it has been taken away ("Oops: int3" in `__schedule`).
pub fn hold() -> Result<File> {
    let mut attributes = raw::perf_event_attr {
        type_: raw::PERF_TYPE_SOFTWARE,
        size: size_of::<raw::perf_event_attr>() as u32,
        config: u64::from(raw::PERF_COUNT_SW_DUMMY),
        ..raw::perf_event_attr::default()
    };
    attributes.set_disabled(1);
    attributes.set_exclude_kernel(1);
    open(attributes).context("holding an event")
}

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
