//! Trying out what this kernel allows, on this process and on a child of its own: the answers
//! of `gwp-race doctor`. Each attempt is the real call that the main job makes later.

use std::{
    fs::File,
    io::Read as _,
    ops::Range,
    os::fd::AsFd as _,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use gwp_race_abi::FunctionEntry;

use super::{
    KernelError,
    calibrate::trap_cost_ns,
    foreign::{ForeignFile, Purpose},
    gates::{Gate, GateLog, Gates},
    perf::{Delivery, EventOptions, PerfEvent, WatchKind},
    probes::{BurstError, Obstacle, Order, Probe, Probes},
    process::{self, WorkClock},
    ptrace,
};
use crate::{addr::RuntimeAddr, insn::x86_64::Recipe};

/// No processor that Linux runs on has more hardware breakpoints.
const MAX_SLOTS: usize = 16;
/// What `perf_event_open` gets for events without a signal of their own; never sent here.
const NO_SIGNAL: Delivery = Delivery::GateSignal(0);

/// A child process that only sleeps: something to trace and to watch.
#[derive(Debug)]
pub struct PausedChild {
    pid: libc::pid_t,
}

impl PausedChild {
    /// Forks it.
    ///
    /// # Errors
    /// Fails where fork(2) does.
    pub fn start() -> Result<Self, KernelError> {
        // A process that may not be looked into has children of that kind, which could not be seized.
        // SAFETY: prctl with these arguments touches no memory.
        let before = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
        process::let_be_looked_into();
        let child = Self::fork();
        if before != 1 {
            process::keep_private();
        }
        child
    }

    fn fork() -> Result<Self, KernelError> {
        // SAFETY: until it is killed, the child makes only calls that signal-safety(7) allows,
        // whatever other threads of this process were doing at the fork.
        let pid = unsafe { libc::fork() };
        match pid {
            0 => {
                // SAFETY: prctl with these arguments and pause touch no memory.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    loop {
                        libc::pause();
                    }
                }
            }
            1.. => Ok(Self { pid }),
            _ => Err(KernelError::last("fork", "a child to try things out on")),
        }
    }

    /// Its process and thread id.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.pid.unsigned_abs()
    }
}

