//! What is known of a file whose code is sampled: all that is asked of it while threads stand and accesses are judged, as plain data in sorted lists.
//!
//! Whoever reads the file makes it once ([`Outline::of`]), and whoever watches a process that has the file mapped needs nothing else but the file's bytes
//! ([`Outlined`]): so that one need not parse what the other does. It is decoded in bounds, and counts only if it is sound
//! ([`Outline::is_sound`]).

mod declared;
mod frames;
mod functions;
#[cfg(test)]
#[cfg(test)]
mod here;
mod outlined;
mod rule;
mod unwinding;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::call_frames::CallFrames;
use super::fragments::load_metadata;
use super::text::cut;
use crate::addr::LinkAddr;
use crate::bounded;
use crate::image::{Image, Segment};
use crate::pcmeta::{BlockMap, Metadata, StackMaps};

pub use declared::Declared;
pub use frames::Frames;
use frames::MOST_ROWS;
pub use functions::{Functions, NamedFunction};
#[cfg(test)]
#[cfg(test)]
pub use here::Here as OutlinedHere;
pub use outlined::Outlined;

/// Segments that are loaded: linkers make some ten. All are looked at for each address.
const MOST_SEGMENTS: usize = 1 << 8;
/// The longest identity of a build, in bytes: linkers make some of 20, and users of theirs.
const LONGEST_BUILD_ID: usize = 1 << 10;
/// Sections with stubs: a linker makes three.
const MOST_STUBS: usize = 1 << 8;

/// Nothing ends further behind a file's first address.
const REACH: u64 = 2 << 32;

/// See the module.
#[derive(Serialize, Deserialize)]
pub struct Outline {
    #[serde(deserialize_with = "bounded::list::<_, _, MOST_SEGMENTS>")]
    segments: Vec<Segment>,
    is_position_independent: bool,
    #[serde(deserialize_with = "bounded::list::<_, _, LONGEST_BUILD_ID>")]
    build_id: Vec<u8>,
    /// Where linkers have put stubs that jump to functions of other files.
    #[serde(deserialize_with = "bounded::list::<_, _, MOST_STUBS>")]
    stubs: Vec<Range<LinkAddr>>,
    may_have_code_tables: bool,
    is_cut: bool,
    /// Or why it cannot be read.
    metadata: Result<Metadata, String>,
    declared: Declared,
    functions: Functions,
    frames: Frames,
}

impl Outline {
    /// That of a file.
    #[must_use]
    pub fn of(image: &Image) -> Self {
        let mut outline = Self::of_headers(image);
        let segments = image.segments().len();
        if segments > MOST_SEGMENTS {
            let why = format!(
                "{}: it has {segments} segments to be loaded, of which a file may have {MOST_SEGMENTS}, so its code is not watched; link it with \
                 fewer segments (PHDRS of the linker script)",
                image.name().display()
            );
            outline.metadata = Err(cut(why));
            return outline;
        }
        let tables = CallFrames::of(image);
        let metadata = metadata_of(image, &tables);
        let known = metadata.as_ref().ok();
        // Of what reaches beyond the last address nothing is told.
        let base = Some(base(&outline.segments)).filter(|base| base.0.checked_add(REACH).is_some());
        let base = base.unwrap_or_default();
        let is_analyzed = |address| {
            let function = known.and_then(|known| known.function_at(address));
            function.is_some_and(|function| function.is_analyzed())
        };
        outline.declared = Declared::by(image);
        let routines = outline.declared.starts();
        let is_routine = |range: Range<LinkAddr>| {
            let next = routines.partition_point(|&start| start < range.start);
            routines.get(next).is_some_and(|&start| start < range.end)
        };
        outline.frames = Frames::of(image, base, MOST_ROWS, is_routine, |address| {
            !is_analyzed(address)
        });
        let none = Metadata::default();
        outline.functions = Functions::of(image, base, known.unwrap_or(&none));
        outline.metadata = metadata.map_err(cut);
        // Asked last: some of that was zeros then, which nobody has written.
        if image.is_cut() {
            outline = Self::of_headers(image);
            outline.is_cut = true;
        }
        outline
    }

