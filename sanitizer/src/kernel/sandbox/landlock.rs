//! Landlock (landlock(7)): no access to any file system, no network, no other processes. The calls and structures are those of
//! `include/uapi/linux/landlock.h`; the C library has none.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use crate::kernel::KernelError;

/// `LANDLOCK_CREATE_RULESET_VERSION`.
const VERSION: u32 = 1;

/// `struct landlock_ruleset_attr`: what is forbidden where no rule allows it.
#[repr(C)]
#[derive(Debug, Default)]
struct Ruleset {
    file_system: u64,
    network: u64,
    scoped: u64,
}

impl Ruleset {
    /// All that this version knows of, and how many bytes of the structure it knows.
    fn of(version: i64) -> (Self, usize) {
        // Rights are numbered; later versions have added one after the other (`LANDLOCK_ACCESS_FS_*`).
        let rights: u32 = match version {
            ..=1 => 13,
            2 => 14,
            3 | 4 => 15,
            5.. => 16,
        };
        let mut all = Self {
            file_system: (1 << rights) - 1,
            ..Self::default()
        };
        let mut size = size_of::<u64>();
        if version >= 4 {
            // `LANDLOCK_ACCESS_NET_BIND_TCP`, `_CONNECT_TCP`.
            all.network = 0b11;
            size += size_of::<u64>();
        }
        if version >= 6 {
            // `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET`, `_SIGNAL`.
            all.scoped = 0b11;
            size += size_of::<u64>();
        }
        (all, size)
    }
}

/// The version of this kernel's.
pub(super) fn version() -> Result<i64, KernelError> {
    // SAFETY: with this flag the call takes no structure.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<Ruleset>(),
            0,
            VERSION,
        )
    };
    match version {
        1.. => Ok(version),
        _ => Err(failed()),
    }
}

/// Forbids the calling thread all that this kernel's Landlock knows of.
pub(super) fn forbid_all() -> Result<(), KernelError> {
    let (all, size) = Ruleset::of(version()?);
    // SAFETY: the structure has at least so many bytes, and lives through the call.
    let rules =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const all, size, 0) };
    let rules = match i32::try_from(rules) {
        // SAFETY: the call has made it, and nobody else knows of it.
        Ok(rules) if rules >= 0 => unsafe { OwnedFd::from_raw_fd(rules) },
        _ => return Err(failed()),
    };
    // SAFETY: the call takes no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
    match result {
        0 => Ok(()),
        _ => Err(failed()),
    }
}

fn failed() -> KernelError {
    KernelError::last("landlock", "this process")
}
