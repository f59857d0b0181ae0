//! Who has created the program's threads, and where, as the gates have told.

use std::collections::HashMap;
use std::time::Duration;

use gwp_race_abi::Creation;

use crate::hunt::engine::as_pid;
use crate::kernel::gates::{Gates, user_registers};
use crate::report::finding::CreatorFacts;
use crate::tracee::threads::Stat;

/// Threads of which it is remembered, 2 KiB each.
const MOST: usize = 512;
/// A thread is told of so long after its start, at most, which is known in clock ticks; a later one of its id starts later.
const LATE: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug, Default)]
pub struct Creations {
    by_thread: HashMap<u32, Told>,
    /// All of them are known to live.
    is_full: bool,
}

#[derive(Debug)]
struct Told {
    /// CLOCK_BOOTTIME, ns.
    boot_ns: u64,
    creator: CreatorFacts,
}

impl Creations {
    /// Takes in what was told since. Where there is no more room, threads are forgotten that are not known, whose end nobody tells.
    pub fn take_in(&mut self, gates: &mut Gates, is_known: impl Fn(u32) -> bool) {
        while let Some(creation) = gates.next_creation() {
            if self.by_thread.len() >= MOST && !self.is_full {
                self.by_thread.retain(|&tid, _| is_known(tid));
                self.is_full = self.by_thread.len() >= MOST;
            }
            if self.by_thread.len() < MOST {
                self.by_thread.insert(creation.tid, told(&creation));
            } else {
                // It may be the id of one that has ended.
                self.forget(creation.tid);
            }
        }
    }

    /// Who has created a thread of a process, where that was told.
    #[must_use]
    pub fn creator_of(&self, pid: u32, tid: u32) -> Option<CreatorFacts> {
        let told = self.by_thread.get(&tid)?;
        // What is kept may be of an older thread with this id, whose end nobody has told.
        let stat = Stat::read(as_pid(pid), as_pid(tid)).ok()?;
        let later = Duration::from_nanos(told.boot_ns).checked_sub(stat.started())?;
        (later < LATE).then(|| told.creator.clone())
    }

    /// A thread has ended.
    pub fn forget(&mut self, tid: u32) {
        self.by_thread.remove(&tid);
        self.is_full = false;
    }

    /// Other code may be where it was: what the stacks say is not known any more.
    pub fn forget_stacks(&mut self) {
        for told in self.by_thread.values_mut() {
            told.creator.stack.clear();
        }
    }

    /// The process executes another program.
    pub fn forget_all(&mut self) {
        *self = Self::default();
    }
}

fn told(creation: &Creation) -> Told {
    let name = creation.comm.split(|&byte| byte == 0).next();
    let valid = usize::try_from(creation.stack_len).unwrap_or(0);
    Told {
        boot_ns: creation.boot_ns,
        creator: CreatorFacts {
            tid: creation.by,
            thread_name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
            regs: user_registers(&creation.regs, 0),
            stack: creation.stack.get(..valid).unwrap_or_default().to_vec(),
        },
    }
}
