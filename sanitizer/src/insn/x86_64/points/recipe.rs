//! How an address is computed from the registers that a thread has some instructions earlier.

use iced_x86::Register;

use super::super::registers;
use crate::insn::Regs;

/// How often memory may be read on the way.
pub const MOST_DEREFERENCES: usize = 3;

/// A sum of registers and a displacement; then, up to three times, what stands in memory there, and another displacement. One register, shifted, may be
/// added on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The first register, by its number in instructions (0 is rax, 15 is r15).
    pub base: Option<u8>,
    /// The second.
    pub index: Option<u8>,
    /// It is shifted left by so many bits: 0 to 3.
    pub shift: u8,
    /// It is added when memory was read so many times.
    pub index_after: u8,
    /// How many times memory is read: eight bytes each time.
    pub dereferences: u8,
    /// What is added at first, and then behind each reading; modulo 2^64.
    pub displacements: [u64; MOST_DEREFERENCES + 1],
}

impl Recipe {
    /// No register, no memory: where only arrivals are of interest.
    pub const NOTHING: Self = Self::constant(0);

    /// A number.
    pub(super) const fn constant(value: u64) -> Self {
        let mut displacements = [0; MOST_DEREFERENCES + 1];
        displacements[0] = value;
        Self {
            base: None,
            index: None,
            shift: 0,
            index_after: 0,
            dereferences: 0,
            displacements,
        }
    }

    /// What a register holds.
    pub(super) const fn register(number: u8) -> Self {
        Self {
            base: Some(number),
            ..Self::constant(0)
        }
    }

    /// So many bytes further on.
    pub(super) fn plus(mut self, bytes: u64) -> Self {
        if let Some(last) = self.displacements.get_mut(usize::from(self.dereferences)) {
            *last = last.wrapping_add(bytes);
        }
        self
    }

    /// The distance that was added last.
    pub(super) fn last_displacement(&self) -> u64 {
        let last = self.displacements.get(usize::from(self.dereferences));
        last.copied().unwrap_or(0)
    }

    /// With another value added, shifted; nothing where that takes more than one index, or one that memory tells.
    pub(super) fn with_index(mut self, index: Self, shift: u32) -> Option<Self> {
        let is_plain = index.index.is_none() && index.dereferences == 0;
        if !is_plain {
            return None;
        }
        if let Some(register) = index.base {
            if self.index.is_some() {
                return None;
            }
            self.index = Some(register);
            self.shift = u8::try_from(shift).ok().filter(|shift| *shift <= 3)?;
            self.index_after = self.dereferences;
        }
        Some(self.plus(index.last_displacement().wrapping_shl(shift)))
    }

    /// What stands in memory there; nothing where memory was read too often already.
    pub(super) fn dereferenced(mut self) -> Option<Self> {
        if usize::from(self.dereferences) >= MOST_DEREFERENCES {
            return None;
        }
        self.dereferences += 1;
        Some(self)
    }

    /// The address, for these registers; `read` tells the eight bytes at an address. Nothing where it does not.
    pub fn address(&self, regs: &Regs, read: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let value = |number: Option<u8>| match number {
            None => Some(0),
            Some(number) => registers::value(regs, Register::RAX + u32::from(number)),
        };
        let index = value(self.index)? << self.shift;
        let mut sum = value(self.base)?;
        for stage in 0..=self.dereferences {
            if stage > 0 {
                sum = read(sum)?;
            }
            sum = sum.wrapping_add(*self.displacements.get(usize::from(stage))?);
            if stage == self.index_after {
                sum = sum.wrapping_add(index);
            }
        }
        Some(sum)
    }
}
