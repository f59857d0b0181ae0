//! The recording of a program: the format that `tests/fixtures/trace/recorder.c` writes. This is its only description.
//!
//! A recording is a folder with a file `N.thread` for each thread, numbered as they were created (the first one has 0), and an empty file `complete`,
//! which is written last. All numbers are little-endian. A file begins with a header of 64 bytes:
//!
//! | bytes | |
//! | --- | --- |
//! | 0..8 | `gwp-rec`, and a zero |
//! | 8..12 | the version, 1 |
//! | 12..16 | the number of the thread |
//! | 16..24 | ticks of the time stamps in a second |
//! | 24..32 | the run-time address where the executable begins, to which sites are relative |
//! | 32..40 | the run-time address behind the executable's variables |
//! | 40..48 | how many records follow |
//! | 48..56 | CPU time of the process while it was recorded, ns |
//! | 56..64 | how long it was recorded, ns |
//!
//! A record has 16 bytes. The first number is, from the lowest bit on: 48 bits of an address, 12 bits of a length, 4 bits of a kind.
//! The second one: 40 bits of a time in ticks since the beginning, and 24 bits of a site, which is the distance of the call's return address from where the executable begins
//! (0: elsewhere).
//!
//! | kind | | address | length |
//! | --- | --- | --- | --- |
//! | 1, 2 | a read, a write | first byte | bytes; longer ones are several records with one time |
//! | 3, 4 | the same, atomic | | |
//! | 5 | the next record is the one of this number (in place of the time and the site) in the order of all threads | | |
//! | 6 | something that synchronizes | its object | [`Operation`] |
//! | 7 | memory was allocated | first byte | bytes; longer ones are several records |
//! | 8 | memory is about to be freed | first byte | |
//!
//! A thread's beginning and its end are objects as well, at the addresses of twice its number, and that and one; and so are descriptors of files, behind 1,024 threads.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

/// Bytes of a header, and of a record.
pub const HEADER: usize = 64;
/// See above.
pub const RECORD: usize = 16;
const MAGIC: [u8; 8] = *b"gwp-rec\0";
const VERSION: u32 = 1;
const ADDRESS_BITS: u32 = 48;
const LENGTH_BITS: u32 = 12;
const TIME_BITS: u32 = 40;
/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;

/// What a file begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of the thread.
    pub thread: u32,
    /// Ticks of the time stamps in a second.
    pub ticks_per_s: u64,
    /// The run-time address where the executable begins.
    pub base: u64,
    /// The first one behind its variables.
    pub end: u64,
    /// How many records there are.
    pub records: u64,
    /// CPU time of the process while it was recorded.
    pub cpu: Duration,
    /// How long it was recorded.
    pub lasted: Duration,
}

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When, in ticks since the beginning.
    pub time: u64,
    /// Where: the distance of what its call returns to from where the executable begins; 0 where that is elsewhere.
    pub site: u32,
    /// Its number in the order of all threads, where it has one.
    pub sequence: Option<u64>,
    /// What it is.
    pub what: What,
}

/// The things that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An access to memory.
    Access(Access),
    /// Something that orders threads.
    Sync {
        /// Of which object.
        object: u64,
        /// What is done with it.
        operation: Operation,
    },
    /// Memory is somebody's from now on.
    Allocated {
        /// The first byte.
        address: u64,
        /// How many.
        length: u16,
    },
    /// It is nobody's any more.
    Freed,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The first byte.
    pub address: u64,
    /// How many, at least one.
    pub length: u16,
    /// It writes.
    pub writes: bool,
    /// It is atomic.
    pub atomic: bool,
}

impl Access {
    /// Whether a byte is among those that are accessed.
    #[must_use]
    pub fn covers(self, address: u64) -> bool {
        address.wrapping_sub(self.address) < u64::from(self.length)
    }

    /// The words of eight bytes that it touches, each with a bit for each byte.
    pub fn words(self) -> impl Iterator<Item = (u64, u8)> {
        const WORD: u64 = 8;
        let end = self.address + u64::from(self.length.max(1));
        (self.address / WORD..end.div_ceil(WORD)).map(move |word| {
            let first = self.address.max(word * WORD) - word * WORD;
            let behind = end.min((word + 1) * WORD) - word * WORD;
            let below = |byte: u64| (1_u16 << byte).wrapping_sub(1);
            (word, (below(behind) & !below(first)) as u8)
        })
    }
}

