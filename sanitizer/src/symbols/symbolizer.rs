//! The address space of a process as symbols see it: modules sorted by address, their files
//! shared.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::debug_file::DEFAULT_DEBUG_DIR;
use super::effort;
use super::elf_file::ElfFile;
use super::frame::{Frame, GlobalSymbol};
use super::layout::{Held, Stopped};
use super::module::{ModuleInfo, StackSnapshot};
use super::module_file::{self, FileKey, ModuleFile};
use super::types::FunctionResult;
use super::unwind::{self, Code, Stack};
use super::unwind_rules::{Memory, Registers, Step};
use crate::insn::Regs;
use crate::kernel::foreign::Root;

/// The longest x86 instruction (Intel SDM volume 2, 2.3.11).
const MAX_INSTRUCTION_SIZE: u64 = 15;

/// What all files together may keep in memory, in bytes, beside the one that was asked last.
const MOST_KEPT: usize = 24 << 20;

type SharedFile = Arc<Mutex<ModuleFile>>;

/// Unwinds and symbolizes for one address space.
#[derive(Clone)]
pub struct Symbolizer {
    /// Sorted by start; they do not overlap.
    modules: Vec<Module>,
    files: Arc<Mutex<Files>>,
    debug_dirs: Vec<PathBuf>,
}

/// All files in use by a symbolizer, its clones and those they were cloned from.
#[derive(Default)]
struct Files {
    known: HashMap<FileKey, Weak<Mutex<ModuleFile>>>,
    /// The roots in use by them.
    roots: Vec<Weak<Root>>,
    /// What each keeps in memory, in bytes; the one that was asked last at the end.
    kept: Vec<(FileKey, usize)>,
}

impl Files {
    /// Notes what a file keeps, and makes those forget that were not asked for long where that is too much.
    fn note(&mut self, file: FileKey, bytes: usize, most: usize) {
        self.kept.retain(|(other, _)| *other != file);
        let mut sum: usize = self.kept.iter().map(|(_, bytes)| bytes).sum();
        let too_many = self.kept.iter().take_while(|(_, bytes)| {
            let is_too_much = sum > most;
            sum = sum.saturating_sub(*bytes);
            is_too_much
        });
        let too_many = too_many.count();
        for (file, _) in self.kept.drain(..too_many) {
            if let Some(file) = self.known.get(&file).and_then(Weak::upgrade) {
                lock(&file).forget();
            }
        }
        self.kept.push((file, bytes));
    }
}

#[derive(Clone)]
struct Module {
    info: ModuleInfo,
    /// `None` where the file cannot be read, or is not the one that is mapped.
    file: Option<SharedFile>,
}

