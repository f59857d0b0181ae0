//! Real programs for this folder's tests: compiled into a directory of their own, started,
//! and killed at the end.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{self, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::threads::Stat;

/// How long a program may take to get where a test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compiles C source to `DIR/NAME`.
pub(crate) fn compile(dir: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (c, out) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&c, source).unwrap();
    let output = Command::new("clang-22")
        .arg("-o")
        .args([&out, &c])
        .args(flags)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    out
}

/// A running child process.
pub(crate) struct Child {
    process: process::Child,
    stdout: Mutex<BufReader<ChildStdout>>,
    dir: tempfile::TempDir,
}

impl Child {
    /// Compiles C source and starts it.
    pub(crate) fn run(source: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), "program", source, flags);
        Self::start(dir, Command::new(program))
    }

    /// Starts a command; the child ends with its parent's thread of the test at the latest.
    pub(crate) fn start(dir: tempfile::TempDir, mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = Mutex::new(BufReader::new(process.stdout.take().unwrap()));
        Self {
            process,
            stdout,
            dir,
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().try_into().unwrap())
    }

    /// The directory of the program.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The program's path, as the kernel shows it.
    pub(crate) fn exe(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("program")
    }

    /// Sends a line to the program.
    pub(crate) fn send_line(&mut self, line: &str) {
        use std::io::Write;
        // At once, so that it is there as a whole for whoever reads it.
        let line = format!("{line}\n");
        let stdin = self.process.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
    }

    /// Reads the next line that the program prints.
    pub(crate) fn read_line(&self) -> String {
        let mut line = String::new();
        self.stdout.lock().unwrap().read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the program ended");
        line
    }

    /// Waits until the program has printed a line.
    pub(crate) fn wait_for_line(&self, wanted: &str) {
        while self.read_line().trim() != wanted {}
    }

    /// Waits until the main thread is in a state.
    pub(crate) fn wait_for_state(&self, wanted: char) {
        let start = Instant::now();
        while Stat::read(self.pid(), self.pid()).unwrap().state != wanted {
            assert!(
                start.elapsed() < PATIENCE,
                "the program never got into state {wanted}"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for the end of the program, so that its id is free; its exit code, if it has one.
    pub(crate) fn reap(&mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
