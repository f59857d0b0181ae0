//! A module with what was read of its file.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use crate::{
    addr::LinkAddr,
    hunt::{
        byte_uses::ByteUses,
        code_tables::CodeTables,
        routines::{self, Code, Contract},
    },
    pcmeta::Metadata,
    reader::CodeReader,
    symbols::{ModuleInfo, Outlined},
    tracee::modules,
};

/// Routines of a file that are remembered for all processes which map it. C libraries have some hundreds.
pub(super) const MOST_DECODED: usize = 1 << 10;

/// A module with what is known of its file.
pub type Module = modules::Module<Outlined>;

/// A module with what was read from its file. What is large is shared between copies.
#[derive(Clone)]
pub struct Loaded {
    /// Where it is.
    pub module: Arc<Module>,
    /// Its metadata, where it has any.
    pub metadata: Option<Arc<Metadata>>,
    pub(super) code_tables: Arc<CodeTables>,
    /// What is known of its loads.
    pub byte_uses: Arc<ByteUses>,
    /// The memory routines, by their entry.
    pub(super) entries: BTreeMap<LinkAddr, RoutineCode>,
    /// All of their code, sorted.
    pub(super) routines: Vec<Range<LinkAddr>>,
    /// Code of routines that was found, by their entry, whether or not it is one in this process.
    pub(super) decoded: BTreeMap<LinkAddr, Vec<Range<LinkAddr>>>,
    /// Bytes of code that may still be gone through for routines of this process: it says where they are.
    pub(super) effort: usize,
    pub(super) table: Option<u32>,
    /// The routines that its tables were made with, once they were, should it need any.
    pub(super) tabled: Option<Vec<Range<LinkAddr>>>,
    pub(super) base: LinkAddr,
    pub(super) functions: u32,
    pub(super) atomics: u32,
}

/// The code of one memory routine.
#[derive(Clone, Debug)]
pub(super) struct RoutineCode {
    pub(super) code: Vec<Range<LinkAddr>>,
    /// It stores. What others load need not be what was asked for.
    pub(super) stores: bool,
}

impl Loaded {
    /// Takes a module whose file was read; what is wrong with that is told.
    pub(super) fn new(module: Arc<Module>, warnings: &mut Vec<String>) -> Self {
        let file = &module.image;
        warnings.extend(file.trouble().map(str::to_owned));
        let metadata = file.metadata().filter(|_| !file.is_cut()).cloned();
        if file.is_cut() {
            warnings.push(format!(
                "{} was cut short while it was read, so nothing is known of its code; replace libraries by renaming, not by writing over \
                 them",
                file.name().display()
            ));
        }
        Self {
            metadata,
            code_tables: Arc::default(),
            byte_uses: Arc::default(),
            entries: BTreeMap::new(),
            routines: Vec::new(),
            decoded: BTreeMap::new(),
            effort: routines::EFFORT,
            table: None,
            tabled: None,
            base: LinkAddr(0),
            functions: 0,
            atomics: 0,
            module,
        }
    }

    /// It as symbols and reports need it.
    pub(super) fn info(&self) -> ModuleInfo {
        let module = &self.module;
        ModuleInfo {
            path: module.path.to_string_lossy().into_owned(),
            via: module.via.clone(),
            start: module.start.0,
            end: module.end.0,
            bias: module.bias,
            build_id: module.build_id().unwrap_or_default().to_vec(),
        }
    }

    /// The part that holds its variables.
    pub(super) fn data(&self) -> Range<u64> {
        let module = &self.module;
        let writable = module.image.segments().iter();
        let writable = writable.filter(|segment| segment.is_writable);
        let ends = writable.map(|segment| {
            let start = module.runtime_address(segment.address).0;
            (start, start.saturating_add(segment.memory_size))
        });
        ends.reduce(|(start, end), (next, last)| (start.min(next), end.max(last)))
            .map_or(0..0, |(start, end)| start..end)
    }

    /// Asks what its code tables tell of the code around an address, for which other files may be looked for: that may take as long as file
    /// systems please.
    pub(super) fn read_code_tables(self: &mut Arc<Self>, pc: LinkAddr, reader: &mut CodeReader) {
        let Some(identity) = self.module.identity.filter(|_| self.code_tables.want(pc)) else {
            return;
        };
        let facts = match self.module.image.may_have_code_tables() {
            true => reader.around(&self.info(), identity, pc),
            false => Ok(None),
        };
        if let Ok(facts) = facts {
            let this = Arc::make_mut(self);
            Arc::make_mut(&mut this.code_tables).add(pc, facts);
        }
    }

    pub(super) fn function_count(&self) -> u64 {
        let metadata = self.metadata.as_ref();
        metadata.map_or(0, |metadata| metadata.function_count() as u64)
    }

    fn covers(&self, address: LinkAddr) -> bool {
        let metadata = self.metadata.as_ref();
        metadata.is_some_and(|metadata| metadata.function_at(address).is_some())
    }

    /// Takes note of a routine of this name that begins at an address; false where none can. What
    /// the compiler has covered is the program's own code, whatever its name.
    pub(super) fn add_routine(self: &mut Arc<Self>, entry: LinkAddr, name: &str) -> bool {
        if self.covers(entry) || self.module.image.declared().is_resolver(entry) {
            return false;
        }
        if self.entries.contains_key(&entry) {
            return true;
        }
        if self.effort == 0 && !self.decoded.contains_key(&entry) {
            return false;
        }
        let stores = Contract::of(name).is_some_and(Contract::stores);
        let code = match self.decoded.get(&entry) {
            Some(code) => code.clone(),
            None => {
                let mut file = Code::new(&self.module.image, self.effort);
                let code: Vec<_> = file
                    .of_routine(entry)
                    .into_iter()
                    .filter(|range| !self.covers(range.start))
                    .collect();
                let left = file.left();
                let this = Arc::make_mut(self);
                this.effort = left;
                if !code.is_empty() && this.decoded.len() < MOST_DECODED {
                    this.decoded.insert(entry, code.clone());
                }
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
    pub(super) fn of_another(&self, module: Arc<Module>) -> Self {
        Self {
            module,
            entries: BTreeMap::new(),
            routines: Vec::new(),
            effort: routines::EFFORT,
            // It was told by somebody who has read other files of that process.
            code_tables: Arc::default(),
            ..self.clone()
        }
    }

    /// The code of routines that is in its tables. The gates need not look at hits in the others: they say nothing of the caller.
    pub(super) fn storing(&self) -> Vec<Range<LinkAddr>> {
        sorted(self.entries.values().filter(|routine| routine.stores))
    }
}

/// The code of routines, sorted.
pub(super) fn sorted<'a>(routines: impl Iterator<Item = &'a RoutineCode>) -> Vec<Range<LinkAddr>> {
    let mut code: Vec<_> = routines
        .flat_map(|routine| &routine.code)
        .cloned()
        .collect();
    code.sort_unstable_by_key(|range| (range.start, range.end));
    code.dedup();
    code
}
