//! The threads of a process: `/proc/PID/task`, and what `/proc/PID/task/TID/stat` says of
//! each. The format is proc_pid_stat(5).

use std::time::Duration;

use nix::{
    errno::Errno,
    sys::signal::kill,
    unistd::{Pid, SysconfVar, sysconf},
};

use super::error::TargetError;
use super::kept::KeptFiles;
use super::procfs;

/// The ids of a process's threads, ascending. Threads may come and go while it is read: whoever
/// needs all of them reads until two passes agree.
pub fn list(pid: Pid) -> Result<Vec<Pid>, TargetError> {
    let path = procfs::path(pid, "task");
    let fail = |error| TargetError::from_io(pid, &path, error);
    let mut tids = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if let Some(tid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        {
            tids.push(Pid::from_raw(tid));
        }
    }
    tids.sort_unstable();
    if tids.is_empty() {
        Err(TargetError::Vanished(pid))
    } else {
        Ok(tids)
    }
}

/// A thread that is alive, for what is reached through any thread of the process: normally
/// the main thread, another one where the main thread has exited before the others.
///
/// `/proc/ID` and the system calls that look at an address space accept any thread's id. A thread that executes a program takes
/// the main thread's place and id, and while it does there may be none to be seen: as long as there is such a process, it is
/// looked for more than once.
pub fn live_thread(pid: Pid) -> Result<Pid, TargetError> {
    const LOOKS: usize = 3;
    const BETWEEN_LOOKS: Duration = Duration::from_micros(300);
    // Zombies exist, too. Whoever may not send signals to it is told so.
    let exists = || kill(pid, None) != Err(Errno::ESRCH);
    for _ in 1..LOOKS {
        match look_for_live_thread(pid) {
            Err(error) if error.is_vanished() && exists() => std::thread::sleep(BETWEEN_LOOKS),
            done => return done,
        }
    }
    look_for_live_thread(pid)
}

