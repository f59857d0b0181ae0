//! A second decoder's opinion (yaxpeax-x86) on every instruction of the C library and of clang:
//! how long it is, and for each memory operand whether it is loaded or stored, how many bytes,
//! and where.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic,
    Register,
};
use object::{Object as _, ObjectSection as _, SectionKind};
use yaxpeax_arch::LengthedInstruction as _;
use yaxpeax_x86::long_mode::behavior::AccessVisitor;
use yaxpeax_x86::long_mode::{InstDecoder, RegSpec, register_class};

use super::MAX_INSTRUCTION_LEN;
use super::operands::{Extent, operands};
use super::registers;
use crate::insn::{AccessKind, Regs};

const LIBRARIES: [&str; 2] = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"];
const CLANG: &str = "/usr/bin/clang-22";
/// What distributions split clang into; most of its code is there.
const PARTS_OF_CLANG: [&str; 2] = ["libclang-cpp.so.", "libLLVM.so."];

const UNDECODED: &str = "an instruction, none";
const ADDRESS: &str = "another address";
const ABSOLUTE: &str = "another absolute address";

/// Why the second decoder's opinion is another one, where that is known and ours is right: by the
/// SDM, and by what a watchpoint says ([`super::forms`]).
fn known(mnemonic: Mnemonic, what: &str) -> Option<&'static str> {
    let name = format!("{mnemonic:?}");
    Some(match (name.as_str(), what) {
        (name, UNDECODED) if name.starts_with('K') => {
            "it lacks some instructions between mask registers"
        }
        (
            "Mov" | "Movss" | "Movsd" | "Movlps" | "Movhps" | "Movlpd" | "Movhpd",
            "Write, ReadWrite",
        ) => "it takes what a move writes for read, as if that were always a register",
        ("Mov", ABSOLUTE) => "it does not extend the sign of a 32-bit address",
        ("Movd", "4 bytes, 8 bytes") => "it takes any REX prefix for one with W",
        ("Bt" | "Bts" | "Btr" | "Btc", "4 bytes, 8 bytes") => {
            "it has one size for all bit tests with an immediate"
        }
        (name, "0 operands, 1 operands") if name.starts_with("Prefetch") => {
            "it takes a prefetch for a load"
        }
        ("Leave", ADDRESS) => "it takes the address from rsp instead of rbp",
        _ => return None,
    })
}

/// One operand, as far as a decoder tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    address: Option<u64>,
    size: Option<u32>,
    kind: AccessKind,
}

/// Values far from each other, also in their lower halves. Segments have no base: the second
/// decoder leaves it out.
fn made_up() -> Regs {
    let value = |i: u64| i << 24 | i << 36;
    Regs {
        rax: value(1),
        rcx: value(2),
        rdx: value(3),
        rbx: value(4),
        rsp: value(5),
        rbp: value(6),
        rsi: value(7),
        rdi: value(8),
        r8: value(9),
        r9: value(10),
        r10: value(11),
        r11: value(12),
        r12: value(13),
        r13: value(14),
        r14: value(15),
        r15: value(16),
        ..Regs::default()
    }
}

fn ours(instruction: &Instruction, info: &InstructionInfo, regs: &Regs) -> Vec<Seen> {
    let mut seen: Vec<Seen> = operands(instruction, info)
        .iter()
        .map(|operand| Seen {
            address: operand.address(regs),
            size: match operand.extent {
                Extent::Bytes(size)
                | Extent::Masked(size)
                | Extent::Repeated(size)
                | Extent::RepeatedUntil(size) => Some(size),
                Extent::Gathered | Extent::Unknown => None,
            },
            kind: operand.kind,
        })
        .collect();
    seen.sort_unstable();
    seen
}

/// The second decoder's answer.
struct Theirs {
    len: usize,
    /// Bytes of the operand; nothing where it does not know.
    size: Option<u32>,
    names_memory: bool,
    /// Nothing for what it calls complex.
    seen: Option<Vec<Seen>>,
}

