//! The tables of a module that the gates look things up in.

use std::{ops::Range, sync::Arc};

use gwp_race_abi::FunctionEntry;

use super::Loaded;
use crate::{
    addr::LinkAddr,
    insn::x86_64,
    kernel::{KernelError, tables::Tables},
};

impl Loaded {
    /// Loads the gates' tables of a module, with the code of these routines.
    pub(super) fn make_tables(
        &mut self,
        storing: Vec<Range<LinkAddr>>,
        tables: &mut Tables,
    ) -> Result<(), KernelError> {
        let loaded = self;
        loaded.tabled = None;
        (loaded.functions, loaded.atomics) = (0, 0);
        let module = Arc::clone(&loaded.module);
        let image = &module.image;
        let Some(base) = image.segments().iter().map(|segment| segment.address).min() else {
            loaded.tabled = Some(storing);
            return Ok(());
        };
        loaded.base = base;
        let offset = |address: LinkAddr| u32::try_from(address.0.wrapping_sub(base.0)).ok();
        let mut functions = Vec::new();
        let mut ends = Vec::new();
        if let Some(metadata) = &loaded.metadata {
            functions.extend(metadata.functions().filter_map(|function| {
                let size = u32::try_from(function.size())
                    .ok()?
                    .min(FunctionEntry::SIZE_MASK);
                let flags = if function.is_analyzed() {
                    FunctionEntry::ANALYZED
                } else {
                    0
                };
                Some(FunctionEntry {
                    start: offset(function.start)?,
                    size_flags: size | flags,
                })
            }));
            ends.extend(metadata.atomics().filter_map(|pc| {
                let code = image.bytes_from(pc, x86_64::MAX_INSTRUCTION_LEN)?;
                offset(pc.offset(i64::try_from(x86_64::length(code)?).ok()?))
            }));
            ends.sort_unstable();
            ends.dedup();
        }
        functions.extend(storing.iter().filter_map(|range| {
            let size = u32::try_from(range.end.0.checked_sub(range.start.0)?)
                .ok()?
                .min(FunctionEntry::SIZE_MASK);
            Some(FunctionEntry {
                start: offset(range.start)?,
                size_flags: size | FunctionEntry::MEM_ROUTINE,
            })
        }));
        loaded.tabled = Some(storing);
        if functions.is_empty() || image.is_cut() {
            return Ok(());
        }
        functions.sort_unstable_by_key(|entry| entry.start);
        loaded.functions = functions.len() as u32;
        loaded.atomics = ends.len() as u32;
        match tables.add(functions.into_iter(), ends.into_iter()) {
            Ok(table) => loaded.table = Some(table),
            Err(error) => {
                loaded.tabled = None;
                return Err(error);
            }
        }
        Ok(())
    }
}
