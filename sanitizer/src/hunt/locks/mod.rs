//! Which locks a thread holds that stands still, as these say themselves: nothing is concluded from code or from what the thread may have done.
//!
//! A lock has to be found first. It is looked for where the thread's registers, its stack, the code that it executes and its list of robust locks point to: in these pages. That is
//! why there may be more locks than are told, but none less certain.

mod layout;

use crate::addr::RuntimeAddr;
use crate::hunt::modules::ModuleSet;
use crate::hunt::return_addresses::return_addresses;
use crate::hunt::system_call::Memory;
use crate::insn::Regs;
use crate::insn::x86_64::{self, Pointer};
use crate::kernel::process::monotonic_ns;
use crate::report::finding::HeldLock;

/// Bytes of a page.
const PAGE: usize = 4096;
/// Pages that are read: together less than is read of a stack.
const PAGES: usize = 48;
/// Words of the stack that are looked at: what the innermost functions have kept.
const STACK_WORDS: usize = 512;
/// Bytes of a function that are decoded, from its beginning.
const CODE: usize = 8 << 10;
/// Variables that are pointers and are followed.
const SLOTS: usize = 16;
/// Robust locks of one thread that are looked for.
const ROBUST: usize = 8;
/// Locks that are told of a thread.
const MOST: usize = 8;
/// Numbers that data of any kind has. In a container threads have such ids: there a lock has to stand where something points to, not only near that.
const SMALL: u32 = 1000;
/// What user space may have begins and ends there (Documentation/arch/x86/x86_64/mm.rst); below is what no program has mapped.
const ADDRESSES: std::ops::Range<u64> = 0x1_0000..0x7fff_ffff_f000;

/// A thread that stands still.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    /// Its id in the pid namespace in which it lives, which is what locks tell.
    pub id: u32,
    /// Its registers.
    pub regs: &'a Regs,
    /// Stack bytes from `regs.rsp` up.
    pub stack: &'a [u8],
    /// Where its list of robust locks begins, 0 where there is none.
    pub robust_list: u64,
}

/// The locks that a thread holds, as far as they are found until then (CLOCK_MONOTONIC, ns): its stop may not last longer for them. `memory` reads only what
/// nobody has to be waited for.
#[must_use]
pub fn held(
    modules: &ModuleSet,
    holder: &Holder<'_>,
    memory: &Memory<'_>,
    until: u64,
) -> Vec<HeldLock> {
    let places = places(modules, holder, memory, until);
    let mut found = Vec::new();
    let mut bytes = [0; PAGE];
    for &page in &places.pages {
        if monotonic_ns() >= until || found.len() >= MOST {
            break;
        }
        if memory(RuntimeAddr(page), &mut bytes) {
            find(&bytes, page, holder.id, &places, &mut found);
        }
    }
    found.truncate(MOST);
    found.sort_unstable_by_key(|lock| lock.address);
    found
}

/// Finds the locks in a page.
fn find(bytes: &[u8], page: u64, id: u32, places: &Places, found: &mut Vec<HeldLock>) {
    if id == 0 {
        return;
    }
    for (number, word) in bytes.chunks_exact(4).enumerate() {
        let is_id = |word: &[u8; 4]| u32::from_le_bytes(*word) & layout::OWNER == id;
        if !word.first_chunk().is_some_and(is_id) {
            continue;
        }
        let Some((offset, kind)) = layout::around(bytes, number * 4, id) else {
            continue;
        };
        let address = page + offset as u64;
        let is_told = found.iter().any(|lock| lock.address == address);
        if !is_told && (id >= SMALL || places.addresses.contains(&address)) {
            found.push(HeldLock { address, kind });
        }
    }
}

/// Where locks may be.
#[derive(Debug, Default)]
struct Places {
    addresses: Vec<u64>,
    pages: Vec<u64>,
}

impl Places {
    /// Something points there: the first ones count.
    fn add(&mut self, modules: &ModuleSet, address: u64) {
        let page = address & !(PAGE as u64 - 1);
        if !ADDRESSES.contains(&address) || modules.place(address).is_some() {
            return;
        }
        if !self.pages.contains(&page) {
            if self.pages.len() >= PAGES {
                return;
            }
            self.pages.push(page);
        }
        if !self.addresses.contains(&address) {
            self.addresses.push(address);
        }
    }
}

fn places(modules: &ModuleSet, holder: &Holder<'_>, memory: &Memory<'_>, until: u64) -> Places {
    let mut places = Places::default();
    robust_locks(holder.robust_list, memory, |address| {
        places.add(modules, address);
    });
    for value in holder.regs.in_dwarf_order() {
        places.add(modules, value);
    }
    let words = holder.stack.chunks_exact(8).take(STACK_WORDS);
    let words: Vec<u64> = words
        .filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
        .collect();
    // Behind the access there may be another function's code.
    let here = holder.regs.rip.wrapping_sub(1);
    let callers = return_addresses(&words, modules);
    let callers = callers.into_iter().map(|behind| behind.wrapping_sub(1));
    let mut seen: Vec<u64> = Vec::new();
    for pc in [here].into_iter().chain(callers) {
        if monotonic_ns() >= until {
            break;
        }
        if let Some((start, code)) = modules
            .function_code(pc)
            .filter(|code| !seen.contains(&code.0))
        {
            seen.push(start);
            named_by(code, start, holder.regs, memory, |address| {
                places.add(modules, address);
            });
        }
    }
    for word in words {
        places.add(modules, word);
    }
    places
}

/// What a function names.
fn named_by(code: &[u8], start: u64, regs: &Regs, memory: &Memory<'_>, mut tell: impl FnMut(u64)) {
    let code = code.get(..CODE).unwrap_or(code);
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
    /// Set in the address of one that inherits priorities.
    const INHERITS: u64 = 1;
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
