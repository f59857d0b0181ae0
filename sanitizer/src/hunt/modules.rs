//! The modules of the target as the hunt needs them: metadata for decisions, tables for the
//! gates, code bytes for decoding.

mod shelf;

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, OnceLock},
    time::Duration,
};

use nix::unistd::Pid;

use gwp_race_abi::{FunctionEntry, ModuleRange};

pub use shelf::Shelf;

use super::{
    routines::{Code, Contract, Declared, Filled, Routines},
    strategy::CodeView,
};
use crate::{
    addr::{LinkAddr, RuntimeAddr},
    hunt::{alias, byte_uses::ByteUses, code_tables::CodeTables},
    insn::{Transfer, x86_64},
    kernel::{KernelError, tables::Tables},
    pcmeta::{Function, Metadata},
    report::finding::MapInfo,
    symbols::{CallFrames, ModuleInfo, load_metadata},
    target::{
        TargetError, memory,
        modules::{Module, ModuleError, Modules, Unreadable},
    },
};

/// Bytes of code that one look needs at most.
const CODE_WINDOW: usize = 64;

/// A module with what was read from its file. What is large is shared between copies.
#[derive(Clone)]
pub struct Loaded {
    /// Where it is.
    pub module: Arc<Module>,
    /// Its metadata, where it has any.
    pub metadata: Option<Arc<Metadata>>,
    declared: Arc<Declared>,
    frames: OnceLock<Arc<CallFrames>>,
    code_tables: OnceLock<Arc<CodeTables>>,
    /// What is known of its loads.
    pub byte_uses: Arc<ByteUses>,
    /// The memory routines, by their entry.
    entries: BTreeMap<LinkAddr, RoutineCode>,
    /// All of their code, sorted.
    routines: Vec<Range<LinkAddr>>,
    /// Code of routines that was looked for, by their entry, whether or not it is one in this process.
    decoded: BTreeMap<LinkAddr, Vec<Range<LinkAddr>>>,
    table: Option<u32>,
    /// The routines that its tables were made with, once they were, should it need any.
    tabled: Option<Vec<Range<LinkAddr>>>,
    base: LinkAddr,
    functions: u32,
    atomics: u32,
}

/// The code of one memory routine.
#[derive(Clone, Debug)]
struct RoutineCode {
    code: Vec<Range<LinkAddr>>,
    /// It stores. What others load need not be what was asked for.
    stores: bool,
}

impl Loaded {
    fn frames(&self) -> &CallFrames {
        self.frames
            .get_or_init(|| Arc::new(CallFrames::of(&self.module.image)))
    }

    /// Reads its code tables, for which other files may be looked for: that may take as long as file systems please.
    fn read_code_tables(&self) {
        self.code_tables
            .get_or_init(|| Arc::new(CodeTables::of(&self.module.image, &info(&self.module))));
    }

    fn function_count(&self) -> u64 {
        let metadata = self.metadata.as_ref();
        metadata.map_or(0, |metadata| metadata.function_count() as u64)
    }

    fn covers(&self, address: LinkAddr) -> bool {
        let metadata = self.metadata.as_ref();
        metadata.is_some_and(|metadata| metadata.function_at(address).is_some())
    }

    /// Takes note of a routine of this name that begins at an address; false where none can. What
    /// the compiler has covered is the program's own code, whatever its name.
    fn add_routine(self: &mut Arc<Self>, entry: LinkAddr, name: &str) -> bool {
        if self.covers(entry) || self.declared.is_resolver(entry) {
            return false;
        }
        if self.entries.contains_key(&entry) {
            return true;
        }
        let stores = Contract::of(name).is_some_and(Contract::stores);
        let code = match self.decoded.get(&entry) {
            Some(code) => code.clone(),
            None => {
                let code = Code::new(&self.module.image, self.frames()).of_routine(entry);
                let code: Vec<_> = code
                    .into_iter()
                    .filter(|range| !self.covers(range.start))
                    .collect();
                let this = Arc::make_mut(self);
                this.decoded.insert(entry, code.clone());
                code
            }
        };
        let known = !code.is_empty();
        if known {
            let routine = RoutineCode { code, stores };
            Arc::make_mut(self).entries.insert(entry, routine);
        }
        known
    }

