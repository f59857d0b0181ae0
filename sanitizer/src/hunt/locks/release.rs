//! Who holds a lock for reading. The lock itself knows only how many do; but a thread that releases a lock has held it since it last took it. So a thread that stands at its access is watched
//! from there until it writes to the lock: whatever it does with it first of all comes with the place in the code, and where that is what releases locks, the thread held it at its access.
//!
//! The watchpoint is that thread's alone, traps once, and stops nobody.

use crate::addr::RuntimeAddr;
use crate::kernel::KernelError;
use crate::kernel::gates::user_registers;
use crate::kernel::perf::{EventOptions, PerfEvent};
use crate::kernel::ring::{Ring, RingSize};
use crate::report::finding::WrittenLock;

/// Bytes of stack that a record has: the least that there is, since none are wanted.
const STACK: u16 = 8;

/// Waits for a thread's first write to a lock.
#[derive(Debug)]
pub struct ReleaseWatch {
    // In this order: the records are those of the event.
    ring: Ring,
    _event: PerfEvent,
    address: u64,
    written: Option<WrittenLock>,
}

impl ReleaseWatch {
    /// Watches from now on; the thread stands still.
    ///
    /// # Errors
    /// Fails where the perf calls do: `ENOSPC` where the thread has no breakpoint left.
    pub fn begin(tid: u32, address: u64) -> Result<Self, KernelError> {
        let options = EventOptions {
            record_stack: Some(STACK),
            ..EventOptions::SILENT
        };
        let mut event = PerfEvent::breakpoint(tid, options)?;
        let ring = Ring::of(&event, RingSize::SMALL)?;
        event.watch_next_write(RuntimeAddr(address), super::layout::READERS)?;
        Ok(Self {
            ring,
            _event: event,
            address,
            written: None,
        })
    }

    /// What the thread has written to first, once it has.
    pub fn written(&mut self) -> Option<WrittenLock> {
        let Self {
            ring,
            address,
            written,
            ..
        } = self;
        ring.take(|trap| {
            written.get_or_insert(WrittenLock {
                address: *address,
                behind: trap.regs.rip,
                is_given: user_registers(&trap.regs, 0)
                    .in_dwarf_order()
                    .contains(address),
            });
        });
        *written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the first write of a thread is told, and none before it, after it, or by another thread.
    #[test]
    fn first_write_of_a_thread() {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        let lock = AtomicU32::new(8);
        let tid = nix::unistd::gettid().as_raw().cast_unsigned();
        let here = first_write_of_a_thread as fn() as usize as u64;
        let mut watch = ReleaseWatch::begin(tid, lock.as_ptr() as u64).expect("there is one left");
        assert_eq!(watch.written(), None);
        std::thread::scope(|scope| {
            scope.spawn(|| lock.fetch_add(8, SeqCst));
        });
        assert_eq!(watch.written(), None);
        lock.fetch_sub(8, SeqCst);
        let written = watch.written().expect("it was written to");
        assert_eq!(written.address, lock.as_ptr() as u64);
        assert!(written.behind.abs_diff(here) < 1 << 24, "{written:?}");
        lock.fetch_add(8, SeqCst);
        assert_eq!(watch.written(), Some(written));
        assert_eq!(watch.ring.take(|trap| panic!("{trap:?}")), 0);
    }
}
