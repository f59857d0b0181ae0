//! A file's bytes with what is known of them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::{Declared, Frames, Functions, Outline};
use crate::addr::LinkAddr;
use crate::image::{Raw, Segment};
use crate::pcmeta::Metadata;
use crate::tracee::modules::Contents;

/// See the module. Cloning shares it.
#[derive(Clone)]
pub struct Outlined(Arc<Inner>);

struct Inner {
    bytes: Raw,
    outline: Outline,
    metadata: Option<Arc<Metadata>>,
    trouble: Option<String>,
    /// Memory that all but the bytes takes.
    kept: usize,
}

impl Outlined {
    /// Bytes with what somebody has told of them.
    #[must_use]
    pub fn new(bytes: Raw, mut outline: Outline) -> Self {
        let kept = outline.bytes();
        let metadata = std::mem::replace(&mut outline.metadata, Ok(Metadata::default()));
        let (metadata, trouble) = match metadata {
            Ok(metadata) => ((!metadata.is_empty()).then(|| Arc::new(metadata)), None),
            Err(why) => (None, Some(why)),
        };
        Self(Arc::new(Inner {
            bytes,
            outline,
            metadata,
            trouble,
            kept,
        }))
    }

    /// Whether another one is this one, or a copy that shares it.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// What messages call the file.
    #[must_use]
    pub fn name(&self) -> &Path {
        self.0.bytes.name()
    }

    /// The parts that are loaded into memory, in the order of the file.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.0.outline.segments
    }

    /// `len` bytes as loaded at `address`, where all of them come from the file.
    #[must_use]
    pub fn bytes_at(&self, address: LinkAddr, len: usize) -> Option<&[u8]> {
        self.0.bytes.bytes_at(self.segments(), address, len)
    }

    /// The bytes as loaded from `address` on, `most` at most, as far as one segment has them; nothing where none has any. It is one search
    /// for all lengths.
    #[must_use]
    pub fn bytes_from(&self, address: LinkAddr, most: usize) -> Option<&[u8]> {
        self.0.bytes.bytes_from(self.segments(), address, most)
    }

    /// Whether the file's end was cut off after it was opened, and somebody has read there: that was zeros, and nothing that was
    /// found in it may be believed.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.0.outline.is_cut || self.0.bytes.is_cut()
    }

    /// Whether an address is in a stub of the linker, which jumps to a function of another file.
    #[must_use]
    pub fn is_stub(&self, address: LinkAddr) -> bool {
        let mut stubs = self.0.outline.stubs.iter();
        stubs.any(|range| range.contains(&address))
    }

    /// Whether the file has tables of basic blocks or live values, or may have been stripped of them.
    #[must_use]
    pub fn may_have_code_tables(&self) -> bool {
        self.0.outline.may_have_code_tables
    }

    /// The metadata, where there is any.
    #[must_use]
    pub fn metadata(&self) -> Option<&Arc<Metadata>> {
        self.0.metadata.as_ref()
    }

    /// Why the metadata cannot be read.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.0.trouble.as_deref()
    }

    /// What the file says of memory routines.
    #[must_use]
    pub fn declared(&self) -> &Declared {
        &self.0.outline.declared
    }

    /// The functions that the symbol table names.
    #[must_use]
    pub fn functions(&self) -> &Functions {
        &self.0.outline.functions
    }

    /// The unwind tables.
    #[must_use]
    pub fn frames(&self) -> &Frames {
        &self.0.outline.frames
    }

    /// Memory that what is known takes, in bytes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.kept
    }
}

impl fmt::Debug for Outlined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outlined").field(&self.name()).finish()
    }
}

impl Contents for Outlined {
    fn segments(&self) -> &[Segment] {
        self.segments()
    }

    fn is_position_independent(&self) -> bool {
        self.0.outline.is_position_independent
    }

    fn build_id(&self) -> Option<&[u8]> {
        let build_id = self.0.outline.build_id.as_slice();
        (!build_id.is_empty()).then_some(build_id)
    }
}
