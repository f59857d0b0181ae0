//! One module's file with everything read from it, each part when first needed.

use std::cell::OnceCell;
use std::sync::Arc;

use super::beside::Beside;
use super::cfi::Cfi;
use super::debug_file::Search;
use super::demangle::{demangle, demangle_variable};
use super::elf_file::ElfFile;
use super::layout::{Held, Named, Stopped};
use super::lines::{Lines, SourceFrame};
use super::split_dwarf::SplitDwarf;
use super::strict;
use super::symtab::{Symbol, SymbolTable};
use super::text::cut;
use super::too_much::TooMuch;
use super::types::FunctionResult;

/// An opened module. Its files stay reachable when the process is gone.
pub(super) struct ModuleFile {
    pub(super) elf: ElfFile,
    beside: Arc<dyn Beside>,
    debug: Option<ElfFile>,
    supplementary: Option<ElfFile>,
    cfi: OnceCell<Cfi>,
    symbols: OnceCell<Option<SymbolTable>>,
    /// What a stripped file has of symbols beside those.
    more_symbols: OnceCell<Option<SymbolTable>>,
    lines: OnceCell<Result<Option<Lines>, TooMuch>>,
    /// What had been too much when `lines` was forgotten.
    was_too_much: Option<TooMuch>,
}

impl ModuleFile {
    /// Finds the debug file that goes with `elf`; nothing else is read yet.
    pub(super) fn new(elf: ElfFile, beside: Arc<dyn Beside>) -> Self {
        let search = Search(&beside);
        let debug = match elf.has_debug_info() {
            true => None,
            false => search.debug_file(&elf),
        };
        let supplementary = search.supplementary(debug.as_ref().unwrap_or(&elf));
        Self {
            elf,
            beside,
            debug,
            supplementary,
            cfi: OnceCell::new(),
            symbols: OnceCell::new(),
            more_symbols: OnceCell::new(),
            lines: OnceCell::new(),
            was_too_much: None,
        }
    }

    pub(super) fn cfi(&self) -> &Cfi {
        self.cfi
            .get_or_init(|| Cfi::read(&self.elf, self.debug.as_ref()))
    }

    fn symbols(&self) -> Option<&SymbolTable> {
        let read = || {
            let own = SymbolTable::read(&self.elf);
            if self.elf.section(".symtab").is_some() {
                return own;
            }
            // A debug file keeps the full table that strip removed.
            (self.debug.as_ref().and_then(SymbolTable::read))
                .filter(|table| !table.is_empty())
                .or(own)
        };
        self.symbols.get_or_init(read).as_ref()
    }

    /// The symbol that covers an instruction.
    fn function_symbol(&self, addr: u64) -> Option<Symbol> {
        let symbol = self.symbols().and_then(|table| table.function_at(addr));
        // Of one without a size it is not known that it covers it.
        if symbol.as_ref().is_some_and(|symbol| symbol.size > 0) {
            return symbol;
        }
        let read = || {
            let is_stripped = self.elf.section(".symtab").is_none() && self.debug.is_none();
            let file = is_stripped.then(|| self.elf.mini_debug_info())??;
            SymbolTable::read(&file)
        };
        let more = self.more_symbols.get_or_init(read).as_ref();
        more.and_then(|table| table.function_at(addr)).or(symbol)
    }

    /// The file that has the debug information.
    fn debug_file(&self) -> &ElfFile {
        self.debug.as_ref().unwrap_or(&self.elf)
    }

    fn lines(&self) -> Option<&Lines> {
        let read = || {
            Lines::read(
                self.debug_file(),
                self.supplementary.as_ref(),
                Some(SplitDwarf::find(Arc::clone(&self.beside))),
            )
        };
        self.lines.get_or_init(read).as_ref().ok()?.as_ref()
    }

    /// What of its debug information has been too much to be read.
    pub(super) fn given_up(&self) -> Option<TooMuch> {
        let now = match self.lines.get() {
            Some(Ok(Some(lines))) => lines.given_up(),
            Some(Err(error)) => Some(error.clone()),
            _ => None,
        };
        now.filter(|error| *error != TooMuch::Damaged)
            .or_else(|| self.was_too_much.clone())
    }

