//! What of a module's code belongs to a routine: the function at its entry, and what that runs on
//! into. C libraries share tails between the variants of a routine, and enter one from another.

use std::ops::Range;

use crate::{
    addr::LinkAddr,
    insn::{Exit, Transfer, x86_64},
    symbols::{NamedFunction, Outlined},
};

/// Functions that one routine may run through.
const FUNCTIONS: usize = 8;

/// The longest function whose end is looked for, in bytes.
const LONGEST: u64 = 4096;

/// Padding between two functions, in bytes.
const PADDING: usize = 64;

/// The functions of a module.
pub struct Code<'file>(pub &'file Outlined);

impl<'file> Code<'file> {
    /// The function around an address: what one entry of the unwind tables describes, or else
    /// what the symbol table says is one.
    #[must_use]
    pub fn function(&self, address: LinkAddr) -> Option<Range<LinkAddr>> {
        self.0.frames().extent(address).or_else(|| {
            let functions = self.0.functions();
            // Where one is missing, another one seems to go on.
            let named = functions.are_all().then(|| functions.before(address))??;
            let size = match named.largest {
                0 => self.length(&named)?,
                size => size,
            };
            let end = named.start.offset(size.cast_signed());
            (address < end).then_some(named.start..end)
        })
    }

    /// The length of a function whose symbol does not tell, as those of musl's assembly do not.
    fn length(&self, named: &NamedFunction) -> Option<u64> {
        let room = named.room.unwrap_or(LONGEST);
        let code = (0..=room.min(LONGEST)).rev().find_map(|len| {
            let len = usize::try_from(len).ok()?;
            self.0.bytes_at(named.start, len)
        })?;
        x86_64::length_of_function(named.start.0, code)
    }

    /// All code of the routine that begins at `entry`; nothing where no function begins there.
    #[must_use]
    pub fn of_routine(&self, entry: LinkAddr) -> Vec<Range<LinkAddr>> {
        let first = self.function(entry);
        let mut found: Vec<_> = first
            .into_iter()
            .filter(|range| range.start == entry)
            .collect();
        let mut next = 0;
        while let Some(range) = found.get(next).cloned() {
            next += 1;
            let exits = self
                .bytes(&range)
                .and_then(|code| x86_64::exits(range.start.0, code));
            for exit in exits.unwrap_or_default() {
                let Some(into) = self.continuation(exit) else {
                    continue;
                };
                if found.len() < FUNCTIONS && !found.contains(&into) {
                    found.push(into);
                }
            }
        }
        found
    }

    /// The function that a routine goes on in when it is left this way. A conditional jump to
    /// the beginning of another one is for what must not happen (`__chk_fail`).
    fn continuation(&self, exit: Exit) -> Option<Range<LinkAddr>> {
        let Some(Transfer::To(target)) = exit.transfer else {
            return None;
        };
        let mut target = LinkAddr(target);
        let mut padding = 0;
        let range = loop {
            match self.function(target) {
                Some(range) => break range,
                None if padding < PADDING => {}
                None => return None,
            }
            let code = (1..=x86_64::MAX_INSTRUCTION_LEN)
                .rev()
                .find_map(|len| self.0.bytes_at(target, len))?;
            let length = x86_64::padding(code)?;
            padding += length;
            target = target.offset(i64::try_from(length).ok()?);
        };
        let is_stub = self
            .bytes(&(target..range.end))
            .is_some_and(|code| x86_64::stub(code, target.0).is_some());
        (!is_stub && (!exit.conditional || target != range.start)).then_some(range)
    }

    fn bytes(&self, range: &Range<LinkAddr>) -> Option<&'file [u8]> {
        let len = usize::try_from(range.end.0.checked_sub(range.start.0)?).ok()?;
        self.0.bytes_at(range.start, len)
    }
}
