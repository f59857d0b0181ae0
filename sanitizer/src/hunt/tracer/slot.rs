//! A slot of a tracer: gates, a loader and a socket to the daemon, which watches one process after another.

use std::{
    os::{fd::AsFd as _, unix::net::UnixStream},
    time::Duration,
};

use crate::hunt::arming::Processors;
use crate::hunt::ending::FAILED;
use crate::hunt::engine::Lasting;
use crate::hunt::loader::Loader;
use crate::hunt::wire::{Notice, Outbox, Setup};
use crate::kernel::KernelError;
use crate::kernel::gates::Gates;
use crate::kernel::process::{self, Ear, WorkClock};

use super::commands::Commands;
use super::lease::{Lease, Over};

/// What a slot begins with.
pub(super) struct Slot {
    pub(super) gates: Gates,
    pub(super) socket: UnixStream,
    pub(super) ear: Ear,
    /// Why there are no gates, where there are none.
    pub(super) refusal: Option<String>,
    pub(super) trap_cost_ns: u64,
    /// How long a thread may be held.
    pub(super) deadline: Duration,
    pub(super) clock: WorkClock,
    pub(super) processors: Processors,
}

impl Slot {
    /// Watches what the daemon says until there is nothing more to be watched; the exit code.
    pub(super) fn serve(self) -> u8 {
        let Self {
            gates,
            socket,
            ear,
            refusal,
            trap_cost_ns,
            deadline,
            clock,
            processors,
        } = self;
        let Ok(mut outbox) = socket.try_clone().map(Outbox::new) else {
            // Without a descriptor there is nobody to tell.
            return FAILED;
        };
        let (gates, loader) = match start_loader(gates, &clock) {
            Ok(both) => both,
            Err(error) => {
                outbox.send(&Notice::Failed(error.to_string()));
                return FAILED;
            }
        };
        if let Some(refusal) = refusal {
            outbox.send(&Notice::WithoutGates(refusal));
        }
        let keeper = Keeper {
            commands: Commands::from(socket),
            ear,
            deadline,
            told_cpu_ns: 0,
        };
        let lasting = Lasting {
            gates,
            loader,
            trap_cost_ns,
            clock,
            processors,
        };
        keeper.keep(lasting, outbox)
    }
}

fn start_loader(mut gates: Gates, clock: &WorkClock) -> Result<(Gates, Loader), KernelError> {
    let tables = gates.take_tables().ok_or_else(|| {
        KernelError::other("starting", "the loader", "the gates' tables are taken")
    })?;
    let loader = Loader::start(tables, clock.clone())?;
    Ok((gates, loader))
}

/// A slot beside what is its lease's while there is one.
struct Keeper {
    commands: Commands,
    ear: Ear,
    deadline: Duration,
    /// CPU time that the daemon knows of, or that was sampling, ns.
    told_cpu_ns: u64,
}

impl Keeper {
    fn keep(mut self, mut lasting: Lasting, mut outbox: Outbox) -> u8 {
        loop {
            outbox.send(&Notice::Ready {
                cpu_ns: self.new_cpu_ns(&lasting.clock),
            });
            let Ok(Some(setup)) = self.commands.next_setup(&mut outbox) else {
                return 0;
            };
            let pid = setup.pid;
            lasting.clock.hand_over();
            let over = match self.lease(setup, lasting, outbox) {
                Ok(over) => over,
                Err(error) => {
                    if let Ok(socket) = self.commands.socket.try_clone() {
                        Outbox::new(socket).send(&Notice::Failed(error.to_string()));
                    }
                    return FAILED;
                }
            };
            process::wait_for_end_of_thread(over.tid);
            lasting = over.lasting;
            if let Some(code) = over.end {
                return code;
            }
            outbox = match self.commands.socket.try_clone() {
                Ok(socket) => Outbox::new(socket),
                Err(_) => return FAILED,
            };
            if self.leave(pid, &mut lasting.loader).is_err() {
                return FAILED;
            }
        }
    }

    /// CPU time that was not told yet, ns; it is now.
    fn new_cpu_ns(&mut self, clock: &WorkClock) -> u64 {
        let used = clock.pair_ns();
        used.saturating_sub(std::mem::replace(&mut self.told_cpu_ns, used))
    }

    /// Has a thread of its own watch a process, and waits for its end. Where no thread is to be had, what lasts is gone.
    fn lease(
        &mut self,
        setup: Setup,
        lasting: Lasting,
        outbox: Outbox,
    ) -> Result<Over, KernelError> {
        let failed = |cause: &dyn std::fmt::Display| {
            KernelError::other("clone", "the thread of a lease", cause.to_string())
        };
        let lease = Lease {
            commands: &mut self.commands,
            ear: &self.ear,
            deadline: self.deadline,
            told_cpu_ns: &mut self.told_cpu_ns,
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("gwp-race-lease".to_owned());
            let thread = thread.spawn_scoped(scope, || lease.watch(setup, lasting, outbox));
            let ended = thread.map_err(|cause| failed(&cause))?.join();
            ended.map_err(|_| failed(&"it has panicked"))
        })
    }

    /// Has the loader forget a process, and waits until it is there for another one; it may still read a large file. An error where the
    /// daemon does not want one, or is gone.
    fn leave(&mut self, pid: u32, loader: &mut Loader) -> Result<(), ()> {
        loader.leave(pid);
        while !loader.has_left().map_err(drop)? {
            let fds = [loader.news(), self.commands.socket.as_fd()];
            let [answer, command] = process::wait_readable(fds, None).map_err(drop)?;
            if answer {
                loader.hear();
            }
            if command {
                self.commands.read();
            }
            // What else is said is about a process that has ended.
            while self.commands.next().is_some() {}
            if self.commands.are_over {
                return Err(());
            }
        }
        Ok(())
    }
}
