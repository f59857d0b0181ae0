//! Which memory is a thread's stack, found from its registers: the kernel keeps no record of
//! the stacks that a thread library makes.

use std::ops::Range;

use super::maps::Maps;
use crate::addr::RuntimeAddr;

/// The page size of x86-64.
const PAGE: u64 = 4096;

/// The addresses of a thread's stack: those of the mapping that its stack pointer is in.
///
/// `thread_pointers` are the FS bases of the process's threads, as far as they are known. The
/// thread libraries put a thread's control block at the upper end of its stack, and since
/// glibc 2.42 no unreadable page need lie between two stacks (`MADV_GUARD_INSTALL`): one
/// mapping may hold several. So a thread pointer above the stack pointer ends the stack, and
/// one below it belongs to the neighbour.
///
/// None where the stack pointer is not in writable memory.
#[must_use]
pub fn range(
    maps: &Maps,
    stack_pointer: RuntimeAddr,
    thread_pointers: &[RuntimeAddr],
) -> Option<Range<u64>> {
    let mapping = maps
        .find(stack_pointer)
        .filter(|mapping| mapping.perms.write)?;
    let mut range = mapping.range();
    if mapping.is_main_stack() {
        return Some(range);
    }
    for &pointer in thread_pointers
        .iter()
        .filter(|&&pointer| mapping.contains(pointer))
    {
        // The control block is larger than a page's rest at times; its stack ends with the
        // page or a few later. What matters is that no other thread's frames are in it.
        let end_of_page = (pointer.0 | (PAGE - 1)).saturating_add(1);
        if pointer > stack_pointer {
            range.end = range.end.min(end_of_page);
        } else if end_of_page <= stack_pointer.0 {
            range.start = range.start.max(end_of_page);
        }
    }
    Some(range)
}

#[cfg(test)]
mod tests {
    use nix::sys::ptrace;
    use nix::sys::wait::waitpid;
    use nix::unistd::Pid;

    use super::*;
    use crate::target::testing::Child;
    use crate::target::threads;

    /// Check the stacks of a real process's threads: each holds the thread's own local variable
    /// and no other thread's.
    #[test]
    fn each_thread_has_its_own() {
        const THREADS: usize = 5;
        let child = Child::run(
            "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n\
             pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; pthread_barrier_t b;\n\
             void show(void) { volatile int local; pthread_mutex_lock(&m);\n\
               printf(\"%d %p\\n\", gettid(), (void *)&local); pthread_mutex_unlock(&m);\n\
               pthread_barrier_wait(&b); }\n\
             void *other(void *p) { show(); pause(); return 0; }\n\
             int main() { pthread_t t; pthread_barrier_init(&b, 0, 5);\n\
               for (int i = 0; i < 4; i++) pthread_create(&t, 0, other, 0);\n\
               show(); puts(\"ready\"); fflush(stdout); pause(); }",
            &["-pthread", "-D_GNU_SOURCE"],
        );
        let mut locals = Vec::new();
        for _ in 0..THREADS {
            let line = child.read_line();
            let (tid, address) = line.trim().split_once(" 0x").unwrap();
            let address = u64::from_str_radix(address, 16).unwrap();
            locals.push((Pid::from_raw(tid.parse().unwrap()), address));
        }
        let maps = Maps::read(child.pid()).unwrap();
        let mut registers = Vec::new();
        for tid in threads::list(child.pid()).unwrap() {
            ptrace::seize(tid, ptrace::Options::empty()).unwrap();
            ptrace::interrupt(tid).unwrap();
            waitpid(tid, Some(nix::sys::wait::WaitPidFlag::__WALL)).unwrap();
            registers.push((tid, ptrace::getregs(tid).unwrap()));
            // A process is not gone before its tracer has waited for each traced thread.
            ptrace::detach(tid, None).unwrap();
        }
        assert_eq!(registers.len(), THREADS);
        let pointers: Vec<_> = registers
            .iter()
            .map(|(_, r)| RuntimeAddr(r.fs_base))
            .collect();
        for (tid, regs) in &registers {
            let stack = range(&maps, RuntimeAddr(regs.rsp), &pointers).unwrap();
            for (owner, address) in &locals {
                assert_eq!(
                    stack.contains(address),
                    owner == tid,
                    "{stack:x?} {address:x} {owner}"
                );
            }
            let main = maps.find(RuntimeAddr(regs.rsp)).unwrap().is_main_stack();
            assert_eq!(main, *tid == child.pid());
        }
        assert_eq!(range(&maps, RuntimeAddr(0), &pointers), None);
    }

    /// Check that several stacks in one mapping are told apart.
    #[test]
    fn stacks_without_guard_mappings() {
        let maps = Maps::parse(Pid::from_raw(1), b"10000-40000 rw-p 00000000 00:00 0\n").unwrap();
        let pointers = [
            RuntimeAddr(0x1f6c0),
            RuntimeAddr(0x2f6c0),
            RuntimeAddr(0x3f6c0),
        ];
        let stack = |sp| range(&maps, RuntimeAddr(sp), &pointers);
        assert_eq!(stack(0x1f000), Some(0x10000..0x20000));
        assert_eq!(stack(0x2e000), Some(0x20000..0x30000));
        assert_eq!(stack(0x31000), Some(0x30000..0x40000));
        assert_eq!(
            range(&maps, RuntimeAddr(0x31000), &[]),
            Some(0x10000..0x40000)
        );
    }
}
