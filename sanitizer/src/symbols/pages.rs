//! Files read in pages, of which a process keeps so many and no more: whoever looks up addresses in gigabytes of debug
//! information needs few of them at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a page.
const SIZE: u64 = 1 << 14;
/// A page has its place among these many.
const WAYS: usize = 4;
/// How many such groups there are: 8 MiB in all, for all files of the process.
const GROUPS: usize = 128;

static NEXT_FILE: AtomicU64 = AtomicU64::new(0);
static CACHE: Mutex<Cache> = Mutex::new(Cache {
    places: Vec::new(),
    clock: 0,
});

/// A file that is read in pages. It is not mapped: somebody may cut it short while we hold it, and that must cost a
/// symbol, not a SIGBUS.
#[derive(Debug)]
pub(super) struct PagedFile {
    file: File,
    /// Tells the files of this process apart.
    number: u64,
}

/// Some bytes of a file.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// Where it is in the file.
    start: u64,
    bytes: Arc<[u8]>,
}

impl Page {
    /// Its bytes from an offset of the file on; nothing where it has none.
    pub(super) fn from(&self, at: u64) -> Option<&[u8]> {
        let skip = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.bytes.get(skip..).filter(|bytes| !bytes.is_empty())
    }
}

impl PagedFile {
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            number: NEXT_FILE.fetch_add(1, Relaxed),
        }
    }

    /// The file itself.
    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// Reads past all pages.
    pub(super) fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(bytes, at)
    }

    /// Reads all of `bytes` past all pages.
    pub(super) fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)
    }

    /// The page with the byte at `at`; at the end of the file it is short.
    pub(super) fn page(&self, at: u64) -> Option<Page> {
        let start = at - at % SIZE;
        let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = cache.place(self.number, start);
        if let Some(bytes) = &place.bytes {
            return Some(Page {
                start,
                bytes: Arc::clone(bytes),
            });
        }
        let mut bytes = vec![0; SIZE as usize];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..)
            && let Ok(more @ 1..) = self.file.read_at(rest, start + filled as u64)
        {
            filled += more;
        }
        bytes.truncate(filled);
        let bytes: Arc<[u8]> = bytes.into();
        place.bytes = Some(Arc::clone(&bytes));
        Some(Page { start, bytes })
    }
}

impl super::read_at::ReadAt for PagedFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        self.read_at(bytes, at)
    }
}

impl Drop for PagedFile {
    fn drop(&mut self) {
        let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |place: &&mut Place| place.file == self.number;
        for place in cache.places.iter_mut().filter(own) {
            place.bytes = None;
        }
    }
}

#[derive(Clone, Default)]
struct Place {
    file: u64,
    start: u64,
    used: u64,
    /// None where nothing has been read yet.
    bytes: Option<Arc<[u8]>>,
}

struct Cache {
    places: Vec<Place>,
    clock: u64,
}

impl Cache {
    /// The place of a page; its bytes are there, or are to be read.
    fn place(&mut self, file: u64, start: u64) -> &mut Place {
        if self.places.is_empty() {
            self.places = vec![Place::default(); GROUPS * WAYS];
        }
        self.clock += 1;
        // Neighbours go to different groups, whichever file they are of.
        let group = (start / SIZE).wrapping_add(file.wrapping_mul(31)) as usize % GROUPS;
        let first = group * WAYS;
        let places = self.places.iter().enumerate().skip(first).take(WAYS);
        let is_it = |place: &Place| (place.file, place.start) == (file, start);
        let known = places
            .clone()
            .find(|(_, place)| place.bytes.is_some() && is_it(place));
        let chosen = known.or_else(|| places.min_by_key(|(_, place)| place.used));
        let index = chosen.map_or(first, |(index, _)| index);
        let is_known = known.is_some();
        let place = &mut self.places[index];
        place.used = self.clock;
        if !is_known {
            *place = Place {
                file,
                start,
                used: self.clock,
                bytes: None,
            };
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Check that pages of two files are not mistaken for each other, that old ones make room, and that a file that
    /// is cut short ends where it ends.
    #[test]
    fn pages() {
        let file = |fill: u8, pages: u64| {
            let mut file = tempfile::tempfile().unwrap();
            for number in 0..pages {
                let mut page = vec![fill; SIZE as usize];
                page[..8].copy_from_slice(&number.to_le_bytes());
                file.write_all(&page).unwrap();
            }
            PagedFile::new(file)
        };
        let pages = 2 * (GROUPS * WAYS) as u64;
        let (first, second) = (file(1, pages), file(2, pages));
        for round in 0..2 {
            for number in 0..pages {
                for (file, fill) in [(&first, 1), (&second, 2)] {
                    let at = number * SIZE + round;
                    let page = file.page(at).unwrap();
                    assert_eq!(page.start, number * SIZE);
                    assert_eq!(page.bytes[..8], number.to_le_bytes());
                    assert_eq!(page.bytes[SIZE as usize - 1], fill);
                    assert_eq!(page.from(at).unwrap().len() as u64, SIZE - round);
                }
            }
        }
        let kept = |file: &PagedFile| {
            let cache = CACHE.lock().unwrap();
            let places = cache.places.iter();
            (places.filter(|place| place.bytes.is_some() && place.file == file.number)).count()
        };
        assert!(kept(&first) + kept(&second) <= GROUPS * WAYS);
        second.file.set_len(SIZE + 3).unwrap();
        let second = PagedFile::new(second.file.try_clone().unwrap());
        assert_eq!(second.page(SIZE).unwrap().bytes.len(), 3);
        assert!(second.page(SIZE).unwrap().from(SIZE + 3).is_none());
        assert!(second.page(9 * SIZE).unwrap().from(9 * SIZE).is_none());
        drop(first);
    }
}
