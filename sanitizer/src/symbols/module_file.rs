//! One module's file with everything read from it, each part when first needed.

use std::cell::OnceCell;
use std::sync::Arc;

use super::beside::Beside;
use super::cfi::Cfi;
use super::debug_file::Search;
use super::demangle::{demangle, demangle_variable};
use super::elf_file::ElfFile;
use super::file_tables::{CodeFacts, FileTables, LARGEST_FILE};
use super::layout::{Held, Named, Stopped};
use super::lines::{Lines, SourceFrame};
use super::split_dwarf::SplitDwarf;
use super::strict;
use super::symtab::{Symbol, SymbolTable};
use super::text::cut;
use super::too_much::TooMuch;
use super::types::FunctionResult;
use crate::addr::LinkAddr;
use crate::image::Image;

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
    tables: OnceCell<FileTables>,
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
            debug,
            supplementary,
            ..Self::alone(elf, beside)
        }
    }

    /// For what its tables tell alone, without any debug file.
    pub(super) fn alone(elf: ElfFile, beside: Arc<dyn Beside>) -> Self {
        Self {
            elf,
            beside,
            debug: None,
            supplementary: None,
            cfi: OnceCell::new(),
            symbols: OnceCell::new(),
            more_symbols: OnceCell::new(),
            lines: OnceCell::new(),
            tables: OnceCell::new(),
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
        lines
            + tables.map(SymbolTable::bytes).sum::<usize>()
            + self.cfi.get().map_or(0, Cfi::bytes)
            + self.tables.get().map_or(0, FileTables::bytes)
    }

    /// Forgets what has been read, which can be read again.
    pub(super) fn forget(&mut self) {
        self.was_too_much = self.given_up();
        self.cfi.take();
        self.symbols.take();
        self.more_symbols.take();
        self.lines.take();
        self.tables.take();
    }

    /// The debug file that may have what was stripped, where it is small enough.
    fn small_debug_file(&self, name: &str) -> Option<Image> {
        let search = Search(&self.beside);
        let (_, found) = search.debug_file_up_to(&self.elf, LARGEST_FILE)?;
        found.image(name)
    }

    /// What is told of the code around a link-time address beside metadata and debug information; nothing of a file that has no tables, or is too large.
    pub(super) fn code_at(&self, addr: u64) -> Option<CodeFacts> {
        let read = || {
            let is_small = self.elf.len() <= LARGEST_FILE;
            let image = is_small.then(|| self.elf.image("")).flatten();
            image.map_or_else(FileTables::default, |image| {
                FileTables::of(&image, || self.small_debug_file(""))
            })
        };
        self.tables.get_or_init(read).around(LinkAddr(addr))
    }

    /// What of its tables reports will not use, and why, in a line each; `name` is what they call the file.
    pub(super) fn left_out(&self, name: &str) -> Vec<String> {
        let size = self.elf.len();
        if size > LARGEST_FILE {
            let line = format!(
                "{name}: it has {size} bytes, and in files of more than {LARGEST_FILE} basic blocks and live values are not looked for"
            );
            return self.elf.has_tables().then_some(line).into_iter().collect();
        }
        let image = self.elf.image(name);
        image.map_or_else(Vec::new, |image| {
            FileTables::left_out(&image, || self.small_debug_file(name))
        })
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
