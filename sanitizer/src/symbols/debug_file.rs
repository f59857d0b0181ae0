//! Finds the separate debug file of a stripped module, as GDB's manual describes in
//! "Debugging Information in Separate Files": by build id, then by `.gnu_debuglink`.

use std::sync::Arc;

use super::beside::{Beside, Looked, Wanted};
use super::debug_dirs::DebugDirs;
use super::elf_file::ElfFile;
use super::module::ModuleInfo;
use super::source::Source;
use crate::image::Image;

/// Where the files that belong to a module are looked for.
#[derive(Clone, Copy)]
pub(super) struct Search<'a>(pub(super) &'a Arc<dyn Beside>);

impl Search<'_> {
    /// The debug file of a module's file, if one is found that provably belongs to it.
    pub(super) fn debug_file(&self, file: &ElfFile) -> Option<ElfFile> {
        self.debug_file_up_to(file, u64::MAX)
            .map(|(_, found)| found)
    }

    /// The debug file of a module's file and how it was found, if it has at most `most` bytes; without reading
    /// through those that have more.
    pub(super) fn debug_file_up_to(&self, file: &ElfFile, most: u64) -> Option<(Wanted, ElfFile)> {
        self.by_build_id(file.build_id())
            .filter(|(_, found)| found.len() <= most)
            .or_else(|| self.by_debug_link(file, most))
            .or_else(|| self.served(file.build_id()))
    }

    /// The supplementary file that dwz moved common DWARF of `debug` to.
    pub(super) fn supplementary(&self, debug: &ElfFile) -> Option<ElfFile> {
        let (name, build_id) = debug.debug_alt_link()?;
        self.all(|nth| Wanted::Supplementary(name.clone(), nth))
            .find(|(_, found)| found.build_id() == build_id)
            .or_else(|| self.by_build_id(&build_id))
            .or_else(|| self.served(&build_id))
            .map(|(_, found)| found)
    }

    fn by_build_id(&self, build_id: &[u8]) -> Option<(Wanted, ElfFile)> {
        if build_id.is_empty() {
            return None;
        }
        self.all(|nth| Wanted::BuildId(build_id.to_vec(), nth))
            .find(|(_, found)| found.build_id() == build_id)
    }

    /// What a server has sent.
    fn served(&self, build_id: &[u8]) -> Option<(Wanted, ElfFile)> {
        let wanted = Wanted::Served(build_id.to_vec());
        let Looked::Found(opened) = self.0.look(&wanted) else {
            return None;
        };
        let found = ElfFile::new(opened, Arc::clone(self.0)).ok()?;
        (found.build_id() == build_id).then_some((wanted, found))
    }

    fn by_debug_link(&self, file: &ElfFile, most: u64) -> Option<(Wanted, ElfFile)> {
        let (name, crc) = file.debug_link()?;
        self.all(|nth| Wanted::DebugLink(name.clone(), nth))
            .filter(|(_, found)| found.identity() != file.identity() && found.len() <= most)
            .find(|(_, found)| {
                let ids_agree = !file.build_id().is_empty() && found.build_id() == file.build_id();
                ids_agree || found.crc32() == Some(crc)
            })
    }

    /// The ELF files in all places of something, one after the other.
    fn all(&self, wanted: impl Fn(u32) -> Wanted) -> impl Iterator<Item = (Wanted, ElfFile)> {
        let looked = (0..).map_while(move |nth| {
            let wanted = wanted(nth);
            let found = match self.0.look(&wanted) {
                Looked::Found(opened) => ElfFile::new(opened, Arc::clone(self.0)).ok(),
                Looked::Nothing => None,
                Looked::NoPlace => return None,
            };
            Some(found.map(|found| (wanted, found)))
        });
        looked.flatten()
    }
}

/// The debug file of a module as an image, where it has at most `most` bytes, looked for in these folders.
#[must_use]
pub fn debug_image(module: &ModuleInfo, dirs: &Arc<DebugDirs>, most: u64) -> Option<Image> {
    let source = Arc::new(Source::of(module, dirs).ok()?);
    let beside: Arc<dyn Beside> = Arc::clone(&source) as _;
    let file = ElfFile::new(source.opened().again().ok()?, Arc::clone(&beside)).ok()?;
    let (wanted, found) = Search(&beside).debug_file_up_to(&file, most)?;
    let Looked::Found(again) = source.look(&wanted) else {
        return None;
    };
    let image = Image::from_any_file(again.file, &source.place(&wanted)?.path).ok()?;
    (image.build_id().unwrap_or_default() == found.build_id()).then_some(image)
}
