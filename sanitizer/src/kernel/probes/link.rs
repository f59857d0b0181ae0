//! Probes that stand: `BPF_LINK_CREATE` for `BPF_TRACE_UPROBE_MULTI` (bpf(2), `include/uapi/linux/bpf.h`).

use std::{
    ffi::CString,
    fs::File,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd},
};

use aya_obj::generated::{bpf_attach_type, bpf_attr, bpf_cmd};

use crate::kernel::{KernelError, fault};

use super::load::call;

/// Probes that end with it. To drop it waits for grace periods of RCU.
///
/// While the kernel changes code, it gives up where its task is to be killed: whoever is killed in the midst of arming or removing leaves what is
/// armed at that moment, for ever (`uprobe_write_opcode` in `kernel/events/uprobes.c` fails by `EINTR` then, also when it is to take back what it has done). That would be so
/// in one of some ten such kills. But whenever any probe at a place ends, the kernel takes back whatever is left there that nobody wants any more, in all processes. So
/// each place has another probe besides, which is there before and until afterwards, and changes nothing: it is for a process that has not mapped the file, which is this one.
/// Where this one is killed, its descriptors are closed when the signal is no longer pending, and so that probe mends what is left.
pub(super) struct Link {
    /// Dropped first.
    _probes: OwnedFd,
    _keeper: OwnedFd,
}

impl Link {
    /// Arms probes of a program, for the threads of a process, at these places of a file, each with its cookie. The calling thread must have the file open in
    /// its own table.
    ///
    /// # Errors
    /// Fails where bpf(2) does: no probe stands then.
    pub(super) fn new(
        program: BorrowedFd<'_>,
        pid: u32,
        file: &File,
        offsets: &[u64],
        cookies: &[u64],
    ) -> Result<Self, KernelError> {
        let _keeper = create(program, std::process::id(), file, offsets, cookies)?;
        let _probes = create(program, pid, file, offsets, cookies)?;
        Ok(Self { _probes, _keeper })
    }
}

/// What arms probes.
const CREATE: &str = "bpf(BPF_LINK_CREATE)";

/// Whether the kernel says by an error that it has no probes at these places: it cannot read the file for them (`uprobe_register` in `kernel/events/uprobes.c`), or it cannot
/// execute what stands there (`arch_uprobe_analyze_insn` in `arch/x86/kernel/uprobes.c`).
pub(super) fn is_refusal(error: &KernelError) -> bool {
    /// Of the kernel's own `include/linux/errno.h`.
    const ENOTSUPP: i32 = 524;
    let refusals = [libc::EIO, libc::ENOEXEC, ENOTSUPP];
    let is_one = |number| refusals.contains(&number);
    error.call == CREATE && error.source.raw_os_error().is_some_and(is_one)
}

fn create(
    program: BorrowedFd<'_>,
    pid: u32,
    file: &File,
    offsets: &[u64],
    cookies: &[u64],
) -> Result<OwnedFd, KernelError> {
    let object = || format!("{} probes of process {pid}", offsets.len());
    fault::before(CREATE, object)?;
    // By its descriptor it is this very file, whatever its name means by now.
    let path = CString::new(format!("/proc/thread-self/fd/{}", file.as_raw_fd()))
        .map_err(|cause| KernelError::other(CREATE, object(), cause.to_string()))?;
    // SAFETY: all of its members are integers, for which 0 is valid.
    let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
    // SAFETY: as above, whichever members of the unions are used.
    unsafe {
        let link = &mut attr.link_create;
        link.__bindgen_anon_1.prog_fd = program.as_raw_fd().cast_unsigned();
        link.attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
        let probes = &mut link.__bindgen_anon_3.uprobe_multi;
        probes.path = path.as_ptr() as u64;
        probes.offsets = offsets.as_ptr() as u64;
        probes.cookies = cookies.as_ptr() as u64;
        probes.cnt = u32::try_from(offsets.len().min(cookies.len())).unwrap_or(0);
        probes.pid = pid;
    }
    call(bpf_cmd::BPF_LINK_CREATE, &attr).map_err(|source| KernelError {
        call: CREATE,
        object: object(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what the kernel says of places is told from what others are to blame for.
    #[test]
    fn refusals_are_of_places() {
        let error = |call, number| KernelError {
            call,
            object: "3 probes".to_owned(),
            source: std::io::Error::from_raw_os_error(number),
        };
        for number in [libc::EIO, libc::ENOEXEC, 524] {
            assert!(is_refusal(&error(CREATE, number)), "{number}");
            assert!(!is_refusal(&error("open", number)), "{number}");
        }
        for number in [libc::ENOMEM, libc::EPERM, libc::ESRCH, libc::EINTR] {
            assert!(!is_refusal(&error(CREATE, number)), "{number}");
        }
    }
}
