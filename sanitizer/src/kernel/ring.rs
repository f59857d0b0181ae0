//! The ring buffer in which the kernel writes down the traps of one thread at the instant at which
//! they happen: time, address, registers and stack. It takes the place of the gates' evidence where
//! eBPF is not permitted.
//!
//! Source of the format: perf_event_open(2), "MMAP layout", and `include/uapi/linux/perf_event.h`.

use std::{
    os::fd::AsFd as _,
    os::fd::AsRawFd as _,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Release},
    },
};

use gwp_race_abi::TrapRegs;
use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings as raw;

use super::{KernelError, fault, perf::PerfEvent};

const PAGE: usize = 4096;

/// How large the rings are, and how much of a stack they can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize {
    /// Pages of records: a power of two.
    pages: usize,
    /// Bytes of stack in the record of a watchpoint.
    pub stack: u16,
}

impl RingSize {
    /// The usual size.
    pub const USUAL: Self = Self {
        pages: 8,
        stack: 8192,
    };
    /// The size where the user may lock no more memory for usual ones
    /// (`/proc/sys/kernel/perf_event_mlock_kb` and `ulimit -l`).
    pub const SMALL: Self = Self {
        pages: 1,
        stack: 1024,
    };
}

/// A trap, as the kernel wrote it down.
#[derive(Clone, Debug, Default)]
pub struct Trap {
    /// Which event it was: see [`PerfEvent::id`].
    pub event: u64,
    /// The thread.
    pub tid: u32,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The watched address.
    pub address: u64,
    /// The registers in user mode.
    pub regs: TrapRegs,
    /// Stack bytes from `regs.rsp` up.
    pub stack: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub struct Ring {
    map: MmapRaw,
    bytes: usize,
}

impl Ring {
    /// The ring of an event that records ([`super::perf::EventOptions::record_stack`]).
    ///
    /// # Errors
    /// `EPERM` where the user may lock no more memory.
    pub fn of(event: &PerfEvent, size: RingSize) -> Result<Self, KernelError> {
        let bytes = size.pages * PAGE;
        fault::before("mmap", || "the records of a perf event".to_owned())?;
        let map = MmapOptions::new()
            .len(PAGE + bytes)
            .map_raw(event.as_fd().as_raw_fd())
            .map_err(|source| KernelError {
                call: "mmap",
                object: "the records of a perf event".to_owned(),
                source,
            })?;
        Ok(Self { map, bytes })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offset is that of an aligned 64-bit field of the first page, which kernel and
        // user space access atomically, and the mapping lives as long as the borrow.
        unsafe { &*self.map.as_mut_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Takes out what was recorded since the last time. The result is the number of traps that had
    /// no room.
    pub fn take(&mut self, mut visit: impl FnMut(Trap)) -> u64 {
        let head = std::mem::offset_of!(raw::perf_event_mmap_page, data_head);
        let tail = std::mem::offset_of!(raw::perf_event_mmap_page, data_tail);
        let end = self.word(head).load(Acquire);
        let start = self.word(tail).load(Acquire);
        let len = usize::try_from(end.wrapping_sub(start)).unwrap_or(0);
        if len == 0 || len > self.bytes {
            return 0;
        }
        let first = start as usize % self.bytes;
        let unbroken = len.min(self.bytes - first);
        let mut records = vec![0; len];
        // SAFETY: both pieces are within the mapping's data pages and within `records`; the kernel
        // writes nothing between tail and head.
        unsafe {
            let data = self.map.as_mut_ptr().add(PAGE);
            let to: *mut u8 = records.as_mut_ptr();
            std::ptr::copy_nonoverlapping(data.add(first), to, unbroken);
            std::ptr::copy_nonoverlapping(data, to.add(unbroken), len - unbroken);
        }
        self.word(tail).store(end, Release);
        parse(&records, &mut visit)
    }
}

/// Reads whole records; the number of those that were lost.
fn parse(mut records: &[u8], visit: &mut impl FnMut(Trap)) -> u64 {
    /// `struct perf_event_header`: type, misc, size.
    const HEADER: usize = 8;
    let mut lost = 0;
    while let Some((header, _)) = records.split_first_chunk::<HEADER>() {
        let [t0, t1, t2, t3, _, _, s0, s1] = *header;
        let kind = u32::from_ne_bytes([t0, t1, t2, t3]);
        let size = usize::from(u16::from_ne_bytes([s0, s1]));
        let Some(body) = records.get(HEADER..size) else {
            return lost;
        };
        match kind {
            raw::PERF_RECORD_SAMPLE => {
                if let Some(trap) = sample(body) {
                    visit(trap);
                }
            }
            // u64 id, u64 lost
            raw::PERF_RECORD_LOST => {
                let mut words = Words(body);
                lost += words.next().and_then(|_id| words.next()).unwrap_or(0);
            }
            _ => {}
        }
        records = records.get(size..).unwrap_or_default();
    }
    lost
}

struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }
}

/// The body of a record of `SAMPLE_TYPE` (`perf/attributes.rs`); `None` for one without registers of user mode.
fn sample(body: &[u8]) -> Option<Trap> {
    /// `PERF_SAMPLE_REGS_ABI_64`.
    const ABI_64: u64 = 2;
    let mut words = Words(body);
    let event = words.next()?;
    let _ip = words.next()?;
    let tid = (words.next()? >> 32) as u32;
    let time_ns = words.next()?;
    let address = words.next()?;
    if words.next()? != ABI_64 {
        return None;
    }
    // In the order of the bits of the mask.
    let mut next = || words.next();
    let regs = TrapRegs {
        rax: next()?,
        rbx: next()?,
        rcx: next()?,
        rdx: next()?,
        rsi: next()?,
        rdi: next()?,
        rbp: next()?,
        rsp: next()?,
        rip: next()?,
        eflags: next()?,
        cs: next()?,
        ss: next()?,
        r8: next()?,
        r9: next()?,
        r10: next()?,
        r11: next()?,
        r12: next()?,
        r13: next()?,
        r14: next()?,
        r15: next()?,
        orig_rax: 0,
    };
    let room = usize::try_from(words.next()?).ok()?;
    let stack = match words.0.get(..room) {
        Some(stack) if room > 0 => {
            // Behind it stands how much of it is valid.
            let mut behind = Words(words.0.get(room..)?);
            let valid = usize::try_from(behind.next()?).ok()?;
            stack.get(..valid.min(room))?.to_vec()
        }
        _ => Vec::new(),
    };
    Some(Trap {
        event,
        tid,
        time_ns,
        address,
        regs,
        stack,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use super::*;
    use crate::{
        addr::RuntimeAddr,
        kernel::{
            perf::{EventOptions, WatchKind},
            process::monotonic_ns,
        },
    };

    /// Check on this thread that each access is written down once, with its thread, its time, its
    /// address, registers and stack, and that nothing is when the watchpoint is disarmed.
    #[test]
    fn accesses_are_written_down() {
        let tid = nix::unistd::gettid().as_raw().cast_unsigned();
        let mut event = PerfEvent::breakpoint(
            tid,
            EventOptions {
                record_stack: Some(RingSize::USUAL.stack),
                ..EventOptions::SILENT
            },
        )
        .unwrap();
        let mut ring = Ring::of(&event, RingSize::USUAL).unwrap();
        let id = event.id().unwrap();
        let watched = AtomicU64::new(0);
        let address = watched.as_ptr() as u64;
        for round in 1..20 {
            let before = monotonic_ns();
            event
                .watch(RuntimeAddr(address), 8, WatchKind::Writes)
                .unwrap();
            watched.store(round, SeqCst);
            event.disable().unwrap();
            watched.store(0, SeqCst);
            let after = monotonic_ns();
            let mut traps = Vec::new();
            assert_eq!(ring.take(|trap| traps.push(trap)), 0);
            let [trap] = &traps[..] else {
                panic!("{traps:?}")
            };
            assert_eq!((trap.event, trap.tid, trap.address), (id, tid, address));
            assert!((before..=after).contains(&trap.time_ns));
            let here = accesses_are_written_down as fn() as usize as u64;
            assert!(trap.regs.rip.abs_diff(here) < 1 << 24, "{trap:?}");
            assert!(trap.regs.rsp.abs_diff(address) < 1 << 16, "{trap:?}");
            // The variable is on the stack, at or above the stack pointer.
            let at = (address - trap.regs.rsp) as usize;
            let word = trap.stack.get(at..at + 8).unwrap();
            assert_eq!(word, round.to_ne_bytes());
        }
    }

    /// Check that a ring that nobody empties says how many traps it had no room for.
    #[test]
    fn lost_traps_are_counted() {
        const TRAPS: u64 = 50;
        let tid = nix::unistd::gettid().as_raw().cast_unsigned();
        let options = EventOptions {
            record_stack: Some(RingSize::SMALL.stack),
            ..EventOptions::SILENT
        };
        let mut event = PerfEvent::breakpoint(tid, options).unwrap();
        let mut ring = Ring::of(&event, RingSize::SMALL).unwrap();
        let watched = AtomicU64::new(0);
        event
            .watch(RuntimeAddr(watched.as_ptr() as u64), 8, WatchKind::Writes)
            .unwrap();
        for round in 0..TRAPS {
            watched.store(round, SeqCst);
        }
        let mut seen = 0;
        let mut lost = ring.take(|_| seen += 1);
        // The loss is told of in front of the next record.
        watched.store(0, SeqCst);
        lost += ring.take(|_| seen += 1);
        assert!(seen > 1 && lost > 0);
        assert_eq!(seen + lost, TRAPS + 1);
    }

    /// Check that a record cut at any place is no panic.
    #[test]
    fn records_cut_short() {
        let bytes = [0xffu8; 600];
        for len in 0..bytes.len() {
            let _ = sample(&bytes[..len]);
            let mut record = bytes[..len].to_vec();
            if len >= 8 {
                record[..8].copy_from_slice(&[9, 0, 0, 0, 0, 0, len as u8, (len >> 8) as u8]);
            }
            let _ = parse(&record, &mut |_| {});
        }
    }
}
