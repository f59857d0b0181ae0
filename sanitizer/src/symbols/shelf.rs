//! The files that are read: what was read of each, within what all may keep together.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::beside::{Beside, Opened};
use super::effort;
use super::elf_file::ElfFile;
use super::facts::Facts;
use super::layout::Stopped;
use super::module::StackSnapshot;
use super::module_file::ModuleFile;
use super::question::{Answer, MOST_BYTES, Question};

/// What all files together may keep in memory, in bytes, beside the one that was asked last.
const MOST_KEPT: usize = 24 << 20;

/// See the module. Files are known by numbers.
#[derive(Default)]
pub struct Shelf {
    files: HashMap<u64, ModuleFile>,
    /// What each keeps in memory, in bytes; the one that was asked last at the end.
    kept: Vec<(u64, usize)>,
}

impl Shelf {
    /// Takes a file; `beside` looks for what belongs to it.
    ///
    /// # Errors
    /// Fails for what is no ELF file of this machine.
    pub fn open(
        &mut self,
        number: u64,
        opened: Opened,
        beside: Arc<dyn Beside>,
    ) -> io::Result<Facts> {
        self.open_by(number, opened, beside, ModuleFile::new)
    }

    /// Takes a file for questions about its code alone ([`Question::Code`]): for others there is no debug file.
    ///
    /// # Errors
    /// As [`Shelf::open`].
    pub fn open_for_code(
        &mut self,
        number: u64,
        opened: Opened,
        beside: Arc<dyn Beside>,
    ) -> io::Result<Facts> {
        self.open_by(number, opened, beside, ModuleFile::alone)
    }

    fn open_by(
        &mut self,
        number: u64,
        opened: Opened,
        beside: Arc<dyn Beside>,
        of: impl FnOnce(ElfFile, Arc<dyn Beside>) -> ModuleFile,
    ) -> io::Result<Facts> {
        effort::begin();
        let elf = ElfFile::new(opened, Arc::clone(&beside))?;
        let facts = elf.facts();
        self.files.insert(number, of(elf, beside));
        Ok(facts)
    }

    /// Forgets a file.
    pub fn close(&mut self, number: u64) {
        self.files.remove(&number);
        self.kept.retain(|(other, _)| *other != number);
    }

    /// Forgets all files but these.
    pub fn keep(&mut self, is_kept: impl Fn(u64) -> bool) {
        self.files.retain(|&number, _| is_kept(number));
        self.kept.retain(|&(number, _)| is_kept(number));
    }

    /// Asks a file something that may take effort and memory. Nothing where it is not known, or the stack is missing.
    pub fn ask(
        &mut self,
        number: u64,
        question: &Question,
        stack: Option<&StackSnapshot>,
    ) -> Option<Answer> {
        effort::begin();
        let file = self.files.get(&number)?;
        let answer = answer(file, question, stack)?;
        let bytes = file.bytes();
        self.note(number, bytes, MOST_KEPT);
        Some(answer)
    }

    /// A file's build id.
    #[cfg(any(test, feature = "fault-injection"))]
    #[must_use]
    pub fn build_id(&self, number: u64) -> Option<&[u8]> {
        Some(self.files.get(&number)?.elf.build_id())
    }

    /// What of a file's debug information has been too much to be read.
    #[must_use]
    pub fn given_up(&self, number: u64) -> Option<String> {
        let error = self.files.get(&number)?.given_up()?;
        Some(error.to_string())
    }

    /// Notes what a file keeps, and makes those forget that were not asked for long where that is too much.
    fn note(&mut self, file: u64, bytes: usize, most: usize) {
        self.kept.retain(|(other, _)| *other != file);
        let mut sum: usize = self.kept.iter().map(|(_, bytes)| bytes).sum();
        let too_many = self.kept.iter().take_while(|(_, bytes)| {
            let is_too_much = sum > most;
            sum = sum.saturating_sub(*bytes);
            is_too_much
        });
        let too_many = too_many.count();
        for (file, _) in self.kept.drain(..too_many) {
            if let Some(file) = self.files.get_mut(&file) {
                file.forget();
            }
        }
        self.kept.push((file, bytes));
    }
}

fn answer(file: &ModuleFile, question: &Question, stack: Option<&StackSnapshot>) -> Option<Answer> {
    Some(match question {
        Question::Frames(addr) => Answer::Frames(file.frames_at(*addr)),
        Question::Function(addr) => Answer::Function(file.function_by_symbol(*addr)),
        Question::IsOfNoPlace(addr) => Answer::IsOfNoPlace(file.is_of_no_place(*addr)),
        Question::Result(addr) => Answer::Result(file.result_at(*addr)),
        Question::IsStrict(addr) => Answer::IsStrict(file.is_strict(*addr)),
        Question::Held {
            pc,
            regs,
            bias,
            bytes,
        } => {
            let stack = stack?;
            let stopped = Stopped {
                pc: *pc,
                regs,
                stack,
            };
            Answer::Held(file.held_at(stopped, *bias, *bytes))
        }
        Question::Named {
            pc,
            regs,
            bias,
            cfa,
            bytes,
        } => {
            let stack = stack?;
            let stopped = Stopped {
                pc: *pc,
                regs,
                stack,
            };
            Answer::Named(file.named_at(stopped, (*bias, *cfa), *bytes))
        }
        Question::Object(addr) => Answer::Object(file.object_at(*addr)),
        Question::Member { pc, bytes } => Answer::Member(file.member_at(*pc, *bytes)),
        Question::Step(lookup, registers) => {
            Answer::Step(file.cfi().step(*lookup, registers, stack?))
        }
        Question::Bytes(addr, len) => {
            Answer::Bytes(file.elf.bytes_at(*addr, (*len).min(MOST_BYTES)))
        }
        Question::Code(addr) => Answer::Code(file.code_at(*addr)),
        Question::LeftOut(name) => Answer::LeftOut(file.left_out(name)),
    })
}
