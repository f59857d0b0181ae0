//! The memory map of a process: `/proc/PID/maps`, whose format is proc_pid_maps(5).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use nix::unistd::Pid;

use super::error::TargetError;
use super::process;
use crate::addr::{FileOffset, RuntimeAddr};

/// What the kernel appends to the name of a file that has no name any more.
const DELETED: &[u8] = b" (deleted)";

/// What a mapping allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Perms {
    /// Its bytes can be read.
    pub read: bool,
    /// Its bytes can be written.
    pub write: bool,
    /// It holds code.
    pub exec: bool,
    /// Writes reach the file and other processes (`MAP_SHARED`).
    pub shared: bool,
}

impl fmt::Display for Perms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |set, letter| if set { letter } else { '-' };
        write!(
            f,
            "{}{}{}{}",
            letter(self.read, 'r'),
            letter(self.write, 'w'),
            letter(self.exec, 'x'),
            if self.shared { 's' } else { 'p' }
        )
    }
}

/// One line of a process's memory map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: RuntimeAddr,
    /// First address after it.
    pub end: RuntimeAddr,
    /// What it allows.
    pub perms: Perms,
    /// Where in the file its first byte is.
    pub offset: FileOffset,
    /// The file system's device number, as `st_dev` has it. 0 for anonymous memory.
    pub dev: u64,
    /// The file's inode number. 0 for anonymous memory.
    pub inode: u64,
    /// The file's name (a line feed in it decoded), a name in brackets such as `[heap]`, or
    /// nothing. The kernel's ` (deleted)` is kept: see [`Mapping::deleted_name`].
    pub name: OsString,
}

impl Mapping {
    /// The addresses covered.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.start.0..self.end.0
    }

    /// Whether an address lies within.
    #[must_use]
    pub fn contains(&self, address: RuntimeAddr) -> bool {
        self.start <= address && address < self.end
    }

    /// Whether a file is behind it (also a deleted one, a memfd or shared memory).
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.inode != 0 && self.name.as_bytes().starts_with(b"/")
    }

    /// Whether it is the heap that `brk` grows.
    #[must_use]
    pub fn is_heap(&self) -> bool {
        self.name == "[heap]"
    }

    /// Whether it is the main thread's stack.
    #[must_use]
    pub fn is_main_stack(&self) -> bool {
        self.name == "[stack]"
    }

    /// Whether it is memory without a file: heap, stacks, `mmap`ed memory with or without a
    /// name, but not the kernel's own `[vdso]` and `[vvar]`.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.inode == 0
            && (self.name.is_empty()
                || self.is_heap()
                || self.is_main_stack()
                || self.name.as_bytes().starts_with(b"[anon"))
    }

    /// The name without ` (deleted)`, if it ends so. A file may really be called that, so
    /// this is a hint, not a proof.
    #[must_use]
    pub fn deleted_name(&self) -> Option<&Path> {
        self.name
            .as_bytes()
            .strip_suffix(DELETED)
            .map(|name| Path::new(OsStr::from_bytes(name)))
    }

    /// Parses one line, without its line feed.
    fn parse(line: &[u8]) -> Option<Self> {
        // start-end perms offset major:minor inode   name; only the name may hold blanks.
        let (start, rest) = split(line, b'-')?;
        let (end, rest) = split(rest, b' ')?;
        let (perms, rest) = split(rest, b' ')?;
        let (offset, rest) = split(rest, b' ')?;
        let (major, rest) = split(rest, b':')?;
        let (minor, rest) = split(rest, b' ')?;
        let (inode, name) = split(rest, b' ').unwrap_or((rest, b""));
        let &[read, write, exec, shared] = perms else {
            return None;
        };
        let (start, end) = (hex(start)?, hex(end)?);
        if start >= end {
            return None;
        }
        Some(Self {
            start: RuntimeAddr(start),
            end: RuntimeAddr(end),
            perms: Perms {
                read: read == b'r',
                write: write == b'w',
                exec: exec == b'x',
                shared: shared == b's',
            },
            offset: FileOffset(hex(offset)?),
            dev: nix::sys::stat::makedev(hex(major)?, hex(minor)?),
            inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
            name: unescape(name.trim_ascii_start()),
        })
    }
}

/// The memory map of a process at one moment, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps {
    mappings: Vec<Mapping>,
}

