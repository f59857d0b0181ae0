//! The program whose gwp-race is killed: `fixtures/survival/counters.c`, which tells by a shared
//! file how each of its threads gets on.

use std::{
    collections::HashSet,
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::code;
use crate::{
    Configuration, Program,
    children::{Guarded, status_field, threads},
    compile,
};

/// Whatever is waited for takes milliseconds, even on a busy machine a second.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(2);
/// Other tests watch programs with many threads by processor, which takes a breakpoint from everybody.
const OTHERS: Duration = Duration::from_secs(60);
/// Breakpoints that a thread has room for: x86 has four.
const SLOTS: u64 = 4;
/// Words of the fixture's `struct board` before the turns of its threads.
const READY: u64 = 0;
const INTERRUPTED: u64 = 1;
const TRAPS: u64 = 2;
const ASKED: u64 = 3;
const ANSWERED: u64 = 4;
const FREE_SLOTS: u64 = 5;
const END: u64 = 6;
const TURNS: u64 = 7;
/// The most threads that the fixture can have.
const MOST_THREADS: u64 = 1000;

/// The fixture, built.
///
/// # Errors
/// Says what the compiler said.
pub fn program() -> Result<PathBuf> {
    let program = Program::new("survival/counters.c");
    Ok(compile::program(&program, Configuration::USUAL)?.canonicalize()?)
}

/// The file that it shares with the test.
pub struct Board {
    file: File,
    directory: TempDir,
    threads: usize,
    asked: u64,
}

impl Board {
    /// A board for a target of so many threads.
    ///
    /// # Errors
    /// Fails where no file can be created.
    pub fn new(threads: usize) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(directory.path().join("board"))?;
        file.set_len((TURNS + MOST_THREADS) * 8)?;
        Ok(Self {
            file,
            directory,
            threads,
            asked: 0,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("board")
    }

    /// A file beside it.
    #[must_use]
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// How many threads the target has.
    #[must_use]
    pub const fn threads(&self) -> usize {
        self.threads
    }

    fn word(&self, index: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, index * 8)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn set_word(&self, index: u64, value: u64) -> Result<()> {
        Ok(self.file.write_all_at(&value.to_ne_bytes(), index * 8)?)
    }

    /// Whether the target has all its threads.
    ///
    /// # Errors
    /// Fails where reading the board does.
    pub fn is_ready(&self) -> Result<bool> {
        Ok(self.word(READY)? != 0)
    }

    fn turns(&self) -> Result<Vec<u64>> {
        let mut bytes = vec![0; self.threads * 8];
        self.file.read_exact_at(&mut bytes, TURNS * 8)?;
        let words = bytes
            .chunks_exact(8)
            .filter_map(|word| word.try_into().ok());
        Ok(words.map(u64::from_ne_bytes).collect())
    }

    /// What is wrong with the living target `pid`, which nobody watches any more.
    ///
    /// # Errors
    /// Fails where reading the board does.
    pub fn examine(&mut self, pid: Pid) -> Result<Option<String>> {
        if !waited(|| self.is_ready())? {
            return Ok(Some("it does not come to create its threads".to_owned()));
        }
        // A tracer outlives its daemon by a moment, and its probes themselves.
        let mut wrong = None;
        waited(|| {
            wrong = held(pid);
            Ok(wrong.is_none())
        })?;
        if wrong.is_some() {
            return Ok(wrong);
        }
        // The kernel may keep some where their owner was killed (docs/safety.md): the program has to go on all the same.
        let mut left = None;
        waited(|| {
            left = code::wrong(pid);
            Ok(left.is_none())
        })?;
        if let Some(left) = left {
            println!("{left} after a kill");
        }
        let before = self.turns()?;
        let moved = |board: &Self| -> Result<usize> {
            let now = board.turns()?;
            Ok(now
                .iter()
                .zip(&before)
                .filter(|(now, before)| now != before)
                .count())
        };
        if !waited(|| Ok(moved(self)? == self.threads))? {
            let still = self.threads - moved(self)?;
            return Ok(Some(format!("{still} threads make no turns")));
        }
        let start = Instant::now();
        loop {
            let Some(free) = self.free_slots()? else {
                return Ok(Some("its first thread does not answer".to_owned()));
            };
            if free == SLOTS {
                break;
            }
            if start.elapsed() > OTHERS {
                return Ok(Some(format!(
                    "a thread has room for {free} breakpoints only"
                )));
            }
            std::thread::sleep(OTHERS / 100);
        }
        for (index, what) in [
            (INTERRUPTED, "interrupted system calls"),
            (TRAPS, "foreign traps"),
        ] {
            let count = self.word(index)?;
            if count != 0 {
                self.set_word(index, 0)?;
                return Ok(Some(format!("{count} {what}")));
            }
        }
        Ok(None)
    }

    /// For how many breakpoints there is room; `None` when the target does not say.
    fn free_slots(&mut self) -> Result<Option<u64>> {
        self.asked += 1;
        self.set_word(ASKED, self.asked)?;
        let answered = waited(|| Ok(self.word(ANSWERED)? == self.asked))?;
        answered.then(|| self.word(FREE_SLOTS)).transpose()
    }

    /// Tells it to end.
    ///
    /// # Errors
    /// Fails where writing the board does.
    pub fn end(&self) -> Result<()> {
        self.set_word(END, 1)
    }

    /// The command line of a target that uses this board.
    #[must_use]
    pub fn arguments(&self, trap: &str) -> [String; 3] {
        [
            self.path().display().to_string(),
            self.threads.to_string(),
            trap.to_owned(),
        ]
    }
}

/// A target that runs by itself.
pub struct Target {
    /// What it shares with the test.
    pub board: Board,
    /// It ends with this.
    pub process: Guarded,
}

impl Target {
    /// Starts one and waits until it has all its threads.
    ///
    /// # Errors
    /// Fails if it does not start.
    pub fn start(program: &Path, threads: usize) -> Result<Self> {
        let board = Board::new(threads)?;
        let mut command = Command::new(program);
        command.args(board.arguments("as-is")).stdin(Stdio::null());
        let target = Self {
            process: Guarded::new(command.spawn().context("starting the target")?),
            board,
        };
        if !waited(|| target.board.is_ready())? {
            bail!("the target does not start");
        }
        Ok(target)
    }

    /// Ends it as it ends by itself.
    ///
    /// # Errors
    /// Fails if it does not end, or not as it should.
    pub fn end(mut self) -> Result<()> {
        self.board.end()?;
        let status = self.process.wait(PATIENCE)?;
        if !status.success() {
            bail!("the target has ended with {status}");
        }
        Ok(())
    }
}

/// Whether it became so in time.
///
/// # Errors
/// That of the question.
pub fn waited(is_so: impl FnMut() -> Result<bool>) -> Result<bool> {
    waited_for(PATIENCE, POLL, is_so)
}

/// The same, in a given time, where it is asked so often.
///
/// # Errors
/// That of the question.
pub fn waited_for(
    limit: Duration,
    poll: Duration,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<bool> {
    let start = Instant::now();
    loop {
        if is_so()? {
            return Ok(true);
        }
        if start.elapsed() > limit {
            return Ok(false);
        }
        std::thread::sleep(poll);
    }
}

/// A thread of the process that is stopped or traced, if there is one.
fn held(pid: Pid) -> Option<String> {
    threads(pid).find_map(|tid| {
        let tracer = status_field(tid, "TracerPid")?;
        let state = status_field(tid, "State")?;
        let wrong = tracer != "0" || state.starts_with(['t', 'T']);
        wrong.then(|| format!("thread {tid} is held: state {state}, tracer {tracer}"))
    })
}

/// The threads of a process that stand still.
#[must_use]
pub fn standing_threads(pid: Pid) -> HashSet<i32> {
    let stands = |tid: &Pid| {
        let stat = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, fields)| fields.starts_with(['t', 'T']))
    };
    threads(pid).filter(stands).map(Pid::as_raw).collect()
}
