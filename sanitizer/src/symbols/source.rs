//! A module's file as whoever may open files knows it: open, with the root in which the names in it are looked up. Nothing of
//! its contents is looked at here.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::beside::{Beside, FileIdentity, Looked, Opened, Wanted, scratch};
use super::debug_dirs::{DebugDirs, Place};
use super::facts::Facts;
use super::module::ModuleInfo;
use crate::kernel::foreign::{Purpose, Root};

/// Places beside a file of which is kept what was found there: whoever reads may have to begin anew.
const MOST_KEPT: usize = 16;

/// Files of servers that are missed beside a file: its debug file, and what that has in common with others. Whoever reads may say what he likes, and somebody is told of
/// it.
const MOST_MISSED: usize = 2;

/// A file, and the root in which what it names is looked for: the same file may name others in another one.
pub(super) type FileKey = (FileIdentity, Option<(u64, u64, u64)>);

/// See the module.
#[derive(Debug)]
pub struct Source {
    opened: Opened,
    /// What reports call it.
    name: String,
    /// Where names in it lead; nothing where they lead nowhere.
    root: Option<Arc<Root>>,
    /// Its own name there.
    path: PathBuf,
    /// The folders of debug files.
    debug_dirs: Arc<DebugDirs>,
    /// The folder of what servers have sent, if servers are asked.
    served: Option<Arc<Path>>,
    /// What was found beside it.
    kept: Mutex<HashMap<Wanted, Option<Opened>>>,
    /// The build ids of what servers have not sent yet.
    missed: Mutex<BTreeSet<Vec<u8>>>,
}

impl Source {
    fn new(
        opened: Opened,
        module: &ModuleInfo,
        root: Option<Arc<Root>>,
        debug_dirs: Arc<DebugDirs>,
    ) -> Self {
        let path = module.via.path_in_root();
        Self {
            opened,
            name: module.path.clone(),
            root,
            path: path.unwrap_or_else(|| Path::new(&module.path)).to_owned(),
            debug_dirs,
            served: None,
            kept: Mutex::default(),
            missed: Mutex::default(),
        }
    }

    /// That of a module, with these folders of debug files.
    pub(super) fn of(module: &ModuleInfo, debug_dirs: &Arc<DebugDirs>) -> io::Result<Self> {
        let root = module.via.root().ok().flatten().map(Arc::new);
        let debug_dirs = Arc::clone(debug_dirs);
        Ok(Self::new(opened(module)?, module, root, debug_dirs))
    }

    /// The file.
    #[must_use]
    pub const fn opened(&self) -> &Opened {
        &self.opened
    }

    /// What reports call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where names in it lead; nothing where they lead nowhere.
    #[must_use]
    pub fn root(&self) -> Option<&Root> {
        self.root.as_deref()
    }

    fn key(&self) -> FileKey {
        let root = self.root.as_deref().map(Root::identity);
        (self.opened.identity, root)
    }

    /// The place in which something would be.
    pub(super) fn place(&self, wanted: &Wanted) -> Option<Place<'_>> {
        match wanted {
            Wanted::BuildId(id, nth) => self.debug_dirs.build_id(id, *nth as usize),
            Wanted::DebugLink(name, nth) => self.linked(name, *nth as usize),
            Wanted::Supplementary(name, nth) => {
                let whole = Path::new(name);
                let mut nth = *nth as usize;
                if whole.is_absolute() {
                    match nth.checked_sub(1) {
                        None => return Some(Place::there(whole.to_owned())),
                        Some(rest) => nth = rest,
                    }
                }
                // Debian: `../../.dwz/...`, relative to the directory of the debug file.
                let tail = name.find(".dwz/").and_then(|at| name.get(at..))?;
                self.debug_dirs.below(Path::new(tail), nth)
            }
            Wanted::Package => {
                let mut path = self.path.as_os_str().to_owned();
                path.push(".dwp");
                Some(Place::there(path.into()))
            }
            Wanted::Unit(directory, name) => {
                let directory = directory.as_deref().unwrap_or_default();
                let path = Path::new(directory).join(name);
                path.is_absolute().then(|| Place::there(path))
            }
            Wanted::Served(id) => Place::served(self.served.as_deref()?, id),
            Wanted::Scratch => None,
        }
    }

    /// The build ids of debug files that belong to it, are nowhere else, and were not sent by servers when they were looked for.
    #[must_use]
    pub fn missed(&self) -> Vec<Vec<u8>> {
        lock(&self.missed).iter().cloned().collect()
    }

    /// Forgets what was not found.
    pub fn look_again(&self) {
        lock(&self.missed).clear();
        lock(&self.kept).retain(|_, found| found.is_some());
    }

    fn linked(&self, name: &str, nth: usize) -> Option<Place<'_>> {
        // A bare file name, so that a file cannot send us elsewhere.
        let mut parts = Path::new(name).components();
        let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
            return None;
        };
        let dir = self.path.parent()?;
        let below = dir.strip_prefix("/").ok()?;
        match nth {
            0 => Some(Place::there(dir.join(name))),
            1 => Some(Place::there(dir.join(".debug").join(name))),
            _ => self.debug_dirs.below(&below.join(name), nth - 2),
        }
    }
}

