//! Entries of a unit's debug information, walked for one question. What a file says of its types may be crafted:
//! a structure of two members of a structure of two members, or one that is its own member. (DWARF 5, 2.3 and 7.5.)

use std::cell::Cell;

use gimli::{AttributeValue, DebuggingInformationEntry, UnitOffset, UnitRef, constants as dw};

use super::reader::Reader;

/// How many entries are looked at for one question. The types of a program's variables take some hundred.
const ENTRIES: u32 = 1 << 18;

/// How deep types are followed.
pub(super) const DEPTH: u32 = 16;

pub(super) type Entry = DebuggingInformationEntry<Reader>;

/// A unit's entries, as many as one question may look at.
pub(super) struct Entries<'a> {
    unit: UnitRef<'a, Reader>,
    left: Cell<u32>,
}

impl<'a> Entries<'a> {
    pub(super) const fn of(unit: UnitRef<'a, Reader>) -> Self {
        Self {
            unit,
            left: Cell::new(ENTRIES),
        }
    }

    pub(super) const fn unit(&self) -> &UnitRef<'a, Reader> {
        &self.unit
    }

    /// One step more; None where there were too many.
    pub(super) fn step(&self) -> Option<()> {
        self.left.set(self.left.get().checked_sub(1)?);
        Some(())
    }

    pub(super) fn at(&self, offset: UnitOffset<usize>) -> Option<Entry> {
        self.step()?;
        self.unit.entry(offset).ok()
    }

    /// The entry of the unit itself.
    pub(super) fn root(&self) -> Option<UnitOffset<usize>> {
        let mut entries = self.unit.entries();
        Some(entries.next_dfs().ok()??.offset())
    }

    /// Passes over what is below an entry, in the order of the file. `look` says whether to pass over what is below
    /// each; None where not all could be seen.
    pub(super) fn below(
        &self,
        offset: UnitOffset<usize>,
        mut look: impl FnMut(&Entry) -> bool,
    ) -> Option<()> {
        let mut cursor = self.unit.entries_at_offset(offset).ok()?;
        cursor.next_dfs().ok()??;
        let mut unwanted = None;
        while let Some(entry) = cursor.next_dfs().ok()? {
            self.step()?;
            if entry.depth <= 0 {
                break;
            }
            if unwanted.is_some_and(|depth| entry.depth > depth) {
                continue;
            }
            unwanted = (!look(entry)).then_some(entry.depth);
        }
        Some(())
    }

    pub(super) fn children(&self, offset: UnitOffset<usize>) -> Option<Vec<Entry>> {
        let mut children = Vec::new();
        self.below(offset, |entry| {
            children.push(entry.clone());
            false
        })?;
        Some(children)
    }

    /// The members that values of a class have, and its bases; not those of the class itself.
    pub(super) fn members(&self, class: UnitOffset<usize>) -> Option<Vec<Entry>> {
        let mut children = self.children(class)?;
        children.retain(|child| {
            let is_part = matches!(
                child.tag(),
                dw::DW_TAG_member | dw::DW_TAG_inheritance | dw::DW_TAG_variant_part
            );
            is_part
                && child.attr_value(dw::DW_AT_external).is_none()
                && child.attr_value(dw::DW_AT_declaration).is_none()
        });
        Some(children)
    }

    pub(super) fn referenced(&self, entry: &Entry, name: dw::DwAt) -> Option<UnitOffset<usize>> {
        match entry.attr_value(name)? {
            AttributeValue::UnitRef(offset) => Some(offset),
            AttributeValue::DebugInfoRef(offset) => offset.to_unit_offset(&self.unit.header),
            _ => None,
        }
    }

    pub(super) fn type_of(&self, entry: &Entry) -> Option<UnitOffset<usize>> {
        self.referenced(entry, dw::DW_AT_type)
    }

    /// The type of a variable, which may stand where it is declared.
    pub(super) fn type_where_declared(&self, variable: &Entry) -> Option<UnitOffset<usize>> {
        let mut entry = variable.clone();
        for _ in 0..DEPTH {
            if entry.attr_value(dw::DW_AT_type).is_some() {
                return self.type_of(&entry);
            }
            let origin = self
                .referenced(&entry, dw::DW_AT_abstract_origin)
                .or_else(|| self.referenced(&entry, dw::DW_AT_specification))?;
            entry = self.at(origin)?;
        }
        None
    }

    /// A type without its names and qualifiers.
    pub(super) fn plain(&self, ty: UnitOffset<usize>) -> Option<Entry> {
        let mut entry = self.at(ty)?;
        for _ in 0..DEPTH {
            match entry.tag() {
                dw::DW_TAG_typedef
                | dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type => entry = self.at(self.type_of(&entry)?)?,
                _ => return Some(entry),
            }
        }
        None
    }

    /// Whether an entry's code has a link-time address.
    pub(super) fn spans(&self, entry: &Entry, addr: u64) -> Option<bool> {
        let mut ranges = self.unit.die_ranges(entry).ok()?;
        while let Some(range) = ranges.next().ok()? {
            if range.begin <= addr && addr < range.end {
                return Some(true);
            }
            self.step()?;
        }
        Some(false)
    }

    pub(super) fn language(&self) -> Option<dw::DwLang> {
        let mut entries = self.unit.entries();
        let root = entries.next_dfs().ok()??;
        match root.attr_value(dw::DW_AT_language) {
            Some(AttributeValue::Language(language)) => Some(language),
            _ => None,
        }
    }
}

/// Bytes of a value, as the type itself says.
pub(super) fn size(entry: &Entry) -> Option<u64> {
    entry.attr_value(dw::DW_AT_byte_size)?.udata_value()
}
