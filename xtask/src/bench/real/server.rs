//! memcached: how it is built, and a running one.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{ROOM, load};
use crate::{paths, source, steps::step};

/// MiB that the server may keep: less than the load sets, so that it has to drop some.
const MEMORY: &str = "16";
/// How long the server may take to listen, and to end.
const LIMIT: Duration = Duration::from_secs(30);
/// How long the load lasts before it counts.
const WARM_UP: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);

/// What a server is compiled with.
#[derive(Clone, Copy)]
pub enum Build {
    /// The metadata that gwp-race needs.
    Watched,
    /// ThreadSanitizer.
    Sanitized,
    /// Counters of how often each line is executed.
    Counted,
}

impl Build {
    const fn name(self) -> &'static str {
        match self {
            Self::Watched => "watched",
            Self::Sanitized => "sanitized",
            Self::Counted => "counted",
        }
    }

    const fn flags(self) -> &'static str {
        match self {
            Self::Watched => source::METADATA_FLAGS,
            Self::Sanitized => "-O2 -g -fsanitize=thread",
            Self::Counted => "-O2 -g -fprofile-instr-generate -fcoverage-mapping",
        }
    }

    /// Builds it, unless that was done before: the program.
    pub fn make(self) -> Result<PathBuf> {
        let tree = source::fetch(ROOM, "memcached")?;
        let directory = tree.path().with_file_name(self.name());
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        tree.once(self.name(), || {
            step(
                &format!(
                    "configuring memcached, {} (needs libevent-dev)",
                    self.name()
                ),
                Command::new(tree.path().join("configure"))
                    .current_dir(&directory)
                    // Its own counters of coverage race, as they are meant to.
                    .args([
                        "--quiet",
                        "--disable-docs",
                        "--disable-coverage",
                        "CC=clang-22",
                    ])
                    .arg(format!("CFLAGS={}", self.flags()))
                    .arg(format!("LDFLAGS={}", self.flags())),
            )?;
            step(
                "building it",
                Command::new("make")
                    .current_dir(&directory)
                    .args(["-j2", "--quiet", "memcached"]),
            )
        })?;
        Ok(directory.join("memcached"))
    }
}

/// How a server is run.
pub enum Way<'a> {
    /// By itself.
    Plain,
    /// Under this gwp-race, which may cost so much.
    Watched {
        gwp_race: &'a Path,
        max_overhead: &'a str,
    },
    /// With ThreadSanitizer inside.
    Sanitized,
    /// With counters inside.
    Counted,
}

/// A server that listens.
pub struct Server {
    child: Child,
    port: u16,
    written: PathBuf,
}

/// What came of a load.
pub struct Run {
    pub requests: u64,
    /// What the server, or who watches it, has written.
    pub written: PathBuf,
}

impl Run {
    /// The same, as text.
    pub fn text(&self) -> Result<String> {
        let bytes = fs::read(&self.written)
            .with_context(|| format!("reading {}", self.written.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Server {
    /// Starts a program that was built so, with so many threads.
    pub fn start(program: &Path, way: &Way<'_>, threads: usize) -> Result<Self> {
        let port = free_port()?;
        let directory = paths::target().join(ROOM);
        let (name, mut command) = match way {
            Way::Watched {
                gwp_race,
                max_overhead,
            } => {
                let mut command = Command::new(gwp_race);
                command
                    .args([
                        "run",
                        "--quiet",
                        "--max-overhead",
                        max_overhead,
                        "--format",
                        "json",
                    ])
                    .arg("--output")
                    .arg(directory.join("gwp-race.json"))
                    .arg("--")
                    .arg(program);
                ("gwp-race.json", command)
            }
            Way::Plain => ("plain.txt", Command::new(program)),
            Way::Sanitized => ("thread-sanitizer.txt", Command::new(program)),
            Way::Counted => ("counters.profraw", Command::new(program)),
        };
        let written = directory.join(name);
        let _ = fs::remove_file(&written);
        command
            .args(["-U", "0", "-l", "127.0.0.1", "-u", "root", "-m", MEMORY])
            .args(["-t", &threads.to_string(), "-p", &port.to_string()])
            .env("LLVM_PROFILE_FILE", &written)
            .env("TSAN_OPTIONS", "exitcode=0:history_size=4")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if matches!(way, Way::Sanitized) {
            let file = fs::File::create(&written)
                .with_context(|| format!("writing {}", written.display()))?;
            command.stderr(file);
        }
        let child = command.spawn().context("starting memcached")?;
        let mut server = Self {
            child,
            port,
            written,
        };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    /// Lets so many clients ask for so long, then ends the server. What they ask before, while whoever watches starts
    /// up, is not counted.
    pub fn load(mut self, clients: usize, time: Duration) -> Result<Run> {
        load::apply(self.port, clients, WARM_UP)?;
        let requests = load::apply(self.port, clients, time)?;
        self.end()?;
        Ok(Run {
            requests,
            written: std::mem::take(&mut self.written),
        })
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("memcached ended with {status} before it listened");
            }
            if begun.elapsed() > LIMIT {
                bail!("memcached does not listen");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        kill(
            Pid::from_raw(self.child.id().cast_signed()),
            Signal::SIGTERM,
        )?;
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > LIMIT {
                bail!("memcached does not end");
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

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port is free")?;
    Ok(listener.local_addr()?.port())
}
