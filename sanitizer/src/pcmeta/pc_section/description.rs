//! What the entries of a PC section hold, as a line of text: nothing in the file tells.
//!
//! ```text
//! NAME[!C]=instruction|function[,pc64][,CONSTANT]...
//! ```
//!
//! `NAME!C` is written as in the IR (`!pcsections`); a constant is its size in bytes: 1, 2, 4 or 8.
//! `pc64` stands for addresses as wide as a pointer (`-mcmodel=medium` and `large`).

use std::fmt;
use std::str::FromStr;

/// What a PC section is called, and what each of its entries holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcSectionDescription {
    /// The section's name in the file.
    pub name: String,
    /// Whether entries are functions, which have a size, and not instructions.
    pub has_size: bool,
    /// Whether the distance to the code has eight bytes instead of four.
    pub pointer_sized: bool,
    /// Whether the size and constants of more than a byte are in ULEB128 (`!C`).
    pub compressed: bool,
    /// The sizes in bytes of the constants behind each address.
    pub constants: Vec<u8>,
}

/// A description that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} describes no PC section: {what}; write NAME[!C]=instruction or NAME[!C]=function, and \
     behind that, with commas, pc64 and the sizes of the constants (1, 2, 4 or 8)"
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
        let (name, entry) = text.rsplit_once('=').ok_or_else(|| error("it has no ="))?;
        let (name, compressed) = match name.rsplit_once('!') {
            Some((name, "C")) => (name, true),
            Some(_) => return Err(error("the only option is !C")),
            None => (name, false),
        };
        if name.is_empty() {
            return Err(error("the section has no name"));
        }
        let mut items = entry.split(',').map(str::trim);
        let has_size = match items.next() {
            Some("instruction") => false,
            Some("function") => true,
            _ => return Err(error("it says neither instruction nor function")),
        };
        let mut description = Self {
            name: name.into(),
            has_size,
            pointer_sized: false,
            compressed,
            constants: Vec::new(),
        };
        for item in items {
            match item {
                "pc64" => description.pointer_sized = true,
                "1" | "2" | "4" | "8" => description.constants.extend(item.parse::<u8>()),
                _ => return Err(error("a constant has 1, 2, 4 or 8 bytes")),
            }
        }
        Ok(description)
    }
}

impl fmt::Display for PcSectionDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = if self.compressed { "!C" } else { "" };
        let entry = if self.has_size {
            "function"
        } else {
            "instruction"
        };
        write!(f, "{}{option}={entry}", self.name)?;
        if self.pointer_sized {
            f.write_str(",pc64")?;
        }
        self.constants
            .iter()
            .try_for_each(|size| write!(f, ",{size}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Check that what is written as a description is read as the same.
        #[test]
        fn descriptions_are_read_as_they_are_written(
            name in "[ -~&&[^!]]{1,12}",
            flags in any::<[bool; 3]>(),
            constants in prop::collection::vec(prop::sample::select(&[1u8, 2, 4, 8][..]), 0..5),
        ) {
            let [has_size, pointer_sized, compressed] = flags;
            let written = PcSectionDescription { name, has_size, pointer_sized, compressed, constants };
            prop_assert_eq!(written.to_string().parse(), Ok(written));
        }

        /// Check that any text gives a description or an error that says how to write one.
        #[test]
        fn any_text_is_read_or_refused(text in "[a-c!C=,0-9]{0,16}") {
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
            ("foo=", "neither instruction nor function"),
            ("foo=4", "neither instruction nor function"),
            ("foo=function,3", "1, 2, 4 or 8"),
            ("foo=function,", "1, 2, 4 or 8"),
        ] {
            let error = text
                .parse::<PcSectionDescription>()
                .unwrap_err()
                .to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
