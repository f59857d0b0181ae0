//! The thread that reads and writes the ledger.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use super::{
    Recalled, Work,
    sharing::{Found, Sharing, Told},
};
use crate::{
    hunt::memory::{Gained, Remembered},
    kernel::process::thread_cpu_time_ns,
    ledger::{Gains, Ledger, Module},
    outbox::Wanted,
    store::millis,
};

/// How often it is written.
const PERIOD: Duration = Duration::from_secs(10);

/// It is told anew so often that a build still runs here; of so many builds it is known when it was told.
const TOLD_FOR: Duration = Duration::from_secs(600);
const MOST_TOLD: usize = 1024;

/// See the module.
pub(super) struct Desk {
    ledger: Ledger,
    told: UnboundedSender<Recalled>,
    processes: HashMap<u32, Mapped>,
    gains: Gains,
    /// Who tells other machines, and is told by them.
    sharing: Option<Sharing>,
    /// When he was told of a build that it runs here.
    running: HashMap<Module, Instant>,
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
    /// A desk for a ledger, which tells what is remembered.
    pub(super) fn new(
        ledger: Ledger,
        told: UnboundedSender<Recalled>,
        sharing: Option<Sharing>,
    ) -> Self {
        Self {
            ledger,
            told,
            processes: HashMap::new(),
            gains: Gains::default(),
            sharing,
            running: HashMap::new(),
            written: Instant::now(),
            fails: false,
            wrong_is_told: false,
        }
    }

    /// Does what comes, until nobody can send more.
    pub(super) fn work(mut self, queue: &Receiver<Work>) {
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
                self.take_hints();
            }
        }
        self.write();
        if let Some(sharing) = self.sharing {
            sharing.end();
        }
    }

    /// Takes in what other machines have learned, if something has come.
    fn take_hints(&mut self) {
        let Some(sharing) = &self.sharing else {
            return;
        };
        while let Some(Found {
            module,
            tag,
            functions,
        }) = sharing.found()
        {
            let now = millis(SystemTime::now());
            let taken = self.ledger.take_hints(&module, &tag, &functions, now);
            if let Err(error) = taken
                && !std::mem::replace(&mut self.fails, true)
            {
                warn!("what other machines have learned is not kept: {error}");
            }
        }
    }

    /// A build that carries metadata runs here.
    fn runs(&mut self, module: &Module) {
        let Some(sharing) = &self.sharing else {
            return;
        };
        let is_told = self.running.get(module);
        if is_told.is_some_and(|told| told.elapsed() < TOLD_FOR) || !module.can_be_shared() {
            return;
        }
        if self.running.len() >= MOST_TOLD {
            self.running.clear();
        }
        self.running.insert(module.clone(), Instant::now());
        let tag = self.ledger.hint_tag(module).ok().flatten();
        sharing.tell(Told::Runs(Wanted {
            module: module.clone(),
            tag: tag.unwrap_or_default(),
        }));
    }

    /// Tells what is remembered of the modules that were not there before.
    fn recall(&mut self, pid: u32, modules: Vec<(u64, Module)>) {
        let begun = thread_cpu_time_ns();
        // Another process may have shown it just now.
        self.write();
        self.take_hints();
        let Some(mapped) = self.processes.get_mut(&pid) else {
            return;
        };
        let before = std::mem::replace(&mut mapped.modules, modules.into_iter().collect());
        let mut parts = Vec::new();
        let mut running = Vec::new();
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
                running.push(module.clone());
                parts.extend(Remembered::in_parts(*start, all));
            }
        }
        let recalled = Recalled {
            pid,
            lease: mapped.lease,
            cpu_ns: thread_cpu_time_ns().saturating_sub(begun),
            parts,
        };
        // Nobody may be left who wants to know.
        let _ = self.told.send(recalled);
        for module in running {
            self.runs(&module);
        }
    }

    fn gain(&mut self, pid: u32, gained: Gained) {
        let mapped = self.processes.get(&pid);
        let module = mapped.and_then(|mapped| mapped.modules.get(&gained.module));
        if let Some(module) = module.cloned() {
            self.gains.add(&module, gained.functions, gained.is_whole);
            self.runs(&module);
        }
    }

    fn write(&mut self) {
        self.written = Instant::now();
        let gains = std::mem::take(&mut self.gains);
        if gains.is_empty() {
            return;
        }
        match self.ledger.add(&gains, millis(SystemTime::now())) {
            Ok(()) => {
                self.fails = false;
                if let Some(sharing) = &self.sharing {
                    sharing.tell(Told::Gained(gains));
                }
            }
            Err(error) => {
                // It is told once, until it works again.
                if !std::mem::replace(&mut self.fails, true) {
                    warn!("what was learned is not kept: {error}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::{
        hunt::memory::{KnownFunction, Of},
        ledger::HALF_LIFE,
    };

    /// Where the module begins in each of the processes.
    const STARTS: [u64; 2] = [0x1000, 0x5000];

    /// Check that what one process has shown is remembered for another one of the same build at once: it was in no file before, and is when that one is told, long before it would have been written by itself.
    #[test]
    fn others_of_a_build_are_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let module = Module {
            name: "app".to_owned(),
            build: "aa".to_owned(),
        };
        let function = KnownFunction {
            at: 16,
            fingerprint: 1,
            sites: vec![(4, vec![(0, 8.0)])],
            raced: Vec::new(),
        };
        let (told, mut recalled) = unbounded_channel();
        let ledger = Ledger::open(&path, HALF_LIFE).unwrap();
        let mut desk = Desk::new(ledger, told, None);
        let mut kept = Ledger::open(&path, HALF_LIFE).unwrap();
        let now = millis(SystemTime::now());
        let mut is_kept = || {
            let (all, _) = kept.remembered(&module, now).unwrap();
            all.iter().any(|(_, functions)| !functions.is_empty())
        };
        for (pid, start) in (1..).zip(STARTS) {
            let mapped = Mapped {
                lease: pid.into(),
                ..Mapped::default()
            };
            desk.processes.insert(pid, mapped);
            assert!(!is_kept(), "of process {pid}");
            desk.recall(pid, vec![(start, module.clone())]);
            let recalled = recalled.try_recv().unwrap();
            let functions: Vec<_> = recalled
                .parts
                .iter()
                .filter(|part| part.of == Of::Same && part.module == start)
                .flat_map(|part| &part.functions)
                .map(|known| (known.at, known.fingerprint))
                .collect();
            let wanted = if pid == 1 { vec![] } else { vec![(16, 1)] };
            assert_eq!((recalled.pid, functions), (pid, wanted));
            let gained = Gained {
                module: start,
                functions: vec![function.clone()],
                is_whole: false,
            };
            if pid == 1 {
                desk.gain(pid, gained);
            }
        }
        assert!(is_kept());
    }
}
