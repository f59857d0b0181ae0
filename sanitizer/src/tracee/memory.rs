//! Reading the memory of a live process without stopping it: process_vm_readv(2), and
//! `/proc/PID/mem` where that system call is forbidden.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::error::TargetError;
use super::{procfs, threads};
use crate::addr::RuntimeAddr;
use crate::kernel::fault;

/// The page size of x86-64: where one address can be read, so can all of its page.
const PAGE: u64 = 4096;
/// `UIO_MAXIOV` of linux/uio.h: how many pieces one call takes.
const MAX_PIECES: usize = 1024;

/// Reads memory from `address` on, up to the first byte that cannot be read (unmapped, or not
/// readable), and returns how many bytes were read: 0 where not even the first one can be.
///
/// The target is not stopped, so what is read may be mixed from several moments.
pub fn read(pid: Pid, address: RuntimeAddr, buffer: &mut [u8]) -> Result<usize, TargetError> {
    match read_by_call(pid, address, buffer) {
        Ok(count) => Ok(count),
        // A main thread that has exited has no address space; its process may well have one.
        Err(Errno::ESRCH) => {
            let tid = threads::live_thread(pid)?;
            match read_by_call(tid, address, buffer) {
                Err(Errno::ESRCH) => Err(TargetError::Vanished(pid)),
                Err(_) => read_by_file(pid, tid, address, buffer),
                Ok(count) => Ok(count),
            }
        }
        Err(_) => read_by_file(pid, pid, address, buffer),
    }
}

/// Reads exactly `buffer.len()` bytes; false where some of them cannot be read.
pub fn read_exact(pid: Pid, address: RuntimeAddr, buffer: &mut [u8]) -> Result<bool, TargetError> {
    Ok(read(pid, address, buffer)? == buffer.len())
}

/// Which pages of a process are in memory: `/proc/PID/pagemap` (Documentation/admin-guide/mm/pagemap.rst). To read any other
/// fetches it from a file or from swap, or waits for whoever provides it (userfaultfd(2)).
#[derive(Debug)]
pub struct Resident(File);

impl Resident {
    /// Those of a process.
    ///
    /// # Errors
    /// Fails where the file cannot be opened.
    pub fn of(pid: Pid) -> Result<Self, TargetError> {
        // A main thread that has exited has no address space.
        let path = procfs::path(threads::live_thread(pid)?, "pagemap");
        File::open(&path)
            .map(Self)
            .map_err(|error| TargetError::from_io(pid, &path, error))
    }

    /// Those of the process of a thread that stands still, and so lives: nobody else need be looked for.
    ///
    /// # Errors
    /// Fails where the file cannot be opened.
    pub fn of_standing(tid: Pid) -> Result<Self, TargetError> {
        let path = procfs::path(tid, "pagemap");
        File::open(&path)
            .map(Self)
            .map_err(|error| TargetError::from_io(tid, &path, error))
    }

    /// Whether the page of an address is one of them; false where it is not known.
    #[must_use]
    pub fn has(&self, address: RuntimeAddr) -> bool {
        const PRESENT: u64 = 1 << 63;
        let mut entry = [0; 8];
        let at = address.0 / PAGE * entry.len() as u64;
        self.0.read_exact_at(&mut entry, at).is_ok() && u64::from_ne_bytes(entry) & PRESENT != 0
    }

    /// Reads memory of the process of a living thread that is in at most two pages, if all of it is in memory; whether it was read. No other way is tried, since somebody stands meanwhile.
    pub fn read_exact(&self, tid: Pid, address: RuntimeAddr, buffer: &mut [u8]) -> bool {
        let last = address.0.checked_add(buffer.len().saturating_sub(1) as u64);
        let is_here = last.is_some_and(|last| {
            self.has(address) && (last / PAGE == address.0 / PAGE || self.has(RuntimeAddr(last)))
        });
        is_here && read_by_call(tid, address, buffer) == Ok(buffer.len())
    }
}

