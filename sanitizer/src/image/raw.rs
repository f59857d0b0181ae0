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
