//! The instruction that made the access which trapped.

use crate::{
    hunt::modules::ModuleSet,
    insn::{Attributed, Regs, Undetermined, x86_64},
    verdict::Reason,
};

/// Code with its run-time start.
type Code<'a> = (u64, &'a [u8]);

/// Finds it by decoding from the start of the function, and of the basic block where that is told. (One byte back from the trap's program counter is
/// still in the function.)
///
/// # Errors
/// The name of the reason for which it is not certain.
pub fn of_access(
    modules: &ModuleSet,
    regs: &Regs,
    watch: (u64, u32),
) -> Result<Attributed, &'static str> {
    let before = regs.rip.wrapping_sub(1);
    let function = modules
        .function_code(before)
        .ok_or("racing-side-unanalyzed")?;
    let block = modules.code_from_block(before, function);
    attributed(function, block, regs, watch).map_err(|cause| Reason::from(cause).name())
}

/// By the block, where decoding from the function's start leads nowhere, as behind data in the code. A file can have whoever told of the block say that it begins within an
/// instruction, behind a `lock` say: so nothing else may follow from the function's start.
fn attributed(
    (start, code): Code<'_>,
    block: Option<Code<'_>>,
    regs: &Regs,
    watch: (u64, u32),
) -> Result<Attributed, Undetermined> {
    let by_function = x86_64::attribute(start, code, regs, watch);
    let Some((start, code)) = block else {
        return by_function;
    };
    let by_block = x86_64::attribute(start, code, regs, watch)?;
    match by_function {
        Ok(other) if other != by_block => Err(Undetermined::Ambiguous),
        _ => Ok(by_block),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x1000;
    const WATCH: (u64, u32) = (0x7000, 4);

    fn attribute(code: &[u8], block: Option<usize>) -> Result<Attributed, Undetermined> {
        let regs = Regs {
            rip: START + code.len() as u64,
            rdi: WATCH.0,
            ..Regs::default()
        };
        let block = block.map(|at| (START + at as u64, &code[at..]));
        attributed((START, code), block, &regs, WATCH)
    }

    /// Check that a block which begins within an instruction makes no plain access of an atomic one, and that one which begins where it may is believed.
    #[test]
    fn lying_blocks() {
        // nop; lock xadd %eax, (%rdi)
        let code = [0x90, 0xf0, 0x0f, 0xc1, 0x07];
        let by_function = attribute(&code, None).unwrap();
        assert!(by_function.access.locked && by_function.pc == START + 1);
        for honest in [0, 1] {
            assert_eq!(attribute(&code, Some(honest)), Ok(by_function));
        }
        assert_eq!(attribute(&code, Some(2)), Err(Undetermined::Ambiguous));
        assert!(attribute(&code, Some(3)).is_err());
    }

    /// Check that a block is of use where decoding from the function's start fails: behind data.
    #[test]
    fn blocks_behind_data() {
        // jmp over a byte with which a call begins; mov %eax, (%rdi)
        let code = [0xeb, 0x01, 0xe8, 0x89, 0x07];
        assert_eq!(attribute(&code, None), Err(Undetermined::Desync));
        let found = attribute(&code, Some(3)).unwrap();
        assert_eq!((found.pc, found.access.size), (START + 3, 4));
    }
}
