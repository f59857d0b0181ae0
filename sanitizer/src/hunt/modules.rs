//! The modules of the target as the hunt needs them: metadata for decisions, tables for the
//! gates, code bytes for decoding.

use std::sync::Arc;

use nix::unistd::Pid;

use gwp_race_abi::{FunctionEntry, ModuleRange};

use super::strategy::CodeView;
use crate::{
    addr::{LinkAddr, RuntimeAddr},
    insn::x86_64,
    kernel::{KernelError, gates::Gates},
    pcmeta::{Function, Metadata},
    report::finding::MapInfo,
    symbols::ModuleInfo,
    target::{
        TargetError,
        modules::{Module, Modules},
    },
};

/// Routines whose accesses are their caller's (`<string.h>`), by the beginning of their symbol
/// without underscores: the C library has variants for processors, such as
/// `__memmove_avx_unaligned_erms`.
const MEM_ROUTINES: [&str; 4] = ["memcpy", "memmove", "memset", "mempcpy"];

fn is_mem_routine(symbol: &str) -> bool {
    let name = symbol.trim_start_matches('_');
    MEM_ROUTINES
        .iter()
        .filter_map(|routine| name.strip_prefix(routine))
        .any(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// Bytes of code that one look needs at most.
const CODE_WINDOW: usize = 64;

/// A module with what was read from its file.
pub struct Loaded {
    /// Where it is.
    pub module: Arc<Module>,
    /// Its metadata, where it has any.
    pub metadata: Option<Metadata>,
    /// Known `mem*` routines: start and end, sorted.
    routines: Vec<(LinkAddr, LinkAddr)>,
    table: Option<u32>,
    base: LinkAddr,
    functions: u32,
    atomics: u32,
}

/// Where a program counter stands.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The module.
    pub module: &'a Loaded,
    /// The address as its linker laid it out.
    pub link: LinkAddr,
}

impl Place<'_> {
    /// The covered function around the address.
    #[must_use]
    pub fn function(&self) -> Option<Function> {
        self.module.metadata.as_ref()?.function_at(self.link)
    }

    /// Whether the address is in a known `mem*` routine.
    #[must_use]
    pub fn is_mem_routine(&self) -> bool {
        self.routine().is_some()
    }

    fn symbol(&self) -> Option<(LinkAddr, LinkAddr)> {
        let symbols = self.module.module.image.functions();
        let after = symbols.partition_point(|symbol| symbol.address <= self.link);
        let symbol = symbols.get(after.checked_sub(1)?)?;
        let end = symbol.address.offset(symbol.size.cast_signed());
        (self.link < end).then_some((symbol.address, end))
    }

    fn routine(&self) -> Option<(LinkAddr, LinkAddr)> {
        let routines = &self.module.routines;
        let after = routines.partition_point(|(start, _)| *start <= self.link);
        let routine = routines.get(after.checked_sub(1)?)?;
        (self.link < routine.1).then_some(*routine)
    }
}

/// All modules of the target.
#[derive(Default)]
pub struct ModuleSet {
    loaded: Vec<Loaded>,
    ranges: Vec<(u64, u64, usize)>,
    last: Option<Modules>,
}

/// What a new look at the modules has shown.
#[derive(Debug, Default)]
pub struct Changes {
    /// Something was loaded or unloaded.
    pub changed: bool,
    /// What went wrong with single modules.
    pub warnings: Vec<String>,
}

impl ModuleSet {
    /// Looks at the target's maps and loads what is new.
    ///
    /// # Errors
    /// Fails when the process is gone or its maps cannot be read, or a table not loaded.
    pub fn refresh(&mut self, pid: u32, gates: &mut Gates) -> Result<Changes, RefreshError> {
        let mut changes = Changes::default();
        let (added, removed) = match &mut self.last {
            Some(last) => {
                let difference = last.rescan()?;
                (difference.added, difference.removed)
            }
            None => {
                let scan = Modules::scan(Pid::from_raw(pid.cast_signed()))?;
                let added = scan.all().to_vec();
                for file in scan.unreadable() {
                    changes.warnings.push(file.reason.to_string());
                }
                self.last = Some(scan);
                (added, Vec::new())
            }
        };
        if added.is_empty() && removed.is_empty() {
            return Ok(changes);
        }
        changes.changed = true;
        let is_removed = |loaded: &Loaded| {
            removed
                .iter()
                .any(|module| Arc::ptr_eq(module, &loaded.module))
        };
        let (gone, kept): (Vec<_>, Vec<_>) = self.loaded.drain(..).partition(is_removed);
        self.loaded = kept;
        for table in gone.iter().filter_map(|loaded| loaded.table) {
            gates.remove_tables(table);
        }
        for module in added {
            let loaded = load(module, gates, &mut changes.warnings)?;
            self.loaded.push(loaded);
        }
        self.publish(pid, gates, &mut changes)?;
        Ok(changes)
    }

