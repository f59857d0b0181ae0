//! Calls that turn out to be of memory routines after their functions were looked at: the library was not there yet, or the program had not
//! bound the call.

use super::{KnownCode, LOOK, analyzed};
use crate::{
    hunt::{access_site::AccessSite, stint::Stint, strategy::CodeView},
    insn::x86_64::{StaticSite, static_sites},
};

impl KnownCode {
    /// More may be known of where calls lead: the functions whose calls led nowhere are looked at once more.
    pub fn look_again(&mut self) {
        let outdated = (self.functions.iter()).filter(|(_, function)| function.leads_out);
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

    /// Takes in the calls of a function that were not known to be of memory routines.
    fn look_at_calls(&mut self, start: u64, code: &dyn CodeView) {
        let Some(function) = self.functions.get_mut(&start) else {
            return;
        };
        let Some((_, bytes)) = code.function(start).filter(|(same, _)| *same == start) else {
            return;
        };
        let (mut more, mut leads_out) = (Vec::new(), false);
        static_sites(bytes, start, &mut |site| {
            let StaticSite::Leaves {
                pc,
                transfer,
                frame,
                ..
            } = site
            else {
                return;
            };
            if code.routine(transfer).is_none() {
                leads_out |= analyzed(transfer, code).is_none();
            } else if let Ok(offset) = u32::try_from(pc.wrapping_sub(start))
                && function.sites[function.first_from(offset)..]
                    .first()
                    .is_none_or(|site| site.offset != offset)
            {
                more.push(AccessSite::new(offset, AccessSite::CALL, frame));
            }
        });
        function.leads_out = leads_out;
        if more.is_empty() {
            return;
        }
        self.sites += more.len() as u64;
        function.sites.append(&mut more);
        function.sites.sort_by_key(|site| site.offset);
        if function.candidate.is_some() {
            self.weigh(start);
        }
        if let Some(new) = &mut self.new {
            new.push(start);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, ops::Range};

    use super::*;
    use crate::{hunt::stint::Timekeeper, insn::Transfer};

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
        let mut code = KnownCode::that_tells();
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
