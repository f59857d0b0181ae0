//! Instruction sets, and what the relocations of each put where a table refers to code.
//!
//! Source of the numbers: LLVM's `ELF.h` and `ELFRelocs/`, which follow the ABI of each machine.

use super::Encoding;

/// The instruction set of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// x86-64, which the detector runs on.
    X86_64,
    /// AArch64, which can be inspected, as all that follow.
    Aarch64,
    /// x86 with 32 bits.
    X86,
    /// Arm with 32 bits.
    Arm,
    /// PowerPC with 32 bits.
    PowerPc,
    /// PowerPC with 64 bits.
    PowerPc64,
    /// System Z, with 31 or 64 bits.
    SystemZ,
    /// MIPS.
    Mips,
    /// RISC-V.
    RiscV,
    /// SPARC with 64 bits.
    Sparc,
    /// LoongArch.
    LoongArch,
    /// Another one, by its number (`e_machine`); nothing but its headers and names is known.
    Other(u16),
}

/// What a relocation puts where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `S + A`, of that many bytes.
    Address(usize),
    /// `S + A - P`, of that many bytes.
    Distance(usize),
    /// `B + A`, of the size of an address.
    Relative,
    /// What is there, and `S + A`: of that many bytes.
    Added(usize),
    /// What is there, without `S + A`: of that many bytes.
    Subtracted(usize),
    /// Nothing.
    Nothing,
}

impl Machine {
    /// That of a number (`e_machine`).
    #[must_use]
    pub fn of(number: u16) -> Self {
        match number {
            62 => Self::X86_64,
            183 => Self::Aarch64,
            3 => Self::X86,
            40 => Self::Arm,
            20 => Self::PowerPc,
            21 => Self::PowerPc64,
            22 => Self::SystemZ,
            8 => Self::Mips,
            243 => Self::RiscV,
            43 => Self::Sparc,
            258 => Self::LoongArch,
            other => Self::Other(other),
        }
    }

    /// Whether more is known of its programs than headers and tables.
    #[must_use]
    pub const fn is_known(self) -> bool {
        matches!(self, Self::X86_64 | Self::Aarch64)
    }

    /// Its number (`e_machine`).
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
            Self::X86 => 3,
            Self::Arm => 40,
            Self::PowerPc => 20,
            Self::PowerPc64 => 21,
            Self::SystemZ => 22,
            Self::Mips => 8,
            Self::RiscV => 243,
            Self::Sparc => 43,
            Self::LoongArch => 258,
            Self::Other(number) => number,
        }
    }

    /// The bits of a function's symbol that are no part of its address: the lowest says Thumb.
    pub(super) fn address_mask(self) -> u64 {
        if self == Self::Arm { !1 } else { !0 }
    }
}

impl Form {
    pub(super) fn of(machine: Machine, number: u32) -> Option<Self> {
        Some(match (machine, number) {
            // Number 0 is R_*_NONE everywhere.
            (_, 0) => Self::Nothing,
            // R_X86_64_64, PC32, PLT32, RELATIVE, 32, 32S, PC64.
            (Machine::X86_64, 1) => Self::Address(8),
            (Machine::X86_64, 2 | 4) => Self::Distance(4),
            (Machine::X86_64, 8) => Self::Relative,
            (Machine::X86_64, 10 | 11) => Self::Address(4),
            (Machine::X86_64, 24) => Self::Distance(8),
            // R_AARCH64_ABS64, ABS32, PREL64, PREL32, RELATIVE.
            (Machine::Aarch64, 257) => Self::Address(8),
            (Machine::Aarch64, 258) => Self::Address(4),
            (Machine::Aarch64, 260) => Self::Distance(8),
            (Machine::Aarch64, 261) => Self::Distance(4),
            (Machine::Aarch64, 1027) => Self::Relative,
            // R_386_32, PC32, PLT32, RELATIVE.
            (Machine::X86, 1) => Self::Address(4),
            (Machine::X86, 2 | 4) => Self::Distance(4),
            (Machine::X86, 8) => Self::Relative,
            // R_ARM_ABS32, REL32, RELATIVE.
            (Machine::Arm, 2) => Self::Address(4),
            (Machine::Arm, 3) => Self::Distance(4),
            (Machine::Arm, 23) => Self::Relative,
            // R_PPC_ADDR32, RELATIVE, REL32; R_PPC64_* has ADDR64 and REL64 as well.
            (Machine::PowerPc | Machine::PowerPc64, 1) => Self::Address(4),
            (Machine::PowerPc | Machine::PowerPc64, 22) => Self::Relative,
            (Machine::PowerPc | Machine::PowerPc64, 26) => Self::Distance(4),
            (Machine::PowerPc64, 38) => Self::Address(8),
            (Machine::PowerPc64, 44) => Self::Distance(8),
            // R_390_32, PC32, RELATIVE, 64, PC64.
            (Machine::SystemZ, 4) => Self::Address(4),
            (Machine::SystemZ, 5) => Self::Distance(4),
            (Machine::SystemZ, 12) => Self::Relative,
            (Machine::SystemZ, 22) => Self::Address(8),
            (Machine::SystemZ, 23) => Self::Distance(8),
            // R_MIPS_32, REL32, 64, PC32; REL32 with 64 behind it is `B + A` of 64 bits.
            (Machine::Mips, 2) => Self::Address(4),
            (Machine::Mips, 3 | 0x1203) => Self::Relative,
            (Machine::Mips, 18) => Self::Address(8),
            (Machine::Mips, 248) => Self::Distance(4),
            // R_RISCV_32, 64, RELATIVE, ADD32, ADD64, SUB32, SUB64, 32_PCREL.
            (Machine::RiscV, 1) => Self::Address(4),
            (Machine::RiscV, 2) => Self::Address(8),
            (Machine::RiscV, 3) => Self::Relative,
            (Machine::RiscV, 35) => Self::Added(4),
            (Machine::RiscV, 36) => Self::Added(8),
            (Machine::RiscV, 39) => Self::Subtracted(4),
            (Machine::RiscV, 40) => Self::Subtracted(8),
            (Machine::RiscV, 57) => Self::Distance(4),
            // R_SPARC_32, DISP32, RELATIVE, UA32, 64, DISP64, UA64.
            (Machine::Sparc, 3 | 23) => Self::Address(4),
            (Machine::Sparc, 6) => Self::Distance(4),
            (Machine::Sparc, 22) => Self::Relative,
            (Machine::Sparc, 32 | 54) => Self::Address(8),
            (Machine::Sparc, 46) => Self::Distance(8),
            // R_LARCH_32, 64, RELATIVE, ADD32, ADD64, SUB32, SUB64, 32_PCREL, 64_PCREL.
            (Machine::LoongArch, 1) => Self::Address(4),
            (Machine::LoongArch, 2) => Self::Address(8),
            (Machine::LoongArch, 3) => Self::Relative,
            (Machine::LoongArch, 50) => Self::Added(4),
            (Machine::LoongArch, 51) => Self::Added(8),
            (Machine::LoongArch, 55) => Self::Subtracted(4),
            (Machine::LoongArch, 56) => Self::Subtracted(8),
            (Machine::LoongArch, 99) => Self::Distance(4),
            (Machine::LoongArch, 109) => Self::Distance(8),
            _ => return None,
        })
    }

    pub(super) fn size(self, encoding: Encoding) -> usize {
        match self {
            Self::Address(size) | Self::Distance(size) => size,
            Self::Added(size) | Self::Subtracted(size) => size,
            Self::Relative => encoding.address_size(),
            Self::Nothing => 0,
        }
    }
}
