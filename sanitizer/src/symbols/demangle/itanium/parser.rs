//! Reading a mangled name: where we are in it, and what it refers back to.

use super::node::{Id, Node, Qualifiers, Standard};
use super::operators::Operator;

/// How deep a name may nest: it comes from a file that we do not trust, and reading recurses.
const DEEPEST: u32 = 128;

const STANDARD: [(char, Standard); 6] = [
    ('a', standard("allocator", "allocator", "")),
    ('b', standard("basic_string", "basic_string", "")),
    (
        's',
        standard(
            "string",
            "basic_string",
            "<char, std::char_traits<char>, std::allocator<char>>",
        ),
    ),
    ('i', standard("istream", "basic_istream", CHARACTERS)),
    ('o', standard("ostream", "basic_ostream", CHARACTERS)),
    ('d', standard("iostream", "basic_iostream", CHARACTERS)),
];
const CHARACTERS: &str = "<char, std::char_traits<char>>";

const fn standard(
    short: &'static str,
    template: &'static str,
    arguments: &'static str,
) -> Standard {
    Standard {
        short,
        template,
        arguments,
    }
}

/// Which arguments the parameters of a level of templates stand for.
#[derive(Clone, Debug)]
pub(super) enum Level {
    /// Those of the function or class that is named.
    Outer,
    /// Those of a lambda's or template's own template.
    Own(Vec<Id>),
    /// Those of a lambda whose parameters are `auto`.
    Auto,
}

/// What is known of the name of a function when it has been read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Named {
    /// It has no result: it constructs, destroys or converts.
    pub(super) is_structor: bool,
    pub(super) is_instance: bool,
    pub(super) qualifiers: Qualifiers,
    pub(super) reference: &'static str,
    /// Its first parameter is `this`.
    pub(super) has_object: bool,
}

#[derive(Debug, Default)]
pub(super) struct Parser<'a> {
    pub(super) rest: &'a str,
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) seen: Vec<Id>,
    pub(super) outer: Vec<Id>,
    pub(super) levels: Vec<Level>,
    /// Parameters whose arguments come later.
    pub(super) forward: Vec<Id>,
    pub(super) may_be_forward: bool,
    /// Arguments behind a type are not its own: those of an operator's name that converts to it.
    pub(super) leaves_arguments: bool,
    /// Parameters are written as they are mangled, within constraints.
    pub(super) keeps_parameters: bool,
    pub(super) auto_level: Option<usize>,
    /// How many names of each kind were made up.
    pub(super) invented: [usize; 3],
    depth: u32,
}

impl<'a> Parser<'a> {
    pub(super) fn of(name: &'a str) -> Self {
        Self {
            rest: name,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, node: Node<'a>) -> Id {
        self.nodes.push(node);
        Id(self.nodes.len() - 1)
    }

    pub(super) fn text(&mut self, text: &'a str) -> Id {
        self.add(Node::Text(text))
    }

    pub(super) fn node(&self, id: Id) -> &Node<'a> {
        &self.nodes[id.0]
    }

    pub(super) fn take(&mut self, what: &str) -> bool {
        match self.rest.strip_prefix(what) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    pub(super) fn starts(&self, what: &str) -> bool {
        self.rest.starts_with(what)
    }

    /// The byte at a place from here; 0 behind the end.
    pub(super) fn look(&self, at: usize) -> u8 {
        self.rest.as_bytes().get(at).copied().unwrap_or(0)
    }

    pub(super) fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Does something one level deeper.
    pub(super) fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Option<Id>) -> Option<Id> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// All up to an end.
    pub(super) fn until(
        &mut self,
        end: &str,
        mut read: impl FnMut(&mut Self) -> Option<Id>,
    ) -> Option<Vec<Id>> {
        let mut all = Vec::new();
        while !self.take(end) {
            all.push(read(self)?);
        }
        Some(all)
    }

    /// Digits; nothing where there are none.
    pub(super) fn digits(&mut self) -> &'a str {
        let len = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        digits
    }

    /// The same, with an `n` where the number is negative.
    pub(super) fn number(&mut self) -> &'a str {
        let all = self.rest;
        self.take("n");
        let digits = self.digits();
        if digits.is_empty() {
            return "";
        }
        all.get(..all.len() - self.rest.len()).unwrap_or_default()
    }

    /// A length and so many bytes.
    pub(super) fn counted(&mut self) -> Option<&'a str> {
        let len: usize = self.digits().parse().ok()?;
        let name = self.rest.get(..len).filter(|name| !name.is_empty())?;
        self.rest = self.rest.get(len..)?;
        Some(name)
    }

    pub(super) fn qualifiers(&mut self) -> Qualifiers {
        Qualifiers {
            is_restrict: self.take("r"),
            is_volatile: self.take("V"),
            is_const: self.take("K"),
        }
    }

    pub(super) fn operator(&mut self) -> Option<&'static Operator> {
        let operator = Operator::of(self.rest.get(..2)?)?;
        self.skip(2);
        Some(operator)
    }

    /// Number 36 to the base, digits and capital letters.
    pub(super) fn sequence(&mut self) -> Option<usize> {
        let len = self
            .rest
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
            .count();
        let number = usize::from_str_radix(self.rest.get(..len)?, 36).ok()?;
        self.skip(len);
        Some(number)
    }

    /// `S_` and its kin: a part that was there before, or an abbreviation.
    pub(super) fn substitution(&mut self) -> Option<Id> {
        if !self.take("S") {
            return None;
        }
        if self.look(0).is_ascii_lowercase() {
            let letter = char::from(self.look(0));
            let (_, standard) = STANDARD.iter().find(|(of, _)| *of == letter)?;
            self.skip(1);
            let bare = self.add(Node::Standard(*standard, false));
            let tagged = self.tags(bare)?;
            if tagged != bare {
                self.seen.push(tagged);
            }
            return Some(tagged);
        }
        let index = if self.starts("_") {
            0
        } else {
            self.sequence()?.checked_add(1)?
        };
        if !self.take("_") {
            return None;
        }
        self.seen.get(index).copied()
    }

    /// Tags of ABIs behind a name.
    pub(super) fn tags(&mut self, name: Id) -> Option<Id> {
        let mut tagged = name;
        while self.take("B") {
            let tag = self.counted()?;
            tagged = self.add(Node::Tagged(tagged, tag));
        }
        Some(tagged)
    }
}
