//! The tables about code that a file carries besides the metadata of the detector: which ones
//! there are, and all of them one after the other.

use std::io::Write;

use serde_json::{Value, json};

use super::symbols::{Symbol, Symbols};
use super::{block_map, pc_section, probes, small_tables, stack_map};
use crate::addr::LinkAddr;
use crate::image::Image;
use crate::pcmeta::{
    BlockMap, BlockMapSummary, Coverage, FaultMaps, PcSection, PcSectionDescription, PseudoProbes,
    StackMaps, StackSizes, TableError,
};

/// The file that tables are of.
pub(super) struct Source<'data> {
    pub(super) name: &'data str,
    pub(super) image: &'data Image,
    symbols: Symbols<'data>,
}

impl<'data> Source<'data> {
    pub(super) fn new(name: &'data str, image: &'data Image) -> Self {
        Self {
            name,
            image,
            symbols: Symbols::new(image),
        }
    }

    pub(super) fn symbol(&self, address: LinkAddr) -> Option<Symbol<'data>> {
        self.symbols.at(address)
    }
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
}

impl Tables {
    pub(super) fn load(
        image: &Image,
        descriptions: &[PcSectionDescription],
    ) -> Result<Self, TableError> {
        let mut pc_sections = Vec::new();
        for description in descriptions {
            let section = PcSection::load(image, description)?;
            if !section.is_empty() {
                pc_sections.push(section);
            }
        }
        Ok(Self {
            block_map: BlockMap::summaries(image)?,
            stack_maps: StackMaps::load(image)?,
            stack_sizes: StackSizes::load(image)?,
            fault_maps: FaultMaps::load(image)?,
            coverage: Coverage::load(image)?,
            probes: PseudoProbes::load(image)?,
            pc_sections,
        })
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
        (self.pc_sections.iter()).any(|section| section.description() == description)
    }

    /// What there is, as a value of the module's line; absent kinds are left out.
    pub(super) fn summary(&self) -> Value {
        let mut summary = json!({});
        if !self.block_map.is_empty() {
            summary["block_map"] = block_map::summary(&self.block_map);
        }
        if !self.stack_maps.is_empty() {
            summary["stack_maps"] = stack_map::summary(&self.stack_maps);
        }
        if !self.stack_sizes.is_empty() {
            summary["stack_sizes"] = small_tables::stack_sizes(&self.stack_sizes);
        }
        if !self.fault_maps.is_empty() {
            summary["faults"] = small_tables::faults(&self.fault_maps);
        }
        if !self.coverage.is_empty() {
            summary["coverage"] = small_tables::coverage(&self.coverage);
        }
        if !self.probes.is_empty() {
            summary["pseudo_probes"] = probes::summary(&self.probes);
        }
        if !self.pc_sections.is_empty() {
            summary["pc_sections"] = self.pc_sections.iter().map(pc_section::summary).collect();
        }
        summary
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
