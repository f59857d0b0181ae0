//! The modules of the target as the hunt needs them: metadata for decisions, tables for the
//! gates, code bytes for decoding.

mod code;
mod gate_tables;
mod loaded;
mod place;
mod routines;
mod shelf;

use std::{ops::Range, sync::Arc, time::Duration};

use nix::unistd::Pid;

use gwp_race_abi::ModuleRange;

pub use loaded::Loaded;
pub use place::Place;
pub use shelf::Shelf;

use super::routines::Routines;
use crate::{
    addr::{LinkAddr, RuntimeAddr},
    hunt::alias,
    kernel::{KernelError, foreign::FileIdentity, tables::Tables},
    report::finding::MapInfo,
    symbols::{ModuleInfo, Outlined},
    tracee::{
        TargetError,
        modules::{ModuleError, Modules, Reads, Unreadable},
    },
};

/// All modules of the target, as of one look. Copies are cheap.
#[derive(Clone, Default)]
pub struct ModuleSet {
    loaded: Vec<Arc<Loaded>>,
    ranges: Vec<(u64, u64, usize)>,
    routines: Arc<Routines>,
    last: Option<Modules<Outlined>>,
    /// Files of which was told why they are no modules.
    told: usize,
}

/// What a new look at the modules has shown.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Something was loaded or unloaded.
    pub changed: bool,
    /// Something was unloaded: other code may stand there now, or later.
    pub unloaded: bool,
    /// Calls that led nowhere yet lead to memory routines: the program has bound them since the last look.
    pub bound: bool,
    /// What went wrong with single modules.
    pub warnings: Vec<String>,
    /// CPU time that reading the memory map took, which each look does again.
    pub reading: Duration,
}

impl ModuleSet {
    /// Looks at the target's maps and loads what is new.
    ///
    /// # Errors
    /// Fails when the process is gone or its maps cannot be read, or a table not loaded.
    pub fn refresh(
        &mut self,
        pid: u32,
        tables: &mut Tables,
        shelf: &mut Shelf,
        reads: &mut dyn Reads<Outlined>,
    ) -> Result<Changes, RefreshError> {
        let mut changes = Changes::default();
        let (added, removed) = match &mut self.last {
            Some(last) => {
                let difference = last.rescan_with(reads)?;
                let (lines, count) = reasons(&difference.unreadable, self.told);
                changes.warnings.extend(lines);
                self.told += count;
                (difference.added, difference.removed)
            }
            None => {
                let pid = Pid::from_raw(pid.cast_signed());
                let scan = Modules::scan_with(pid, shelf.images(), reads)?;
                let added = scan.all().to_vec();
                let (lines, count) = reasons(scan.unreadable(), 0);
                changes.warnings.extend(lines);
                self.told = count;
                if scan.maps().left_out() > 0 {
                    changes.warnings.push(format!(
                        "{} mappings of process {pid} are more than are kept of one; what they hold is not known",
                        scan.maps().left_out()
                    ));
                }
                self.last = Some(scan);
                (added, Vec::new())
            }
        };
        changes.reading = self
            .last
            .as_ref()
            .map_or(Duration::ZERO, Modules::<Outlined>::reading);
        changes.unloaded = !removed.is_empty();
        changes.changed = !added.is_empty() || changes.unloaded;
        // What was not yet bound when it was read last may be so now.
        if !changes.changed && !self.routines.is_incomplete() {
            return Ok(changes);
        }
        let is_removed = |loaded: &Arc<Loaded>| {
            removed
                .iter()
                .any(|module| Arc::ptr_eq(module, &loaded.module))
        };
        let (gone, kept): (Vec<_>, Vec<_>) = self.loaded.drain(..).partition(is_removed);
        self.loaded = kept;
        let mut unused: Vec<u32> = gone.iter().filter_map(|loaded| loaded.table).collect();
        for module in added {
            let kept = shelf.take(&module);
            let loaded = kept.unwrap_or_else(|| Loaded::new(module, &mut changes.warnings));
            self.loaded.push(Arc::new(loaded));
        }
        self.sort_ranges();
        if changes.changed {
            self.find_routines();
        }
        changes.bound = self.bind_routines(pid);
        let outdated = self.outdated_routines();
        for loaded in &mut self.loaded {
            let storing = loaded.storing();
            if loaded.tabled.as_ref() != Some(&storing) {
                let loaded = Arc::make_mut(loaded);
                unused.extend(loaded.table.take());
                loaded.make_tables(storing, tables)?;
            }
        }
        if changes.changed || !outdated.is_empty() {
            self.publish(tables, &mut changes);
        }
        // Only now can no gate look anything up in them any more.
        for table in unused {
            tables.remove(table);
        }
        Ok(changes)
    }

    /// Forgets all modules, as an exec or the end of the process does; what was read of their files is kept for later.
    pub fn unload(&mut self, tables: &mut Tables, shelf: &mut Shelf) {
        // What was left last is kept longest: the program itself, which as a rule stands lowest.
        for loaded in self.loaded.drain(..).rev() {
            shelf.keep(loaded, tables);
        }
        *self = Self::default();
    }

