//! What others have named is written so that it can do nothing: names of threads, files and functions come from the target, and can hold what
//! moves a terminal's cursor, begins a line that looks like one of ours, or turns the order of letters round
//! (CVE-2021-42574, "Trojan Source").
//!
//! In text such characters are escaped as in Rust's literals; in JSON they are `\uXXXX`, so that nothing is lost.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use serde::Serialize;

/// Characters that are not seen but do something: controls, separators of lines, and formats (Unicode's general categories Cc, Zl, Zp and
/// Cf, of version 16.0).
#[must_use]
pub const fn is_unseen(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}' | '\u{891}' | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}'
        | '\u{e0020}'..='\u{e007f}')
}

/// A name, or a line, in one line of what is seen.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_unseen) {
        let mut out = String::with_capacity(text.len() + 8);
        for c in text.chars() {
            if is_unseen(c) {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        Cow::Owned(out)
    } else {
        Cow::Borrowed(text)
    }
}

/// The same of a message of several lines: each line after the first one is set in, so that none looks like one of ours.
#[must_use]
pub fn clean_message(text: &str) -> String {
    let lines = text.lines().map(clean);
    lines.collect::<Vec<_>>().join("\n    ")
}

/// A value as JSON, in one line.
///
/// # Errors
/// Fails where the value's own serialization does.
pub fn to_json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    write_json(value, &mut bytes)?;
    // It writes text only.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a value as JSON, in one line that is not ended.
///
/// # Errors
/// Fails where the value's own serialization does, or `out`.
pub fn write_json(value: &impl Serialize, out: impl Write) -> serde_json::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(out, Escaping);
    value.serialize(&mut serializer)
}

/// Compact, with all that is unseen escaped: JSON wants that only of what is below U+0020 (RFC 8259, section 7).
struct Escaping;

impl serde_json::ser::Formatter for Escaping {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut seen = fragment;
        while let Some((at, c)) = seen.char_indices().find(|&(_, c)| is_unseen(c)) {
            let (before, rest) = seen.split_at(at);
            out.write_all(before.as_bytes())?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            seen = rest.get(c.len_utf8()..).unwrap_or_default();
        }
        out.write_all(seen.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\x1b[2J\nWARN b\u{202e}c\u{9b}31m\u{e0041}\u{2028}d é \u{4e2d}";

    /// Check that names do nothing on a terminal, in text and in JSON, and that those of all languages stay as they are.
    #[test]
    fn names_do_nothing() {
        assert_eq!(
            clean(HOSTILE),
            "a\\u{1b}[2J\\nWARN b\\u{202e}c\\u{9b}31m\\u{e0041}\\u{2028}d é \u{4e2d}"
        );
        assert_eq!(
            clean("std::vec<int>::push_back"),
            "std::vec<int>::push_back"
        );
        assert_eq!(
            clean_message("one\r\ntwo\n\x07"),
            "one\n    two\n    \\u{7}"
        );
        let json = to_json(&[HOSTILE]).unwrap();
        assert!(!json.chars().any(is_unseen), "{json}");
        let back: Vec<String> = serde_json::from_str(&json).unwrap();
        assert_eq!(back, [HOSTILE]);
    }
}
