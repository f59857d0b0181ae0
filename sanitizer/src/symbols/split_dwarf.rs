//! Split DWARF (DWARF 5, 7.3.2, and the GNU extension before it): most of the debug
//! information is in a package `PROGRAM.dwp` or in one `.dwo` file a compilation unit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::SplitDwarfLoad;
use gimli::{Dwarf, DwarfPackage, Reader as _};

use super::cfi::{Reader, reader};
use super::debug_file::{below, roots};
use super::elf_file::ElfFile;
use super::module::ModuleInfo;

/// Where a module's split debug information is.
pub(super) struct SplitDwarf {
    roots: Vec<PathBuf>,
    package: Option<DwarfPackage<Reader>>,
}

impl SplitDwarf {
    /// Looks for the module's package.
    pub(super) fn find(module: &ModuleInfo) -> Self {
        let roots = roots(module);
        let path = format!("{}.dwp", module.path);
        let package = roots
            .iter()
            .filter_map(|root| ElfFile::open(&below(root, Path::new(&path))).ok())
            .find_map(|file| {
                let section = |id| Ok::<_, gimli::Error>(section(&file, id));
                DwarfPackage::load(section, reader(Arc::from([]))).ok()
            });
        Self { roots, package }
    }

    /// The DWARF of one compilation unit, if it is found.
    pub(super) fn load(&self, load: &SplitDwarfLoad<Reader>) -> Option<Arc<Dwarf<Reader>>> {
        if let Some(package) = &self.package
            && let Ok(Some(dwarf)) = package.find_cu(load.dwo_id, &load.parent)
        {
            return Some(Arc::new(dwarf));
        }
        let text = |name: &Option<Reader>| {
            let bytes = name.as_ref()?.to_slice().ok()?.into_owned();
            String::from_utf8(bytes).ok()
        };
        let path = Path::new(&text(&load.comp_dir).unwrap_or_default()).join(text(&load.path)?);
        if !path.is_absolute() {
            return None;
        }
        self.roots
            .iter()
            .filter_map(|root| ElfFile::open(&below(root, &path)).ok())
            .find_map(|file| load_unit(&file, load))
    }
}

/// The DWARF in a `.dwo` file, if it is that of the unit.
fn load_unit(file: &ElfFile, load: &SplitDwarfLoad<Reader>) -> Option<Arc<Dwarf<Reader>>> {
    let mut dwarf = Dwarf::load(|id| Ok::<_, gimli::Error>(section(file, id))).ok()?;
    let header = dwarf.units().next().ok()??;
    let unit = dwarf.unit(header).ok()?;
    if unit.dwo_id != Some(load.dwo_id) {
        return None;
    }
    dwarf.make_dwo(&load.parent);
    Some(Arc::new(dwarf))
}

fn section(file: &ElfFile, id: gimli::SectionId) -> Reader {
    // All of them: a package's index refers to parts of sections that are not used as well.
    let bytes = id.dwo_name().and_then(|name| file.section_bytes(name));
    reader(bytes.unwrap_or_else(|| Arc::from([])))
}
