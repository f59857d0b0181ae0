//! The words and signs of Rust sources, without comments and texts: enough to find imports in.

/// The tokens of a source text: words, `::`, and other signs one by one.
pub fn of(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(len) = literal(rest) {
            len
        } else if is_of_word(next) {
            let len = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
            found.push(&rest[..len]);
            len
        } else if rest.starts_with("::") {
            found.push("::");
            2
        } else {
            let len = next.len_utf8();
            if !next.is_whitespace() {
                found.push(&rest[..len]);
            }
            len
        };
        rest = &rest[len..];
    }
    found
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Bytes of the text, character or lifetime that begins here, if one does.
fn literal(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""];
    let prefix = prefix.iter().find(|prefix| {
        let behind = rest.strip_prefix(**prefix).unwrap_or_default();
        let is_raw = prefix.ends_with('r');
        let quotes = behind.trim_start_matches('#');
        quotes.starts_with('"') && (is_raw || quotes.len() == behind.len())
    });
    if let Some(prefix) = prefix {
        let behind = &rest[prefix.len()..];
        let signs = behind.len() - behind.trim_start_matches('#').len();
        let begin = prefix.len() + signs + 1;
        if prefix.ends_with('r') {
            let end = format!("\"{}", "#".repeat(signs));
            let found = rest[begin..].find(&end);
            return Some(found.map_or(rest.len(), |at| begin + at + end.len()));
        }
        return Some(begin + quoted(&rest[begin..], '"'));
    }
    let behind = rest.strip_prefix('\'')?;
    let mut letters = behind.chars();
    let first = letters.next()?;
    if first == '\\' || letters.next() == Some('\'') {
        return Some(1 + quoted(behind, '\''));
    }
    // A lifetime.
    let len = behind.find(|c| !is_of_word(c)).unwrap_or(behind.len());
    Some(1 + len)
}

/// Bytes up to the sign that ends a text, and with it.
fn quoted(text: &str, end: char) -> usize {
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == end {
            return at + 1;
        }
    }
    text.len()
}
