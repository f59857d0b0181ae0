//! The modules of a live process: its program, every shared object, and the vdso, each with
//! the place where it is loaded and the very file that is mapped there.
//!
//! They are found from the memory map alone, so loading and unloading is noticed without
//! stopping the target: [`Modules::rescan`] compares the maps first and opens only files
//! that were not there before.

mod bias;
mod changes;
mod contents;
mod here;
mod module;
mod retry;
mod unreadable;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::error::TargetError;
use super::mapped_file::{MODULES, Reach};
use super::maps::{Mapping, Maps};
use super::{memory, procfs, threads};
use crate::addr::RuntimeAddr;
use crate::image::Image;
use crate::kernel::foreign::{About, FileIdentity, Purpose, Via};
use bias::{load_bias, loaded_range};
use module::{belongs, push_range};
use retry::{Retry, Told};

pub use changes::Changes;
pub use contents::{Contents, OpenFile, Reads};
pub use module::Module;
pub use unreadable::{ModuleError, Unreadable};

/// No kernel's vdso is larger.
const MAX_VDSO: u64 = 1 << 20;

/// A file that was read, with what tells it from another one; or why it is no module.
type ReadFile<C> = Result<(C, Option<FileIdentity>), Arc<ModuleError>>;
/// Those of one look, by device and inode.
type ReadFiles<C> = HashMap<(u64, u64), ReadFile<C>>;

/// The modules of a process at one moment.
#[derive(Clone, Debug)]
pub struct Modules<C = Image> {
    pid: Pid,
    maps: Arc<Maps>,
    reading: Duration,
    modules: Vec<Arc<Module<C>>>,
    unreadable: Vec<Unreadable>,
    /// Files that were read before.
    files: Vec<(FileIdentity, C)>,
    /// When what cannot be read for now is tried again.
    retry: Retry,
    told: Told,
}

impl<C: Contents> Modules<C> {
    /// Finds the modules of a live process, where some files were read before: they are not read again.
    ///
    /// # Errors
    /// Fails where [`Modules::scan`] does.
    pub fn scan_with(
        pid: Pid,
        files: Vec<(FileIdentity, C)>,
        reads: &mut dyn Reads<C>,
    ) -> Result<Self, TargetError> {
        Self::scan_by(pid, &[], files, reads)
    }

    fn scan_by(
        pid: Pid,
        known: &[Arc<Module<C>>],
        files: Vec<(FileIdentity, C)>,
        reads: &mut dyn Reads<C>,
    ) -> Result<Self, TargetError> {
        let (maps, reading) = timed(|| Maps::read(pid))?;
        let mut modules = Self {
            pid,
            maps: Arc::new(maps),
            reading,
            modules: Vec::new(),
            unreadable: Vec::new(),
            files,
            retry: Retry::default(),
            told: Told::default(),
        };
        modules.find_modules(known, &[], reads)?;
        modules.told.news(&modules.unreadable);
        Ok(modules)
    }

    /// Looks again, and has what is new read. Costs one read of the memory map where nothing changed.
    ///
    /// # Errors
    /// Fails where [`Modules::scan`] does.
    pub fn rescan_with(&mut self, reads: &mut dyn Reads<C>) -> Result<Changes<C>, TargetError> {
        let (maps, reading) = timed(|| Maps::read(self.pid))?;
        self.reading = reading;
        if maps == *self.maps && !self.is_incomplete() {
            return Ok(Changes::default());
        }
        self.maps = Arc::new(maps);
        let before = std::mem::take(&mut self.modules);
        let unreadable = std::mem::take(&mut self.unreadable);
        if let Err(error) = self.find_modules(&before, &unreadable, reads) {
            self.modules = before;
            self.unreadable = unreadable;
            return Err(error);
        }
        let missing_in = |list: &[Arc<Module<C>>], module: &Arc<Module<C>>| {
            !list.iter().any(|other| Arc::ptr_eq(other, module))
        };
        Ok(Changes {
            added: self
                .modules
                .iter()
                .filter(|new| missing_in(&before, new))
                .cloned()
                .collect(),
            removed: before
                .iter()
                .filter(|old| missing_in(&self.modules, old))
                .cloned()
                .collect(),
            unreadable: self.told.news(&self.unreadable),
        })
    }

