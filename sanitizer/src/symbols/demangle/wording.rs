//! A demangled name in the words of LLVM's demangler, which ThreadSanitizer's reports are in, and so the suppressions that were written after them.
//!
//! The library writes names in the words of GNU's, of some years ago: `> >`, `(unsigned int)3`, `{lambda()#1}`, `[clone .cold]`; and where a pack of types or values is empty it
//! writes what stands around it. What it leaves out (of a pack of parameters all `&&`, the first parameter of constructors that are templates) cannot be told from its text.

/// Integers whose literals have a suffix in LLVM's words (`ItaniumDemangle.h`, `IntegerLiteral`), and the suffix.
const SUFFIXES: [(&str, &str); 5] = [
    ("unsigned int", "u"),
    ("long", "l"),
    ("unsigned long", "ul"),
    ("long long", "ll"),
    ("unsigned long long", "ull"),
];
/// What is said of a whole name, and how LLVM's demangler begins it.
const WHOLES: [(&str, &str); 4] = [
    ("{vtable(", "vtable for "),
    ("{vtt(", "VTT for "),
    ("{virtual override thunk({offset(", "non-virtual thunk to "),
    (
        "{virtual override thunk({virtual offset(",
        "virtual thunk to ",
    ),
];
const THUNK: &str = "thunk to ";
const LAMBDA: &str = "{lambda(";
const UNNAMED: &str = "{unnamed type#";
const OPERATOR: &str = "operator";
/// The operators with brackets or commas in them, each before those that it begins with.
const OPERATORS: [&str; 17] = [
    "()", "[]", "<=>", "<<=", ">>=", "->*", "->", "<<", ">>", "<=", ">=", "<", ">", ",", "&&",
    "&=", "&",
];

/// The name in those words.
pub(super) fn as_llvm(name: &str) -> String {
    let (name, clones) = split_clones(name);
    let mut wording = Wording::default();
    let whole = WHOLES
        .iter()
        .find_map(|(begins, words)| Some((name.strip_prefix(begins)?.strip_suffix(")}")?, words)));
    let name = match whole {
        Some((rest, words)) => {
            wording.text.push_str(words);
            // Before what a thunk leads to stands its offset.
            let of_thunk = rest.split_once("}, ").filter(|_| words.ends_with(THUNK));
            of_thunk.map_or(rest, |(_, rest)| rest)
        }
        None => name,
    };
    wording.write(name);
    if !clones.is_empty() {
        wording.text.push_str(" (");
        wording.text.push_str(&clones);
        wording.text.push(')');
    }
    wording.text
}

/// A name without what is said of clones at its end; and their suffixes.
fn split_clones(mut name: &str) -> (&str, String) {
    let mut clones = Vec::new();
    while let Some((rest, clone)) = name
        .strip_suffix(']')
        .and_then(|name| name.rsplit_once(" [clone "))
        .filter(|(_, clone)| clone.starts_with('.'))
    {
        name = rest;
        clones.push(clone);
    }
    clones.reverse();
    (name, clones.concat())
}

/// What is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Arguments of a template, the last of which begins there in the text so far.
    Angle {
        last: usize,
    },
    Round,
    /// The types of a lambda's parameters: they come after its number, where the text so far is put together.
    Lambda {
        begins: usize,
    },
    /// Another brace or bracket.
    Other,
}

#[derive(Default)]
struct Wording {
    text: String,
    open: Vec<Open>,
}

impl Wording {
    fn write(&mut self, name: &str) {
        let mut rest = name;
        while let Some(first) = rest.chars().next() {
            let taken = match first {
                'o' if rest.starts_with(OPERATOR) && !self.is_within_word() => self.operator(rest),
                ':' if rest.starts_with("::") => self.member(rest),
                '<' => {
                    let last = self.text.len() + 1;
                    self.begin(Open::Angle { last }, "<")
                }
                '(' => self.parenthesis(rest),
                '{' => self.brace(rest),
                '[' => self.begin(Open::Other, "["),
                '>' if matches!(self.open.last(), Some(Open::Angle { .. })) => {
                    self.end_of_list('>')
                }
                ')' => self.end_of_parenthesis(rest),
                '}' | ']' => self.end(first),
                ',' if self.text.ends_with(['<', '(']) || self.text.ends_with(", ") => {
                    // An empty pack: nothing stands between this comma and what is before it.
                    rest[1..].len() - rest[1..].trim_start_matches(' ').len() + 1
                }
                ',' => self.comma(rest),
                '&' if self.is_empty_pack(rest) => rest.len() - rest.trim_start_matches('&').len(),
                _ => {
                    self.text.push(first);
                    first.len_utf8()
                }
            };
            rest = &rest[taken..];
        }
    }

    fn is_within_word(&self) -> bool {
        self.text
            .ends_with(|last: char| last.is_alphanumeric() || last == '_')
    }

    fn begin(&mut self, open: Open, text: &str) -> usize {
        self.open.push(open);
        self.text.push_str(text);
        1
    }

    fn end(&mut self, closing: char) -> usize {
        self.open.pop();
        self.text.push(closing);
        1
    }

    /// References to the types of an empty pack, as which the library writes nothing but the references.
    fn is_empty_pack(&self, rest: &str) -> bool {
        (self.text.ends_with('(') || self.text.ends_with(", ")) && {
            let rest = rest.trim_start_matches('&');
            // `(&) [16]` is a reference to an array.
            rest.starts_with([')', ',']) && !rest.starts_with(") [")
        }
    }

