//! What a type has at one byte of its values. (DWARF 5, chapter 5.)

use gimli::{UnitOffset, constants as dw};

use super::super::entries::{DEPTH, Entries, Entry, size};
use super::super::text;
use super::Held;

/// The types of a unit, as its language means them.
pub(super) struct Types<'a> {
    entries: &'a Entries<'a>,
    rust: bool,
}

impl<'a> Types<'a> {
    pub(super) fn of(entries: &'a Entries<'a>) -> Self {
        Self {
            entries,
            rust: entries.language() == Some(dw::DW_LANG_Rust),
        }
    }

    pub(super) const fn are_of_rust(&self) -> bool {
        self.rust
    }

    /// Bytes of a value of a type.
    pub(super) fn size(&self, ty: UnitOffset<usize>) -> Option<u64> {
        self.size_within(ty, DEPTH)
    }

    /// What a type has at one byte of its values.
    pub(super) fn byte(&self, ty: UnitOffset<usize>, at: u64) -> Held {
        self.byte_within(ty, at, DEPTH).unwrap_or(Held::UNKNOWN)
    }

    fn size_within(&self, ty: UnitOffset<usize>, depth: u32) -> Option<u64> {
        let depth = depth.checked_sub(1)?;
        let entry = self.entries.plain(ty)?;
        if let Some(size) = size(&entry) {
            return Some(size);
        }
        match entry.tag() {
            dw::DW_TAG_pointer_type
            | dw::DW_TAG_reference_type
            | dw::DW_TAG_rvalue_reference_type => Some(8),
            dw::DW_TAG_atomic_type => self.size_within(self.entries.type_of(&entry)?, depth),
            dw::DW_TAG_array_type => {
                let mut size = self.size_within(self.entries.type_of(&entry)?, depth)?;
                for dimension in self.entries.children(entry.offset())? {
                    if dimension.tag() == dw::DW_TAG_subrange_type {
                        size = size.checked_mul(elements(&dimension)?)?;
                    }
                }
                Some(size)
            }
            _ => None,
        }
    }

    fn byte_within(&self, ty: UnitOffset<usize>, at: u64, depth: u32) -> Option<Held> {
        let depth = depth.checked_sub(1)?;
        let entry = self.entries.plain(ty)?;
        match entry.tag() {
            dw::DW_TAG_atomic_type => Some(Held::ATOMIC),
            dw::DW_TAG_base_type
            | dw::DW_TAG_enumeration_type
            | dw::DW_TAG_pointer_type
            | dw::DW_TAG_reference_type
            | dw::DW_TAG_rvalue_reference_type
            | dw::DW_TAG_ptr_to_member_type
            | dw::DW_TAG_unspecified_type => Some(Held::MEMBER),
            dw::DW_TAG_array_type => {
                let element = self.entries.type_of(&entry)?;
                let size = self.size_within(element, depth)?;
                self.byte_within(element, at.checked_rem(size)?, depth)
            }
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                if self.is_atomic(&entry) {
                    return Some(Held::ATOMIC);
                }
                let mut held = Held::NOTHING;
                for member in self.entries.members(entry.offset())? {
                    held = held.and(self.byte_of_member(&member, at, depth)?);
                }
                Some(if held == Held::NOTHING {
                    Held::PADDING
                } else {
                    held
                })
            }
            _ => None,
        }
    }

    /// What a member or base has at one byte of the class.
    fn byte_of_member(&self, member: &Entry, at: u64, depth: u32) -> Option<Held> {
        if member.tag() == dw::DW_TAG_variant_part {
            return None;
        }
        if let Some(bits) = member.attr_value(dw::DW_AT_bit_size) {
            let first = member
                .attr_value(dw::DW_AT_data_bit_offset)?
                .udata_value()?;
            let last = first.checked_add(bits.udata_value()?)?.checked_sub(1);
            let has_it = last.is_some_and(|last| (first / 8..=last / 8).contains(&at));
            return Some(if has_it { Held::MEMBER } else { Held::NOTHING });
        }
        let first = member
            .attr_value(dw::DW_AT_data_member_location)
            .map_or(Some(0), |value| value.udata_value())?;
        let ty = self.entries.type_of(member)?;
        let Some(within) = at.checked_sub(first) else {
            return Some(Held::NOTHING);
        };
        if within >= self.size_within(ty, depth)? || self.is_empty(ty, depth) {
            return Some(Held::NOTHING);
        }
        self.byte_within(ty, within, depth)
    }

    /// Whether values of a type are without data.
    pub(super) fn is_without_data(&self, ty: UnitOffset<usize>) -> bool {
        self.is_empty(ty, DEPTH)
    }

    /// Whether a class has no data, so that nobody copies the byte that it is said to have.
    fn is_empty(&self, ty: UnitOffset<usize>, depth: u32) -> bool {
        let is_empty = || {
            let depth = depth.checked_sub(1)?;
            let entry = self.entries.plain(ty)?;
            let is_class = matches!(
                entry.tag(),
                dw::DW_TAG_structure_type | dw::DW_TAG_class_type
            );
            if !is_class || entry.attr_value(dw::DW_AT_declaration).is_some() {
                return Some(false);
            }
            for part in self.entries.members(entry.offset())? {
                let is_base = part.tag() == dw::DW_TAG_inheritance;
                if !is_base || !self.is_empty(self.entries.type_of(&part)?, depth) {
                    return Some(false);
                }
            }
            Some(true)
        };
        is_empty() == Some(true)
    }

    /// Whether a class is an atomic type of the language's library.
    fn is_atomic(&self, entry: &Entry) -> bool {
        const OF_RUST: [&str; 11] = [
            "AtomicBool",
            "AtomicU8",
            "AtomicU16",
            "AtomicU32",
            "AtomicU64",
            "AtomicUsize",
            "AtomicI8",
            "AtomicI16",
            "AtomicI32",
            "AtomicI64",
            "AtomicIsize",
        ];
        const OF_CPP: [&str; 4] = [
            "atomic<",
            "__atomic_base<",
            "__atomic_float<",
            "__cxx_atomic_impl<",
        ];
        let unit = self.entries.unit();
        let name = entry.attr_value(dw::DW_AT_name);
        let name = name.and_then(|name| text::of(&unit.attr_string(name).ok()?));
        let Some(name) = name else {
            return false;
        };
        if self.rust {
            OF_RUST.contains(&name.as_str())
                || name.starts_with("AtomicPtr<")
                || name.starts_with("Atomic<")
        } else {
            OF_CPP.iter().any(|start| name.starts_with(start)) || name == "atomic_flag"
        }
    }
}

/// How many elements an array has in one dimension.
fn elements(dimension: &Entry) -> Option<u64> {
    match dimension.attr_value(dw::DW_AT_count) {
        Some(count) => count.udata_value(),
        None => dimension
            .attr_value(dw::DW_AT_upper_bound)?
            .udata_value()?
            .checked_add(1),
    }
}
