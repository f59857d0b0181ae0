//! Names in expressions that depend on parameters of templates.

use super::node::{Id, Node};
use super::parser::Parser;

impl Parser<'_> {
    /// A name that depends on parameters.
    pub(super) fn unresolved(&mut self, is_global: bool) -> Option<Id> {
        if self.take("srN") {
            let mut so_far = self.unresolved_type()?;
            so_far = self.instance(so_far)?;
            while !self.take("E") {
                let next = self.simple()?;
                so_far = self.add(Node::Joined(so_far, "::", next));
            }
            let last = self.base()?;
            return Some(self.add(Node::Joined(so_far, "::", last)));
        }
        if !self.take("sr") {
            let base = self.base()?;
            return Some(if is_global {
                self.add(Node::Prefixed("::", base))
            } else {
                base
            });
        }
        let so_far = if self.look(0).is_ascii_digit() {
            let mut so_far = self.simple()?;
            if is_global {
                so_far = self.add(Node::Prefixed("::", so_far));
            }
            while !self.take("E") {
                let next = self.simple()?;
                so_far = self.add(Node::Joined(so_far, "::", next));
            }
            so_far
        } else {
            let kind = self.unresolved_type()?;
            self.instance(kind)?
        };
        let last = self.base()?;
        Some(self.add(Node::Joined(so_far, "::", last)))
    }

    /// A name with the arguments that may follow.
    fn instance(&mut self, name: Id) -> Option<Id> {
        if !self.starts("I") {
            return Some(name);
        }
        let arguments = self.arguments(false)?;
        Some(self.add(Node::Instance(name, arguments)))
    }

    fn simple(&mut self) -> Option<Id> {
        let name = self.source()?;
        self.instance(name)
    }

    fn unresolved_type(&mut self) -> Option<Id> {
        let kind = match self.look(0) {
            b'T' => self.parameter()?,
            b'D' => self.decltype()?,
            _ => return self.substitution(),
        };
        self.seen.push(kind);
        Some(kind)
    }

    fn base(&mut self) -> Option<Id> {
        if self.look(0).is_ascii_digit() {
            return self.simple();
        }
        if self.take("dn") {
            let of = if self.look(0).is_ascii_digit() {
                self.simple()?
            } else {
                self.unresolved_type()?
            };
            return Some(self.add(Node::Prefixed("~", of)));
        }
        self.take("on");
        let name = self.operator_name(None)?;
        self.instance(name)
    }
}
