//! The loader: looks at the target's modules on a thread of its own.
//!
//! Reading a large file takes its time, and filling the gates' tables waits for every processor
//! (RCU). Meanwhile the engine's thread must be there for the target's threads, some of which may
//! stand still until it passes their signals on. So it asks, goes on, and is told.

use std::{
    os::fd::{AsFd as _, BorrowedFd},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError},
    },
    time::Duration,
};

use super::modules::{Changes, ModuleSet, RefreshError};
use crate::kernel::{
    KernelError, fault,
    process::{self, Bell, Urgency},
    tables::Tables,
};

/// What a look has shown: all modules, and what is new since the look before.
pub type Look = Result<(Arc<ModuleSet>, Changes), RefreshError>;

struct Request {
    ticket: u64,
    pid: u32,
    anew: bool,
}

struct Answer {
    ticket: u64,
    look: Look,
}

/// See the module.
pub struct Loader {
    requests: Sender<Request>,
    answers: Receiver<Answer>,
    bell: Arc<Bell>,
    /// Of the last request: earlier ones are of no interest any more.
    ticket: u64,
}

impl Loader {
    /// Starts the thread. It ends when this is dropped.
    ///
    /// # Errors
    /// Fails where no thread or eventfd(2) can be had.
    pub fn start(tables: Tables) -> Result<Self, KernelError> {
        let bell = Arc::new(Bell::new()?);
        fault::before("clone", || "the loader's thread".to_owned())?;
        let (requests, asked) = mpsc::channel();
        let (told, answers) = mpsc::channel();
        let ring = Arc::clone(&bell);
        std::thread::Builder::new()
            .name("gwp-race-loader".to_owned())
            .spawn(move || {
                process::hurry(Urgency::Usual);
                serve(tables, &asked, &told, &ring);
            })
            .map_err(|cause| KernelError::other("clone", "the loader's thread", cause))?;
        Ok(Self {
            requests,
            answers,
            bell,
            ticket: 0,
        })
    }

    /// Asks for a look at a process; what was asked before is not answered any more. `anew`: it
    /// has executed another program, so that nothing is as it was.
    pub fn look(&mut self, pid: u32, anew: bool) {
        self.ticket += 1;
        // The thread lives as long as `self`; if it has panicked, no answer comes.
        let _ = self.requests.send(Request {
            ticket: self.ticket,
            pid,
            anew,
        });
    }

    /// Readable when an answer may have come.
    #[must_use]
    pub fn news(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The answer to the last request, if it has come.
    #[must_use]
    pub fn answer(&self) -> Option<Look> {
        self.bell.silence();
        self.next_answer(|| {
            self.answers.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            })
        })
    }

    /// The answer to the last request, if it comes within this time.
    #[must_use]
    pub fn answer_within(&self, limit: Duration) -> Option<Look> {
        self.next_answer(|| self.answers.recv_timeout(limit))
    }

    fn next_answer(&self, receive: impl Fn() -> Result<Answer, RecvTimeoutError>) -> Option<Look> {
        loop {
            match receive() {
                Ok(answer) if answer.ticket == self.ticket => return Some(answer.look),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    let error =
                        KernelError::other("reading", "the modules", "the loader has ended");
                    return Some(Err(error.into()));
                }
            }
        }
    }
}

fn serve(mut tables: Tables, asked: &Receiver<Request>, told: &Sender<Answer>, ring: &Bell) {
    let mut modules = ModuleSet::default();
    while let Ok(Request { ticket, pid, anew }) = asked.recv() {
        if anew {
            modules.unload(&mut tables);
        }
        let look = modules.refresh(pid, &mut tables).map(|mut changes| {
            changes.unloaded |= anew;
            (Arc::new(modules.clone()), changes)
        });
        if told.send(Answer { ticket, look }).is_err() {
            return;
        }
        ring.ring();
    }
}