    /// Whether another look finds more, although the memory map is the same.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.retry.is_due() || (self.unreadable.iter()).any(|code| code.reason.is_of_the_moment())
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The modules, ascending by address.
    #[must_use]
    pub fn all(&self) -> &[Arc<Module<C>>] {
        &self.modules
    }

    /// The whole memory map that the modules were found in.
    #[must_use]
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    /// The CPU time that it took to read that, which the process decides: the text of a map can have hundreds of megabytes.
    #[must_use]
    pub const fn reading(&self) -> Duration {
        self.reading
    }

    /// Code from files that are no modules: unreadable files, files that are not ELF.
    #[must_use]
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// The module at an address.
    #[must_use]
    pub fn find(&self, address: RuntimeAddr) -> Option<&Arc<Module<C>>> {
        let index = self.modules.partition_point(|module| module.end <= address);
        self.modules
            .get(index)
            .filter(|module| module.contains(address))
    }

    /// The program that the process runs, as opposed to its libraries.
    #[must_use]
    pub fn program(&self) -> Option<&Arc<Module<C>>> {
        let id = threads::live_thread(self.pid).ok()?;
        let file = About::at(&procfs::path(id, "exe")).ok()?;
        let same_inode = |module: &&Arc<Module<C>>| module.inode == file.inode;
        // Some file systems (btrfs, overlays) show another device in maps than stat does.
        self.modules
            .iter()
            .find(|module| module.dev == file.device && same_inode(module))
            .or_else(|| self.modules.iter().find(same_inode))
    }

    fn find_modules(
        &mut self,
        known: &[Arc<Module<C>>],
        known_unreadable: &[Unreadable],
        reads: &mut dyn Reads<C>,
    ) -> Result<(), TargetError> {
        let is_due = self.retry.is_due();
        let is_still =
            |reason: &ModuleError| !(reason.is_of_the_moment() || is_due && reason.is_not_yet());
        let still_unreadable: HashMap<_, _> = known_unreadable
            .iter()
            .filter(|other| is_still(&other.reason))
            .map(|other| (other.mapping.start, other))
            .collect();
        let reach = Reach::to(self.pid, Purpose::Code)?;
        let mut found: Vec<Module<C>> = Vec::new();
        let mut files = HashMap::new();
        // Those that are no modules, each once.
        let mut others = HashSet::new();
        let maps = Arc::clone(&self.maps);
        let too_many = Arc::new(ModuleError::TooMany);
        for mapping in maps.iter().filter(|mapping| mapping.perms.exec) {
            // Most often it is of the module before.
            let mut before = found.iter_mut().rev();
            if let Some(module) = before.find(|module| belongs(mapping, module)) {
                push_range(&mut module.executable, mapping.range());
                continue;
            }
            let is_file = mapping.is_file();
            if !is_file && *mapping.name != *"[vdso]" {
                continue;
            }
            let same = still_unreadable.get(&mapping.start);
            let id = (mapping.dev, mapping.inode);
            if let Some(same) = same.filter(|other| other.mapping == *mapping) {
                others.insert(id);
                self.unreadable.push((*same).clone());
                continue;
            }
            let known = known.iter().find(|module| belongs(mapping, module));
            let is_new = known.is_none() && !others.contains(&id);
            let module =
                if found.len() == MODULES || is_new && found.len() + others.len() >= MODULES {
                    Err(Arc::clone(&too_many))
                } else if is_file {
                    self.file_module(&reach, mapping, known, (&mut files, reads))
                } else {
                    self.vdso_module(mapping, known, reads)?.map_err(Arc::new)
                };
            match module {
                Ok(module) => found.push(module),
                Err(reason) => {
                    if !matches!(*reason, ModuleError::TooMany) {
                        others.insert(id);
                    }
                    self.unreadable.push(Unreadable {
                        mapping: mapping.clone(),
                        reason,
                    });
                }
            }
        }
        self.retry.note(&self.unreadable);
        found.sort_by_key(|module| module.start);
        self.modules = found
            .into_iter()
            .map(|module| {
                // An unchanged module stays the very same object, unless it is another
                // process's: that one opens its files by another name.
                let same = |other: &&Arc<Module<C>>| {
                    other.is_same(&module)
                        && other.via == module.via
                        && other.deleted == module.deleted
                };
                known
                    .iter()
                    .find(same)
                    .cloned()
                    .unwrap_or_else(|| Arc::new(module))
            })
            .collect();
        Ok(())
    }

