//! Traps that a virtual machine has spoilt: of a breakpoint whose status register (DR6) it lost,
//! the kernel makes a SIGTRAP with the code TRAP_BRKPT (`exc_debug_user` in
//! `arch/x86/kernel/traps.c`), which ends a program that nobody holds just then. Tests that kill
//! tracers must know such an end from one that gwp-race has brought about; docs/compatibility.md
//! says more.
//!
//! The kernel's tracepoint `signal:signal_deliver` tells: it comes after a tracer was asked, right
//! before the signal does its work. Source of its format: `include/trace/events/signal.h`.

use std::{
    ffi::CString,
    fs::{self, File},
    io::Read as _,
    os::fd::AsRawFd as _,
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result};
use perf_event_open_sys::{self as sys, bindings as raw};

use crate::perf_event;

/// Where the kernel names the tracepoint: tracefs, by itself or below debugfs.
const TRACEPOINT: [&str; 2] = [
    "/sys/kernel/tracing/events/signal/signal_deliver/id",
    "/sys/kernel/debug/tracing/events/signal/signal_deliver/id",
];
/// The same where tracefs is not mounted: it is for this command alone, and gone with it.
const MOUNTED: &str = "mount -t tracefs tracefs /sys/kernel/tracing && \
                       cat /sys/kernel/tracing/events/signal/signal_deliver/id";
/// A thread's name has this many bytes at most.
const NAME: usize = 15;

/// Counts the spoilt traps that reach the threads of a program.
pub struct LostTraps {
    /// One for each processor.
    counters: Vec<File>,
}

impl LostTraps {
    /// Counts those of all processes that execute this file, from now on. Where the kernel shows
    /// no tracepoints none are counted.
    ///
    /// # Errors
    /// Fails where perf_event_open(2) does.
    pub fn of(program: &Path) -> Result<Self> {
        let mut counters = Vec::new();
        if let Some(id) = tracepoint() {
            let name = program.file_name().unwrap_or_default().as_encoded_bytes();
            let name = String::from_utf8_lossy(name.get(..NAME).unwrap_or(name));
            let filter = format!(
                "sig == {} && code == {} && comm == \"{name}\"",
                libc::SIGTRAP,
                libc::TRAP_BRKPT
            );
            let filter = CString::new(filter)?;
            // SAFETY: the call reads nothing of ours.
            let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
            for cpu in 0..i32::try_from(cpus)? {
                counters.push(counter(id, cpu, &filter).context("counting delivered signals")?);
            }
        }
        Ok(Self { counters })
    }

    /// How many have reached them.
    ///
    /// # Errors
    /// Fails where reading a counter does.
    pub fn delivered(&mut self) -> Result<u64> {
        let mut sum = 0;
        for counter in &mut self.counters {
            let mut count = [0; 8];
            counter.read_exact(&mut count)?;
            sum += u64::from_ne_bytes(count);
        }
        Ok(sum)
    }
}

/// The number of the tracepoint, where the kernel has it.
fn tracepoint() -> Option<u64> {
    let id = TRACEPOINT.iter().find_map(|path| fs::read(path).ok());
    let id = id.or_else(|| {
        let mut command = Command::new("unshare");
        let output = command.args(["--mount", "sh", "-c", MOUNTED]).output();
        output.ok().map(|output| output.stdout)
    });
    String::from_utf8(id?).ok()?.trim().parse().ok()
}

fn counter(tracepoint: u64, cpu: i32, filter: &CString) -> std::io::Result<File> {
    let attributes = raw::perf_event_attr {
        type_: raw::PERF_TYPE_TRACEPOINT,
        size: size_of::<raw::perf_event_attr>() as u32,
        config: tracepoint,
        ..Default::default()
    };
    let counter = perf_event::open(attributes, -1, cpu)?;
    // SAFETY: the kernel only reads the filter, which ends with a NUL and outlives the call.
    let result =
        unsafe { sys::ioctls::SET_FILTER(counter.as_raw_fd(), filter.as_ptr().cast_mut()) };
    if result < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(counter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Configuration, Program, compile};

    /// Check that an `int1`, for which the kernel takes a spoilt trap, is counted where it ends
    /// the program, and that another SIGTRAP is not.
    #[test]
    fn only_spoilt_traps_count() {
        let program = Program::new("conformance/traps.c");
        let program = compile::program(&program, Configuration::USUAL).unwrap();
        let mut lost = LostTraps::of(&program).unwrap();
        let mut end = |way| {
            let status = Command::new(&program).arg(way).status().unwrap();
            (status.to_string(), lost.delivered().unwrap())
        };
        let (int3, none) = end("int3");
        assert!(int3.contains("SIGTRAP") && none == 0, "{int3}, {none}");
        let (int1, one) = end("int1");
        assert!(int1.contains("SIGTRAP") && one == 1, "{int1}, {one}");
    }
}
