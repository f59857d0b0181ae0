//! Finds the separate debug file of a stripped module, as GDB's manual describes in
//! "Debugging Information in Separate Files": by build id, then by `.gnu_debuglink`.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use super::elf_file::ElfFile;
use super::module::ModuleInfo;
use crate::image::Image;
use crate::kernel::foreign::{Purpose, Root};

/// Where distributions install debug files.
pub(super) const DEFAULT_DEBUG_DIR: &str = "/usr/lib/debug";

/// Where the files that belong to a module are looked for.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    /// The root in which names are followed; in no other one.
    pub(super) root: &'a Root,
    /// The folders of debug files there.
    pub(super) debug_dirs: &'a [PathBuf],
}

impl Search<'_> {
    /// The ELF file of that name.
    fn elf(&self, path: &Path) -> Option<ElfFile> {
        open_elf(self.root, path)
    }

    /// The debug file of `module`, if one is found that provably belongs to it.
    pub(super) fn debug_file(&self, module: &ModuleInfo, file: &ElfFile) -> Option<ElfFile> {
        self.debug_file_up_to(module, file, u64::MAX)
            .map(|(_, found)| found)
    }

    /// The debug file of `module` and its name, if it has at most `most` bytes; without reading
    /// through those that have more.
    fn debug_file_up_to(
        &self,
        module: &ModuleInfo,
        file: &ElfFile,
        most: u64,
    ) -> Option<(PathBuf, ElfFile)> {
        self.by_build_id(file.build_id())
            .filter(|(_, found)| found.len() <= most)
            .or_else(|| self.by_debug_link(module, file, most))
    }

    /// The supplementary file that dwz moved common DWARF of `debug` to.
    pub(super) fn supplementary(&self, debug: &ElfFile) -> Option<ElfFile> {
        let (name, build_id) = debug.debug_alt_link()?;
        let mut candidates = Vec::new();
        if Path::new(&name).is_absolute() {
            candidates.push(PathBuf::from(&name));
        }
        // Debian: `../../.dwz/...`, relative to the directory of the debug file.
        if let Some(tail) = name.find(".dwz/").and_then(|at| name.get(at..)) {
            candidates.extend(self.debug_dirs.iter().map(|dir| dir.join(tail)));
        }
        candidates
            .iter()
            .filter_map(|path| self.elf(path))
            .find(|found| found.build_id() == build_id)
            .or_else(|| self.by_build_id(&build_id).map(|(_, found)| found))
    }

    fn by_build_id(&self, build_id: &[u8]) -> Option<(PathBuf, ElfFile)> {
        let (first, rest) = build_id.split_first()?;
        if rest.is_empty() {
            return None;
        }
        let rest: String = rest.iter().map(|b| format!("{b:02x}")).collect();
        let name = format!(".build-id/{first:02x}/{rest}.debug");
        self.debug_dirs
            .iter()
            .map(|dir| dir.join(&name))
            .filter_map(|path| self.elf(&path).map(|found| (path, found)))
            .find(|(_, found)| found.build_id() == build_id)
    }

    fn by_debug_link(
        &self,
        module: &ModuleInfo,
        file: &ElfFile,
        most: u64,
    ) -> Option<(PathBuf, ElfFile)> {
        let (name, crc) = file.debug_link()?;
        // A bare file name, so that a file cannot send us elsewhere.
        let mut parts = Path::new(&name).components();
        let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
            return None;
        };
        let dir = path_in_root(module).parent()?;
        let below = dir.strip_prefix("/").ok()?;
        let mut candidates = vec![dir.join(name), dir.join(".debug").join(name)];
        candidates.extend(
            self.debug_dirs
                .iter()
                .map(|debug| debug.join(below).join(name)),
        );
        for path in candidates {
            let Some(found) = self.elf(&path) else {
                continue;
            };
            if found.identity() == file.identity() || found.len() > most {
                continue;
            }
            let ids_agree = !file.build_id().is_empty() && found.build_id() == file.build_id();
            if ids_agree || found.crc32() == Some(crc) {
                return Some((path, found));
            }
        }
        None
    }
}

/// The debug file of a module as an image, where it has at most `most` bytes.
#[must_use]
pub fn debug_image(module: &ModuleInfo, most: u64) -> Option<Image> {
    let root = module.via.root().ok()??;
    let search = Search {
        root: &root,
        debug_dirs: &[DEFAULT_DEBUG_DIR.into()],
    };
    let file = ElfFile::new(module.via.open().ok()?).ok()?;
    let (path, found) = search.debug_file_up_to(module, &file, most)?;
    let again = root.file(&path, Purpose::Debug).ok()?.open().ok()?;
    let image = Image::from_any_file(again, &path).ok()?;
    // Somebody may have put another file in its place since.
    (image.build_id().unwrap_or_default() == found.build_id()).then_some(image)
}

/// A module's name in its root.
pub(super) fn path_in_root(module: &ModuleInfo) -> &Path {
    let known = module.via.path_in_root();
    known.unwrap_or_else(|| Path::new(&module.path))
}

/// The ELF file of that name in a root.
pub(super) fn open_elf(root: &Root, path: &Path) -> Option<ElfFile> {
    let file: File = root.file(path, Purpose::Debug).ok()?.open().ok()?;
    ElfFile::new(file).ok()
}
