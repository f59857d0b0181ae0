//! Which locks a thread holds that stands still, as these say themselves: nothing is concluded from code or from what the thread may have done.
//!
//! A lock has to be found first. It is looked for where the thread's registers, its stack, the code that it executes and its list of robust locks point to: in these pages. That is
//! why there may be more locks than are told, but none less certain.

mod layout;
mod release;

use layout::Says;

pub use release::ReleaseWatch;

use std::collections::HashSet;
use std::ops::Range;

use crate::addr::RuntimeAddr;
use crate::hunt::modules::ModuleSet;
use crate::hunt::return_addresses::return_addresses;
use crate::hunt::system_call::Memory;
use crate::insn::Regs;
use crate::insn::x86_64::{self, Pointer};
use crate::kernel::process::monotonic_ns;
use crate::report::finding::{HeldLock, Holds};

/// Bytes of a page.
const PAGE: usize = 4096;
/// Pages that are read: together less than is read of a stack.
const PAGES: usize = 48;
/// Words of the stack that are looked at: what the innermost functions have kept.
const STACK_WORDS: usize = 512;
/// Variables that are pointers and are followed.
const SLOTS: usize = 16;
/// Robust locks of one thread that are looked for.
const ROBUST: usize = 8;
/// Locks that are told of a thread.
const MOST: usize = 8;
/// What looks like locks that some hold for reading: so many are kept to choose from.
const SHARED: usize = 64;
/// Numbers that data of any kind has. In a container threads have such ids: there a lock has to stand where something points to, not only near that.
const SMALL: u32 = 1000;
/// Numbers that flags and counts have in objects of any kind, which something points to: there only locks are told that the thread's list leads to.
const LEAST: u32 = 64;
/// Stacks are no larger as a rule (RLIMIT_STACK). On the holder's own a lock is not looked for: below the stack pointer is what calls have left that are over, and above it copies are kept,
/// which say the same as the lock did when they were made.
const STACK: u64 = 8 << 20;
/// Set in the address of a lock in a list that inherits priorities.
const INHERITS: u64 = 1;
/// What user space may have begins and ends there (Documentation/arch/x86/x86_64/mm.rst); below is what no program has mapped.
const ADDRESSES: Range<u64> = 0x1_0000..0x7fff_ffff_f000;

/// A thread that stands still.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    /// Its id in the pid namespace in which it lives, which is what locks tell.
    pub id: u32,
    /// In the instruction of the access, wherever that stands now.
    pub pc: u64,
    /// Its registers.
    pub regs: &'a Regs,
    /// Stack bytes from `regs.rsp` up.
    pub stack: &'a [u8],
    /// Where its list of robust locks begins, 0 where there is none.
    pub robust_list: u64,
}

/// What is found of the locks of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The locks that say that it holds them.
    pub alone: Vec<HeldLock>,
    /// The likeliest address of a lock that it may hold for reading.
    pub shared: Option<u64>,
}

/// The locks of a thread, as far as they are found until then (CLOCK_MONOTONIC, ns): its stop may not last longer for them, but for the look in hand. `memory` reads only what
/// nobody has to be waited for.
#[must_use]
pub fn find(modules: &ModuleSet, holder: &Holder<'_>, memory: &Memory<'_>, until: u64) -> Found {
    let memory = |address, bytes: &mut [u8]| monotonic_ns() < until && memory(address, bytes);
    let mut search = Search {
        modules,
        memory: &memory,
        id: holder.id,
        stack: own_stack(holder.regs),
        until,
        addresses: HashSet::new(),
        pages: Vec::new(),
        looked_at: 0,
        found: Vec::new(),
        shared: Vec::new(),
    };
    search.all(holder);
    search.told()
}

/// The locks of two threads but for those that both seem to hold: one thread holds such a lock at a time, so that is none, or nobody's.
#[must_use]
pub fn of_one(both: [&Holds; 2]) -> [Holds; 2] {
    let [first, second] = both;
    [(first, second), (second, first)].map(|(own, others)| {
        let others = &others.alone;
        let is_own = |lock: &&HeldLock| others.iter().all(|other| other.address != lock.address);
        Holds {
            alone: own.alone.iter().filter(is_own).copied().collect(),
            written: own.written,
        }
    })
}

