//! The memory operands of a decoded instruction, explicit and implied: which registers make the
//! address, how many bytes, load or store. Intel SDM vol. 2 for the exceptions to iced's tables.

mod extent;

use std::ops::RangeInclusive;

use iced_x86::{
    CodeSize, Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

use super::registers::{self, GprSet};
use crate::insn::{AccessKind, Regs, Undetermined};

use extent::extent;

/// How many bytes an operand covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// So many bytes from the address.
    Bytes(u32),
    /// `rcx` elements of so many bytes, up or down by the direction flag.
    Repeated(u32),
    /// As `Repeated`, but the instruction stops at the first match or mismatch.
    RepeatedUntil(u32),
    /// At most so many bytes, less what a vector mask leaves out.
    Masked(u32),
    /// Addresses come from a vector register.
    Gathered,
    /// Depends on processor state.
    Unknown,
}

/// How an instruction computes an address: registers by their numbers in instructions (0 is rax, 15 is r15), the
/// index shifted left by so many bits, and a displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressForm {
    /// The first register.
    pub base: Option<u8>,
    /// The second.
    pub index: Option<u8>,
    /// 0 to 3.
    pub shift: u32,
    /// Added to both, modulo 2^64.
    pub displacement: u64,
}

/// A part of an object, by how an instruction names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// From the address in the instruction's register, in bytes.
    pub distance: u32,
    /// In bytes.
    pub size: u32,
}

impl Member {
    /// Whether both have bytes in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let behind = |member: Self| member.distance.saturating_add(member.size);
        self.distance < behind(other) && other.distance < behind(self)
    }
}

/// Which variable an instruction accesses, as far as its bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// The one at this address.
    Fixed(u64),
    /// The one so many bytes from where a register points: a member of an object, or the object itself. Of a
    /// thread-local variable without a register, from the thread pointer.
    Part(i64),
}

/// One memory operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    memory: UsedMemory,
    /// Bit index register of `bt`-like instructions and the operand size in bytes: they address
    /// bits beyond the operand.
    bit_index: Option<(Register, u32)>,
    pub(super) kind: AccessKind,
    pub(super) extent: Extent,
    pub(super) locked: bool,
    pub(super) stack_implicit: bool,
}

impl Operand {
    /// Whether the address is relative to fs or gs.
    pub(super) fn thread_local(&self) -> bool {
        matches!(self.memory.segment(), Register::FS | Register::GS)
    }

    /// The general registers that make the address.
    pub(super) fn address_registers(&self) -> GprSet {
        let mut set = GprSet::default();
        set.insert(self.memory.base());
        set.insert(self.memory.index());
        if let Some((register, _)) = self.bit_index {
            set.insert(register);
        }
        set
    }

    /// The address, where `regs` hold the values from before the instruction. None where a vector
    /// register takes part in it.
    pub(super) fn address(&self, regs: &Regs) -> Option<u64> {
        let mut offset = self.memory.displacement();
        if self.memory.base() != Register::None {
            offset = offset.wrapping_add(registers::value(regs, self.memory.base())?);
        }
        if self.memory.index() != Register::None {
            let index = registers::value(regs, self.memory.index())?;
            offset = offset.wrapping_add(index.wrapping_mul(u64::from(self.memory.scale())));
        }
        if let Some((register, size)) = self.bit_index {
            offset = offset
                .wrapping_add_signed(bit_displacement(registers::value(regs, register)?, size));
        }
        match self.memory.address_size() {
            CodeSize::Code16 => offset &= 0xffff,
            CodeSize::Code32 => offset &= 0xffff_ffff,
            _ => {}
        }
        match self.memory.segment() {
            Register::None => Some(offset),
            segment => Some(offset.wrapping_add(registers::value(regs, segment)?)),
        }
    }

    /// What makes the address: two registers, of which either may be missing, and a displacement.
    pub(super) fn parts(&self) -> (Register, Register, i64) {
        let displacement = self.memory.displacement().cast_signed();
        (self.memory.base(), self.memory.index(), displacement)
    }

    /// How general registers make the address, where nothing else takes part in it.
    pub(super) fn form(&self) -> Option<AddressForm> {
        let number = |register: Register| match register {
            Register::None => Some(None),
            register if register.is_gpr64() => u8::try_from(register.number()).ok().map(Some),
            _ => None,
        };
        let has_more = self.bit_index.is_some() || self.thread_local();
        let form = AddressForm {
            base: number(self.memory.base())?,
            index: number(self.memory.index())?,
            shift: self.memory.scale().trailing_zeros(),
            displacement: self.memory.displacement(),
        };
        let has_registers = form.base.is_some() || form.index.is_some();
        (!has_more && has_registers && matches!(self.extent, Extent::Bytes(_))).then_some(form)
    }

    /// How many bytes, with their address where that is fixed, if the operand is known to cover so many.
    pub(super) fn bytes(&self) -> Option<(u32, Option<u64>)> {
        let Extent::Bytes(size) = self.extent else {
            return None;
        };
        Some((size, self.fixed_address().filter(|_| !self.thread_local())))
    }

    /// The member of an object that is accessed, where the address looks like that of one: a register and a distance.
    /// What stands at the register's own address may be anything.
    pub(super) fn member(&self) -> Option<Member> {
        /// Objects are smaller, as a rule.
        const DISTANCES: RangeInclusive<u64> = 1..=1 << 16;
        let form = self.form()?;
        let (Extent::Bytes(size), Some(base), None) = (self.extent, form.base, form.index) else {
            return None;
        };
        let is_on_stack = usize::from(base) == Register::RSP.number();
        let is_inside = DISTANCES.contains(&form.displacement) && !is_on_stack;
        let distance = u32::try_from(form.displacement).ok()?;
        is_inside.then_some(Member { distance, size })
    }

