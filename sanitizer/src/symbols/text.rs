//! Names and paths from files: whatever a file says, they are no longer than any name is.

use gimli::Reader as _;

use super::reader::Reader;

/// Bytes of the longest name or path: that of `PATH_MAX`, and of all but monstrous names of templates.
pub(crate) const LONGEST: usize = 4096;

/// A text, cut where it is too long.
pub(super) fn of(text: &Reader) -> Option<String> {
    let bytes = text.first(LONGEST + 1);
    let bytes = bytes.to_slice().ok()?;
    Some(cut(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The text at the front, up to its NUL, cut where it is too long; nothing where there is no NUL.
pub(super) fn to_nul(text: &Reader) -> Option<String> {
    let near = text.first(LONGEST + 1);
    match near.find(0) {
        Ok(end) => of(&near.first(end)),
        // A cut name needs no end.
        Err(_) if near.len() > LONGEST => of(&near),
        Err(_) => None,
    }
}

/// A text without what is too much of it.
pub(super) fn cut(mut text: String) -> String {
    const MARK: &str = "...";
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST - MARK.len()));
        text.push_str(MARK);
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check texts of about the greatest length, with a NUL and without.
    #[test]
    fn lengths() {
        let text = |len: usize| Reader::of_bytes("x".repeat(len).into_bytes().into());
        for len in [0, 1, LONGEST, LONGEST + 1, 10 * LONGEST] {
            let read = of(&text(len)).unwrap();
            assert_eq!(read.len(), len.min(LONGEST));
            assert_eq!(read.ends_with("..."), len > LONGEST);
            assert_eq!(to_nul(&text(len)).is_some(), len > LONGEST);
        }
        assert_eq!(cut("é".repeat(LONGEST)).len(), LONGEST - 1);
        let ended = Reader::of_bytes((*b"abc\0def").into());
        assert_eq!(to_nul(&ended).as_deref(), Some("abc"));
    }
}
