//! What is true of a process as a whole.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::Pid;

use super::error::TargetError;
use super::maps::Maps;
use super::memory;
use super::procfs::path;
use super::threads::{self, live_thread};
use crate::kernel::foreign::{ForeignError, ForeignFile, Purpose};
use crate::kernel::process::CpuClock;

/// `EI_CLASS` of elf(5) for a 64-bit file.
const ELFCLASS64: u8 = 2;
/// Bytes of an ELF header, up to and with `e_machine`.
const HEADER: usize = 20;
/// `e_machine` of elf(5) for x86-64.
const EM_X86_64: u16 = 62;

/// Whether an id is that of a process that executes a program, and has not ended.
///
/// # Errors
/// Says what it is otherwise.
pub fn check_is_program(pid: Pid) -> Result<(), TargetError> {
    if threads::Stat::read(pid, pid)?.is_kernels {
        return Err(TargetError::KernelThread(pid));
    }
    match live_thread(pid) {
        // What has ended and was taken note of has no file.
        Err(TargetError::Vanished(_)) if threads::Stat::read(pid, pid).is_ok() => {
            Err(TargetError::Zombie(pid))
        }
        result => result.map(drop),
    }
}

/// The name of the file that a process executes, as it is in that process's mount namespace: a file that was deleted has a mark behind it (proc_pid_exe(5)).
///
/// # Errors
/// Fails where the process has ended or may not be looked into.
pub fn executed(pid: Pid) -> Result<PathBuf, TargetError> {
    let link = path(live_thread(pid)?, "exe");
    std::fs::read_link(&link).map_err(|error| TargetError::from_io(pid, &link, error))
}

/// A path of [`executed`] without the mark of a file that was deleted.
#[must_use]
pub fn without_mark(program: &Path) -> &Path {
    /// See proc_pid_exe(5).
    const DELETED: &[u8] = b" (deleted)";
    let bytes = program.as_os_str().as_bytes();
    bytes
        .strip_suffix(DELETED)
        .map_or(program, |name| Path::new(OsStr::from_bytes(name)))
}

/// CPU time that all threads of a process have used so far, exited ones too, in user and
/// kernel mode, in nanoseconds' resolution.
pub fn cpu_time(pid: Pid) -> Result<Duration, TargetError> {
    CpuClock::of(pid.as_raw().cast_unsigned())
        .told_ns()
        .map(Duration::from_nanos)
        .ok_or(TargetError::Vanished(pid))
}

/// The instruction set that a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// `e_machine` of its program's ELF header.
    pub machine: u16,
    /// Whether its program is a 64-bit ELF file.
    pub is_64_bit: bool,
}

impl Architecture {
    /// By the header of the library that the kernel gives to each process (vdso(7)); where there is none, by that of its program.
    ///
    /// # Errors
    /// Fails where the process has ended or may not be looked into, and where there is none and a process serves the program's file
    /// system: it may not answer.
    pub fn of(pid: Pid) -> Result<Self, TargetError> {
        match Self::by_vdso(pid) {
            Ok(Some(found)) => Ok(found),
            Err(vanished @ TargetError::Vanished(_)) => Err(vanished),
            Ok(None) | Err(_) => Self::by_program(pid),
        }
    }

    fn by_vdso(pid: Pid) -> Result<Option<Self>, TargetError> {
        let maps = Maps::read(pid)?;
        let Some(vdso) = maps.iter().find(|mapping| *mapping.name == *"[vdso]") else {
            return Ok(None);
        };
        let mut header = [0; HEADER];
        let is_read = memory::read_exact(pid, vdso.start, &mut header)?;
        Ok((is_read && header.starts_with(b"\x7fELF")).then(|| Self::by_header(&header)))
    }

    fn by_program(pid: Pid) -> Result<Self, TargetError> {
        let id = live_thread(pid)?;
        let path = path(id, "exe");
        let mut header = [0; HEADER];
        let id = id.as_raw().cast_unsigned();
        let file = ForeignFile::executed(id, Purpose::Promptly).and_then(|file| file.open());
        file.map_err(|error| match error {
            ForeignError::Call(error) => error.source,
            refused => io::Error::other(refused),
        })
        .and_then(|mut file| file.read_exact(&mut header))
        .map_err(|error| TargetError::from_io(pid, &path, error))?;
        Ok(Self::by_header(&header))
    }

    fn by_header(header: &[u8; HEADER]) -> Self {
        Self {
            machine: u16::from_le_bytes([header[18], header[19]]),
            is_64_bit: header[4] == ELFCLASS64,
        }
    }

    /// Whether it is 64-bit x86: neither i386 nor x32.
    #[must_use]
    pub fn is_x86_64(self) -> bool {
        self.is_64_bit && self.machine == EM_X86_64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee::testing::Child;

    /// Check that CPU time grows where a process computes, counts threads that are gone, and
    /// stands still where it sleeps.
    #[test]
    fn cpu_time_of_busy_and_idle() {
        let child = Child::run(
            "#include <pthread.h>\n#include <stdio.h>\n#include <time.h>\n#include <unistd.h>\n\
             void *burn(void *p) { while (clock() < CLOCKS_PER_SEC / 20); return 0; }\n\
             int main() { pthread_t t; pthread_create(&t, 0, burn, 0); pthread_join(t, 0);\n\
               puts(\"ready\"); fflush(stdout); pause(); }",
            &["-pthread"],
        );
        child.wait_for_line("ready");
        child.wait_for_state('S');
        let used = cpu_time(child.pid()).unwrap();
        assert!(used >= Duration::from_millis(50), "{used:?}");
        assert_eq!(used, cpu_time(child.pid()).unwrap());
        let architecture = Architecture::of(child.pid()).unwrap();
        assert!(architecture.is_x86_64());
        let by_program = Architecture::by_program(child.pid()).unwrap();
        assert_eq!(architecture, by_program);
    }

    /// Check that what ids name that are no processes with a program is told apart.
    #[test]
    fn what_is_no_program() {
        let mut child = Child::run("int main() { return 0; }", &[]);
        child.wait_for_state('Z');
        let error = check_is_program(child.pid()).unwrap_err();
        assert!(matches!(error, TargetError::Zombie(_)), "{error}");
        child.reap();
        assert!(check_is_program(child.pid()).unwrap_err().is_vanished());
        check_is_program(Pid::this()).unwrap();
        // The first thread may have ended before the others.
        let child = Child::run(
            "#include <pthread.h>\n#include <unistd.h>\n\
             void *stay(void *p) { for (;;) pause(); }\n\
             int main() { pthread_t t; pthread_create(&t, 0, stay, 0); pthread_exit(0); }",
            &["-pthread"],
        );
        child.wait_for_state('Z');
        check_is_program(child.pid()).unwrap();
        // Not every pid namespace shows kthreadd, which has this id.
        let kernels = Pid::from_raw(2);
        if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            let error = check_is_program(kernels).unwrap_err();
            assert!(matches!(error, TargetError::KernelThread(_)), "{error}");
        }
    }

    /// Check that a process that is gone is told apart from failures.
    #[test]
    fn vanished_process() {
        let mut child = Child::run("int main() { return 0; }", &[]);
        child.wait_for_state('Z');
        assert!(live_thread(child.pid()).unwrap_err().is_vanished());
        assert!(Architecture::of(child.pid()).unwrap_err().is_vanished());
        child.reap();
        assert!(cpu_time(child.pid()).unwrap_err().is_vanished());
        assert!(live_thread(child.pid()).unwrap_err().is_vanished());
    }
}