    /// The name of an operator, which may have brackets in it that are none.
    fn operator(&mut self, rest: &str) -> usize {
        let symbol = &rest[OPERATOR.len()..];
        let len = OPERATORS
            .iter()
            .find(|operator| symbol.starts_with(**operator))
            .map_or(0, |operator| operator.len());
        // Where arguments of a template follow, the library has a space between the two.
        let symbol_ends = OPERATOR.len() + len;
        self.text.push_str(&rest[..symbol_ends]);
        let after = &rest[symbol_ends..];
        let is_spaced = rest[..symbol_ends].ends_with('<') && after.starts_with(" <");
        symbol_ends + usize::from(is_spaced)
    }

    fn parenthesis(&mut self, rest: &str) -> usize {
        if let Some((literal, suffix, taken)) =
            literal(rest).filter(|_| self.text.ends_with(['<', ' ']))
        {
            self.text.push_str(literal);
            self.text.push_str(suffix);
            return taken;
        }
        let is_type = self.is_type_of_function(rest);
        if is_type {
            self.text.push(' ');
        }
        self.begin(Open::Round, "(")
    }

    /// Whether the parenthesis after a type begins the parameters of a function's type, as in `function<int (char)>`; those of a function's name, which may be an argument of a
    /// template as well, follow the name.
    fn is_type_of_function(&self, rest: &str) -> bool {
        let names_function = match self.open.last() {
            Some(&Open::Angle { last }) => self.text[last.min(self.text.len())..].starts_with('&'),
            _ => false,
        };
        !names_function
            && self
                .open
                .iter()
                .any(|open| matches!(open, Open::Angle { .. }))
            && self
                .text
                .ends_with(|last: char| last.is_alphanumeric() || "_>*&".contains(last))
            && !matching(rest).is_some_and(|end| {
                let rest = &rest[end..];
                rest.starts_with("::") || rest.starts_with(" const::")
            })
    }

    /// `::` and the name behind it. Of a reference to `outer::inner`, where the library has the outer name by a reference to a part before, it writes `outer&::inner`.
    fn member(&mut self, rest: &str) -> usize {
        let outer = self.text.trim_end_matches(['&', '*']);
        let outer = outer
            .strip_suffix(" const")
            .unwrap_or(outer)
            .trim_end_matches(['&', '*'])
            .len();
        let name = rest[2..]
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .map_or(rest.len(), |end| end + 2);
        let is_operator = self.text[..outer].ends_with(OPERATOR);
        if outer == self.text.len() || is_operator || rest[name..].starts_with('<') {
            self.text.push_str("::");
            return 2;
        }
        self.text.insert_str(outer, &rest[..name]);
        name
    }

    /// The next argument begins.
    fn comma(&mut self, rest: &str) -> usize {
        let taken = if rest.starts_with(", ") { 2 } else { 1 };
        self.text.push_str(&rest[..taken]);
        let next = self.text.len();
        if let Some(Open::Angle { last }) = self.open.last_mut() {
            *last = next;
        }
        taken
    }

    fn end_of_list(&mut self, closing: char) -> usize {
        while self.text.ends_with(", ") {
            self.text.truncate(self.text.len() - 2);
        }
        // `> >`
        if closing == '>' && self.text.ends_with("> ") {
            self.text.pop();
        }
        self.end(closing)
    }

    fn end_of_parenthesis(&mut self, rest: &str) -> usize {
        let Some(&Open::Lambda { begins }) = self.open.last() else {
            return self.end_of_list(')');
        };
        let number = rest[1..]
            .strip_prefix('#')
            .and_then(|rest| rest.split_once('}'));
        let Some((number, _)) = number else {
            return self.end_of_list(')');
        };
        self.end_of_list(')');
        let name = numbered("lambda", number);
        self.text.insert_str(begins, &name);
        ")#}".len() + number.len()
    }

    fn brace(&mut self, rest: &str) -> usize {
        if rest.starts_with(LAMBDA) {
            self.open.push(Open::Lambda {
                begins: self.text.len(),
            });
            self.text.push('(');
            return LAMBDA.len();
        }
        let unnamed = rest
            .strip_prefix(UNNAMED)
            .and_then(|rest| rest.split_once('}'));
        if let Some((number, _)) = unnamed {
            self.text.push_str(&numbered("unnamed", number));
            return UNNAMED.len() + number.len() + 1;
        }
        self.begin(Open::Other, "{")
    }
}

/// `'lambda'` for the first one, `'lambda0'` for the second.
fn numbered(what: &str, number: &str) -> String {
    match number.parse::<u64>() {
        Ok(number @ 2..) => format!("'{what}{}'", number - 2),
        _ => format!("'{what}'"),
    }
}

/// A literal with the type before it: `(unsigned int)3`. Its digits, the suffix, and its length.
fn literal(text: &str) -> Option<(&str, &'static str, usize)> {
    let (kind, value) = text.strip_prefix('(')?.split_once(')')?;
    let (_, suffix) = SUFFIXES.into_iter().find(|(name, _)| *name == kind)?;
    let digits = value.strip_prefix('-').unwrap_or(value);
    let digits = digits.len()
        - digits
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .len();
    let len = digits + usize::from(value.starts_with('-'));
    (digits > 0).then(|| (&value[..len], suffix, kind.len() + 2 + len))
}

/// Where the parenthesis ends with which a text begins: one past its end.
fn matching(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
