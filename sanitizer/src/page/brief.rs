//! A record as far as a page has room for it. Whoever may send races can send one of 16 MiB, of a hundred thousand frames or with names of any length.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::report::Race;

/// Entries of a list that are shown: frames, values, notes, lines of a source.
const MOST_ENTRIES: usize = 64;
/// Characters of a text that are shown.
const MOST_OF_TEXT: usize = 1000;
/// Characters of all texts together.
const MOST: usize = 256 << 10;
/// When that is reached, characters of each further text: names and words of the form have no more.
const FEWEST_OF_TEXT: usize = 64;

/// What was left out.
#[derive(Debug, Default)]
struct Left {
    /// How many entries of which lists, by their keys in the JSON form.
    entries: BTreeMap<String, usize>,
    /// Texts that are not whole.
    texts: usize,
}

/// Characters for which there is room.
struct Room {
    chars: usize,
    left: Left,
}

impl Room {
    fn text(&mut self, text: &mut String) {
        let most = self.chars.clamp(FEWEST_OF_TEXT, MOST_OF_TEXT);
        if let Some((end, _)) = text.char_indices().nth(most) {
            text.truncate(end);
            text.push('…');
            self.left.texts += 1;
        }
        self.chars = self.chars.saturating_sub(text.chars().count());
    }

    fn value(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(entries) => {
                let more = entries.len().saturating_sub(MOST_ENTRIES);
                if more > 0 {
                    entries.truncate(MOST_ENTRIES);
                    *self.left.entries.entry(key.to_owned()).or_default() += more;
                }
                for entry in entries {
                    self.value(key, entry);
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.value(key, value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// A record, and in words what was left out of it.
pub(super) fn brief(race: &Race) -> Result<(Race, Option<String>), serde_json::Error> {
    let mut value = serde_json::to_value(race)?;
    let mut room = Room {
        chars: MOST,
        left: Left::default(),
    };
    room.value("", &mut value);
    let mut short: Race = serde_json::from_value(value)?;
    for (short, whole) in short.accesses.iter_mut().zip(&race.accesses) {
        short.stack_truncated |= short.stack.len() < whole.stack.len();
    }
    Ok((short, told(&room.left)))
}

fn told(left: &Left) -> Option<String> {
    let name = |key: &str| match key {
        "stack" => "frames",
        "live_values" => "live values",
        "holds" => "locks",
        "lines" => "lines of sources",
        "notes" => "notes",
        _ => "others",
    };
    let entries = left.entries.iter();
    let mut parts: Vec<String> = entries
        .map(|(key, count)| format!("{count} {}", name(key)))
        .collect();
    match left.texts {
        0 => {}
        1 => parts.push("the end of a long text".to_owned()),
        texts => parts.push(format!("the ends of {texts} long texts")),
    }
    (!parts.is_empty()).then(|| {
        format!(
            "Of this record there is no room here for {}; `gwp-race races show` tells all of it.",
            parts.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{StackFrame, sample};

    /// Check that a usual record is shown whole, and that of a huge one as much as there is room for, with what was left out.
    #[test]
    fn records_are_bounded() {
        let usual = sample::race();
        let (shown, left) = brief(&usual).unwrap();
        assert_eq!((shown, left), (usual.clone(), None));
        let mut huge = usual;
        let frame = StackFrame {
            function: Some("f".repeat(5000)),
            ..huge.accesses[0].stack[0].clone()
        };
        huge.accesses[0].stack = vec![frame; 1000];
        huge.accesses[1].stack_truncated = false;
        huge.notes = vec!["\u{1f980}".repeat(3000); 70];
        huge.exe = "/x".repeat(1 << 20);
        let (shown, left) = brief(&huge).unwrap();
        let [stalled, racing] = &shown.accesses;
        assert_eq!(stalled.stack.len(), MOST_ENTRIES);
        assert!(stalled.stack_truncated && !racing.stack_truncated);
        assert_eq!(shown.identity, huge.identity);
        let left = left.unwrap();
        for part in ["936 frames", "6 notes", "long texts", "races show"] {
            assert!(left.contains(part), "{left}");
        }
        let text = serde_json::to_string(&shown).unwrap();
        assert!(text.len() < 1 << 20, "{}", text.len());
    }
}
