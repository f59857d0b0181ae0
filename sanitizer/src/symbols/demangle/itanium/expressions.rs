//! Expressions, which arguments of templates and types may have (Itanium C++ ABI, 5.1.6).

use super::float::float;
use super::node::{Form, Id, Node};
use super::operators::{Kind, Operator, Precedence};
use super::parser::Parser;

/// Types whose values have a suffix, or stand behind the type, by their letters.
const INTEGERS: [(&str, &str); 14] = [
    ("w", "wchar_t"),
    ("c", "char"),
    ("a", "signed char"),
    ("h", "unsigned char"),
    ("s", "short"),
    ("t", "unsigned short"),
    ("i", ""),
    ("j", "u"),
    ("l", "l"),
    ("m", "ul"),
    ("x", "ll"),
    ("y", "ull"),
    ("n", "__int128"),
    ("o", "unsigned __int128"),
];

impl<'a> Parser<'a> {
    /// An expression.
    pub(super) fn expression(&mut self) -> Option<Id> {
        self.deeper(Self::expression_within)
    }

    fn operation(&mut self, form: Form, precedence: Precedence) -> Id {
        self.add(Node::Operation(form, precedence))
    }

    fn expression_within(&mut self) -> Option<Id> {
        let is_global = self.take("gs");
        if let Some(operator) = self.operator() {
            return self.of_operator(operator, is_global);
        }
        match (self.look(0), self.look(1)) {
            (b'L', _) => return self.literal(),
            (b'T', _) => return self.parameter(),
            (b'f', b'p') => return self.function_parameter(),
            (b'f', b'L') if self.look(2).is_ascii_digit() => return self.function_parameter(),
            (b'f', _) => return self.fold(),
            (b'r', b'q' | b'Q') => return self.requires(),
            _ => {}
        }
        if self.take("il") {
            let values = self.until("E", Self::initializer)?;
            return Some(self.add(Node::Initializer(None, values)));
        }
        if self.take("tl") {
            let kind = self.kind()?;
            let values = self.until("E", Self::initializer)?;
            return Some(self.add(Node::Initializer(Some(kind), values)));
        }
        if self.take("mc") {
            let kind = self.kind()?;
            let value = self.expression()?;
            self.number();
            let form = Form::Conversion(kind, vec![value]);
            return self
                .take("E")
                .then(|| self.operation(form, Precedence::Unary));
        }
        if self.take("nx") {
            let of = self.expression()?;
            let form = Form::Enclosing("noexcept ", of);
            return Some(self.operation(form, Precedence::Unary));
        }
        if self.take("so") {
            return self.part();
        }
        if self.take("sp") {
            let pattern = self.expression()?;
            return Some(self.add(Node::Expansion(pattern)));
        }
        if self.take("sZ") {
            if self.starts("T") {
                let pack = self.parameter()?;
                return Some(self.add(Node::SizeOfPack(pack)));
            }
            let parameter = self.function_parameter()?;
            let form = Form::Enclosing("sizeof... ", parameter);
            return Some(self.operation(form, Precedence::Primary));
        }
        if self.take("sP") {
            let arguments = self.until("E", Self::argument)?;
            let list = self.add(Node::List(arguments));
            let form = Form::Enclosing("sizeof... ", list);
            return Some(self.operation(form, Precedence::Primary));
        }
        if self.take("tr") {
            return Some(self.text("throw"));
        }
        if self.take("tw") {
            let what = self.expression()?;
            return Some(self.add(Node::Prefixed("throw ", what)));
        }
        if self.take("u") {
            let name = self.source()?;
            let arguments = self.until("E", Self::argument)?;
            let form = Form::Call(name, arguments, false);
            return Some(self.operation(form, Precedence::Postfix));
        }
        self.unresolved(is_global)
    }

    fn of_operator(&mut self, operator: &'static Operator, is_global: bool) -> Option<Id> {
        let symbol = operator.symbol();
        let form = match operator.kind {
            Kind::Infix => Form::Infix(self.expression()?, symbol, self.expression()?),
            Kind::Prefix => Form::Prefix(symbol, self.expression()?),
            Kind::Postfix if self.take("_") => Form::Prefix(symbol, self.expression()?),
            Kind::Postfix => Form::Postfix(self.expression()?, symbol),
            Kind::Subscript => Form::Subscript(self.expression()?, self.expression()?),
            Kind::Member { .. } => Form::Member(self.expression()?, symbol, self.expression()?),
            Kind::New { is_array } => {
                let placement = self.until("_", Self::expression)?;
                let of = self.kind()?;
                let with = if self.take("pi") {
                    self.until("E", Self::expression)?
                } else if self.take("E") {
                    Vec::new()
                } else {
                    return None;
                };
                Form::New {
                    is_global,
                    is_array,
                    placement,
                    of,
                    with,
                }
            }
            Kind::Delete { is_array } => Form::Delete {
                is_global,
                is_array,
                what: self.expression()?,
            },
            Kind::Call { is_bare } => {
                let called = self.expression()?;
                Form::Call(called, self.until("E", Self::expression)?, is_bare)
            }
            Kind::Conversion => {
                let left = std::mem::replace(&mut self.leaves_arguments, true);
                let kind = self.kind();
                self.leaves_arguments = left;
                let values = if self.take("_") {
                    self.until("E", Self::expression)?
                } else {
                    vec![self.expression()?]
                };
                Form::Conversion(kind?, values)
            }
            Kind::Conditional => {
                Form::Conditional([self.expression()?, self.expression()?, self.expression()?])
            }
            Kind::Cast => Form::Cast(symbol, self.kind()?, self.expression()?),
            Kind::Of { is_type: true } => Form::Enclosing(symbol, self.kind()?),
            Kind::Of { is_type: false } => Form::Enclosing(symbol, self.expression()?),
            Kind::NameOnly => return None,
        };
        Some(self.operation(form, operator.precedence))
    }

