//! Bounds of a text in JSON, which are checked before anything is made of it: what is made of three bytes may take a hundred.

use std::slice::Iter;

/// Brackets within each other. Those of a line of source in a message are 12.
const DEEPEST: usize = 16;
/// What a list or an object may have.
pub(super) const MOST_ELEMENTS: usize = 10_000;
/// What all of them may have together.
const MOST_VALUES: usize = 1_000_000;
/// Bytes of a text as it is written. Names that a host reads from a program have 4,096 at most.
pub(super) const LONGEST: usize = 1 << 16;

/// Which bound a text exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Brackets within each other.
    #[error("it has more than {DEEPEST} levels of brackets")]
    Depth,
    /// Elements of one list or object.
    #[error("it has a list of more than {MOST_ELEMENTS} elements")]
    Elements,
    /// All values.
    #[error("it has more than {MOST_VALUES} values")]
    Values,
    /// A text.
    #[error("it has a text of more than {LONGEST} bytes")]
    Text,
    /// A character that no name has, and that not every database takes.
    #[error("it has a text with a NUL in it")]
    Nul,
}

/// Checks a text. Whether it is JSON at all is left to who reads it.
pub(super) fn check(json: &[u8]) -> Result<(), Exceeded> {
    // How many elements each of the lists and objects has that are open.
    let mut open: Vec<usize> = Vec::with_capacity(DEEPEST);
    let mut values = 0;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => check_text(&mut bytes)?,
            b'[' | b'{' => {
                if open.len() == DEEPEST {
                    return Err(Exceeded::Depth);
                }
                open.push(1);
                values += 1;
            }
            b']' | b'}' => drop(open.pop()),
            b',' => {
                values += 1;
                if let Some(elements) = open.last_mut() {
                    *elements += 1;
                    if *elements > MOST_ELEMENTS {
                        return Err(Exceeded::Elements);
                    }
                }
            }
            _ => {}
        }
        if values > MOST_VALUES {
            return Err(Exceeded::Values);
        }
    }
    Ok(())
}

/// Checks a text between quotation marks, of which the first was read, and reads the last.
fn check_text(bytes: &mut Iter<'_, u8>) -> Result<(), Exceeded> {
    let begin = bytes.len();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return Ok(()),
            b'\\' if bytes.next() == Some(&b'u') && bytes.as_slice().starts_with(b"0000") => {
                return Err(Exceeded::Nul);
            }
            _ => {}
        }
        if begin - bytes.len() > LONGEST {
            return Err(Exceeded::Text);
        }
    }
    Ok(())
}