impl Drop for PausedChild {
    fn drop(&mut self) {
        // SAFETY: the child is ours and not yet waited for, so the id is still its own; waitpid
        // may be told to store no status.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Becomes a child's tracer without stopping it, as the main job does.
///
/// # Errors
/// Fails where `PTRACE_SEIZE` does.
pub fn seize(child: &PausedChild) -> Result<(), KernelError> {
    ptrace::seize(child.tid(), child.tid())
}

/// How many hardware breakpoints a thread can still get.
///
/// # Errors
/// Fails where perf_event_open(2) does, but for running out of breakpoints.
pub fn free_breakpoints(tid: u32) -> Result<usize, KernelError> {
    let mut events = Vec::new();
    while events.len() < MAX_SLOTS {
        match PerfEvent::breakpoint(tid, options(NO_SIGNAL)) {
            Ok(event) => events.push(event),
            Err(error) if error.is_out_of_breakpoints() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(events.len())
}

/// Whether the kernel takes events that send a synchronous SIGTRAP.
///
/// # Errors
/// Fails where perf_event_open(2) does.
pub fn open_sigtrap(child: &PausedChild) -> Result<(), KernelError> {
    PerfEvent::breakpoint(child.tid(), options(Delivery::Sigtrap)).map(drop)
}

/// Loads the gates and a table for them, and attaches each to an event of a child, as the main job does.
///
/// # Errors
/// Fails where any of that does.
pub fn attach_gates(child: &PausedChild) -> Result<(), KernelError> {
    let mut gates = Gates::load(GateLog::Off)?;
    if let Some(mut tables) = gates.take_tables() {
        tables.add(
            [FunctionEntry::default(); 2].into_iter(),
            [0; 2].into_iter(),
        )?;
    }
    let clock = PerfEvent::clock(child.tid(), Duration::from_secs(1), options(NO_SIGNAL))?;
    clock.set_gate(gates.program(Gate::Clock)?)?;
    for gate in [Gate::Reach, Gate::Break, Gate::Watch] {
        PerfEvent::breakpoint(child.tid(), options(NO_SIGNAL))?.set_gate(gates.program(gate)?)?;
    }
    Ok(())
}

/// Code to be probed, which nobody calls.
#[unsafe(naked)]
extern "C" fn probed() {
    core::arch::naked_asm!("nop", "ret")
}

/// Where that is in this process, and in a child.
#[must_use]
pub fn probed_address() -> RuntimeAddr {
    RuntimeAddr(probed as extern "C" fn() as usize as u64)
}

/// Loads the program of the kernel's probes, and has one stand for a moment in a child, in the mapping that has [`probed_address`].
///
/// # Errors
/// Fails where any of that does.
pub fn burst(child: &PausedChild, mapping: Range<u64>) -> Result<(), BurstError> {
    /// How long one stands.
    const DURATION: Duration = Duration::from_millis(1);
    let gates = Gates::load(GateLog::Off)?;
    trap_cost_ns(&gates)?;
    let mut probes = Probes::load(&gates, WorkClock::of_share(1))?;
    let probe = Probe {
        pc: probed_address(),
        recipe: Recipe::NOTHING,
        tag: 0,
    };
    let file = ForeignFile::mapped(child.tid(), &mapping, Purpose::Promptly);
    let file = file.map_err(Obstacle::from)?;
    probes.start(Order {
        pid: child.tid(),
        mapping,
        file: file.about().identity(),
        probes: vec![probe],
        duration: DURATION,
        hits_per_probe: 1,
        most_hits: 1,
    })?;
    loop {
        if let Some(outcome) = probes.take() {
            return outcome.map(drop);
        }
        process::wait_readable([probes.news()], None)?;
    }
}

/// How often a watchpoint counts a single write of this thread: 1 where watchpoints work, 0
/// where a hypervisor or emulator takes them and does nothing.
///
/// # Errors
/// Fails where a call on the event does.
pub fn watchpoint_hits() -> Result<u64, KernelError> {
    let watched = AtomicU64::new(0);
    let mut event = PerfEvent::breakpoint(this_thread(), options(NO_SIGNAL))?;
    event.watch(RuntimeAddr(watched.as_ptr() as u64), 8, WatchKind::Writes)?;
    watched.store(1, SeqCst);
    event.disable()?;
    count(&event)
}

/// How much CPU time a clock event counts while this thread computes a little, in nanoseconds.
///
/// # Errors
/// Fails where a call on the event does.
pub fn clock_time_ns() -> Result<u64, KernelError> {
    let event = PerfEvent::clock(this_thread(), Duration::from_secs(1), options(NO_SIGNAL))?;
    event.enable()?;
    std::hint::black_box((0..10_000u64).map(std::hint::black_box).sum::<u64>());
    event.disable()?;
    count(&event)
}

fn options(delivery: Delivery) -> EventOptions {
    EventOptions {
        delivery,
        ..EventOptions::SILENT
    }
}

fn this_thread() -> u32 {
    // SAFETY: gettid always succeeds and touches no memory.
    unsafe { libc::gettid() }.unsigned_abs()
}

/// Reads an event's counter (perf_event_open(2), "Reading results", `read_format` 0).
fn count(event: &PerfEvent) -> Result<u64, KernelError> {
    let mut value = [0; 8];
    event
        .as_fd()
        .try_clone_to_owned()
        .and_then(|fd| File::from(fd).read_exact(&mut value))
        .map_err(|source| KernelError {
            call: "read",
            object: "the counter of a perf event".to_owned(),
            source,
        })?;
    Ok(u64::from_ne_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::object::GATES_OBJECT;

    /// Check that each attempt succeeds where the main job does (this machine).
    #[test]
    fn all_attempts() {
        let child = PausedChild::start().unwrap();
        assert_eq!(watchpoint_hits().unwrap(), 1);
        assert!(clock_time_ns().unwrap() > 0);
        open_sigtrap(&child).unwrap();
        match attach_gates(&child) {
            // Plain `cargo test` has no eBPF object to embed.
            Err(error) if GATES_OBJECT.is_empty() => {
                assert!(error.to_string().contains("cargo xtask build"), "{error}");
            }
            attached => attached.unwrap(),
        }
        let maps = crate::tracee::maps::Maps::read(nix::unistd::Pid::this()).unwrap();
        let mapping = maps.find(probed_address()).unwrap().range();
        match burst(&child, mapping) {
            Err(error) if GATES_OBJECT.is_empty() => {
                assert!(error.to_string().contains("cargo xtask build"), "{error}");
            }
            stood => stood.unwrap(),
        }
        seize(&child).unwrap();
        // The child is one process's tracee now: a second seize is refused.
        assert!(seize(&child).is_err());
    }

    /// Check that breakpoints in use are missed, and that counting leaves none behind. Other tests may take some, or all, of all processors
    /// meanwhile, for a while.
    #[test]
    fn breakpoints_in_use() {
        const TRIES: usize = 200;
        const BETWEEN: Duration = Duration::from_millis(50);
        let child = PausedChild::start().unwrap();
        let free = || free_breakpoints(child.tid()).unwrap();
        let mut counts = Vec::new();
        for _ in 0..TRIES {
            let before = free();
            let taken = PerfEvent::breakpoint(child.tid(), options(NO_SIGNAL));
            let meanwhile = free();
            drop(taken);
            let after = free();
            if before >= 1 && meanwhile + 1 == before && after == before {
                return;
            }
            counts.push([before, meanwhile, after]);
            std::thread::sleep(BETWEEN);
        }
        panic!("{counts:?}");
    }

    /// Check that the child goes with its object.
    #[test]
    fn child_ends() {
        let child = PausedChild::start().unwrap();
        let tid = child.tid();
        drop(child);
        let error = free_breakpoints(tid).unwrap_err();
        assert!(error.is_gone(), "{error}");
    }
}
