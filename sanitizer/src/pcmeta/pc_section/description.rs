//! What the entries of a PC section hold, as a line of text: nothing in the file tells.
//!
//! ```text
//! NAME[!C]=ENTRY[|ENTRY]...
//! ENTRY: instruction|function[!C][,pc64][,CONSTANT]...
//! ```
//!
//! `NAME!C` is written as in the IR (`!pcsections`), and stands for all entries; behind the word of an
//! entry it is for that entry alone. Where entries of several kinds are in one section, all are given.
//! A constant is the number of bytes that it takes in memory; with `r` in front (`r4`) it is no
//! integer (a float, a pointer, a struct), which `!C` leaves as it is. `pc64` stands for
//! addresses as wide as a pointer (`-mcmodel=medium` and `large`).

use std::fmt;
use std::str::FromStr;

use crate::image::Encoding;

/// Kinds of entries in a section at most: the search for what is what goes through all.
const MOST_FORMS: usize = 4;
/// Bytes of a constant at most.
const MOST_BYTES: u16 = 4096;

/// What a PC section is called, and what its entries hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcSectionDescription {
    /// The section's name in the file.
    pub name: String,
    /// What an entry may hold; at least one, and no more than four.
    pub forms: Vec<PcEntryForm>,
}

/// What one kind of entry holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PcEntryForm {
    /// Whether it is for a function, which has a size, and not for an instruction.
    pub has_size: bool,
    /// Whether the distance to the code is as wide as a pointer instead of four bytes.
    pub pointer_sized: bool,
    /// Whether the size and integers of two to eight bytes are in ULEB128 (`!C`).
    pub compressed: bool,
    /// The constants behind the address.
    pub constants: Vec<PcConstantForm>,
}

/// How a constant is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcConstantForm {
    /// How many bytes it takes in memory.
    pub bytes: u16,
    /// Whether it is an integer, which `!C` may pack.
    pub is_integer: bool,
}

impl PcEntryForm {
    /// How many bytes the distance to the code has.
    pub(super) fn distance_size(&self, encoding: Encoding) -> usize {
        if self.pointer_sized {
            encoding.address_size()
        } else {
            4
        }
    }

    /// Whether a constant of this entry is in ULEB128: single bytes and what has more than eight are not.
    pub(super) fn is_packed(&self, constant: PcConstantForm) -> bool {
        self.compressed && constant.is_integer && (2..=8).contains(&constant.bytes)
    }

    /// Whether several instructions may share the constants of one entry.
    pub(super) fn is_shared(&self) -> bool {
        !self.has_size && !self.constants.is_empty()
    }
}

/// A description that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} describes no PC section: {what}; write NAME[!C]=instruction or NAME[!C]=function, and \
     behind that, with commas, pc64 and the sizes of the constants in bytes; where a section has \
     entries of several kinds, give them all with | in between"
)]
pub struct DescriptionError {
    text: String,
    what: &'static str,
}

impl FromStr for PcSectionDescription {
    type Err = DescriptionError;

    fn from_str(text: &str) -> Result<Self, DescriptionError> {
        let error = |what| DescriptionError {
            text: text.into(),
            what,
        };
        // The name comes from the source of the program and may have anything in it.
        let (name, entries) = text.rsplit_once('=').ok_or_else(|| error("it has no ="))?;
        let (name, compressed) = split_option(name).map_err(error)?;
        if name.is_empty() {
            return Err(error("the section has no name"));
        }
        let forms: Vec<PcEntryForm> = (entries.split('|'))
            .map(|entry| form(entry, compressed).map_err(error))
            .collect::<Result<_, _>>()?;
        if forms.len() > MOST_FORMS {
            return Err(error("it has more than four kinds of entries"));
        }
        Ok(Self {
            name: name.into(),
            forms,
        })
    }
}

/// What stands before `!C`, and whether that is there.
fn split_option(text: &str) -> Result<(&str, bool), &'static str> {
    match text.rsplit_once('!') {
        Some((text, "C")) => Ok((text, true)),
        Some(_) => Err("the only option is !C"),
        None => Ok((text, false)),
    }
}

