//! A tracer process as the daemon sees it.

use std::{
    io::Write as _,
    os::{fd::OwnedFd, unix::net::UnixStream as StdStream},
    process::Stdio,
};

use anyhow::Context as _;
use tokio::{
    io::AsyncReadExt as _,
    net::UnixStream,
    process::{Child, Command},
    sync::mpsc,
};

use crate::hunt::wire::{self, Notice, Setup};

/// What comes from the tracer of a process.
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
    /// Starts a tracer; what it says comes through `messages` with the target's pid.
    ///
    /// # Errors
    /// Fails when no process can be started.
    pub fn start(setup: &Setup, messages: mpsc::Sender<(u32, Message)>) -> anyhow::Result<Self> {
        let (ours, theirs) = StdStream::pair().context("cannot make a socket pair")?;
        let child = Command::new("/proc/self/exe")
            .arg0("gwp-race")
            .arg("__tracer")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // A terminal's Ctrl-C is for the target and the daemon.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the tracer; raise the limit of processes (ulimit -u)")?;
        let mut socket = ours.try_clone()?;
        socket.write_all(&wire::encode(setup)?)?;
        ours.set_nonblocking(true)?;
        let reader = UnixStream::from_std(ours)?;
        tokio::spawn(read(setup.pid, reader, messages));
        Ok(Self { socket, child })
    }

    /// Tells the tracer to disarm and release its target.
    pub fn stop(&mut self) {
        self.tell(wire::Command::Stop);
    }

    /// Tells the tracer what its target's races have cost to explain.
    pub fn charge(&mut self, cpu_ns: u64) {
        self.tell(wire::Command::Charge(cpu_ns));
    }

    /// Tells the tracer whether other processes are watched as well.
    pub fn has_company(&mut self, has: bool) {
        self.tell(wire::Command::Company(has));
    }

    /// Tells the tracer that a race was dropped.
    pub fn tell_again(&mut self) {
        self.tell(wire::Command::TellAgain);
    }

    fn tell(&mut self, command: wire::Command) {
        if let Ok(frame) = wire::encode(&command) {
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

async fn read(pid: u32, mut socket: UnixStream, messages: mpsc::Sender<(u32, Message)>) {
    let mut buffer = Vec::new();
    loop {
        loop {
            match wire::decode::<Notice>(&mut buffer) {
                Ok(Some(notice)) => {
                    let message = Message::Notice(Box::new(notice));
                    if messages.send((pid, message)).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let text = format!("the tracer speaks another version: {error}");
                    let message = Message::Notice(Box::new(Notice::Failed(text)));
                    let _ = messages.send((pid, message)).await;
                    let _ = messages.send((pid, Message::Gone)).await;
                    return;
                }
            }
        }
        match socket.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let _ = messages.send((pid, Message::Gone)).await;
}
