//! The bytes of a file: mapped, copied, or given.

use std::fs::{File, FileType};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::kernel::file_map::FileMap;
use crate::kernel::named::{Named, no_file};

use super::ImageError;
use super::copy::{Copy, Held};

pub(super) enum Bytes {
    Mapped(FileMap),
    Owned(Vec<u8>),
    Copied(Held),
    /// Those of a member of an archive.
    Part(Arc<Bytes>, Range<usize>),
}

impl Bytes {
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(vec) => vec,
            Self::Copied(held) => held.bytes(),
            Self::Part(whole, range) => whole.as_slice().get(range.clone()).unwrap_or_default(),
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        match self {
            Self::Mapped(map) => map.is_cut(),
            Self::Owned(_) | Self::Copied(_) => false,
            Self::Part(whole, _) => whole.is_cut(),
        }
    }

    /// Maps the file at `path`. Nothing but a regular file is opened.
    pub(super) fn open(path: &Path) -> Result<Self, ImageError> {
        let read_error = |source| ImageError::Read {
            file: path.into(),
            source,
        };
        let named = Named::find(path).map_err(read_error)?;
        check_kind(named.kind(), path)?;
        Self::map(&named.open().map_err(read_error)?, path)
    }

    /// A copy of a file, on a disk where there is one, with that copy.
    pub(super) fn copy(file: File, name: &Path) -> Result<(Self, Option<File>), ImageError> {
        let read_error = |source| ImageError::Read {
            file: name.into(),
            source,
        };
        check_kind(file.metadata().map_err(read_error)?.file_type(), name)?;
        Ok(match Copy::of(file).map_err(read_error)? {
            Copy::OnDisk(file) => (Self::map(&file, name)?, Some(file)),
            Copy::InMemory(held) => (Self::Copied(held), None),
        })
    }

    pub(super) fn map(file: &File, name: &Path) -> Result<Self, ImageError> {
        let read_error = |source| ImageError::Read {
            file: name.into(),
            source,
        };
        let metadata = file.metadata().map_err(read_error)?;
        check_kind(metadata.file_type(), name)?;
        Self::map_size(file, metadata.len(), name)
    }

    /// Maps a regular file of so many bytes.
    pub(super) fn map_size(file: &File, size: u64, name: &Path) -> Result<Self, ImageError> {
        if size == 0 {
            // An empty file cannot be mapped, and has nothing to map.
            return Ok(Self::Owned(Vec::new()));
        }
        let map = FileMap::of_size(file, size).map_err(|source| ImageError::Read {
            file: name.into(),
            source,
        })?;
        Ok(Self::Mapped(map))
    }
}

fn check_kind(kind: FileType, name: &Path) -> Result<(), ImageError> {
    if kind.is_file() {
        return Ok(());
    }
    let (what, mend) = no_file(kind);
    Err(ImageError::Unsupported {
        file: name.into(),
        what: what.into(),
        mend,
    })
}
