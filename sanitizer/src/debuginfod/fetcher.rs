//! The thread that asks servers, and whoever waits for it.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
};

use super::{
    asker::{Asker, Show},
    settings::Settings,
    waiting::{Haste, Shared},
};
use crate::{
    kernel::{limits::explained, process::thread_cpu_time_ns, rights::as_caller},
    symbols::is_build_id,
};

/// A file that is wanted: the build id, and whose it is.
type Wanted = (Vec<u8>, String);

/// See the module. Files are asked for one after the other, each once.
pub struct Fetcher {
    shared: Arc<Shared>,
    settings: Settings,
    show: Option<Show>,
    work: Option<mpsc::Sender<Wanted>>,
}

impl Fetcher {
    /// The thread is started when it is first needed.
    #[must_use]
    pub fn new(settings: Settings, show: Option<Show>) -> Self {
        Self {
            shared: Arc::default(),
            settings,
            show,
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
        self.shared.lock().outcomes.get(build_id) == Some(&Some(false))
    }

    /// Whether the debug file of a build id is in the cache, once it is known whether it can be had. `of`: the module, for messages. Each file that cannot be had is
    /// told once.
    pub fn have(&mut self, build_id: &[u8], of: &str) -> bool {
        if !is_build_id(build_id) {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if !state.outcomes.contains_key(build_id) && !state.is_over() {
            state.outcomes.insert(build_id.to_vec(), None);
            drop(state);
            self.ask((build_id.to_vec(), of.to_owned()));
            state = shared.lock();
        }
        loop {
            if let Some(Some(found)) = state.outcomes.get(build_id) {
                return *found;
            }
            if state.is_over() {
                state.outcomes.insert(build_id.to_vec(), Some(false));
                drop(state);
                tracing::warn!(
                    "debug information of {of} had not come when watching had ended, so its frames have no lines; watch for longer, or get it \
                     beforehand"
                );
                return false;
            }
            state = shared.wait(state);
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
            self.shared.lock().outcomes.insert(build_id, Some(false));
        }
    }

    fn start(&mut self) -> io::Result<mpsc::Sender<Wanted>> {
        let (work, queue) = mpsc::channel::<Wanted>();
        let shared = Arc::clone(&self.shared);
        let mut asker = Asker::new(self.settings.clone(), self.show.take());
        thread::Builder::new()
            .name("debuginfod".to_owned())
            .spawn(move || {
                let _end = End(&shared);
                for (build_id, of) in queue {
                    let found = as_caller(|| asker.fetch(&shared, &build_id, &of));
                    let found = found.unwrap_or_else(|error| {
                        tracing::warn!("servers of DEBUGINFOD_URLS are not asked: {error}");
                        false
                    });
                    let mut state = shared.lock();
                    state.outcomes.insert(build_id, Some(found));
                    state.cpu_ns = thread_cpu_time_ns();
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
            outcome.get_or_insert(false);
        }
        self.0.changed.notify_all();
    }
}