fn form(text: &str, compressed: bool) -> Result<PcEntryForm, &'static str> {
    let mut items = text.split(',').map(str::trim);
    let (kind, also_compressed) = split_option(items.next().unwrap_or_default())?;
    let has_size = match kind.trim() {
        "instruction" => false,
        "function" => true,
        _ => return Err("an entry is neither instruction nor function"),
    };
    let mut form = PcEntryForm {
        has_size,
        compressed: compressed || also_compressed,
        ..PcEntryForm::default()
    };
    for item in items {
        if item == "pc64" {
            form.pointer_sized = true;
            continue;
        }
        let (is_integer, size) = match item.strip_prefix('r') {
            Some(size) => (false, size),
            None => (true, item),
        };
        let bytes = (size.parse().ok()).filter(|bytes| (1..=MOST_BYTES).contains(bytes));
        form.constants.push(PcConstantForm {
            bytes: bytes.ok_or("a constant has 1 to 4096 bytes")?,
            is_integer,
        });
    }
    Ok(form)
}

impl fmt::Display for PcSectionDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = |compressed| if compressed { "!C" } else { "" };
        let all = self.forms.iter().all(|form| form.compressed);
        write!(f, "{}{}", self.name, option(all))?;
        let mut separator = '=';
        for form in &self.forms {
            let kind = if form.has_size {
                "function"
            } else {
                "instruction"
            };
            write!(f, "{separator}{kind}{}", option(form.compressed && !all))?;
            separator = '|';
            if form.pointer_sized {
                f.write_str(",pc64")?;
            }
            for constant in &form.constants {
                let prefix = if constant.is_integer { "" } else { "r" };
                write!(f, ",{prefix}{}", constant.bytes)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in super::super) fn entry_form() -> impl Strategy<Value = PcEntryForm> {
        let bytes = prop::sample::select(&[1u16, 2, 3, 4, 8, 12, 16][..]);
        let constant = (bytes, prop::bool::weighted(0.8))
            .prop_map(|(bytes, is_integer)| PcConstantForm { bytes, is_integer });
        (any::<[bool; 3]>(), prop::collection::vec(constant, 0..4)).prop_map(
            |([has_size, pointer_sized, compressed], constants)| PcEntryForm {
                has_size,
                pointer_sized,
                compressed,
                constants,
            },
        )
    }

    proptest! {
        /// Check that what is written as a description is read as the same.
        #[test]
        fn descriptions_are_read_as_they_are_written(
            name in "[ -~&&[^!]]{1,12}",
            forms in prop::collection::vec(entry_form(), 1..=MOST_FORMS),
        ) {
            let written = PcSectionDescription { name, forms };
            prop_assert_eq!(written.to_string().parse(), Ok(written));
        }

        /// Check that any text gives a description or an error that says how to write one.
        #[test]
        fn any_text_is_read_or_refused(text in "[a-c!C=,|r0-9]{0,16}|a!C=(function|instruction)[!C,|r0-9]{0,9}") {
            match text.parse::<PcSectionDescription>() {
                Ok(read) => prop_assert_eq!(read.to_string().parse(), Ok(read)),
                Err(error) => prop_assert!(error.to_string().contains("write NAME[!C]=instruction")),
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, what) in [
            ("foo", "it has no ="),
            ("=instruction", "has no name"),
            ("!C=function", "has no name"),
            ("foo!D=function", "only option is !C"),
            ("foo=function!D", "only option is !C"),
            ("foo=", "neither instruction nor function"),
            ("foo=4", "neither instruction nor function"),
            ("foo=function|", "neither instruction nor function"),
            ("foo=function,0", "1 to 4096 bytes"),
            ("foo=function,4097", "1 to 4096 bytes"),
            ("foo=function,", "1 to 4096 bytes"),
            (
                "foo=function|function|function|function|function",
                "more than four",
            ),
        ] {
            let error = text
                .parse::<PcSectionDescription>()
                .unwrap_err()
                .to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