impl Maps {
    /// Reads the memory map of a live process.
    ///
    /// The kernel gives it out piecewise: what changes meanwhile may be seen half.
    pub fn read(pid: Pid) -> Result<Self, TargetError> {
        Self::parse(pid, &Self::read_text(pid)?)
    }

    /// Reads the text of a live process's memory map. Comparing two texts is the cheapest way
    /// to see that nothing changed.
    pub fn read_text(pid: Pid) -> Result<Vec<u8>, TargetError> {
        let text = process::read(pid, pid, "maps")?;
        if !text.is_empty() {
            return Ok(text);
        }
        // The leader has no address space: a zombie, or its other threads run on.
        let text = process::read(pid, process::live_thread(pid)?, "maps")?;
        if text.is_empty() {
            Err(TargetError::Vanished(pid))
        } else {
            Ok(text)
        }
    }

    /// Parses the text of a memory map. `pid` is for messages.
    pub fn parse(pid: Pid, text: &[u8]) -> Result<Self, TargetError> {
        let mut mappings: Vec<Mapping> = Vec::with_capacity(text.len() / 80);
        for line in text
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let mapping = Mapping::parse(line).ok_or_else(|| TargetError::Malformed {
                pid,
                path: process::path(pid, "maps"),
                what: "line",
                text: String::from_utf8_lossy(line).into_owned(),
            })?;
            // A map that changes while it is read can show memory twice: the later line, with
            // the rest of a grown or merged mapping, then overlaps the earlier one.
            match mappings.last_mut() {
                Some(last) if mapping.start < last.end => {
                    if mapping.end > last.end && mapping.start > last.start {
                        last.end = mapping.start;
                        mappings.push(mapping);
                    }
                }
                _ => mappings.push(mapping),
            }
        }
        Ok(Self { mappings })
    }

    /// The mappings, in ascending order and without overlaps.
    #[must_use]
    pub fn all(&self) -> &[Mapping] {
        &self.mappings
    }

    /// Iterates over the mappings in ascending order.
    pub fn iter(&self) -> std::slice::Iter<'_, Mapping> {
        self.mappings.iter()
    }

    /// The mapping that holds an address.
    #[must_use]
    pub fn find(&self, address: RuntimeAddr) -> Option<&Mapping> {
        let index = self
            .mappings
            .partition_point(|mapping| mapping.end <= address);
        self.mappings
            .get(index)
            .filter(|mapping| mapping.contains(address))
    }
}

impl<'a> IntoIterator for &'a Maps {
    type Item = &'a Mapping;
    type IntoIter = std::slice::Iter<'a, Mapping>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = text.iter().position(|&byte| byte == at)?;
    Some((text.get(..position)?, text.get(position + 1..)?))
}

