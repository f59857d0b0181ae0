//! The names of DWARF's register numbers.

use crate::image::Machine;

/// The integer registers of x86-64 in DWARF's order (System V ABI for x86-64, figure 3.36).
const X86_64: [&str; 17] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip",
];

/// The floating-point registers of System Z in DWARF's order.
const SYSTEM_Z_FLOATS: [u8; 16] = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15];

/// What the machine's assembly language calls the register of this DWARF number; `r#N` where it has no
/// number for one.
#[must_use]
pub fn dwarf_register_name(machine: Machine, number: u16) -> String {
    let is_in = |first: u16, last: u16| (first..=last).contains(&number);
    match machine {
        Machine::X86_64 => match X86_64.get(usize::from(number)) {
            Some(name) => (*name).to_owned(),
            None if is_in(17, 32) => format!("xmm{}", number - 17),
            None if is_in(67, 82) => format!("xmm{}", number - 67 + 16),
            None if is_in(118, 125) => format!("k{}", number - 118),
            None => format!("r#{number}"),
        },
        // DWARF for the Arm 64-bit architecture, 4.1.
        Machine::Aarch64 => match number {
            0..=30 => format!("x{number}"),
            31 => "sp".to_owned(),
            _ if is_in(64, 95) => format!("v{}", number - 64),
            _ => format!("r#{number}"),
        },
        // 64-bit ELF V2 ABI for Power, 2.4.
        Machine::PowerPc64 => match number {
            0..=31 => format!("r{number}"),
            32..=63 => format!("f{}", number - 32),
            65 => "lr".to_owned(),
            66 => "ctr".to_owned(),
            _ if is_in(77, 108) => format!("v{}", number - 77),
            _ => format!("r#{number}"),
        },
        // ELF ABI s390x supplement, 1.6: floating-point registers in an order of their own.
        Machine::SystemZ => match number {
            0..=15 => format!("r{number}"),
            16..=31 => {
                let place = usize::from(number - 16);
                format!(
                    "f{}",
                    SYSTEM_Z_FLOATS.get(place).copied().unwrap_or_default()
                )
            }
            _ if is_in(48, 63) => format!("a{}", number - 48),
            _ => format!("r#{number}"),
        },
        _ => format!("r#{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check the ends of each range of numbers.
    #[test]
    fn names() {
        let name = |number| dwarf_register_name(Machine::X86_64, number);
        for (number, expected) in [
            (0, "rax"),
            (1, "rdx"),
            (7, "rsp"),
            (15, "r15"),
            (16, "rip"),
            (17, "xmm0"),
            (32, "xmm15"),
            (33, "r#33"),
            (67, "xmm16"),
            (82, "xmm31"),
            (118, "k0"),
            (126, "r#126"),
        ] {
            assert_eq!(name(number), expected);
        }
        let name = |number| dwarf_register_name(Machine::Aarch64, number);
        assert_eq!(
            [0, 30, 31, 32, 64, 95, 96].map(name),
            ["x0", "x30", "sp", "r#32", "v0", "v31", "r#96"]
        );
        let name = |number| dwarf_register_name(Machine::PowerPc64, number);
        assert_eq!(
            [1, 31, 32, 63, 64, 65, 77, 108, 109].map(name),
            ["r1", "r31", "f0", "f31", "r#64", "lr", "v0", "v31", "r#109"]
        );
        let name = |number| dwarf_register_name(Machine::SystemZ, number);
        assert_eq!(
            [0, 15, 16, 17, 24, 31, 48, 64].map(name),
            ["r0", "r15", "f0", "f2", "f8", "f15", "a0", "r#64"]
        );
    }
}
