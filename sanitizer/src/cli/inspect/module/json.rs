//! A module in JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::super::listed::{Listed, write_line};
use super::super::source::Source;
use super::super::symbols::Symbol;
use super::super::tables::TablesSummary;
use super::{Module, percent};
use crate::pcmeta::{Format, SectionKind, SectionSummary};

/// What the type of a module's line is.
const MODULE: &str = "module";

/// A module, or why it cannot be shown.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(in crate::cli::inspect) enum ModuleLine<'data> {
    Shown(Box<ShownModule<'data>>),
    NotShown(NotShownModule<'data>),
}

/// A module that cannot be shown.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli::inspect) struct NotShownModule<'data> {
    /// The file, the member of an archive, or what was given in its place.
    file: &'data str,
    /// Why, and what to do about it.
    error: &'data str,
}

/// A module and what metadata it carries. Addresses are link-time addresses.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli::inspect) struct ShownModule<'data> {
    /// The file, or the member of an archive.
    file: &'data str,
    /// Its GNU build id in hexadecimal.
    build_id: Option<String>,
    /// Whether it has section headers, without which no metadata can be found.
    section_headers: bool,
    /// Whether it is an object file, which is not linked.
    object: bool,
    /// It is the debug information of a program and no more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    debug_only: bool,
    /// The debug file that tables were taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    debug_file: Option<String>,
    /// The sections of the detector's metadata.
    sections: Vec<SectionLine<'data>>,
    /// Whole functions that have metadata.
    functions_covered: usize,
    /// Those whose atomic operations are listed.
    functions_analyzed: usize,
    /// Parts of functions that were laid out apart.
    function_parts: usize,
    /// Atomic instructions.
    atomics: usize,
    /// The size of the metadata.
    metadata_bytes: u64,
    /// Its share of the file.
    metadata_percent: f64,
    /// The size of the code.
    code_bytes: u64,
    /// The size of the analyzed functions.
    analyzed_bytes: u64,
    /// Their share of the code.
    analyzed_percent: f64,
    /// Other tables about code.
    tables: TablesSummary,
    /// What cannot be read, and so is in none of the others.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    errors: &'data [String],
    /// The addresses that the sections of an object file are given here.
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<Vec<LaidOutSection<'data>>>,
    /// With `--list`: the functions that have metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    function_list: Option<Listed<'data, FunctionLine<'data>>>,
    /// With `--list`: the atomic instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    atomic_list: Option<Listed<'data, AtomicLine<'data>>>,
}

/// A section of the detector's metadata.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SectionLine<'data> {
    name: &'data str,
    kind: SectionKindLine,
    /// The layouts of its entries.
    formats: Vec<FormatLine>,
    /// Its size in the file.
    bytes: u64,
    /// How many entries it has.
    entries: usize,
    /// How many of them are of code that the linker discarded.
    discarded: usize,
    /// How many of them are functions without instructions.
    empty: usize,
}

/// What the entries of a section describe.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum SectionKindLine {
    /// Functions.
    Covered,
    /// Atomic instructions.
    Atomics,
}

/// A layout of entries.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FormatLine {
    version: u8,
    /// Distances to code are as wide as a pointer.
    pointer_sized: bool,
}

/// A section of an object file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LaidOutSection<'data> {
    index: usize,
    name: &'data str,
    address: u64,
    /// Bytes.
    size: u64,
}

/// A function that has metadata.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FunctionLine<'data> {
    address: u64,
    /// Bytes.
    size: u64,
    /// The version of its metadata.
    version: u8,
    /// The features of its metadata, by their letters.
    features: String,
    /// Bytes of its arguments on the stack, where the metadata tells.
    stack_args_size: Option<u32>,
    /// Its atomic instructions are listed.
    analyzed: bool,
    /// Of a part that was laid out apart: where the function begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    part_of: Option<u64>,
    symbol: Option<Symbol<'data>>,
}

/// An atomic instruction.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AtomicLine<'data> {
    address: u64,
    symbol: Option<Symbol<'data>>,
}

/// Writes why a module cannot be shown.
///
/// # Errors
/// As `out`.
pub(in crate::cli::inspect) fn write_not_shown(
    file: &str,
    error: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let line = ModuleLine::NotShown(NotShownModule { file, error });
    write_line(MODULE, &line, out)
}

impl Module<'_> {
    /// Writes the module's line; with all that is in it, where a source is given.
    pub(super) fn write_json(
        &self,
        source: Option<&Source<'_>>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let line = ModuleLine::Shown(Box::new(self.line(source)));
        write_line(MODULE, &line, out)
    }

    fn line<'a>(&'a self, source: Option<&'a Source<'a>>) -> ShownModule<'a> {
        let bytes = self.metadata_bytes();
        let id = self.image.build_id();
        let debug = self.files.used_debug();
        ShownModule {
            file: self.name,
            build_id: id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()),
            section_headers: self.image.has_section_headers(),
            object: self.image.is_object(),
            debug_only: self.image.is_debug_only(),
            debug_file: debug.map(|debug| debug.name().to_string_lossy().into_owned()),
            sections: (self.metadata.sections().iter())
                .map(SectionLine::from)
                .collect(),
            functions_covered: self.covered,
            functions_analyzed: self.analyzed,
            function_parts: self.metadata.fragment_count(),
            atomics: self.metadata.atomic_count(),
            metadata_bytes: bytes,
            metadata_percent: percent(bytes, self.image.data().len() as u64),
            code_bytes: self.code_bytes,
            analyzed_bytes: self.analyzed_bytes,
            analyzed_percent: percent(self.analyzed_bytes, self.code_bytes),
            tables: self.tables.summary(),
            errors: &self.errors,
            layout: self.image.is_object().then(|| self.layout()),
            function_list: source.map(|source| Listed::new(self.functions(source))),
            atomic_list: source.map(|source| {
                Listed::new(self.metadata.atomics().map(|pc| AtomicLine {
                    address: pc.0,
                    symbol: source.symbol(pc),
                }))
            }),
        }
    }

    /// The addresses that the sections of an object file are given.
    fn layout(&self) -> Vec<LaidOutSection<'_>> {
        let sections = self.image.sections().filter(|section| section.is_allocated);
        let sections = sections.map(|section| LaidOutSection {
            index: section.index,
            name: section.name,
            address: section.address.0,
            size: section.size,
        });
        sections.collect()
    }

    fn functions<'a>(
        &'a self,
        source: &'a Source<'a>,
    ) -> impl Iterator<Item = FunctionLine<'a>> + 'a {
        self.metadata.functions().map(|function| FunctionLine {
            address: function.start.0,
            size: function.size(),
            version: function.version,
            features: function.features.to_string(),
            stack_args_size: self.metadata.stack_args_size(function.start),
            analyzed: function.is_analyzed(),
            part_of: self.metadata.whole_of(function.start).map(|whole| whole.0),
            symbol: source.symbol(function.start),
        })
    }
}

impl<'data> From<&'data SectionSummary> for SectionLine<'data> {
    fn from(section: &'data SectionSummary) -> Self {
        Self {
            name: &section.name,
            kind: match section.kind {
                SectionKind::Covered => SectionKindLine::Covered,
                SectionKind::Atomics => SectionKindLine::Atomics,
            },
            formats: section.formats.iter().map(FormatLine::from).collect(),
            bytes: section.bytes,
            entries: section.entries,
            discarded: section.discarded,
            empty: section.empty,
        }
    }
}

impl From<&Format> for FormatLine {
    fn from(format: &Format) -> Self {
        Self {
            version: format.version,
            pointer_sized: format.pointer_sized,
        }
    }
}