struct Visitor<'a> {
    regs: &'a Regs,
    next_ip: u64,
    seen: Vec<Seen>,
}

impl Visitor<'_> {
    fn add(&mut self, address: Option<u64>, size: u32, kind: AccessKind) {
        // A load and a store of the same bytes are one operand.
        let same = |seen: &&mut Seen| seen.address == address && seen.size == Some(size);
        match self.seen.iter_mut().find(same) {
            Some(seen) if seen.kind != kind => seen.kind = AccessKind::ReadWrite,
            _ => self.seen.push(Seen {
                address,
                size: Some(size),
                kind,
            }),
        }
    }
}

impl AccessVisitor for Visitor<'_> {
    fn register_read(&mut self, _: RegSpec) {}
    fn register_write(&mut self, _: RegSpec) {}

    fn get_register(&mut self, register: RegSpec) -> Option<u64> {
        let first = match register.class() {
            register_class::Q => Register::RAX,
            register_class::D => Register::EAX,
            register_class::RIP => return Some(self.next_ip),
            register_class::B if register == RegSpec::al() => Register::AL,
            _ => return None,
        };
        registers::value(self.regs, first + u32::from(register.num()))
    }

    fn memory_read(&mut self, address: Option<u64>, size: u32) {
        self.add(address, size, AccessKind::Read);
    }

    fn memory_write(&mut self, address: Option<u64>, size: u32) {
        self.add(address, size, AccessKind::Write);
    }
}

fn theirs(code: &[u8], regs: &Regs, ip: u64) -> Option<Theirs> {
    let instruction = InstDecoder::default().decode_slice(code).ok()?;
    let len = usize::try_from(instruction.len().to_const()).ok()?;
    let size = instruction.mem_size().and_then(|size| size.bytes_size());
    let mut visitor = Visitor {
        regs,
        next_ip: ip + len as u64,
        seen: Vec::new(),
    };
    // It cannot be asked about operands whose size it does not know.
    let known = instruction.mem_size().is_none() || size.is_some();
    let visited = known && instruction.behavior().visit_accesses(&mut visitor).is_ok();
    visitor.seen.sort_unstable();
    Some(Theirs {
        len,
        size: size.map(u32::from),
        names_memory: (0..instruction.operand_count()).any(|i| instruction.operand(i).is_memory()),
        seen: visited.then_some(visitor.seen),
    })
}

#[derive(Debug, Default)]
struct Tally {
    compared: usize,
    with_memory: usize,
    /// Of those, where the second decoder tells no kinds and addresses.
    sizes_only: usize,
    undecodable: usize,
}

#[derive(Default)]
struct Differential {
    tally: Tally,
    /// How often, and one place; by iced's mnemonic and `disagreement`.
    differences: BTreeMap<(Mnemonic, String), (usize, String)>,
}

impl Differential {
    /// Every instruction of a file.
    fn file(&mut self, path: &Path) {
        let bytes = std::fs::read(path).expect("the file can be read");
        let file = object::File::parse(&*bytes).expect("the file parses");
        for section in file.sections() {
            if section.kind() == SectionKind::Text {
                let code = section.data().expect("code has bytes");
                self.code(path, code, section.address());
            }
        }
    }