impl Module {
    /// Whether this is the module that `info` describes.
    fn is(&self, info: &ModuleInfo) -> bool {
        let place = |m: &ModuleInfo| (m.start, m.end, m.bias);
        place(&self.info) == place(info)
            && self.info.path == info.path
            && (info.build_id.is_empty() || info.build_id == self.info.build_id)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Symbolizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbolizer {
    /// An empty address space; debug files are looked for in `/usr/lib/debug`.
    #[must_use]
    pub fn new() -> Self {
        Self::with_debug_dirs(vec![PathBuf::from(DEFAULT_DEBUG_DIR)])
    }

    /// The same with other directories of separate debug files (each with a `.build-id`).
    #[must_use]
    pub fn with_debug_dirs(debug_dirs: Vec<PathBuf>) -> Self {
        Self {
            modules: Vec::new(),
            files: Arc::default(),
            debug_dirs,
        }
    }

    /// Adds a module and opens its files at once. Modules that it overlaps are gone: the
    /// process has unmapped them. A file that cannot be used is no error: its code is
    /// reported by module and offset.
    pub fn add_module(&mut self, module: &ModuleInfo) {
        if self
            .modules
            .iter()
            .any(|m| m.is(module) && m.file.is_some())
        {
            return;
        }
        let (file, build_id) = self.open(module);
        let mut info = module.clone();
        if info.build_id.is_empty() {
            info.build_id = build_id;
        }
        self.modules
            .retain(|m| m.info.end <= info.start || info.end <= m.info.start);
        let at = self.modules.partition_point(|m| m.info.start < info.start);
        self.modules.insert(at, Module { info, file });
    }

    /// Makes `modules` the address space: adds what is new, forgets what is gone, and keeps
    /// what has been read of the rest.
    pub fn set_modules(&mut self, modules: &[ModuleInfo]) {
        self.modules
            .retain(|m| modules.iter().any(|module| m.is(module)));
        for module in modules {
            self.add_module(module);
        }
    }

    fn open(&self, module: &ModuleInfo) -> (Option<SharedFile>, Vec<u8>) {
        effort::begin();
        // Before the file: the process may end in between.
        let root = self.root_of(module);
        let elf = module.via.open().map_err(io::Error::other);
        let elf = match elf.and_then(ElfFile::new) {
            Ok(elf) => elf,
            Err(error) => {
                tracing::debug!(path = %module.path, %error, "no symbols");
                return (None, Vec::new());
            }
        };
        let build_id = elf.build_id().to_vec();
        if !module.build_id.is_empty() && module.build_id != build_id {
            tracing::debug!(path = %module.path, "replaced on disk: no symbols");
            return (None, Vec::new());
        }
        let mut files = lock(&self.files);
        files.known.retain(|_, file| file.strong_count() > 0);
        let key = module_file::key(&elf, root.as_deref());
        let known = files.known.get(&key).and_then(Weak::upgrade);
        let file = known.unwrap_or_else(|| {
            let file = ModuleFile::new(elf, module, root, &self.debug_dirs);
            let file = Arc::new(Mutex::new(file));
            files.known.insert(key, Arc::downgrade(&file));
            file
        });
        (Some(file), build_id)
    }

    /// The root in which the names in a module's file are looked for. Files of one root share it.
    fn root_of(&self, module: &ModuleInfo) -> Option<Arc<Root>> {
        let root = module.via.root().ok()??;
        let mut files = lock(&self.files);
        files.roots.retain(|known| known.strong_count() > 0);
        let mut known = files.roots.iter().filter_map(Weak::upgrade);
        if let Some(same) = known.find(|known| known.is(&root)) {
            return Some(same);
        }
        let root = Arc::new(root);
        files.roots.push(Arc::downgrade(&root));
        Some(root)
    }

    /// Asks a file something that may take effort and memory.
    fn ask<T>(&self, file: &SharedFile, ask: impl FnOnce(&ModuleFile) -> T) -> T {
        effort::begin();
        let (answer, identity, bytes) = {
            let file = lock(file);
            (ask(&file), file.key(), file.bytes())
        };
        lock(&self.files).note(identity, bytes, MOST_KEPT);
        answer
    }

    /// The module at a run-time address.
    #[must_use]
    pub fn module_at(&self, addr: u64) -> Option<&ModuleInfo> {
        self.find(addr).map(|m| &m.info)
    }

    /// The build id of the first module with that path; empty where unknown.
    #[must_use]
    pub fn build_id_of(&self, path: &str) -> &[u8] {
        self.modules
            .iter()
            .find(|m| m.info.path == path)
            .map_or(&[], |m| &m.info.build_id)
    }

    fn find(&self, addr: u64) -> Option<&Module> {
        let after = self.modules.partition_point(|m| m.info.start <= addr);
        self.modules
            .get(after.checked_sub(1)?)
            .filter(|m| m.info.contains(addr))
    }

    /// Unwinds from `regs` as far as the snapshot goes. The first PC is `regs.rip`.
    #[must_use]
    pub fn unwind(&self, regs: &Regs, stack: &StackSnapshot) -> Stack {
        unwind::walk(self, Registers::new(regs), stack)
    }

    /// The same for a thread that stopped *after* the instruction at `access_pc`, as data
    /// watchpoints do: unwinds from where it stopped, and shows the access as frame 0.
    #[must_use]
    pub fn unwind_access(&self, access_pc: u64, regs: &Regs, stack: &StackSnapshot) -> Stack {
        let mut unwound = self.unwind(regs, stack);
        if regs.rip == access_pc {
            return unwound;
        }
        let past = access_pc.saturating_add(MAX_INSTRUCTION_SIZE);
        // A call through memory: the thread stands at the callee's entry, and the caller's
        // frame is the access itself.
        let called = unwound
            .pcs
            .get(1)
            .is_some_and(|&call| (access_pc..past).contains(&call))
            && !(access_pc..=past).contains(&regs.rip);
        if called {
            unwound.pcs.remove(0);
        }
        // A return: the thread already stands in the caller.
        let returned = !called && self.is_return(access_pc);
        match unwound.pcs.first_mut() {
            Some(first) if !returned => *first = access_pc,
            _ => unwound.pcs.insert(0, access_pc),
        }
        unwound
    }

    /// Whether the instruction at a run-time address is a near return.
    fn is_return(&self, pc: u64) -> bool {
        let Some(bytes) = self.bytes(pc, 2) else {
            return false;
        };
        matches!(
            bytes.as_slice(),
            [0xc3 | 0xc2, ..] | [0xf2 | 0xf3, 0xc3 | 0xc2]
        )
    }

    /// The bytes of the instruction at a run-time address, and what follows in the file; fewer than an instruction
    /// may have near the end of a module's code, and none where the file is not known.
    #[must_use]
    pub fn instruction_at(&self, pc: u64) -> Vec<u8> {
        self.bytes(pc, MAX_INSTRUCTION_SIZE).unwrap_or_default()
    }

    /// The frames at a run-time address, the innermost inlined call first; at least one.
    /// For callers, pass an address within the call, as [`Stack::pcs`] holds them.
    #[must_use]
    pub fn frames(&self, pc: u64) -> Vec<Frame> {
        let Some(module) = self.find(pc) else {
            return vec![Frame {
                pc,
                ..Frame::default()
            }];
        };
        let offset = pc.wrapping_sub(module.info.bias);
        let source = match &module.file {
            Some(file) => self.ask(file, |file| file.frames_at(offset)),
            None => vec![super::lines::SourceFrame::default()],
        };
        let outermost = source.len().saturating_sub(1);
        source
            .into_iter()
            .enumerate()
            .map(|(depth, source)| Frame {
                pc,
                module: Some(module.info.path.clone()),
                offset,
                build_id: module.info.build_id.clone(),
                function: source.function,
                file: source.file,
                line: source.line,
                column: source.column,
                inlined: depth < outermost,
            })
            .collect()
    }

    /// The frame at a run-time address as the symbol table has it, without lines and inlined calls:
    /// of code of which nobody wants to know more, such as what the C library begins a thread with.
    #[must_use]
    pub fn frame_by_symbol(&self, pc: u64) -> Frame {
        let Some(module) = self.find(pc) else {
            return Frame {
                pc,
                ..Frame::default()
            };
        };
        let offset = pc.wrapping_sub(module.info.bias);
        let file = module.file.as_ref();
        Frame {
            pc,
            module: Some(module.info.path.clone()),
            offset,
            build_id: module.info.build_id.clone(),
            function: file.and_then(|file| self.ask(file, |file| file.function_by_symbol(offset))),
            ..Frame::default()
        }
    }

    /// Whether the instruction at a run-time address belongs to no one place of the source, since an optimizer has
    /// made it of several; None without debug information about it.
    #[must_use]
    pub fn is_of_no_place(&self, pc: u64) -> Option<bool> {
        let module = self.find(pc)?;
        let addr = pc.wrapping_sub(module.info.bias);
        self.ask(module.file.as_ref()?, |file| file.is_of_no_place(addr))
    }

    /// Where the function at a run-time address returns what, by debug information.
    #[must_use]
    pub fn result_at(&self, pc: u64) -> Option<FunctionResult> {
        let module = self.find(pc)?;
        let addr = pc.wrapping_sub(module.info.bias);
        self.ask(module.file.as_ref()?, |file| file.result_at(addr))
    }

    /// The module at a run-time address and what of its debug information has been too much to be read, so that functions
    /// and lines of reports are missing.
    #[must_use]
    pub fn given_up(&self, pc: u64) -> Option<(&str, String)> {
        let module = self.find(pc)?;
        let error = lock(module.file.as_ref()?).given_up()?;
        Some((&module.info.path, error.to_string()))
    }

    /// What the variables of a thread's function have at bytes, by debug information: `bytes` are a run-time address and
    /// their number.
    #[must_use]
    pub fn held_at(&self, stopped: Stopped<'_>, bytes: (u64, u32)) -> Held {
        let held = || {
            let module = self.find(stopped.pc)?;
            let bias = module.info.bias;
            self.ask(module.file.as_ref()?, |file| {
                file.held_at(stopped, bias, bytes)
            })
        };
        held().unwrap_or_default()
    }

    /// The global or static variable at a run-time address.
    #[must_use]
    pub fn global_at(&self, addr: u64) -> Option<GlobalSymbol> {
        // By the loadable segments, not the mappings: zero-initialised data (.bss) lies in
        // anonymous memory behind the file's mappings.
        self.modules.iter().find_map(|module| {
            let link = addr.wrapping_sub(module.info.bias);
            let file = module.file.as_ref()?;
            let (start, end) = lock(file).elf.link_range()?;
            if !(start..end).contains(&link) {
                return None;
            }
            let symbol = self.ask(file, |file| file.object_at(link))?;
            Some(GlobalSymbol {
                name: symbol.name,
                offset: link.wrapping_sub(symbol.addr),
                size: symbol.size,
                module: module.info.path.clone(),
                module_offset: symbol.addr,
            })
        })
    }
}

impl Code for Symbolizer {
    fn step(&self, lookup: u64, registers: &Registers, memory: &dyn Memory) -> Option<Step> {
        let module = self.find(lookup)?;
        let lookup = lookup.wrapping_sub(module.info.bias);
        self.ask(module.file.as_ref()?, |file| {
            file.cfi().step(lookup, registers, memory)
        })
    }

    fn is_code(&self, addr: u64) -> bool {
        self.find(addr).is_some_and(|module| match &module.file {
            Some(file) => lock(file)
                .elf
                .is_executable(addr.wrapping_sub(module.info.bias)),
            None => true,
        })
    }

    fn bytes(&self, addr: u64, len: u64) -> Option<Vec<u8>> {
        let module = self.find(addr)?;
        lock(module.file.as_ref()?)
            .elf
            .bytes_at(addr.wrapping_sub(module.info.bias), len)
    }
}
