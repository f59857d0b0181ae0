//! The code that is to be probed: whether it may be touched, and which of the places may.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufRead as _, BufReader},
    ops::Range,
    os::{fd::AsRawFd as _, unix::fs::FileExt as _},
    path::PathBuf,
};

use crate::{
    insn::x86_64::{MAX_INSTRUCTION_LEN, length, may_be_probed},
    kernel::{
        KernelError, fault,
        foreign::{FileIdentity, ForeignFile, Purpose},
    },
};

use super::{BurstError, MOST_COPIES, MOST_PAGES, MOST_PROBES, Obstacle, Probe};

const PAGE: u64 = 4096;
/// `int3`, which a probe puts in the place of the first byte.
const BREAKPOINT: u8 = 0xcc;

/// Code of a process, as a file has it.
pub(super) struct Text {
    mapping: Range<u64>,
    /// Where in the file it begins.
    offset: u64,
    file: File,
    memory: File,
    /// Pages that are not the file's any more, whatever is in them.
    copies: Vec<Range<u64>>,
}

impl Text {
    /// The code in a mapping of a process. `read` is the file that it had when it was looked for places: whoever unloads a library and loads
    /// another one gets the same addresses for it, as a rule.
    ///
    /// # Errors
    /// What must not be touched, and where `/proc` tells nothing.
    pub(super) fn of(
        pid: u32,
        mapping: &Range<u64>,
        read: FileIdentity,
    ) -> Result<Self, BurstError> {
        let status = contents(pid, "status")?;
        if has_ended(&status) {
            return Err(Obstacle::FirstThreadEnded.into());
        }
        let unmapped = || Obstacle::Unmapped(mapping.start, mapping.end);
        let line = line_of(pid, mapping)?.ok_or_else(unmapped)?;
        let offset = suited(&line).ok_or_else(|| Obstacle::Unsuited(line.clone()))?;
        if has_shadow_stack(&status) {
            return Err(Obstacle::ShadowStack.into());
        }
        // Whoever serves it could have its pages waited for when they are probed.
        let file = ForeignFile::mapped(pid, mapping, Purpose::Promptly).map_err(Obstacle::from)?;
        if file.about().identity() != read {
            return Err(Obstacle::Replaced(mapping.start, mapping.end).into());
        }
        let file = file.open().map_err(Obstacle::from)?;
        let pages = open(pid, "pagemap")?;
        if !scan(&pages, mapping, Wanted::Huge)?.is_empty() {
            return Err(Obstacle::HugePages.into());
        }
        Ok(Self {
            mapping: mapping.clone(),
            offset,
            file,
            memory: open(pid, "mem")?,
            copies: scan(&pages, mapping, Wanted::Copies)?,
        })
    }

    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// Those of the places that may be probed, and where in the file they are. `probed` are the pages of the process that had probes before, by their numbers, and
    /// those of these places are added: of new ones there may be so many at most. `stands`: where probes stand already.
    ///
    /// # Errors
    /// When none is left.
    pub(super) fn suitable(
        &self,
        probes: &[Probe],
        probed: &mut BTreeSet<u64>,
        stands: &BTreeSet<u64>,
    ) -> Result<(Vec<Probe>, Vec<u64>), Obstacle> {
        let mut pages = BTreeSet::new();
        let suitable = probes.iter().filter(|probe| {
            let page = probe.pc.0 / PAGE;
            let has_room = pages.contains(&page)
                || pages.len() < MOST_PAGES
                    && (probed.contains(&page) || probed.len() < MOST_COPIES);
            let is_suitable = has_room && self.is_suitable(probe.pc.0, stands);
            if is_suitable {
                pages.insert(page);
                probed.insert(page);
            }
            is_suitable
        });
        let suitable: Vec<Probe> = suitable.take(MOST_PROBES).copied().collect();
        let offsets = suitable.iter().map(|probe| self.offset_of(probe.pc.0));
        let offsets: Option<Vec<u64>> = offsets.collect();
        offsets
            .filter(|offsets| !offsets.is_empty())
            .map(|offsets| (suitable, offsets))
            .ok_or(Obstacle::NoPlace)
    }

    fn offset_of(&self, pc: u64) -> Option<u64> {
        self.offset.checked_add(pc.checked_sub(self.mapping.start)?)
    }

