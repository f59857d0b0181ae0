//! The thread that makes files of hints. It has the store open by itself, so that who asks keeps nobody waiting who sends.

use std::{
    collections::HashMap,
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use axum::body::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::HintFile;
use crate::{
    learned::Module,
    store::{Store, StoreError, digest_of_bytes, millis},
};

/// Who waits for a file, at most: others are to ask again later.
const MOST_WAITING: usize = 64;
/// Files that are kept.
const MOST_KEPT: usize = 64;

/// A file.
#[derive(Debug, PartialEq, Eq)]
pub struct Made {
    /// Tells it from others.
    pub tag: String,
    /// What is in it: of many who ask none has a copy of his own.
    pub body: Bytes,
}

/// What there is to say of a build.
#[derive(Clone, Debug)]
pub enum Told {
    /// This was learned of it.
    File(Arc<Made>),
    /// Nobody has learned anything of it.
    Nothing,
    /// It cannot be said now.
    Later,
}

/// The file of a build, by what a store has at a time, milliseconds since 1970; nothing where it has nothing.
///
/// # Errors
/// The store cannot be read.
pub fn made(store: &mut Store, module: &Module, now: i64) -> Result<Option<Made>, StoreError> {
    let functions = store.learned(module, now)?;
    if functions.is_empty() {
        return Ok(None);
    }
    let file = HintFile {
        module: module.clone(),
        functions,
    };
    let body = file.encode();
    Ok(Some(Made {
        tag: digest_of_bytes(&body),
        body: body.into(),
    }))
}

/// Who asks.
struct Asked {
    module: Module,
    answer: oneshot::Sender<Told>,
}

/// Asks the thread. It ends when all of these are gone.
#[derive(Clone)]
pub struct Hints(mpsc::Sender<Asked>);

impl Hints {
    /// Starts the thread, which keeps a file for so long: what hosts send meanwhile is in the next one.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(store: Store, kept_for: Duration) -> io::Result<(Self, thread::JoinHandle<()>)> {
        let (sender, asked) = mpsc::channel(MOST_WAITING);
        let mut desk = Desk {
            store,
            kept_for,
            kept: HashMap::new(),
            fails: false,
        };
        let thread = thread::Builder::new().name("hints".to_owned());
        let thread = thread.spawn(move || desk.go_on(asked))?;
        Ok((Self(sender), thread))
    }

    /// What there is to say of a build.
    pub(in crate::delivery) async fn of(&self, module: Module) -> Told {
        let (answer, answered) = oneshot::channel();
        match self.0.try_send(Asked { module, answer }) {
            Ok(()) => answered.await.unwrap_or(Told::Later),
            Err(_) => Told::Later,
        }
    }
}

/// What the thread has.
struct Desk {
    store: Store,
    kept_for: Duration,
    kept: HashMap<Module, (Instant, Arc<Made>)>,
    /// The store cannot be read, which was told.
    fails: bool,
}

impl Desk {
    fn go_on(&mut self, mut asked: mpsc::Receiver<Asked>) {
        while let Some(Asked { module, answer }) = asked.blocking_recv() {
            // He may have gone.
            if !answer.is_closed() {
                let _ = answer.send(self.of(module));
            }
        }
    }

    fn of(&mut self, module: Module) -> Told {
        let now = Instant::now();
        if let Some((since, made)) = self.kept.get(&module)
            && now.saturating_duration_since(*since) < self.kept_for
        {
            return Told::File(Arc::clone(made));
        }
        match made(&mut self.store, &module, millis(SystemTime::now())) {
            Ok(Some(made)) => {
                self.fails = false;
                let made = Arc::new(made);
                self.make_room(now);
                self.kept.insert(module, (now, Arc::clone(&made)));
                Told::File(made)
            }
            Ok(None) => {
                self.fails = false;
                self.kept.remove(&module);
                Told::Nothing
            }
            Err(error) => {
                if !std::mem::replace(&mut self.fails, true) {
                    tracing::warn!("hosts are not told now what others have learned: {error}");
                }
                Told::Later
            }
        }
    }

    fn make_room(&mut self, now: Instant) {
        let kept_for = self.kept_for;
        self.kept
            .retain(|_, (since, _)| now.saturating_duration_since(*since) < kept_for);
        if self.kept.len() >= MOST_KEPT {
            let oldest = self.kept.iter().min_by_key(|(_, (since, _))| *since);
            if let Some(module) = oldest.map(|(module, _)| module.clone()) {
                self.kept.remove(&module);
            }
        }
    }
}
