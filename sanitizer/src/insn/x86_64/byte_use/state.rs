//! Where the bytes of a loaded value are while code is followed: in each byte of each register, and in the
//! frame, the set of those that it depends on.

use std::collections::BTreeMap;

use iced_x86::{Register, RflagsBits};

/// The widest register (zmm) in bytes.
const WIDEST: usize = 64;

/// One register: what each of its bytes depends on.
#[derive(Clone, PartialEq, Eq)]
struct Held {
    bytes: [u64; WIDEST],
    /// Neither read nor carried past a branch since it was written: the register is there to be used
    /// yet. Another may be dead, and then means nothing at a call or return.
    fresh: bool,
    /// It was only copied so far.
    moved: bool,
}

impl Held {
    const NOTHING: Self = Self {
        bytes: [0; WIDEST],
        fresh: false,
        moved: true,
    };

    fn all(&self) -> u64 {
        self.bytes.iter().fold(0, |all, byte| all | byte)
    }
}

/// The flags of arithmetic but for the carry, which counting leaves alone.
const OTHERS: u32 =
    RflagsBits::PF | RflagsBits::AF | RflagsBits::ZF | RflagsBits::SF | RflagsBits::OF;

/// What the flags depend on.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Flags {
    carry: u64,
    others: u64,
}

/// What is known at one place of the code.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    registers: BTreeMap<(bool, usize), Held>,
    frame: BTreeMap<(Register, u64), u64>,
    flags: Flags,
}

/// A register's name in a state, and where the part that is named begins in it.
fn part(register: Register) -> Option<((bool, usize), usize)> {
    let full = register.full_register();
    let high = matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    );
    if full.is_gpr64() {
        Some(((false, full.number()), usize::from(high)))
    } else if full.is_vector_register() {
        Some(((true, full.number()), 0))
    } else {
        None
    }
}

impl State {
    pub(super) fn is_empty(&self) -> bool {
        self.registers.is_empty() && self.frame.is_empty() && self.flags == Flags::default()
    }

    /// All that is anywhere.
    pub(super) fn all(&self) -> u64 {
        let held = self
            .registers
            .values()
            .fold(0, |all, held| all | held.all());
        self.frame.values().fold(held, |all, byte| all | byte)
    }

