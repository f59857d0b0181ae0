//! What debug information says of the code at an address beyond functions and lines.

use super::Symbolizer;
use crate::symbols::layout::{Held, Named, Stopped};
use crate::symbols::question::{Answer, Question};
use crate::symbols::types::FunctionResult;

impl Symbolizer {
    /// Whether the instruction at a run-time address belongs to no one place of the source, since an optimizer has
    /// made it of several; None without debug information about it.
    #[must_use]
    pub fn is_of_no_place(&self, pc: u64) -> Option<bool> {
        let (file, addr) = self.place(pc)?;
        match self.ask(file, Question::IsOfNoPlace(addr), None)? {
            Answer::IsOfNoPlace(answer) => answer,
            _ => None,
        }
    }

    /// Where the function at a run-time address returns what, by debug information.
    #[must_use]
    pub fn result_at(&self, pc: u64) -> Option<FunctionResult> {
        let (file, addr) = self.place(pc)?;
        match self.ask(file, Question::Result(addr), None)? {
            Answer::Result(answer) => answer,
            _ => None,
        }
    }

    /// What the variables of a thread's function have at bytes, by debug information: `bytes` are a run-time address and
    /// their number.
    #[must_use]
    pub fn held_at(&self, stopped: Stopped<'_>, bytes: (u64, u32)) -> Held {
        let held = || {
            let module = self.find(stopped.pc)?;
            let question = Question::Held {
                pc: stopped.pc,
                regs: Box::new(*stopped.regs),
                bias: module.info.bias,
                bytes,
            };
            match self.ask(module.file.as_ref()?, question, Some(stopped.stack))? {
                Answer::Held(held) => held,
                _ => None,
            }
        };
        held().unwrap_or_default()
    }

    /// What the variables of a thread's function that have or point to bytes are called, by debug information: `bytes` are a run-time address and their number,
    /// `cfa` is the canonical frame address, where it is known.
    #[must_use]
    pub fn named_at(&self, stopped: Stopped<'_>, cfa: Option<u64>, bytes: (u64, u32)) -> Named {
        let named = || {
            let module = self.find(stopped.pc)?;
            let question = Question::Named {
                pc: stopped.pc,
                regs: Box::new(*stopped.regs),
                bias: module.info.bias,
                cfa,
                bytes,
            };
            match self.ask(module.file.as_ref()?, question, Some(stopped.stack))? {
                Answer::Named(named) => named,
                _ => None,
            }
        };
        named().unwrap_or_default()
    }

    /// The way from the global variable at a run-time address to so many bytes there (`.last[].hits`), as far as the unit of the code at
    /// `pc` tells, which is one of the same module.
    #[must_use]
    pub fn member_at(&self, pc: u64, (address, len): (u64, u32)) -> Option<String> {
        let module = self.find(pc)?;
        let question = Question::Member {
            pc: pc.wrapping_sub(module.info.bias),
            bytes: (address.wrapping_sub(module.info.bias), len),
        };
        match self.ask(module.file.as_ref()?, question, None)? {
            Answer::Member(path) => path,
            _ => None,
        }
    }

    /// Whether the code at a run-time address is known to be compiled so that it reads nothing that the source does not.
    #[must_use]
    pub fn is_strict(&self, pc: u64) -> bool {
        let answer = self
            .place(pc)
            .and_then(|(file, addr)| self.ask(file, Question::IsStrict(addr), None));
        matches!(answer, Some(Answer::IsStrict(true)))
    }
}
