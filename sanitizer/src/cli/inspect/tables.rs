//! The tables about code that a file carries besides the metadata of the detector: which ones
//! there are, and all of them one after the other.

use std::io::Write;

use serde_json::{Value, json};

use super::{block_map, stack_map, symbolize};
use crate::addr::LinkAddr;
use crate::image::{FunctionSymbol, Image};
use crate::pcmeta::{BlockMap, StackMaps, TableError};

/// The file that tables are of.
pub(super) struct Source<'data> {
    pub(super) name: &'data str,
    pub(super) image: &'data Image,
    symbols: Vec<FunctionSymbol<'data>>,
}

impl<'data> Source<'data> {
    pub(super) fn new(name: &'data str, image: &'data Image) -> Self {
        Self {
            name,
            image,
            symbols: image.functions(),
        }
    }

    pub(super) fn symbol(&self, address: LinkAddr) -> Option<String> {
        symbolize(&self.symbols, address)
    }
}

/// All tables of a file.
pub(super) struct Tables {
    block_map: BlockMap,
    stack_maps: StackMaps,
}

impl Tables {
    pub(super) fn load(image: &Image) -> Result<Self, TableError> {
        Ok(Self {
            block_map: BlockMap::load(image)?,
            stack_maps: StackMaps::load(image)?,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.block_map.is_empty() && self.stack_maps.is_empty()
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
        summary
    }

    pub(super) fn write_summary(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        block_map::write_summary(&self.block_map, out)?;
        stack_map::write_summary(&self.stack_maps, out)
    }

    /// Writes every entry, in lines of text or one JSON object a line.
    pub(super) fn write_list(
        &self,
        source: &Source<'_>,
        json: bool,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        block_map::write_list(source, json, out)?;
        stack_map::write_list(&self.stack_maps, source, json, out)
    }
}
