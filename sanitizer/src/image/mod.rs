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
mod copy;
mod descriptors;
mod encoding;
mod error;
mod headers;
mod inflate;
mod machine;
mod note;
mod relocated;
mod relocations;
mod slot;
mod symbol;

use std::borrow::Cow;
use std::fmt;
use std::fs::{File, FileType};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::addr::{FileOffset, LinkAddr};
use crate::kernel::file_map::FileMap;
use crate::kernel::named::{Named, no_file};

pub use archive::Archive;
pub use encoding::Encoding;
pub use error::ImageError;
pub use headers::Segment;
pub(crate) use inflate::{Form, inflate};
pub use machine::Machine;
pub use slot::{Slot, SlotTarget};
pub use symbol::{FunctionSymbol, ObjectSymbol, Symbol};

use copy::{Copy, Held};
use headers::{Headers, Section, SectionKind};

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

enum Bytes {
    Mapped(FileMap),
    Owned(Vec<u8>),
    Copied(Held),
    /// Those of a member of an archive.
    Part(Arc<Bytes>, Range<usize>),
}

/// What a file is that can be inspected.
pub enum Opened {
    /// One ELF file.
    File(Image),
    /// An archive, which holds any number of them.
    Archive(Archive),
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(vec) => vec,
            Self::Copied(held) => held.bytes(),
            Self::Part(whole, range) => whole.as_slice().get(range.clone()).unwrap_or_default(),
        }
    }

    fn is_cut(&self) -> bool {
        match self {
            Self::Mapped(map) => map.is_cut(),
            Self::Owned(_) | Self::Copied(_) => false,
            Self::Part(whole, _) => whole.is_cut(),
        }
    }
}

impl Bytes {
    /// Maps the file at `path`. Nothing but a regular file is opened.
    fn open(path: &Path) -> Result<Self, ImageError> {
        let read_error = |source| ImageError::Read {
            file: path.into(),
            source,
        };
        let named = Named::find(path).map_err(read_error)?;
        check_kind(named.kind(), path)?;
        Self::map(named.open().map_err(read_error)?, path)
    }

    /// A copy of a file, on a disk where there is one.
    fn copy(file: File, name: &Path) -> Result<Self, ImageError> {
        let read_error = |source| ImageError::Read {
            file: name.into(),
            source,
        };
        check_kind(file.metadata().map_err(read_error)?.file_type(), name)?;
        Ok(match Copy::of(file).map_err(read_error)? {
            Copy::OnDisk(file) => Self::map(file, name)?,
            Copy::InMemory(held) => Self::Copied(held),
        })
    }

    fn map(file: File, name: &Path) -> Result<Self, ImageError> {
        let read_error = |source| ImageError::Read {
            file: name.into(),
            source,
        };
        let metadata = file.metadata().map_err(read_error)?;
        check_kind(metadata.file_type(), name)?;
        if metadata.len() == 0 {
            // An empty file cannot be mapped, and has nothing to map.
            return Ok(Self::Owned(Vec::new()));
        }
        let map = FileMap::new(&file).map_err(read_error)?;
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

/// One section of an image.
#[derive(Clone, Copy, Debug)]
pub struct SectionRef<'image> {
    /// Its index in the file.
    pub index: usize,
    /// Its name, empty where the file gives none.
    pub name: &'image str,
    /// Where the linker put it; zero for sections that are not loaded (debug information).
    pub address: LinkAddr,
    /// Where its bytes are in the file.
    pub offset: FileOffset,
    /// Its bytes as they stand in the file (compressed ones stay compressed); empty for
    /// sections without file content (`.bss`).
    pub data: &'image [u8],
    /// Its size in memory in bytes, which is also right for sections without file content.
    pub size: u64,
    /// What it holds, as `elf.h` and the makers of compilers number it (`sh_type`).
    pub kind: u32,
    /// Whether it is part of the loaded program.
    pub is_allocated: bool,
    /// Whether it holds instructions.
    pub is_executable: bool,
    /// Whether the program may write to it.
    pub is_writable: bool,
    /// Whether `data` is compressed (`SHF_COMPRESSED`).
    pub is_compressed: bool,
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
        Self::new(Bytes::map(file, name)?, name)?.linked()
    }