/// The stack of a thread: at its upper end C libraries keep the thread's control block, but for a first thread.
fn own_stack(regs: &Regs) -> Range<u64> {
    let upper = regs.rsp.saturating_add(STACK);
    let end = match regs.fs_base {
        control if (regs.rsp..upper).contains(&control) => control,
        _ => upper,
    };
    match regs.rsp {
        0 => 0..0,
        rsp => rsp.saturating_sub(STACK)..end,
    }
}

/// Places are looked at as they are found, the likeliest ones first: so time that runs out costs the others.
struct Search<'a> {
    modules: &'a ModuleSet,
    memory: &'a Memory<'a>,
    id: u32,
    /// The holder's own stack, in which no lock is looked for.
    stack: Range<u64>,
    until: u64,
    /// Where locks may begin.
    addresses: HashSet<u64>,
    /// Where they may be.
    pages: Vec<u64>,
    /// So many of these were looked at.
    looked_at: usize,
    found: Vec<(HeldLock, Says)>,
    /// What looks like a lock that some hold for reading.
    shared: Vec<u64>,
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        self.id == 0 || self.found.len() >= MOST || monotonic_ns() >= self.until
    }

    fn all(&mut self, holder: &Holder<'_>) {
        let memory = self.memory;
        robust_locks(holder.robust_list, memory, |address| self.add(address));
        for value in holder.regs.in_dwarf_order() {
            self.add(value);
        }
        self.look();
        if self.is_over() {
            return;
        }
        let words = holder.stack.chunks_exact(8).take(STACK_WORDS);
        let words: Vec<u64> = words
            .filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
            .collect();
        self.look_by_code(holder.pc, holder.regs);
        for behind in return_addresses(&words, self.modules) {
            self.look_by_code(behind.wrapping_sub(1), holder.regs);
        }
        for word in words {
            self.add(word);
        }
        self.look();
    }

    /// Looks where a function leads to.
    fn look_by_code(&mut self, pc: u64, regs: &Regs) {
        if self.is_over() {
            return;
        }
        let (modules, memory) = (self.modules, self.memory);
        if let Some((start, code)) = modules.known_function_code(pc) {
            named_by(code, start, regs, memory, |address| self.add(address));
        }
        self.look();
    }

    /// Something points there.
    fn add(&mut self, address: u64) {
        let page = address & !(PAGE as u64 - 1);
        if !ADDRESSES.contains(&address) || self.modules.place(address).is_some() {
            return;
        }
        if !self.pages.contains(&page) {
            if self.pages.len() >= PAGES {
                return;
            }
            self.pages.push(page);
        }
        self.addresses.insert(address);
    }

    /// Looks at pages that are new.
    fn look(&mut self) {
        let mut bytes = [0; PAGE];
        while let Some(&page) = self.pages.get(self.looked_at)
            && !self.is_over()
        {
            self.looked_at += 1;
            if (self.memory)(RuntimeAddr(page), &mut bytes) {
                self.find(&bytes, page);
            }
        }
    }

    /// Finds the locks in a page.
    fn find(&mut self, bytes: &[u8], page: u64) {
        let is_id = |word: &[u8; 4]| u32::from_le_bytes(*word) & layout::OWNER == self.id;
        for (number, word) in bytes.chunks_exact(4).enumerate() {
            if !word.first_chunk().is_some_and(is_id) {
                continue;
            }
            let Some((offset, kind, says)) = layout::around(bytes, number * 4, self.id) else {
                continue;
            };
            let address = page + offset as u64;
            let is_held = match says {
                Says::Itself => !self.stack.contains(&address),
                Says::InList => self.is_in_list(bytes, offset, address),
            };
            if is_held && self.found.iter().all(|(lock, _)| lock.address != address) {
                self.found.push((HeldLock { address, kind }, says));
            }
        }
        self.find_shared(bytes, page);
    }

    /// Finds what looks like a lock that some hold for reading.
    fn find_shared(&mut self, bytes: &[u8], page: u64) {
        for (number, word) in bytes.chunks_exact(8).enumerate() {
            let address = page + number as u64 * 8;
            if layout::may_be_readers(word)
                && self.shared.len() < SHARED
                && !self.stack.contains(&address)
                && layout::may_be_held_for_reading(&bytes[number * 8..])
            {
                self.shared.push(address);
            }
        }
    }

    /// Whether a list leads to a lock.
    fn is_in_list(&self, bytes: &[u8], offset: usize, address: u64) -> bool {
        let last = bytes
            .get(offset + layout::LAST as usize..)
            .and_then(|bytes| bytes.first_chunk())
            .map(|last| u64::from_le_bytes(*last));
        last.and_then(|last| word_at(last, self.memory))
            .is_some_and(|next| next & !INHERITS == address + layout::NEXT)
    }

    /// What is certain of what was found, by address, and which lock may be held for reading: one that something points to, or else one that nothing else looks like.
    fn told(self) -> Found {
        let is_exact = |address: &u64| self.addresses.contains(address);
        let is_certain = |(lock, says): &(HeldLock, Says)| match self.id {
            SMALL.. => true,
            LEAST.. => is_exact(&lock.address),
            _ => *says == Says::InList,
        };
        let found = self.found.iter().filter(|&found| is_certain(found));
        let mut alone: Vec<_> = found.map(|&(lock, _)| lock).take(MOST).collect();
        alone.sort_unstable_by_key(|lock| lock.address);
        let shared = self.shared_ones();
        let pointed_to = shared.iter().copied().find(is_exact);
        let shared = match shared[..] {
            [only] => Some(only),
            _ => pointed_to,
        };
        Found { alone, shared }
    }

    /// What looks like a lock that some hold for reading, but for what is a part of another one: within a lock there are counts and ids, which may look like the beginning of one.
    fn shared_ones(&self) -> Vec<u64> {
        let alone = self.found.iter().map(|(lock, _)| lock.address);
        let starts: Vec<u64> = self.shared.iter().copied().chain(alone).collect();
        let is_within = |address: u64| {
            let mut starts = starts.iter();
            starts.any(|&start| (start + 1..start + layout::RWLOCK).contains(&address))
        };
        let shared = self.shared.iter().copied();
        shared.filter(|&address| !is_within(address)).collect()
    }
}

