//! The debug information of a file and of those that belong to it: its units, of which few are kept at a time, and the
//! names of functions, to which entries of other units may lead.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use gimli::{AttributeValue, DebugInfoOffset, Dwarf, UnitOffset, constants as dw};

use super::entries::Entry;
use super::reader::Reader;
use super::split_dwarf::{Missing, SplitDwarf};
use super::text;
use super::too_much::TooMuch;
use super::unit::Unit;
use super::unit_index::UnitIndex;

/// Units that are kept for the next question. Each takes at most some 8 MB, but few take a tenth of one.
const MOST_KEPT: usize = 6;
/// What they may take together, in bytes.
const MOST_BYTES: usize = 12 << 20;
/// Entries that lead from one to the next, until one has a name.
const MOST_REFERENCES: u32 = 16;

/// Which of the files a unit is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// That of the code.
    Main,
    /// That to which dwz has moved what several files have in common.
    Supplementary,
    /// That of one unit alone.
    Split,
}

type SharedUnit = Result<Arc<Unit>, TooMuch>;

/// See the module.
pub(super) struct DebugInfo {
    main: Arc<Dwarf<Reader>>,
    index: UnitIndex,
    supplementary: OnceLock<Result<UnitIndex, TooMuch>>,
    split: Option<SplitDwarf>,
    /// The last that were asked for, the latest last.
    kept: RefCell<Vec<(Place, usize, SharedUnit)>>,
}

impl DebugInfo {
    pub(super) fn new(main: Dwarf<Reader>, split: Option<SplitDwarf>) -> Result<Self, TooMuch> {
        Ok(Self {
            index: UnitIndex::of_code(&main)?,
            main: Arc::new(main),
            supplementary: OnceLock::new(),
            split,
            kept: RefCell::default(),
        })
    }

    /// The units of the main file that may have a link-time address, the most likely first.
    pub(super) fn units_at(&self, addr: u64) -> impl Iterator<Item = SharedUnit> {
        (self.index.at(addr)).map(|offset| self.unit(Place::Main, offset))
    }

    /// The unit at an offset of a file's debug information.
    fn unit(&self, place: Place, offset: usize) -> SharedUnit {
        let is_it = |kept: &(Place, usize, SharedUnit)| (kept.0, kept.1) == (place, offset);
        let mut kept = self.kept.borrow_mut();
        let known = kept.iter().position(is_it).map(|at| kept.remove(at));
        let entry = known.unwrap_or_else(|| (place, offset, self.read(place, offset)));
        let unit = entry.2.clone();
        kept.push(entry);
        let bytes = |kept: &[(Place, usize, SharedUnit)]| {
            let units = kept.iter().filter_map(|(.., unit)| unit.as_ref().ok());
            units.map(|unit| unit.bytes()).sum::<usize>()
        };
        while kept.len() > 1 && (kept.len() > MOST_KEPT || bytes(&kept) > MOST_BYTES) {
            drop(kept.remove(0));
        }
        unit
    }

    fn read(&self, place: Place, offset: usize) -> SharedUnit {
        let dwarf = match place {
            Place::Main => Some(&self.main),
            Place::Supplementary => self.main.sup.as_ref(),
            Place::Split => None,
        };
        let dwarf = dwarf.ok_or(TooMuch::Damaged)?;
        let header = dwarf.unit_header(DebugInfoOffset(offset))?;
        Ok(Arc::new(Unit::read(dwarf, header)?))
    }

