//! An ELF file as the detector needs it: where its code is, what it is called, and how link
//! addresses, file offsets and bytes belong together.
//!
//! The format: the System V ABI's ELF chapters and `elf.h`. Every offset and size comes from
//! the file, and so is checked before it is used; a damaged file gives an [`ImageError`].
//!
//! ```no_run
//! use std::path::Path;
//!
//! let image = gwp_race::image::Image::open(Path::new("/bin/true"))?;
//! for range in image.text_ranges() {
//!     println!("code at {}..{}", range.start, range.end);
//! }
//! # Ok::<(), gwp_race::image::ImageError>(())
//! ```

mod archive;
mod bytes;
mod compressed;
mod content;
mod copy;
mod descriptors;
mod encoding;
mod error;
mod functions;
mod headers;
mod inflate;
mod machine;
mod note;
mod opd;
mod raw;
mod relocated;
mod relocations;
mod section;
mod slot;
mod symbol;

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::addr::{FileOffset, LinkAddr};

pub use archive::Archive;
pub use copy::copy_to_disk;
pub use encoding::Encoding;
pub use error::ImageError;
pub use headers::Segment;
pub(crate) use inflate::{Form, inflate};
pub use machine::Machine;
pub use raw::{HandedOver, Raw};
pub use slot::{Slot, SlotTarget};
pub use symbol::{FunctionSymbol, ObjectSymbol, Symbol};

use content::Bytes;
use headers::Headers;
use headers::SectionKind;

pub use section::SectionRef;

/// An ELF file, mapped or owned. Cloning shares it.
#[derive(Clone)]
pub struct Image {
    inner: Arc<Inner>,
}

struct Inner {
    name: PathBuf,
    bytes: Bytes,
    headers: Headers,
    build_id: Option<Range<usize>>,
    /// Found out when the first section is to be relocated.
    relocations: OnceLock<relocated::Index>,
}

/// What a file is that can be inspected.
pub enum Opened {
    /// One ELF file.
    File(Image),
    /// An archive, which holds any number of them.
    Archive(Archive),
}

