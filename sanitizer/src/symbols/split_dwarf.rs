//! Split DWARF (DWARF 5, 7.3.2, and the GNU extension before it): most of the debug
//! information is in a package `PROGRAM.dwp` or in one `.dwo` file a compilation unit.

use std::sync::Arc;

use gimli::{Dwarf, DwarfPackage, DwoId};

use super::beside::{Beside, Looked, Wanted};
use super::elf_file::ElfFile;
use super::reader::Reader;
use super::unit;

/// A unit whose debug information is in another file.
pub(super) struct Missing<'a> {
    pub(super) dwo_id: DwoId,
    /// Where it was compiled.
    pub(super) directory: Option<String>,
    /// The other file, from there.
    pub(super) path: Option<String>,
    /// The file that has the unit.
    pub(super) parent: &'a Dwarf<Reader>,
}

/// Where a module's split debug information is.
pub(super) struct SplitDwarf {
    beside: Arc<dyn Beside>,
    package: Option<DwarfPackage<Reader>>,
}

impl SplitDwarf {
    /// Looks for the module's package.
    pub(super) fn find(beside: Arc<dyn Beside>) -> Self {
        let package = elf(&beside, &Wanted::Package).and_then(|file| {
            let section = |id| Ok::<_, gimli::Error>(section(&file, id));
            DwarfPackage::load(section, Reader::empty_one()).ok()
        });
        Self { beside, package }
    }

    /// The DWARF of one compilation unit, if it is found.
    pub(super) fn load(&self, unit: &Missing<'_>) -> Option<Arc<Dwarf<Reader>>> {
        if let Some(package) = &self.package
            && let Ok(Some(dwarf)) = package.find_cu(unit.dwo_id, unit.parent)
        {
            return Some(Arc::new(dwarf));
        }
        let wanted = Wanted::Unit(unit.directory.clone(), unit.path.clone()?);
        load_unit(&elf(&self.beside, &wanted)?, unit)
    }
}

/// The ELF file that is looked for.
fn elf(beside: &Arc<dyn Beside>, wanted: &Wanted) -> Option<ElfFile> {
    match beside.look(wanted) {
        Looked::Found(opened) => ElfFile::new(opened, Arc::clone(beside)).ok(),
        Looked::Nothing | Looked::NoPlace => None,
    }
}

/// The DWARF in a `.dwo` file, if it is that of the unit.
fn load_unit(file: &ElfFile, unit: &Missing<'_>) -> Option<Arc<Dwarf<Reader>>> {
    let mut dwarf = Dwarf::load(|id| Ok::<_, gimli::Error>(section(file, id))).ok()?;
    let header = dwarf.units().next().ok()??;
    if unit::Root::read(&dwarf, header).ok()?.unit.dwo_id != Some(unit.dwo_id) {
        return None;
    }
    dwarf.make_dwo(unit.parent);
    Some(Arc::new(dwarf))
}

fn section(file: &ElfFile, id: gimli::SectionId) -> Reader {
    // All of them: a package's index refers to parts of sections that are not used as well.
    let contents = id.dwo_name().map(|name| file.section_reader(name));
    contents
        .and_then(Result::ok)
        .flatten()
        .unwrap_or_else(Reader::empty_one)
}
