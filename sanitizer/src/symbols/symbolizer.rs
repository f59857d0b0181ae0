//! The address space of a process as symbols see it: modules sorted by address, their files
//! shared.

mod debugged;
mod here;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::debug_dirs::DebugDirs;
use super::frame::{Frame, GlobalSymbol};
use super::module::{ModuleInfo, StackSnapshot};
use super::question::{Answer, Files, Lack, Question};
use super::shelf::Shelf;
use super::source::{Known, Source, Sources};
use super::unwind::{self, Stack};
use super::unwind_rules::{Registers, Step};
use super::walked_code::Code;
use crate::insn::Regs;

use here::Here;

/// The longest x86 instruction (Intel SDM volume 2, 2.3.11).
const MAX_INSTRUCTION_SIZE: u64 = 15;

/// Unwinds and symbolizes for one address space.
#[derive(Clone)]
pub struct Symbolizer {
    /// Sorted by start; they do not overlap.
    modules: Vec<Module>,
    /// Whoever answers for the files of this one, its clones and those that it was cloned from.
    files: Arc<Mutex<dyn Files>>,
}

#[derive(Clone)]
struct Module {
    info: ModuleInfo,
    /// `None` where the file cannot be read, or is not the one that is mapped.
    file: Option<Arc<Known>>,
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

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Symbolizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbolizer {
    /// An empty address space, whose files are read in this process; debug files are looked for in `/usr/lib/debug`.
    #[must_use]
    pub fn new() -> Self {
        Self::reading(DebugDirs::default())
    }

    /// The same with other folders of debug files.
    #[must_use]
    pub fn with_debug_dirs(debug_dirs: Vec<PathBuf>) -> Self {
        Self::reading(DebugDirs::there(debug_dirs))
    }

    /// The same with folders of the user as well.
    pub(super) fn reading(debug_dirs: DebugDirs) -> Self {
        Self::over(Arc::new(Mutex::new(Here {
            sources: Sources::new(debug_dirs),
            shelf: Shelf::default(),
        })))
    }

    /// An empty address space, about whose files somebody else is asked.
    #[must_use]
    pub fn over(files: Arc<Mutex<dyn Files>>) -> Self {
        Self {
            modules: Vec::new(),
            files,
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

    fn open(&self, module: &ModuleInfo) -> (Option<Arc<Known>>, Vec<u8>) {
        let Some(file) = lock(&self.files).open(module) else {
            return (None, Vec::new());
        };
        let build_id = file.facts.build_id.clone();
        if !module.build_id.is_empty() && module.build_id != build_id {
            tracing::debug!(path = %module.path, "replaced on disk: no symbols");
            return (None, Vec::new());
        }
        (Some(file), build_id)
    }

    fn ask(
        &self,
        file: &Known,
        question: Question,
        stack: Option<&StackSnapshot>,
    ) -> Option<Answer> {
        lock(&self.files).ask(file, question, stack)
    }

    /// The file with a run-time address, and that address in it.
    fn place(&self, addr: u64) -> Option<(&Known, u64)> {
        let module = self.find(addr)?;
        Some((module.file.as_ref()?, addr.wrapping_sub(module.info.bias)))
    }

    /// The module at a run-time address.
    #[must_use]
    pub fn module_at(&self, addr: u64) -> Option<&ModuleInfo> {
        self.find(addr).map(|m| &m.info)
    }

    /// The file at a run-time address, where it is open.
    #[must_use]
    pub fn source_at(&self, addr: u64) -> Option<&Source> {
        Some(&self.find(addr)?.file.as_ref()?.source)
    }

    /// The build id of the first module with that path; empty where unknown.
    #[must_use]
    pub fn build_id_of(&self, path: &str) -> &[u8] {
        self.modules
            .iter()
            .find(|m| m.info.path == path)
            .map_or(&[], |m| &m.info.build_id)
    }

    /// Whether any module lacks a debug file that a server may have, and of which this says so.
    #[must_use]
    pub fn misses(&self, is_open: impl Fn(&[u8]) -> bool) -> bool {
        let files = self.modules.iter().filter_map(|m| m.file.as_ref());
        let mut missed = files.flat_map(|file| file.source.missed());
        missed.any(|build_id| is_open(&build_id))
    }

    /// The path of the module at a run-time address, and the build ids of debug files that it lacks and a server may have.
    #[must_use]
    pub fn missed_at(&self, addr: u64) -> Option<(&str, Vec<Vec<u8>>)> {
        let module = self.find(addr)?;
        let missed = module.file.as_ref()?.source.missed();
        Some((&module.info.path, missed))
    }

    /// Looks anew for what belongs to the module at a run-time address.
    pub fn look_again_at(&self, addr: u64) {
        if let Some(file) = self.find(addr).and_then(|m| m.file.as_deref()) {
            lock(&self.files).look_again(file);
        }
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
        let file = module.file.as_deref();
        let source = match file.and_then(|file| self.ask(file, Question::Frames(offset), None)) {
            Some(Answer::Frames(frames)) => frames,
            _ => vec![super::lines::SourceFrame::default()],
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
                declared: source.declared,
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
        let file = module.file.as_deref();
        let function = file.and_then(|file| self.ask(file, Question::Function(offset), None));
        Frame {
            pc,
            module: Some(module.info.path.clone()),
            offset,
            build_id: module.info.build_id.clone(),
            function: match function {
                Some(Answer::Function(name)) => name,
                _ => None,
            },
            ..Frame::default()
        }
    }

    /// The module at a run-time address and why functions and lines of reports are missing there, if that is known.
    #[must_use]
    pub fn lack(&self, pc: u64) -> Option<(&str, Lack)> {
        let module = self.find(pc)?;
        let lack = lock(&self.files).lack(module.file.as_ref()?)?;
        Some((&module.info.path, lack))
    }

    /// The global or static variable at a run-time address.
    #[must_use]
    pub fn global_at(&self, addr: u64) -> Option<GlobalSymbol> {
        // By the loadable segments, not the mappings: zero-initialised data (.bss) lies in
        // anonymous memory behind the file's mappings.
        self.modules.iter().find_map(|module| {
            let link = addr.wrapping_sub(module.info.bias);
            let file = module.file.as_ref()?;
            let (start, end) = file.facts.range?;
            if !(start..end).contains(&link) {
                return None;
            }
            let Answer::Object(symbol) = self.ask(file, Question::Object(link), None)? else {
                return None;
            };
            let symbol = symbol?;
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
    fn step(&self, lookup: u64, registers: &Registers, stack: &StackSnapshot) -> Option<Step> {
        let (file, addr) = self.place(lookup)?;
        let question = Question::Step(addr, Box::new(registers.clone()));
        match self.ask(file, question, Some(stack))? {
            Answer::Step(step) => step,
            _ => None,
        }
    }

    fn is_code(&self, addr: u64) -> bool {
        self.find(addr).is_some_and(|module| match &module.file {
            Some(file) => file.facts.is_code(addr.wrapping_sub(module.info.bias)),
            None => true,
        })
    }

    fn bytes(&self, addr: u64, len: u64) -> Option<Vec<u8>> {
        let (file, addr) = self.place(addr)?;
        match self.ask(file, Question::Bytes(addr, len), None)? {
            Answer::Bytes(bytes) => bytes,
            _ => None,
        }
    }
}
