//! Functions, files and lines from DWARF 4 and 5, with inlined calls expanded.

use std::sync::Arc;

use addr2line::{Context, LookupContinuation as _, LookupResult};
use gimli::{Dwarf, SectionId};

use super::cfi::{Reader, reader};
use super::demangle::demangle;
use super::elf_file::ElfFile;
use super::split_dwarf::SplitDwarf;

/// One source-level frame at an address, the innermost inlined call first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceFrame {
    pub(super) function: Option<String>,
    /// The function's name was a linkage name, which says where the function belongs.
    pub(super) qualified: bool,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}

/// The line and function tables of a module.
pub(super) struct Lines {
    context: Context<Reader>,
    split: SplitDwarf,
}

impl Lines {
    /// Reads the DWARF of `file`, with `supplementary` for what dwz moved out of it and
    /// `split` for what the compiler put into other files.
    pub(super) fn read(
        file: &ElfFile,
        supplementary: Option<&ElfFile>,
        split: SplitDwarf,
    ) -> Option<Self> {
        let mut dwarf = load(file);
        if let Some(supplementary) = supplementary {
            dwarf.set_sup(load(supplementary));
        }
        let context = Context::from_dwarf(dwarf).ok()?;
        Some(Self { context, split })
    }

    /// The frames at a link-time address; none where there is no debug information.
    pub(super) fn frames_at(&self, addr: u64) -> Vec<SourceFrame> {
        let mut found = Vec::new();
        let mut lookup = self.context.find_frames(addr);
        let frames = loop {
            match lookup {
                LookupResult::Output(frames) => break frames,
                LookupResult::Load { load, continuation } => {
                    lookup = continuation.resume(self.split.load(&load));
                }
            }
        };
        let Ok(mut frames) = frames else {
            return found;
        };
        while let Ok(Some(frame)) = frames.next() {
            let location = frame.location.as_ref();
            let raw = frame.function.as_ref().and_then(|f| f.raw_name().ok());
            let function = raw.as_deref().map(demangle);
            // The compiler writes 0 where no line or column applies.
            found.push(SourceFrame {
                qualified: function.as_deref() != raw.as_deref(),
                function,
                file: location.and_then(|l| l.file).map(ToOwned::to_owned),
                line: location.and_then(|l| l.line).filter(|&l| l > 0),
                column: location.and_then(|l| l.column).filter(|&c| c > 0),
            });
        }
        found
    }
}

/// Whether finding functions and lines needs a section. Locations of variables and macros
/// make up a good part of the debug information, and are not read.
const fn is_used(section: SectionId) -> bool {
    !matches!(
        section,
        SectionId::DebugLoc
            | SectionId::DebugLocLists
            | SectionId::DebugMacinfo
            | SectionId::DebugMacro
            | SectionId::DebugNames
    )
}

fn load(file: &ElfFile) -> Dwarf<Reader> {
    let section = |id: SectionId| {
        let bytes = is_used(id).then(|| file.section_bytes(id.name())).flatten();
        Ok::<_, std::convert::Infallible>(reader(bytes.unwrap_or_else(|| Arc::from([]))))
    };
    match Dwarf::load(section) {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}
