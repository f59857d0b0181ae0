//! Writing expressions, and what else has no two halves.

use std::fmt;

use super::node::{Form, Id, Node};
use super::operators::Precedence;
use super::print::Printer;

impl Printer<'_, '_> {
    pub(super) fn expression(&mut self, id: Id) -> fmt::Result {
        match self.node(id) {
            Node::Operation(form, precedence) => self.operation(form, *precedence),
            Node::Initializer(kind, values) => {
                if let Some(kind) = *kind {
                    if self.string(kind, values)? {
                        return Ok(());
                    }
                    self.all(kind)?;
                }
                self.write("{")?;
                self.list(values)?;
                self.write("}")
            }
            Node::Designated {
                what,
                last,
                value,
                is_member,
            } => {
                self.write(if *is_member { "." } else { "[" })?;
                self.all(*what)?;
                if let Some(last) = *last {
                    self.write(" ... ")?;
                    self.all(last)?;
                }
                self.write(if *is_member { "" } else { "]" })?;
                if !matches!(self.node(*value), Node::Designated { .. }) {
                    self.write(" = ")?;
                }
                self.all(*value)
            }
            Node::Fold {
                operator,
                pack,
                other,
                is_left,
            } => self.fold(operator, *pack, *other, *is_left),
            Node::SizeOfPack(pack) => {
                self.write("sizeof...")?;
                self.open('(')?;
                self.expansion(*pack)?;
                self.close(')')
            }
            Node::Parameter(number) => {
                self.write("fp")?;
                self.write(number)
            }
            Node::Integer { kind, value } => {
                /// Longer ones are types.
                const SUFFIX: usize = 3;
                if kind.len() > SUFFIX {
                    self.open('(')?;
                    self.write(kind)?;
                    self.close(')')?;
                    return self.number(value);
                }
                self.number(value)?;
                self.write(kind)
            }
            Node::Value(kind, value) => {
                self.enclosed_one(*kind)?;
                self.number(value)
            }
            Node::Float(value) => self.write(value),
            Node::Literal(kind) => {
                self.write("\"<")?;
                self.all(*kind)?;
                self.write(">\"")
            }
            Node::Lambda(closure) => {
                self.write("[]")?;
                self.declarator(*closure)?;
                self.write("{...}")
            }
            Node::Part {
                object,
                kind,
                offset,
            } => {
                self.all(*object)?;
                self.write(".<")?;
                self.all(*kind)?;
                self.write(" at offset ")?;
                self.number(if offset.is_empty() { "0" } else { offset })?;
                self.write(">")
            }
            Node::Requires(parameters, requirements) => {
                self.write("requires")?;
                if !parameters.is_empty() {
                    self.write(" ")?;
                    self.enclosed(parameters)?;
                }
                self.write(" ")?;
                self.open('{')?;
                for requirement in requirements {
                    self.all(*requirement)?;
                }
                self.write(" ")?;
                self.close('}')
            }
            Node::Requirement {
                expression,
                is_noexcept,
                kind,
            } => {
                self.write(" ")?;
                let is_compound = *is_noexcept || kind.is_some();
                if is_compound {
                    self.open('{')?;
                }
                self.all(*expression)?;
                if is_compound {
                    self.close('}')?;
                }
                if *is_noexcept {
                    self.write(" noexcept")?;
                }
                if let Some(kind) = *kind {
                    self.write(" -> ")?;
                    self.all(kind)?;
                }
                self.write(";")
            }
            _ => Ok(()),
        }
    }

    fn enclosed_one(&mut self, part: Id) -> fmt::Result {
        self.open('(')?;
        self.all(part)?;
        self.close(')')
    }

    /// Writes a number that is negative with an `n` before it.
    fn number(&mut self, value: &str) -> fmt::Result {
        match value.strip_prefix('n') {
            Some(value) => {
                self.write("-")?;
                self.write(value)
            }
            None => self.write(value),
        }
    }

