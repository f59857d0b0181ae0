//! The tables that say which attributes the entries of a unit have (DWARF 5, 7.5.3), bounded: each of their few bytes
//! becomes some twenty in memory, and each entry that is kept has all of its attributes.

use std::sync::Arc;

use gimli::{Abbreviations, DebugAbbrev, DebugAbbrevOffset, Reader as _, Section as _};

use super::reader::Reader;
use super::too_much::TooMuch;

/// Bytes of a table. Those of compilers have some thousands, those of link-time optimizers some ten thousands.
const MOST_BYTES: usize = 1 << 18;
/// Its declarations: dwz makes the most, some thousands.
const MOST_DECLARATIONS: usize = 1 << 14;
/// Attributes of one declaration.
const MOST_ATTRIBUTES: usize = 96;

const DW_AT_STMT_LIST: u64 = 0x10;
/// No attribute has this number, which takes as many bytes as the other.
const NO_ATTRIBUTE: u8 = 0x7f;
const DW_FORM_IMPLICIT_CONST: u64 = 0x21;

/// The table at an offset.
pub(super) fn whole(
    section: &DebugAbbrev<Reader>,
    offset: DebugAbbrevOffset<usize>,
) -> Result<Arc<Abbreviations>, TooMuch> {
    let table = section.reader().behind(offset.0);
    let mut rest = table.clone();
    for _ in 0..MOST_DECLARATIONS {
        if declaration(&mut rest)?.is_none() {
            let table = table.first(rest.offset_from(&table));
            return parse(table);
        }
        if rest.offset_from(&table) > MOST_BYTES {
            break;
        }
    }
    Err(TooMuch::Abbreviations)
}

/// The declaration of one code in the table at an offset, as a table of its own, in which the attribute that leads to the
/// unit's line table is left nameless. For the entry of the unit itself, of which there is one and thousands of
/// others.
pub(super) fn one(
    section: &DebugAbbrev<Reader>,
    offset: DebugAbbrevOffset<usize>,
    code: u64,
) -> Result<Arc<Abbreviations>, TooMuch> {
    let mut rest = section.reader().behind(offset.0);
    for _ in 0..MOST_DECLARATIONS {
        let Some(found) = declaration(&mut rest)? else {
            return Err(TooMuch::Damaged);
        };
        if found.code == code {
            let mut bytes = found.bytes;
            if let Some(name) = found.line_table.and_then(|at| bytes.get_mut(at)) {
                *name = NO_ATTRIBUTE;
            }
            bytes.push(0);
            return parse(Reader::of_bytes(bytes.into()));
        }
    }
    Err(TooMuch::Abbreviations)
}

/// What has become of the attribute that leads to the line table in what [`one`] gives.
pub(super) const LINE_TABLE: gimli::DwAt = gimli::DwAt(NO_ATTRIBUTE as u16);

fn parse(table: Reader) -> Result<Arc<Abbreviations>, TooMuch> {
    let table = DebugAbbrev::from(table).abbreviations(DebugAbbrevOffset(0));
    Ok(Arc::new(table.map_err(|_| TooMuch::Damaged)?))
}

struct Declaration {
    code: u64,
    /// All of it.
    bytes: Vec<u8>,
    /// Where in `bytes` the name of the attribute stands that leads to the line table.
    line_table: Option<usize>,
}

/// Reads a declaration; None at the end of the table.
fn declaration(rest: &mut Reader) -> Result<Option<Declaration>, TooMuch> {
    let start = rest.clone();
    let code = rest.read_uleb128()?;
    if code == 0 {
        return Ok(None);
    }
    let (_tag, _has_children) = (rest.read_uleb128()?, rest.read_u8()?);
    let (mut line_table, mut count) = (None, 0);
    loop {
        let at = rest.offset_from(&start);
        let (name, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
        if (name, form) == (0, 0) {
            break;
        }
        if form == DW_FORM_IMPLICIT_CONST {
            rest.read_sleb128()?;
        }
        if name == DW_AT_STMT_LIST {
            line_table = Some(at);
        }
        count += 1;
        if count > MOST_ATTRIBUTES {
            return Err(TooMuch::Abbreviations);
        }
    }
    let bytes = start.first(rest.offset_from(&start));
    let bytes = bytes.to_slice()?.into_owned();
    Ok(Some(Declaration {
        code,
        bytes,
        line_table,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(bytes: Vec<u8>) -> DebugAbbrev<Reader> {
        DebugAbbrev::from(Reader::of_bytes(bytes.into()))
    }

    /// A declaration with so many attributes.
    fn with_attributes(code: u8, count: usize) -> Vec<u8> {
        let mut bytes = vec![code, 0x11, 1];
        bytes.extend([0x10, 0x17]);
        bytes.extend([0x03, 0x08].repeat(count - 1));
        bytes.extend([0, 0]);
        bytes
    }

    /// Check that one declaration is found among others without its line table, and that tables with too many of them
    /// or of their attributes are refused.
    #[test]
    fn bounds() {
        let two = [with_attributes(1, 2), with_attributes(2, MOST_ATTRIBUTES)].concat();
        let two = section([two, vec![0]].concat());
        let start = DebugAbbrevOffset(0);
        let found = one(&two, start, 2).unwrap();
        let found = found.get(2).unwrap();
        assert_eq!(found.attributes().len(), MOST_ATTRIBUTES);
        assert_eq!(found.attributes()[0].name(), LINE_TABLE);
        assert!(whole(&two, start).unwrap().get(1).is_some());
        assert!(matches!(one(&two, start, 3), Err(TooMuch::Damaged)));

        let wide = section([with_attributes(1, MOST_ATTRIBUTES + 1), vec![0]].concat());
        assert!(matches!(whole(&wide, start), Err(TooMuch::Abbreviations)));
        let mut many = Vec::new();
        for code in 0..=MOST_DECLARATIONS {
            many.extend([
                0x80 | (code & 0x7f) as u8,
                (code >> 7) as u8 & 0x7f | 0x80,
                1,
            ]);
            many.extend([0x11, 0, 0, 0]);
        }
        many.push(0);
        let many = section(many);
        assert!(matches!(whole(&many, start), Err(TooMuch::Abbreviations)));
        assert!(matches!(
            whole(&section(vec![1]), start),
            Err(TooMuch::Damaged)
        ));
    }
}