    /// Copies an open file whose file system a process serves: to read such a file through a map is to wait for that process with each page that
    /// is not in memory yet.
    ///
    /// # Errors
    /// As [`Image::open`], and where there is no room for a copy.
    pub fn from_served_file(file: File, name: &Path) -> Result<Self, ImageError> {
        Self::new(Bytes::copy(file, name)?, name)?.linked()
    }

    /// Maps an open file, which may also be an object file, and be of any machine; `name` is what messages call it.
    ///
    /// # Errors
    /// As [`Image::open_any`].
    pub fn from_any_file(file: File, name: &Path) -> Result<Self, ImageError> {
        Self::new(Bytes::map(file, name)?, name)
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
    fn linked(self) -> Result<Self, ImageError> {
        let unsupported = |what: String| ImageError::Unsupported {
            file: self.name().into(),
            what,
            mend: "build the program for x86-64",
        };
        if self.encoding() != Encoding::default() {
            return Err(unsupported("not a 64-bit little-endian ELF file".into()));
        }
        if !matches!(self.machine(), Machine::X86_64 | Machine::Aarch64) {
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
        let headers = Headers::parse(bytes.as_slice(), name)?;
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
        self.segments().iter().find_map(|segment| {
            let inside = address.0.checked_sub(segment.address.0)?;
            let end = inside.checked_add(len as u64)?;
            if end > segment.file_size {
                return None;
            }
            let start = usize::try_from(segment.offset.0.checked_add(inside)?).ok()?;
            self.data().get(start..start.checked_add(len)?)
        })
    }

    /// The first section called `name`.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<SectionRef<'_>> {
        self.sections().find(|section| section.name == name)
    }

    /// Whether there are relocations for a section of an object file.
    pub(crate) fn has_relocations(&self, section: &SectionRef<'_>) -> bool {
        let index = self.relocations();
        self.is_object() && index.has_table(section.index)
    }

    /// All sections, in file order.
    pub fn sections(&self) -> impl Iterator<Item = SectionRef<'_>> {
        let headers = &self.inner.headers;
        headers
            .sections
            .iter()
            .enumerate()
            .map(|(index, section)| self.section_ref(headers, index, section))
    }

