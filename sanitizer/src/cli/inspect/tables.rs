//! The tables about code that a file carries besides the metadata of the detector: which ones
//! there are, and all of them one after the other.

use std::io::Write;

use serde::Serialize;

use super::source::{Files, Source};
use super::{block_map, pc_section, probes, small_tables, stack_map};
use crate::pcmeta::{
    BlockMap, BlockMapSummary, Coverage, FaultMaps, OnError, PcSection, PcSectionDescription,
    PseudoProbes, StackMaps, StackSizes, TableError,
};

/// The tables about code that a file carries; kinds that are not there are left out.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TablesSummary {
    #[serde(skip_serializing_if = "Option::is_none")]
    block_map: Option<block_map::BlockMapLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack_maps: Option<stack_map::StackMapsSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack_sizes: Option<small_tables::StackSizesSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    faults: Option<small_tables::FaultsSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<small_tables::CoverageSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pseudo_probes: Option<probes::ProbesSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pc_sections: Vec<pc_section::PcSectionSummary>,
}

/// All tables of a file.
pub(super) struct Tables {
    block_map: Vec<BlockMapSummary>,
    stack_maps: StackMaps,
    stack_sizes: StackSizes,
    fault_maps: FaultMaps,
    coverage: Coverage,
    probes: PseudoProbes,
    /// Those of the descriptions that the file has.
    pc_sections: Vec<PcSection>,
    /// Those that hold something else than their description says, and which of the errors says so.
    misdescribed: Vec<(PcSectionDescription, usize)>,
    errors: Vec<TableError>,
}

impl Tables {
    /// Reads all tables that can be read.
    pub(super) fn load(files: &Files<'_>, descriptions: &[PcSectionDescription]) -> Self {
        let image = files.image;
        let mut errors = Vec::new();
        let on_error: OnError<'_> = &mut |error| errors.push(error);
        let mut tables = Self {
            block_map: BlockMap::summaries(files.blocks(), on_error),
            stack_maps: StackMaps::load_readable(image, on_error),
            stack_sizes: StackSizes::load_readable(files.stack_sizes(), on_error),
            fault_maps: FaultMaps::load_readable(image, on_error),
            coverage: Coverage::load_readable(image, on_error),
            probes: PseudoProbes::load_readable(files.probes(), on_error),
            pc_sections: Vec::new(),
            misdescribed: Vec::new(),
            errors,
        };
        for description in descriptions {
            match PcSection::load(image, description) {
                Ok(section) if section.is_empty() => {}
                Ok(section) => tables.pc_sections.push(section),
                Err(error) => {
                    tables
                        .misdescribed
                        .push((description.clone(), tables.errors.len()));
                    tables.errors.push(error);
                }
            }
        }
        tables
    }

    /// Why there are others that are not here.
    pub(super) fn errors(&self) -> &[TableError] {
        &self.errors
    }

    /// Why a section could not be read as it was described.
    pub(super) fn misdescribed(&self) -> Option<&TableError> {
        let &(_, error) = self.misdescribed.first()?;
        self.errors.get(error)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.block_map.is_empty()
            && self.stack_maps.is_empty()
            && self.stack_sizes.is_empty()
            && self.fault_maps.is_empty()
            && self.coverage.is_empty()
            && self.probes.is_empty()
            && self.pc_sections.is_empty()
    }

    /// Whether the file has the section of this description.
    pub(super) fn has(&self, description: &PcSectionDescription) -> bool {
        let mut read = self.pc_sections.iter().map(PcSection::description);
        let mut unread = self.misdescribed.iter().map(|(description, _)| description);
        read.any(|one| one == description) || unread.any(|one| one == description)
    }

    /// What there is, as a value of the module's line.
    pub(super) fn summary(&self) -> TablesSummary {
        let sections = self.pc_sections.iter().map(pc_section::summary);
        TablesSummary {
            block_map: (!self.block_map.is_empty()).then(|| block_map::summary(&self.block_map)),
            stack_maps: (!self.stack_maps.is_empty()).then(|| stack_map::summary(&self.stack_maps)),
            stack_sizes: (!self.stack_sizes.is_empty())
                .then(|| small_tables::stack_sizes(&self.stack_sizes)),
            faults: (!self.fault_maps.is_empty()).then(|| small_tables::faults(&self.fault_maps)),
            coverage: (!self.coverage.is_empty()).then(|| small_tables::coverage(&self.coverage)),
            pseudo_probes: (!self.probes.is_empty()).then(|| probes::summary(&self.probes)),
            pc_sections: sections.collect(),
        }
    }

    pub(super) fn write_summary(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        block_map::write_summary(&self.block_map, out)?;
        stack_map::write_summary(&self.stack_maps, out)?;
        let (sizes, faults, points) = (&self.stack_sizes, &self.fault_maps, &self.coverage);
        small_tables::write_summary(sizes, faults, points, out)?;
        probes::write_summary(&self.probes, out)?;
        (self.pc_sections.iter()).try_for_each(|section| pc_section::write_summary(section, out))
    }

    /// Writes every entry, in lines of text or one JSON object a line.
    pub(super) fn write_list(
        &self,
        source: &Source<'_>,
        json: bool,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        block_map::write_list(source, json, out)?;
        stack_map::write_list(&self.stack_maps, source, json, out)?;
        let (sizes, faults, points) = (&self.stack_sizes, &self.fault_maps, &self.coverage);
        small_tables::write_list(sizes, faults, points, source, json, out)?;
        probes::write_list(&self.probes, source, json, out)?;
        (self.pc_sections.iter())
            .try_for_each(|section| pc_section::write_list(section, source, json, out))
    }
}