fn read_by_call(tid: Pid, address: RuntimeAddr, buffer: &mut [u8]) -> Result<usize, Errno> {
    let wanted = buffer.len();
    let mut done = 0;
    while done < wanted {
        // The call promises partial reads only between pieces: so a piece is never more than
        // a page.
        let mut pieces = Vec::new();
        let mut planned = done;
        while planned < wanted && pieces.len() < MAX_PIECES {
            let Some(base) = address.0.checked_add(planned as u64) else {
                break;
            };
            let Ok(base_in_page) = usize::try_from(base % PAGE) else {
                break;
            };
            let len = (wanted - planned).min(PAGE as usize - base_in_page);
            let Ok(base) = usize::try_from(base) else {
                break;
            };
            pieces.push(RemoteIoVec { base, len });
            planned += len;
        }
        let Some(local) = buffer.get_mut(done..planned) else {
            break;
        };
        if let Err(error) = fault::before("process_vm_readv", || format!("process {tid}")) {
            return Err(Errno::from_raw(error.source.raw_os_error().unwrap_or(0)));
        }
        match process_vm_readv(tid, &mut [IoSliceMut::new(local)], &pieces) {
            Ok(0) | Err(Errno::EFAULT) => break,
            Ok(count) => {
                done += count;
                if done < planned {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn read_by_file(
    pid: Pid,
    tid: Pid,
    address: RuntimeAddr,
    buffer: &mut [u8],
) -> Result<usize, TargetError> {
    let path = procfs::path(tid, "mem");
    let fail = |error| TargetError::from_io(pid, &path, error);
    let file = File::open(&path).map_err(fail)?;
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let Some(at) = address.0.checked_add(done as u64) else {
            break;
        };
        match file.read_at(rest, at) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.raw_os_error() == Some(libc::EIO) => break,
            Err(error) => return Err(fail(error)),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee::testing::Child;

    /// Check that pages are told that were touched, and none that were not or do not exist.
    #[test]
    fn resident_pages_are_told() {
        use std::ptr;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let pages = 2 * PAGE as usize;
        // SAFETY: a new mapping anywhere touches nothing that exists.
        let start = unsafe { libc::mmap(ptr::null_mut(), pages, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: it is mapped, and nobody else knows of it. Huge pages would bring both.
        unsafe {
            libc::madvise(start, pages, libc::MADV_NOHUGEPAGE);
            start.cast::<u8>().write_volatile(1);
        }
        let first = start as u64;
        let resident = Resident::of(Pid::this()).expect("it is there");
        let told = [first, first + 8, first + PAGE, u64::MAX, 0];
        let told = told.map(|address| resident.has(RuntimeAddr(address)));
        assert_eq!(told, [true, true, false, false, false]);
        let reads = |address: u64, len: usize| {
            let mut bytes = vec![7; len];
            let is_read = resident.read_exact(Pid::this(), RuntimeAddr(address), &mut bytes);
            is_read.then(|| bytes.first().copied()).flatten()
        };
        assert_eq!(reads(first, PAGE as usize), Some(1));
        assert_eq!(reads(first + PAGE - 4, 8), None);
        assert_eq!(reads(first + PAGE, 1), None);
        // SAFETY: it was mapped above, and is used no more.
        unsafe { libc::munmap(start, pages) };
        let gone = Resident::of(Pid::from_raw(i32::MAX)).expect_err("nobody has that id");
        assert!(gone.is_vanished(), "{gone}");
    }

    /// Prints the address of eight readable pages that an unreadable one follows; every byte
    /// holds the number of its page.
    const EIGHT_PAGES: &str = "#include <pthread.h>\n#include <stdio.h>\n#include <string.h>\n\
        #include <sys/mman.h>\n#include <unistd.h>\n\
        void *other(void *p) { pause(); return 0; }\n\
        int main() { char *p = mmap(0, 9 * 4096, PROT_READ | PROT_WRITE,\n\
            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
          for (int i = 0; i < 9; i++) memset(p + i * 4096, i + 1, 4096);\n\
          munmap(p + 8 * 4096, 4096);\n\
          mmap(p + 8 * 4096, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);\n\
          printf(\"%p\\n\", (void *)p); fflush(stdout);\n\
          if (LEADER_EXITS) { pthread_t t; pthread_create(&t, 0, other, 0); pthread_exit(0); }\n\
          pause(); }";

    fn pages(child: &Child) -> RuntimeAddr {
        let line = child.read_line();
        let digits = line.trim().trim_start_matches("0x").to_owned();
        RuntimeAddr(u64::from_str_radix(&digits, 16).unwrap())
    }

    /// Check that reads stop exactly where memory does, by the call as well as by the file.
    #[test]
    fn reads_up_to_the_end() {
        let child = Child::run(EIGHT_PAGES, &["-pthread", "-DLEADER_EXITS=0"]);
        let (pid, address) = (child.pid(), pages(&child));
        let mut buffer = vec![0xff; 9 * 4096];
        assert_eq!(
            read(pid, address.offset(100), &mut buffer).unwrap(),
            8 * 4096 - 100
        );
        for (index, &byte) in buffer[..8 * 4096 - 100].iter().enumerate() {
            assert_eq!(usize::from(byte), (index + 100) / 4096 + 1);
        }
        assert!(buffer[8 * 4096 - 100..].iter().all(|&byte| byte == 0xff));
        let mut four = [0u8; 4];
        assert!(read_exact(pid, address.offset(4094), &mut four).unwrap());
        assert_eq!(four, [1, 1, 2, 2]);
        assert!(!read_exact(pid, address.offset(8 * 4096 - 2), &mut four).unwrap());
        assert_eq!(read(pid, address.offset(8 * 4096), &mut four).unwrap(), 0);
        assert_eq!(read(pid, RuntimeAddr(0), &mut four).unwrap(), 0);
        assert_eq!(read(pid, RuntimeAddr(u64::MAX - 1), &mut four).unwrap(), 0);
        assert_eq!(read(pid, RuntimeAddr(1 << 63), &mut four).unwrap(), 0);
        assert_eq!(read(pid, address, &mut []).unwrap(), 0);

        let mut by_file = vec![0xff; 8 * 4096];
        let count = read_by_file(pid, pid, address.offset(100), &mut by_file[100..]).unwrap();
        assert_eq!(count, 8 * 4096 - 100);
        assert_eq!(by_file[100..], buffer[..8 * 4096 - 100]);
        assert_eq!(
            read_by_file(pid, pid, RuntimeAddr(0), &mut four).unwrap(),
            0
        );
    }

    /// Check reads larger than one call takes.
    #[test]
    fn reads_more_than_one_call() {
        let child = Child::run(
            "#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n\
             char big[6 << 20]; int main() { memset(big, 7, sizeof big);\n\
             printf(\"%p\\n\", (void *)big); fflush(stdout); pause(); }",
            &[],
        );
        let address = pages(&child);
        let mut buffer = vec![0; 6 << 20];
        assert!(read_exact(child.pid(), address, &mut buffer).unwrap());
        assert!(buffer.iter().all(|&byte| byte == 7));
    }

    /// Check a process whose main thread has exited while another runs on.
    #[test]
    fn leader_gone() {
        let child = Child::run(EIGHT_PAGES, &["-pthread", "-DLEADER_EXITS=1"]);
        let address = pages(&child);
        child.wait_for_state('Z');
        let mut byte = [0];
        assert!(read_exact(child.pid(), address, &mut byte).unwrap());
        assert_eq!(byte, [1]);
    }

    /// Check that a process that is gone is told apart from failures.
    #[test]
    fn vanished_process() {
        let mut child = Child::run("int main() { return 0; }", &[]);
        child.wait_for_state('Z');
        let mut byte = [0];
        assert!(
            read(child.pid(), RuntimeAddr(4096), &mut byte)
                .unwrap_err()
                .is_vanished()
        );
        child.reap();
        assert!(
            read(child.pid(), RuntimeAddr(4096), &mut byte)
                .unwrap_err()
                .is_vanished()
        );
    }
}
