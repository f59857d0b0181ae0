//! What `--ledger` keeps. A thread of its own reads and writes it, so that a slow disk delays nothing else. What is wrong with it is told, and nothing is remembered then: it is
//! no reason not to watch.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::{mpsc::UnboundedSender, oneshot};
use tracing::{debug, warn};

use super::Session;
use crate::{
    hunt::memory::{Gained, Remembered},
    kernel::{limits::explained, process::thread_cpu_time_ns},
    ledger::{Gains, Ledger, Module},
    report::finding::ModuleInfo,
    store::{StoreError, millis},
};

/// Messages that wait for the thread, at most: beyond that something is forgotten.
const MOST_WAITING: usize = 4096;
/// How often it is written.
const PERIOD: Duration = Duration::from_secs(10);
/// How long the last of it may take.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Modules of a process that are kept apart.
const MOST_MODULES: usize = 4096;

/// What is remembered of the modules of a process.
pub(super) struct Recalled {
    pid: u32,
    /// The lease of the process that has asked.
    lease: u64,
    parts: Vec<Remembered>,
    cpu_ns: u64,
}

/// See the module.
pub(super) struct Keeper {
    work: SyncSender<Work>,
    closing: oneshot::Receiver<()>,
    processes: HashMap<u32, Told>,
    leases: u64,
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

enum Work {
    Begin(u32, u64),
    Modules(u32, Vec<(u64, Module)>),
    Gained(u32, Gained),
}

impl Keeper {
    /// Opens the ledger and starts the thread; nothing where it cannot be used, which is told.
    ///
    /// # Errors
    /// Fails where there can be no such file.
    pub(super) fn start(
        path: &Path,
        told: UnboundedSender<Recalled>,
    ) -> anyhow::Result<Option<Self>> {
        let ledger = match Ledger::open(path) {
            Ok(ledger) => ledger,
            Err(error @ (StoreError::File(_) | StoreError::Rights(_))) => return Err(error.into()),
            Err(error) => {
                warn!("nothing is remembered: {error}");
                return Ok(None);
            }
        };
        let (work, queue) = sync_channel(MOST_WAITING);
        let (closed, closing) = oneshot::channel();
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || {
                Desk::new(ledger, told).work(&queue);
                // Nobody waits any more where it took too long.
                let _ = closed.send(());
            })
            .map_err(|error| anyhow::anyhow!("cannot start a thread: {}", explained(&error)))?;
        Ok(Some(Self {
            work,
            closing,
            processes: HashMap::new(),
            leases: 0,
        }))
    }

    /// What is not taken is learned again: nobody waits.
    fn put(&self, work: Work) {
        if self.work.try_send(work).is_err() {
            debug!("the ledger's thread has too much to do, or none to do it for");
        }
    }

    /// A tracer is going to watch a process, of whose modules it knows nothing.
    pub(super) fn begin(&mut self, pid: u32) {
        self.leases += 1;
        let told = Told {
            lease: self.leases,
            ..Told::default()
        };
        self.processes.insert(pid, told);
        self.put(Work::Begin(pid, self.leases));
    }

    /// A process is forgotten.
    pub(super) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
        self.put(Work::Begin(pid, 0));
    }

    /// These are the modules of a process now.
    pub(super) fn modules(&mut self, pid: u32, modules: &[ModuleInfo]) {
        let modules = modules.iter().take(MOST_MODULES);
        let named = modules.filter_map(|module| Some((module.start, named(module)?)));
        self.put(Work::Modules(pid, named.collect()));
    }

    /// This was gained of one of them.
    pub(super) fn gained(&self, pid: u32, gained: Gained) {
        self.put(Work::Gained(pid, gained));
    }

    /// Waits until all is written, but not for long.
    pub(super) async fn finish(self) {
        drop(self.work);
        if tokio::time::timeout(LAST_WORDS, self.closing)
            .await
            .is_err()
        {
            warn!("the ledger takes too long: what was learned last is not in it");
        }
    }
}

impl Session {
    /// Tells the tracer of a process what is remembered of its modules.
    pub(super) fn remember(&mut self, recalled: Recalled) {
        let Recalled {
            pid,
            lease,
            parts,
            cpu_ns,
        } = recalled;
        let ledger = self.ledger.as_mut();
        let told = ledger.and_then(|ledger| ledger.processes.get_mut(&pid));
        let Some(told) = told.filter(|told| told.lease == lease) else {
            return;
        };
        told.parts.extend(parts);
        let is_busy = told.is_busy;
        if let Some(link) = self.link_of(pid) {
            link.charge(cpu_ns);
        }
        if !is_busy {
            self.remember_more(pid);
        }
    }