fn look_for_live_thread(pid: Pid) -> Result<Pid, TargetError> {
    if is_alive(pid)? {
        return Ok(pid);
    }
    for tid in list(pid)? {
        match is_alive(tid) {
            Ok(true) => return Ok(tid),
            Ok(false) | Err(TargetError::Vanished(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(TargetError::Vanished(pid))
}

fn is_alive(tid: Pid) -> Result<bool, TargetError> {
    Ok(!Stat::read(tid, tid)?.has_ended())
}

/// A thread's name (`comm`): at most 15 bytes, undecodable ones replaced.
pub fn name(pid: Pid, tid: Pid) -> Result<String, TargetError> {
    let text = procfs::read(pid, pid, &format!("task/{tid}/comm"))?;
    let name = text.strip_suffix(b"\n").unwrap_or(&text);
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// The living children that a thread has forked; none where the kernel does not tell.
#[must_use]
pub fn children(pid: Pid, tid: Pid) -> Vec<Pid> {
    let text = procfs::read(pid, pid, &format!("task/{tid}/children")).unwrap_or_default();
    String::from_utf8_lossy(&text)
        .split_ascii_whitespace()
        .filter_map(|id| id.parse().ok().map(Pid::from_raw))
        .collect()
}

/// What `schedstat` says of one thread's life. The format is the kernel's
/// Documentation/scheduler/sched-stats.rst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// How long it has waited for a processor.
    pub waited: Duration,
    /// How often it was given one.
    pub turns: u64,
}

impl Scheduling {
    /// Reads it; nothing where the thread is gone, or the kernel does not count.
    #[must_use]
    pub fn read(pid: Pid, tid: Pid) -> Option<Self> {
        Self::parse(&procfs::read(pid, pid, &format!("task/{tid}/schedstat")).ok()?)
    }

    /// The files of several threads, for [`Scheduling::of`].
    #[must_use]
    pub fn files() -> KeptFiles {
        KeptFiles::of("schedstat")
    }

    /// Reads it in such files.
    #[must_use]
    pub fn of(files: &mut KeptFiles, pid: Pid, tid: Pid) -> Option<Self> {
        files.read(pid, tid, Self::parse)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut numbers = text.split_ascii_whitespace().skip(1);
        let mut number = || numbers.next()?.parse().ok();
        Some(Self {
            waited: Duration::from_nanos(number()?),
            turns: number()?,
        })
    }
}

/// A lock that a thread waits for, as the futex system call was told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// Address of the futex word.
    pub futex: u64,
}

impl LockWait {
    /// The files of several threads, for [`LockWait::of`].
    #[must_use]
    pub fn files() -> KeptFiles {
        KeptFiles::of("syscall")
    }

    /// The futex on which a thread sleeps until it is woken; nothing where it does something else, or is gone, or the
    /// kernel does not tell. The format is proc_pid_syscall(5).
    #[must_use]
    pub fn of(files: &mut KeptFiles, pid: Pid, tid: Pid) -> Option<Self> {
        files.read(pid, tid, Self::parse)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        /// Options of the operation that say nothing of what it does (futex(2)).
        const OPTIONS: i64 = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as i64;
        /// Not in the libc crate yet; `include/uapi/linux/futex.h`.
        const LOCK_PI2: i64 = 13;
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let call: i64 = words.next()?.parse().ok()?;
        let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let futex = argument()?;
        let operation = argument()?.cast_signed() & 0xffff & !OPTIONS;
        let waits = [
            i64::from(libc::FUTEX_WAIT),
            i64::from(libc::FUTEX_WAIT_BITSET),
            i64::from(libc::FUTEX_LOCK_PI),
            LOCK_PI2,
        ];
        (call == libc::SYS_futex && waits.contains(&operation)).then_some(Self { futex })
    }
}

/// `PF_KTHREAD` and `PF_EXITING` of `include/linux/sched.h`, in the field `flags`.
const KERNEL_THREAD: u64 = 0x0020_0000;
const EXITING: u64 = 0x0000_0004;

/// What `stat` says of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its state: `R`, `S`, `D`, `T`, `t`, `Z`, `X`, ...
    pub state: char,
    /// Whether it is one of the kernel's own.
    pub is_kernels: bool,
    /// Whether it is ending, or has ended: it executes nothing of its program any more, and may have no memory, though its state still is that of a live one.
    pub is_ending: bool,
    /// CPU time in user mode, in the resolution of the clock tick (10 ms).
    pub user_time: Duration,
    /// CPU time in kernel mode, in the resolution of the clock tick (10 ms).
    pub system_time: Duration,
    /// When it started, in clock ticks after boot: with the id, tells a thread from a later
    /// one that got the same id.
    pub start_ticks: u64,
}

impl Stat {
    /// Time from boot to its start, in whole clock ticks.
    #[must_use]
    pub fn started(&self) -> Duration {
        ticks(self.start_ticks)
    }

    /// Whether it has ended, but for what the kernel still does.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.is_ending || matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Reads it. For the main thread this is the thread alone, not its process.
    pub fn read(pid: Pid, tid: Pid) -> Result<Self, TargetError> {
        let file = format!("task/{tid}/stat");
        let text = procfs::read(pid, pid, &file)?;
        Self::parse(&text).ok_or_else(|| TargetError::Malformed {
            pid,
            path: procfs::path(pid, &file),
            what: "line",
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    /// Parses the line: `pid (comm) state ...`, where the name may hold any character.
    fn parse(text: &[u8]) -> Option<Self> {
        let after_name = text.iter().rposition(|&byte| byte == b')')? + 1;
        let rest = std::str::from_utf8(text.get(after_name..)?).ok()?;
        // The manual counts fields from 1; the first here is field 3.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            is_kernels: number(9)? & KERNEL_THREAD != 0,
            is_ending: number(9)? & EXITING != 0,
            user_time: ticks(number(14)?),
            system_time: ticks(number(15)?),
            start_ticks: number(22)?,
        })
    }
}

fn ticks(count: u64) -> Duration {
    // Every Linux on x86-64 says 100 (USER_HZ); a libc that cannot tell means that too.
    let per_second = sysconf(SysconfVar::CLK_TCK)
        .ok()
        .flatten()
        .filter(|&hz| hz > 0);
    let per_second = per_second
        .and_then(|hz| u64::try_from(hz).ok())
        .unwrap_or(100);
    Duration::from_nanos(
        u64::try_from(u128::from(count) * 1_000_000_000 / u128::from(per_second))
            .unwrap_or(u64::MAX),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee::testing::Child;

    /// Check that waiting on a futex is told from all else.
    #[test]
    fn waits_on_a_futex() {
        let futex = |text: &str| LockWait::parse(text.as_bytes()).map(|wait| wait.futex);
        let rest = "0x2 0x0 0x0 0x0 0x7ffd 0x7f00";
        assert_eq!(futex(&format!("202 0x5560 0x80 {rest}\n")), Some(0x5560));
        assert_eq!(futex(&format!("202 0x5560 0x189 {rest}\n")), Some(0x5560));
        assert_eq!(futex(&format!("202 0x5560 0x86 {rest}\n")), Some(0x5560));
        assert_eq!(futex(&format!("202 0x5560 0x81 {rest}\n")), None);
        assert_eq!(futex(&format!("232 0x5560 0x80 {rest}\n")), None);
        for malformed in [
            "",
            "running\n",
            "-1 0x7ffd 0x7f00\n",
            "202 5560 0x80",
            "202 0x5560",
        ] {
            assert_eq!(futex(malformed), None, "{malformed}");
        }
    }

    /// Check that a thread is seen to wait for a lock, and for which.
    #[test]
    fn a_thread_that_waits() {
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
        static LOCK: AtomicU32 = AtomicU32::new(2);
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let _ = tell.send(nix::unistd::gettid());
            while LOCK.load(Relaxed) == 2 {
                // SAFETY: the word lives as long as the program; the kernel only reads it.
                unsafe {
                    libc::syscall(
                        libc::SYS_futex,
                        &raw const LOCK,
                        libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                        2,
                        std::ptr::null::<libc::timespec>(),
                    )
                };
            }
        });
        let tid = told.recv().expect("it says who it is");
        let mut files = LockWait::files();
        let wait = (0..5000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            LockWait::of(&mut files, Pid::this(), tid)
        });
        LOCK.store(0, Relaxed);
        // SAFETY: as above.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                &raw const LOCK,
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            )
        };
        waiter.join().expect("it ends");
        let futex = (&raw const LOCK).addr() as u64;
        assert_eq!(wait, Some(LockWait { futex }));
        assert_eq!(LockWait::of(&mut files, Pid::this(), tid), None);
    }

    /// Check that a thread's waiting and its turns are counted, and nothing is said of one that is gone.
    #[test]
    fn waiting_for_a_processor() {
        let (own, tid) = (Pid::this(), nix::unistd::gettid());
        let before = Scheduling::read(own, tid).expect("it is counted");
        std::thread::sleep(Duration::from_millis(1));
        let after = Scheduling::read(own, tid).expect("it is counted");
        assert!(after.waited >= before.waited && after.turns > before.turns);
        assert_eq!(Scheduling::read(own, Pid::from_raw(i32::MAX)), None);
        for malformed in ["", "1 2", "1 2 x", "1 x 3"] {
            assert_eq!(
                Scheduling::parse(malformed.as_bytes()),
                None,
                "{malformed:?}"
            );
        }
    }

    /// Check that all threads are listed, each with its name, however strange.
    #[test]
    fn names_of_threads() {
        let child = Child::run(
            "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n\
             pthread_barrier_t b;\n\
             void *other(void *p) { pthread_barrier_wait(&b); pause(); return 0; }\n\
             int main() { pthread_t t[3]; pthread_barrier_init(&b, 0, 4);\n\
               for (int i = 0; i < 3; i++) pthread_create(t + i, 0, other, 0);\n\
               pthread_setname_np(t[0], \") R 1 2\"); pthread_setname_np(t[1], \"two words\");\n\
               pthread_barrier_wait(&b); puts(\"ready\"); fflush(stdout); pause(); }",
            &["-pthread", "-D_GNU_SOURCE"],
        );
        child.wait_for_line("ready");
        let tids = list(child.pid()).unwrap();
        assert_eq!(tids.len(), 4);
        let names: Vec<_> = tids
            .iter()
            .map(|&tid| name(child.pid(), tid).unwrap())
            .collect();
        assert_eq!(names, ["program", ") R 1 2", "two words", "program"]);
        child.wait_for_state('S');
        let main = Stat::read(child.pid(), child.pid()).unwrap();
        let other = Stat::read(child.pid(), tids[1]).unwrap();
        assert!(main.start_ticks <= other.start_ticks && main.start_ticks > 0);
        assert!(matches!(other.state, 'S' | 'R'), "{other:?}");
    }

    /// Check that a process that is gone is told apart from failures.
    #[test]
    fn vanished_process() {
        let mut child = Child::run("int main() { return 0; }", &[]);
        child.reap();
        assert!(list(child.pid()).unwrap_err().is_vanished());
        assert!(name(child.pid(), child.pid()).unwrap_err().is_vanished());
        assert!(
            Stat::read(child.pid(), child.pid())
                .unwrap_err()
                .is_vanished()
        );
    }

    /// Check that a process in the midst of its end is none that lives, whatever state it is in meanwhile. The first one of a PID namespace waits there until the others
    /// are gone, and one of those is not taken note of by its parent, who is not in it.
    #[test]
    fn in_the_midst_of_its_end() {
        let parent = Child::run(
            "#include <sched.h>\n#include <stdio.h>\n#include <unistd.h>\n\
             int main() { if (unshare(CLONE_NEWPID)) return 1;\n\
               pid_t first = fork(); if (!first) { pause(); return 0; }\n\
               if (!fork()) { pause(); return 0; }\n\
               printf(\"%d\\n\", first); fflush(stdout); pause(); }",
            &["-D_GNU_SOURCE"],
        );
        let first = parent
            .read_line()
            .trim()
            .parse()
            .map(Pid::from_raw)
            .unwrap();
        assert_eq!(live_thread(first).unwrap(), first);
        kill(first, nix::sys::signal::Signal::SIGKILL).unwrap();
        let waits = |stat: &Stat| stat.is_ending && stat.state == 'S';
        let is_ending = (0..5000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            waits(&Stat::read(first, first).unwrap())
        });
        assert!(is_ending, "{:?}", Stat::read(first, first));
        assert!(live_thread(first).unwrap_err().is_vanished());
    }

    /// Check that a line cut at any place never panics.
    #[test]
    fn cut_short() {
        let text = std::fs::read("/proc/self/stat").unwrap();
        assert!(Stat::parse(&text).is_some());
        for len in 0..text.len() {
            let _ = Stat::parse(&text[..len]);
        }
    }
}
