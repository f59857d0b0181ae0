//! What debug information says of a function's result: which bytes of which registers it has. (DWARF 5, 3.3.)

use gimli::{AttributeValue, UnitOffset, UnitRef, constants as dw};
use serde::{Deserialize, Serialize};

use super::entries::{DEPTH, Entries, Entry, size};
use super::reader::Reader;

/// The registers in which a result of so many bytes is returned (System V ABI for x86-64, 3.2.3).
const IN_REGISTERS: u64 = 16;

/// Where a function returns what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionResult {
    /// The bytes of `rax` (bits 0 to 7) and `rdx` (8 to 15) that it has.
    pub general: u16,
    /// It may be in vector registers.
    pub in_vectors: bool,
}

impl FunctionResult {
    const NOTHING: Self = Self::general(0);
    const POINTER: Self = Self::general(0xff);
    const IN_VECTORS: Self = Self {
        general: 0,
        in_vectors: true,
    };

    const fn general(general: u16) -> Self {
        Self {
            general,
            in_vectors: false,
        }
    }
}

/// Where a function returns what; None where that is not known.
pub(super) fn result_at(
    unit: &UnitRef<'_, Reader>,
    function: Option<UnitOffset<usize>>,
) -> Option<FunctionResult> {
    let entries = Entries::of(*unit);
    let entry = entries.at(function?)?;
    result(&entries, &entry, entries.language())
}

/// Whether structures are returned by the rules of C: what is not known may have rules of its own.
fn is_of_c(language: Option<dw::DwLang>) -> bool {
    language.is_some_and(|language| {
        matches!(
            language,
            dw::DW_LANG_C89
                | dw::DW_LANG_C
                | dw::DW_LANG_C99
                | dw::DW_LANG_C11
                | dw::DW_LANG_C17
                | dw::DW_LANG_C_plus_plus
                | dw::DW_LANG_C_plus_plus_03
                | dw::DW_LANG_C_plus_plus_11
                | dw::DW_LANG_C_plus_plus_14
                | dw::DW_LANG_C_plus_plus_17
                | dw::DW_LANG_C_plus_plus_20
        )
    })
}

fn result(
    entries: &Entries<'_>,
    function: &Entry,
    language: Option<dw::DwLang>,
) -> Option<FunctionResult> {
    let mut entry = function.clone();
    for _ in 0..DEPTH {
        if entry.attr_value(dw::DW_AT_type).is_some() {
            let ty = entries.type_of(&entry)?;
            return in_registers(entries, ty, language);
        }
        // The type stands where the function is declared.
        let origin = entries
            .referenced(&entry, dw::DW_AT_abstract_origin)
            .or_else(|| entries.referenced(&entry, dw::DW_AT_specification));
        match origin {
            Some(origin) => entry = entries.at(origin)?,
            None if entry.attr_value(dw::DW_AT_abstract_origin).is_some()
                || entry.attr_value(dw::DW_AT_specification).is_some() =>
            {
                return None;
            }
            None => return Some(FunctionResult::NOTHING),
        }
    }
    None
}

/// Where a value of the type is returned.
fn in_registers(
    entries: &Entries<'_>,
    ty: UnitOffset<usize>,
    language: Option<dw::DwLang>,
) -> Option<FunctionResult> {
    let mut entry = entries.at(ty)?;
    for _ in 0..DEPTH {
        match entry.tag() {
            dw::DW_TAG_typedef
            | dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type => {
                let Some(inner) = entries.type_of(&entry) else {
                    let is_void = entry.attr_value(dw::DW_AT_type).is_none();
                    return is_void.then_some(FunctionResult::NOTHING);
                };
                entry = entries.at(inner)?;
            }
            dw::DW_TAG_pointer_type
            | dw::DW_TAG_reference_type
            | dw::DW_TAG_rvalue_reference_type => return Some(FunctionResult::POINTER),
            dw::DW_TAG_base_type | dw::DW_TAG_enumeration_type => {
                let size = size(&entry)?;
                if is_float(&entry) {
                    return Some(FunctionResult::IN_VECTORS);
                }
                return (size <= IN_REGISTERS).then(|| FunctionResult::general(ones(size)));
            }
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                let size = size(&entry)?;
                let by_reference = matches!(
                    entry.attr_value(dw::DW_AT_calling_convention),
                    Some(AttributeValue::CallingConvention(
                        dw::DW_CC_pass_by_reference
                    ))
                );
                if by_reference || size > IN_REGISTERS {
                    // Its address is returned.
                    return Some(FunctionResult::POINTER);
                }
                // Others may return a pair in two registers, as Rust does.
                return is_of_c(language)
                    .then(|| members(entries, entry.offset(), 0, DEPTH))
                    .flatten()
                    .map(FunctionResult::general);
            }
            _ => return None,
        }
    }
    None
}

fn is_float(entry: &Entry) -> bool {
    matches!(
        entry.attr_value(dw::DW_AT_encoding),
        Some(AttributeValue::Encoding(
            dw::DW_ATE_float | dw::DW_ATE_complex_float
        ))
    )
}

const fn ones(bytes: u64) -> u16 {
    if bytes >= IN_REGISTERS {
        u16::MAX
    } else {
        (1 << bytes) - 1
    }
}

/// The bytes of a value, without padding, where no part of it is a number that other registers return.
fn members(entries: &Entries<'_>, ty: UnitOffset<usize>, at: u64, depth: u32) -> Option<u16> {
    let depth = depth.checked_sub(1)?;
    let entry = entries.plain(ty)?;
    let placed = |bytes: u16| bytes.checked_shl(u32::try_from(at).ok()?).or(Some(0));
    match entry.tag() {
        dw::DW_TAG_atomic_type => members(entries, entries.type_of(&entry)?, at, depth),
        dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
            placed(ones(8))
        }
        dw::DW_TAG_base_type | dw::DW_TAG_enumeration_type if !is_float(&entry) => {
            placed(ones(size(&entry)?))
        }
        dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
            let mut bytes = 0;
            for member in entries.members(entry.offset())? {
                if member.tag() == dw::DW_TAG_variant_part
                    || member.attr_value(dw::DW_AT_bit_size).is_some()
                {
                    return None;
                }
                let offset = member
                    .attr_value(dw::DW_AT_data_member_location)
                    .map_or(Some(0), |value| value.udata_value())?;
                let ty = entries.type_of(&member)?;
                bytes |= members(entries, ty, at.checked_add(offset)?, depth)?;
            }
            Some(bytes)
        }
        _ => None,
    }
}
