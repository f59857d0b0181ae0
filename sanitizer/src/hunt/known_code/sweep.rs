//! The sweep: goes through the code of all analyzed functions, some at a time, for those that store to a variable
//! which their code names. Two threads there make a conflict, whoever calls them, so they are worth a try
//! before anybody was seen to execute them. Then it goes through it once more, for all others.

use std::{ops::Range, time::Duration};

use super::{KnownCode, MEMORY};
use crate::hunt::{
    stint::{Stint, Timekeeper},
    strategy::CodeView,
};

/// Functions between two looks at the clock.
const STRIDE: u32 = 32;
/// How long it goes on: the first time, and each time.
const FIRST: Duration = Duration::from_millis(5);
const NEXT: Duration = Duration::from_micros(150);
/// Functions that it may add to those that are remembered.
const MOST: usize = MEMORY / 4;

/// See the module.
#[derive(Debug)]
pub struct Sweep {
    /// The number of the next function.
    next: u64,
    /// Functions that were gone through.
    done: u64,
    /// Functions that were learned of it.
    learned: usize,
    /// All were gone through, and it goes through them once more, for all that are not known yet.
    takes_all: bool,
}

impl Sweep {
    /// Begins at a function of this number, wherever that is: of a program that is too large for all of
    /// it, another part is seen each time. All functions are learned in the end, as far as there is room for them.
    #[must_use]
    pub const fn from(number: u64) -> Self {
        Self {
            next: number,
            done: 0,
            learned: 0,
            takes_all: false,
        }
    }

    /// Begins again at another one: there is more code.
    pub const fn restart(&mut self, number: u64) {
        self.next = number;
        self.done = 0;
        self.takes_all = false;
    }

    /// Whether all functions were gone through and learned.
    #[must_use]
    pub fn is_over(&self, code: &dyn CodeView) -> bool {
        self.takes_all && self.learned < MOST && self.done >= code.function_count()
    }

    /// Goes on for a while, and learns what it finds, unless that was enough.
    pub fn learn(
        &mut self,
        known: &mut KnownCode,
        code: &dyn CodeView,
        is_first: bool,
        timekeeper: Timekeeper,
    ) {
        if self.learned >= MOST {
            return;
        }
        let time = if is_first { FIRST } else { NEXT };
        let mut learned = 0;
        // What it takes to learn them counts, too: the program's signals wait meanwhile.
        let begun = timekeeper.begin();
        let mut learn = |start| {
            known.learn(start, code);
            learned += 1;
        };
        self.go_on(code, time, &begun, &mut learn);
        if !self.takes_all && self.done >= code.function_count() {
            self.takes_all = true;
            self.done = 0;
            self.go_on(code, time, &begun, &mut learn);
        }
        self.learned += learned;
    }

    /// Goes on until that has begun so long ago, and tells the starts of the functions that store to a variable, or of all.
    pub fn go_on(
        &mut self,
        code: &dyn CodeView,
        time: Duration,
        begun: &Stint,
        found: &mut dyn FnMut(u64),
    ) {
        let all = code.function_count();
        let mut variables = Variables::default();
        while self.done < all && begun.elapsed() < time {
            for _ in 0..STRIDE {
                if self.done >= all {
                    break;
                }
                let pc = code.some_function(self.next);
                self.next = self.next.wrapping_add(1) % all;
                self.done += 1;
                let function = pc.and_then(|pc| code.function(pc));
                if let Some((start, bytes)) = function
                    && (self.takes_all || stores_to(bytes, start, variables.of(start, code)))
                {
                    found(start);
                }
            }
        }
    }
}

/// The writable memory of the module that was asked for last: functions come in the order of their addresses.
#[derive(Default)]
struct Variables {
    code: Range<u64>,
    data: Range<u64>,
}

impl Variables {
    fn of(&mut self, pc: u64, code: &dyn CodeView) -> &Range<u64> {
        if !self.code.contains(&pc) {
            (self.code, self.data) = code.module_of(pc).unwrap_or_default();
        }
        &self.data
    }
}

/// Whether some instruction may store to an address in a range that it names relative to itself. It is not
/// decoded: any byte may be an instruction's ModRM, which is the right one for one function in thousands where it is none.
fn stores_to(code: &[u8], start: u64, data: &Range<u64>) -> bool {
    /// Mode 0 with register 5: `disp32(%rip)`.
    const MODE_AND_REGISTER: u8 = 0b1100_0111;
    const RELATIVE: u8 = 0b0000_0101;
    code.windows(6).enumerate().any(|(offset, bytes)| {
        let &[opcode, modrm, a, b, c, d] = bytes else {
            return false;
        };
        if modrm & MODE_AND_REGISTER != RELATIVE || !may_store(opcode) {
            return false;
        }
        // Relative to the end of the instruction, but for an immediate operand.
        let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
        let end = start.wrapping_add(offset as u64 + bytes.len() as u64);
        let target = end.wrapping_add_signed(distance);
        data.contains(&target) && !is_locked(code.get(..offset).unwrap_or_default())
    })
}

/// Whether what stands before an opcode makes the instruction an atomic one.
fn is_locked(before: &[u8]) -> bool {
    const LOCK: u8 = 0xf0;
    /// With each of its four bits.
    const REX: u8 = 0x40;
    matches!(before, [.., LOCK] | [.., LOCK, 0x0f])
        || matches!(before, [.., LOCK, rex] | [.., LOCK, rex, 0x0f] if rex & LOCK == REX)
}

