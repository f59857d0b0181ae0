//! Three lines of source around an access: read from a file of which nothing is known but that it may be read, and shown with the column marked.
//!
//! Columns are bytes of the line, from 1, as compilers count them. A tab is shown as blanks up to the next of its stops.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};

use super::clean::clean;
use super::model::{Excerpt, SourceLine, StackFrame};

/// A file of more bytes is not read.
const LONGEST_FILE: u64 = 8 << 20;
/// Characters of a line that are kept.
const LONGEST_LINE: usize = 200;
/// Bytes that those have at most.
const LONGEST_BYTES: usize = LONGEST_LINE * 4;
/// Lines before and after the one.
const BESIDE: u32 = 1;
/// Where tabs stop.
const TAB: usize = 4;
/// Columns of a line's number.
const NUMBER: usize = 10;

impl Excerpt {
    /// Reads a line and those beside it; nothing where the file is too large, or has no such line.
    ///
    /// # Errors
    /// Fails where the file cannot be read.
    pub fn read(file: &File, line: u32) -> io::Result<Option<Self>> {
        if line == 0 || file.metadata()?.len() > LONGEST_FILE {
            return Ok(None);
        }
        let lines = read_lines(BufReader::new(file.take(LONGEST_FILE)), line)?;
        let is_there = lines.iter().any(|kept| kept.line == line);
        Ok(is_there.then_some(Self {
            lines,
            changed: false,
        }))
    }
}

fn read_lines(mut text: impl BufRead, line: u32) -> io::Result<Vec<SourceLine>> {
    let mut kept = Vec::new();
    for number in 1..=line.saturating_add(BESIDE) {
        let is_wanted = number >= line.saturating_sub(BESIDE);
        let Some(bytes) = next_line(&mut text, if is_wanted { LONGEST_BYTES } else { 0 })? else {
            break;
        };
        if is_wanted {
            let all = String::from_utf8_lossy(&bytes);
            let all = all.strip_suffix('\r').unwrap_or(&all);
            kept.push(SourceLine {
                line: number,
                text: all.chars().take(LONGEST_LINE).collect(),
            });
        }
    }
    Ok(kept)
}

/// The beginning of the next line, of so many bytes at most; nothing at the end.
fn next_line(text: &mut impl BufRead, most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut kept = Vec::new();
    let mut is_any = false;
    loop {
        let bytes = text.fill_buf()?;
        if bytes.is_empty() {
            return Ok(is_any.then_some(kept));
        }
        is_any = true;
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        let room = most.saturating_sub(kept.len()).min(part.len());
        kept.extend(part.iter().take(room));
        let used = part.len() + usize::from(end.is_some());
        text.consume(used);
        if end.is_some() {
            return Ok(Some(kept));
        }
    }
}

/// The lines of a frame, if it has any.
pub(super) fn write_excerpt(out: &mut String, frame: &StackFrame) -> fmt::Result {
    let Some(excerpt) = &frame.source else {
        return Ok(());
    };
    for SourceLine { line, text } in &excerpt.lines {
        let shown = format!("{line:>NUMBER$} | {}", shown(text));
        writeln!(out, "{}", shown.trim_end())?;
        let column = frame.column.filter(|_| frame.line == Some(*line));
        if let Some(before) = column.and_then(|column| before(text, column)) {
            let width = shown_width(before);
            writeln!(out, "{:>NUMBER$} | {:>width$}^", "", "")?;
        }
    }
    if excerpt.changed {
        writeln!(out, "{:>NUMBER$} (changed since the program was built)", "")?;
    }
    Ok(())
}

/// A line as it is shown, in three parts: what is before the column of the access, the character there, and the rest. All is in the first part where the
/// line has none that is known.
pub(super) fn marked(frame: &StackFrame, line: &SourceLine) -> [String; 3] {
    let text = &line.text;
    let whole = shown(text);
    let column = frame.column.filter(|_| frame.line == Some(line.line));
    let Some(before) = column.and_then(|column| before(text, column)) else {
        return [whole, String::new(), String::new()];
    };
    let rest = text.get(before.len()..).unwrap_or_default();
    let character = rest.chars().next().map_or(0, char::len_utf8);
    let until = text.get(..before.len() + character).unwrap_or(text);
    let [from, to] = [before, until].map(shown_width);
    let part = |from: usize, to: usize| whole.chars().skip(from).take(to - from).collect();
    [part(0, from), part(from, to), part(to, usize::MAX)]
}

/// What is in a line before a column; nothing where it has no such column, or that was cut off.
fn before(text: &str, column: u32) -> Option<&str> {
    let at = usize::try_from(column).ok()?.checked_sub(1)?;
    (at < text.len()).then(|| text.get(..text.floor_char_boundary(at)))?
}

/// A line as it is shown.
fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for (number, part) in text.split('\t').enumerate() {
        if number > 0 {
            let blanks = TAB - column % TAB;
            out.extend(std::iter::repeat_n(' ', blanks));
            column += blanks;
        }
        let part = clean(part);
        column += part.chars().count();
        out.push_str(&part);
    }
    out
}

