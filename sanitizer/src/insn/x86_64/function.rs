//! The code of one function, by address.

use iced_x86::Instruction;

use super::accesses::decode;

/// All of a function's code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Function<'a> {
    pub(super) start: u64,
    pub(super) code: &'a [u8],
}

impl<'a> Function<'a> {
    /// The instruction at `pc`; None outside the function.
    pub(super) fn at(self, pc: u64) -> Option<Instruction> {
        let offset = usize::try_from(pc.checked_sub(self.start)?).ok()?;
        decode(self.code.get(offset..)?, pc)
    }

    pub(super) fn contains(self, pc: u64) -> bool {
        pc.checked_sub(self.start)
            .is_some_and(|offset| offset < self.code.len() as u64)
    }

    /// All instructions in the order of their addresses, up to what is not one.
    pub(super) fn instructions(self) -> impl Iterator<Item = Instruction> + use<'a> {
        let mut pc = self.start;
        std::iter::from_fn(move || {
            let instruction = self.at(pc)?;
            pc = instruction.next_ip();
            Some(instruction)
        })
    }
}
