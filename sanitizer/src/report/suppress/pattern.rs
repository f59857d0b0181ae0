//! Patterns of suppressions.

/// The sanitizers' pattern: a substring, with `*` for any run of characters, `^` at the
/// beginning and `$` at the end as anchors (compiler-rt, `TemplateMatch`).
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, from_start) = match pattern.strip_prefix('^') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let (pattern, to_end) = match pattern.strip_suffix('$') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let mut parts: Vec<&str> = pattern.split('*').collect();
    let mut rest = text;
    if from_start && !parts.is_empty() {
        match rest.strip_prefix(parts.remove(0)) {
            Some(after) => rest = after,
            None => return false,
        }
        if parts.is_empty() {
            return !to_end || rest.is_empty();
        }
    }
    let last = if to_end { parts.pop() } else { None };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    last.is_none_or(|last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check the pattern language.
    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("foo", "a::foobar", true),
            ("^foo", "a::foobar", false),
            ("^foo", "foobar", true),
            ("bar$", "foobar", true),
            ("foo$", "foobar", false),
            ("^foo$", "foo", true),
            ("^foo$", "foofoo", false),
            ("f*r", "a foo bar", true),
            ("r*f", "foo bar", false),
            ("^f*r$", "foobar", true),
            ("^f*r$", "foobars", false),
            ("^f*f$", "f", false),
            ("^*bar", "foobar", true),
            ("foo*$", "foobar", true),
            ("*", "", true),
            ("ü*ß", "über Straße", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