/// What is done with an object, by the C and C++ memory models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A lock was taken, by this thread alone.
    Lock,
    /// A lock was taken, which others may have too, who read.
    LockShared,
    /// A lock is given back.
    Unlock,
    /// All before this is before what any later acquire sees: a post, a signal, the end of a thread.
    Release,
    /// The other half of a release, or an atomic load that acquires.
    Acquire,
    /// An atomic load that does not: a fence may make up for it.
    LoadRelaxed,
    /// An atomic store that releases: of what was before it nothing is left.
    StoreRelease,
    /// An atomic store that does not.
    StoreRelaxed,
    /// A fence that acquires, releases, or does both.
    Fence {
        /// It acquires.
        acquires: bool,
        /// It releases.
        releases: bool,
    },
    /// An atomic operation that reads and writes in one, which leaves standing what others have released.
    ReadWrite {
        /// It acquires.
        acquires: bool,
        /// It releases.
        releases: bool,
    },
}

impl Operation {
    fn of(number: u64) -> Option<Self> {
        let fence = |acquires, releases| Self::Fence { acquires, releases };
        Some(match number {
            1 => Self::Lock,
            2 => Self::LockShared,
            3 => Self::Unlock,
            4 => Self::Release,
            5 => Self::Acquire,
            6 => Self::LoadRelaxed,
            7 => Self::StoreRelease,
            8 => Self::StoreRelaxed,
            9 => fence(true, false),
            10 => fence(false, true),
            11 => fence(true, true),
            16..20 => Self::ReadWrite {
                acquires: number & 1 != 0,
                releases: number & 2 != 0,
            },
            _ => return None,
        })
    }
}

impl Header {
    /// Of a file's first bytes.
    ///
    /// # Errors
    /// Says what they lack.
    pub fn read(bytes: &[u8; HEADER]) -> Result<Self> {
        let mut numbers = [0; HEADER / 8];
        for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *number = u64::from_le_bytes(*bytes);
        }
        let [magic, version, ticks_per_s, base, end, records, cpu, lasted] = numbers;
        if magic != u64::from_le_bytes(MAGIC) {
            bail!("this is no recording of a thread");
        }
        if version as u32 != VERSION {
            bail!("the format has version {}, not {VERSION}", version as u32);
        }
        if ticks_per_s == 0 || lasted == 0 {
            bail!("the recording did not last");
        }
        Ok(Self {
            thread: (version >> 32) as u32,
            ticks_per_s,
            base,
            end,
            records,
            cpu: Duration::from_nanos(cpu),
            lasted: Duration::from_nanos(lasted),
        })
    }
}

/// The entries of a thread, from the bytes behind the header. It ends where these do; what it does not know it leaves out.
pub struct Entries<R> {
    bytes: R,
    left: u64,
}

impl<R: Read> Entries<R> {
    /// So many at most.
    pub const fn new(bytes: R, records: u64) -> Self {
        Self {
            bytes,
            left: records,
        }
    }

    fn record(&mut self) -> Option<[u64; 2]> {
        self.left = self.left.checked_sub(1)?;
        let mut bytes = [0; RECORD];
        self.bytes.read_exact(&mut bytes).ok()?;
        let (numbers, _) = bytes.as_chunks::<8>();
        Some([0, 1].map(|index| u64::from_le_bytes(numbers[index])))
    }
}

impl<R: Read> Iterator for Entries<R> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let mut sequence = None;
        loop {
            let [what, when] = self.record()?;
            let low = |number: u64, bits: u32| number & ((1 << bits) - 1);
            let address = low(what, ADDRESS_BITS);
            let length = low(what >> ADDRESS_BITS, LENGTH_BITS);
            let access = |writes, atomic| {
                let length = length as u16;
                What::Access(Access {
                    address,
                    length,
                    writes,
                    atomic,
                })
            };
            let what = match what >> (ADDRESS_BITS + LENGTH_BITS) {
                1 => access(false, false),
                2 => access(true, false),
                3 => access(false, true),
                4 => access(true, true),
                5 => {
                    sequence = Some(when);
                    continue;
                }
                6 => match Operation::of(length) {
                    Some(operation) => What::Sync {
                        object: address,
                        operation,
                    },
                    None => continue,
                },
                7 => What::Allocated {
                    address,
                    length: length as u16,
                },
                8 => What::Freed,
                _ => continue,
            };
            return Some(Entry {
                time: low(when, TIME_BITS),
                site: (when >> TIME_BITS) as u32,
                sequence,
                what,
            });
        }
    }
}

/// A folder with the files of a program's threads.
#[derive(Clone, Debug)]
pub struct Recording {
    /// In the order of their numbers.
    threads: Vec<(Header, PathBuf)>,
}

