//! Where a piece of code may go on: the jumps that leave it, and the stubs of procedure linkage
//! tables.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

use crate::insn::{Exit, Transfer};

/// Where a near call or jump leads, if its bytes alone tell.
pub(super) fn transfer(instruction: &Instruction) -> Option<Transfer> {
    if instruction.op0_kind() == OpKind::NearBranch64 {
        return Some(Transfer::To(instruction.near_branch_target()));
    }
    let indirect = matches!(
        instruction.flow_control(),
        FlowControl::IndirectCall | FlowControl::IndirectBranch
    );
    let fixed = instruction.op0_kind() == OpKind::Memory
        && instruction.memory_index() == Register::None
        && matches!(instruction.memory_base(), Register::RIP | Register::None)
        && instruction.segment_prefix() == Register::None
        && instruction.memory_size().size() == 8;
    // For a base of RIP iced gives the address as the displacement.
    (indirect && fixed).then(|| Transfer::Through(instruction.memory_displacement64()))
}

/// Where the call or jump that `code` begins with, which stands at `pc`, leads, if its bytes alone tell.
#[must_use]
pub fn leads_to(code: &[u8], pc: u64) -> Option<Transfer> {
    transfer(&super::accesses::decode(code, pc)?)
}

/// The cell through which the stub of a procedure linkage table jumps, if `code` at `pc` is one:
/// perhaps `endbr64`, then `jmp [cell]`.
///
/// ```
/// use gwp_race::insn::x86_64::stub;
///
/// let code = [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x10, 0, 0, 0];
/// assert_eq!(stub(&code, 0x1000), Some(0x101a));
/// assert_eq!(stub(&[0xff, 0xe0], 0x1000), None); // jmp rax
/// ```
#[must_use]
pub fn stub(code: &[u8], pc: u64) -> Option<u64> {
    let mut decoder = Decoder::with_ip(64, code, pc, DecoderOptions::NONE);
    let mut instruction = decoder.decode();
    if instruction.mnemonic() == Mnemonic::Endbr64 {
        instruction = decoder.decode();
    }
    if instruction.flow_control() != FlowControl::IndirectBranch {
        return None;
    }
    match transfer(&instruction)? {
        Transfer::Through(cell) => Some(cell),
        Transfer::To(_) => None,
    }
}

/// The length of the padding that `code` begins with: a `nop` of any length, or `int3`.
#[must_use]
pub fn padding(code: &[u8]) -> Option<usize> {
    let instruction = super::accesses::decode(code, 0)?;
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3).then(|| instruction.len())
}

/// Where the instructions of `code` stand, which begins at `start`, up to the first that does not decode, and where
/// those lead that are direct jumps or calls.
///
/// ```
/// use gwp_race::insn::x86_64::direct_transfers;
///
/// let code = [0x90, 0x0f, 0x84, 0xf9, 0, 0, 0, 0xc3]; // nop; je; ret
/// assert_eq!(direct_transfers(0x1000, &code), [(0x1000, None), (0x1001, Some(0x1100)), (0x1007, None)]);
/// ```
#[must_use]
pub fn direct_transfers(start: u64, code: &[u8]) -> Vec<(u64, Option<u64>)> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut found = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        let target = match transfer(&instruction) {
            Some(Transfer::To(target)) => Some(target),
            _ => None,
        };
        found.push((instruction.ip(), target));
    }
    found
}

/// Whether `code` leads straight on, without a jump or a return, to `hlt`, which a program cannot execute: what
/// hand-written entry code of threads and programs puts behind the system call or the function that ends them.
/// (Compilers write `ud2` behind what does not return.)
///
/// ```
/// use gwp_race::insn::x86_64::ends_program;
///
/// assert!(ends_program(&[0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05, 0xf4])); // exit(eax); hlt
/// assert!(!ends_program(&[0x89, 0xc7, 0xc3, 0xf4])); // returns
/// ```
#[must_use]
pub fn ends_program(code: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.mnemonic() == Mnemonic::Hlt {
            return true;
        }
        if instruction.is_invalid()
            || !matches!(
                instruction.flow_control(),
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall
            )
        {
            return false;
        }
    }
    false
}

/// Whether what stands behind such an instruction is not executed next.
fn is_last(flow: FlowControl) -> bool {
    matches!(
        flow,
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception
    )
}

