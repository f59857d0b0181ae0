//! Whether ELF files carry the compiler's metadata and debug information.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::image::Image;
use crate::symbols::{CallFrames, DebugDirs, ModuleInfo, debug_image, load_metadata};

use super::{Check, plural};

/// How to build a program so that it can be watched.
pub(super) const BUILD: &str = "build it with `clang -fexperimental-sanitize-metadata=atomics -mllvm \
    -enable-tail-merge=0 -mllvm -x86-promote-anyext-load=0 -g` (link with clang, too), or \
    `RUSTFLAGS='-C passes=sanmd-module -C llvm-args=-sanitizer-metadata-covered -C \
    llvm-args=-sanitizer-metadata-atomics -C llvm-args=-enable-tail-merge=0 -C \
    llvm-args=-x86-promote-anyext-load=0 -g' cargo build`";

/// What one file carries.
pub(super) struct Carried {
    /// Functions whose atomic operations are known.
    pub(super) analyzed: usize,
    /// Functions with metadata.
    pub(super) covered: usize,
    /// Atomic instructions.
    pub(super) atomics: usize,
    /// The share of its code that is analyzed, in percent.
    pub(super) percent: u64,
}

impl Carried {
    /// Reads it; the text says why not.
    pub(super) fn of(image: &Image) -> Result<Self, String> {
        let frames = OnceCell::new();
        let metadata = load_metadata(image, || frames.get_or_init(|| CallFrames::of(image)));
        let metadata = metadata.map_err(|error| error.to_string())?;
        let analyzed: Vec<_> = metadata.functions().filter(|f| f.is_analyzed()).collect();
        let bytes: u64 = analyzed.iter().map(|function| function.size()).sum();
        let wholes = analyzed
            .iter()
            .filter(|function| !metadata.is_part(function));
        let text: u64 = (image.text_ranges().iter())
            .map(|range| range.end.0.saturating_sub(range.start.0))
            .sum();
        Ok(Self {
            analyzed: wholes.count(),
            covered: metadata.function_count() - metadata.fragment_count(),
            atomics: metadata.atomic_count(),
            percent: bytes
                .saturating_mul(100)
                .checked_div(text)
                .unwrap_or(0)
                .min(100),
        })
    }

    /// The finding for a whole program.
    pub(super) fn check(&self) -> Check {
        let name = "metadata";
        let Self {
            analyzed,
            covered,
            atomics,
            percent,
        } = *self;
        if covered == 0 {
            return Check::fail(name, "none: nothing in it would be watched", BUILD);
        }
        if analyzed == 0 {
            return Check::fail(
                name,
                format!(
                    "{}, but no atomic operations were recorded",
                    plural(covered, "function")
                ),
                BUILD,
            );
        }
        Check::ok(
            name,
            format!(
                "{} analyzed ({percent}% of its code), {}",
                plural(analyzed, "function"),
                plural(atomics, "atomic instruction"),
            ),
        )
    }
}

/// Whether reports about a module can name lines.
pub(super) fn has_lines(image: &Image, module: &ModuleInfo, debug_dirs: &Arc<DebugDirs>) -> bool {
    const SECTIONS: [&str; 2] = [".debug_line", ".zdebug_line"];
    SECTIONS.iter().any(|name| image.section(name).is_some())
        || debug_image(module, debug_dirs, u64::MAX).is_some()
}

/// The finding about lines.
pub(super) fn lines_check(has_lines: bool) -> Check {
    let name = "debug information";
    if has_lines {
        Check::ok(name, "reports can name lines")
    } else {
        Check::warn(
            name,
            "none: reports name functions at best, no lines",
            "build it with -g",
        )
    }
}
