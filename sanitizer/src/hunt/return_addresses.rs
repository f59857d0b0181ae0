//! Where a stopped thread returns to, as far as a few words of its stack tell.

use super::strategy::CodeView;
use crate::insn::x86_64;

/// Return addresses that are of interest.
const CALLERS: usize = 4;

/// What the stack says the thread returns to: words that point behind a call in analyzed
/// code. A stale word costs a breakpoint that nobody reaches.
pub fn return_addresses(stack: &[u64], code: &dyn CodeView) -> Vec<u64> {
    let mut callers: Vec<u64> = Vec::new();
    for &word in stack {
        let is_return = code.is_analyzed(word.wrapping_sub(1))
            && x86_64::CALL_LENGTHS
                .iter()
                .any(|&len| x86_64::is_call(code.code(word.wrapping_sub(len)), len));
        if is_return && !callers.contains(&word) {
            callers.push(word);
            if callers.len() == CALLERS {
                break;
            }
        }
    }
    callers
}
