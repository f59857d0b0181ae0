//! By what a module is known again.

use serde::{Deserialize, Serialize};

/// The longest name of a file, bytes (`NAME_MAX` of Linux), and the digits of the longest build id.
const LONGEST_NAME: usize = 255;
const LONGEST_BUILD: usize = 128;

/// A module, as it is known again.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Module {
    /// The name of its file, without folders: the next build may be in another one.
    pub name: String,
    /// The build id, in hexadecimal digits; empty where there is none.
    pub build: String,
}

impl Module {
    /// Whether other machines can be told of it: it has a build id, and a name that is the name of a file, without anything that is unseen.
    #[must_use]
    pub fn can_be_shared(&self) -> bool {
        let Self { name, build } = self;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_name = (1..=LONGEST_NAME).contains(&name.len())
            && !name.contains(|c: char| c == '/' || c.is_control())
            && !matches!(&**name, "." | "..");
        is_name && (1..=LONGEST_BUILD).contains(&build.len()) && build.bytes().all(is_digit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check which modules others are told of: no name leads to another file, or cannot be in an address or a database.
    #[test]
    fn names() {
        let can = |name: &str, build: &str| {
            let [name, build] = [name, build].map(str::to_owned);
            Module { name, build }.can_be_shared()
        };
        for name in ["app", "größe +x.so", "...", &"x".repeat(255)] {
            assert!(can(name, "0af9"), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a\0b", "a\nb", &"x".repeat(256)] {
            assert!(!can(name, "0af9"), "{name:?}");
        }
        for build in ["", "AA", "0x1", "..", &"a".repeat(129)] {
            assert!(!can("app", build), "{build}");
        }
    }
}
