//! Events that send a signal by themselves, where there are no gates (fcntl(2)).

use std::os::fd::AsRawFd as _;

use super::{PerfEvent, Scope};
use crate::kernel::KernelError;

impl PerfEvent {
    /// The kernel sends the event's thread this signal at each trap. Its `si_code` is
    /// [`crate::kernel::ptrace::POLL_IN`], its `si_fd` the descriptor of the event (fcntl(2), `F_SETSIG`).
    ///
    /// # Errors
    /// Fails where fcntl(2) does.
    pub fn signal_at_traps(&self, signal: u8) -> Result<(), KernelError> {
        /// `F_SETSIG`, `F_SETOWN_EX`, `F_OWNER_TID` (`include/uapi/asm-generic/fcntl.h`).
        const F_SETSIG: i32 = 10;
        const F_SETOWN_EX: i32 = 15;
        const F_OWNER_TID: i32 = 0;
        #[repr(C)]
        struct Owner {
            kind: i32,
            id: i32,
        }
        let Scope::Thread(tid) = self.scope else {
            return Ok(());
        };
        let owner = Owner {
            kind: F_OWNER_TID,
            id: tid.cast_signed(),
        };
        let fd = self.fd.as_raw_fd();
        self.before("fcntl(F_SETOWN_EX)")?;
        // SAFETY: the descriptor is open, and `owner` is what F_SETOWN_EX reads.
        unsafe {
            self.check(
                libc::fcntl(fd, F_SETOWN_EX, &raw const owner),
                "fcntl(F_SETOWN_EX)",
            )?;
            self.check(
                libc::fcntl(fd, F_SETSIG, i32::from(signal)),
                "fcntl(F_SETSIG)",
            )?;
            self.check(
                libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC),
                "fcntl(F_SETFL)",
            )
        }
    }
}
