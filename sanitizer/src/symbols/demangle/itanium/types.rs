//! Types (Itanium C++ ABI, 5.1.5).

use super::node::{Id, Node, Trailer};
use super::parser::Parser;

/// Types with a letter.
const BUILT_IN: [(u8, &str); 21] = [
    (b'v', "void"),
    (b'w', "wchar_t"),
    (b'b', "bool"),
    (b'c', "char"),
    (b'a', "signed char"),
    (b'h', "unsigned char"),
    (b's', "short"),
    (b't', "unsigned short"),
    (b'i', "int"),
    (b'j', "unsigned int"),
    (b'l', "long"),
    (b'm', "unsigned long"),
    (b'x', "long long"),
    (b'y', "unsigned long long"),
    (b'n', "__int128"),
    (b'o', "unsigned __int128"),
    (b'f', "float"),
    (b'd', "double"),
    (b'e', "long double"),
    (b'g', "__float128"),
    (b'z', "..."),
];
/// Those with a letter behind `D`.
const BUILT_IN_LATER: [(u8, &str); 10] = [
    (b'd', "decimal64"),
    (b'e', "decimal128"),
    (b'f', "decimal32"),
    (b'h', "half"),
    (b'i', "char32_t"),
    (b's', "char16_t"),
    (b'u', "char8_t"),
    (b'a', "auto"),
    (b'c', "decltype(auto)"),
    (b'n', "std::nullptr_t"),
];
/// Words that name what a type is.
const ELABORATED: [(&str, &str); 3] = [("Ts", "struct "), ("Tu", "union "), ("Te", "enum ")];

impl<'a> Parser<'a> {
    /// A type.
    pub(super) fn kind(&mut self) -> Option<Id> {
        self.deeper(Self::kind_within)
    }

