//! Which member of a global variable bytes are: the way there by the names of the source, which stays when numbers change. (DWARF 5,
//! 2.6.1.2, 4.1 and 5.7.6.)

use gimli::{AttributeValue, Operation, UnitOffset, UnitRef, constants as dw};

use super::super::entries::{DEPTH, Entries, Entry};
use super::super::reader::Reader;
use super::super::text;
use super::bytes::Types;

/// Operations of which the place of a variable is made, at most: optimizers keep each of its members at a place of its own.
const OPERATIONS: usize = 256;

/// The way from the global variable of a unit that has `len` bytes at a link-time address to these bytes: `.last[].hits`. Empty where they
/// are all of it, or more than one member; None where there is no such variable. Elements of arrays are not told from each other.
pub(in crate::symbols) fn member_at(
    unit: &UnitRef<'_, Reader>,
    (address, len): (u64, u32),
) -> Option<String> {
    let entries = Entries::of(*unit);
    let types = Types::of(&entries);
    if types.are_of_rust() {
        // A crate is several units, in an order of the compiler's: whether this one has the variable is chance, and the way is a name.
        return None;
    }
    let mut found = None;
    // What was found before there was too much to look at counts.
    let _ = entries.below(entries.root()?, |entry| {
        if entry.tag() == dw::DW_TAG_variable
            && found.is_none()
            && let Some(offset) = offset_in(&entries, entry, address)
            && let Some(ty) = entries.type_where_declared(entry)
            && types.size(ty).is_some_and(|size| offset < size)
        {
            found = Some((ty, offset));
        }
        // Static ones are in functions.
        matches!(
            entry.tag(),
            dw::DW_TAG_namespace | dw::DW_TAG_subprogram | dw::DW_TAG_lexical_block
        )
    });
    let (ty, offset) = found?;
    Some(way_to(&entries, &types, ty, (offset, len)))
}

/// The way from a value of a type to so many bytes that are so far into it, as far as the types are understood.
pub(super) fn way_to(
    entries: &Entries<'_>,
    types: &Types<'_>,
    ty: UnitOffset<usize>,
    (offset, len): (u64, u32),
) -> String {
    let mut path = String::new();
    let way = Way {
        entries,
        types,
        len: len.into(),
    };
    let _ = way.go(ty, offset, DEPTH, &mut path);
    path
}

/// How far into a variable a link-time address is.
fn offset_in(entries: &Entries<'_>, variable: &Entry, address: u64) -> Option<u64> {
    let AttributeValue::Exprloc(expression) = variable.attr_value(dw::DW_AT_location)? else {
        return None;
    };
    let unit = entries.unit();
    let mut operations = expression.operations(unit.encoding());
    let (mut before, mut at) = (0_u64, None);
    let mut is_whole = true;
    for _ in 0..OPERATIONS {
        match operations.next().ok()? {
            Some(Operation::Address { address }) => at = Some(address),
            Some(Operation::AddressIndex { index }) => at = unit.address(index).ok(),
            Some(Operation::PlusConstant { value }) => at = at?.checked_add(value),
            Some(Operation::Piece { size_in_bits, .. }) => {
                is_whole = false;
                let size = size_in_bits / 8;
                let within = at.take().and_then(|at| address.checked_sub(at));
                if let Some(within) = within.filter(|&within| within < size) {
                    return before.checked_add(within);
                }
                before = before.checked_add(size)?;
            }
            Some(_) => return None,
            None if is_whole => return address.checked_sub(at?),
            None => return None,
        }
    }
    None
}

/// Whether a name is one of the library's own, which another version of it need not have (C++ standard, [lex.name]).
fn is_reserved(name: &str) -> bool {
    let rest = name.strip_prefix('_');
    rest.is_some_and(|rest| rest.starts_with(|c: char| c == '_' || c.is_ascii_uppercase()))
}

struct Way<'a> {
    entries: &'a Entries<'a>,
    types: &'a Types<'a>,
    /// Bytes.
    len: u64,
}

impl Way<'_> {
    /// Goes on from a value of a type to what is so far into it.
    fn go(&self, ty: UnitOffset<usize>, at: u64, depth: u32, path: &mut String) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let end = at.checked_add(self.len)?;
        let entry = self.entries.plain(ty)?;
        match entry.tag() {
            dw::DW_TAG_atomic_type => self.go(self.entries.type_of(&entry)?, at, depth, path),
            dw::DW_TAG_array_type => {
                let element = self.entries.type_of(&entry)?;
                let size = self.types.size(element)?;
                let within = at.checked_rem(size)?;
                if within.checked_add(self.len)? > size {
                    return None;
                }
                path.push_str("[]");
                self.go(element, within, depth, path)
            }
            // Which member of a union is meant, nobody knows.
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type => {
                for member in self.entries.members(entry.offset())? {
                    if member.tag() == dw::DW_TAG_variant_part {
                        return None;
                    }
                    // Several share their bytes.
                    if member.attr_value(dw::DW_AT_bit_size).is_some() {
                        continue;
                    }
                    let first = member
                        .attr_value(dw::DW_AT_data_member_location)
                        .map_or(Some(0), |value| value.udata_value())?;
                    let ty = self.entries.type_of(&member)?;
                    let size = self.types.size(ty)?;
                    let has_all = first <= at && end <= first.checked_add(size)?;
                    if !has_all || self.types.is_without_data(ty) {
                        continue;
                    }
                    let unit = self.entries.unit();
                    let name = member.attr_value(dw::DW_AT_name);
                    let name = name.and_then(|name| text::of(&unit.attr_string(name).ok()?));
                    // Bases and members without a name are no step of their own.
                    if let Some(name) = name.filter(|_| member.tag() == dw::DW_TAG_member) {
                        if is_reserved(&name) {
                            return None;
                        }
                        path.push('.');
                        path.push_str(&name);
                    }
                    return self.go(ty, at - first, depth, path);
                }
                None
            }
            _ => None,
        }
    }
}