    /// The section's bytes, decompressed and with its relocations applied, as they are in a program that is loaded
    /// at its link address, or, of an object file, linked to the addresses that its sections have
    /// here. In a table of a position-independent file the addresses of code are
    /// nowhere else.
    ///
    /// # Errors
    /// The section cannot be decompressed, or one of its relocations is of a type that tables do not
    /// have.
    pub fn relocated(&self, section: &SectionRef<'_>) -> Result<Cow<'_, [u8]>, ImageError> {
        let headers = &self.inner.headers;
        let found = headers.sections.get(section.index);
        let data = found.map_or(&[][..], |section| section.data(self.data()));
        let bytes = match section.is_compressed {
            true => {
                compressed::decompress(data, headers.encoding, self.name(), section.name)?.into()
            }
            false => Cow::Borrowed(data),
        };
        if !headers.is_object && !section.is_allocated {
            return Ok(bytes);
        }
        relocated::relocated(
            self.data(),
            headers,
            self.relocations(),
            section.index,
            bytes,
            self.name(),
        )
    }

    fn relocations(&self) -> &relocated::Index {
        let new = || relocated::Index::new(self.data(), &self.inner.headers);
        self.inner.relocations.get_or_init(new)
    }

    fn section_ref<'image>(
        &'image self,
        headers: &Headers,
        index: usize,
        section: &Section,
    ) -> SectionRef<'image> {
        let data = self.data();
        SectionRef {
            index,
            name: headers.section_name(data, section),
            address: section.address,
            offset: section.offset,
            data: section.data(data),
            size: section.size,
            kind: section.number,
            is_allocated: section.flags.allocated,
            is_executable: section.flags.executable,
            is_writable: section.flags.writable,
            is_compressed: section.flags.compressed,
        }
    }

    /// Where instructions are, sorted and without overlaps: the executable sections, or where
    /// section headers are gone the executable segments. Of a file with debug information only, where
    /// those of its program are. Functions without instructions may be in ranges without bytes.
    #[must_use]
    pub fn text_ranges(&self) -> Vec<Range<LinkAddr>> {
        let headers = &self.inner.headers;
        let sections = headers
            .sections
            .iter()
            .filter(|s| s.flags.executable && s.flags.allocated)
            .filter(|s| s.kind != SectionKind::NoBits || headers.is_debug_only)
            .map(|s| (s.address.0, s.size));
        let mut ranges: Vec<(u64, u64)> = if headers.sections.is_empty() {
            (self.segments().iter())
                .filter(|s| s.is_executable)
                .map(|s| (s.address.0, s.file_size))
                .collect()
        } else {
            sections.collect()
        };
        ranges.sort_unstable();
        let mut merged: Vec<Range<LinkAddr>> = Vec::with_capacity(ranges.len());
        for (start, size) in ranges {
            let end = LinkAddr(start.saturating_add(size));
            match merged.last_mut() {
                Some(last) if start < last.end.0 => last.end = last.end.max(end),
                _ => merged.push(LinkAddr(start)..end),
            }
        }
        merged
    }

    /// The functions that the symbol table names (`.symtab`, or `.dynsym` where that is
    /// stripped), sorted by address; of several names for one address the most public first. Where there are more of them
    /// than are kept, those that come first in the table.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionSymbol<'_>> {
        symbol::functions(self.data(), &self.inner.headers, |_| true).symbols
    }

    /// The same if it is all of them, for what is concluded of one that is missing.
    #[must_use]
    pub fn all_functions(&self) -> Option<Vec<FunctionSymbol<'_>>> {
        let kept = symbol::functions(self.data(), &self.inner.headers, |_| true);
        kept.are_all.then_some(kept.symbols)
    }

    /// Those of them that are wanted, wherever they are in the table.
    #[must_use]
    pub fn functions_where<'image>(
        &'image self,
        is_wanted: impl Fn(&FunctionSymbol<'image>) -> bool,
    ) -> Vec<FunctionSymbol<'image>> {
        symbol::functions(self.data(), &self.inner.headers, is_wanted).symbols
    }

    /// All of them in the order of the table, where nothing need be kept.
    pub fn each_function(&self) -> impl Iterator<Item = FunctionSymbol<'_>> {
        symbol::each_function(self.data(), &self.inner.headers)
    }

    /// The one that begins at an address or next before it: of several there, the one that [`Image::functions`] has last.
    #[must_use]
    pub fn function_before(&self, address: LinkAddr) -> Option<FunctionSymbol<'_>> {
        symbol::function_before(self.data(), &self.inner.headers, address)
    }

    /// What the symbol table names with a size and without saying what it is, sorted as [`Image::functions`]: so clang
    /// names the parts of functions that it lays out apart. Nothing where there are more than are kept.
    #[must_use]
    pub fn labels(&self) -> Option<Vec<Symbol<'_>>> {
        let kept = symbol::labels(self.data(), &self.inner.headers);
        kept.are_all.then_some(kept.symbols)
    }

    /// The variables that the symbol table names, thread-local ones apart; sorted as
    /// [`Image::functions`].
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectSymbol<'_>> {
        symbol::objects(self.data(), &self.inner.headers).symbols
    }

    /// The cells that the dynamic linker fills with the addresses of functions, as far as a
    /// section header leads to the relocations.
    #[must_use]
    pub fn slots(&self) -> Vec<Slot<'_>> {
        slot::slots(self.data(), &self.inner.headers)
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
