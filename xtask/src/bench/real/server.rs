//! A server that runs, and is ended.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// How long the server may take to listen, and to end.
const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// One that listens.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts one on this port of the local machine.
    pub fn start(mut command: Command, port: u16) -> Result<Self> {
        let child = command.spawn().context("starting the server")?;
        let mut server = Self { child, port };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status} before it listened");
            }
            if begun.elapsed() > LIMIT {
                bail!("the server does not listen");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Asks it to end, and waits until it has.
    pub fn end(mut self) -> Result<()> {
        kill(
            Pid::from_raw(self.child.id().cast_signed()),
            Signal::SIGTERM,
        )?;
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > LIMIT {
                bail!("the server does not end");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The id of one that has ended may be another process's by now. gwp-race ends its program.
        if matches!(self.child.try_wait(), Ok(None)) {
            let pid = Pid::from_raw(self.child.id().cast_signed());
            let _ = kill(pid, Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}

/// A port of the local machine that nobody listens on.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port is free")?;
    Ok(listener.local_addr()?.port())
}
