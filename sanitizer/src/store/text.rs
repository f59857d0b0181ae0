//! Texts as every engine takes them: what programs are called, their owners decide.

use sha2::{Digest as _, Sha256};

/// The longest text that is part of a key, bytes: PostgreSQL's indexes take 2,704 for all parts of one.
const MOST_OF_KEY: usize = 400;
/// So much of a longer one is kept, before its digest.
const KEPT_OF_KEY: usize = 300;

/// What a record is called.
pub(crate) fn digest_of(record: &str) -> String {
    digest_of_bytes(record.as_bytes())
}

/// What bytes are called.
pub(crate) fn digest_of_bytes(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What has a number in place of a name.
pub(super) fn number_of(name: &str) -> i64 {
    let digest = Sha256::digest(name);
    let first = digest.first_chunk().copied().unwrap_or_default();
    i64::from_be_bytes(first)
}

/// Without the character that PostgreSQL has in no text.
pub(super) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The same for what is part of a key.
pub(super) fn key(whole: &str) -> String {
    let taken = text(whole);
    if taken.len() <= MOST_OF_KEY {
        return taken;
    }
    let kept = taken.get(..taken.floor_char_boundary(KEPT_OF_KEY));
    format!("{}#{}", kept.unwrap_or_default(), digest_of(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that texts stay as they are but for what an engine does not take, and that keys which differ stay different.
    #[test]
    fn texts_that_engines_take() {
        assert_eq!(text("größer"), "größer");
        assert_eq!(text("a\0b"), "a\u{fffd}b");
        assert_eq!(key("exe:/bin/app"), "exe:/bin/app");
        let [one, other] = ["a", "b"].map(|end| format!("{}{end}", "ü\0".repeat(400)));
        assert_ne!(key(&one), key(&other));
        assert!(key(&one).len() <= MOST_OF_KEY && !key(&one).contains('\0'));
    }
}