    /// What the headers tell.
    fn of_headers(image: &Image) -> Self {
        let stubs = image.sections().filter(|section| {
            section.is_executable && section.name.starts_with(".plt") && section.size > 0
        });
        let stubs = stubs.map(|section| {
            let end = section.address.0.saturating_add(section.size);
            section.address..LinkAddr(end)
        });
        let stubs = stubs.filter(|range| range.start < range.end);
        let build_id = image.build_id().unwrap_or_default();
        let build_id = build_id.get(..LONGEST_BUILD_ID).unwrap_or(build_id);
        Self {
            segments: image
                .segments()
                .iter()
                .take(MOST_SEGMENTS)
                .copied()
                .collect(),
            is_position_independent: image.is_position_independent(),
            build_id: build_id.to_vec(),
            stubs: stubs.take(MOST_STUBS).collect(),
            may_have_code_tables: may_have_code_tables(image),
            is_cut: false,
            metadata: Ok(Metadata::default()),
            declared: Declared::default(),
            functions: Functions::default(),
            frames: Frames::default(),
        }
    }

    /// Whether it can be that of a file: whoever has read that may be the file's by now. What is not checked here says no
    /// more than a file may say of itself.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.segments.len() <= MOST_SEGMENTS
            && self.stubs.iter().all(|range| range.start < range.end)
            && (self.metadata.as_ref().err()).is_none_or(|why| *why == cut(why.clone()))
            && self.declared.is_sound()
            && [self.frames.base, self.functions.base]
                .iter()
                .all(|base| base.0.checked_add(REACH).is_some())
    }

    /// It in so many bytes as it is told at most: without where callers' registers are, and without what symbols name as well, where it has more with them. Nothing
    /// where it has more without them.
    #[must_use]
    pub fn within(mut self, most: usize) -> Option<Self> {
        let fits = |outline: &Self| outline.to_bytes().is_ok_and(|bytes| bytes.len() <= most);
        if !fits(&self) {
            self.frames.rows = Vec::new();
            self.frames.rules = Vec::new();
            if !fits(&self) {
                self.functions = Functions::default();
            }
        }
        fits(&self).then_some(self)
    }

    /// As it is told.
    ///
    /// # Errors
    /// Fails where there is no memory for it.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_allocvec(self)
    }

    /// What somebody tells, in bounds.
    ///
    /// # Errors
    /// Fails where the bytes are none, or none that is [sound](Self::is_sound).
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, postcard::Error> {
        let outline: Self = postcard::from_bytes(bytes)?;
        match outline.is_sound() {
            true => Ok(outline),
            false => Err(postcard::Error::SerdeDeCustom),
        }
    }

    /// Memory that it takes, in bytes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let metadata = match &self.metadata {
            Ok(metadata) => metadata.kept(),
            Err(why) => why.capacity(),
        };
        self.segments.capacity() * size_of::<Segment>()
            + self.build_id.capacity()
            + self.stubs.capacity() * size_of::<Range<LinkAddr>>()
            + metadata
            + self.declared.bytes()
            + self.functions.bytes()
            + self.frames.bytes()
    }
}

/// The metadata of a file with parts of functions, or why there is none.
fn metadata_of(image: &Image, tables: &CallFrames) -> Result<Metadata, String> {
    let metadata = load_metadata(image, || tables).map_err(|error| error.to_string())?;
    match metadata.excess() {
        None => Ok(metadata),
        Some((what, most)) => Err(format!(
            "{}: it has more than {most} {what}, so its code is not watched; split the program into shared libraries",
            image.name().display()
        )),
    }
}

/// The first address of a file.
fn base(segments: &[Segment]) -> LinkAddr {
    let addresses = segments.iter().map(|segment| segment.address);
    addresses.min().unwrap_or_default()
}

/// Whether a file has code tables, or may have been stripped of them: the names of its functions are gone then, and it is told where to look.
fn may_have_code_tables(image: &Image) -> bool {
    let is_stripped = || {
        image.section(".symtab").is_none()
            && (image.build_id().is_some() || image.debuglink().is_some())
    };
    BlockMap::is_in(image) || StackMaps::is_in(image) || is_stripped()
}

#[cfg(test)]
mod tests;
