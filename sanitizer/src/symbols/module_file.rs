//! One module's file with everything read from it, each part when first needed.

use std::cell::OnceCell;
use std::path::PathBuf;

use super::cfi::Cfi;
use super::debug_file;
use super::demangle::{demangle, demangle_variable};
use super::elf_file::ElfFile;
use super::lines::{Lines, SourceFrame};
use super::module::ModuleInfo;
use super::split_dwarf::SplitDwarf;
use super::symtab::{Symbol, SymbolTable};

/// An opened module. Its files stay reachable when the process is gone.
pub(super) struct ModuleFile {
    pub(super) elf: ElfFile,
    module: ModuleInfo,
    debug: Option<ElfFile>,
    supplementary: Option<ElfFile>,
    cfi: OnceCell<Cfi>,
    symbols: OnceCell<SymbolTable>,
    lines: OnceCell<Option<Lines>>,
}

impl ModuleFile {
    /// Finds the debug file that goes with `elf`; nothing else is read yet.
    pub(super) fn new(elf: ElfFile, module: &ModuleInfo, debug_dirs: &[PathBuf]) -> Self {
        let debug = if elf.has_debug_info() {
            None
        } else {
            debug_file::find(module, &elf, debug_dirs)
        };
        let supplementary =
            debug_file::find_supplementary(module, debug.as_ref().unwrap_or(&elf), debug_dirs);
        Self {
            elf,
            module: module.clone(),
            debug,
            supplementary,
            cfi: OnceCell::new(),
            symbols: OnceCell::new(),
            lines: OnceCell::new(),
        }
    }

    pub(super) fn cfi(&self) -> &Cfi {
        self.cfi
            .get_or_init(|| Cfi::read(&self.elf, self.debug.as_ref()))
    }

    fn symbols(&self) -> &SymbolTable {
        self.symbols.get_or_init(|| {
            let own = SymbolTable::read(&self.elf);
            if self.elf.section(".symtab").is_some() {
                return own.unwrap_or_default();
            }
            // A debug file keeps the full table that strip removed.
            self.debug
                .as_ref()
                .and_then(SymbolTable::read)
                .filter(|table| !table.is_empty())
                .or(own)
                .unwrap_or_default()
        })
    }

    fn lines(&self) -> Option<&Lines> {
        self.lines
            .get_or_init(|| {
                let file = self.debug.as_ref().unwrap_or(&self.elf);
                Lines::read(
                    file,
                    self.supplementary.as_ref(),
                    SplitDwarf::find(&self.module),
                )
            })
            .as_ref()
    }

    /// The function at a link-time address by the symbol table alone, which takes much less time to read
    /// than DWARF.
    pub(super) fn function_by_symbol(&self, addr: u64) -> Option<String> {
        let symbol = self.symbols().function_at(addr)?;
        Some(demangle(&symbol.name))
    }

    /// The data object at a link-time address.
    pub(super) fn object_at(&self, addr: u64) -> Option<Symbol> {
        let mut symbol = self.symbols().object_at(addr)?;
        symbol.name = demangle_variable(&symbol.name);
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
            && let Some(symbol) = self.symbols().function_at(addr)
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