    /// The variable. Elements of arrays are all the same one, and how far variables are from the stack pointer
    /// says nothing of them.
    pub(super) fn variable(&self) -> Option<Variable> {
        if let Some(address) = self.fixed_address().filter(|_| !self.thread_local()) {
            return Some(Variable::Fixed(address));
        }
        let on_stack = |register| matches!(register, Register::RSP | Register::RBP);
        let is_element = self.memory.index() != Register::None || self.bit_index.is_some();
        let part = Variable::Part(self.memory.displacement().cast_signed());
        (!is_element && !on_stack(self.memory.base())).then_some(part)
    }

    /// The address of a PC-relative or absolute operand.
    pub(super) fn fixed_address(&self) -> Option<u64> {
        (self.address_registers() == GprSet::default())
            .then(|| self.address(&Regs::default()))
            .flatten()
    }

    /// The register that counts a repetition, by address size.
    pub(super) fn count_register(&self) -> Register {
        match self.memory.address_size() {
            CodeSize::Code16 => Register::CX,
            CodeSize::Code32 => Register::ECX,
            _ => Register::RCX,
        }
    }

    /// First address and number of bytes, where `regs` hold the values from before the
    /// instruction; a length of 0 for a repetition of nothing.
    pub(super) fn range(&self, regs: &Regs) -> Result<(u64, u32), Undetermined> {
        let address = || self.address(regs).ok_or(Undetermined::MaskUnknown);
        match self.extent {
            Extent::Bytes(size) => Ok((address()?, size)),
            Extent::Masked(_) | Extent::Gathered => Err(Undetermined::MaskUnknown),
            Extent::Unknown => Err(Undetermined::SizeUnknown),
            Extent::Repeated(element) | Extent::RepeatedUntil(element) => {
                let count = registers::value(regs, self.count_register())
                    .ok_or(Undetermined::SizeUnknown)?;
                if count == 0 {
                    return Ok((address()?, 0));
                }
                if matches!(self.extent, Extent::RepeatedUntil(_)) {
                    return Err(Undetermined::DataDependent);
                }
                let bytes = count
                    .checked_mul(u64::from(element))
                    .and_then(|bytes| u32::try_from(bytes).ok())
                    .ok_or(Undetermined::SizeUnknown)?;
                let first = if registers::counts_down(regs) {
                    address()?.wrapping_sub(u64::from(bytes - element))
                } else {
                    address()?
                };
                Ok((first, bytes))
            }
        }
    }
}

/// How far from its operand `bt` and its kin reach for bit `index` (SDM: signed, in units of the
/// operand).
fn bit_displacement(index: u64, operand_bytes: u32) -> i64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
    let index = match operand_bytes {
        2 => i64::from(index as u16 as i16),
        4 => i64::from(index as u32 as i32),
        _ => index as i64,
    };
    let bytes = i64::from(operand_bytes.max(1));
    index.div_euclid(bytes * 8) * bytes
}

/// The memory operands in the order in which they are accessed: loads before stores.
pub(super) fn operands(instruction: &Instruction, info: &InstructionInfo) -> Vec<Operand> {
    // Cache control names an address and touches none of its bytes; iced lists it as a load.
    if matches!(
        instruction.mnemonic(),
        Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb | Mnemonic::Cldemote
    ) {
        return Vec::new();
    }
    let explicit = (0..instruction.op_count()).any(|i| {
        instruction.op_kind(i) == OpKind::Memory && info.op_access(i) != OpAccess::NoMemAccess
    });
    let stack = instruction.is_stack_instruction()
        || matches!(instruction.mnemonic(), Mnemonic::Leave | Mnemonic::Enter);
    let locked = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
    let mut operands: Vec<Operand> = info
        .used_memory()
        .iter()
        .enumerate()
        .filter_map(|(i, memory)| {
            let kind = match memory.access() {
                OpAccess::Read | OpAccess::CondRead => AccessKind::Read,
                OpAccess::Write | OpAccess::CondWrite => AccessKind::Write,
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => AccessKind::ReadWrite,
                OpAccess::None | OpAccess::NoMemAccess => return None,
            };
            // iced lists the explicit operand first, what the stack pointer implies after it.
            let stack_implicit = stack && !(explicit && i == 0);
            Some(Operand {
                memory: *memory,
                bit_index: bit_index(instruction),
                kind,
                extent: extent(instruction, memory),
                locked: locked && !stack_implicit,
                stack_implicit,
            })
        })
        .collect();
    // `push [m]` loads and then stores; movs and `pop [m]` do too, whatever the operand order.
    operands.sort_by_key(|operand| match operand.kind {
        AccessKind::Read => 0,
        AccessKind::ReadWrite => 1,
        AccessKind::Write => 2,
    });
    operands
}

fn bit_index(instruction: &Instruction) -> Option<(Register, u32)> {
    let bits = matches!(
        instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    (bits && instruction.op0_kind() == OpKind::Memory && instruction.op1_kind() == OpKind::Register)
        .then(|| (instruction.op1_register(), memory_bytes(instruction)))
}

fn memory_bytes(instruction: &Instruction) -> u32 {
    u32::try_from(instruction.memory_size().size()).unwrap_or(0)
}

/// Whether the instruction is a string instruction that repeats.
pub(super) fn is_repeated_string(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

#[cfg(test)]
mod tests;