    /// A value.
    pub(super) fn literal(&mut self) -> Option<Id> {
        self.deeper(Self::literal_within)
    }

    fn literal_within(&mut self) -> Option<Id> {
        self.take("L");
        for (code, words) in [
            ("b0E", "false"),
            ("b1E", "true"),
            ("DnE", "nullptr"),
            ("Dn0E", "nullptr"),
        ] {
            if self.take(code) {
                return Some(self.text(words));
            }
        }
        if self.take("_Z") {
            let function = self.encoding()?;
            return self.take("E").then_some(function);
        }
        let (first, second) = (self.look(0), self.look(1));
        if matches!(first, b'f' | b'd')
            && (second.is_ascii_digit() || (b'a'..=b'f').contains(&second))
        {
            self.skip(1);
            let (value, len) = float(first == b'f', self.rest)?;
            self.skip(len);
            return self.take("E").then(|| self.add(Node::Float(value)));
        }
        if self.starts("A") {
            let kind = self.kind()?;
            return self.take("E").then(|| self.add(Node::Literal(kind)));
        }
        if self.starts("Ul") {
            let closure = self.nameless(false)?;
            return self.take("E").then(|| self.add(Node::Lambda(closure)));
        }
        if matches!(first, b'T' | b'U' | b'b' | b'D') {
            return None;
        }
        let integer = INTEGERS.iter().find(|(code, _)| self.starts(code));
        if let Some((code, kind)) = integer {
            self.skip(code.len());
            let value = self.number();
            if value.is_empty() || !self.take("E") {
                return None;
            }
            return Some(self.add(Node::Integer { kind, value }));
        }
        let kind = self.kind()?;
        let value = self.number();
        if value.is_empty() || !self.take("E") {
            return None;
        }
        Some(self.add(Node::Value(kind, value)))
    }

    fn function_parameter(&mut self) -> Option<Id> {
        if self.take("fpT") {
            return Some(self.text("this"));
        }
        if self.take("fL") {
            self.digits();
            if !self.take("p") {
                return None;
            }
        } else if !self.take("fp") {
            return None;
        }
        self.qualifiers();
        let number = self.digits();
        self.take("_").then(|| self.add(Node::Parameter(number)))
    }

    fn fold(&mut self) -> Option<Id> {
        let (is_left, has_other) = match self.look(1) {
            b'L' => (true, true),
            b'R' => (false, true),
            b'l' => (true, false),
            b'r' => (false, false),
            _ => return None,
        };
        self.skip(2);
        let operator = self.operator()?;
        let is_member =
            matches!(operator.kind, Kind::Member { .. }) && operator.name.ends_with('*');
        if operator.kind != Kind::Infix && !is_member {
            return None;
        }
        let mut pack = self.expression()?;
        let mut other = None;
        if has_other {
            let second = self.expression()?;
            other = Some(second);
            if is_left {
                (pack, other) = (second, Some(pack));
            }
        }
        Some(self.add(Node::Fold {
            operator: operator.symbol(),
            pack,
            other,
            is_left,
        }))
    }

    /// A value in braces.
    fn initializer(&mut self) -> Option<Id> {
        self.deeper(|parser| {
            let is_member = parser.starts("di");
            let (what, last) = if parser.take("di") {
                (parser.source()?, None)
            } else if parser.take("dx") {
                (parser.expression()?, None)
            } else if parser.take("dX") {
                (parser.expression()?, Some(parser.expression()?))
            } else {
                return parser.expression();
            };
            let value = parser.initializer()?;
            Some(parser.add(Node::Designated {
                what,
                last,
                value,
                is_member,
            }))
        })
    }

    fn part(&mut self) -> Option<Id> {
        let kind = self.kind()?;
        let object = self.expression()?;
        let offset = self.number();
        while self.take("_") {
            self.digits();
        }
        self.take("p");
        self.take("E").then(|| {
            self.add(Node::Part {
                object,
                kind,
                offset,
            })
        })
    }

    fn requires(&mut self) -> Option<Id> {
        let parameters = if self.take("rQ") {
            self.until("_", Self::kind)?
        } else {
            self.skip(2);
            Vec::new()
        };
        let mut requirements = Vec::new();
        loop {
            let requirement = if self.take("X") {
                let expression = self.expression()?;
                let is_noexcept = self.take("N");
                let kind = if self.take("R") {
                    Some(self.name(None)?)
                } else {
                    None
                };
                Node::Requirement {
                    expression,
                    is_noexcept,
                    kind,
                }
            } else {
                let (words, what) = if self.take("T") {
                    (" typename ", self.kind()?)
                } else if self.take("Q") {
                    (" requires ", self.expression()?)
                } else {
                    return None;
                };
                let ended = self.add(Node::Suffixed(what, ";"));
                Node::Prefixed(words, ended)
            };
            requirements.push(self.add(requirement));
            if self.take("E") {
                return Some(self.add(Node::Requires(parameters, requirements)));
            }
        }
    }
}
