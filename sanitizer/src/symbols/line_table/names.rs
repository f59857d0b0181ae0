//! The names of files in the header of a line table (DWARF 5, 6.2.4).

use gimli::{DebugLineStrOffset, DebugStrOffset, Reader as _, UnitRef, constants as dw};

use crate::symbols::reader::Reader;
use crate::symbols::text;

use super::LineTable;

enum Value {
    Number(u64),
    Text(Reader),
    OfStrings(usize),
    OfLineStrings(usize),
    Other,
}

impl LineTable {
    /// Name and directory of a file, before DWARF 5.
    pub(super) fn old_names(&self, file: u64) -> Option<(String, Option<String>)> {
        let mut rest = self.names.clone();
        let skip_text = |rest: &mut Reader| {
            let length = rest.find(0).ok()?;
            rest.skip(length + 1).ok()?;
            Some(length)
        };
        while skip_text(&mut rest)? > 0 {}
        for _ in 1..file {
            if skip_text(&mut rest)? == 0 {
                return None;
            }
            for _ in 0..3 {
                rest.skip_leb128().ok()?;
            }
        }
        let name = text::to_nul(&rest).filter(|name| !name.is_empty())?;
        skip_text(&mut rest)?;
        let number = rest.read_uleb128().ok()?;
        let directory = || {
            let mut rest = self.names.clone();
            for _ in 1..number {
                if skip_text(&mut rest)? == 0 {
                    return None;
                }
            }
            text::to_nul(&rest).filter(|name| !name.is_empty())
        };
        Some((name, (number > 0).then(directory).flatten()))
    }

    /// The same since DWARF 5.
    pub(super) fn new_names(
        &self,
        unit: UnitRef<'_, Reader>,
        file: u64,
    ) -> Option<(String, Option<String>)> {
        let mut rest = self.names.clone();
        let format = self.entry_format(&mut rest)?;
        let directories = (rest.read_uleb128().ok()?, rest.clone());
        for _ in 0..directories.0 {
            self.entry(&mut rest, &format, unit)?;
        }
        let (directory, name) = {
            let format = self.entry_format(&mut rest)?;
            if file >= rest.read_uleb128().ok()? {
                return None;
            }
            for _ in 0..file {
                self.entry(&mut rest, &format, unit)?;
            }
            self.entry(&mut rest, &format, unit)?
        };
        let name = text::of(&name?)?;
        // The first is the unit's own.
        let directory = directory.filter(|&number| 0 < number && number < directories.0);
        let directory = directory.and_then(|number| {
            let mut rest = directories.1;
            for _ in 0..number {
                self.entry(&mut rest, &format, unit)?;
            }
            text::of(&self.entry(&mut rest, &format, unit)?.1?)
        });
        Some((name, directory))
    }

    /// The parts of entries; nothing where they have none, and take no bytes.
    fn entry_format(&self, rest: &mut Reader) -> Option<Vec<(u64, dw::DwForm)>> {
        let count = rest.read_u8().ok()?;
        let mut format = Vec::with_capacity(count.into());
        for _ in 0..count {
            let content = rest.read_uleb128().ok()?;
            format.push((content, dw::DwForm(rest.read_uleb128_u16().ok()?)));
        }
        (!format.is_empty()).then_some(format)
    }

    /// Directory and path of an entry.
    fn entry(
        &self,
        rest: &mut Reader,
        format: &[(u64, dw::DwForm)],
        unit: UnitRef<'_, Reader>,
    ) -> Option<(Option<u64>, Option<Reader>)> {
        let (mut directory, mut path) = (None, None);
        for &(content, form) in format {
            let content = dw::DwLnct(u16::try_from(content).unwrap_or(u16::MAX));
            match self.value(rest, form)? {
                Value::Number(number) if content == dw::DW_LNCT_directory_index => {
                    directory = Some(number);
                }
                Value::Text(text) if content == dw::DW_LNCT_path => path = Some(text),
                Value::OfStrings(offset) if content == dw::DW_LNCT_path => {
                    path = unit.dwarf.string(DebugStrOffset(offset)).ok();
                }
                Value::OfLineStrings(offset) if content == dw::DW_LNCT_path => {
                    path = unit.dwarf.line_string(DebugLineStrOffset(offset)).ok();
                }
                _ => {}
            }
        }
        Some((directory, path))
    }

    /// A value of one of the forms that line tables have. Each takes bytes, so that none can stand for thousands.
    fn value(&self, rest: &mut Reader, form: dw::DwForm) -> Option<Value> {
        let value = match form {
            dw::DW_FORM_string => Value::Text(rest.read_null_terminated_slice().ok()?),
            dw::DW_FORM_strp => Value::OfStrings(rest.read_word(self.format).ok()?),
            dw::DW_FORM_line_strp => Value::OfLineStrings(rest.read_word(self.format).ok()?),
            dw::DW_FORM_udata => Value::Number(rest.read_uleb128().ok()?),
            dw::DW_FORM_data1 => Value::Number(rest.read_u8().ok()?.into()),
            dw::DW_FORM_data2 => Value::Number(rest.read_u16().ok()?.into()),
            dw::DW_FORM_data4 => Value::Number(rest.read_u32().ok()?.into()),
            dw::DW_FORM_data8 => Value::Number(rest.read_u64().ok()?),
            dw::DW_FORM_data16 => {
                rest.skip(16).ok()?;
                Value::Other
            }
            dw::DW_FORM_block => {
                let length = rest.read_uleb128().ok()?;
                rest.skip(usize::try_from(length).ok()?).ok()?;
                Value::Other
            }
            _ => return None,
        };
        Some(value)
    }
}
