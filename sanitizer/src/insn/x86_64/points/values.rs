//! What registers hold along straight code, told by what they held at its beginning.

use iced_x86::{Instruction, InstructionInfo, Mnemonic, OpKind, Register};

use super::super::operands::{Extent, Operand, operands};
use super::super::registers::written;
use super::recipe::Recipe;

/// What was written on the way.
#[derive(Clone, Copy, Debug)]
struct Store {
    /// Where, if that is known.
    address: Option<Recipe>,
    size: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Values {
    /// By number; nothing for what no recipe tells.
    registers: [Option<Recipe>; 16],
    stores: Vec<Store>,
}

impl Values {
    /// At the beginning.
    pub(super) fn new() -> Self {
        Self {
            registers: std::array::from_fn(|number| Some(Recipe::register(number as u8))),
            stores: Vec::new(),
        }
    }

    /// The only address that an instruction accesses which stands here, but for what the stack pointer implies.
    pub(super) fn accessed(
        &self,
        instruction: &Instruction,
        info: &InstructionInfo,
    ) -> Option<Recipe> {
        let operands = operands(instruction, info);
        let mut explicit = operands.iter().filter(|operand| !operand.stack_implicit);
        let only = explicit.next()?;
        explicit
            .next()
            .is_none()
            .then(|| self.address(only))
            .flatten()
    }

    /// Goes on behind an instruction.
    pub(super) fn step(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        let operands = operands(instruction, info);
        let computed = self.computed(instruction, &operands);
        for operand in operands.iter().filter(|operand| operand.kind.writes()) {
            let is_stack = operand.stack_implicit && instruction.mnemonic() == Mnemonic::Push;
            self.stores.push(if is_stack {
                Store {
                    address: self
                        .register(Register::RSP)
                        .map(|top| top.plus(8u64.wrapping_neg())),
                    size: 8,
                }
            } else {
                Store {
                    address: self.address(operand),
                    size: operand.bytes().map_or(0, |(size, _)| u64::from(size)),
                }
            });
        }
        for register in written(info) {
            self.set(register, None);
        }
        if let Some((register, value)) = computed {
            self.set(register, value);
        }
    }

    /// What is computed that a recipe can tell.
    fn computed(
        &self,
        instruction: &Instruction,
        operands: &[Operand],
    ) -> Option<(Register, Option<Recipe>)> {
        let immediate = || instruction.try_immediate(1).ok();
        let moved = |by: u64| {
            self.register(instruction.op0_register())
                .map(|value| value.plus(by))
        };
        if matches!(instruction.mnemonic(), Mnemonic::Push | Mnemonic::Pop) {
            let by = i64::from(instruction.stack_pointer_increment()).cast_unsigned();
            let pops_pointer = instruction.mnemonic() == Mnemonic::Pop
                && instruction.op0_kind() == OpKind::Register
                && instruction.op0_register().full_register() == Register::RSP;
            let top = self.register(Register::RSP).map(|top| top.plus(by));
            return (!pops_pointer).then_some((Register::RSP, top));
        }
        if instruction.op0_kind() != OpKind::Register || !instruction.op0_register().is_gpr64() {
            return None;
        }
        let value = match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register) => self.register(instruction.op1_register()),
            (Mnemonic::Mov, OpKind::Memory) => match operands {
                [operand] => self.loaded(operand),
                _ => None,
            },
            (Mnemonic::Lea, _) => self.effective(instruction),
            (Mnemonic::Add, kind) if kind != OpKind::Register && kind != OpKind::Memory => {
                immediate().and_then(moved)
            }
            (Mnemonic::Sub, kind) if kind != OpKind::Register && kind != OpKind::Memory => {
                immediate().and_then(|by| moved(by.wrapping_neg()))
            }
            (Mnemonic::Add, OpKind::Register) => self.sum(
                self.register(instruction.op0_register()),
                self.register(instruction.op1_register()),
                0,
            ),
            _ => None,
        };
        Some((instruction.op0_register(), value))
    }

    /// What a load brings, unless something on the way may have written there.
    fn loaded(&self, operand: &Operand) -> Option<Recipe> {
        /// What recipes read.
        const WORD: u64 = 8;
        if operand.extent != Extent::Bytes(8) {
            return None;
        }
        let address = self.address(operand)?;
        let is_clean = self
            .stores
            .iter()
            .all(|store| !store.may_reach(&address, WORD));
        is_clean.then(|| address.dereferenced()).flatten()
    }

    fn address(&self, operand: &Operand) -> Option<Recipe> {
        if operand.thread_local() || !matches!(operand.extent, Extent::Bytes(_)) {
            return None;
        }
        let Some(form) = operand.form() else {
            return operand.fixed_address().map(Recipe::constant);
        };
        let numbered = |number: Option<u8>| match number {
            None => Some(Recipe::constant(0)),
            Some(number) => *self.registers.get(usize::from(number))?,
        };
        let sum = self.sum(numbered(form.base), numbered(form.index), form.shift)?;
        Some(sum.plus(form.displacement))
    }

    /// What `lea` computes.
    fn effective(&self, instruction: &Instruction) -> Option<Recipe> {
        let part = |register: Register| match register {
            // Of an address relative to the instruction the displacement is all of it, as iced tells it.
            Register::None | Register::RIP => Some(Recipe::constant(0)),
            register if register.is_gpr64() => self.register(register),
            _ => None,
        };
        let shift = instruction.memory_index_scale().trailing_zeros();
        let sum = self.sum(
            part(instruction.memory_base()),
            part(instruction.memory_index()),
            shift,
        )?;
        Some(sum.plus(instruction.memory_displacement64()))
    }

    /// A pointer, and what is added to it. Without a shift either may be the pointer.
    fn sum(&self, base: Option<Recipe>, index: Option<Recipe>, shift: u32) -> Option<Recipe> {
        let (base, index) = (base?, index?);
        let other_way = || (shift == 0).then(|| index.with_index(base, 0)).flatten();
        base.with_index(index, shift).or_else(other_way)
    }

    fn register(&self, register: Register) -> Option<Recipe> {
        if !register.is_gpr64() {
            return None;
        }
        *self.registers.get(register.number())?
    }

    /// A register, or a part of one: then nothing is known of the rest, either.
    fn set(&mut self, register: Register, value: Option<Recipe>) {
        let full = register.full_register();
        if full.is_gpr64()
            && let Some(slot) = self.registers.get_mut(full.number())
        {
            *slot = value;
        }
    }
}

impl Store {
    /// Whether it may have changed some of the bytes at an address.
    fn may_reach(&self, other: &Recipe, size: u64) -> bool {
        let Some(own) = self.address else {
            return true;
        };
        let (to, from) = (other.last_displacement(), own.last_displacement());
        if own.plus(from.wrapping_neg()) == other.plus(to.wrapping_neg()) {
            // From the same place: only their distances tell them apart.
            let ahead = to.wrapping_sub(from);
            return ahead < self.size || ahead.wrapping_neg() < size;
        }
        // What the function keeps on its stack, as a rule, no pointer leads to.
        let is_on_stack = |at: &Recipe| {
            at.dereferences == 0 && at.base.map(usize::from) == Some(Register::RSP.number())
        };
        is_on_stack(&own) == is_on_stack(other)
    }
}
