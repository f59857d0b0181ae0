//! Bytes of a file, whoever has them.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt;

/// Whoever has the bytes of a file.
pub trait ReadAt {
    /// Reads some of them, from an offset on: how many; none at the end.
    ///
    /// # Errors
    /// They cannot be read, or no file has so great an offset.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, at)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..));
        rest.unwrap_or_default().read(bytes)
    }
}
