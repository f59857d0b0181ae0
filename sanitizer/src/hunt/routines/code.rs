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
const LONGEST: usize = 4096;

/// The longest function that may belong to a routine, in bytes: those of C libraries have less than 10,000. More is nothing but a lie of a file.
pub const LONGEST_FUNCTION: usize = 64 << 10;

/// Bytes of code that may be gone through for all routines of a file in a process. All of a C library with their variants have some 100,000.
pub const EFFORT: usize = 4 << 20;

/// What it costs to look for a routine, in bytes of code, beside what is gone through.
const LOOK: usize = 256;

/// Padding between two functions, in bytes.
const PADDING: usize = 64;

/// The functions of a module, within what may be spent on them: a file can say that each of its thousands of routines goes on to its end.
pub struct Code<'file> {
    file: &'file Outlined,
    /// Bytes of code that may still be gone through.
    left: usize,
}

impl<'file> Code<'file> {
    /// Those of a file, of whose code so many bytes may be gone through.
    #[must_use]
    pub const fn new(file: &'file Outlined, left: usize) -> Self {
        Self { file, left }
    }

    /// Bytes of code that may still be gone through. Once that is none, no routine is found any more.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.left
    }

    /// Takes so many bytes of what is left, and what it takes to find them among the segments.
    fn spend(&mut self, bytes: usize) -> Option<()> {
        let cost = bytes.saturating_add(self.file.segments().len());
        self.left = self.left.saturating_sub(cost);
        (self.left > 0).then_some(())
    }

    /// The function around an address: what one entry of the unwind tables describes, or else
    /// what the symbol table says is one. Nothing where that is too long for a routine.
    fn function(&mut self, address: LinkAddr) -> Option<Range<LinkAddr>> {
        let range = match self.file.frames().extent(address) {
            Some(range) => range,
            None => {
                let functions = self.file.functions();
                // Where one is missing, another one seems to go on.
                let named = functions.are_all().then(|| functions.before(address))??;
                let size = match named.largest {
                    0 => self.length(&named)?,
                    size => size,
                };
                let end = named.start.offset(size.cast_signed());
                (address < end).then_some(named.start..end)?
            }
        };
        let length = range.end.0.checked_sub(range.start.0)?;
        (length <= LONGEST_FUNCTION as u64).then_some(range)
    }

    /// The length of a function whose symbol does not tell, as those of musl's assembly do not.
    fn length(&mut self, named: &NamedFunction) -> Option<u64> {
        let room = named.room.and_then(|room| usize::try_from(room).ok());
        let room = room.unwrap_or(LONGEST).min(LONGEST);
        let code = self.file.bytes_from(named.start, room);
        self.spend(code.map_or(0, <[u8]>::len))?;
        x86_64::length_of_function(named.start.0, code?)
    }

    /// All code of the routine that begins at `entry`; nothing where no function begins there, and where more would have to be gone
    /// through than is left.
    #[must_use]
    pub fn of_routine(&mut self, entry: LinkAddr) -> Vec<Range<LinkAddr>> {
        let found = self.found(entry);
        // A part of a routine is none: it would seem to end where it goes on.
        if self.left > 0 { found } else { Vec::new() }
    }

    fn found(&mut self, entry: LinkAddr) -> Vec<Range<LinkAddr>> {
        if self.spend(LOOK).is_none() {
            return Vec::new();
        }
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
                if found.len() == FUNCTIONS || self.left == 0 {
                    return found;
                }
                let Some(into) = self.continuation(exit) else {
                    continue;
                };
                if !found.contains(&into) {
                    found.push(into);
                }
            }
        }
        found
    }

    /// The function that a routine goes on in when it is left this way. A conditional jump to
    /// the beginning of another one is for what must not happen (`__chk_fail`).
    fn continuation(&mut self, exit: Exit) -> Option<Range<LinkAddr>> {
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
            self.spend(x86_64::MAX_INSTRUCTION_LEN)?;
            let code = self.file.bytes_from(target, x86_64::MAX_INSTRUCTION_LEN)?;
            let length = x86_64::padding(code)?;
            padding += length;
            target = target.offset(i64::try_from(length).ok()?);
        };
        let is_stub = self
            .beginning(&(target..range.end))
            .is_some_and(|code| x86_64::stub(code, target.0).is_some());
        (!is_stub && (!exit.conditional || target != range.start)).then_some(range)
    }

    /// All bytes of a function, to be gone through.
    fn bytes(&mut self, range: &Range<LinkAddr>) -> Option<&'file [u8]> {
        let len = usize::try_from(range.end.0.checked_sub(range.start.0)?).ok()?;
        self.spend(len)?;
        self.file.bytes_at(range.start, len)
    }

    /// Its first instructions.
    fn beginning(&mut self, range: &Range<LinkAddr>) -> Option<&'file [u8]> {
        let len = usize::try_from(range.end.0.checked_sub(range.start.0)?).ok()?;
        let len = len.min(2 * x86_64::MAX_INSTRUCTION_LEN);
        self.spend(len)?;
        self.file.bytes_at(range.start, len)
    }
}