fn shown_width(text: &str) -> usize {
    shown(text).chars().count()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn lines(text: &str, line: u32) -> Vec<(u32, String)> {
        let lines = read_lines(text.as_bytes(), line).unwrap();
        lines
            .into_iter()
            .map(|kept| (kept.line, kept.text))
            .collect()
    }

    fn numbered(lines: &[(u32, &str)]) -> Vec<(u32, String)> {
        let lines = lines.iter();
        lines.map(|&(line, text)| (line, text.to_owned())).collect()
    }

    /// Check which lines are read, at the ends of a file too, whatever ends its lines.
    #[test]
    fn lines_around() {
        let text = "one\ntwo\r\nthree\n\nfive";
        assert_eq!(lines(text, 1), numbered(&[(1, "one"), (2, "two")]));
        let middle = [(1, "one"), (2, "two"), (3, "three")];
        assert_eq!(lines(text, 2), numbered(&middle));
        assert_eq!(lines(text, 5), numbered(&[(4, ""), (5, "five")]));
        assert_eq!(lines(text, 6), numbered(&[(5, "five")]));
        assert_eq!(lines(text, u32::MAX), numbered(&[]));
        assert_eq!(lines("", 1), numbered(&[]));
        // A line of which nothing is kept is a line all the same, also where it is read in parts.
        let long = format!("{}\nshort\n", "x".repeat(10_000));
        let parts = BufReader::with_capacity(7, long.as_bytes());
        let kept = read_lines(parts, 3).unwrap();
        assert_eq!(kept.len(), 1);
        assert_eq!((kept[0].line, kept[0].text.as_str()), (2, "short"));
    }

    /// Check that a line is cut at so many characters, and not within one.
    #[test]
    fn long_lines() {
        for letter in ["x", "é", "\u{1f980}"] {
            let kept = lines(&letter.repeat(10_000), 1);
            assert_eq!(kept, [(1, letter.repeat(LONGEST_LINE))]);
        }
    }

    /// Check that large files are not read, and that a file without the line has no excerpt.
    #[test]
    fn whole_files() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one\ntwo\n").unwrap();
        let read = |line| {
            let mut again = &file;
            io::Seek::rewind(&mut again).unwrap();
            Excerpt::read(&file, line).unwrap()
        };
        assert_eq!(read(2).unwrap().lines.len(), 2);
        assert_eq!((read(0), read(3), read(4)), (None, None, None));
        file.set_len(LONGEST_FILE + 1).unwrap();
        assert_eq!(read(2), None);
    }

    fn written(line: u32, column: Option<u32>, text: &str) -> String {
        let frame = StackFrame {
            line: Some(line),
            column,
            source: Some(Excerpt {
                lines: vec![SourceLine {
                    line,
                    text: text.to_owned(),
                }],
                changed: false,
            }),
            ..StackFrame::default()
        };
        let mut out = String::new();
        write_excerpt(&mut out, &frame).unwrap();
        out
    }

    /// Check that the column is marked below the character that it means, whatever stands before it: tabs, characters of several bytes, and
    /// those that are written otherwise.
    #[test]
    fn columns_are_marked() {
        for (text, marked) in [
            ("  counter++;", 'c'),
            ("\tcounter++;", 'c'),
            ("ab\t\tcounter++;", 'c'),
            ("é = \u{4e2d}; counter++;", 'c'),
            ("/* \u{202e}\x1b[2J */ xcounter++;", 'x'),
        ] {
            let column = u32::try_from(text.find(marked).unwrap() + 1).unwrap();
            let out = written(7, Some(column), text);
            let (line, caret) = out.trim_end().split_once('\n').unwrap();
            let at = caret.chars().position(|c| c == '^').unwrap();
            assert_eq!(line.chars().nth(at), Some(marked), "{out}");
            assert!(!out.contains('\t') && !out.contains('\x1b'), "{out}");
        }
        assert_eq!(
            written(7, Some(3), "a b"),
            "         7 | a b\n           |   ^\n"
        );
    }

    /// Check that nothing is marked without a column, or where the line has none such.
    #[test]
    fn nothing_is_marked() {
        for column in [None, Some(0), Some(4), Some(u32::MAX)] {
            assert_eq!(written(7, column, "abc"), "         7 | abc\n");
        }
        assert_eq!(written(7, Some(1), ""), "         7 |\n");
        // In the middle of a character.
        assert!(written(7, Some(3), "aé").ends_with("|  ^\n"));
    }

    /// Check which character is marked, among tabs, characters of several bytes and such as are not seen; and that none is where the column is not of the line.
    #[test]
    fn the_column_is_marked() {
        let parts = |text: &str, column| {
            let frame = StackFrame {
                line: Some(7),
                column,
                ..StackFrame::default()
            };
            let line = SourceLine {
                line: 7,
                text: text.to_owned(),
            };
            marked(&frame, &line)
        };
        assert_eq!(parts("a = b;", Some(5)), ["a = ", "b", ";"]);
        assert_eq!(parts("\tx++;", Some(2)), ["    ", "x", "++;"]);
        assert_eq!(parts("\tx", Some(1)), ["", "    ", "x"]);
        assert_eq!(parts("é\u{202e}x", Some(6)), ["é\\u{202e}", "x", ""]);
        assert_eq!(parts("é\u{202e}x", Some(3)), ["é", "\\u{202e}", "x"]);
        for column in [None, Some(0), Some(2)] {
            assert_eq!(parts("x", column), ["x", "", ""]);
        }
        let elsewhere = StackFrame {
            line: Some(8),
            column: Some(1),
            ..StackFrame::default()
        };
        let line = SourceLine {
            line: 7,
            text: "x".to_owned(),
        };
        assert_eq!(marked(&elsewhere, &line), ["x", "", ""]);
    }
}
