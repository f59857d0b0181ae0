//! What the daemon says to a tracer.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::hunt::wire::{self, Command, Outbox, Setup};
use crate::kernel::{KernelError, process};

/// What the daemon says.
pub(super) struct Commands {
    pub(super) socket: UnixStream,
    pending: Vec<u8>,
    /// It has said that this is the end, or is gone.
    pub(super) are_over: bool,
}

impl Commands {
    /// Those that come through a non-blocking socket.
    pub(super) const fn from(socket: UnixStream) -> Self {
        Self {
            socket,
            pending: Vec::new(),
            are_over: false,
        }
    }

    /// Reads what has come.
    pub(super) fn read(&mut self) {
        let mut chunk = [0; 512];
        loop {
            match self.socket.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => self
                    .pending
                    .extend_from_slice(chunk.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.are_over = true;
    }

    /// The next one.
    pub(super) fn next(&mut self) -> Option<Command> {
        let command = wire::decode(&mut self.pending).unwrap_or_default();
        self.are_over |= matches!(command, Some(Command::Stop));
        command
    }

    /// Waits for a process to watch, and tells meanwhile what is still to be told; `None` where there will be none.
    pub(super) fn next_setup(&mut self, outbox: &mut Outbox) -> Result<Option<Setup>, KernelError> {
        /// How often that is tried.
        const PATIENCE: Duration = Duration::from_millis(100);
        loop {
            while let Some(command) = self.next() {
                // What else is said is about a process that has ended.
                if let Command::Watch(setup) = command {
                    return Ok(Some(*setup));
                }
            }
            if self.are_over {
                return Ok(None);
            }
            outbox.flush();
            let limit = outbox.is_pending().then_some(PATIENCE);
            let [command] = process::wait_readable([self.socket.as_fd()], limit)?;
            if command {
                self.read();
            }
        }
    }
}
