//! Events of the calling thread.

use std::fs::File;

use anyhow::{Context as _, Result};
use gwp_race_tests::perf_event;
use perf_event_open_sys::bindings as raw;

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
    perf_event::open(attributes, 0, -1).context("holding an event")
}
