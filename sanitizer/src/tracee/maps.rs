//! The memory map of a process: `/proc/PID/maps`, whose format is proc_pid_maps(5).

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use nix::unistd::Pid;

use super::error::TargetError;
use super::{procfs, threads};
use crate::addr::{FileOffset, RuntimeAddr};

/// What the kernel appends to the name of a file that has no name any more.
const DELETED: &[u8] = b" (deleted)";
/// So many mappings are kept, twice the kernel's default limit (`vm.max_map_count`), and any number that hold code besides, up to as many again: a
/// process may be allowed millions.
const MAPPINGS: usize = 1 << 17;
/// So many bytes of names are kept, each name once. A path can have 4,096 of them.
const NAME_BYTES: usize = 4 << 20;
/// What stands for the names that are too much. No file is called that in a process's root by chance, and who opens one compares the inode.
const NAMELESS: &str = "/(one of too many names)";

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
    /// nothing. The kernel's ` (deleted)` is kept: see [`Mapping::deleted_name`]. Mappings of one
    /// name share it.
    pub name: Arc<OsStr>,
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
        *self.name == *"[heap]"
    }

    /// Whether it is the main thread's stack.
    #[must_use]
    pub fn is_main_stack(&self) -> bool {
        *self.name == *"[stack]"
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
    fn parse(line: &[u8], names: &mut Names) -> Option<Self> {
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
            name: names.shared(name.trim_ascii_start()),
        })
    }
}

/// The memory map of a process at one moment, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps {
    mappings: Vec<Mapping>,
    left_out: usize,
}

impl Maps {
    /// Reads the memory map of a live process.
    ///
    /// The kernel gives it out piecewise: what changes meanwhile may be seen half.
    pub fn read(pid: Pid) -> Result<Self, TargetError> {
        let maps = Self::read_of(pid, pid)?;
        if !maps.mappings.is_empty() {
            return Ok(maps);
        }
        // The leader has no address space: a zombie, or its other threads run on.
        let maps = Self::read_of(pid, threads::live_thread(pid)?)?;
        if maps.mappings.is_empty() {
            Err(TargetError::Vanished(pid))
        } else {
            Ok(maps)
        }
    }

    fn read_of(pid: Pid, id: Pid) -> Result<Self, TargetError> {
        let path = procfs::path(id, "maps");
        let failed = |error| TargetError::from_io(pid, &path, error);
        let file = std::fs::File::open(&path).map_err(failed)?;
        // Line by line: the text of a map can have hundreds of megabytes.
        let mut text = BufReader::with_capacity(64 * 1024, file);
        let mut reader = Reader::new(pid);
        let mut line = Vec::new();
        while text.read_until(b'\n', &mut line).map_err(failed)? > 0 {
            reader.take(line.strip_suffix(b"\n").unwrap_or(&line))?;
            line.clear();
        }
        Ok(reader.finish())
    }

    /// Parses the text of a memory map. `pid` is for messages.
    #[cfg(test)]
    pub(crate) fn parse(pid: Pid, text: &[u8]) -> Result<Self, TargetError> {
        let mut reader = Reader::new(pid);
        for line in text.split(|&byte| byte == b'\n') {
            reader.take(line)?;
        }
        Ok(reader.finish())
    }

    /// The mappings, in ascending order and without overlaps.
    #[must_use]
    pub fn all(&self) -> &[Mapping] {
        &self.mappings
    }

    /// How many mappings there are beyond what is kept of one process. Nothing is known of them.
    #[must_use]
    pub const fn left_out(&self) -> usize {
        self.left_out
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

/// Makes a memory map of its lines.
struct Reader {
    pid: Pid,
    maps: Maps,
    names: Names,
    /// Mappings kept that hold no code, and that do.
    kept: [usize; 2],
}

impl Reader {
    fn new(pid: Pid) -> Self {
        Self {
            pid,
            maps: Maps::default(),
            names: Names::default(),
            kept: [0; 2],
        }
    }

    /// Takes a line, without its line feed.
    fn take(&mut self, line: &[u8]) -> Result<(), TargetError> {
        if line.is_empty() {
            return Ok(());
        }
        let mapping =
            Mapping::parse(line, &mut self.names).ok_or_else(|| TargetError::Malformed {
                pid: self.pid,
                path: procfs::path(self.pid, "maps"),
                what: "line",
                text: String::from_utf8_lossy(line).into_owned(),
            })?;
        let [data, code] = &mut self.kept;
        let kept = if mapping.perms.exec { code } else { data };
        if *kept == MAPPINGS {
            self.maps.left_out += 1;
            return Ok(());
        }
        // A map that changes while it is read can show memory twice: the later line, with
        // the rest of a grown or merged mapping, then overlaps the earlier one.
        match self.maps.mappings.last_mut() {
            Some(last) if mapping.start < last.end => {
                if mapping.end > last.end && mapping.start > last.start {
                    last.end = mapping.start;
                } else {
                    return Ok(());
                }
            }
            _ => {}
        }
        *kept += 1;
        self.maps.mappings.push(mapping);
        Ok(())
    }

    fn finish(mut self) -> Maps {
        self.maps.mappings.shrink_to_fit();
        self.maps
    }
}

/// The names of a memory map, each kept once.
#[derive(Default)]
struct Names {
    known: HashSet<Arc<OsStr>>,
    /// Together in all of them.
    bytes: usize,
    /// The name of the line before, as it was written: neighbours mostly have the same.
    last: Option<(Vec<u8>, Arc<OsStr>)>,
}

impl Names {
    fn shared(&mut self, written: &[u8]) -> Arc<OsStr> {
        if let Some((last, name)) = &self.last
            && *last == written
        {
            return Arc::clone(name);
        }
        let name = self.find(unescape(written));
        self.last = Some((written.to_owned(), Arc::clone(&name)));
        name
    }

    fn find(&mut self, name: OsString) -> Arc<OsStr> {
        if let Some(known) = self.known.get(&*name) {
            return Arc::clone(known);
        }
        let is_file = name.as_bytes().starts_with(b"/");
        if self.bytes.saturating_add(name.len()) > NAME_BYTES && is_file && *name != *NAMELESS {
            return self.find(NAMELESS.into());
        }
        // Others than files have short names, which the kernel bounds.
        self.bytes = self.bytes.saturating_add(name.len());
        let name: Arc<OsStr> = name.into();
        self.known.insert(Arc::clone(&name));
        name
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
mod tests;
