//! The programs that are recorded, and what they are made to do.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::recording::Recording;
use crate::{
    bench::real::{
        memcached::Memcached,
        program::{Build, Load, Program as _},
    },
    demo, fixture,
};

/// The programs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// That of Debian's sources, with 4 threads and clients of ours.
    Memcached,
    /// The demonstration's, with 4 clients.
    Server,
    /// The pool of threads with a work queue of the benchmarks, with 4 threads.
    Queue,
}

/// Threads, where it can be said how many.
const THREADS: usize = 4;
const CLIENTS: usize = 8;

impl Name {
    pub const ALL: [Self; 3] = [Self::Memcached, Self::Server, Self::Queue];

    /// Builds it; the program.
    pub fn make(self, build: Build) -> Result<PathBuf> {
        let (kind, name) = match self {
            Self::Memcached => return Memcached.make(build),
            Self::Server => ("demo", "server"),
            Self::Queue => ("bench", "queue"),
        };
        match build {
            Build::Recorded => fixture::compile_recorded(kind, name),
            _ => fixture::compile(kind, name),
        }
    }

    /// How long it runs before what it does is counted, about: it starts up meanwhile.
    const fn before(self) -> Duration {
        Duration::from_millis(match self {
            Self::Memcached => 1100,
            Self::Server => 100,
            Self::Queue => 1000,
        })
    }

    /// Runs it for so long, recorded where there is a recording; how much it did in a second.
    pub fn run(self, program: &Path, time: Duration, recording: Option<&Recording>) -> Result<f64> {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        if let Some(recording) = recording {
            recording.prepare(&mut command, self.before(), time);
        }
        match self {
            Self::Memcached => {
                let load = Load {
                    threads: THREADS,
                    clients: CLIENTS,
                };
                command.stdout(Stdio::null());
                Memcached.run(command, &load, time)
            }
            Self::Server => serve(command, time, recording),
            Self::Queue => turns(command, self.before(), time),
        }
    }
}

/// Requests that the demonstration's server answers in a second.
fn serve(mut command: Command, time: Duration, recording: Option<&Recording>) -> Result<f64> {
    let child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the server")?;
    let mut server = Ended(child);
    let port = demo::port(&mut server.0)?.context("the server has not started")?;
    let answered = demo::load(port, time);
    if let Some(recording) = recording {
        // It has no end of its own.
        recording.wait_until_written()?;
    }
    Ok(answered as f64 / time.as_secs_f64())
}

/// Turns of a program of the benchmarks in a second, which does not count those of the first one.
fn turns(mut command: Command, uncounted: Duration, time: Duration) -> Result<f64> {
    let all = (uncounted + time).as_secs_f64();
    command.args([all.to_string(), THREADS.to_string()]);
    let output = command.output().context("starting the program")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let turns = said
        .lines()
        .find_map(|line| line.strip_prefix("turns ")?.parse::<f64>().ok());
    match turns {
        Some(turns) if output.status.success() => Ok(turns / time.as_secs_f64()),
        _ => bail!("the program ended with {}: {said}", output.status),
    }
}

/// A process that is ended when it is no longer needed.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
