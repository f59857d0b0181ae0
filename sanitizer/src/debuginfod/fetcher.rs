//! The thread that asks servers, and whoever waits for it.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};

use super::{
    asker::{Asker, Show},
    settings::Settings,
    waiting::{Haste, Outcome, Shared},
};
use crate::{
    kernel::{limits::explained, process::thread_cpu_time_ns, rights::as_caller},
    reader::Program,
    symbols::is_build_id,
};

/// A file that is wanted: the build id, and whose it is.
type Wanted = (Vec<u8>, String);

/// See the module. Files are asked for one after the other.
pub struct Fetcher {
    shared: Arc<Shared>,
    settings: Settings,
    show: Option<Show>,
    reader: Program,
    work: Option<mpsc::Sender<Wanted>>,
}

impl Fetcher {
    /// The thread is started when it is first needed. `reader`: what reads the headers of files that come.
    #[must_use]
    pub fn new(settings: Settings, show: Option<Show>, reader: Program) -> Self {
        Self {
            shared: Arc::default(),
            settings,
            show,
            reader,
            work: None,
        }
    }

    /// For another thread.
    #[must_use]
    pub fn haste(&self) -> Haste {
        Haste(Arc::clone(&self.shared))
    }

    /// CPU time that was used to fetch files, ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.shared.lock().cpu_ns
    }

    /// Whether it is known that a file cannot be had.
    #[must_use]
    pub fn is_absent(&self, build_id: &[u8]) -> bool {
        let outcome = self.shared.lock().outcomes.get(build_id).copied();
        outcome.is_some_and(|outcome| outcome.is_absent(Instant::now()))
    }

    /// Whether the debug file of a build id is in the cache, once it is known whether it can be had. `of`: the module, for messages. Each file that cannot be had is
    /// told once, and asked for again when that is some time ago.
    pub fn have(&mut self, build_id: &[u8], of: &str) -> bool {
        if !is_build_id(build_id) {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let known = state.outcomes.get(build_id);
        let is_asked = known.is_none_or(|outcome| outcome.is_old(Instant::now()));
        if is_asked && !state.is_over() && !state.is_stuck {
            state.outcomes.insert(build_id.to_vec(), Outcome::Awaited);
            drop(state);
            self.ask((build_id.to_vec(), of.to_owned()));
            state = shared.lock();
        }
        let longest = self.settings.longest();
        let until = longest.and_then(|longest| Instant::now().checked_add(longest));
        loop {
            match state.outcomes.get(build_id) {
                Some(Outcome::There) => return true,
                Some(Outcome::Absent(_)) => return false,
                Some(Outcome::Awaited) | None => {}
            }
            let is_late = until.is_some_and(|until| until <= Instant::now());
            state.is_stuck |= is_late;
            let why = if state.is_over() {
                "had not come when watching had ended, so its frames have no lines; watch for longer, or get it beforehand"
            } else if state.is_stuck {
                "is not waited for any longer, so its frames have no lines: the disk of the cache does not answer; set DEBUGINFOD_CACHE_PATH to a folder on another one"
            } else {
                state = shared.wait(state, until);
                continue;
            };
            let absent = Outcome::Absent(Instant::now());
            state.outcomes.insert(build_id.to_vec(), absent);
            drop(state);
            tracing::warn!("debug information of {of} {why}");
            return false;
        }
    }

    /// Has the thread ask for a file.
    fn ask(&mut self, wanted: Wanted) {
        if self.work.is_none() {
            match self.start() {
                Ok(work) => self.work = Some(work),
                Err(error) => tracing::warn!(
                    "servers of DEBUGINFOD_URLS are not asked, as no thread can be started: {}",
                    explained(&error)
                ),
            }
        }
        let build_id = wanted.0.clone();
        let sent = self.work.as_ref().map(|work| work.send(wanted));
        if !matches!(sent, Some(Ok(()))) {
            let absent = Outcome::Absent(Instant::now());
            self.shared.lock().outcomes.insert(build_id, absent);
        }
    }

    fn start(&mut self) -> io::Result<mpsc::Sender<Wanted>> {
        let (work, queue) = mpsc::channel::<Wanted>();
        let shared = Arc::clone(&self.shared);
        let mut asker = Asker::new(self.settings.clone(), self.show.take(), self.reader.clone());
        thread::Builder::new()
            .name("debuginfod".to_owned())
            .spawn(move || {
                let _end = End(&shared);
                for (build_id, of) in queue {
                    let found = as_caller(|| {
                        let found = asker.fetch(&shared, &build_id, &of);
                        asker.rest();
                        found
                    });
                    let found = found.unwrap_or_else(|error| {
                        tracing::warn!("servers of DEBUGINFOD_URLS are not asked: {error}");
                        false
                    });
                    let outcome = match found {
                        true => Outcome::There,
                        false => Outcome::Absent(Instant::now()),
                    };
                    let mut state = shared.lock();
                    state.outcomes.insert(build_id, outcome);
                    state.is_stuck = false;
                    state.cpu_ns = thread_cpu_time_ns() + asker.cpu_ns_of_readers();
                    drop(state);
                    shared.changed.notify_all();
                }
            })?;
        Ok(work)
    }

    /// Nothing more is wanted: what has not come to its end is gone.
    pub fn end(&mut self) {
        self.work = None;
        self.haste().discard();
    }
}

/// Nobody waits for a thread that has come to its end, however that was.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        for outcome in self.0.lock().outcomes.values_mut() {
            if *outcome == Outcome::Awaited {
                *outcome = Outcome::Absent(Instant::now());
            }
        }
        self.0.changed.notify_all();
    }
}
