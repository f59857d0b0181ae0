//! Sections that a linker or `objcopy` has compressed, decompressed as a stream: small ones into memory, large ones into a
//! file without a name, so that neither a large program nor a bomb takes memory.

use std::io::{self, Write as _};
use std::sync::Arc;

use super::beside::{Beside, Looked, Wanted};
use super::pages::PagedFile;
use super::reader::Reader;
use super::too_much::TooMuch;
use crate::image::{Form, inflate};

/// What is decompressed into memory at most, in bytes.
const MOST_IN_MEMORY: u64 = 1 << 20;
/// What is decompressed into a file at most.
const MOST_IN_FILE: u64 = 2 << 30;
/// The same where there is no place for a file but in memory.
const MOST_WITHOUT_FILE: u64 = 16 << 20;
/// How many times its size a large section may have decompressed. Debug information shrinks to a third or a tenth;
/// zlib cannot shrink anything to less than a thousandth, zstd can.
const MOST_GROWTH: u64 = 64;

/// A compressed section.
pub(super) struct Packed<'a> {
    pub(super) name: &'a str,
    pub(super) form: Form,
    pub(super) contents: Reader,
    /// The size that it is said to have when it is decompressed.
    pub(super) size: u64,
}

impl Packed<'_> {
    /// Its contents; None where they are damaged. `beside` has files to write to.
    pub(super) fn inflate(self, beside: &dyn Beside) -> Result<Option<Reader>, TooMuch> {
        let (size, packed) = (self.size, gimli::Reader::len(&self.contents) as u64);
        let section = || self.name.to_owned();
        if size > MOST_IN_MEMORY && size / MOST_GROWTH > packed {
            return Err(TooMuch::Growth {
                section: section(),
                size,
                packed,
            });
        }
        let file = match size > MOST_IN_MEMORY {
            true => match beside.look(&Wanted::Scratch) {
                Looked::Found(opened) => Some(opened.file),
                Looked::Nothing | Looked::NoPlace => None,
            },
            false => None,
        };
        let limit = match file {
            Some(_) => MOST_IN_FILE,
            None => MOST_WITHOUT_FILE,
        };
        if size > limit {
            return Err(TooMuch::Compressed {
                section: section(),
                size,
                limit,
            });
        }
        let Ok(len) = usize::try_from(size) else {
            return Ok(None);
        };
        Ok(match file {
            Some(mut file) => {
                let written = self.copy_to(|bytes| file.write_all(bytes));
                // A disk that is full leaves less to be read.
                let is_whole = written.is_ok_and(|written| written == size);
                is_whole.then(|| Reader::of_file(Arc::new(PagedFile::new(file)), 0, len))
            }
            None => {
                let mut all = Vec::with_capacity(len);
                let written = self.copy_to(|bytes| {
                    all.extend_from_slice(bytes);
                    Ok(())
                });
                let is_whole = written.is_ok_and(|written| written == size);
                is_whole.then(|| Reader::of_bytes(all.into()))
            }
        })
    }

    fn copy_to(self, take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
        inflate(self.form, self.contents, self.size, take)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::{Compression, write::ZlibEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;
    use crate::symbols::beside::NothingBeside;
    use crate::symbols::effort;

    /// No files can be had.
    struct NoFiles;

    impl Beside for NoFiles {
        fn look(&self, _: &Wanted) -> Looked {
            Looked::Nothing
        }
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstandard(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn packed(form: Form, contents: Vec<u8>, size: u64) -> Packed<'static> {
        Packed {
            name: ".debug_info",
            form,
            contents: Reader::of_bytes(contents.into()),
            size,
        }
    }

    /// Bytes that shrink a little.
    fn bytes(len: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(1);
        (0..len).map(|_| random.u8(..16)).collect()
    }

    /// Check small and large sections, of one frame and of several, in memory and in a file.
    #[test]
    fn contents() {
        for len in [0, 1, 70_000, (MOST_IN_MEMORY + 100_000) as usize] {
            let bytes = bytes(len);
            let (first, second) = bytes.split_at(len / 3);
            let frames = [zstandard(first), zstandard(second)].concat();
            for (form, contents) in [
                (Form::Zlib, zlib(&bytes)),
                (Form::Zstandard, zstandard(&bytes)),
                (Form::Zstandard, frames),
            ] {
                for beside in [&NothingBeside as &dyn Beside, &NoFiles] {
                    effort::begin();
                    let packed = packed(form, contents.clone(), len as u64);
                    let mut read = packed.inflate(beside).unwrap().unwrap();
                    let mut all = Vec::new();
                    read.read_to_end(&mut all).unwrap();
                    assert!(all == bytes, "{form:?} {len}");
                }
            }
        }
    }

    /// Check that a section that claims more than it has is damaged, and one that has more is read as far as it claims.
    #[test]
    fn wrong_sizes() {
        let contents = zstandard(&bytes(1000));
        let longer = packed(Form::Zstandard, contents.clone(), 1001);
        assert!(longer.inflate(&NothingBeside).unwrap().is_none());
        let shorter = packed(Form::Zstandard, contents, 999);
        let read = shorter.inflate(&NothingBeside).unwrap().unwrap();
        assert_eq!(gimli::Reader::len(&read), 999);
        let damaged = packed(Form::Zlib, vec![0x55; 100], 100);
        assert!(damaged.inflate(&NothingBeside).unwrap().is_none());
    }

    /// Check that bombs are refused by what they claim, whether by growth or by size.
    #[test]
    fn bombs() {
        let bomb = zstandard(&vec![0; 32 << 20]);
        assert!(bomb.len() < 100_000);
        let refused = packed(Form::Zstandard, bomb, 32 << 20).inflate(&NothingBeside);
        assert!(matches!(refused, Err(TooMuch::Growth { .. })));
        let large = packed(Form::Zlib, vec![0; 4 << 20], 100 << 20);
        let refused = large.inflate(&NoFiles);
        assert!(
            matches!(refused, Err(TooMuch::Compressed { limit, .. }) if limit == MOST_WITHOUT_FILE)
        );
    }
}