    fn code(&mut self, path: &Path, code: &[u8], start: u64) {
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut factory = InstructionInfoFactory::new();
        let mut regs = made_up();
        while decoder.can_decode() {
            let offset = decoder.position();
            decoder.decode_out(&mut instruction);
            self.tally.compared += 1;
            let end = code.len().min(offset + MAX_INSTRUCTION_LEN);
            regs.rip = start + offset as u64;
            let second = theirs(&code[offset..end], &regs, regs.rip);
            let disagreement = if instruction.is_invalid() {
                self.tally.undecodable += 1;
                // Decoding goes on with the next byte.
                decoder.set_position(offset + 1).expect("there was a byte");
                decoder.set_ip(regs.rip + 1);
                second.map(|_| "no instruction, one".to_owned())
            } else {
                let first = ours(&instruction, factory.info(&instruction), &regs);
                self.tally.with_memory += usize::from(!first.is_empty());
                match second {
                    None if first.is_empty() => Some(UNDECODED.to_owned()),
                    None => Some("an instruction that accesses memory, none".to_owned()),
                    Some(second) => {
                        let told = second.seen.is_some();
                        self.tally.sizes_only += usize::from(!told && !first.is_empty());
                        disagreement(&instruction, &first, &second)
                    }
                }
            };
            if let Some(disagreement) = disagreement {
                let key = (instruction.mnemonic(), disagreement);
                let (count, _) = self.differences.entry(key).or_insert_with(|| {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    let bytes = &code[offset..end.min(offset + instruction.len())];
                    (0, format!("{name}+{:#x} {bytes:02x?}", regs.rip))
                });
                *count += 1;
            }
        }
    }
}

/// Ours, theirs.
fn disagreement(instruction: &Instruction, ours: &[Seen], theirs: &Theirs) -> Option<String> {
    if instruction.len() != theirs.len {
        return Some(format!("{} long, {}", instruction.len(), theirs.len));
    }
    let Some(seen) = &theirs.seen else {
        if theirs.names_memory && ours.is_empty() {
            return Some("no operand, some".into());
        }
        let (own, size) = (ours.iter().find_map(|own| own.size)?, theirs.size?);
        return (own != size).then(|| format!("{own} bytes, {size} bytes"));
    };
    if ours.len() != seen.len() {
        return Some(format!("{} operands, {} operands", ours.len(), seen.len()));
    }
    let (own, other) = ours.iter().zip(seen).find(|(own, other)| own != other)?;
    Some(if own.kind != other.kind {
        format!("{:?}, {:?}", own.kind, other.kind)
    } else if own.size != other.size {
        let bytes = |seen: &Seen| seen.size.map_or("some".into(), |size| size.to_string());
        format!("{} bytes, {} bytes", bytes(own), bytes(other))
    } else if instruction.memory_base() == Register::None
        && instruction.memory_index() == Register::None
        && !instruction.is_stack_instruction()
        && instruction.mnemonic() != Mnemonic::Leave
    {
        ABSOLUTE.into()
    } else {
        ADDRESS.into()
    })
}

/// Clang and the libraries beside it that it is made of.
fn clang() -> Vec<PathBuf> {
    let program = Path::new(CLANG)
        .canonicalize()
        .expect("clang-22 is installed");
    let beside = program.parent().map(|bin| bin.join("../lib"));
    let libraries = beside
        .and_then(|lib| std::fs::read_dir(lib).ok())
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            PARTS_OF_CLANG.iter().any(|part| name.starts_with(part))
        })
        .filter_map(|path| path.canonicalize().ok());
    let mut files: Vec<PathBuf> = libraries.chain([program]).collect();
    files.sort();
    files.dedup();
    files
}

/// Check that a decoder by other people, made from other tables, agrees on the length of each
/// instruction of two large programs, and on its accesses.
#[test]
fn a_second_decoder_agrees() {
    let library = LIBRARIES.iter().map(Path::new).find(|path| path.exists());
    let library = library.expect("a C library is installed: name its path in LIBRARIES");
    let mut differential = Differential::default();
    differential.file(library);
    for file in clang() {
        differential.file(&file);
    }

    println!("{:?}", differential.tally);
    let mut unknown = 0;
    for ((mnemonic, what), (count, place)) in &differential.differences {
        let reason = known(*mnemonic, what);
        unknown += usize::from(reason.is_none());
        let reason = reason.unwrap_or("NOT KNOWN");
        println!("{mnemonic:?}, {count} times: {what}: {reason} ({place})");
    }
    assert_eq!(unknown, 0, "differences that are not known: see above");
    let tally = differential.tally;
    assert!(tally.compared > 300_000, "{tally:?}");
    assert!(tally.with_memory > tally.compared / 4, "{tally:?}");
    assert!(tally.sizes_only < tally.with_memory / 10, "{tally:?}");
}