    /// Whether what stands there may be probed, and is the same in the file and in the process: the kernel emulates what the file says. A page in which anything
    /// differs but for our own probes is the program's own affair.
    fn is_suitable(&self, pc: u64, stands: &BTreeSet<u64>) -> bool {
        let Some(offset) = self.offset_of(pc).filter(|_| self.mapping.contains(&pc)) else {
            return false;
        };
        let room = usize::try_from(self.mapping.end - pc).unwrap_or(usize::MAX);
        let in_file = read_at(&self.file, offset, room.min(MAX_INSTRUCTION_LEN));
        let in_file = in_file.and_then(|mut code| {
            code.truncate(length(&code)?);
            may_be_probed(&code).then_some(code)
        });
        let Some(in_file) = in_file else {
            return false;
        };
        let in_memory = self.in_memory(pc, offset, in_file.len(), stands);
        if in_memory.as_ref() != Some(&in_file) {
            return false;
        }
        let into_page = pc % PAGE;
        let (page, offset) = (pc - into_page, offset - into_page);
        let is_copy = self.copies.iter().any(|pages| pages.contains(&pc));
        !is_copy
            || read_at(&self.file, offset, PAGE as usize).is_some_and(|mut page_of_file| {
                // Behind the end of a file there are zeros in memory.
                page_of_file.resize(PAGE as usize, 0);
                self.in_memory(page, offset, PAGE as usize, stands) == Some(page_of_file)
            })
    }

    /// What the process has there, and the file at that offset; without the probes that stand.
    fn in_memory(
        &self,
        at: u64,
        offset: u64,
        bytes: usize,
        stands: &BTreeSet<u64>,
    ) -> Option<Vec<u8>> {
        let mut read = read_at(&self.memory, at, bytes)?;
        for place in stands.range(at..at.checked_add(read.len() as u64)?) {
            let original = read_at(&self.file, offset + (place - at), 1)?;
            let byte = read.get_mut(usize::try_from(place - at).ok()?)?;
            if *byte == BREAKPOINT {
                *byte = *original.first()?;
            }
        }
        Some(read)
    }
}

/// So many bytes, or fewer where a file ends.
fn read_at(file: &File, at: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut read = vec![0; bytes];
    let count = file.read_at(&mut read, at).ok()?;
    read.truncate(count);
    Some(read)
}

fn failed(call: &'static str, path: PathBuf, source: std::io::Error) -> KernelError {
    KernelError {
        call,
        object: path.display().to_string(),
        source,
    }
}

fn open(pid: u32, what: &str) -> Result<File, KernelError> {
    let path = PathBuf::from(format!("/proc/{pid}/{what}"));
    fault::before("open", || path.display().to_string())?;
    File::open(&path).map_err(|source| failed("open", path, source))
}

fn contents(pid: u32, what: &str) -> Result<String, KernelError> {
    let path = PathBuf::from(format!("/proc/{pid}/{what}"));
    std::fs::read_to_string(&path).map_err(|source| failed("read", path, source))
}

/// The line of a mapping in `/proc/PID/maps` (proc_pid_maps(5)), but for its name.
fn line_of(pid: u32, mapping: &Range<u64>) -> Result<Option<String>, KernelError> {
    let wanted = format!("{:08x}-{:08x} ", mapping.start, mapping.end);
    for line in BufReader::new(open(pid, "maps")?).split(b'\n') {
        let line =
            line.map_err(|source| failed("read", format!("/proc/{pid}/maps").into(), source))?;
        if line.starts_with(wanted.as_bytes()) {
            let fields = String::from_utf8_lossy(&line);
            let fields: Vec<&str> = fields.split(' ').take(5).collect();
            return Ok(Some(fields.join(" ")));
        }
    }
    Ok(None)
}

/// Where in its file a mapping begins; nothing of one that must not be probed.
fn suited(line: &str) -> Option<u64> {
    let mut fields = line.split(' ').skip(1);
    let (permissions, offset) = (fields.next()?, fields.next()?);
    let (_device, inode) = (fields.next()?, fields.next()?);
    let is_code_of_file = permissions == "r-xp" && inode.parse::<u64>().ok()? != 0;
    let offset = u64::from_str_radix(offset, 16).ok()?;
    is_code_of_file.then_some(offset)
}

/// Whether by `/proc/PID/status` the first thread has (proc_pid_status(5)).
fn has_ended(status: &str) -> bool {
    let state = status
        .lines()
        .find_map(|line| line.strip_prefix("State:\t"));
    state.is_some_and(|state| state.starts_with(['Z', 'X']))
}

/// Whether `/proc/PID/status` tells of one (`Documentation/arch/x86/shstk.rst`).
fn has_shadow_stack(status: &str) -> bool {
    let features = status
        .lines()
        .find_map(|line| line.strip_prefix("x86_Thread_features:"));
    features.is_some_and(|features| {
        features
            .split_whitespace()
            .any(|feature| feature == "shstk")
    })
}

/// Pages that are looked for.
#[derive(Clone, Copy)]
enum Wanted {
    /// Mapped as huge ones.
    Huge,
    /// There, and not the file's: written to, by the program, a debugger or a probe.
    Copies,
}

