//! Writing the halves of types and names.

use std::fmt::{self, Write as _};

use super::node::{Declaration, Id, Node, Qualifiers, Trailer};
use super::print::{DEEPEST, Printer};

impl Printer<'_, '_> {
    /// Writes what stands before a name.
    pub(super) fn left(&mut self, id: Id) -> fmt::Result {
        if self.depth == DEEPEST {
            return Err(fmt::Error);
        }
        self.depth += 1;
        self.out.visit()?;
        self.left_of(id)?;
        self.depth -= 1;
        Ok(())
    }

    fn left_of(&mut self, id: Id) -> fmt::Result {
        match self.node(id) {
            Node::Text(text) => self.write(text),
            Node::Prefixed(words, of) => {
                self.write(words)?;
                self.all(*of)
            }
            Node::Suffixed(of, words) => {
                self.left(*of)?;
                self.write(words)
            }
            Node::Vendor(of, suffix, arguments) => {
                self.all(*of)?;
                self.write(" ")?;
                self.write(suffix)?;
                arguments.map_or(Ok(()), |arguments| self.all(arguments))
            }
            Node::Transformed(name, of) => {
                self.write(name)?;
                self.write("(")?;
                self.all(*of)?;
                self.write(")")
            }
            Node::Joined(first, words, second) => {
                self.all(*first)?;
                self.write(words)?;
                self.all(*second)
            }
            Node::Local(function, entity) => {
                self.all(*function)?;
                self.write("::")?;
                self.all(*entity)
            }
            Node::Module {
                of,
                is_partition,
                name,
            } => {
                of.map_or(Ok(()), |of| self.all(of))?;
                self.write(match (of, is_partition) {
                    (_, true) => ":",
                    (Some(_), false) => ".",
                    (None, false) => "",
                })?;
                self.all(*name)
            }
            Node::Tagged(of, tag) => {
                self.left(*of)?;
                self.write("[abi:")?;
                self.write(tag)?;
                self.write("]")
            }
            Node::Standard(standard, false) => {
                self.write("std::")?;
                self.write(standard.short)
            }
            Node::Standard(standard, true) => {
                self.write("std::")?;
                self.write(standard.template)?;
                self.write(standard.arguments)
            }
            Node::Structor { of, is_destructor } => {
                self.write(if *is_destructor { "~" } else { "" })?;
                let name = self.base_name(*of);
                self.write(name)
            }
            Node::Unnamed(number) => {
                self.write("'unnamed")?;
                self.write(number)?;
                self.write("'")
            }
            Node::Closure { number, .. } => {
                self.write("'lambda")?;
                self.write(number)?;
                self.write("'")?;
                self.declarator(id)
            }
            Node::Bindings(names) => {
                self.open('[')?;
                self.list(names)?;
                self.close(']')
            }
            Node::Instance(name, arguments) => {
                self.all(*name)?;
                self.all(*arguments)
            }
            Node::Arguments(arguments) => self.in_arguments(|printer| {
                printer.write("<")?;
                printer.list(arguments)?;
                printer.write(">")
            }),
            Node::List(list) => self.list(list),
            Node::Pack(pack) => self.current(pack).map_or(Ok(()), |one| self.left(one)),
            Node::Expansion(pattern) => self.expansion(*pattern),
            Node::Forward(_, Some(to)) => self.once(id, Ok(()), |printer| printer.left(*to)),
            Node::Forward(_, None) => Err(fmt::Error),
            Node::Declared { before, .. } => self.declaration(before),
            Node::DeclaredPack(parameter) => {
                self.left(*parameter)?;
                self.write("...")
            }
            Node::Invented(name, number) => {
                self.write(name)?;
                match number.checked_sub(1) {
                    Some(number) => self.write(&number.to_string()),
                    None => Ok(()),
                }
            }
            Node::Qualified(of, qualifiers) => {
                self.left(*of)?;
                self.qualifiers(*qualifiers)
            }
            Node::Pointer(of) => {
                self.left(*of)?;
                self.before_symbol(*of)?;
                self.write("*")
            }
            Node::Reference(of, is_rvalue) => self.once(id, Ok(()), |printer| {
                let Some((of, is_rvalue)) = printer.collapsed(*of, *is_rvalue) else {
                    return Ok(());
                };
                printer.left(of)?;
                printer.before_symbol(of)?;
                printer.write(if is_rvalue { "&&" } else { "&" })
            }),
            Node::MemberPointer(class, of) => {
                self.left(*of)?;
                let is_nested = self.is_array(*of) || self.is_function(*of);
                self.write(if is_nested { "(" } else { " " })?;
                self.all(*class)?;
                self.write("::*")
            }
            Node::Array(of, _) => self.left(*of),
            Node::Vector(of, length) => {
                self.all(*of)?;
                self.write(" vector[")?;
                length.map_or(Ok(()), |length| self.all(length))?;
                self.write("]")
            }
            Node::Function(result, ..) => {
                self.left(*result)?;
                self.write(" ")
            }
            Node::Encoding { result, name, .. } => {
                if let Some(result) = *result {
                    self.left(result)?;
                    if !self.has_right(result) {
                        self.write(" ")?;
                    }
                }
                self.all(*name)
            }
            Node::Bracketed(words, parts, [open, close]) => {
                self.write(words)?;
                if *open != '\0' {
                    self.open(*open)?;
                }
                self.list(parts)?;
                if *open == '\0' {
                    return self.out.write_char(*close);
                }
                self.close(*close)
            }
            Node::Clone(of, suffix) => {
                self.all(*of)?;
                self.write(" (")?;
                self.write(suffix)?;
                self.write(")")
            }
            _ => self.expression(id),
        }
    }