    /// Adds what another way brings; whether that is something new.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut new = other.flags.carry & !self.flags.carry != 0
            || other.flags.others & !self.flags.others != 0;
        self.flags.carry |= other.flags.carry;
        self.flags.others |= other.flags.others;
        for (&name, held) in &other.registers {
            let known = self.registers.entry(name).or_insert_with(|| {
                new = true;
                Held {
                    moved: held.moved,
                    ..Held::NOTHING
                }
            });
            for (known, byte) in known.bytes.iter_mut().zip(held.bytes) {
                new |= byte & !*known != 0;
                *known |= byte;
            }
            new |= held.fresh && !known.fresh || !held.moved && known.moved;
            known.fresh |= held.fresh;
            known.moved &= held.moved;
        }
        for (&place, &byte) in &other.frame {
            let known = self.frame.entry(place).or_default();
            new |= byte & !*known != 0;
            *known |= byte;
        }
        new
    }

    /// What one byte of a register, or of its part that is named, depends on.
    pub(super) fn byte(&self, register: Register, byte: usize) -> u64 {
        part(register)
            .and_then(|(name, first)| self.registers.get(&name)?.bytes.get(first + byte))
            .copied()
            .unwrap_or(0)
    }

    /// What a register, or the part of it that is named, depends on.
    pub(super) fn register(&self, register: Register) -> u64 {
        (0..register.size()).fold(0, |all, byte| all | self.byte(register, byte))
    }

    /// What is in the frame at or above the stack pointer, where a call finds arguments.
    pub(super) fn above_stack_pointer(&self) -> u64 {
        self.frame
            .iter()
            .filter(|((base, displacement), _)| {
                *base == Register::RSP && displacement.cast_signed() >= 0
            })
            .fold(0, |all, (_, byte)| all | byte)
    }

    fn fresh(&self, register: Register) -> Option<&Held> {
        let (name, _) = part(register)?;
        self.registers.get(&name).filter(|held| held.fresh)
    }

    /// What the caller or callee finds in one byte of a register that was just written.
    pub(super) fn fresh_byte(&self, register: Register, byte: usize) -> u64 {
        self.fresh(register)
            .and_then(|held| held.bytes.get(byte))
            .copied()
            .unwrap_or(0)
    }

    /// Whether a register holds nothing but copies.
    pub(super) fn is_moved(&self, register: Register) -> bool {
        part(register)
            .and_then(|(name, _)| self.registers.get(&name))
            .is_none_or(|held| held.moved)
    }

    /// What those of some flags depend on that are kept apart.
    pub(super) fn flags(&self, bits: u32) -> u64 {
        let carry = if bits & RflagsBits::CF == 0 {
            0
        } else {
            self.flags.carry
        };
        let others = if bits & OTHERS == 0 {
            0
        } else {
            self.flags.others
        };
        carry | others
    }

    /// After an instruction that modifies some flags by what it read.
    pub(super) fn set_flags(&mut self, bits: u32, read: u64) {
        if bits & RflagsBits::CF != 0 {
            self.flags.carry = read;
        }
        match bits & OTHERS {
            0 => {}
            OTHERS => self.flags.others = read,
            _ => self.flags.others |= read,
        }
    }

    /// After a branch.
    pub(super) fn age(&mut self) {
        for held in self.registers.values_mut() {
            held.fresh = false;
        }
    }

    /// After it was read.
    pub(super) fn age_register(&mut self, register: Register) {
        if let Some((name, _)) = part(register)
            && let Some(held) = self.registers.get_mut(&name)
        {
            held.fresh = false;
        }
    }

    /// Writes a register, as much of it as the processor does: general registers of 32 bits and more and
    /// what `vex` encodes in full, the rest as far as the result goes.
    pub(super) fn write(&mut self, register: Register, result: &[u64], moved: bool, vex: bool) {
        let Some((name, first)) = part(register) else {
            return;
        };
        let whole = if name.0 { vex } else { register.size() >= 4 };
        let mut held = self.registers.remove(&name).unwrap_or(Held::NOTHING);
        if whole {
            held = Held::NOTHING;
        }
        for (byte, &depends) in held.bytes.iter_mut().skip(first).zip(result) {
            *byte = depends;
        }
        held.fresh = true;
        held.moved &= moved;
        if held.all() != 0 {
            self.registers.insert(name, held);
        }
    }

    /// Forgets a register, or the part of it that is named.
    pub(super) fn clear(&mut self, register: Register) {
        let Some((name, first)) = part(register) else {
            return;
        };
        let Some(held) = self.registers.get_mut(&name) else {
            return;
        };
        // A 32-bit result clears the upper half.
        let size = if !name.0 && register.size() == 4 {
            8
        } else {
            register.size()
        };
        for byte in held.bytes.iter_mut().skip(first).take(size) {
            *byte = 0;
        }
        if held.all() == 0 {
            self.registers.remove(&name);
        }
    }

    /// Forgets what a call need not preserve.
    pub(super) fn clobber(&mut self, general: &[Register]) {
        for &register in general {
            self.clear(register.full_register());
        }
        self.registers.retain(|name, _| !name.0);
        self.flags = Flags::default();
    }

    /// Clears what is beyond 16 bytes of the first 16 vector registers.
    pub(super) fn keep_lower_halves(&mut self) {
        self.registers.retain(|name, held| {
            if name.0 && name.1 < 16 {
                for byte in held.bytes.iter_mut().skip(16) {
                    *byte = 0;
                }
            }
            held.all() != 0
        });
    }

    /// What a byte of the frame depends on. How far the stack pointer and the frame pointer are apart is not known: it
    /// may be any that was written by way of the other one.
    pub(super) fn in_frame(&self, (base, displacement): (Register, u64), byte: usize) -> u64 {
        let place = (base, displacement.wrapping_add(byte as u64));
        self.frame
            .iter()
            .filter(|&(&other, _)| other == place || other.0 != base)
            .fold(0, |all, (_, byte)| all | byte)
    }

    /// What anything in the frame depends on.
    pub(super) fn in_all_of_frame(&self) -> u64 {
        self.frame.values().fold(0, |all, byte| all | byte)
    }

    pub(super) fn put_in_frame(&mut self, (base, displacement): (Register, u64), result: &[u64]) {
        for (byte, &depends) in (0..).zip(result) {
            let place = (base, displacement.wrapping_add(byte));
            if depends == 0 {
                self.frame.remove(&place);
            } else {
                self.frame.insert(place, depends);
            }
        }
    }

    /// Forgets the frame; what was in it.
    pub(super) fn forget_frame(&mut self) -> u64 {
        let all = self.in_all_of_frame();
        self.frame.clear();
        all
    }
}
