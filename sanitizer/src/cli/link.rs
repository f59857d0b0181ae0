//! A tracer process as the daemon sees it.

use std::{
    io::Write as _,
    os::{fd::OwnedFd, unix::net::UnixStream as StdStream},
    process::Stdio,
};

use anyhow::anyhow;
use tokio::{
    io::AsyncReadExt as _,
    net::UnixStream,
    process::{Child, Command},
    sync::mpsc,
};

use crate::{
    hunt::wire::{self, Notice, Preparation, Setup},
    kernel::limits::{explained, met},
};

/// Tells the tracers of a session apart.
pub type LinkId = u64;

/// What comes from a tracer.
#[derive(Debug)]
pub enum Message {
    /// It says something.
    Notice(Box<Notice>),
    /// It is gone.
    Gone,
}

/// A running tracer.
#[derive(Debug)]
pub struct Link {
    socket: StdStream,
    child: Child,
}

impl Link {
    /// Starts a tracer, which makes itself ready; what it says comes through `messages` with its id.
    ///
    /// # Errors
    /// Fails when no process can be started.
    pub fn start(
        id: LinkId,
        preparation: &Preparation,
        messages: mpsc::Sender<(LinkId, Message)>,
    ) -> anyhow::Result<Self> {
        let (ours, theirs) = StdStream::pair()
            .map_err(|error| anyhow!("cannot make a socket pair: {}", explained(&error)))?;
        let child = Command::new("/proc/self/exe")
            .arg0("gwp-race")
            .arg("__tracer")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // A terminal's Ctrl-C is for the target and the daemon.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| anyhow!("cannot start the tracer: {}", explained(&error)))?;
        let mut socket = ours.try_clone()?;
        socket.write_all(&wire::encode(preparation)?)?;
        ours.set_nonblocking(true)?;
        let reader = UnixStream::from_std(ours)?;
        tokio::spawn(read(id, reader, messages));
        Ok(Self { socket, child })
    }

    /// Lets the tracer watch a process, as soon as it can.
    pub fn watch(&mut self, setup: Setup) {
        self.tell(&wire::Command::Watch(Box::new(setup)));
    }

    /// Tells the tracer to disarm and release its target, if it has one, and to end.
    pub fn stop(&mut self) {
        self.tell(&wire::Command::Stop);
    }

    /// Tells the tracer what its target's races have cost to explain.
    pub fn charge(&mut self, cpu_ns: u64) {
        self.tell(&wire::Command::Charge(cpu_ns));
    }

    /// Tells the tracer whether other processes are watched as well.
    pub fn has_company(&mut self, has: bool) {
        self.tell(&wire::Command::Company(has));
    }

    /// Tells the tracer that a race was dropped.
    pub fn tell_again(&mut self) {
        self.tell(&wire::Command::TellAgain);
    }

    /// Tells the tracer that a race which it has told is none.
    pub fn refute(&mut self, refuted: wire::Refuted) {
        self.tell(&wire::Command::Refuted(refuted));
    }

    fn tell(&mut self, command: &wire::Command) {
        if let Ok(frame) = wire::encode(command) {
            // A tracer that is gone has released everything already.
            let _ = self.socket.write_all(&frame);
        }
    }

    /// Kills the tracer, which releases its target at once.
    pub fn kill(&mut self) {
        let _ = self.child.start_kill();
    }

    /// Waits for the end of the tracer and its watchdog, by which all is released: its exit code,
    /// if it has one.
    pub async fn ended(&mut self) -> Option<i32> {
        self.child.wait().await.ok()?.code()
    }
}

async fn read(id: LinkId, mut socket: UnixStream, messages: mpsc::Sender<(LinkId, Message)>) {
    let mut buffer = Vec::new();
    loop {
        loop {
            match wire::decode::<Notice>(&mut buffer) {
                Ok(Some(notice)) => {
                    let message = Message::Notice(Box::new(notice));
                    if messages.send((id, message)).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let text = format!("the tracer speaks another version: {error}");
                    let message = Message::Notice(Box::new(Notice::Failed(text)));
                    let _ = messages.send((id, message)).await;
                    let _ = messages.send((id, Message::Gone)).await;
                    return;
                }
            }
        }
        match socket.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let _ = messages.send((id, Message::Gone)).await;
}

/// What is said of a tracer that has not said anything itself, by the exit code of its watchdog.
#[must_use]
pub fn tracer_died(code: Option<i32>) -> String {
    let how = match code {
        Some(code @ 129..) => format!("by signal {}", code - 128),
        Some(code) => format!("with exit code {code}"),
        None => "with its watchdog".to_owned(),
    };
    // By the kernel, by itself where it could get none (Rust aborts then), or where its stack could not grow.
    let is_memory = matches!(code, Some(134 | 137 | 139) | None);
    let why = if is_memory {
        let limits = met(libc::ENOMEM).unwrap_or_default();
        format!("it may have wanted more memory than it could get: {limits}")
    } else {
        "that is a fault of gwp-race's: please report it, with what -v says".to_owned()
    };
    format!("the tracer has died ({how}), and so released the process; {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that memory is blamed for those deaths alone that come of it.
    #[test]
    fn deaths_have_their_reason() {
        for signal in [libc::SIGKILL, libc::SIGABRT, libc::SIGSEGV] {
            let told = tracer_died(Some(128 + signal));
            assert!(told.contains("memory"), "{told}");
        }
        for code in [1, 101, 128 + libc::SIGBUS, 128 + libc::SIGILL] {
            let told = tracer_died(Some(code));
            assert!(
                !told.contains("memory") && told.contains("report it"),
                "{told}"
            );
        }
    }
}
