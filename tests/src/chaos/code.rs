//! Whether a process's code is what its files say: where the kernel's probes stand, it is not.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
    time::{Duration, Instant},
};

use nix::unistd::Pid;

/// Between two looks for a probe, which stands for some milliseconds.
const LOOKS: Duration = Duration::from_micros(300);

/// The code of a program's own file in one of its processes.
struct Code {
    memory: File,
    start: u64,
    in_file: Vec<u8>,
}

impl Code {
    /// Of the file that a process executes; nothing where the process has ended.
    fn of(pid: Pid) -> Option<Self> {
        let file = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let (range, offset) = maps.lines().find_map(|line| {
            let mut fields = line.split_whitespace();
            let (range, permissions, offset) = (fields.next()?, fields.next()?, fields.next()?);
            let is_it = permissions == "r-xp" && Path::new(fields.nth(2)?) == file;
            is_it.then_some((range, offset))
        })?;
        let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let (start, end) = range.split_once('-')?;
        let (start, end) = (hex(start)?, hex(end)?);
        let mut in_file = fs::read(&file).ok()?;
        in_file.drain(..in_file.len().min(usize::try_from(hex(offset)?).ok()?));
        in_file.truncate(usize::try_from(end - start).ok()?);
        Some(Self {
            memory: File::open(format!("/proc/{pid}/mem")).ok()?,
            start,
            in_file,
        })
    }

    /// How many bytes are others than in the file.
    fn changed(&self) -> Option<usize> {
        let mut bytes = vec![0; self.in_file.len()];
        self.memory.read_exact_at(&mut bytes, self.start).ok()?;
        let pairs = bytes.iter().zip(&self.in_file);
        Some(pairs.filter(|(is, was)| is != was).count())
    }
}

/// What is wrong with the code of a process that has no probes any more.
pub(super) fn wrong(pid: Pid) -> Option<String> {
    let changed = Code::of(pid)?.changed()?;
    (changed > 0).then(|| format!("{changed} bytes of its code are not the file's"))
}

/// Waits until a probe stands in a process, for so long at most: whether one does.
pub(super) fn is_probed(pid: Pid, limit: Duration) -> bool {
    let start = Instant::now();
    let code = Code::of(pid);
    while start.elapsed() < limit {
        match code.as_ref().and_then(Code::changed) {
            None => return false,
            Some(0) => std::thread::sleep(LOOKS),
            Some(_) => return true,
        }
    }
    false
}