/// `struct pm_scan_arg` of `include/uapi/linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` there.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Ranges of such pages in a mapping: `PAGEMAP_SCAN` of `Documentation/admin-guide/mm/pagemap.rst`, Linux 6.7 and later.
fn scan(
    pages: &File,
    mapping: &Range<u64>,
    wanted: Wanted,
) -> Result<Vec<Range<u64>>, KernelError> {
    /// `_IOWR('f', 16, struct pm_scan_arg)`
    const PAGEMAP_SCAN: u32 = 3 << 30 | (size_of::<Scan>() as u32) << 16 | (b'f' as u32) << 8 | 16;
    const FILE: u64 = 1 << 2;
    const PRESENT: u64 = 1 << 3;
    const SWAPPED: u64 = 1 << 4;
    const HUGE: u64 = 1 << 6;
    /// Of more than these the rest counts as such pages, too.
    const REGIONS: usize = 256;
    let mut regions = [Region::default(); REGIONS];
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        start: mapping.start,
        end: mapping.end,
        vec: regions.as_mut_ptr() as u64,
        vec_len: REGIONS as u64,
        ..Scan::default()
    };
    match wanted {
        Wanted::Huge => (scan.category_mask, scan.return_mask) = (HUGE, HUGE),
        Wanted::Copies => {
            // The file's pages are never swapped out, but copies of them may be.
            scan.category_inverted = FILE;
            scan.category_mask = FILE;
            scan.category_anyof_mask = PRESENT | SWAPPED;
            scan.return_mask = FILE;
        }
    }
    fault::before("ioctl(PAGEMAP_SCAN)", || "code".to_owned())?;
    // SAFETY: the kernel writes to the structure, and as many regions as it says there are, which live through the call.
    let found = unsafe {
        libc::ioctl(
            pages.as_raw_fd(),
            PAGEMAP_SCAN as libc::Ioctl,
            &raw mut scan,
        )
    };
    let Ok(found) = usize::try_from(found) else {
        return Err(KernelError::last(
            "ioctl(PAGEMAP_SCAN)",
            "the pages of code",
        ));
    };
    let mut ranges: Vec<_> = regions
        .iter()
        .take(found)
        .map(|region| region.start..region.end)
        .collect();
    if found == REGIONS {
        ranges.push(scan.walk_end..mapping.end);
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use memmap2::{Advice, MmapMut};

    use super::*;

    /// Check that pages of code that are huge are found, and others not.
    #[test]
    fn huge_pages() {
        const LENGTH: usize = 8 << 20;
        let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        if setting.is_ok_and(|setting| setting.contains("[never]")) {
            return;
        }
        let pages = open(std::process::id(), "pagemap").unwrap();
        let mut memory = MmapMut::map_anon(LENGTH).unwrap();
        memory.advise(Advice::HugePage).unwrap();
        let start = memory.as_ptr() as u64;
        let all = start..start + LENGTH as u64;
        assert_eq!(scan(&pages, &all, Wanted::Huge).unwrap(), []);
        memory.fill(1);
        let huge = scan(&pages, &all, Wanted::Huge).unwrap();
        assert!(
            !huge.is_empty()
                && huge
                    .iter()
                    .all(|pages| all.start <= pages.start && pages.end <= all.end)
        );
        // No file has them.
        assert_eq!(scan(&pages, &all, Wanted::Copies).unwrap(), [all]);
    }

    /// Check which mappings may be probed.
    #[test]
    fn mappings_of_code() {
        let suited = |rest: &str| suited(&format!("55d0-55d8 {rest}"));
        assert_eq!(suited("r-xp 00002000 fe:00 1234"), Some(0x2000));
        for other in [
            "rwxp 00002000 fe:00 1234",
            "r-xs 00002000 fe:00 1234",
            "r--p 00002000 fe:00 1234",
            // Execute only: nobody reads there, and the kernel's probes might not, either.
            "--xp 00002000 fe:00 1234",
            "r-xp 00000000 00:00 0",
        ] {
            assert_eq!(suited(other), None, "{other}");
        }
        assert_eq!(super::suited(""), None);
    }

    /// Check that a first thread that has ended is told from one that lives, whatever it is called.
    #[test]
    fn first_threads() {
        assert!(has_ended("Name:\ta\nUmask:\t0022\nState:\tZ (zombie)\n"));
        assert!(has_ended("Name:\ta\nState:\tX (dead)\n"));
        for alive in [
            "Name:\tZ\nState:\tS (sleeping)\n",
            "State:\tt (tracing stop)\n",
            "",
        ] {
            assert!(!has_ended(alive), "{alive}");
        }
    }

    /// Check that a shadow stack is seen in the words of the kernel.
    #[test]
    fn shadow_stacks() {
        let with = "Name:\tx\nx86_Thread_features:\tshstk wrss \nx86_Thread_features_locked:\t\n";
        assert!(has_shadow_stack(with));
        for without in [
            "x86_Thread_features:\t\nx86_Thread_features_locked:\tshstk wrss \n",
            "Name:\tshstk\n",
            "",
        ] {
            assert!(!has_shadow_stack(without));
        }
    }
}
