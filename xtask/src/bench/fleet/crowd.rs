//! The processes that are watched: programs of many binaries that serve requests, or wait for some.

use std::{
    fs::{self, File},
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::unistd::Pid;

use super::{interrupt, plan::Plan};
use crate::fixture;

/// Bytes of a counter in the board: a cache line, as `tests/fixtures/bench/fleet.c` has it.
const CELL: usize = 64;
/// A board is mapped in pages.
const PAGE: usize = 4096;
/// How long active processes may take to serve their first request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Builds the programs.
pub fn build(plan: &Plan) -> Result<Vec<PathBuf>> {
    let program = |number| {
        interrupt::check()?;
        let mut macros = vec![format!("BINARY={number}")];
        if plan.is_racy(number) {
            macros.push("RACY".to_owned());
        }
        fixture::compile_defined("bench", "fleet", &format!("fleet-{number}"), &macros)
    };
    (0..plan.binaries).map(program).collect()
}

/// See the module. They are ended when this is dropped, and by the kernel when this process ends.
pub struct Crowd {
    children: Vec<Child>,
    board: File,
    active: usize,
}

impl Crowd {
    /// Starts them; the counters of what they serve are in a file of this folder. All active ones have begun to serve.
    pub fn start(plan: &Plan, programs: &[PathBuf], load: f64, folder: &Path) -> Result<Self> {
        let path = folder.join("board");
        let options = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let board = options.with_context(|| format!("creating {}", path.display()))?;
        board.set_len((plan.processes * CELL).next_multiple_of(PAGE) as u64)?;
        let processors = std::thread::available_parallelism()?.get();
        let mut crowd = Self {
            children: Vec::with_capacity(plan.processes),
            board,
            active: plan.active,
        };
        for process in 0..plan.processes {
            interrupt::check()?;
            let program = programs.get(plan.binary(process));
            let program = program.context("a program was not built")?;
            let share = plan.share(process, load, processors);
            let mut command = Command::new(program);
            command.arg(&path);
            command.args([process.to_string(), share.to_string()]);
            // Ctrl-C is for this process, which ends them.
            command.process_group(0).stdin(Stdio::null());
            let child = command.spawn();
            let child = child.with_context(|| format!("cannot start {}", program.display()))?;
            crowd.children.push(child);
        }
        let limit = Instant::now() + PATIENCE;
        while crowd.counters()?.contains(&0) {
            ensure!(
                Instant::now() < limit,
                "not all active processes serve requests; choose a lower --load or fewer processes"
            );
            interrupt::wait_until(Instant::now() + Duration::from_millis(100))?;
        }
        Ok(crowd)
    }

    /// The first processes, so many.
    pub fn pids(&self, count: usize) -> Vec<Pid> {
        let children = self.children.iter().take(count);
        children
            .map(|child| Pid::from_raw(child.id().cast_signed()))
            .collect()
    }

    /// Requests that were served until now, by all.
    pub fn served(&self) -> Result<u64> {
        Ok(self.counters()?.iter().sum())
    }

    /// How many have ended: none should.
    pub fn ended(&mut self) -> Result<usize> {
        let mut ended = 0;
        for child in &mut self.children {
            ended += usize::from(child.try_wait()?.is_some());
        }
        Ok(ended)
    }

    /// What each active process has served.
    fn counters(&self) -> Result<Vec<u64>> {
        let mut bytes = vec![0; self.active * CELL];
        self.board.read_exact_at(&mut bytes, 0)?;
        let counter = |cell: &[u8]| {
            cell.first_chunk()
                .map_or(0, |&bytes| u64::from_ne_bytes(bytes))
        };
        Ok(bytes.chunks(CELL).map(counter).collect())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// A folder of our own, which nobody else may write to. It is removed when this is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one.
    pub fn new() -> Result<Self> {
        let template = std::env::temp_dir().join("gwp-race-bench-fleet-XXXXXX");
        let folder = nix::unistd::mkdtemp(&template);
        let folder = folder.with_context(|| format!("cannot make {}", template.display()))?;
        Ok(Self(folder))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
