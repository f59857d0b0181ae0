//! Who has created the program's threads, and where, as the gates have told.

use std::collections::HashMap;

use gwp_race_abi::Creation;

use crate::kernel::gates::{Gates, user_registers};
use crate::report::finding::CreatorFacts;

/// Threads of which it is remembered, 2 KiB each.
const MOST: usize = 512;

/// See the module.
#[derive(Debug, Default)]
pub struct Creations {
    by_thread: HashMap<u32, CreatorFacts>,
}

impl Creations {
    /// Takes in what was told since. Where there is no more room, threads are forgotten that are not known, whose end nobody tells.
    pub fn take_in(&mut self, gates: &mut Gates, is_known: impl Fn(u32) -> bool) {
        while let Some(creation) = gates.next_creation() {
            if self.by_thread.len() >= MOST {
                self.by_thread.retain(|&tid, _| is_known(tid));
            }
            if self.by_thread.len() < MOST {
                self.by_thread.insert(creation.tid, facts(&creation));
            } else {
                // It may be the id of one that has ended.
                self.by_thread.remove(&creation.tid);
            }
        }
    }

    /// Who has created a thread, where that was told.
    #[must_use]
    pub fn creator_of(&self, tid: u32) -> Option<&CreatorFacts> {
        self.by_thread.get(&tid)
    }

    /// A thread has ended.
    pub fn forget(&mut self, tid: u32) {
        self.by_thread.remove(&tid);
    }

    /// The process executes another program.
    pub fn forget_all(&mut self) {
        self.by_thread.clear();
    }
}

fn facts(creation: &Creation) -> CreatorFacts {
    let name = creation.comm.split(|&byte| byte == 0).next();
    let valid = usize::try_from(creation.stack_len).unwrap_or(0);
    CreatorFacts {
        tid: creation.by,
        thread_name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
        regs: user_registers(&creation.regs, 0),
        stack: creation.stack.get(..valid).unwrap_or_default().to_vec(),
    }
}