/// What a function names.
fn named_by(code: &[u8], start: u64, regs: &Regs, memory: &Memory<'_>, mut tell: impl FnMut(u64)) {
    let mut slots: Vec<u64> = Vec::new();
    x86_64::pointers(code, start, regs, &mut |pointer| match pointer {
        Pointer::Is(address) => tell(address),
        Pointer::At(slot) if slots.len() < SLOTS && !slots.contains(&slot) => slots.push(slot),
        Pointer::At(_) => {}
    });
    slots
        .into_iter()
        .filter_map(|slot| word_at(slot, memory))
        .for_each(tell);
}

/// Where the locks of a list may begin (`struct robust_list_head`, include/uapi/linux/futex.h): at their lock word, or where that is the second one (musl).
fn robust_locks(head: u64, memory: &Memory<'_>, mut tell: impl FnMut(u64)) {
    /// Bytes from the head to how far the lock word is from each entry.
    const DISTANCE: u64 = 8;
    let word = |address| (address != 0).then(|| word_at(address, memory)).flatten();
    let Some(distance) = head
        .checked_add(DISTANCE)
        .filter(|_| head != 0)
        .and_then(word)
    else {
        return;
    };
    let mut at = head;
    for _ in 0..ROBUST {
        let Some(entry) = word(at).map(|next| next & !INHERITS) else {
            return;
        };
        if entry == head {
            return;
        }
        let lock = entry.wrapping_add(distance);
        tell(lock);
        tell(lock.wrapping_sub(4));
        at = entry;
    }
}

fn word_at(address: u64, memory: &Memory<'_>) -> Option<u64> {
    let mut bytes = [0; 8];
    memory(RuntimeAddr(address), &mut bytes).then(|| u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests;