    fn kind_within(&mut self) -> Option<Id> {
        let (first, second) = (self.look(0), self.look(1));
        let of = |table: &[(u8, &'static str)], letter| {
            let found = table.iter().find(|(of, _)| *of == letter);
            found.map(|(_, name)| *name)
        };
        if let Some(name) = of(&BUILT_IN, first) {
            self.skip(1);
            return Some(self.text(name));
        }
        if let Some(name) = of(&BUILT_IN_LATER, second).filter(|_| first == b'D') {
            self.skip(2);
            return Some(self.text(name));
        }
        let kind = match first {
            b'r' | b'V' | b'K' if self.qualifies_function() => self.function()?,
            b'r' | b'V' | b'K' | b'U' => self.qualified()?,
            b'F' => self.function()?,
            b'A' => self.array()?,
            b'M' => {
                self.skip(1);
                let class = self.kind()?;
                let member = self.kind()?;
                self.add(Node::MemberPointer(class, member))
            }
            b'P' => self.wrapped(Node::Pointer)?,
            b'R' => self.wrapped(|of| Node::Reference(of, false))?,
            b'O' => self.wrapped(|of| Node::Reference(of, true))?,
            b'C' => self.wrapped(|of| Node::Suffixed(of, " complex"))?,
            b'G' => self.wrapped(|of| Node::Suffixed(of, " imaginary"))?,
            b'u' => self.vendor()?,
            b'T' if !matches!(second, b's' | b'u' | b'e') => {
                let parameter = self.parameter()?;
                if self.starts("I") && !self.leaves_arguments {
                    self.seen.push(parameter);
                    let arguments = self.arguments(false)?;
                    self.add(Node::Instance(parameter, arguments))
                } else {
                    parameter
                }
            }
            b'S' if second != b't' => {
                let (name, was_seen) = self.unscoped(None, true)?;
                if self.starts("I") && !(was_seen && self.leaves_arguments) {
                    if !was_seen {
                        self.seen.push(name);
                    }
                    let arguments = self.arguments(false)?;
                    self.add(Node::Instance(name, arguments))
                } else if was_seen {
                    return Some(name);
                } else {
                    name
                }
            }
            b'D' => match second {
                b'k' | b'K' => {
                    self.skip(2);
                    let constraint = self.name(None)?;
                    let words = if second == b'k' {
                        " auto"
                    } else {
                        " decltype(auto)"
                    };
                    return Some(self.add(Node::Suffixed(constraint, words)));
                }
                b'F' => return self.floating(),
                b't' | b'T' => self.decltype()?,
                b'v' => self.vector()?,
                b'p' => {
                    self.skip(2);
                    let pattern = self.kind()?;
                    self.add(Node::Expansion(pattern))
                }
                b'B' | b'U' => self.of_bits()?,
                b'o' | b'O' | b'w' | b'x' => self.function()?,
                _ => return None,
            },
            _ => {
                let words = ELABORATED.iter().find(|(code, _)| self.take(code));
                let name = self.name(None)?;
                match words {
                    Some((_, words)) => self.add(Node::Prefixed(words, name)),
                    None => name,
                }
            }
        };
        self.seen.push(kind);
        Some(kind)
    }

    /// A type behind a letter.
    fn wrapped(&mut self, wrap: impl FnOnce(Id) -> Node<'a>) -> Option<Id> {
        self.skip(1);
        let of = self.kind()?;
        Some(self.add(wrap(of)))
    }

    /// Whether the qualifiers here are those of a member function's type.
    fn qualifies_function(&self) -> bool {
        let mut at = 0;
        for letter in *b"rVK" {
            at += usize::from(self.look(at) == letter);
        }
        self.look(at) == b'F'
            || self.look(at) == b'D' && matches!(self.look(at + 1), b'o' | b'O' | b'w' | b'x')
    }

    fn qualified(&mut self) -> Option<Id> {
        if self.take("U") {
            let suffix = self.counted()?;
            let arguments = if self.starts("I") {
                Some(self.arguments(false)?)
            } else {
                None
            };
            let of = self.deeper(Self::qualified)?;
            return Some(self.add(Node::Vendor(of, suffix, arguments)));
        }
        let qualifiers = self.qualifiers();
        let of = self.kind()?;
        if qualifiers.is_none() {
            return Some(of);
        }
        Some(self.add(Node::Qualified(of, qualifiers)))
    }

    fn function(&mut self) -> Option<Id> {
        let mut trailer = Trailer {
            qualifiers: self.qualifiers(),
            ..Trailer::default()
        };
        if self.take("Do") {
            trailer.more = Some(self.text(" noexcept"));
        } else if self.take("DO") {
            let condition = self.expression()?;
            if !self.take("E") {
                return None;
            }
            let noexcept = Node::Bracketed(" noexcept", vec![condition], ['(', ')']);
            trailer.more = Some(self.add(noexcept));
        } else if self.take("Dw") {
            let thrown = self.until("E", Self::kind)?;
            trailer.more = Some(self.add(Node::Bracketed(" throw", thrown, ['(', ')'])));
        }
        // Safe for transactions.
        self.take("Dx");
        if !self.take("F") {
            return None;
        }
        // Of C.
        self.take("Y");
        let result = self.kind()?;
        let mut parameters = Vec::new();
        while !self.take("E") {
            if self.take("v") {
                continue;
            }
            if self.take("RE") {
                trailer.reference = " &";
                break;
            }
            if self.take("OE") {
                trailer.reference = " &&";
                break;
            }
            parameters.push(self.kind()?);
        }
        Some(self.add(Node::Function(result, parameters, trailer)))
    }

    fn array(&mut self) -> Option<Id> {
        self.skip(1);
        let length = self.length()?;
        let of = self.kind()?;
        Some(self.add(Node::Array(of, length)))
    }

    /// A length, or none, up to `_`.
    fn length(&mut self) -> Option<Option<Id>> {
        if self.take("_") {
            return Some(None);
        }
        let length = if self.look(0).is_ascii_digit() {
            let digits = self.digits();
            self.text(digits)
        } else {
            self.expression()?
        };
        self.take("_").then_some(Some(length))
    }

    fn vector(&mut self) -> Option<Id> {
        self.skip(2);
        let length = self.length()?;
        if length.is_some() && self.take("p") {
            let pixel = self.text("pixel");
            return Some(self.add(Node::Vector(pixel, length)));
        }
        let of = self.kind()?;
        Some(self.add(Node::Vector(of, length)))
    }

    pub(super) fn decltype(&mut self) -> Option<Id> {
        self.skip(2);
        let expression = self.expression()?;
        if !self.take("E") {
            return None;
        }
        Some(self.add(Node::Bracketed("decltype", vec![expression], ['(', ')'])))
    }

    fn floating(&mut self) -> Option<Id> {
        self.skip(2);
        if self.take("16b") {
            return Some(self.text("std::bfloat16_t"));
        }
        let digits = self.digits();
        let bits = self.text(digits);
        self.take("_")
            .then(|| self.add(Node::Prefixed("_Float", bits)))
    }

    fn of_bits(&mut self) -> Option<Id> {
        let words = match self.look(1) {
            b'B' => "_BitInt",
            _ => "unsigned _BitInt",
        };
        self.skip(2);
        let bits = self.length()??;
        Some(self.add(Node::Bracketed(words, vec![bits], ['(', ')'])))
    }

    fn vendor(&mut self) -> Option<Id> {
        self.skip(1);
        let name = self.counted()?;
        if self.take("I") {
            let of = self.kind()?;
            return self
                .take("E")
                .then(|| self.add(Node::Transformed(name, of)));
        }
        Some(self.text(name))
    }
}