impl Recording {
    /// Looks at what is there.
    ///
    /// # Errors
    /// Names the file that cannot be read.
    pub fn open(folder: &Path) -> Result<Self> {
        let mut threads = Vec::new();
        let listed = folder
            .read_dir()
            .with_context(|| format!("reading {}", folder.display()))?;
        for file in listed {
            let path = file?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "thread")
            {
                let mut header = [0; HEADER];
                let read = File::open(&path).and_then(|mut file| file.read_exact(&mut header));
                let header = read
                    .map_err(anyhow::Error::from)
                    .and_then(|()| Header::read(&header));
                let header = header.with_context(|| format!("reading {}", path.display()))?;
                threads.push((header, path));
            }
        }
        threads.sort_by_key(|(header, _)| header.thread);
        if threads.is_empty() {
            bail!("there is no recording in {}", folder.display());
        }
        Ok(Self { threads })
    }

    /// What the files begin with, in the order of the threads.
    pub fn headers(&self) -> impl Iterator<Item = &Header> {
        self.threads.iter().map(|(header, _)| header)
    }

    /// What each thread did, from the beginning.
    ///
    /// # Errors
    /// Names the file that cannot be read.
    pub fn entries(&self) -> Result<Vec<Entries<BufReader<File>>>> {
        let open = |(header, path): &(Header, PathBuf)| {
            let mut file = File::open(path)?;
            file.read_exact(&mut [0; HEADER])?;
            let bytes = BufReader::with_capacity(BUFFER, file);
            std::io::Result::Ok(Entries::new(bytes, header.records))
        };
        let threads = self.threads.iter();
        threads
            .map(|thread| open(thread).with_context(|| format!("reading {}", thread.1.display())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::world::trace::testing::{bytes_of, header};

    fn access(address: u64, length: u16) -> Access {
        Access {
            address,
            length,
            writes: true,
            atomic: false,
        }
    }

    /// Check which bytes of which words an access is about.
    #[test]
    fn words_of_accesses() {
        for (address, length, expected) in [
            (16, 8, vec![(2, 0xff)]),
            (17, 1, vec![(2, 0x02)]),
            (20, 8, vec![(2, 0xf0), (3, 0x0f)]),
            (15, 10, vec![(1, 0x80), (2, 0xff), (3, 0x01)]),
        ] {
            assert_eq!(
                access(address, length).words().collect::<Vec<_>>(),
                expected
            );
        }
    }

    /// Check that what was written is read, that a cut file has an end where it is cut, and that unknown records are passed over.
    #[test]
    fn what_is_written_is_read() {
        let entries = [
            Entry {
                time: 7,
                site: 0x1234,
                sequence: None,
                what: What::Access(access(0x7fff_1234_5678, 4095)),
            },
            Entry {
                time: 9,
                site: 0xff_ffff,
                sequence: Some(3),
                what: What::Sync {
                    object: 0x1000,
                    operation: Operation::ReadWrite {
                        acquires: true,
                        releases: false,
                    },
                },
            },
            Entry {
                time: 10,
                site: 1,
                sequence: Some(4),
                what: What::Freed,
            },
        ];
        let bytes = bytes_of(&entries);
        let read = |bytes: &[u8]| Entries::new(bytes, u64::MAX).collect::<Vec<_>>();
        assert_eq!(read(&bytes), entries);
        for length in 0..bytes.len() {
            let cut = read(&bytes[..length]);
            assert_eq!(cut, entries[..cut.len()]);
        }
        let unknown = [vec![0xff; RECORD], bytes].concat();
        assert_eq!(read(&unknown), entries);
    }

    /// Check that files that are none, are cut or of another version are refused with a reason.
    #[test]
    fn headers() {
        let good = header(3, 10);
        let read = Header::read(&good).expect("it is one");
        assert_eq!((read.thread, read.records), (3, 10));
        for (byte, reason) in [(0, "no recording"), (8, "version"), (16, "did not last")] {
            let mut bad = good;
            bad[byte..byte + 8].fill(0);
            let said = Header::read(&bad).expect_err("it is none").to_string();
            assert!(said.contains(reason), "{said}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(Recording::open(folder.path()).is_err());
        std::fs::write(folder.path().join("0.thread"), &good[..20]).unwrap();
        let said = format!(
            "{:#}",
            Recording::open(folder.path()).expect_err("it is cut")
        );
        assert!(said.contains("0.thread"), "{said}");
    }
}
