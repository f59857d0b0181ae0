//! Files below `/proc/PID/task/TID` that are read again and again: kept open, because to look such a path up and to open it takes several times as
//! long as to read it. They are written anew for each read from the beginning (`seq_read` in the kernel's `fs/seq_file.c`), and belong to the thread for which they
//! were opened, not to its id: of one that has ended nothing can be read any more.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use nix::unistd::Pid;

use super::procfs;

/// Files of one name that are kept open at most, so that a program of many threads takes few descriptors. Those of further threads are opened
/// each time.
const MOST: usize = 64;
/// Longer than what the kernel writes into `syscall` and `schedstat`: nine numbers of 64 bits each.
const LONGEST: usize = 256;

/// Files of one name, of the threads of one process.
#[derive(Debug)]
pub struct KeptFiles {
    name: &'static str,
    open: HashMap<Pid, File>,
}

impl KeptFiles {
    /// Those of this name, none of which is open yet.
    pub(super) fn of(name: &'static str) -> Self {
        Self {
            name,
            open: HashMap::new(),
        }
    }

    /// What a thread's says now, handed to `parse`; nothing where it cannot be read, or says more than is expected.
    pub(super) fn read<T>(
        &mut self,
        pid: Pid,
        tid: Pid,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let mut text = [0; LONGEST];
        let mut read = |file: &File| {
            let len = file.read_at(&mut text, 0).ok()?;
            // A thread that has ended while its file was open has none, or an empty one.
            (1..LONGEST).contains(&len).then_some(len)
        };
        let kept = self.open.get(&tid).map(&mut read);
        let len = match kept {
            Some(Some(len)) => len,
            _ => {
                self.open.remove(&tid);
                let path = procfs::path(pid, &format!("task/{tid}/{}", self.name));
                let file = File::open(path).ok()?;
                let len = read(&file)?;
                if self.open.len() < MOST {
                    self.open.insert(tid, file);
                }
                len
            }
        };
        parse(text.get(..len)?)
    }

    /// Closes those of threads that are not wanted any more: others may have their places.
    pub fn retain(&mut self, is_wanted: impl Fn(Pid) -> bool) {
        self.open.retain(|tid, _| is_wanted(*tid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what is read is new each time, that nothing is read of a thread that has ended, and that no more are open than are to be.
    #[test]
    fn kept_files() {
        let mut kept = KeptFiles::of("schedstat");
        let turns = |kept: &mut KeptFiles, tid| {
            kept.read(Pid::this(), tid, |text| {
                let text = std::str::from_utf8(text).ok()?;
                text.split_ascii_whitespace().nth(2)?.parse::<u64>().ok()
            })
        };
        let here = nix::unistd::gettid();
        let before = turns(&mut kept, here).expect("it is counted");
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(turns(&mut kept, here).expect("it is counted") > before);
        assert_eq!(kept.open.len(), 1);

        let (begin, begun) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let _ = begin.send(nix::unistd::gettid());
            let _ = ended.recv();
        });
        let tid = begun.recv().expect("it says who it is");
        assert!(turns(&mut kept, tid).is_some());
        assert_eq!(kept.open.len(), 2);
        drop(end);
        other.join().expect("it ends");
        // What joins a thread may be woken a moment before it is gone.
        let gone = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            turns(&mut kept, tid).is_none()
        });
        assert!(gone && kept.open.len() == 1);

        let file = || File::open("/proc/self/schedstat").expect("there is one");
        kept.open
            .extend((0..MOST as i32).map(|id| (Pid::from_raw(-1 - id), file())));
        let open = kept.open.len();
        kept.open.remove(&here);
        assert!(turns(&mut kept, here).is_some());
        assert_eq!(kept.open.len(), open - 1);
        kept.retain(|tid| tid.as_raw() > 0);
        assert!(turns(&mut kept, here).is_some());
        assert_eq!(kept.open.len(), 1);
    }
}
