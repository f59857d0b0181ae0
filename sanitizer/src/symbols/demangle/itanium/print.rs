//! Writing a name: a type is written in two halves, what stands before the name that it is of and what stands behind.

use std::fmt::{self, Write as _};

use super::super::Bounded;
use super::node::{Id, Node};
use super::operators::Precedence;

/// How deep what is written may nest: parts are referred to again, so that it may be deeper than what was read.
pub(super) const DEEPEST: u32 = 200;
/// How many references there may be to references.
const REFERENCES: u32 = 64;

pub(super) struct Printer<'t, 'a> {
    pub(super) nodes: &'t [Node<'a>],
    pub(super) out: &'t mut Bounded,
    /// Which parts are being written: some contain themselves.
    pub(super) busy: Vec<bool>,
    /// Which one of a pack is written, and of how many.
    pub(super) pack: Option<(usize, usize)>,
    /// Within arguments of a template, where `>` needs parentheses unless there are some.
    pub(super) is_in_arguments: bool,
    pub(super) parentheses: u32,
    pub(super) depth: u32,
}

impl<'t, 'a> Printer<'t, 'a> {
    pub(super) fn node(&self, id: Id) -> &'t Node<'a> {
        &self.nodes[id.0]
    }

    pub(super) fn write(&mut self, text: &str) -> fmt::Result {
        self.out.write_str(text)
    }

    pub(super) fn open(&mut self, bracket: char) -> fmt::Result {
        self.parentheses += u32::from(self.is_in_arguments);
        self.out.write_char(bracket)
    }

    pub(super) fn close(&mut self, bracket: char) -> fmt::Result {
        if self.is_in_arguments {
            self.parentheses = self.parentheses.saturating_sub(1);
        }
        self.out.write_char(bracket)
    }

    /// Writes some parts in parentheses.
    pub(super) fn enclosed(&mut self, parts: &[Id]) -> fmt::Result {
        self.open('(')?;
        self.list(parts)?;
        self.close(')')
    }

    /// Writes all of a part.
    pub(super) fn all(&mut self, id: Id) -> fmt::Result {
        self.left(id)?;
        self.right(id)
    }

    /// Writes one as part of an expression, in parentheses where it holds together no better than `than`; or not even so well.
    pub(super) fn operand(&mut self, id: Id, than: Precedence, if_worse: bool) -> fmt::Result {
        let precedence = match self.node(id) {
            Node::Operation(_, precedence) => *precedence,
            _ => Precedence::Primary,
        };
        if precedence > than || precedence == than && !if_worse {
            self.open('(')?;
            self.all(id)?;
            return self.close(')');
        }
        self.all(id)
    }

    /// Writes parts with commas; those of which nothing is to be written have none.
    pub(super) fn list(&mut self, parts: &[Id]) -> fmt::Result {
        let mut is_first = true;
        for &part in parts {
            let before = self.out.text.len();
            if !is_first {
                self.write(", ")?;
            }
            let begins = self.out.text.len();
            self.operand(part, Precedence::Comma, false)?;
            if self.out.text.len() == begins {
                self.out.text.truncate(before);
                continue;
            }
            is_first = false;
        }
        Ok(())
    }

    /// Writes parts as arguments of a template.
    pub(super) fn in_arguments(
        &mut self,
        write: impl FnOnce(&mut Self) -> fmt::Result,
    ) -> fmt::Result {
        let before = std::mem::replace(&mut self.is_in_arguments, true);
        write(self)?;
        self.is_in_arguments = before;
        Ok(())
    }

    /// The one of a pack that is written now.
    pub(super) fn current(&mut self, pack: &[Id]) -> Option<Id> {
        let (index, _) = *self.pack.get_or_insert((0, pack.len()));
        pack.get(index).copied()
    }

