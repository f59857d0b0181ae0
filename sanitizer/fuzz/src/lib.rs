//! What the fuzz targets share: a watch over how much memory is asked for at once, and over what errors say.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use gwp_race::addr::LinkAddr;
use gwp_race::image::Encoding;
use gwp_race::pcmeta::{RawSection, TableError};

/// How many times its input a parser may ask for at once.
const FACTOR: usize = 16;
/// What it may ask for besides: messages of errors, the first elements of a list.
const BASE: usize = 4096;

/// The largest request since it was last looked at.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watching;

// SAFETY: every request goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those that are asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: as above; `old` came from the same allocator.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// Decodes a section of these bytes within limits: what comes of it, or `None` after an error that names file,
/// section and offset, and says what to do. They are decoded as those of a file of each encoding; what comes of them
/// is of the usual one.
pub fn decode<'a, T>(
    name: &'a str,
    data: &'a [u8],
    mut decode: impl FnMut(RawSection<'a>, &Path) -> Result<T, TableError>,
) -> Option<T> {
    let mut decoded = None;
    for (is_32_bit, is_big_endian) in [(true, true), (true, false), (false, true), (false, false)] {
        let section = RawSection {
            name,
            address: LinkAddr(0),
            data,
            encoding: Encoding {
                is_32_bit,
                is_big_endian,
            },
        };
        decoded = match within_limits(data.len(), || decode(section, Path::new("fuzzed"))) {
            Ok(decoded) => Some(decoded),
            Err(error) => {
                check_error(&error, name);
                None
            }
        };
    }
    decoded
}

/// Does `work` with an input of `len` bytes, and checks that it asks for no more memory at once
/// than 16 times the input.
fn within_limits<T>(len: usize, work: impl FnOnce() -> T) -> T {
    LARGEST.store(0, Ordering::Relaxed);
    let done = work();
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest <= FACTOR * len + BASE, "{largest} bytes for {len}");
    done
}

/// Checks that an error names its file, section and offset, and says what to do.
fn check_error(error: &dyn std::error::Error, section: &str) {
    let message = error.to_string();
    let start = format!("fuzzed: section {section} at offset 0x");
    assert!(
        message.starts_with(&start)
            && (message.ends_with("or update gwp-race")
                || message.ends_with("NAME[!C]=ENTRY|ENTRY")),
        "{message}"
    );
}