    /// The tracer of a process has taken in what it was told last.
    pub(super) fn remember_more(&mut self, pid: u32) {
        let ledger = self.ledger.as_mut();
        let told = ledger.and_then(|ledger| ledger.processes.get_mut(&pid));
        if let Some(part) = told.and_then(Told::next)
            && let Some(link) = self.link_of(pid)
        {
            link.remember(part);
        }
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

/// The thread's.
struct Desk {
    ledger: Ledger,
    told: UnboundedSender<Recalled>,
    processes: HashMap<u32, Mapped>,
    gains: Gains,
    written: Instant,
    /// It could not be used, which was told.
    fails: bool,
    /// That there are records which are none was told.
    wrong_is_told: bool,
}

/// The modules of a process.
#[derive(Default)]
struct Mapped {
    lease: u64,
    modules: BTreeMap<u64, Module>,
    /// Where those begin of which something was told.
    told: BTreeSet<u64>,
}

impl Desk {
    fn new(ledger: Ledger, told: UnboundedSender<Recalled>) -> Self {
        Self {
            ledger,
            told,
            processes: HashMap::new(),
            gains: Gains::default(),
            written: Instant::now(),
            fails: false,
            wrong_is_told: false,
        }
    }

    fn work(mut self, queue: &Receiver<Work>) {
        loop {
            let wait = PERIOD.saturating_sub(self.written.elapsed());
            match queue.recv_timeout(wait) {
                Ok(Work::Begin(pid, 0)) => drop(self.processes.remove(&pid)),
                Ok(Work::Begin(pid, lease)) => {
                    let mapped = Mapped {
                        lease,
                        ..Mapped::default()
                    };
                    self.processes.insert(pid, mapped);
                }
                Ok(Work::Modules(pid, modules)) => self.recall(pid, modules),
                Ok(Work::Gained(pid, gained)) => self.gain(pid, gained),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.written.elapsed() >= PERIOD {
                self.write();
            }
        }
        self.write();
    }

    /// Tells what is remembered of the modules that were not there before.
    fn recall(&mut self, pid: u32, modules: Vec<(u64, Module)>) {
        let begun = thread_cpu_time_ns();
        // Another process may have shown it just now.
        self.write();
        let Some(mapped) = self.processes.get_mut(&pid) else {
            return;
        };
        let before = std::mem::replace(&mut mapped.modules, modules.into_iter().collect());
        let mut parts = Vec::new();
        for (start, module) in &mapped.modules {
            if before.get(start) == Some(module) {
                continue;
            }
            let found = self.ledger.remembered(module, millis(SystemTime::now()));
            let (all, wrong) = match found {
                Ok(found) => found,
                Err(error) => {
                    if !std::mem::replace(&mut self.fails, true) {
                        warn!("nothing is remembered: {error}");
                    }
                    return;
                }
            };
            if wrong > 0 && !std::mem::replace(&mut self.wrong_is_told, true) {
                warn!(
                    "{wrong} records of the ledger are none, and are left out; it was changed by another program, or is damaged: delete it to begin a new one"
                );
            }
            let is_known = all.iter().any(|(_, functions)| !functions.is_empty());
            if is_known || mapped.told.contains(start) {
                mapped.told.insert(*start);
                parts.extend(Remembered::in_parts(*start, all));
            }
        }
        let recalled = Recalled {
            pid,
            lease: mapped.lease,
            cpu_ns: thread_cpu_time_ns().saturating_sub(begun),
            parts,
        };
        // The session may be over.
        let _ = self.told.send(recalled);
    }

    fn gain(&mut self, pid: u32, gained: Gained) {
        let mapped = self.processes.get(&pid);
        let module = mapped.and_then(|mapped| mapped.modules.get(&gained.module));
        if let Some(module) = module {
            self.gains.add(module, gained.functions, gained.is_whole);
        }
    }

    fn write(&mut self) {
        self.written = Instant::now();
        let gains = std::mem::take(&mut self.gains);
        if gains.is_empty() {
            return;
        }
        match self.ledger.add(&gains, millis(SystemTime::now())) {
            Ok(()) => self.fails = false,
            Err(error) => {
                // It is told once, until it works again.
                if !std::mem::replace(&mut self.fails, true) {
                    warn!("what was learned is not kept: {error}");
                }
            }
        }
    }
}