    /// `files`: the images of this look, by device and inode; a file may be mapped thousands of times.
    fn file_module(
        &self,
        reach: &Reach,
        mapping: &Mapping,
        known: Option<&Arc<Module<C>>>,
        (files, reads): (&mut ReadFiles<C>, &mut dyn Reads<C>),
    ) -> Result<Module<C>, Arc<ModuleError>> {
        let id = (mapping.dev, mapping.inode);
        // What is no module here is none there: it is not even looked for.
        if let Some(Err(reason)) = files.get(&id) {
            return Err(Arc::clone(reason));
        }
        if known.is_none() && !files.contains_key(&id) && reads.is_past() {
            return Err(Arc::new(ModuleError::Unasked));
        }
        let file = reach.locate(mapping).map_err(ModuleError::from)?;
        let mut read = || {
            if let Some(module) = known {
                return Ok((module.image.clone(), module.identity));
            }
            // Before it is opened: what changes afterwards is another file then.
            let identity = file.identity();
            let mut before = self.files.iter();
            let image = match before.find(|(kept, _)| *kept == identity) {
                Some((_, image)) => image.clone(),
                None => {
                    reads.may_read(&file.path, identity)?;
                    reads.file(OpenFile {
                        file: file.open()?,
                        name: &file.path,
                        identity,
                        is_served: file.is_served(),
                    })?
                }
            };
            Ok((image, Some(identity)))
        };
        let (image, identity) = files
            .entry(id)
            .or_insert_with(|| read().map_err(Arc::<ModuleError>::new))
            .clone()?;
        let not_loaded = || ModuleError::NotLoaded {
            path: file.path.clone(),
            start: mapping.start,
            offset: mapping.offset.0,
        };
        let bias = load_bias(&image, mapping, &self.maps).ok_or_else(not_loaded)?;
        let range = loaded_range(&image, bias).ok_or_else(not_loaded)?;
        Ok(Module {
            path: file.path,
            via: file.via,
            start: RuntimeAddr(range.start),
            end: RuntimeAddr(range.end),
            executable: vec![mapping.range()],
            bias,
            dev: mapping.dev,
            inode: mapping.inode,
            identity,
            image,
            deleted: file.deleted,
        })
    }

    /// The vdso is read from the target's memory: it is in no file.
    fn vdso_module(
        &self,
        mapping: &Mapping,
        known: Option<&Arc<Module<C>>>,
        reads: &mut dyn Reads<C>,
    ) -> Result<Result<Module<C>, ModuleError>, TargetError> {
        let range = mapping.range();
        let path = PathBuf::from(&*mapping.name);
        let image = if let Some(module) = known {
            Ok(module.image.clone())
        } else {
            let len = usize::try_from((range.end - range.start).min(MAX_VDSO)).unwrap_or(0);
            let mut bytes = vec![0; len];
            let count = memory::read(self.pid, mapping.start, &mut bytes)?;
            bytes.truncate(count);
            reads.bytes(bytes, Path::new("[vdso]"))
        };
        Ok(image.map(|image| {
            // The first segment is the file from its beginning.
            let link = image.segments().first().map_or(0, |segment| {
                segment.address.0.wrapping_sub(segment.offset.0)
            });
            Module {
                path,
                via: Via::default(),
                start: mapping.start,
                end: mapping.end,
                executable: vec![mapping.range()],
                bias: range.start.wrapping_sub(link),
                dev: 0,
                inode: 0,
                identity: None,
                image,
                deleted: false,
            }
        }))
    }
}

/// What comes of a task, and the CPU time that it took this thread.
fn timed<T>(task: impl FnOnce() -> Result<T, TargetError>) -> Result<(T, Duration), TargetError> {
    let now =
        || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
    let before = now();
    let result = task()?;
    Ok((result, now().saturating_sub(before)))
}

#[cfg(test)]
mod tests;
