//! Files mapped for reading, the end of which somebody may cut off meanwhile.
//!
//! A library that a target has mapped is anybody's to truncate who may write to it, and a file on a disk or a network that fails is cut short as
//! well. Reading what is not there any more raises SIGBUS (mmap(2)), and that would end the reader. So a handler puts zeros there, and takes note of it:
//! the reader goes on, and asks [`FileMap::is_cut`] before it believes what it has read.

use std::{
    fs::File,
    io,
    ops::Deref,
    ptr,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::SeqCst},
    },
};

use memmap2::{Mmap, MmapOptions};

/// Pages of x86-64; larger ones begin and end at multiples of it as well.
const PAGE: usize = 4096;

/// A file's bytes, or zeros where there are none any more.
pub struct FileMap {
    map: Mmap,
    entry: &'static Entry,
}

/// Where a map is, for the handler, which may neither lock nor allocate. Entries are used again, and never freed.
#[derive(Default)]
struct Entry {
    is_taken: AtomicBool,
    start: AtomicUsize,
    /// 0 where it is nobody's.
    end: AtomicUsize,
    is_cut: AtomicBool,
    /// The one that was made before it.
    next: AtomicPtr<Self>,
}

/// The one that was made last.
static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

impl FileMap {
    /// Maps all of a file, which must not be empty.
    ///
    /// # Errors
    /// Fails where mmap(2) does.
    pub fn new(file: &File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Self::of_size(file, size)
    }

    /// Maps so many bytes of a file, which it had a moment ago and which must not be 0: nothing is asked of the file.
    ///
    /// # Errors
    /// Fails where mmap(2) does.
    pub fn of_size(file: &File, size: u64) -> io::Result<Self> {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(handle_bus_errors);
        let size = usize::try_from(size).map_err(io::Error::other)?;
        // SAFETY: the map is read-only and private, and is only ever read as bytes, every one of which may have any value. What is cut
        // off while it is mapped is handled as the module says.
        let map = unsafe { MmapOptions::new().len(size).map_copy_read_only(file) }?;
        let entry = Entry::take();
        let start = map.as_ptr().addr();
        entry.is_cut.store(false, SeqCst);
        entry.start.store(start, SeqCst);
        entry
            .end
            .store((start + map.len()).next_multiple_of(PAGE), SeqCst);
        Ok(Self { map, entry })
    }

    /// Whether something was to be read that the file did not have any more: it was zeros.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.entry.is_cut.load(SeqCst)
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // Before it is unmapped: something else may be mapped there next.
        self.entry.end.store(0, SeqCst);
        self.entry.is_taken.store(false, SeqCst);
    }
}

impl Entry {
    fn all() -> impl Iterator<Item = &'static Self> {
        let mut next = ENTRIES.load(SeqCst);
        std::iter::from_fn(move || {
            // SAFETY: null or an entry, which is never freed.
            let entry = unsafe { next.as_ref() }?;
            next = entry.next.load(SeqCst);
            Some(entry)
        })
    }

    fn take() -> &'static Self {
        let free = Self::all().find(|entry| !entry.is_taken.swap(true, SeqCst));
        free.unwrap_or_else(|| {
            let entry: &'static mut Self = Box::leak(Box::default());
            entry.is_taken.store(true, SeqCst);
            let mut last = ENTRIES.load(SeqCst);
            loop {
                entry.next.store(last, SeqCst);
                match ENTRIES.compare_exchange(last, entry, SeqCst, SeqCst) {
                    Ok(_) => return entry,
                    Err(other) => last = other,
                }
            }
        })
    }

    fn holds(&self, address: usize) -> bool {
        (self.start.load(SeqCst)..self.end.load(SeqCst)).contains(&address)
    }
}

fn handle_bus_errors() {
    // SAFETY: the structure is zeroed, which is valid for it, and lives through the call; the handler makes only system calls and atomic
    // accesses. Failure leaves everything as it is.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *const libc::siginfo_t, *const libc::c_void) =
            on_bus_error;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
    }
}

extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *const libc::siginfo_t,
    _context: *const libc::c_void,
) {
    // SAFETY: the kernel hands over a valid structure, which has an address for the codes of faults.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    if code == libc::BUS_ADRERR && put_zeros(address) {
        return;
    }
    // Anything else ends the process, as it would have without a handler: the access is made again, and what was sent is sent again.
    // SAFETY: these touch no memory of ours.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if code <= 0 {
            libc::raise(signal);
        }
    }
}

/// Puts zeros into a map, from the page of this address to its end; false where it is in none.
fn put_zeros(address: usize) -> bool {
    let Some(entry) = Entry::all().find(|entry| entry.holds(address)) else {
        return false;
    };
    let page = address & !(PAGE - 1);
    let len = entry.end.load(SeqCst) - page;
    // SAFETY: these pages are the map's, which is read-only bytes before and after; nobody unmaps it while one of its bytes is read.
    let result = unsafe {
        libc::mmap(
            ptr::without_provenance_mut(page),
            len,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    entry.is_cut.store(true, SeqCst);
    result != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const PAGES: usize = 64;

    fn file() -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; PAGES * PAGE - 100]).unwrap();
        file
    }

    /// Check that what is cut off reads as zeros and is told, that what is left reads as it is, and that other maps are not
    /// concerned; by several threads at once.
    #[test]
    fn what_is_cut_off_is_zeros() {
        let (one, other) = (file(), file());
        let (map, whole) = (FileMap::new(&one).unwrap(), FileMap::new(&other).unwrap());
        assert!(map.iter().all(|&byte| byte == 7) && !map.is_cut());
        one.set_len(3 * PAGE as u64 + 5).unwrap();
        assert_eq!(map[3 * PAGE - 1], 7);
        assert!(!map.is_cut(), "nobody has read there");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    assert_eq!(map[4 * PAGE], 0);
                    assert_eq!(map[..3 * PAGE + 5], [7; 3 * PAGE + 5]);
                    assert_eq!(map[3 * PAGE + 5..].iter().max(), Some(&0));
                });
            }
        });
        assert!(map.is_cut());
        assert!(whole.iter().all(|&byte| byte == 7) && !whole.is_cut());
        drop(map);
        // The entry is used again, for a map that is whole.
        let again = FileMap::new(&other).unwrap();
        assert!(again.iter().all(|&byte| byte == 7) && !again.is_cut());
    }

    /// Check that any other bus error ends the process as it would without the handler: one that is sent, and one of a map that is not ours.
    #[test]
    fn others_end_the_process() {
        let run = |work: &dyn Fn()| {
            // SAFETY: until it ends, the child makes only calls that signal-safety(7) allows, as `work` does.
            match unsafe { libc::fork() } {
                0 => {
                    crate::kernel::process::keep_private();
                    work();
                    // SAFETY: it ends the child at once.
                    unsafe { libc::_exit(0) }
                }
                pid => {
                    let mut status = 0;
                    // SAFETY: `status` is writable.
                    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                    libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))
                }
            }
        };
        let cut = file();
        let ours = FileMap::new(&cut).unwrap();
        // SAFETY: the map is only read as bytes.
        let foreign = unsafe { Mmap::map(&cut) }.unwrap();
        cut.set_len(0).unwrap();
        let read = |bytes: &[u8]| {
            std::hint::black_box(bytes.first().copied());
        };
        assert_eq!(run(&|| read(&ours)), None);
        assert_eq!(run(&|| read(&foreign)), Some(libc::SIGBUS));
        let sent = || {
            // SAFETY: it touches no memory.
            unsafe { libc::raise(libc::SIGBUS) };
        };
        assert_eq!(run(&sent), Some(libc::SIGBUS));
    }
}