/// Whether the last byte of an opcode is one of those that store to their ModRM operand (Intel SDM, volume 2,
/// appendix A): arithmetic, moves, shifts, and of two-byte ones the moves of vectors.
const fn may_store(opcode: u8) -> bool {
    const ARITHMETIC: u8 = 0x40;
    match opcode {
        // add, or, adc, sbb, and, sub, xor; the lowest vector moves among them.
        0..ARITHMETIC => {
            opcode & 0b110 == 0 && opcode < 0x38 || matches!(opcode, 0x13 | 0x17 | 0x2b)
        }
        0x7e | 0x7f | 0x80 | 0x81 | 0x83 | 0x88 | 0x89 => true,
        0xc0 | 0xc1 | 0xc6 | 0xc7 | 0xd0..=0xd3 | 0xd6 | 0xe7 => true,
        0xf6 | 0xf7 | 0xfe | 0xff => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::stint::Timekeeper;
    use crate::insn::Transfer;

    const CODE: u64 = 0x1000;
    const DATA: u64 = 0x3000;
    const STEP: u64 = 0x10;

    /// Functions of 16 bytes each.
    struct View(Vec<[u8; STEP as usize]>);

    impl CodeView for View {
        fn code(&self, _: u64) -> &[u8] {
            &[]
        }
        fn is_analyzed(&self, _: u64) -> bool {
            true
        }
        fn is_routine(&self, _: u64) -> bool {
            false
        }
        fn routine(&self, _: Transfer) -> Option<u64> {
            None
        }
        fn is_atomic(&self, _: u64) -> bool {
            false
        }
        fn function(&self, pc: u64) -> Option<(u64, &[u8])> {
            let bytes = self.0.get(((pc - CODE) / STEP) as usize)?;
            Some((pc, bytes))
        }
        fn some_function(&self, number: u64) -> Option<u64> {
            Some(CODE + STEP * (number % self.function_count()))
        }
        fn function_count(&self) -> u64 {
            self.0.len() as u64
        }
        fn module_of(&self, _: u64) -> Option<(Range<u64>, Range<u64>)> {
            Some((CODE..DATA, DATA..DATA + 0x1000))
        }
        fn is_constant(&self, _: u64) -> bool {
            false
        }
    }

    /// `nop`s with an instruction at the start of function 1, at `CODE + STEP`.
    fn function(instruction: &[u8], target: u64, end: usize) -> [u8; STEP as usize] {
        let mut bytes = [0x90; STEP as usize];
        bytes[..instruction.len()].copy_from_slice(instruction);
        let distance = target.wrapping_sub(CODE + STEP + end as u64) as u32;
        bytes[instruction.len()..][..4].copy_from_slice(&distance.to_le_bytes());
        bytes
    }

    fn swept(function: [u8; STEP as usize]) -> bool {
        let view = View(vec![[0x90; STEP as usize], function]);
        let mut found = Vec::new();
        Sweep::from(1).go_on(
            &view,
            Duration::from_secs(10),
            &Timekeeper::Clock.begin(),
            &mut |start| found.push(start),
        );
        assert!(found.is_empty() || found == [CODE + STEP]);
        !found.is_empty()
    }

    /// Check that stores to variables are found, loads, other addresses and other modes are not.
    #[test]
    fn stores_to_variables() {
        let inside = DATA + 8;
        // mov %edi, x(%rip); add %rax, x(%rip); incl x(%rip); movups %xmm0, x(%rip).
        assert!(swept(function(&[0x89, 0x3d], inside, 6)));
        assert!(swept(function(&[0x48, 0x01, 0x05], inside, 7)));
        assert!(swept(function(&[0xff, 0x05], inside, 6)));
        assert!(swept(function(&[0x0f, 0x11, 0x05], inside, 7)));
        // movl $0, x(%rip): the distance counts from behind the immediate operand.
        assert!(swept(function(&[0xc7, 0x05], inside, 10)));
        // lock incq x(%rip); lock xadd %eax, x(%rip).
        assert!(!swept(function(&[0xf0, 0x48, 0xff, 0x05], inside, 8)));
        assert!(!swept(function(&[0xf0, 0x0f, 0xc1, 0x05], inside, 8)));
        // Elsewhere; a load; relative to a register.
        assert!(!swept(function(&[0x89, 0x3d], DATA + 0x1000, 6)));
        assert!(!swept(function(&[0x8b, 0x3d], inside, 6)));
        assert!(!swept(function(&[0x89, 0x3e], inside, 6)));
    }

    /// Check that each function is gone through once, wherever it begins, and that it stops in time.
    #[test]
    fn each_once() {
        // That of function 1; those of the others are as far from them.
        let store = function(&[0x89, 0x3d], DATA + 0x800, 6);
        let view = View(vec![store; 100]);
        let mut sweep = Sweep::from(u64::MAX - 3);
        let mut found = Vec::new();
        sweep.go_on(
            &view,
            Duration::ZERO,
            &Timekeeper::Clock.begin(),
            &mut |start| found.push(start),
        );
        assert!(found.is_empty());
        for _ in 0..3 {
            sweep.go_on(
                &view,
                Duration::from_secs(10),
                &Timekeeper::Clock.begin(),
                &mut |start| {
                    found.push(start);
                },
            );
        }
        assert_eq!(found.len(), 100);
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 100);
    }
}
