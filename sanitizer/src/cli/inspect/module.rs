//! One module in `inspect`: the summary of the detector's metadata in it, and the list of what the
//! metadata says.

pub(super) mod json;

use std::io::Write;
use std::sync::LazyLock;

use super::BUILD_HINT;
use super::source::{Files, Source};
use super::tables::Tables;
use crate::image::Image;
use crate::pcmeta::{Format, Function, Metadata, MetadataError, SectionKind, SectionSummary};
use crate::report::clean::clean;

/// One module and what was found in it.
pub(super) struct Module<'data> {
    name: &'data str,
    image: &'data Image,
    files: Files<'data>,
    metadata: &'data Metadata,
    tables: &'data Tables,
    /// What cannot be read, and so is not in the others.
    errors: Vec<String>,
    /// Whole functions, their parts not counted.
    covered: usize,
    analyzed: usize,
    analyzed_bytes: u64,
    code_bytes: u64,
}

impl<'data> Module<'data> {
    pub(super) fn new(
        name: &'data str,
        files: &Files<'data>,
        metadata: &'data Result<Metadata, MetadataError>,
        tables: &'data Tables,
    ) -> Self {
        static NONE: LazyLock<Metadata> = LazyLock::new(Metadata::default);
        let unreadable = metadata.as_ref().err().map(ToString::to_string);
        let errors = tables.errors().iter().map(ToString::to_string);
        let errors = unreadable.into_iter().chain(errors).collect();
        let metadata = metadata.as_ref().unwrap_or(&NONE);
        let analyzed = || metadata.functions().filter(Function::is_analyzed);
        let image = files.image;
        let ranges = image.text_ranges();
        Self {
            name,
            image,
            files: *files,
            metadata,
            tables,
            errors,
            covered: metadata.function_count() - metadata.fragment_count(),
            analyzed: (analyzed().filter(|function| !metadata.is_part(function))).count(),
            analyzed_bytes: analyzed().map(|function| function.size()).sum(),
            code_bytes: ranges
                .iter()
                .map(|range| range.end.0.saturating_sub(range.start.0))
                .sum(),
        }
    }

    fn metadata_bytes(&self) -> u64 {
        self.metadata
            .sections()
            .iter()
            .map(|section| section.bytes)
            .sum()
    }

    /// Writes the module: all of it with `list`, one JSON object a line with `json`.
    pub(super) fn write(&self, list: bool, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        let source = list.then(|| Source::new(self.name, self.files));
        if json {
            self.write_json(source.as_ref(), out)?;
        } else {
            self.write_text(out)?;
            self.tables.write_summary(out)?;
            if let Some(debug) = self.files.used_debug() {
                let name = debug.name().to_string_lossy();
                let name = clean(&name);
                writeln!(out, "  debug file {name} has what was stripped")?;
            }
            for error in &self.errors {
                writeln!(out, "  unreadable {}", clean(error))?;
            }
            if let Some(source) = &source {
                self.list_text(source, out)?;
            }
        }
        if let Some(source) = &source
            && !self.tables.is_empty()
        {
            self.tables.write_list(source, json, out)?;
        }
        Ok(())
    }

    fn write_text(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let name = clean(self.name);
        if self.metadata.is_empty() {
            if !self.errors.is_empty() {
                writeln!(out, "{name}:")?;
            } else if self.image.is_debug_only() {
                writeln!(
                    out,
                    "{name}: the debug information of a program and no more (--only-keep-debug); \
                     the detector's metadata is in the program itself: give that"
                )?;
            } else if self.image.has_section_headers() {
                writeln!(out, "{name}: no metadata; {BUILD_HINT}")?;
            } else {
                writeln!(
                    out,
                    "{name}: its section headers are stripped, so metadata cannot be found; strip \
                     it with `strip --strip-all`, which keeps them"
                )?;
            }
            return Ok(());
        }
        let covered = self.covered;
        let atomics = self.metadata.atomic_count();
        let (analyzed, bytes) = (self.analyzed, self.metadata_bytes());
        let file_bytes = self.image.data().len() as u64;
        writeln!(out, "{name}:")?;
        for section in by_name(self.metadata.sections()) {
            writeln!(out, "  {}", describe(&section))?;
        }
        let parts = match self.metadata.fragment_count() {
            0 => String::new(),
            parts => format!("; {parts} parts of them laid out apart"),
        };
        writeln!(
            out,
            "  functions  {covered} covered, {analyzed} analyzed for atomics{parts}"
        )?;
        writeln!(out, "  atomics    {atomics} instructions")?;
        let share = percent(bytes, file_bytes);
        writeln!(
            out,
            "  size       {bytes} bytes, {share:.2} % of the file's {file_bytes}"
        )?;
        let share = percent(self.analyzed_bytes, self.code_bytes);
        writeln!(
            out,
            "  analyzed   {share:.1} % of {} bytes of code",
            self.code_bytes
        )?;
        if analyzed == 0 && covered > 0 {
            writeln!(out, "  nothing was analyzed for atomics; {BUILD_HINT}")?;
        }
        Ok(())
    }

    fn list_text(&self, source: &Source<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
        for function in self.metadata.functions() {
            write!(
                out,
                "  function {:#012x} {:6} v{} {:10} {}",
                function.start,
                function.size(),
                function.version,
                function.features.to_string(),
                source.symbol(function.start).unwrap_or_default(),
            )?;
            match self.metadata.stack_args_size(function.start) {
                Some(size) if size > 0 => {
                    writeln!(out, ", {size} bytes of arguments on the stack")?
                }
                _ => match self.metadata.whole_of(function.start) {
                    Some(whole) => writeln!(out, ", a part of {whole:#x}")?,
                    None => writeln!(out)?,
                },
            }
        }
        for pc in self.metadata.atomics() {
            let symbol = source.symbol(pc).unwrap_or_default();
            writeln!(out, "  atomic   {pc:#012x} {symbol}")?;
        }
        Ok(())
    }
}

/// Sections of one name as one: an object file may have one for each function.
fn by_name(sections: &[SectionSummary]) -> Vec<SectionSummary> {
    let mut merged: Vec<SectionSummary> = Vec::new();
    for section in sections {
        match merged.iter_mut().find(|same| same.name == section.name) {
            Some(same) => {
                same.bytes += section.bytes;
                same.entries += section.entries;
                same.discarded += section.discarded;
                same.empty += section.empty;
                for format in &section.formats {
                    if !same.formats.contains(format) {
                        same.formats.push(*format);
                    }
                }
            }
            None => merged.push(section.clone()),
        }
    }
    merged
}

/// A section's name and content in a line.
fn describe(section: &SectionSummary) -> String {
    let formats: Vec<String> = match section.kind {
        SectionKind::Covered => section.formats.iter().map(Format::to_string).collect(),
        // A list of addresses is the same in all versions.
        SectionKind::Atomics => (section.formats.iter())
            .filter(|format| format.pointer_sized)
            .map(|_| "64-bit offsets".to_owned())
            .collect(),
    };
    let mut line = format!("{:19} {} entries", section.name, section.entries);
    if section.discarded > 0 {
        line += &format!(" ({} of discarded code)", section.discarded);
    }
    if section.empty > 0 {
        line += &format!(" ({} without instructions)", section.empty);
    }
    if !formats.is_empty() {
        line += &format!(", {}", formats.join(" and "));
    }
    line
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 * 100.0 / whole as f64
}
