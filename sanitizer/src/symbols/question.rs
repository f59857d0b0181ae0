//! What is asked of one file, and answered: plain data, so that whoever asks and whoever reads can be different processes.
//! Addresses are those of the file (link-time), if nothing else is said.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::file_tables::CodeFacts;
use super::layout::{Held, Named, Pointee};
use super::lines::SourceFrame;
use super::module::{ModuleInfo, StackSnapshot};
use super::source::Known;
use super::symtab::Symbol;
use super::text::{LONGEST, cut};
use super::types::FunctionResult;
use super::unwind_rules::{Registers, Step};
use crate::addr::LinkAddr;
use crate::insn::Regs;

/// Bytes of code that are asked for at most.
pub(super) const MOST_BYTES: u64 = 256;
/// Lines that tell what of a file is left out.
const MOST_LINES: usize = 64;
/// Frames at one address: an outermost one, and calls that are inlined into each other.
const MOST_FRAMES: usize = 300;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// The source frames at an address, the innermost inlined call first.
    Frames(u64),
    /// The function at an address by the symbol table alone.
    Function(u64),
    /// Whether the instruction at an address belongs to no one place of the source.
    IsOfNoPlace(u64),
    /// Where the function at an address returns what.
    Result(u64),
    /// Whether the code at an address is known to be compiled so that it reads nothing that the source does not.
    IsStrict(u64),
    /// What the variables of a thread's function have at some bytes, of the stack that is told beside.
    Held {
        /// The run-time address of the instruction.
        pc: u64,
        /// The registers.
        regs: Box<Regs>,
        /// What was added to addresses of the file.
        bias: u64,
        /// The run-time address and number of the bytes.
        bytes: (u64, u32),
    },
    /// What the variables of a thread's function that have or point to some bytes are called, by the stack that is told beside.
    Named {
        /// The run-time address of the instruction.
        pc: u64,
        /// The registers.
        regs: Box<Regs>,
        /// What was added to addresses of the file.
        bias: u64,
        /// The run-time canonical frame address, where it is known.
        cfa: Option<u64>,
        /// The run-time address and number of the bytes.
        bytes: (u64, u32),
    },
    /// The data object at an address.
    Object(u64),
    /// Which member of a global variable some bytes are, by the unit of the code at an address.
    Member {
        /// Of the code.
        pc: u64,
        /// The address and number of the bytes.
        bytes: (u64, u32),
    },
    /// The registers of the caller of a frame whose code is at an address, by the stack that is told beside.
    Step(u64, Box<Registers>),
    /// Bytes as the loader maps them at an address; fewer where there are fewer.
    Bytes(u64, u64),
    /// What tables of basic blocks and live values tell of the code around an address.
    Code(u64),
    /// What of these tables is left out, where messages call the file this.
    LeftOut(String),
}

/// One for each kind of question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Answer {
    Frames(Vec<SourceFrame>),
    Function(Option<String>),
    IsOfNoPlace(Option<bool>),
    Result(Option<FunctionResult>),
    IsStrict(bool),
    Held(Option<Held>),
    Named(Option<Named>),
    Object(Option<Symbol>),
    Member(Option<String>),
    Step(Option<Step>),
    Bytes(Option<Vec<u8>>),
    Code(Option<CodeFacts>),
    LeftOut(Vec<String>),
}

impl Answer {
    /// It, if it is one to this question, without what is too much of it: whoever has read the file may be the file's by now.
    #[must_use]
    pub fn checked(self, question: &Question) -> Option<Self> {
        Some(match (self, question) {
            (Self::Frames(mut frames), Question::Frames(_)) => {
                if frames.is_empty() {
                    return None;
                }
                frames.truncate(MOST_FRAMES);
                for frame in &mut frames {
                    frame.function = frame.function.take().map(cut);
                    frame.file = frame.file.take().map(cut);
                }
                Self::Frames(frames)
            }
            (Self::Function(name), Question::Function(_)) => Self::Function(name.map(cut)),
            (Self::Object(symbol), Question::Object(_)) => {
                Self::Object(symbol.map(|symbol| Symbol {
                    name: cut(symbol.name),
                    ..symbol
                }))
            }
            (Self::Member(path), Question::Member { .. }) => Self::Member(path.map(cut)),
            (Self::Named(named), Question::Named { .. }) => Self::Named(named.map(|named| Named {
                variable: named.variable.map(cut),
                pointee: named.pointee.map(|pointee| Pointee {
                    name: cut(pointee.name),
                    member: cut(pointee.member),
                }),
            })),
            (Self::Bytes(bytes), Question::Bytes(_, len)) => {
                Self::Bytes(bytes.filter(|bytes| bytes.len() as u64 <= *len))
            }
            (Self::Code(facts), Question::Code(pc)) => {
                let pc = LinkAddr(*pc);
                if facts.as_ref().is_some_and(|facts| !facts.is_sound(pc)) {
                    return None;
                }
                Self::Code(facts)
            }
            (Self::LeftOut(mut lines), Question::LeftOut(_)) => {
                lines.truncate(MOST_LINES);
                Self::LeftOut(lines.into_iter().map(cut).collect())
            }
            (answer @ Self::IsOfNoPlace(_), Question::IsOfNoPlace(_))
            | (answer @ Self::Result(_), Question::Result(_))
            | (answer @ Self::IsStrict(_), Question::IsStrict(_))
            | (answer @ Self::Held(_), Question::Held { .. })
            | (answer @ Self::Step(_), Question::Step(..)) => answer,
            _ => return None,
        })
    }

    /// Bytes of the largest one that is none too many, encoded.
    pub const LARGEST: usize = MOST_FRAMES * 2 * (LONGEST + 64);
}

/// Why less is known of a file than it says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// Something of its debug information is over a limit.
    Excess(String),
    /// It is not read any more.
    Unread(String),
}

/// Whoever answers.
pub trait Files: Send {
    /// Opens a module's file. Nothing where it cannot be used.
    fn open(&mut self, module: &ModuleInfo) -> Option<Arc<Known>>;
    /// Asks a file something; `stack` is what some questions need. Nothing where there is no answer.
    fn ask(
        &mut self,
        file: &Known,
        question: Question,
        stack: Option<&StackSnapshot>,
    ) -> Option<Answer>;
    /// Looks anew for what belongs to a file and was not found.
    fn look_again(&mut self, file: &Known);
    /// Why functions and lines of a file are missing.
    fn lack(&self, file: &Known) -> Option<Lack>;
}
