//! Every instruction of a real C library, with made-up registers: what is predicted before an
//! instruction must be recovered after it, its side effects on registers played by hand.

use std::path::Path;

use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, Register};

use super::super::accesses::decode;
use super::super::operands::is_repeated_string;
use super::super::registers;
use super::super::testing::{Function, functions};
use super::super::{accesses_before, attribute};
use crate::insn::{MemAccess, Regs, Undetermined};

const LIBRARIES: [&str; 2] = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"];

/// Decoding starts over for each instruction, so very long functions are left out.
const LONGEST: usize = 2048;

fn made_up(random: &mut fastrand::Rng, rip: u64) -> Regs {
    // Far from each other, so that no two operands meet by chance.
    let mut next = || random.u64(0x1000..0x7fff_0000) << 12;
    Regs {
        r15: next(),
        r14: next(),
        r13: next(),
        r12: next(),
        rbp: next(),
        rbx: next(),
        r11: next(),
        r10: next(),
        r9: next(),
        r8: next(),
        rax: next(),
        rcx: next(),
        rdx: next(),
        rsi: next(),
        rdi: next(),
        rip,
        eflags: 0,
        rsp: next(),
        fs_base: next(),
        gs_base: next(),
    }
}

#[derive(Debug, Default)]
struct Tally {
    accesses: u32,
    exact: u32,
    overwritten: u32,
    undetermined: u32,
}

/// Check that every access of every instruction that falls through is recovered with its PC,
/// kind and size; exactly, unless the instruction overwrites its address registers.
#[test]
fn every_instruction_of_libc() {
    let path = LIBRARIES.iter().map(Path::new).find(|path| path.exists());
    let path = path.expect("a C library is installed: name its path in LIBRARIES");
    let mut random = fastrand::Rng::with_seed(1);
    let mut tally = Tally::default();
    for function in functions(path) {
        if function.code.len() <= LONGEST {
            every_instruction(&function, &mut random, &mut tally);
        }
    }
    println!("{tally:?}");
    assert!(tally.accesses > 10_000, "{tally:?}");
    assert!(tally.overwritten > 100, "{tally:?}");
    assert!(tally.exact > tally.accesses / 2, "{tally:?}");
}

fn every_instruction(function: &Function, random: &mut fastrand::Rng, tally: &mut Tally) {
    let mut factory = InstructionInfoFactory::new();
    let mut offset = 0;
    while let Some(code) = function.code.get(offset..).filter(|code| !code.is_empty()) {
        let pc = function.start + offset as u64;
        let Some(instruction) = decode(code, pc) else {
            return;
        };
        offset += instruction.len();
        let before = made_up(random, pc);
        if instruction.flow_control() != FlowControl::Next
            || is_repeated_string(&instruction)
            || matches!(instruction.mnemonic(), Mnemonic::Leave | Mnemonic::Enter)
        {
            continue;
        }
        let Ok(accesses) = accesses_before(code, &before) else {
            tally.undetermined += 1;
            continue;
        };

        // Written registers get other values, except where the instruction only counts.
        let mut after = Regs {
            rip: instruction.next_ip(),
            ..before
        };
        let info = factory.info(&instruction);
        let stack = instruction.is_stack_instruction();
        let mut overwritten = false;
        for used in info.used_registers() {
            let register = used.register().full_register();
            if matches!(used.access(), OpAccess::Read | OpAccess::CondRead) {
                continue;
            }
            let counts = stack && register == Register::RSP
                || instruction.is_string_instruction()
                    && matches!(register, Register::RSI | Register::RDI);
            let makes_address = [instruction.memory_base(), instruction.memory_index()]
                .iter()
                .any(|operand| operand.full_register() == register);
            if let Some(slot) = registers::slot(&mut after, register) {
                if counts {
                    let step = if stack {
                        i64::from(instruction.stack_pointer_increment())
                    } else {
                        instruction.memory_size().size() as i64
                    };
                    *slot = slot.wrapping_add_signed(step);
                } else {
                    *slot = random.u64(0x1000..0x7fff_0000) << 12;
                    overwritten |= makes_address;
                }
            }
        }
        for access in &accesses {
            tally.accesses += 1;
            let place = format!(
                "{}+{:#x} {instruction:?}",
                function.name,
                pc - function.start
            );
            check(function, access, &after, overwritten, &place, tally);
        }
    }
}

fn check(
    function: &Function,
    access: &MemAccess,
    after: &Regs,
    overwritten: bool,
    place: &str,
    tally: &mut Tally,
) {
    let watch = (access.address & !7, 8);
    match attribute(function.start, &function.code, after, watch) {
        Ok(found) => {
            assert_eq!(found.pc + u64::from(found.len), after.rip, "{place}");
            assert_eq!(
                (found.access.kind, found.access.size),
                (access.kind, access.size),
                "{place}"
            );
            if found.address_exact {
                assert_eq!(found.access, *access, "{place}");
                tally.exact += 1;
            } else {
                assert!(overwritten, "{place}: {found:?}");
                tally.overwritten += 1;
            }
        }
        // `xadd [rax], rax` and `push [rsp]` have several operands of which one is lost.
        Err(Undetermined::Ambiguous) => assert!(overwritten, "{place}"),
        Err(reason) => panic!("{place}: {reason}"),
    }
}