impl Beside for Source {
    fn look(&self, wanted: &Wanted) -> Looked {
        if *wanted == Wanted::Scratch {
            return scratch();
        }
        let Some(place) = self.place(wanted) else {
            return Looked::NoPlace;
        };
        let mut kept = lock(&self.kept);
        if let Some(found) = kept.get(wanted) {
            let again = found.as_ref().map(Opened::again);
            return again.map_or(Looked::Nothing, |again| {
                again.map_or(Looked::Nothing, Looked::Found)
            });
        }
        let found = place.open(self.root.as_deref());
        let again = found.as_ref().and_then(|found| found.again().ok());
        if let (Wanted::Served(id), None) = (wanted, &again) {
            let mut missed = lock(&self.missed);
            if missed.len() < MOST_MISSED {
                missed.insert(id.clone());
            }
        }
        // Split units are many, and each is wanted seldom.
        if kept.len() < MOST_KEPT && !matches!(wanted, Wanted::Unit(..)) {
            kept.insert(wanted.clone(), found);
        }
        again.map_or(Looked::Nothing, Looked::Found)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A module's file, opened for reading, by somebody who may wait for its file system.
pub(super) fn opened(module: &ModuleInfo) -> io::Result<Opened> {
    let file = module.via.open(Purpose::Code);
    Opened::elf(file.map_err(io::Error::other)?)
}

/// A module's file, and what whoever reads it has said of it at first.
#[derive(Debug)]
pub struct Known {
    /// Tells it from others.
    pub number: u64,
    /// The file.
    pub source: Arc<Source>,
    /// See there.
    pub facts: Facts,
}

/// All files in use by a symbolizer, its clones and those they were cloned from. Files of one root share it.
#[derive(Debug, Default)]
pub struct Sources {
    debug_dirs: Arc<DebugDirs>,
    served: Option<Arc<Path>>,
    roots: Vec<Weak<Root>>,
    known: HashMap<FileKey, Weak<Known>>,
    next: u64,
}

impl Sources {
    /// None yet; debug files are looked for in these folders.
    #[must_use]
    pub fn new(debug_dirs: impl Into<Arc<DebugDirs>>) -> Self {
        Self {
            debug_dirs: debug_dirs.into(),
            ..Self::default()
        }
    }

    /// The same, and what servers have sent in this folder.
    #[must_use]
    pub fn with_served(self, cache: &Path) -> Self {
        Self {
            served: Some(cache.into()),
            ..self
        }
    }

    /// A module's file, which is open from now on; `read` looks at one that was not known, by its number, and says what it is. `root`:
    /// where names in it lead.
    pub fn open(
        &mut self,
        module: &ModuleInfo,
        root: Option<Arc<Root>>,
        opened: Opened,
        read: impl FnOnce(u64, &Arc<Source>) -> io::Result<Facts>,
    ) -> io::Result<Arc<Known>> {
        if let Some(known) = self.known(opened.identity, root.as_deref()) {
            return Ok(known);
        }
        let debug_dirs = Arc::clone(&self.debug_dirs);
        let source = Arc::new(Source {
            served: self.served.clone(),
            ..Source::new(opened, module, root, debug_dirs)
        });
        self.known.retain(|_, file| file.strong_count() > 0);
        let key = source.key();
        self.next += 1;
        let known = Arc::new(Known {
            number: self.next,
            facts: read(self.next, &source)?,
            source,
        });
        self.known.insert(key, Arc::downgrade(&known));
        Ok(known)
    }

    /// A file that is in use, if it is.
    #[must_use]
    pub fn known(&self, identity: FileIdentity, root: Option<&Root>) -> Option<Arc<Known>> {
        let key = (identity, root.map(Root::identity));
        self.known.get(&key).and_then(Weak::upgrade)
    }

    /// Whether a file is in use.
    #[must_use]
    pub fn has(&self, number: u64) -> bool {
        let mut known = self.known.values().filter_map(Weak::upgrade);
        known.any(|known| known.number == number)
    }

    /// The root in which the names in a module's file are looked for. To be asked for before the file is opened: the process may end
    /// in between.
    pub fn root_of(&mut self, module: &ModuleInfo) -> Option<Arc<Root>> {
        let root = module.via.root().ok()??;
        self.roots.retain(|known| known.strong_count() > 0);
        let mut known = self.roots.iter().filter_map(Weak::upgrade);
        if let Some(same) = known.find(|known| known.is(&root)) {
            return Some(same);
        }
        let root = Arc::new(root);
        self.roots.push(Arc::downgrade(&root));
        Some(root)
    }
}
