//! What the code of a recorded program tells of its sites: the calls of the recorder, which stand where accesses are.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use crate::image::Image;

/// A call of the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSite {
    /// What the call returns to: its distance from where the executable begins.
    pub site: u32,
    /// Where its function begins, likewise.
    pub function: u64,
    /// It writes.
    pub writes: bool,
    /// What it accesses, as far as that is plain from the instructions before it.
    pub names: Names,
}

/// What an access goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// An address of the executable: its distance from where that begins.
    Variable(u64),
    /// So many bytes from where a pointer leads.
    Member(u32),
    /// Something else.
    Else,
}

/// All plain accesses of a program, in the order of their addresses.
///
/// # Errors
/// Says what the file lacks.
pub fn sites(image: &Image) -> Result<Vec<CodeSite>> {
    let segments = image.segments().iter();
    let begin = segments
        .map(|segment| segment.address)
        .min()
        .context("the program has no segments")?;
    let functions = image
        .all_functions()
        .context("the program has too many functions")?;
    let accesses: HashMap<u64, bool> = functions
        .iter()
        .filter_map(|function| Some((function.address.0, writes(function.name)?)))
        .collect();
    let mut sites = Vec::new();
    for function in functions
        .iter()
        .filter(|function| !function.name.starts_with(ENTRY))
    {
        let size = usize::try_from(function.size).unwrap_or(usize::MAX);
        if let Some(code) = image.bytes_at(function.address, size) {
            of_function(code, function.address.0, begin.0, &accesses, &mut sites);
        }
    }
    sites.sort_by_key(|site| site.site);
    // A function may have several names.
    sites.dedup_by_key(|site| site.site);
    Ok(sites)
}

/// What the names of the recorder's functions begin with.
const ENTRY: &str = "__tsan_";

/// Whether an entry of the recorder is called before a write; `None` for one that is not about plain accesses.
fn writes(name: &str) -> Option<bool> {
    let access = name.strip_prefix(ENTRY)?;
    let access = access.strip_prefix("unaligned_").unwrap_or(access);
    match access {
        _ if access.starts_with("write") || access.starts_with("read_write") => Some(true),
        "memcpy" | "memmove" | "memset" | "vptr_update" => Some(true),
        _ if access.starts_with("read") || access == "vptr_read" => Some(false),
        _ => None,
    }
}

fn of_function(
    code: &[u8],
    start: u64,
    begin: u64,
    accesses: &HashMap<u64, bool>,
    sites: &mut Vec<CodeSite>,
) {
    let mut factory = InstructionInfoFactory::new();
    let mut registers = Registers::default();
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE).into_iter() {
        let is_call = instruction.mnemonic() == Mnemonic::Call;
        if is_call && let Some(&writes) = accesses.get(&instruction.near_branch_target()) {
            let names = match registers.get(Register::RDI) {
                Names::Variable(address) => Names::Variable(address.wrapping_sub(begin)),
                other => other,
            };
            if let Ok(site) = u32::try_from(instruction.next_ip().wrapping_sub(begin)) {
                sites.push(CodeSite {
                    site,
                    function: start.wrapping_sub(begin),
                    writes,
                    names,
                });
            }
        }
        registers.step(&instruction, &mut factory);
    }
}

/// Where what is in registers comes from, going down the code without regard to branches.
#[derive(Debug, Default)]
struct Registers(HashMap<Register, Names>);

/// Those that a function may change that is called (System V ABI, AMD64 supplement, 3.2.1).
const CHANGED_BY_CALLS: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

impl Registers {
    fn get(&self, register: Register) -> Names {
        self.0.get(&register).copied().unwrap_or(Names::Else)
    }

    /// Whether what a register has is an address that others can have: not one of the own stack.
    fn of_address(instruction: &Instruction) -> Names {
        let base = instruction.memory_base();
        let displacement = instruction.memory_displacement64();
        match base {
            Register::RIP => Names::Variable(displacement),
            Register::RSP | Register::None => Names::Else,
            _ if instruction.memory_index() == Register::None => {
                u32::try_from(displacement).map_or(Names::Else, Names::Member)
            }
            _ => Names::Else,
        }
    }

    fn step(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        let target = instruction.op0_register().full_register();
        let is_register = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register;
        let names = match instruction.mnemonic() {
            Mnemonic::Lea => Some(Self::of_address(instruction)),
            Mnemonic::Mov if is_register => Some(match instruction.op1_kind() {
                OpKind::Register => self.get(instruction.op1_register().full_register()),
                // The address of a variable, where the program is not moved.
                OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64
                    if instruction.immediate(1) != 0 =>
                {
                    Names::Variable(instruction.immediate(1))
                }
                _ => Names::Else,
            }),
            Mnemonic::Add if is_register && instruction.op1_kind() != OpKind::Register => {
                u32::try_from(instruction.try_immediate(1).unwrap_or(u64::MAX))
                    .ok()
                    .map(Names::Member)
            }
            _ => None,
        };
        if instruction.mnemonic() == Mnemonic::Call {
            for register in CHANGED_BY_CALLS {
                self.0.remove(&register);
            }
            return;
        }
        for used in factory.info(instruction).used_registers() {
            let is_written = !matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::None
            );
            if is_written {
                self.0.remove(&used.register().full_register());
            }
        }
        if let Some(names) = names.filter(|_| is_register) {
            self.0.insert(target, names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check which entries of the recorder are about plain accesses, and which of them write.
    #[test]
    fn entries() {
        for (name, expected) in [
            ("__tsan_read4", Some(false)),
            ("__tsan_unaligned_write8", Some(true)),
            ("__tsan_read_write2", Some(true)),
            ("__tsan_read_range", Some(false)),
            ("__tsan_memcpy", Some(true)),
            ("__tsan_atomic32_load", None),
            ("__tsan_func_entry", None),
            ("read", None),
        ] {
            assert_eq!(writes(name), expected, "{name}");
        }
    }

    /// Check what is known of the first argument of a call: by lea, by a copy of it that a call leaves alone, and where nothing is.
    #[test]
    fn what_is_accessed() {
        let entry = 0x2000;
        let call = |at: u64| {
            let distance = (entry as i64 - (at as i64 + 5)) as i32;
            [&[0xe8][..], &distance.to_le_bytes()].concat()
        };
        let mut code = Vec::new();
        let mut push = |bytes: &[u8]| {
            code.extend_from_slice(bytes);
            code.extend(call(0x1000 + code.len() as u64));
        };
        push(&[0x48, 0x8d, 0x3d, 0xf9, 0x0f, 0, 0]); // lea rdi, [rip+0xff9]
        push(&[0x4c, 0x8d, 0x73, 0x18, 0x4c, 0x89, 0xf7]); // lea r14, [rbx+0x18]; mov rdi, r14
        push(&[0x4c, 0x89, 0xf7]); // mov rdi, r14
        push(&[0x48, 0x8b, 0x3b]); // mov rdi, [rbx]
        push(&[]);
        let mut sites = Vec::new();
        of_function(
            &code,
            0x1000,
            0x800,
            &HashMap::from([(entry, true)]),
            &mut sites,
        );
        let names: Vec<_> = sites.iter().map(|site| site.names).collect();
        let member = Names::Member(0x18);
        assert_eq!(
            names,
            [
                Names::Variable(0x1800),
                member,
                member,
                Names::Else,
                Names::Else
            ]
        );
        assert!(
            sites
                .iter()
                .all(|site| site.writes && site.function == 0x800)
        );
        assert_eq!(sites[0].site, 0x80c);
    }
}