impl Image {
    /// Whether another one is this one, or a copy that shares it.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Maps the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is not a whole 64-bit little-endian ELF program or library.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        Self::open_any(path)?.linked()
    }

    /// Maps the file at `path`, which may also be an object file, and be of any machine, for what can be told
    /// without running it. The sections of an object file are given addresses of their own.
    ///
    /// # Errors
    /// The file cannot be read, or is not a whole ELF file.
    pub fn open_any(path: &Path) -> Result<Self, ImageError> {
        Self::new(Bytes::open(path)?, path)
    }

    /// Maps the file at `path`, which may also be an object file or an archive.
    ///
    /// # Errors
    /// The file cannot be read, or is neither a whole ELF file nor an archive.
    pub fn open_all(path: &Path) -> Result<Opened, ImageError> {
        Ok(match Archive::parse(Bytes::open(path)?, path)? {
            Ok(archive) => Opened::Archive(archive),
            Err(bytes) => Opened::File(Self::new(bytes, path)?),
        })
    }

    /// Maps an open file; `name` is what messages call it. For files that no path leads to:
    /// `/proc/PID/map_files`, deleted or replaced libraries.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn from_file(file: File, name: &Path) -> Result<Self, ImageError> {
        Self::new(Bytes::map(&file, name)?, name)?.linked()
    }

    /// Copies an open file whose file system a process serves: to read such a file through a map is to wait for that process with each page that
    /// is not in memory yet.
    ///
    /// # Errors
    /// As [`Image::open`], and where there is no room for a copy.
    pub fn from_served_file(file: File, name: &Path) -> Result<Self, ImageError> {
        Self::new(Bytes::copy(file, name)?.0, name)?.linked()
    }

    /// Maps an open file, which may also be an object file, and be of any machine; `name` is what messages call it.
    ///
    /// # Errors
    /// As [`Image::open_any`].
    pub fn from_any_file(file: File, name: &Path) -> Result<Self, ImageError> {
        Self::new(Bytes::map(&file, name)?, name)
    }

    /// Maps a regular file that is known to have so many bytes, and may also be an object file, and be of any machine: nothing is asked of the
    /// file, for a process that may not.
    ///
    /// # Errors
    /// As [`Image::open_any`].
    pub fn from_file_of_size(file: &File, size: u64, name: &Path) -> Result<Self, ImageError> {
        Self::new(Bytes::map_size(file, size, name)?, name)
    }

    /// Takes the bytes of an ELF file; `name` is what messages call it. For images that are no
    /// files: the vdso.
    ///
    /// # Errors
    /// The bytes are not a whole 64-bit little-endian ELF program or library.
    pub fn parse(bytes: Vec<u8>, name: &Path) -> Result<Self, ImageError> {
        Self::new(Bytes::Owned(bytes), name)?.linked()
    }

    /// Takes the bytes of an ELF file, which may also be an object file, and be of any machine.
    ///
    /// # Errors
    /// The bytes are not a whole ELF file.
    pub fn parse_any(bytes: Vec<u8>, name: &Path) -> Result<Self, ImageError> {
        Self::new(Bytes::Owned(bytes), name)
    }

    /// The same, if a linker has made it for a machine whose programs are known.
    ///
    /// # Errors
    /// Says what it is otherwise.
    pub(crate) fn linked(self) -> Result<Self, ImageError> {
        let unsupported = |what: String| ImageError::Unsupported {
            file: self.name().into(),
            what,
            mend: "build the program for x86-64",
        };
        if self.encoding() != Encoding::default() {
            return Err(unsupported("not a 64-bit little-endian ELF file".into()));
        }
        if !self.machine().is_known() {
            let number = self.machine().number();
            return Err(unsupported(format!("built for ELF machine {number}")));
        }
        if self.is_object() {
            return Err(ImageError::Unsupported {
                file: self.name().into(),
                what: "an object file, whose addresses are not known yet".into(),
                mend: "link it, and give the executable or the shared library",
            });
        }
        Ok(self)
    }

    fn new(bytes: Bytes, name: &Path) -> Result<Self, ImageError> {
        let mut headers = Headers::parse(bytes.as_slice(), name)?;
        headers.descriptors = opd::read(bytes.as_slice(), &headers);
        let build_id = note::build_id(bytes.as_slice(), &headers);
        Ok(Self {
            inner: Arc::new(Inner {
                name: name.into(),
                bytes,
                headers,
                build_id,
                relocations: OnceLock::new(),
            }),
        })
    }

    /// The file's name, as given when it was opened.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.inner.name
    }

    /// The whole file.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.inner.bytes.as_slice()
    }

    /// Whether the file's end was cut off after it was opened, and somebody has read there: that was zeros, and nothing that was
    /// found in it may be believed.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.inner.bytes.is_cut()
    }

    /// The linker's `NT_GNU_BUILD_ID`, the identity of this very build.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.data().get(self.inner.build_id.clone()?)
    }

    /// The instruction set.
    #[must_use]
    pub fn machine(&self) -> Machine {
        self.inner.headers.machine
    }

    /// How numbers are written in it.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.inner.headers.encoding
    }

    /// Whether it may be loaded anywhere (`ET_DYN`: shared libraries and PIE), so that run-time
    /// addresses differ from link addresses by a load bias.
    #[must_use]
    pub fn is_position_independent(&self) -> bool {
        self.inner.headers.is_position_independent
    }

    /// Whether it is an object file (`ET_REL`): its addresses are those that it was given here, and what
    /// is to be filled in is told by [`Image::relocated`].
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.inner.headers.is_object
    }

    /// Whether it holds only the debug information of a program, with the program's own code and data
    /// left out (`--only-keep-debug`).
    #[must_use]
    pub fn is_debug_only(&self) -> bool {
        self.inner.headers.is_debug_only
    }

    /// Whether it has a symbol table, which `strip` removes.
    #[must_use]
    pub fn has_symbol_table(&self) -> bool {
        let mut sections = self.inner.headers.sections.iter();
        sections.any(|section| section.kind == SectionKind::SymbolTable)
    }

    /// Whether a dynamic linker has to load it or relocate it (it has a `PT_DYNAMIC`).
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.inner.headers.is_dynamic
    }

    /// Where the program starts.
    #[must_use]
    pub fn entry(&self) -> LinkAddr {
        self.inner.headers.entry
    }

    /// The parts that are loaded into memory (`PT_LOAD`), in file order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.inner.headers.segments
    }

    /// Whether the file has a section header table. `strip` keeps it; some packers and
    /// `llvm-strip --strip-sections` do not, and then no section can be found by name.
    #[must_use]
    pub fn has_section_headers(&self) -> bool {
        !self.inner.headers.sections.is_empty()
    }

    /// The link address at which the byte at `offset` is loaded.
    #[must_use]
    pub fn link_address_of(&self, offset: FileOffset) -> Option<LinkAddr> {
        self.segments().iter().find_map(|segment| {
            let inside = offset.0.checked_sub(segment.offset.0)?;
            (inside < segment.file_size).then(|| LinkAddr(segment.address.0.wrapping_add(inside)))
        })
    }

    /// The file offset of the byte that is loaded at `address`.
    #[must_use]
    pub fn file_offset_of(&self, address: LinkAddr) -> Option<FileOffset> {
        self.segments().iter().find_map(|segment| {
            let inside = address.0.checked_sub(segment.address.0)?;
            (inside < segment.file_size).then(|| FileOffset(segment.offset.0.wrapping_add(inside)))
        })
    }

    /// `len` bytes as loaded at `address`, where all of them come from the file.
    #[must_use]
    pub fn bytes_at(&self, address: LinkAddr, len: usize) -> Option<&[u8]> {
        raw::bytes_at(self.data(), self.segments(), address, len)
    }

    /// Name and CRC-32 of the file that holds this one's debug information
    /// (`.gnu_debuglink`).
    #[must_use]
    pub fn debuglink(&self) -> Option<(String, u32)> {
        note::debuglink(self.section(".gnu_debuglink")?.data, self.encoding())
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("name", &self.inner.name)
            .field("size", &self.data().len())
            .field("machine", &self.machine())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
