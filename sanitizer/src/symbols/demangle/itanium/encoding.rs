//! Functions with their parameters, and what compilers make for types, variables and functions (Itanium C++ ABI, 5.1.1 and 5.1.4).

use super::node::{Id, Node, Trailer};
use super::parser::{Named, Parser};

/// What is made for types, by its code.
const OF_TYPES: [(&str, &str); 4] = [
    ("TV", "vtable for "),
    ("TT", "VTT for "),
    ("TI", "typeinfo for "),
    ("TS", "typeinfo name for "),
];
/// What is made for variables.
const OF_NAMES: [(&str, &str); 3] = [
    ("TW", "thread-local wrapper routine for "),
    ("TH", "thread-local initialization routine for "),
    ("GV", "guard variable for "),
];

impl Parser<'_> {
    /// A function with its parameters, or a variable; or what is made for one.
    pub(super) fn encoding(&mut self) -> Option<Id> {
        let levels = std::mem::take(&mut self.levels);
        let outer = std::mem::take(&mut self.outer);
        let encoding = self.deeper(Self::encoding_within);
        (self.levels, self.outer) = (levels, outer);
        encoding
    }

    fn is_at_end(&self) -> bool {
        matches!(self.look(0), 0 | b'E' | b'.' | b'_')
    }

    fn encoding_within(&mut self) -> Option<Id> {
        if matches!(self.look(0), b'G' | b'T') {
            return self.special();
        }
        let mut named = Named::default();
        let forward = self.forward.len();
        let name = self.name(Some(&mut named))?;
        for id in self.forward.split_off(forward) {
            let Node::Forward(index, None) = *self.node(id) else {
                return None;
            };
            let argument = self.argument_of(0, index)?;
            self.nodes[id.0] = Node::Forward(index, Some(argument));
        }
        if self.is_at_end() {
            return Some(name);
        }
        let mut trailer = Trailer {
            qualifiers: named.qualifiers,
            reference: named.reference,
            ..Trailer::default()
        };
        if self.take("Ua9enable_ifI") {
            let conditions = self.until("E", Self::argument)?;
            let condition = Node::Bracketed(" [enable_if:", conditions, ['\0', ']']);
            trailer.more = Some(self.add(condition));
        }
        let result = if named.is_instance && !named.is_structor {
            Some(self.kind()?)
        } else {
            None
        };
        let mut parameters = Vec::new();
        if !self.take("v") {
            loop {
                let mut parameter = self.kind()?;
                if named.has_object && parameters.is_empty() {
                    parameter = self.add(Node::Prefixed("this ", parameter));
                }
                parameters.push(parameter);
                if self.is_at_end() || self.starts("Q") {
                    break;
                }
            }
        }
        if self.take("Q") {
            trailer.requires = Some(self.constraint()?);
        }
        Some(self.add(Node::Encoding {
            result,
            name,
            parameters,
            trailer,
        }))
    }

    /// What compilers make for types, variables and functions.
    fn special(&mut self) -> Option<Id> {
        if let Some((_, words)) = OF_TYPES.iter().find(|(code, _)| self.starts(code)) {
            self.skip(2);
            let kind = self.kind()?;
            return Some(self.add(Node::Prefixed(words, kind)));
        }
        if let Some((_, words)) = OF_NAMES.iter().find(|(code, _)| self.starts(code)) {
            self.skip(2);
            let name = self.name(None)?;
            return Some(self.add(Node::Prefixed(words, name)));
        }
        if self.take("TA") {
            let argument = self.argument()?;
            return Some(self.add(Node::Prefixed("template parameter object for ", argument)));
        }
        if self.take("TC") {
            let first = self.kind()?;
            if self.number().is_empty() || !self.take("_") {
                return None;
            }
            let second = self.kind()?;
            let both = self.add(Node::Joined(second, "-in-", first));
            return Some(self.add(Node::Prefixed("construction vtable for ", both)));
        }
        if self.take("Tc") {
            self.offset()?;
            self.offset()?;
            let function = self.encoding()?;
            return Some(self.add(Node::Prefixed("covariant return thunk to ", function)));
        }
        if self.take("T") {
            let words = match self.look(0) {
                b'v' => "virtual thunk to ",
                _ => "non-virtual thunk to ",
            };
            self.offset()?;
            let function = self.encoding()?;
            return Some(self.add(Node::Prefixed(words, function)));
        }
        if self.take("GR") {
            let name = self.name(None)?;
            let is_numbered = self.sequence().is_some();
            if !self.take("_") && is_numbered {
                return None;
            }
            return Some(self.add(Node::Prefixed("reference temporary for ", name)));
        }
        if self.take("GI") {
            let module = self.module(None)??;
            return Some(self.add(Node::Prefixed("initializer for module ", module)));
        }
        None
    }

    /// By how much a thunk moves `this`.
    fn offset(&mut self) -> Option<()> {
        let numbers = match self.look(0) {
            b'h' => 1,
            b'v' => 2,
            _ => return None,
        };
        self.skip(1);
        for _ in 0..numbers {
            if self.number().is_empty() || !self.take("_") {
                return None;
            }
        }
        Some(())
    }
}