    /// What was read of the file, for another process that maps it. Which routines are which is for that process to say.
    fn of_another(&self, module: Arc<Module>) -> Self {
        Self {
            module,
            entries: BTreeMap::new(),
            routines: Vec::new(),
            ..self.clone()
        }
    }

    /// The code of routines that is in its tables. The gates need not look at hits in the others: they say nothing of the caller.
    fn storing(&self) -> Vec<Range<LinkAddr>> {
        sorted(self.entries.values().filter(|routine| routine.stores))
    }
}

/// Where a program counter stands.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The module.
    pub module: &'a Loaded,
    /// The address as its linker laid it out.
    pub link: LinkAddr,
}

impl<'a> Place<'a> {
    /// The covered function around the address.
    #[must_use]
    pub fn function(&self) -> Option<Function> {
        self.module.metadata.as_ref()?.function_at(self.link)
    }

    /// Whether the address is in a known memory routine.
    #[must_use]
    pub fn is_mem_routine(&self) -> bool {
        self.routine().is_some()
    }

    /// Whether a clock sample here may lead to an access that can be judged. Compilers leave functions
    /// without accesses out of the tables: any code of a module with metadata will do.
    #[must_use]
    pub fn is_worth_sampling(&self) -> bool {
        self.module.functions > 0
            && !self.is_cut()
            && (self.module.metadata.is_some() || self.is_mem_routine())
    }

    /// Whether an access here can be judged: in an analyzed function or a memory routine.
    #[must_use]
    pub fn is_evidence(&self) -> bool {
        self.is_mem_routine()
            || self
                .function()
                .is_some_and(|function| function.is_analyzed())
    }

    /// Whether the module's file was not all there any more when something was looked up in it.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.module.module.image.is_cut()
    }

    /// Whether an atomic instruction ends here.
    #[must_use]
    pub fn ends_atomic(&self) -> bool {
        let Some(metadata) = &self.module.metadata else {
            return false;
        };
        (1..=x86_64::MAX_INSTRUCTION_LEN).any(|len| {
            let start = LinkAddr(self.link.0.wrapping_sub(len as u64));
            metadata.is_atomic(start)
                && self
                    .module
                    .module
                    .image
                    .bytes_at(start, len)
                    .and_then(x86_64::length)
                    == Some(len)
        })
    }

    /// The unwind tables of the module.
    #[must_use]
    pub fn frames(&self) -> &'a CallFrames {
        self.module.frames()
    }

    /// What else is known of the module's code, once that was [read](ModuleSet::read_code_tables).
    #[must_use]
    pub fn code_tables(&self) -> Option<&'a CodeTables> {
        self.module.code_tables.get().map(|tables| &**tables)
    }

    /// Whether the return address is on top of the stack wherever a thread stands in the routines
    /// to which the address belongs: none of them moves the stack pointer.
    #[must_use]
    pub fn routine_keeps_stack(&self) -> bool {
        let image = &self.module.module.image;
        let keeps_stack = |range: &Range<LinkAddr>| {
            usize::try_from(range.end.0.saturating_sub(range.start.0))
                .ok()
                .and_then(|len| image.bytes_at(range.start, len))
                .is_some_and(x86_64::keeps_stack)
        };
        let code = self.module.entries.values().map(|routine| &routine.code);
        code.filter(|code| code.iter().any(|range| range.contains(&self.link)))
            .all(|code| code.iter().all(keeps_stack))
    }

    fn symbol(&self) -> Option<(LinkAddr, LinkAddr)> {
        let symbol = self.module.module.image.function_before(self.link)?;
        let end = symbol.address.offset(symbol.size.cast_signed());
        (self.link < end).then_some((symbol.address, end))
    }

    /// What the unwind tables describe as one function, of a library without metadata.
    fn described(&self) -> Option<(LinkAddr, LinkAddr)> {
        let is_library = self.module.metadata.is_none();
        let extent = is_library.then(|| self.frames().extent(self.link));
        extent.flatten().map(|range| (range.start, range.end))
    }

    fn routine(&self) -> Option<(LinkAddr, LinkAddr)> {
        let routines = &self.module.routines;
        let after = routines.partition_point(|range| range.start <= self.link);
        let range = routines.get(after.checked_sub(1)?)?;
        (self.link < range.end).then_some((range.start, range.end))
    }
}

