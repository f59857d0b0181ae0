//! The address space of a process as symbols see it: modules sorted by address, their files
//! shared.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::debug_file::DEFAULT_DEBUG_DIR;
use super::elf_file::{ElfFile, FileIdentity};
use super::frame::{Frame, GlobalSymbol};
use super::module::{ModuleInfo, StackSnapshot};
use super::module_file::ModuleFile;
use super::unwind::{self, Code, Stack};
use super::unwind_rules::{Memory, Registers, Step};
use crate::insn::Regs;

/// The longest x86 instruction (Intel SDM volume 2, 2.3.11).
const MAX_INSTRUCTION_SIZE: u64 = 15;

type SharedFile = Arc<Mutex<ModuleFile>>;

/// Unwinds and symbolizes for one address space.
#[derive(Clone)]
pub struct Symbolizer {
    /// Sorted by start; they do not overlap.
    modules: Vec<Module>,
    /// All files in use by this symbolizer, its clones and those they were cloned from.
    files: Arc<Mutex<HashMap<FileIdentity, Weak<Mutex<ModuleFile>>>>>,
    debug_dirs: Vec<PathBuf>,
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
        let elf = match ElfFile::open(&module.open_path) {
            Ok(elf) => elf,
            Err(error) => {
                tracing::debug!(path = %module.open_path.display(), %error, "no symbols");
                return (None, Vec::new());
            }
        };
        let build_id = elf.build_id().to_vec();
        if !module.build_id.is_empty() && module.build_id != build_id {
            tracing::debug!(path = %module.open_path.display(), "replaced on disk: no symbols");
            return (None, Vec::new());
        }
        let mut files = lock(&self.files);
        files.retain(|_, file| file.strong_count() > 0);
        let identity = elf.identity();
        let known = files.get(&identity).and_then(Weak::upgrade);
        let file = known.unwrap_or_else(|| {
            let file = Arc::new(Mutex::new(ModuleFile::new(elf, module, &self.debug_dirs)));
            files.insert(identity, Arc::downgrade(&file));
            file
        });
        (Some(file), build_id)
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
            Some(file) => lock(file).frames_at(offset),
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
            function: file.and_then(|file| lock(file).function_by_symbol(offset)),
            ..Frame::default()
        }
    }

    /// The global or static variable at a run-time address.
    #[must_use]
    pub fn global_at(&self, addr: u64) -> Option<GlobalSymbol> {
        // By the loadable segments, not the mappings: zero-initialised data (.bss) lies in
        // anonymous memory behind the file's mappings.
        self.modules.iter().find_map(|module| {
            let link = addr.wrapping_sub(module.info.bias);
            let file = lock(module.file.as_ref()?);
            let (start, end) = file.elf.link_range()?;
            if !(start..end).contains(&link) {
                return None;
            }
            let symbol = file.object_at(link)?;
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
        let file = lock(module.file.as_ref()?);
        file.cfi()
            .step(lookup.wrapping_sub(module.info.bias), registers, memory)
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