    fn operation(&mut self, form: &Form, precedence: Precedence) -> fmt::Result {
        match form {
            Form::Infix(first, symbol, second) => {
                let is_shielded = self.parentheses > 0 || !matches!(*symbol, ">" | ">>");
                if !is_shielded {
                    self.open('(')?;
                }
                let assigns = precedence == Precedence::Assign;
                let of_first = if assigns {
                    Precedence::OrIf
                } else {
                    precedence
                };
                self.operand(*first, of_first, !assigns)?;
                self.write(if *symbol == "," { "" } else { " " })?;
                self.write(symbol)?;
                self.write(" ")?;
                self.operand(*second, precedence, assigns)?;
                if is_shielded { Ok(()) } else { self.close(')') }
            }
            Form::Prefix(symbol, of) => {
                self.write(symbol)?;
                self.operand(*of, precedence, false)
            }
            Form::Postfix(of, symbol) => {
                self.operand(*of, precedence, true)?;
                self.write(symbol)
            }
            Form::Subscript(of, index) => {
                self.operand(*of, precedence, false)?;
                self.open('[')?;
                self.operand(*index, Precedence::Loosest, false)?;
                self.close(']')
            }
            Form::Member(of, symbol, member) => {
                self.operand(*of, precedence, true)?;
                self.write(symbol)?;
                self.operand(*member, precedence, false)
            }
            Form::Conditional([condition, first, second]) => {
                self.operand(*condition, precedence, false)?;
                self.write(" ? ")?;
                self.operand(*first, Precedence::Loosest, false)?;
                self.write(" : ")?;
                self.operand(*second, Precedence::Assign, true)
            }
            Form::Call(called, arguments, is_bare) => {
                if *is_bare {
                    self.enclosed_one(*called)?;
                } else {
                    self.all(*called)?;
                }
                self.enclosed(arguments)
            }
            Form::Conversion(kind, values) => {
                self.enclosed_one(*kind)?;
                self.enclosed(values)
            }
            Form::Cast(name, kind, value) => {
                self.write(name)?;
                self.in_arguments(|printer| {
                    printer.write("<")?;
                    printer.left(*kind)?;
                    printer.write(">")
                })?;
                self.enclosed_one(*value)
            }
            Form::Enclosing(words, of) => {
                self.write(words)?;
                self.enclosed_one(*of)
            }
            Form::New {
                is_global,
                is_array,
                placement,
                of,
                with,
            } => {
                self.write(if *is_global { "::new" } else { "new" })?;
                self.write(if *is_array { "[]" } else { "" })?;
                if !placement.is_empty() {
                    self.enclosed(placement)?;
                }
                self.write(" ")?;
                self.all(*of)?;
                if with.is_empty() {
                    return Ok(());
                }
                self.enclosed(with)
            }
            Form::Delete {
                is_global,
                is_array,
                what,
            } => {
                self.write(if *is_global { "::delete" } else { "delete" })?;
                self.write(if *is_array { "[] " } else { " " })?;
                self.all(*what)
            }
        }
    }

    fn fold(&mut self, operator: &str, pack: Id, other: Option<Id>, is_left: bool) -> fmt::Result {
        let spaced = |printer: &mut Self| {
            printer.write(" ")?;
            printer.write(operator)?;
            printer.write(" ")
        };
        let packed = |printer: &mut Self| {
            printer.open('(')?;
            printer.expansion(pack)?;
            printer.close(')')
        };
        self.open('(')?;
        match (is_left, other) {
            (true, Some(other)) => {
                self.operand(other, Precedence::Cast, true)?;
                spaced(self)?;
            }
            (true, None) => {}
            (false, _) => {
                packed(self)?;
                spaced(self)?;
            }
        }
        self.write("...")?;
        match (is_left, other) {
            (true, _) => {
                spaced(self)?;
                packed(self)?;
            }
            (false, Some(other)) => {
                spaced(self)?;
                self.operand(other, Precedence::Cast, true)?;
            }
            (false, None) => {}
        }
        self.close(')')
    }

    /// Writes what a lambda takes.
    pub(super) fn declarator(&mut self, closure: Id) -> fmt::Result {
        let Node::Closure {
            templates,
            constraints: [first, second],
            parameters,
            ..
        } = self.node(closure)
        else {
            return Ok(());
        };
        if !templates.is_empty() {
            self.in_arguments(|printer| {
                printer.write("<")?;
                printer.list(templates)?;
                printer.write(">")
            })?;
        }
        self.required(*first)?;
        self.write(if first.is_some() { " " } else { "" })?;
        self.enclosed(parameters)?;
        self.required(*second)
    }

    /// Writes an array of characters as a string, if it is one.
    fn string(&mut self, kind: Id, values: &[Id]) -> Result<bool, fmt::Error> {
        let Node::Array(of, _) = self.node(kind) else {
            return Ok(false);
        };
        if !matches!(self.node(*of), Node::Text("char")) {
            return Ok(false);
        }
        let code = |value: &Id| match self.node(*value) {
            Node::Integer { value, .. } => value.parse::<u8>().ok(),
            _ => None,
        };
        let Some(codes) = values.iter().map(code).collect::<Option<Vec<u8>>>() else {
            return Ok(false);
        };
        self.write("\"")?;
        let mut was_number = false;
        for code in codes {
            if was_number && code.is_ascii_hexdigit() {
                // It would be taken for a digit of the number.
                self.write("\"\"")?;
            }
            was_number = false;
            let escape = match code {
                7 => "\\a".to_owned(),
                8 => "\\b".to_owned(),
                9 => "\\t".to_owned(),
                10 => "\\n".to_owned(),
                11 => "\\v".to_owned(),
                12 => "\\f".to_owned(),
                13 => "\\r".to_owned(),
                b'"' => "\\\"".to_owned(),
                b'\\' => "\\\\".to_owned(),
                0..8 => {
                    was_number = true;
                    format!("\\{code}")
                }
                8..32 | 127.. => {
                    was_number = true;
                    format!("\\x{code:X}")
                }
                _ => char::from(code).to_string(),
            };
            self.write(&escape)?;
        }
        self.write("\"")?;
        Ok(true)
    }
}