    /// Writes what stands between a type and the sign of a pointer to it.
    fn before_symbol(&mut self, of: Id) -> fmt::Result {
        if self.is_array(of) {
            return self.write(" (");
        }
        if self.is_function(of) {
            return self.write("(");
        }
        Ok(())
    }

    fn after_symbol(&mut self, of: Id) -> fmt::Result {
        if self.is_array(of) || self.is_function(of) {
            self.write(")")?;
        }
        self.right(of)
    }

    /// Writes what stands behind a name.
    pub(super) fn right(&mut self, id: Id) -> fmt::Result {
        if self.depth == DEEPEST {
            return Err(fmt::Error);
        }
        self.depth += 1;
        self.out.visit()?;
        self.right_of(id)?;
        self.depth -= 1;
        Ok(())
    }

    fn right_of(&mut self, id: Id) -> fmt::Result {
        match self.node(id) {
            Node::Qualified(of, _) => self.right(*of),
            Node::Pointer(of) | Node::MemberPointer(_, of) => self.after_symbol(*of),
            Node::Reference(of, is_rvalue) => self.once(id, Ok(()), |printer| {
                match printer.collapsed(*of, *is_rvalue) {
                    Some((of, _)) => printer.after_symbol(of),
                    None => Ok(()),
                }
            }),
            Node::Array(of, length) => {
                let is_next = self.out.text.ends_with(']');
                self.write(if is_next { "[" } else { " [" })?;
                length.map_or(Ok(()), |length| self.all(length))?;
                self.write("]")?;
                self.right(*of)
            }
            Node::Function(result, parameters, trailer) => {
                self.enclosed(parameters)?;
                self.right(*result)?;
                self.trailer(trailer)
            }
            Node::Encoding {
                result,
                parameters,
                trailer,
                ..
            } => {
                self.enclosed(parameters)?;
                result.map_or(Ok(()), |result| self.right(result))?;
                self.trailer(trailer)
            }
            Node::Forward(_, Some(to)) => self.once(id, Ok(()), |printer| printer.right(*to)),
            Node::Pack(pack) => self.current(pack).map_or(Ok(()), |one| self.right(one)),
            Node::DeclaredPack(parameter) => self.right(*parameter),
            Node::Declared {
                before,
                name,
                requires,
            } => {
                self.all(*name)?;
                if let Declaration::Value(kind) = before {
                    self.right(*kind)?;
                }
                self.required(*requires)
            }
            _ => Ok(()),
        }
    }

    fn qualifiers(&mut self, qualifiers: Qualifiers) -> fmt::Result {
        for (is_there, words) in [
            (qualifiers.is_const, " const"),
            (qualifiers.is_volatile, " volatile"),
            (qualifiers.is_restrict, " restrict"),
        ] {
            if is_there {
                self.write(words)?;
            }
        }
        Ok(())
    }

    fn trailer(&mut self, trailer: &Trailer) -> fmt::Result {
        self.qualifiers(trailer.qualifiers)?;
        self.write(trailer.reference)?;
        trailer.more.map_or(Ok(()), |more| self.all(more))?;
        self.required(trailer.requires)
    }

    pub(super) fn required(&mut self, requires: Option<Id>) -> fmt::Result {
        let Some(requires) = requires else {
            return Ok(());
        };
        self.write(" requires ")?;
        self.all(requires)
    }

    fn declaration(&mut self, before: &Declaration) -> fmt::Result {
        match before {
            Declaration::Type => self.write("typename "),
            Declaration::Constrained(constraint) => {
                self.all(*constraint)?;
                self.write(" ")
            }
            Declaration::Value(kind) => {
                self.left(*kind)?;
                let is_spaced = !self.has_right(*kind);
                self.write(if is_spaced { " " } else { "" })
            }
            Declaration::Template(parameters) => self.in_arguments(|printer| {
                printer.write("template<")?;
                printer.list(parameters)?;
                printer.write("> typename ")
            }),
        }
    }
}