    /// The part of a unit that has its functions: in another file, or itself.
    pub(super) fn code<'unit>(&self, unit: &'unit Unit) -> (Place, &'unit Unit) {
        let Some(dwo_id) = unit.unit.dwo_id else {
            return (Place::Main, unit);
        };
        let split = unit.split.get_or_init(|| {
            let name = unit.unit.dwo_name().ok().flatten();
            let name = name.and_then(|name| unit.as_ref().attr_string(name).ok());
            let dwarf = self.split.as_ref()?.load(&Missing {
                dwo_id,
                directory: unit.unit.comp_dir.as_ref().and_then(text::of),
                path: name.as_ref().and_then(text::of),
                parent: &self.main,
            })?;
            let header = dwarf.units().next().ok()??;
            let mut split = Unit::read(&dwarf, header).ok()?;
            split.unit.copy_relocated_attributes(&unit.unit);
            Some(Box::new(split))
        });
        match split {
            Some(split) => (Place::Split, split),
            None => (Place::Main, unit),
        }
    }

    /// The name of the function of an entry, still mangled where it is.
    pub(super) fn function_name(
        &self,
        place: Place,
        unit: &Unit,
        entry: UnitOffset<usize>,
    ) -> Option<String> {
        self.first(place, unit, entry, |unit, entry| {
            let text = |name| {
                let name = unit.as_ref().attr_string(entry.attr_value(name)?).ok()?;
                text::of(&name)
            };
            text(dw::DW_AT_linkage_name)
                .or_else(|| text(dw::DW_AT_MIPS_linkage_name))
                .or_else(|| text(dw::DW_AT_name))
        })
    }

    /// The name of the function of an entry within what it belongs to.
    pub(super) fn short_name(
        &self,
        place: Place,
        unit: &Unit,
        entry: UnitOffset<usize>,
    ) -> Option<String> {
        self.first(place, unit, entry, |unit, entry| {
            let name = entry.attr_value(dw::DW_AT_name)?;
            text::of(&unit.as_ref().attr_string(name).ok()?)
        })
    }

    /// The line in which the function of an entry is declared: that of its definition, where it has one of its own.
    pub(super) fn function_line(
        &self,
        place: Place,
        unit: &Unit,
        entry: UnitOffset<usize>,
    ) -> Option<u32> {
        self.first(place, unit, entry, |_, entry| {
            let line = entry.attr_value(dw::DW_AT_decl_line)?.udata_value()?;
            line.try_into().ok().filter(|&line| line > 0)
        })
    }

    /// What an entry says, or the first that says it of those which it leads to: a copy of a function leads to the function, and
    /// a definition to its declaration.
    fn first<T>(
        &self,
        place: Place,
        unit: &Unit,
        entry: UnitOffset<usize>,
        says: impl Fn(&Unit, &Entry) -> Option<T>,
    ) -> Option<T> {
        let mut at = (place, None::<Arc<Unit>>, entry);
        for _ in 0..=MOST_REFERENCES {
            let here = at.1.as_deref().unwrap_or(unit);
            let entry = here.unit.entry(at.2).ok()?;
            if let Some(said) = says(here, &entry) {
                return Some(said);
            }
            let origin = entry.attr_value(dw::DW_AT_abstract_origin);
            let reference = origin.or_else(|| entry.attr_value(dw::DW_AT_specification))?;
            at = self.follow(at.0, at.1.take(), reference)?;
        }
        None
    }

    /// Where a reference leads: the file, the unit if it is another one than that of the function, and the entry.
    fn follow(
        &self,
        place: Place,
        unit: Option<Arc<Unit>>,
        reference: AttributeValue<Reader>,
    ) -> Option<(Place, Option<Arc<Unit>>, UnitOffset<usize>)> {
        let (place, index, offset) = match reference {
            AttributeValue::UnitRef(entry) => return Some((place, unit, entry)),
            AttributeValue::DebugInfoRef(offset) => match place {
                Place::Main => (place, &self.index, offset),
                Place::Supplementary => (place, self.supplementary()?, offset),
                // Split units are alone in their files.
                Place::Split => return None,
            },
            AttributeValue::DebugInfoRefSup(offset) => {
                (Place::Supplementary, self.supplementary()?, offset)
            }
            _ => return None,
        };
        let unit = self.unit(place, index.with_entry(offset.0)?).ok()?;
        let entry = offset.to_unit_offset(&unit.unit.header)?;
        Some((place, Some(unit), entry))
    }

    fn supplementary(&self) -> Option<&UnitIndex> {
        let dwarf = self.main.sup.as_ref()?;
        let index = (self.supplementary).get_or_init(|| UnitIndex::of_references(dwarf));
        index.as_ref().ok()
    }

    /// What is kept of it in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let supplementary = match self.supplementary.get() {
            Some(Ok(index)) => index.bytes(),
            _ => 0,
        };
        let kept = self.kept.borrow();
        let units = kept.iter().filter_map(|(.., unit)| unit.as_ref().ok());
        self.index.bytes() + supplementary + units.map(|unit| unit.bytes()).sum::<usize>()
    }
}