    /// Memory that what is known of their files takes, in bytes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let files = self.loaded.iter().map(|loaded| &loaded.module.image);
        files.map(Outlined::bytes).sum()
    }

    /// Whether there is an earlier look, after which another one finds no more than what has changed.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.last.is_some()
    }

    /// Whether another look finds more, although nothing has changed: something could not be read in this one.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(Modules::<Outlined>::is_incomplete)
    }

    fn sort_ranges(&mut self) {
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
    }

    fn publish(&self, tables: &mut Tables, changes: &mut Changes) {
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
                    flags: if loaded.metadata.is_some() {
                        0
                    } else {
                        ModuleRange::ROUTINES_ONLY
                    },
                })
            })
            .collect();
        let unseen = tables.set_space(&ranges);
        if unseen > 0 {
            changes.warnings.push(format!(
                "{unseen} executable mappings are beyond what the gates can hold and are not \
                 watched"
            ));
        }
    }

    /// The module that holds a run-time address in executable memory.
    #[must_use]
    pub fn place(&self, pc: u64) -> Option<Place<'_>> {
        let module = self.loaded.get(self.index_of(pc)?)?;
        Some(Place {
            module,
            link: LinkAddr(pc.wrapping_sub(module.module.bias)),
        })
    }

    /// Whether the code at an address is gone in a later look, or another module's.
    #[must_use]
    pub fn is_replaced_in(&self, later: &Self, pc: u64) -> bool {
        let module = |set: &Self| Some(Arc::clone(&set.place(pc)?.module.module));
        match (module(self), module(later)) {
            (Some(before), Some(after)) => !Arc::ptr_eq(&before, &after),
            (before, _) => before.is_some(),
        }
    }

    fn index_of(&self, pc: u64) -> Option<usize> {
        let after = self.ranges.partition_point(|&(start, _, _)| start <= pc);
        let &(_, end, index) = self.ranges.get(after.checked_sub(1)?)?;
        (pc < end).then_some(index)
    }

    /// The modules as symbols and reports need them.
    #[must_use]
    pub fn infos(&self) -> Vec<ModuleInfo> {
        self.loaded.iter().map(|loaded| loaded.info()).collect()
    }

    /// Modules with at least one analyzed function.
    #[must_use]
    pub fn analyzed(&self) -> usize {
        self.loaded
            .iter()
            .filter(|loaded| loaded.functions > 0 && loaded.metadata.is_some())
            .count()
    }

    /// Whether all files were read once for both.
    #[cfg(test)]
    pub fn shares_files_with(&self, other: &Self) -> bool {
        let files = self.loaded.iter();
        let mut files = files.filter(|loaded| loaded.module.identity.is_some());
        files.all(|loaded| {
            other
                .loaded
                .iter()
                .any(|other| other.module.image.is_same(&loaded.module.image))
        })
    }

    /// The mapping that holds an address ends here, as of the last look.
    #[must_use]
    pub fn mapping_end(&self, address: u64) -> Option<u64> {
        let mapping = self.last.as_ref()?.maps().find(RuntimeAddr(address))?;
        Some(mapping.end.0)
    }

    /// The mapping that holds a program counter, as of the last look, and what tells the file that was analyzed from another one
    /// which may be there by now.
    #[must_use]
    pub fn mapping(&self, pc: u64) -> Option<(Range<u64>, FileIdentity)> {
        let file = self.place(pc)?.module.module.identity?;
        let mapping = self.last.as_ref()?.maps().find(RuntimeAddr(pc))?;
        Some((mapping.start.0..mapping.end.0, file))
    }

    /// How far away the same memory as at an address is mapped as well, as of the last look.
    #[must_use]
    pub fn aliases(&self, address: u64) -> Vec<u64> {
        let maps = self.last.as_ref().map(|modules| modules.maps());
        maps.map_or_else(Vec::new, |maps| alias::others(maps, address))
    }

    /// The mappings that hold these addresses, as of the last look.
    #[must_use]
    pub fn map_infos(&self, addresses: &[u64]) -> Vec<MapInfo> {
        let maps = self.last.as_ref().map(Modules::<Outlined>::maps);
        let find = |&address: &u64| maps?.find(RuntimeAddr(address));
        let mut mappings: Vec<_> = addresses.iter().filter_map(find).collect();
        mappings.sort_unstable_by_key(|mapping| mapping.start);
        mappings.dedup_by_key(|mapping| mapping.start);
        mappings.into_iter().map(MapInfo::from).collect()
    }
}

impl Changes {
    /// Adds what another look has shown after this one.
    pub fn add(&mut self, later: Self) {
        self.changed |= later.changed;
        self.unloaded |= later.unloaded;
        self.bound |= later.bound;
        self.warnings.extend(later.warnings);
        self.reading += later.reading;
    }
}

/// Why files are no modules, each reason once: a file can be mapped thousands of times. Those that may be later are one. With the
/// count of what is told; `before` were told already.
fn reasons(unreadable: &[Unreadable], before: usize) -> (Vec<String>, usize) {
    /// More than are told of one process.
    const MOST: usize = 32;
    let mut told: Vec<&Arc<ModuleError>> = Vec::new();
    let mut waiting: Vec<&Arc<ModuleError>> = Vec::new();
    for file in unreadable {
        let reason = &file.reason;
        let list = match **reason {
            ModuleError::Unasked => continue,
            ModuleError::NotYet(_) => &mut waiting,
            _ => &mut told,
        };
        if before + list.len() < MOST && !list.iter().any(|other| Arc::ptr_eq(other, reason)) {
            list.push(reason);
        }
    }
    let mut lines: Vec<_> = told.into_iter().map(ToString::to_string).collect();
    if let Some((first, others)) = waiting.split_first() {
        lines.push(match others.len() {
            0 => first.to_string(),
            count => format!("{first} (so it is with {count} other files)"),
        });
    }
    let count = lines.len();
    (lines, count)
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

#[cfg(test)]
mod tests;