/// The length of the function that begins at the start of `code`, which stands at `start`, where
/// nothing else tells it: up to the first instruction with nothing behind it to which an earlier one jumps.
/// Nothing where that does not come, or the bytes before it do not decode.
///
/// ```
/// use gwp_race::insn::x86_64::length_of_function;
///
/// let code = [0x74, 0x01, 0xc3, 0xc3, 0x90]; // je 1f; ret; 1: ret; nop
/// assert_eq!(length_of_function(0x1000, &code), Some(4));
/// assert_eq!(length_of_function(0x1000, &code[..2]), None);
/// ```
#[must_use]
pub fn length_of_function(start: u64, code: &[u8]) -> Option<u64> {
    let end = start.checked_add(code.len() as u64)?;
    let mut furthest = start;
    for instruction in &mut Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            return None;
        }
        let flow = instruction.flow_control();
        let jumps = matches!(
            flow,
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        match transfer(&instruction) {
            Some(Transfer::To(target)) if jumps && target < end => furthest = furthest.max(target),
            _ => {}
        }
        if is_last(flow) && instruction.next_ip() > furthest {
            return Some(instruction.next_ip() - start);
        }
    }
    None
}

/// The ways out of `code`, which stands at `start`: jumps to the outside, computed jumps, and the
/// end of the code where it is run into. Nothing where the bytes do not decode to the end.
#[must_use]
pub fn exits(start: u64, code: &[u8]) -> Option<Vec<Exit>> {
    let end = start.checked_add(code.len() as u64)?;
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut exits = Vec::new();
    let mut runs_on = true;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        let flow = instruction.flow_control();
        let conditional = flow == FlowControl::ConditionalBranch;
        runs_on = !is_last(flow);
        if !conditional
            && !matches!(
                flow,
                FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
            )
        {
            continue;
        }
        let transfer = transfer(&instruction);
        let inside =
            matches!(transfer, Some(Transfer::To(target)) if (start..end).contains(&target));
        if !inside {
            exits.push(Exit {
                transfer,
                conditional,
            });
        }
    }
    if runs_on {
        exits.push(Exit {
            transfer: Some(Transfer::To(end)),
            conditional: false,
        });
    }
    Some(exits)
}

/// Whether nothing in `code` moves the stack pointer before it returns: wherever a thread stands
/// in it, its return address is on top of the stack.
#[must_use]
pub fn keeps_stack(code: &[u8]) -> bool {
    let mut factory = InstructionInfoFactory::new();
    Decoder::new(64, code, DecoderOptions::NONE)
        .iter()
        .all(|instruction| {
            if instruction.is_invalid() {
                return false;
            }
            if instruction.flow_control() == FlowControl::Return {
                return true;
            }
            factory
                .info(&instruction)
                .used_registers()
                .iter()
                .all(|used| {
                    used.register().full_register() != Register::RSP
                        || matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
                })
        })
}

#[cfg(test)]
mod tests {
    use super::super::testing::assemble;
    use super::*;

    fn ways_out(source: &str) -> Vec<(Option<Transfer>, bool)> {
        let code = assemble(source);
        let exits = exits(0x1000, &code).expect("it decodes");
        exits
            .iter()
            .map(|exit| (exit.transfer, exit.conditional))
            .collect()
    }

    /// Check jumps inside and outside, computed ones, calls, and running into the end.
    #[test]
    fn ways_out_of_code() {
        assert_eq!(ways_out("1: dec eax\njne 1b\nret"), []);
        assert_eq!(
            ways_out(".byte 0x0f, 0x84, 0xfa, 0, 0, 0\nret"),
            [(Some(Transfer::To(0x1100)), true)]
        );
        assert_eq!(
            ways_out(".byte 0xe9, 0xfb, 0xfe, 0xff, 0xff"),
            [(Some(Transfer::To(0xf00)), false)]
        );
        assert_eq!(ways_out("jmp rax"), [(None, false)]);
        assert_eq!(
            ways_out("jmp [rip + 2]"),
            [(Some(Transfer::Through(0x1008)), false)]
        );
        assert_eq!(
            ways_out(".byte 0xe8, 0, 1, 0, 0"),
            [(Some(Transfer::To(0x1005)), false)]
        );
        assert_eq!(ways_out("ret\nud2"), []);
        assert_eq!(exits(0x1000, &[0x0f]), None);
    }

    /// Check functions that end with a jump back or in another one, and such as do not end.
    #[test]
    fn ends_of_functions() {
        let length = |source: &str| length_of_function(0x1000, &assemble(source));
        assert_eq!(length("jmp 2f\n1: ret\n2: dec eax\njmp 1b\nnop"), Some(7));
        // Behind what is known of the code.
        assert_eq!(length(".byte 0x0f, 0x84, 0xfa, 0, 0, 0\nret\nnop"), Some(7));
        assert_eq!(length("call rax\nnop"), None);
        assert_eq!(length("jmp 1f\n.byte 0x0f\n1: ret"), None);
    }

    /// Check that only code without traffic on the stack is said to keep it.
    #[test]
    fn code_that_keeps_the_stack() {
        assert!(keeps_stack(&assemble("mov al, [rsp]\nrep movsb\nret")));
        for source in ["push rbx\nret", "call rax\nret", "sub rsp, 8\nret", "leave"] {
            assert!(!keeps_stack(&assemble(source)), "{source}");
        }
    }
}
