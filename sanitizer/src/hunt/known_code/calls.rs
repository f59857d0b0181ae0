//! Calls that turn out to be of memory routines after their functions were looked at: the library was not there yet, or the program had not
//! bound the call.

use super::{KnownCode, LOOK};
use crate::hunt::{stint::Stint, strategy::CodeView};

impl KnownCode {
    /// More may be known of where calls lead: the functions whose calls led nowhere are looked at once more.
    pub fn look_again(&mut self) {
        let outdated = (self.functions.iter()).filter(|(_, function)| function.leads_out());
        self.outdated = outdated.map(|(&start, _)| start).collect();
    }

    /// Looks at some of them.
    pub(super) fn look_at_outdated(&mut self, code: &dyn CodeView, begun: &Stint) {
        while begun.elapsed() < LOOK
            && let Some(start) = self.outdated.pop_front()
        {
            self.look_at_calls(start, code);
        }
    }

    fn look_at_calls(&mut self, start: u64, code: &dyn CodeView) {
        if let Some(function) = self.functions.get_mut(&start)
            && let Some((_, bytes)) = code.function(start).filter(|(same, _)| *same == start)
            && let more @ 1.. = function.look_at_calls(start, bytes, code)
        {
            self.sites += more as u64;
            self.new.push(start);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, ops::Range};

    use super::*;
    use crate::{
        hunt::{known_code::site::AccessSite, stint::Timekeeper},
        insn::Transfer,
    };

    const START: u64 = 0x1000;
    const ROUTINE: u64 = 0x5000;
    /// `mov %rax,(%rdi); call ROUTINE; mov %rax,(%rdi); call *cell(%rip); ret`, the cell at `CELL`.
    const CODE: [u8; 18] = [
        0x48, 0x89, 0x07, 0xe8, 0xf8, 0x3f, 0, 0, 0x48, 0x89, 0x07, 0xff, 0x15, 0xef, 0x4f, 0, 0,
        0xc3,
    ];
    const CELL: u64 = 0x6000;

    /// One function, whose calls lead to routines once that is so.
    #[derive(Default)]
    struct Program {
        is_loaded: Cell<bool>,
        is_bound: Cell<bool>,
    }

    impl CodeView for Program {
        fn code(&self, pc: u64) -> &[u8] {
            CODE.get(pc.wrapping_sub(START) as usize..).unwrap_or(&[])
        }
        fn is_analyzed(&self, pc: u64) -> bool {
            !self.code(pc).is_empty()
        }
        fn is_routine(&self, _: u64) -> bool {
            false
        }
        fn routine(&self, transfer: Transfer) -> Option<u64> {
            let is_known = match transfer {
                Transfer::To(to) => to == ROUTINE && self.is_loaded.get(),
                Transfer::Through(cell) => cell == CELL && self.is_bound.get(),
            };
            is_known.then_some(ROUTINE)
        }
        fn is_atomic(&self, _: u64) -> bool {
            false
        }
        fn function(&self, pc: u64) -> Option<(u64, &[u8])> {
            self.is_analyzed(pc).then_some((START, &CODE))
        }
        fn some_function(&self, _: u64) -> Option<u64> {
            Some(START)
        }
        fn function_count(&self) -> u64 {
            1
        }
        fn module_of(&self, _: u64) -> Option<(Range<u64>, Range<u64>)> {
            None
        }
        fn is_constant(&self, _: u64) -> bool {
            false
        }
    }

    /// Check that calls become sites once they are known to lead to memory routines, each once, between those that are known; and that it is told.
    #[test]
    fn calls_become_sites() {
        let program = Program::default();
        let mut code = KnownCode::default();
        code.learn(START, &program);
        let sites = |code: &KnownCode| {
            code.sites_in(START)
                .map(|(at, _)| at - START)
                .collect::<Vec<_>>()
        };
        assert_eq!((sites(&code), code.take_new()), (vec![0, 8], vec![START]));
        let look = |code: &mut KnownCode| {
            code.look_again();
            code.look_at_called(&program, Timekeeper::Steps);
            (sites(code), code.take_new())
        };
        assert_eq!(look(&mut code), (vec![0, 8], vec![]));
        program.is_loaded.set(true);
        assert_eq!(look(&mut code), (vec![0, 3, 8], vec![START]));
        program.is_bound.set(true);
        assert_eq!(look(&mut code), (vec![0, 3, 8, 11], vec![START]));
        assert_eq!(look(&mut code), (vec![0, 3, 8, 11], vec![]));
        let call = code.get(START + 11).expect("it is a site");
        assert!(call.has(AccessSite::CALL) && code.coverage().0 == 4);
    }
}