fn hex(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// The kernel writes a line feed in a name as `\012` and leaves everything else alone
/// (`seq_path(m, path, "\n")`), so a name that really has those four characters cannot be told
/// apart: who opens it compares the inode.
fn unescape(name: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(tail) = rest.strip_prefix(b"\\012") {
            out.push(b'\n');
            rest = tail;
        } else {
            out.push(first);
            rest = tail;
        }
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::target::testing::Child;

    fn parse(text: &[u8]) -> Result<Maps, TargetError> {
        Maps::parse(Pid::from_raw(1), text)
    }

    /// Check all forms of names that the kernel prints.
    #[test]
    fn names() {
        let maps = parse(
            b"00400000-00401000 r--p 00000000 fd:01 123                                /bin/a b\n\
              00401000-00402000 r-xp 00001000 fd:01 123                                /bin/a b (deleted)\n\
              00402000-00403000 rw-s 00000000 00:01 7                          /memfd:x\\012y (deleted)\n\
              00403000-00404000 ---p 00000000 00:00 0 \n\
              00404000-00405000 rw-p 00000000 00:00 0                          [heap]\n\
              00405000-00406000 rw-p 00000000 00:00 0                          [anon:glibc: malloc]\n\
              00406000-00407000 rw-p 00000000 00:00 0\n\
              7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                  [stack]\n\
              ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n",
        )
        .unwrap();
        let names: Vec<_> = maps.iter().map(|m| m.name.to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "/bin/a b",
                "/bin/a b (deleted)",
                "/memfd:x\ny (deleted)",
                "",
                "[heap]",
                "[anon:glibc: malloc]",
                "",
                "[stack]",
                "[vsyscall]"
            ]
        );
        let all = maps.all();
        assert_eq!(all[0].perms.to_string(), "r--p");
        assert_eq!(all[1].perms.to_string(), "r-xp");
        assert_eq!(all[2].perms.to_string(), "rw-s");
        assert_eq!(all[3].perms.to_string(), "---p");
        assert_eq!(all[1].offset, FileOffset(0x1000));
        assert_eq!(
            (all[1].dev, all[1].inode),
            (nix::sys::stat::makedev(0xfd, 1), 123)
        );
        assert_eq!(all[0].deleted_name(), None);
        assert_eq!(all[1].deleted_name(), Some(Path::new("/bin/a b")));
        let anonymous: Vec<_> = maps.iter().map(Mapping::is_anonymous).collect();
        assert_eq!(
            anonymous,
            [false, false, false, true, true, true, true, true, false]
        );
        assert!(all[2].is_file() && !all[3].is_file() && !all[7].is_file());
        assert_eq!(
            maps.find(RuntimeAddr(0x401fff)).unwrap().start,
            RuntimeAddr(0x401000)
        );
        assert_eq!(maps.find(RuntimeAddr(0x407000)), None);
        assert_eq!(maps.find(RuntimeAddr(0)), None);
    }

    /// Check that a map that changed while it was read comes out without overlaps.
    #[test]
    fn overlapping_lines() {
        let maps = parse(
            b"1000-3000 r--p 00000000 00:00 0\n\
              2000-4000 rw-p 00000000 00:00 0\n\
              2000-3000 rw-p 00000000 00:00 0\n\
              5000-6000 rw-p 00000000 00:00 0\n",
        )
        .unwrap();
        let ranges: Vec<_> = maps.iter().map(Mapping::range).collect();
        assert_eq!(ranges, [0x1000..0x2000, 0x2000..0x4000, 0x5000..0x6000]);
    }

    /// Check that a line that is not one is an error that shows it.
    #[test]
    fn malformed_lines() {
        for line in [
            "x",
            "1000-",
            "2000-1000 r--p 0 0:0 0",
            "1000-2000 r- 0 0:0 0",
            "1-2 r--p 0 0 0",
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(line), "{error}");
        }
    }

    proptest! {
        /// Check that no text makes the parser panic, and that what it gives is in order.
        #[test]
        fn any_text(text in "([0-9a-f]{0,16}[- :rwxps\n/\\\\]{0,3}){0,40}") {
            if let Ok(maps) = parse(text.as_bytes()) {
                for pair in maps.all().windows(2) {
                    prop_assert!(pair[0].end <= pair[1].start);
                }
            }
        }
    }

    /// Check a real process: its program, its stack, and a map that is the same when read twice.
    #[test]
    fn live_process() {
        let child = Child::run(
            "#include <stdio.h>\n#include <unistd.h>\n\
             int main() { puts(\"ready\"); fflush(stdout); pause(); }",
            &[],
        );
        child.wait_for_line("ready");
        let text = Maps::read_text(child.pid()).unwrap();
        assert_eq!(text, Maps::read_text(child.pid()).unwrap());
        let maps = Maps::parse(child.pid(), &text).unwrap();
        let program = maps
            .iter()
            .find(|m| m.perms.exec && m.name == child.exe())
            .unwrap();
        assert!(program.is_file());
        assert!(maps.iter().any(Mapping::is_main_stack));
    }

    /// Check a process whose main thread has exited while another runs on.
    #[test]
    fn leader_gone() {
        let child = Child::run(
            "#include <pthread.h>\n#include <unistd.h>\n\
             void *other(void *p) { pause(); return 0; }\n\
             int main() { pthread_t t; pthread_create(&t, 0, other, 0); pthread_exit(0); }",
            &["-pthread"],
        );
        child.wait_for_state('Z');
        let maps = Maps::read(child.pid()).unwrap();
        assert!(maps.iter().any(|m| m.name == child.exe()));
    }

    /// Check that processes that are gone, or zombies, are told apart from failures.
    #[test]
    fn vanished_process() {
        let mut child = Child::run("int main() { return 0; }", &[]);
        child.wait_for_state('Z');
        assert!(Maps::read(child.pid()).unwrap_err().is_vanished());
        child.reap();
        assert!(Maps::read(child.pid()).unwrap_err().is_vanished());
    }
}