    /// What is kept in memory of what has been read, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let lines = match self.lines.get() {
            Some(Ok(Some(lines))) => lines.bytes(),
            _ => 0,
        };
        let tables = [&self.symbols, &self.more_symbols];
        let tables = tables.iter().filter_map(|table| table.get()?.as_ref());
        lines + tables.map(SymbolTable::bytes).sum::<usize>() + self.cfi.get().map_or(0, Cfi::bytes)
    }

    /// Forgets what has been read, which can be read again.
    pub(super) fn forget(&mut self) {
        self.was_too_much = self.given_up();
        self.cfi.take();
        self.symbols.take();
        self.more_symbols.take();
        self.lines.take();
    }

    /// Whether the instruction at a link-time address belongs to no one place of the source; None without
    /// debug information about it.
    pub(super) fn is_of_no_place(&self, addr: u64) -> Option<bool> {
        self.lines()?.is_of_no_place(addr)
    }

    /// Where the function at a link-time address returns what.
    pub(super) fn result_at(&self, addr: u64) -> Option<FunctionResult> {
        self.lines()?.result_at(addr)
    }

    /// Whether the code at a link-time address is known to be compiled so that it reads nothing that the source does not.
    pub(super) fn is_strict(&self, addr: u64) -> bool {
        let source = self.lines().and_then(|lines| lines.strict_source(addr));
        let symbols = self.symbols();
        source.is_some_and(|name| {
            symbols.is_some_and(|table| table.locals_of(&name, strict::CONSTRUCTOR))
        })
    }

    /// What the variables of a thread's function have at bytes.
    pub(super) fn held_at(
        &self,
        stopped: Stopped<'_>,
        bias: u64,
        bytes: (u64, u32),
    ) -> Option<Held> {
        self.lines()?
            .held_at(self.debug_file(), stopped, bias, bytes)
    }

    /// What the variables of a thread's function that have or point to some bytes are called.
    pub(super) fn named_at(
        &self,
        stopped: Stopped<'_>,
        (bias, cfa): (u64, Option<u64>),
        bytes: (u64, u32),
    ) -> Option<Named> {
        self.lines()?
            .named_at(self.debug_file(), stopped, (bias, cfa), bytes)
    }

    /// Which member of a global variable some bytes are, by the unit of the code at a link-time address.
    pub(super) fn member_at(&self, pc: u64, bytes: (u64, u32)) -> Option<String> {
        self.lines()?.member_at(pc, bytes)
    }

    /// The function at a link-time address by the symbol table alone, which takes much less time to read
    /// than DWARF.
    pub(super) fn function_by_symbol(&self, addr: u64) -> Option<String> {
        Some(demangle(&self.function_symbol(addr)?.name))
    }

    /// The data object at a link-time address.
    pub(super) fn object_at(&self, addr: u64) -> Option<Symbol> {
        let mut symbol = self.symbols()?.object_at(addr)?;
        symbol.name = cut(demangle_variable(&symbol.name));
        Some(symbol)
    }

    /// The source frames at a link-time address, the innermost inlined call first; with the
    /// symbol table's name where DWARF has none. At least one frame.
    pub(super) fn frames_at(&self, addr: u64) -> Vec<SourceFrame> {
        let mut frames = self
            .lines()
            .map(|lines| lines.frames_at(addr))
            .unwrap_or_default();
        if frames.is_empty() {
            frames.push(SourceFrame::default());
        }
        if let Some(outermost) = frames.last_mut()
            && !outermost.qualified
            && let Some(symbol) = self.function_symbol(addr)
        {
            let full = demangle(&symbol.name);
            // DWARF's own name may lack the scope, where there are only line tables.
            let better = match &outermost.function {
                None => true,
                Some(name) => full != symbol.name && full.contains(base_name(name)),
            };
            if better {
                outermost.function = Some(full);
            }
        }
        frames
    }
}

/// A function's name without type arguments and parameters.
fn base_name(name: &str) -> &str {
    name.split(['<', '(']).next().unwrap_or(name)
}
