//! The bytes of a file that nobody has looked into yet, and that somebody else is to look into: what is loaded of them is found by what he tells.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::content::Bytes;
use super::{ImageError, Segment};
use crate::addr::LinkAddr;

/// What ELF files begin with.
const MAGIC: [u8; 4] = *b"\x7fELF";

/// See the module.
pub struct Raw {
    name: PathBuf,
    bytes: Bytes,
    /// The file, where it is one.
    file: Option<File>,
}

/// What whoever looks into it gets.
pub enum HandedOver<'raw> {
    /// A file with so many bytes.
    File(&'raw File, u64),
    /// All bytes.
    Bytes(&'raw [u8]),
}

impl Raw {
    /// Maps an open file; `name` is what messages call it.
    ///
    /// # Errors
    /// It is no regular file, or cannot be mapped.
    pub fn of_file(file: File, name: &Path) -> Result<Self, ImageError> {
        let bytes = Bytes::map(&file, name)?;
        Ok(Self::new(name, bytes, Some(file)))
    }

    /// Copies an open file whose file system a process serves, as [`super::Image::from_served_file`] does.
    ///
    /// # Errors
    /// As [`Raw::of_file`], and where there is no room for a copy.
    pub fn of_served_file(file: File, name: &Path) -> Result<Self, ImageError> {
        let (bytes, copy) = Bytes::copy(file, name)?;
        Ok(Self::new(name, bytes, copy))
    }

    /// Takes the bytes of what is no file.
    #[must_use]
    pub fn of_bytes(bytes: Vec<u8>, name: &Path) -> Self {
        Self::new(name, Bytes::Owned(bytes), None)
    }

    fn new(name: &Path, bytes: Bytes, file: Option<File>) -> Self {
        Self {
            name: name.into(),
            bytes,
            file,
        }
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// What whoever looks into it is to get.
    #[must_use]
    pub fn handed_over(&self) -> HandedOver<'_> {
        let bytes = self.bytes.as_slice();
        match &self.file {
            Some(file) => HandedOver::File(file, bytes.len() as u64),
            None => HandedOver::Bytes(bytes),
        }
    }

    /// Closes the file, if it is one: its bytes stay mapped.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Whether it begins as ELF files do.
    ///
    /// # Errors
    /// Says that it does not.
    pub fn check_elf(&self) -> Result<(), ImageError> {
        match self.bytes.as_slice().starts_with(&MAGIC) {
            true => Ok(()),
            false => Err(ImageError::NotElf {
                file: self.name.clone(),
            }),
        }
    }

    /// `len` bytes as loaded at `address` by one of these segments, where all of them come from the file.
    #[must_use]
    pub fn bytes_at(&self, segments: &[Segment], address: LinkAddr, len: usize) -> Option<&[u8]> {
        bytes_at(self.bytes.as_slice(), segments, address, len)
    }

    /// The bytes as loaded from `address` on by that one of these segments which has the most there, `most` of them at most; nothing
    /// where none has any.
    #[must_use]
    pub fn bytes_from(
        &self,
        segments: &[Segment],
        address: LinkAddr,
        most: usize,
    ) -> Option<&[u8]> {
        bytes_from(self.bytes.as_slice(), segments, address, most)
    }

    /// Whether the file's end was cut off after it was opened, and somebody has read there.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.bytes.is_cut()
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// `len` bytes of `data` as loaded at `address` by one of these segments.
pub(super) fn bytes_at<'data>(
    data: &'data [u8],
    segments: &[Segment],
    address: LinkAddr,
    len: usize,
) -> Option<&'data [u8]> {
    segments.iter().find_map(|segment| {
        let inside = address.0.checked_sub(segment.address.0)?;
        let end = inside.checked_add(len as u64)?;
        if end > segment.file_size {
            return None;
        }
        let start = usize::try_from(segment.offset.0.checked_add(inside)?).ok()?;
        data.get(start..start.checked_add(len)?)
    })
}

/// As many bytes of `data` as one of these segments has from `address` on, `most` at most: one search, however long that is.
fn bytes_from<'data>(
    data: &'data [u8],
    segments: &[Segment],
    address: LinkAddr,
    most: usize,
) -> Option<&'data [u8]> {
    let mut found: Option<&[u8]> = None;
    for segment in segments {
        let Some(bytes) = rest(data, segment, address) else {
            continue;
        };
        let bytes = bytes.get(..most).unwrap_or(bytes);
        if found.is_none_or(|found| found.len() < bytes.len()) {
            found = Some(bytes);
        }
        if bytes.len() == most {
            break;
        }
    }
    found
}

/// What a segment has from an address on.
fn rest<'data>(data: &'data [u8], segment: &Segment, address: LinkAddr) -> Option<&'data [u8]> {
    let inside = address.0.checked_sub(segment.address.0)?;
    let room = segment.file_size.checked_sub(inside)?;
    let start = usize::try_from(segment.offset.0.checked_add(inside)?).ok()?;
    let rest = data.get(start..)?;
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    let rest = rest.get(..room).unwrap_or(rest);
    (!rest.is_empty()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::FileOffset;

    /// Check that what is found at once is what is found by trying one length after the other, also where segments overlap, end beyond
    /// the file, or lie.
    #[test]
    fn the_rest_of_a_segment() {
        let data: Vec<u8> = (0..100).collect();
        let segment = |address, offset, file_size| Segment {
            address: LinkAddr(address),
            offset: FileOffset(offset),
            file_size,
            memory_size: file_size,
            is_readable: true,
            is_writable: false,
            is_executable: true,
        };
        let segments = [
            segment(0x1000, 0, 8),
            segment(0x1004, 20, 40),
            segment(0x1006, 60, 10),
            segment(0x2000, 90, 1 << 40),
            segment(0x3000, 100, 5),
            segment(0x4000, u64::MAX, 5),
            segment(u64::MAX - 3, 0, u64::MAX),
        ];
        let bases = [0xff0, 0x1000, 0x1fff, 0x2000, 0x3000, 0x4000, u64::MAX - 70];
        let addresses = bases
            .into_iter()
            .flat_map(|base| base..=base.saturating_add(70));
        let mut some = 0;
        for address in addresses.map(LinkAddr) {
            for most in [1, 2, 15, 50, 200] {
                let tried = |len| bytes_at(&data, &segments, address, len);
                let expected = (1..=most).rev().find_map(tried);
                let found = bytes_from(&data, &segments, address, most);
                assert_eq!(found, expected, "{address} {most}");
                some += usize::from(found.is_some());
            }
        }
        assert!(some > 200, "{some}");
    }
}