    /// Does something with what a part stands for, unless that is being done already.
    pub(super) fn once<T>(&mut self, id: Id, busy: T, act: impl FnOnce(&mut Self) -> T) -> T {
        if std::mem::replace(&mut self.busy[id.0], true) {
            return busy;
        }
        let done = act(self);
        self.busy[id.0] = false;
        done
    }

    /// Whether a part, as the type of something, has what `wanted` asks for.
    fn is_a(&mut self, id: Id, wanted: fn(&Node<'_>) -> bool) -> bool {
        match self.node(id) {
            node if wanted(node) => true,
            Node::Qualified(of, _) | Node::Tagged(of, _) => self.is_a(*of, wanted),
            Node::Forward(_, Some(to)) => self.once(id, false, |printer| printer.is_a(*to, wanted)),
            Node::Pack(pack) => self.current(pack).is_some_and(|one| self.is_a(one, wanted)),
            _ => false,
        }
    }

    pub(super) fn is_array(&mut self, id: Id) -> bool {
        self.is_a(id, |node| matches!(node, Node::Array(..)))
    }

    pub(super) fn is_function(&mut self, id: Id) -> bool {
        self.is_a(id, |node| {
            matches!(node, Node::Function(..) | Node::Encoding { .. })
        })
    }

    /// Whether something of a type stands behind the name that it is of.
    pub(super) fn has_right(&mut self, id: Id) -> bool {
        match self.node(id) {
            Node::Pointer(of) | Node::Reference(of, _) | Node::MemberPointer(_, of) => {
                self.has_right(*of)
            }
            Node::Qualified(of, _) | Node::Tagged(of, _) => self.has_right(*of),
            Node::Array(..) | Node::Function(..) | Node::Encoding { .. } => true,
            Node::Declared { .. } | Node::DeclaredPack(_) => true,
            Node::Forward(_, Some(to)) => self.once(id, false, |printer| printer.has_right(*to)),
            Node::Pack(pack) => self.current(pack).is_some_and(|one| self.has_right(one)),
            _ => false,
        }
    }

    /// What a parameter stands for in the end.
    fn meant(&mut self, id: Id) -> Id {
        match self.node(id) {
            Node::Forward(_, Some(to)) => self.once(id, id, |printer| printer.meant(*to)),
            Node::Pack(pack) => match self.current(pack) {
                Some(one) => self.meant(one),
                None => id,
            },
            _ => id,
        }
    }

    /// What a reference to references is, and whether to an rvalue.
    pub(super) fn collapsed(&mut self, of: Id, is_rvalue: bool) -> Option<(Id, bool)> {
        let (mut of, mut is_rvalue) = (of, is_rvalue);
        for _ in 0..REFERENCES {
            let meant = self.meant(of);
            let Node::Reference(to, rvalue) = self.node(meant) else {
                return Some((of, is_rvalue));
            };
            of = *to;
            is_rvalue &= rvalue;
        }
        None
    }

    /// Writes a pattern for each of the pack that is in it.
    pub(super) fn expansion(&mut self, pattern: Id) -> fmt::Result {
        let outer = self.pack.take();
        let begins = self.out.text.len();
        self.all(pattern)?;
        match self.pack {
            None => self.write("...")?,
            Some((_, 0)) => self.out.text.truncate(begins),
            Some((_, count)) => {
                for index in 1..count {
                    self.write(", ")?;
                    self.pack = Some((index, count));
                    self.all(pattern)?;
                }
            }
        }
        self.pack = outer;
        Ok(())
    }

    /// The name without scopes and arguments, which constructors have.
    pub(super) fn base_name(&self, id: Id) -> &'t str {
        match self.node(id) {
            Node::Text(text) => text,
            Node::Joined(name, "@", _) => self.base_name(*name),
            Node::Joined(_, _, name) => self.base_name(*name),
            Node::Tagged(name, _) | Node::Instance(name, _) | Node::Prefixed("::", name) => {
                self.base_name(*name)
            }
            Node::Standard(standard, false) => standard.short,
            Node::Standard(standard, true) => standard.template,
            _ => "",
        }
    }
}