/// All modules of the target, as of one look. Copies are cheap.
#[derive(Clone, Default)]
pub struct ModuleSet {
    loaded: Vec<Arc<Loaded>>,
    ranges: Vec<(u64, u64, usize)>,
    routines: Arc<Routines>,
    last: Option<Modules>,
}

/// What a new look at the modules has shown.
#[derive(Debug, Default)]
pub struct Changes {
    /// Something was loaded or unloaded.
    pub changed: bool,
    /// Something was unloaded: other code may stand there now, or later.
    pub unloaded: bool,
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
    ) -> Result<Changes, RefreshError> {
        let mut changes = Changes::default();
        let (added, removed) = match &mut self.last {
            Some(last) => {
                let difference = last.rescan()?;
                (difference.added, difference.removed)
            }
            None => {
                let pid = Pid::from_raw(pid.cast_signed());
                let scan = Modules::scan_with(pid, shelf.images())?;
                let added = scan.all().to_vec();
                changes.warnings.extend(reasons(scan.unreadable()));
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
        changes.reading = self.last.as_ref().map_or(Duration::ZERO, Modules::reading);
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
            let loaded = kept.unwrap_or_else(|| load(module, &mut changes.warnings));
            self.loaded.push(Arc::new(loaded));
        }
        self.sort_ranges();
        let outdated = if changes.changed {
            self.find_routines(pid)
        } else {
            self.bind_routines(pid)
        };
        for loaded in &mut self.loaded {
            let storing = loaded.storing();
            if loaded.tabled.as_ref() != Some(&storing) {
                let loaded = Arc::make_mut(loaded);
                unused.extend(loaded.table.take());
                make_tables(loaded, storing, tables)?;
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

    /// Looks for memory routines; says of which modules the code of routines has changed.
    fn find_routines(&mut self, pid: u32) -> Vec<usize> {
        let mut routines = Routines::default();
        for loaded in &mut self.loaded {
            let bias = loaded.module.bias;
            let named: Vec<(LinkAddr, String)> = loaded
                .declared
                .functions()
                .map(|(start, name)| (start, name.to_owned()))
                .collect();
            for (start, name) in named {
                if loaded.add_routine(start, &name) {
                    routines.add_entry(start.0.wrapping_add(bias), &name);
                }
            }
        }
        for loaded in &self.loaded {
            let bias = loaded.module.bias;
            for (cell, name) in loaded.declared.cells() {
                routines.add_cell(cell.0.wrapping_add(bias), name);
            }
            for (cell, name) in loaded.declared.results() {
                routines.add_result(cell.0.wrapping_add(bias), name);
            }
        }
        self.routines = Arc::new(routines);
        self.bind_routines(pid)
    }

    /// Reads the cells that led nowhere yet: those that a program binds lazily are filled by its first call. Says of which
    /// modules the code of routines has changed.
    fn bind_routines(&mut self, pid: u32) -> Vec<usize> {
        let pid = Pid::from_raw(pid.cast_signed());
        let read = |address, words: &mut [u8]| {
            matches!(
                memory::read_exact(pid, RuntimeAddr(address), words),
                Ok(true)
            )
        };
        for Filled { cell, value, name } in self.routines.newly_filled(read) {
            let leads_to_one = self.add_routine(value, &name);
            Arc::make_mut(&mut self.routines).fill(cell, value, leads_to_one);
        }
        let mut changed = Vec::new();
        for (index, loaded) in self.loaded.iter_mut().enumerate() {
            let code = sorted(loaded.entries.values());
            if code != loaded.routines {
                Arc::make_mut(loaded).routines = code;
                changed.push(index);
            }
        }
        changed
    }

    fn add_routine(&mut self, entry: u64, name: &str) -> bool {
        let Some(index) = self.index_of(entry) else {
            return false;
        };
        let loaded = self.loaded.get_mut(index);
        loaded.is_some_and(|loaded| {
            let link = LinkAddr(entry.wrapping_sub(loaded.module.bias));
            loaded.add_routine(link, name)
        })
    }

    /// Forgets all modules, as an exec or the end of the process does; what was read of their files is kept for later.
    pub fn unload(&mut self, tables: &mut Tables, shelf: &mut Shelf) {
        for loaded in self.loaded.drain(..) {
            shelf.keep(loaded, tables);
        }
        *self = Self::default();
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

    /// The memory routines of the process.
    #[must_use]
    pub fn routines(&self) -> &Routines {
        &self.routines
    }

    /// The name by which a call or jump leads to a memory routine, and where that begins as far
    /// as that is known yet.
    #[must_use]
    pub fn routine_behind(&self, transfer: Transfer) -> Option<(&str, Option<u64>)> {
        match transfer {
            Transfer::Through(cell) => self.routines.through(cell),
            Transfer::To(target) => match self.routines.entry(target) {
                Some(name) => Some((name, Some(target))),
                None => {
                    let cell = x86_64::stub(self.code(target), target)?;
                    self.routines.through(cell)
                }
            },
        }
    }

    /// The function that a call or a jump leads to, if that writes what it returns into memory of its own.
    #[must_use]
    pub fn result_behind(&self, transfer: Transfer) -> Option<&str> {
        match transfer {
            Transfer::Through(cell) => self.routines.result(cell),
            Transfer::To(target) => {
                let cell = x86_64::stub(self.code(target), target)?;
                self.routines.result(cell)
            }
        }
    }

    /// Whether functions that the program calls may write what they return there: it is a variable of a library without metadata.
    #[must_use]
    pub fn may_hold_results(&self, address: u64) -> bool {
        let is_library = |loaded: &&Arc<Loaded>| loaded.metadata.is_none() && loaded.functions > 0;
        self.routines.have_results()
            && self
                .loaded
                .iter()
                .filter(is_library)
                .any(|loaded| data_of(&loaded.module).contains(&address))
    }

    /// The code of a covered function, a known `mem*` routine, or (in code without metadata) what
    /// the unwind tables or the symbol table say is a function; with its run-time start.
    #[must_use]
    pub fn function_code(&self, pc: u64) -> Option<(u64, &[u8])> {
        let place = self.place(pc)?;
        let covered = place
            .function()
            .map(|function| (function.start, function.end));
        let (start, end) = covered
            .or_else(|| place.routine())
            .or_else(|| place.described())
            .or_else(|| place.symbol())?;
        let len = usize::try_from(end.0.checked_sub(start.0)?).ok()?;
        let module = &place.module.module;
        let code = module.image.bytes_at(start, len)?;
        Some((start.0.wrapping_add(module.bias), code))
    }

    /// Whether a function begins at `pc`, and not a part of one that was laid out elsewhere.
    #[must_use]
    pub fn is_entry(&self, pc: u64) -> bool {
        let Some(place) = self.place(pc) else {
            return false;
        };
        let image = &place.module.module.image;
        // A stub of the linker, which jumps to a function of another module.
        let is_stub = image.sections().any(|section| {
            let within = place.link.0.wrapping_sub(section.address.0);
            section.is_executable && section.name.starts_with(".plt") && within < section.size
        });
        let by_metadata = || {
            let metadata = place.module.metadata.as_ref()?;
            let function = metadata.function_at(place.link)?;
            let is_first = function.start == place.link;
            Some(is_first && metadata.whole_of(place.link).is_none())
        };
        is_stub
            || by_metadata().unwrap_or_else(|| crate::symbols::names_function(image, place.link))
    }

    /// The code of a function from the beginning of the basic block around `pc` on, where the compiler tells
    /// it; else all of it.
    #[must_use]
    pub fn code_from_block(&self, pc: u64) -> Option<(u64, &[u8])> {
        let (start, code) = self.function_code(pc)?;
        let begins = || {
            let place = self.place(pc)?;
            let block = place.code_tables()?.block_at(place.link)?;
            let offset = block
                .start
                .0
                .wrapping_add(place.module.module.bias)
                .checked_sub(start)?;
            let rest = code.get(usize::try_from(offset).ok()?..)?;
            Some((start + offset, rest))
        };
        Some(begins().unwrap_or((start, code)))
    }

    /// Reads what else compilers tell of the code around these addresses. Not for a thread that anybody waits for.
    pub fn read_code_tables(&self, pcs: &[u64]) {
        let places = pcs.iter().filter_map(|&pc| self.place(pc));
        places.for_each(|place| place.module.read_code_tables());
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

    /// Whether all files were read once for both.
    #[cfg(test)]
    pub fn shares_files_with(&self, other: &Self) -> bool {
        let files = self.loaded.iter();
        let mut files = files.filter(|loaded| loaded.module.identity.is_some());
        files.all(|loaded| {
            other.loaded.iter().any(|other| {
                let is_same = other.module.image.is_same(&loaded.module.image);
                is_same && Arc::ptr_eq(&other.declared, &loaded.declared)
            })
        })
    }

    /// The mapping that holds an address ends here, as of the last look.
    #[must_use]
    pub fn mapping_end(&self, address: u64) -> Option<u64> {
        let mapping = self.last.as_ref()?.maps().find(RuntimeAddr(address))?;
        Some(mapping.end.0)
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
        let maps = self.last.as_ref().map(Modules::maps);
        let find = |&address: &u64| maps?.find(RuntimeAddr(address));
        let mut mappings: Vec<_> = addresses.iter().filter_map(find).collect();
        mappings.sort_unstable_by_key(|mapping| mapping.start);
        mappings.dedup_by_key(|mapping| mapping.start);
        let infos = mappings.into_iter().map(|mapping| MapInfo {
            start: mapping.start.0,
            end: mapping.end.0,
            offset: mapping.offset.0,
            read: mapping.perms.read,
            write: mapping.perms.write,
            execute: mapping.perms.exec,
            shared: mapping.perms.shared,
            name: mapping.name.to_string_lossy().into_owned(),
        });
        infos.collect()
    }
}

/// Why files are no modules, each reason once: a file can be mapped thousands of times.
fn reasons(unreadable: &[Unreadable]) -> Vec<String> {
    /// More than are told of one process.
    const MOST: usize = 32;
    let mut told: Vec<&Arc<ModuleError>> = Vec::new();
    for file in unreadable {
        if told.len() == MOST {
            break;
        }
        if !told.iter().any(|reason| Arc::ptr_eq(reason, &file.reason)) {
            told.push(&file.reason);
        }
    }
    told.into_iter().map(ToString::to_string).collect()
}

/// The part of a module that holds its variables.
fn data_of(module: &Module) -> Range<u64> {
    let writable = module.image.segments().iter();
    let writable = writable.filter(|segment| segment.is_writable);
    let ends = writable.map(|segment| {
        let start = module.runtime_address(segment.address).0;
        (start, start.saturating_add(segment.memory_size))
    });
    ends.reduce(|(start, end), (next, last)| (start.min(next), end.max(last)))
        .map_or(0..0, |(start, end)| start..end)
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

    fn is_routine(&self, pc: u64) -> bool {
        self.place(pc).is_some_and(|place| place.is_mem_routine())
    }

    fn routine(&self, transfer: Transfer) -> Option<u64> {
        let (_, entry) = self.routine_behind(transfer)?;
        entry.filter(|&entry| self.routines.contract(entry).is_some())
    }

    fn function(&self, pc: u64) -> Option<(u64, &[u8])> {
        let is_analyzed = self.is_analyzed(pc);
        is_analyzed.then(|| self.function_code(pc)).flatten()
    }

    fn some_function(&self, number: u64) -> Option<u64> {
        let mut index = number.checked_rem(self.function_count())?;
        for loaded in &self.loaded {
            let Some(left) = index.checked_sub(loaded.function_count()) else {
                let index = usize::try_from(index).ok()?;
                let function = loaded.metadata.as_ref()?.function(index)?;
                return Some(function.start.0.wrapping_add(loaded.module.bias));
            };
            index = left;
        }
        None
    }

    fn function_count(&self) -> u64 {
        self.loaded
            .iter()
            .map(|loaded| loaded.function_count())
            .sum()
    }

    fn module_of(&self, pc: u64) -> Option<(Range<u64>, Range<u64>)> {
        let module = &self.place(pc)?.module.module;
        Some((module.start.0..module.end.0, data_of(module)))
    }

    fn is_constant(&self, address: u64) -> bool {
        let maps = self.last.as_ref().map(Modules::maps);
        let mapping = maps.and_then(|maps| maps.find(RuntimeAddr(address)));
        mapping.is_some_and(|mapping| !mapping.perms.write)
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

fn load(module: Arc<Module>, warnings: &mut Vec<String>) -> Loaded {
    let image = &module.image;
    let frames = OnceLock::new();
    let known_frames = || &**frames.get_or_init(|| Arc::new(CallFrames::of(image)));
    let metadata = match load_metadata(image, known_frames) {
        Ok(metadata) => (!metadata.is_empty()).then_some(metadata),
        Err(error) => {
            warnings.push(error.to_string());
            None
        }
    };
    let metadata = metadata.filter(|_| !image.is_cut());
    if image.is_cut() {
        warnings.push(format!(
            "{} was cut short while it was read, so nothing is known of its code; replace libraries by renaming, not by writing over \
             them",
            image.name().display()
        ));
    }
    Loaded {
        metadata: metadata.map(Arc::new),
        declared: Arc::new(Declared::by(image)),
        frames,
        code_tables: OnceLock::new(),
        byte_uses: Arc::default(),
        entries: BTreeMap::new(),
        routines: Vec::new(),
        decoded: BTreeMap::new(),
        table: None,
        tabled: None,
        base: LinkAddr(0),
        functions: 0,
        atomics: 0,
        module,
    }
}

fn sorted<'a>(routines: impl Iterator<Item = &'a RoutineCode>) -> Vec<Range<LinkAddr>> {
    let mut code: Vec<_> = routines
        .flat_map(|routine| &routine.code)
        .cloned()
        .collect();
    code.sort_unstable_by_key(|range| (range.start, range.end));
    code.dedup();
    code
}

/// Loads the gates' tables of a module, with the code of these routines.
fn make_tables(
    loaded: &mut Loaded,
    storing: Vec<Range<LinkAddr>>,
    tables: &mut Tables,
) -> Result<(), KernelError> {
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
            let code = image
                .bytes_at(pc, x86_64::MAX_INSTRUCTION_LEN)
                .or_else(|| (1..15).rev().find_map(|len| image.bytes_at(pc, len)))?;
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

fn info(module: &Module) -> ModuleInfo {
    ModuleInfo {
        path: module.path.to_string_lossy().into_owned(),
        via: module.via.clone(),
        start: module.start.0,
        end: module.end.0,
        bias: module.bias,
        build_id: module.build_id().unwrap_or_default().to_vec(),
    }
}

#[cfg(test)]
mod tests;
