//! A real program, stopped at a known place: compiled into a temporary directory, run until
//! it says that it is there, then attached to.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::super::{DebugDirs, Frame, ModuleInfo, Stack, StackSnapshot, Symbolizer};
use crate::insn::Regs;
use crate::kernel::foreign::Via;

/// Runs a compiler or binary tool; the test fails with its messages if it does.
pub(crate) fn tool(dir: &Path, command: &str, args: &[&str]) {
    let output = Command::new(command).current_dir(dir).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {command}: {error}"));
    assert!(
        output.status.success(),
        "{command} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A temporary directory with source files in it.
pub(crate) fn sources(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().expect("temporary directory");
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("write source");
    }
    dir
}

/// The line of `source` that contains `marker`, from 1.
pub(crate) fn line_of(source: &str, marker: &str) -> u32 {
    let index = source
        .lines()
        .position(|line| line.contains(marker))
        .expect("marker");
    u32::try_from(index + 1).expect("a short file")
}

/// A process stopped where it spins, with what a snapshot of it would hold.
pub(crate) struct Stopped {
    child: Child,
    thread: Pid,
    pub(crate) regs: Regs,
    pub(crate) stack: StackSnapshot,
    pub(crate) modules: Vec<ModuleInfo>,
    /// The lines that it printed before "ready".
    pub(crate) said: Vec<String>,
}

impl Stopped {
    /// Starts `program` and stops the thread that printed "ready TID" (or the main thread
    /// for a bare "ready") after it did.
    pub(crate) fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the test program");
        let mut said = Vec::new();
        let mut tid = child.id();
        for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
            let line = line.expect("UTF-8");
            match line.strip_prefix("ready") {
                Some(rest) => {
                    tid = rest.trim().parse().unwrap_or(tid);
                    break;
                }
                None => said.push(line),
            }
        }
        let thread = Pid::from_raw(tid.cast_signed());
        ptrace::attach(thread).expect("attach to own child");
        waitpid(thread, Some(WaitPidFlag::__WALL)).expect("stop");
        step_to_loop(thread);
        let regs = crate::kernel::ptrace::registers(tid).expect("registers");
        let maps = Maps::read(child.id());
        let stack_end = maps.end_of(regs.rsp).min(regs.rsp + (64 << 10));
        let mut bytes = vec![0; usize::try_from(stack_end - regs.rsp).expect("64 KiB")];
        fs::File::open(format!("/proc/{}/mem", child.id()))
            .and_then(|mem| mem.read_exact_at(&mut bytes, regs.rsp))
            .expect("stack");
        let stack = StackSnapshot {
            base: regs.rsp,
            bytes,
        };
        Self {
            modules: maps.modules(),
            child,
            thread,
            regs,
            stack,
            said,
        }
    }

    /// Makes this process the address space of a symbolizer.
    pub(crate) fn add_to(&self, symbolizer: &mut Symbolizer) {
        for module in &self.modules {
            symbolizer.add_module(module);
        }
    }

    /// The symbolizer of this process, with `debug_dirs` in place of `/usr/lib/debug`.
    pub(crate) fn symbolizer(&self, debug_dirs: &[PathBuf]) -> Symbolizer {
        self.symbolizer_with(DebugDirs::there(debug_dirs.to_vec()))
    }

    /// The same with folders of debug files of whatever kind.
    pub(crate) fn symbolizer_with(&self, debug_dirs: DebugDirs) -> Symbolizer {
        let mut symbolizer = Symbolizer::reading(debug_dirs);
        self.add_to(&mut symbolizer);
        symbolizer
    }

    /// The whole stack with its frames, inlined ones included.
    pub(crate) fn frames(&self, symbolizer: &Symbolizer) -> (Stack, Vec<Frame>) {
        let stack = symbolizer.unwind(&self.regs, &self.stack);
        let frames = stack
            .pcs
            .iter()
            .flat_map(|&pc| symbolizer.frames(pc))
            .collect();
        (stack, frames)
    }
}

/// Lets the thread get out of its write and into the loop that it then spins in: steps until
/// it has executed the same few instructions for a while.
fn step_to_loop(thread: Pid) {
    const WINDOW: usize = 100;
    const LOOP_SIZE: usize = 4;
    loop {
        let mut seen = Vec::new();
        for _ in 0..WINDOW {
            ptrace::step(thread, None).expect("step");
            waitpid(thread, Some(WaitPidFlag::__WALL)).expect("stop");
            let pc = ptrace::getregs(thread).expect("registers").rip;
            if !seen.contains(&pc) {
                seen.push(pc);
            }
        }
        if seen.len() <= LOOP_SIZE {
            return;
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Errors mean that it is gone already. Detached first: the process cannot be waited
        // for while a thread of it waits for its tracer.
        let _ = ptrace::detach(self.thread, Signal::SIGKILL);
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

struct Maps {
    pid: u32,
    lines: Vec<(u64, u64, u64, String)>,
}

impl Maps {
    fn read(pid: u32) -> Self {
        let text = fs::read_to_string(format!("/proc/{pid}/maps")).expect("own child");
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("a hexadecimal number");
        let lines = text
            .lines()
            .map(|line| {
                let mut fields = line.split_whitespace();
                let (start, end) = fields
                    .next()
                    .and_then(|r| r.split_once('-'))
                    .expect("range");
                let offset = hex(fields.nth(1).expect("offset"));
                (
                    hex(start),
                    hex(end),
                    offset,
                    fields.nth(2).unwrap_or_default().to_owned(),
                )
            })
            .collect();
        Self { pid, lines }
    }

    fn end_of(&self, addr: u64) -> u64 {
        self.lines
            .iter()
            .find(|l| (l.0..l.1).contains(&addr))
            .expect("mapped")
            .1
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        let mut modules: Vec<ModuleInfo> = Vec::new();
        for (start, end, offset, path) in self.lines.iter().filter(|l| l.3.starts_with('/')) {
            match modules.iter_mut().find(|m| m.path == *path) {
                Some(module) => module.end = *end,
                None => modules.push(ModuleInfo {
                    path: path.clone(),
                    via: Via::Root {
                        id: self.pid,
                        path: path.into(),
                    },
                    start: *start,
                    end: *end,
                    bias: start - offset - first_segment(Path::new(path)),
                    build_id: Vec::new(),
                }),
            }
        }
        modules
    }
}

/// The link-time address at which the file's first byte would be.
fn first_segment(path: &Path) -> u64 {
    use object::{Object, ObjectSegment};
    let bytes = fs::read(path).expect("a module's file");
    let Ok(file) = object::File::parse(&*bytes) else {
        return 0;
    };
    let first = file.segments().next();
    first.map_or(0, |segment| segment.address() - segment.file_range().0)
}

/// `function:line` of each frame, the outermost C library frames left out.
pub(crate) fn names(frames: &[Frame]) -> Vec<String> {
    frames
        .iter()
        .map(|frame| {
            let function = frame.function.as_deref().unwrap_or("?");
            match frame.line {
                Some(line) => format!("{function}:{line}"),
                None => function.to_owned(),
            }
        })
        .collect()
}
