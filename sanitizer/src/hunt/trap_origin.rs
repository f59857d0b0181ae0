//! Whether a trap was raised by a breakpoint instruction of the program itself (`int3`, `icebp`), where the kernel's description of the signal does
//! not tell it from one of ours.

use crate::insn::x86_64;

const INT3: u8 = 0xcc;
const ICEBP: u8 = 0xf1;

/// So much of a function is decoded, from its beginning: the thread stands meanwhile.
const AT_ONCE: usize = 64 << 10;

/// Whether a thread that stands at `pc` has just executed a breakpoint instruction, or stands at one that raises its trap there.
///
/// `around`: the bytes before and at `pc` in the program's memory, as many as could be read. `function`: the first address and the code of
/// what is known as one function, around an address. `has_probe`: whether the kernel may have put `int3` at an address for a probe of ours, which raises no trap: whoever comes there executes what the file has there.
///
/// The byte before an address need not be an instruction: linkers fill the gaps between functions with `int3`, so that it is in front of most
/// functions' entries, and it may be the end of a longer one (`xor %esi, %ecx` is `31 f1`).
pub fn is_own_breakpoint<'a>(
    pc: u64,
    around: &[u8],
    function: impl Fn(u64) -> Option<(u64, &'a [u8])>,
    has_probe: impl Fn(u64) -> bool,
) -> bool {
    // Some virtual machines leave the program counter on an icebp.
    if around.get(1) == Some(&ICEBP) {
        return true;
    }
    let Some(&(INT3 | ICEBP)) = around.first() else {
        return false;
    };
    let before = pc.wrapping_sub(1);
    if has_probe(before) {
        return false;
    }
    match function(before) {
        // By what the file has there: a breakpoint that was put over an instruction later is the program's own as well.
        Some((start, code)) => begins_instruction(start, code, before).unwrap_or(true),
        None => function(pc).is_none_or(|(start, _)| start != pc),
    }
}

/// Whether an instruction begins at an address within a function; `None` where the way there cannot be decoded, or is too long.
fn begins_instruction(start: u64, code: &[u8], address: u64) -> Option<bool> {
    let within = usize::try_from(address.checked_sub(start)?).ok()?;
    if within > AT_ONCE {
        return None;
    }
    let mut at = 0;
    while at < within {
        at += x86_64::length(code.get(at..)?)?;
    }
    Some(at == within)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two functions at 0x1000 and behind it, in between as many bytes as there are to the next 16.
    const FIRST: &[u8] = &[
        0x31, 0xf1, // xor %esi, %ecx
        0xcc, // int3
        0x90, // nop
        0xb8, 0xcc, 0xcc, 0xcc, 0xcc, // mov $0xcccccccc, %eax
        0xc3, // ret
    ];
    const LAST: &[u8] = &[0x90, 0xcc];

    fn is_own(pc: u64, first: &[u8], second: u64) -> bool {
        let byte = |address: u64| {
            let known = usize::try_from(address - 0x1000)
                .ok()
                .and_then(|at| first.get(at));
            known
                .copied()
                .unwrap_or(if address < second { INT3 } else { 0x53 })
        };
        let function = |address: u64| {
            let end = 0x1000 + first.len() as u64;
            if (0x1000..end).contains(&address) {
                Some((0x1000, first))
            } else {
                (address >= second).then_some((second, &[0x53, 0x5b, 0xc3][..]))
            }
        };
        is_own_breakpoint(pc, &[byte(pc - 1), byte(pc)], function, |_| false)
    }

    /// Check that what fills gaps, and what ends like a breakpoint instruction, is none, and that each real one is.
    #[test]
    fn gaps_and_ends_are_no_breakpoints() {
        assert!(!is_own(0x1002, FIRST, 0x1010), "behind the xor");
        assert!(is_own(0x1003, FIRST, 0x1010), "behind the int3");
        assert!(!is_own(0x1004, FIRST, 0x1010), "behind the nop");
        assert!(!is_own(0x1009, FIRST, 0x1010), "behind the mov");
        assert!(!is_own(0x1010, FIRST, 0x1010), "an entry behind a gap");
        assert!(
            is_own(0x1002, LAST, 0x1002),
            "an entry right behind a function that ends with one"
        );
        assert!(is_own(0x1002, LAST, 0x1010), "at the end, before a gap");
    }

    /// Check that the way to an address is gone as far as functions are long, and no farther: what is behind that counts as a breakpoint.
    #[test]
    fn long_functions() {
        let is_own = |before: usize| {
            let mut code = vec![0x90; before];
            code.extend(FIRST);
            let function = |_| Some((0x1000, code.as_slice()));
            // Behind the xor.
            let pc = 0x1002 + before as u64;
            is_own_breakpoint(pc, &[ICEBP, INT3], function, |_| false)
        };
        assert!(!is_own(0) && !is_own(AT_ONCE - 1));
        assert!(is_own(AT_ONCE) && is_own(1 << 20));
    }

    /// Check that one is believed where no function is known, and one that stands at the instruction itself.
    #[test]
    fn unknown_code() {
        let is_own = |around: &[u8]| is_own_breakpoint(0x1001, around, |_| None, |_| false);
        assert!(is_own(&[INT3, 0x90]));
        assert!(is_own(&[0x90, ICEBP]));
        assert!(!is_own(&[0x90, INT3]));
        assert!(!is_own(&[]));
    }

    /// Check that a stop right behind a probe of ours, whose `int3` is in the place of an instruction, is none of the program's, and that its own breakpoints beside it are.
    #[test]
    fn probes_are_no_breakpoints() {
        // push %rbx; int3; mov (%rdi), %eax
        const CODE: &[u8] = &[0x53, INT3, 0x8b, 0x07];
        let function = |address: u64| {
            (0x1000..0x1004)
                .contains(&address)
                .then_some((0x1000, CODE))
        };
        let is_own = |pc, around: &[u8], probe: Option<u64>| {
            is_own_breakpoint(pc, around, function, |at| probe == Some(at))
        };
        assert!(is_own(0x1001, &[INT3, INT3], None), "by somebody else");
        assert!(!is_own(0x1001, &[INT3, INT3], Some(0x1000)));
        assert!(is_own(0x1002, &[INT3, 0x8b], Some(0x1000)));
        assert!(is_own(0x1001, &[INT3, ICEBP], Some(0x1000)));
    }
}