    /// Forgets all modules, as an exec does, and gives their tables free.
    pub fn unload(&mut self, gates: &mut Gates) {
        for table in self.loaded.iter().filter_map(|loaded| loaded.table) {
            gates.remove_tables(table);
        }
        *self = Self::default();
    }

    fn publish(
        &mut self,
        pid: u32,
        gates: &mut Gates,
        changes: &mut Changes,
    ) -> Result<(), KernelError> {
        self.ranges = self
            .loaded
            .iter()
            .enumerate()
            .flat_map(|(index, loaded)| {
                loaded
                    .module
                    .executable
                    .iter()
                    .map(move |range| (range.start, range.end, index))
            })
            .collect();
        self.ranges.sort_unstable();
        let ranges: Vec<ModuleRange> = self
            .ranges
            .iter()
            .filter_map(|&(start, end, index)| {
                let loaded = self.loaded.get(index)?;
                Some(ModuleRange {
                    start,
                    end,
                    base: loaded.base.0.wrapping_add(loaded.module.bias),
                    table: loaded.table.unwrap_or(0),
                    functions: loaded.functions,
                    atomics: loaded.atomics,
                    reserved: 0,
                })
            })
            .collect();
        let unseen = gates.set_space(pid, &ranges)?;
        if unseen > 0 {
            changes.warnings.push(format!(
                "{unseen} executable mappings are beyond what the gates can hold and are not \
                 watched"
            ));
        }
        Ok(())
    }

    /// The module that holds a run-time address in executable memory.
    #[must_use]
    pub fn place(&self, pc: u64) -> Option<Place<'_>> {
        let after = self.ranges.partition_point(|&(start, _, _)| start <= pc);
        let &(_, end, index) = self.ranges.get(after.checked_sub(1)?)?;
        let module = self.loaded.get(index).filter(|_| pc < end)?;
        Some(Place {
            module,
            link: LinkAddr(pc.wrapping_sub(module.module.bias)),
        })
    }

    /// The code of a covered function, a known `mem*` routine, or (in code without metadata) what
    /// the symbol table says is a function; with its run-time start.
    #[must_use]
    pub fn function_code(&self, pc: u64) -> Option<(u64, &[u8])> {
        let place = self.place(pc)?;
        let covered = place
            .function()
            .map(|function| (function.start, function.end));
        let (start, end) = covered
            .or_else(|| place.routine())
            .or_else(|| place.symbol())?;
        let len = usize::try_from(end.0.checked_sub(start.0)?).ok()?;
        let module = &place.module.module;
        let code = module.image.bytes_at(start, len)?;
        Some((start.0.wrapping_add(module.bias), code))
    }

    /// The modules as symbols and reports need them.
    #[must_use]
    pub fn infos(&self) -> Vec<ModuleInfo> {
        self.loaded
            .iter()
            .map(|loaded| info(&loaded.module))
            .collect()
    }

    /// Modules with at least one analyzed function.
    #[must_use]
    pub fn analyzed(&self) -> usize {
        self.loaded
            .iter()
            .filter(|loaded| loaded.functions > 0 && loaded.metadata.is_some())
            .count()
    }

    /// The mapping that holds an address ends here, as of the last look.
    #[must_use]
    pub fn mapping_end(&self, address: u64) -> Option<u64> {
        let mapping = self.last.as_ref()?.maps().find(RuntimeAddr(address))?;
        Some(mapping.end.0)
    }

    /// The mappings of the last look.
    #[must_use]
    pub fn map_infos(&self) -> Vec<MapInfo> {
        let maps = self.last.iter().flat_map(|modules| modules.maps().iter());
        maps.map(|mapping| MapInfo {
            start: mapping.start.0,
            end: mapping.end.0,
            offset: mapping.offset.0,
            read: mapping.perms.read,
            write: mapping.perms.write,
            execute: mapping.perms.exec,
            shared: mapping.perms.shared,
            name: mapping.name.to_string_lossy().into_owned(),
        })
        .collect()
    }
}

