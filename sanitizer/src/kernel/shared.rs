//! Memory that the gates and this process share: the values of an mmapable BPF array. Where there are
//! no gates, tracer and watchdog share the same in a file that is only in memory.

use std::{marker::PhantomData, os::fd::AsRawFd};

use memmap2::{MmapOptions, MmapRaw};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{KernelError, fault};

/// The kernel rounds the values of an array map up to this (`kernel/bpf/arraymap.c`).
const STRIDE: usize = 8;

/// The values of a BPF array map with `BPF_F_MMAPABLE`, mapped.
///
/// `T` must be `repr(C)` and valid for any bits.
#[derive(Debug)]
pub struct SharedArray<T> {
    map: MmapRaw,
    len: usize,
    values: PhantomData<T>,
}

impl<T> SharedArray<T> {
    /// Maps the `len` values of a map.
    ///
    /// # Errors
    /// Fails where mmap(2) does.
    pub(super) fn map(fd: &impl AsRawFd, len: usize, name: &str) -> Result<Self, KernelError> {
        let bytes = len * Self::stride();
        fault::before("mmap", || format!("the BPF map {name}"))?;
        let map = MmapOptions::new()
            .len(bytes)
            .map_raw(fd.as_raw_fd())
            .map_err(|source| KernelError {
                call: "mmap",
                object: format!("the BPF map {name}"),
                source,
            })?;
        Ok(Self {
            map,
            len,
            values: PhantomData,
        })
    }

    /// `len` zeroed values in memory of their own, which children that are forked share.
    ///
    /// # Errors
    /// Fails where memfd_create(2) and mmap(2) do.
    pub(super) fn alone(len: usize) -> Result<Self, KernelError> {
        let failed = |cause: nix::Error| KernelError {
            call: "memfd_create",
            object: "the control block".to_owned(),
            source: cause.into(),
        };
        let file = memfd_create(c"gwp-race", MFdFlags::MFD_CLOEXEC).map_err(failed)?;
        nix::unistd::ftruncate(&file, (len * Self::stride()) as i64).map_err(failed)?;
        Self::map(&file, len, "control")
    }

    fn stride() -> usize {
        size_of::<T>().next_multiple_of(STRIDE)
    }

    /// A pointer to a value, `None` past the end.
    pub(super) fn pointer(&self, index: usize) -> Option<*mut T> {
        // `index * stride` is within the mapping, so the pointer stays inside it.
        (index < self.len).then(|| {
            self.map
                .as_mut_ptr()
                .wrapping_add(index * Self::stride())
                .cast()
        })
    }
}
