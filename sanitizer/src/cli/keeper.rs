//! Keeps what is learned of programs, from one time that they are watched to the next (`--ledger`, and `[learn]` of a fleet): tells their tracers what is remembered, and has the
//! [ledger](crate::ledger) take in what these gain.
//!
//! Where other machines are told of it, what these have learned is remembered as well (`sharing`).
//!
//! A thread of its own reads and writes it, so that a slow disk delays nothing else. What is wrong with it is told, and nothing is remembered then: it is no reason not to watch.

mod desk;
mod sharing;

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    sync::mpsc::{SyncSender, sync_channel},
    time::Duration,
};

use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    oneshot,
};
use tracing::{debug, warn};

use super::link::Link;
use crate::{
    hunt::memory::{Gained, Remembered},
    kernel::limits::explained,
    ledger::{Ledger, Module},
    report::finding::ModuleInfo,
    store::StoreError,
};
use desk::Desk;
use sharing::Sharing;

/// Messages that wait for the thread, at most: beyond that something is forgotten.
const MOST_WAITING: usize = 4096;
/// How long the last of it may take.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Modules of a process that are kept apart.
const MOST_MODULES: usize = 4096;

/// What is remembered of the modules of a process.
pub struct Recalled {
    /// The process.
    pub pid: u32,
    /// The lease of the process that has asked.
    lease: u64,
    parts: Vec<Remembered>,
    cpu_ns: u64,
}

/// See the module.
pub struct Keeper {
    /// None where nothing is kept.
    desk: Option<OpenDesk>,
    recalled: UnboundedReceiver<Recalled>,
    processes: HashMap<u32, Told>,
    leases: u64,
}

/// The thread, as others see it.
struct OpenDesk {
    work: SyncSender<Work>,
    closing: oneshot::Receiver<()>,
}

/// What is told to the tracer of a process.
#[derive(Default)]
struct Told {
    lease: u64,
    /// What is still to be told.
    parts: VecDeque<Remembered>,
    /// It has not said yet that it has taken in what was told last.
    is_busy: bool,
}

impl Told {
    fn next(&mut self) -> Option<Remembered> {
        let part = self.parts.pop_front();
        self.is_busy = part.is_some();
        part
    }
}

/// What the thread is told.
enum Work {
    /// A process has this lease from now on; 0 is none.
    Begin(u32, u64),
    Modules(u32, Vec<(u64, Module)>),
    Gained(u32, Gained),
}

impl Keeper {
    /// Opens a ledger, of which half is forgotten in that time, and starts the thread; `agent`: the socket of who tells other machines of it, where these are told. Nothing is kept where there is to be no ledger, or it cannot be used, which is told.
    ///
    /// # Errors
    /// Fails where there can be no such file.
    pub fn start(
        path: Option<&Path>,
        half_life: Duration,
        agent: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let (told, recalled) = unbounded_channel();
        let ledger = match path.map(|path| Ledger::open(path, half_life)) {
            Some(Ok(ledger)) => Some(ledger),
            Some(Err(error @ (StoreError::File(_) | StoreError::Rights(_)))) => {
                return Err(error.into());
            }
            Some(Err(error)) => {
                warn!("nothing is remembered: {error}");
                None
            }
            None => None,
        };
        let desk = ledger.map(|ledger| {
            let sharing = agent.map(Sharing::start).transpose()?;
            OpenDesk::start(ledger, told, sharing)
        });
        Ok(Self {
            desk: desk.transpose()?,
            recalled,
            processes: HashMap::new(),
            leases: 0,
        })
    }

    /// Whether something is kept, so that tracers are to tell what they gain.
    pub const fn keeps(&self) -> bool {
        self.desk.is_some()
    }

    /// What is not taken is learned again: nobody waits.
    fn put(&self, work: Work) {
        if let Some(desk) = &self.desk
            && desk.work.try_send(work).is_err()
        {
            debug!("the ledger's thread has too much to do, or none to do it for");
        }
    }

    /// A tracer is going to watch a process, of whose modules it knows nothing.
    pub fn begin(&mut self, pid: u32) {
        if self.keeps() {
            self.leases += 1;
            let told = Told {
                lease: self.leases,
                ..Told::default()
            };
            self.processes.insert(pid, told);
            self.put(Work::Begin(pid, self.leases));
        }
    }

    /// A process is forgotten, and what it was to be told.
    pub fn forget(&mut self, pid: u32) {
        if self.processes.remove(&pid).is_some() {
            self.put(Work::Begin(pid, 0));
        }
    }

    /// These are the modules of a process now.
    pub fn modules(&self, pid: u32, modules: &[ModuleInfo]) {
        if self.keeps() {
            let modules = modules.iter().take(MOST_MODULES);
            let named = modules.filter_map(|module| Some((module.start, named(module)?)));
            self.put(Work::Modules(pid, named.collect()));
        }
    }

    /// This was gained of one of them.
    pub fn gained(&self, pid: u32, gained: Gained) {
        self.put(Work::Gained(pid, gained));
    }

    /// Waits until something is remembered, for [`Keeper::tell`]; for ever where nothing is kept. May be given up at any time.
    pub async fn recalled(&mut self) -> Recalled {
        match self.recalled.recv().await {
            Some(recalled) => recalled,
            None => std::future::pending().await,
        }
    }

    /// Tells the tracer of a process what is remembered of its modules; of how many functions.
    pub fn tell(&mut self, recalled: Recalled, link: Option<&mut Link>) -> usize {
        let Recalled {
            pid,
            lease,
            parts,
            cpu_ns,
        } = recalled;
        let told = self.processes.get_mut(&pid);
        let (Some(told), Some(link)) = (told.filter(|told| told.lease == lease), link) else {
            return 0;
        };
        let functions = parts.iter().map(|part| part.functions.len()).sum();
        told.parts.extend(parts);
        link.charge(cpu_ns);
        if !told.is_busy {
            self.tell_more(pid, Some(link));
        }
        functions
    }

    /// The tracer of a process has taken in what it was told last.
    pub fn tell_more(&mut self, pid: u32, link: Option<&mut Link>) {
        let told = self.processes.get_mut(&pid);
        if let Some(part) = told.and_then(Told::next)
            && let Some(link) = link
        {
            link.remember(part);
        }
    }

    /// Waits until all is written, but not for long.
    pub async fn finish(self) {
        let Some(desk) = self.desk else {
            return;
        };
        drop(desk.work);
        if tokio::time::timeout(LAST_WORDS, desk.closing)
            .await
            .is_err()
        {
            warn!("the ledger takes too long: what was learned last is not in it");
        }
    }
}

impl OpenDesk {
    fn start(
        ledger: Ledger,
        told: UnboundedSender<Recalled>,
        sharing: Option<Sharing>,
    ) -> anyhow::Result<Self> {
        let (work, queue) = sync_channel(MOST_WAITING);
        let (closed, closing) = oneshot::channel();
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || {
                Desk::new(ledger, told, sharing).work(&queue);
                // Nobody waits any more where it took too long.
                let _ = closed.send(());
            })
            .map_err(|error| anyhow::anyhow!("cannot start a thread: {}", explained(&error)))?;
        Ok(Self { work, closing })
    }
}

/// What a module is known by; nothing where it has no file.
fn named(module: &ModuleInfo) -> Option<Module> {
    let name = Path::new(&module.path).file_name()?;
    let digits = module.build_id.iter();
    Some(Module {
        name: name.to_string_lossy().into_owned(),
        build: digits.map(|byte| format!("{byte:02x}")).collect(),
    })
}