impl CodeView for ModuleSet {
    fn code(&self, pc: u64) -> &[u8] {
        let bytes = self.place(pc).and_then(|place| {
            let image = &place.module.module.image;
            // Near the end of a segment there is less than a window.
            (x86_64::MAX_INSTRUCTION_LEN..=CODE_WINDOW)
                .rev()
                .step_by(CODE_WINDOW - x86_64::MAX_INSTRUCTION_LEN)
                .chain((1..x86_64::MAX_INSTRUCTION_LEN).rev())
                .find_map(|len| image.bytes_at(place.link, len))
        });
        bytes.unwrap_or_default()
    }

    fn is_analyzed(&self, pc: u64) -> bool {
        self.place(pc).is_some_and(|place| {
            place
                .function()
                .is_some_and(|function| function.is_analyzed())
        })
    }

    fn is_atomic(&self, pc: u64) -> bool {
        self.place(pc).is_some_and(|place| {
            place
                .module
                .metadata
                .as_ref()
                .is_some_and(|metadata| metadata.is_atomic(place.link))
        })
    }
}

/// Why the modules could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// The process's maps.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The gates' tables.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

fn load(
    module: Arc<Module>,
    gates: &mut Gates,
    warnings: &mut Vec<String>,
) -> Result<Loaded, KernelError> {
    let mut loaded = Loaded {
        metadata: None,
        routines: Vec::new(),
        table: None,
        base: LinkAddr(0),
        functions: 0,
        atomics: 0,
        module,
    };
    let module = Arc::clone(&loaded.module);
    let image = &module.image;
    match Metadata::load(image) {
        Ok(metadata) => loaded.metadata = (!metadata.is_empty()).then_some(metadata),
        Err(error) => warnings.push(error.to_string()),
    }
    loaded.routines = image
        .functions()
        .iter()
        .filter(|symbol| symbol.size > 0 && is_mem_routine(symbol.name))
        .map(|symbol| {
            (
                symbol.address,
                symbol.address.offset(symbol.size.cast_signed()),
            )
        })
        .collect();
    loaded.routines.sort_unstable();
    loaded.routines.dedup();
    let Some(base) = image.segments().iter().map(|segment| segment.address).min() else {
        return Ok(loaded);
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
            let code = image
                .bytes_at(pc, x86_64::MAX_INSTRUCTION_LEN)
                .or_else(|| (1..15).rev().find_map(|len| image.bytes_at(pc, len)))?;
            offset(pc.offset(i64::try_from(x86_64::length(code)?).ok()?))
        }));
        ends.sort_unstable();
        ends.dedup();
    }
    functions.extend(loaded.routines.iter().filter_map(|(start, end)| {
        let size = u32::try_from(end.0 - start.0)
            .ok()?
            .min(FunctionEntry::SIZE_MASK);
        let covered = functions_cover(loaded.metadata.as_ref(), *start);
        (!covered).then_some(())?;
        Some(FunctionEntry {
            start: offset(*start)?,
            size_flags: size | FunctionEntry::MEM_ROUTINE,
        })
    }));
    if functions.is_empty() {
        return Ok(loaded);
    }
    functions.sort_unstable_by_key(|entry| entry.start);
    loaded.functions = functions.len() as u32;
    loaded.atomics = ends.len() as u32;
    loaded.table = Some(gates.add_tables(functions.into_iter(), ends.into_iter())?);
    Ok(loaded)
}

fn info(module: &Module) -> ModuleInfo {
    ModuleInfo {
        path: module.path.to_string_lossy().into_owned(),
        open_path: module.open_path.clone(),
        start: module.start.0,
        end: module.end.0,
        bias: module.bias,
        build_id: module.build_id().unwrap_or_default().to_vec(),
    }
}

fn functions_cover(metadata: Option<&Metadata>, address: LinkAddr) -> bool {
    metadata.is_some_and(|metadata| metadata.function_at(address).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that variants of the routines are told from functions that only begin alike.
    #[test]
    fn names_of_mem_routines() {
        for name in [
            "memcpy",
            "__memcpy_chk",
            "__memmove_avx_unaligned_erms",
            "__memset_erms",
        ] {
            assert!(is_mem_routine(name), "{name}");
        }
        for name in ["memcmp", "memcpyish", "my_memcpy", "memsets", "wmemset", ""] {
            assert!(!is_mem_routine(name), "{name}");
        }
    }
}
