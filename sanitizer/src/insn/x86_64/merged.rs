//! Whether an instruction may stand for several accesses of the source. Where two ways end in the same
//! instructions, compilers give them one tail (LLVM's BranchFolding): then one instruction makes an access that is
//! atomic on one way and plain on the other, and keeps the marks of one of them only.

use iced_x86::{FlowControl, Instruction};

use super::function::Function;

/// Sizes of what is atomic without a prefix: more than 8 bytes are with AVX.
const ATOMIC_SIZES: [u32; 5] = [1, 2, 4, 8, 16];

/// Whether the instruction at `pc`, which loads or stores `size` bytes, may be what several ways through the function share: the tail of
/// them, in a block that is entered in several ways, or what was hoisted before their branch. What one way alone leads to is not, so a
/// load that was hoisted out of a loop is not, either.
#[must_use]
pub fn may_be_merged(function_start: u64, code: &[u8], pc: u64, size: u32) -> bool {
    if !ATOMIC_SIZES.contains(&size) {
        return false;
    }
    let function = Function {
        start: function_start,
        code,
    };
    let target = |instruction: &Instruction| match instruction.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
            Some(instruction.near_branch_target())
        }
        _ => None,
    };
    let mut branches = false;
    let mut targets = Vec::new();
    for instruction in function.instructions() {
        branches |= instruction.flow_control() == FlowControl::ConditionalBranch;
        match instruction.flow_control() {
            // Where it leads is not known: to any place.
            FlowControl::IndirectBranch => return true,
            _ => targets.extend(target(&instruction)),
        }
    }
    // Where the block begins, and whether it is entered from what stands before it.
    let (mut start, mut falls_in) = (function_start, true);
    // Whether a branch ends the block that has begun before `pc`.
    let mut splits = false;
    let mut last_flow = FlowControl::Next;
    for instruction in function.instructions() {
        let ip = instruction.ip();
        let begins = targets.contains(&ip) || last_flow != FlowControl::Next;
        if ip > pc && begins {
            break;
        }
        if begins {
            start = ip;
            falls_in = !matches!(
                last_flow,
                FlowControl::UnconditionalBranch | FlowControl::Return
            );
        }
        last_flow = match instruction.flow_control() {
            flow @ (FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::Return) => flow,
            _ => FlowControl::Next,
        };
        splits = ip >= pc && last_flow == FlowControl::ConditionalBranch;
    }
    let ways = targets.iter().filter(|&&target| target == start).count() + usize::from(falls_in);
    let bytes = |instruction: &Instruction| {
        let offset = usize::try_from(instruction.ip().wrapping_sub(function_start)).ok()?;
        code.get(offset..)?.get(..instruction.len())
    };
    // A tail of several ways can have been copied to each of them afterwards (LLVM's TailDuplication).
    let own = function.at(pc);
    let same = |other: &Instruction| {
        own.is_some_and(|own| {
            other.ip() != pc && bytes(other).is_some_and(|other| Some(other) == bytes(&own))
        })
    };
    let is_copied = branches && function.instructions().any(|other| same(&other));
    ways > 1 || branches && splits && start != function_start || is_copied
}

#[cfg(test)]
mod tests {
    use super::super::testing::assemble;
    use super::*;

    const START: u64 = 0x40_0000;

    /// Whether the load from `[rdi]`, the only one, may be merged.
    fn load(source: &str, size: u32) -> bool {
        let code = assemble(source);
        let function = Function {
            start: START,
            code: &code,
        };
        let load = function
            .instructions()
            .find(|i| i.memory_base() == iced_x86::Register::RDI)
            .expect("there is a load");
        may_be_merged(START, &code, load.ip(), size)
    }

    /// Check that only what several ways lead to, or what stands before their branch, may be merged.
    #[test]
    fn shared_by_ways() {
        for (source, expected) in [
            ("mov eax, [rdi]\nret", false),
            (
                "call rbp\nmov eax, [rdi]\ntest eax, eax\nje 1f\nnop\n1: ret",
                false,
            ),
            (
                "test esi, esi\nje 1f\nmov rdi, rdx\n1: mov eax, [rdi]\nret",
                true,
            ),
            ("1: mov eax, [rdi]\ndec esi\njne 1b\nret", true),
            ("jmp rax\nmov eax, [rdi]\nret", true),
            (
                "test esi, esi\nje 1f\nmov rax, [rdx]\nmov eax, [rdi]\nret\n1: mov rax, [rcx]\nmov eax, [rdi]\nret",
                true,
            ),
            (
                "test esi, esi\njle 1f\nmov eax, [rdi]\n2: dec esi\njne 2b\n1: ret",
                false,
            ),
            (
                "test esi, esi\nje 1f\nmov eax, [rdi]\njmp 2f\n1: nop\n2: ret",
                false,
            ),
            (
                "test esi, esi\nje 1f\nmov eax, [rdi]\ntest eax, eax\njne 1f\nnop\n1: ret",
                true,
            ),
        ] {
            assert_eq!(load(source, 4), expected, "{source}");
        }
        assert!(!load("1: mov eax, [rdi]\njne 1b\nret", 32));
    }
}
