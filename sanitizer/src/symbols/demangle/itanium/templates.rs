//! Parameters of templates and their arguments (Itanium C++ ABI, 5.1.5.8 and 5.1.5.9).

use super::node::{Declaration, Id, Node};
use super::parser::{Level, Parser};

impl Parser<'_> {
    /// A number before `_` that counts from nothing: `_` is 0, `0_` is 1.
    fn index(&mut self) -> Option<usize> {
        if self.take("_") {
            return Some(0);
        }
        let index: usize = self.digits().parse().ok()?;
        self.take("_").then(|| index.checked_add(1)).flatten()
    }

    /// `T_` and its kin: a parameter of a template.
    pub(super) fn parameter(&mut self) -> Option<Id> {
        let all = self.rest;
        if !self.take("T") {
            return None;
        }
        let level = if self.take("L") {
            let level: usize = self.digits().parse().ok()?;
            self.take("_").then(|| level.checked_add(1)).flatten()?
        } else {
            0
        };
        let index = self.index()?;
        if self.keeps_parameters {
            let len = all.len() - self.rest.len() - "_".len();
            return Some(self.text(all.get(..len)?));
        }
        if self.may_be_forward && level == 0 {
            let forward = self.add(Node::Forward(index, None));
            self.forward.push(forward);
            return Some(forward);
        }
        let found = self.argument_of(level, index);
        if found.is_none() && self.auto_level == Some(level) && level <= self.levels.len() {
            if level == self.levels.len() {
                self.levels.push(Level::Auto);
            }
            return Some(self.text("auto"));
        }
        found
    }

    pub(super) fn argument_of(&self, level: usize, index: usize) -> Option<Id> {
        let arguments = match self.levels.get(level)? {
            Level::Outer => &self.outer,
            Level::Own(own) => own,
            Level::Auto => return None,
        };
        arguments.get(index).copied()
    }

    pub(super) fn declares_parameter(&self) -> bool {
        self.look(0) == b'T' && matches!(self.look(1), b'y' | b'p' | b't' | b'n' | b'k')
    }

    /// A parameter of a template that is declared; it belongs to a level.
    pub(super) fn declared(&mut self, level: Option<usize>) -> Option<Id> {
        self.deeper(|parser| parser.declared_within(level))
    }

    fn declared_within(&mut self, level: Option<usize>) -> Option<Id> {
        if self.take("Ty") {
            let name = self.invent(level, 0);
            return Some(self.declare(Declaration::Type, name, None));
        }
        if self.take("Tk") {
            let kept = std::mem::replace(&mut self.keeps_parameters, true);
            let constraint = self.name(None);
            self.keeps_parameters = kept;
            let constraint = constraint?;
            let name = self.invent(level, 0);
            return Some(self.declare(Declaration::Constrained(constraint), name, None));
        }
        if self.take("Tn") {
            let name = self.invent(level, 1);
            let kind = self.kind()?;
            return Some(self.declare(Declaration::Value(kind), name, None));
        }
        if self.take("Tt") {
            let name = self.invent(level, 2);
            let own = self.levels.len();
            self.levels.push(Level::Own(Vec::new()));
            let mut requires = None;
            let mut parameters = Vec::new();
            while !self.take("E") {
                parameters.push(self.declared(Some(own))?);
                if self.take("Q") {
                    requires = Some(self.constraint()?);
                    if !self.take("E") {
                        return None;
                    }
                    break;
                }
            }
            self.levels.truncate(own);
            return Some(self.declare(Declaration::Template(parameters), name, requires));
        }
        if self.take("Tp") {
            let parameter = self.declared(level)?;
            return Some(self.add(Node::DeclaredPack(parameter)));
        }
        None
    }

    fn declare(&mut self, before: Declaration, name: Id, requires: Option<Id>) -> Id {
        self.add(Node::Declared {
            before,
            name,
            requires,
        })
    }

    fn invent(&mut self, level: Option<usize>, kind: usize) -> Id {
        const NAMES: [&str; 3] = ["$T", "$N", "$TT"];
        let number = self.invented[kind];
        self.invented[kind] += 1;
        let name = self.add(Node::Invented(NAMES[kind], number));
        if let Some(Level::Own(own)) = level.and_then(|level| self.levels.get_mut(level)) {
            own.push(name);
        }
        name
    }

    pub(super) fn constraint(&mut self) -> Option<Id> {
        let kept = std::mem::replace(&mut self.keeps_parameters, true);
        let constraint = self.expression();
        self.keeps_parameters = kept;
        constraint
    }

    /// Arguments of a template; whether parameters of what comes stand for them.
    pub(super) fn arguments(&mut self, are_outer: bool) -> Option<Id> {
        if !self.take("I") {
            return None;
        }
        if are_outer {
            self.levels = vec![Level::Outer];
            self.outer.clear();
        }
        let mut arguments = Vec::new();
        while !self.take("E") {
            let argument = self.argument()?;
            arguments.push(argument);
            if are_outer {
                let stands_for = match self.node(argument) {
                    Node::List(list) => {
                        let pack = Node::Pack(list.clone());
                        self.add(pack)
                    }
                    _ => argument,
                };
                self.outer.push(stands_for);
            }
            if self.take("Q") {
                self.constraint()?;
                if !self.take("E") {
                    return None;
                }
                break;
            }
        }
        Some(self.add(Node::Arguments(arguments)))
    }

    /// One argument.
    pub(super) fn argument(&mut self) -> Option<Id> {
        self.deeper(Self::argument_within)
    }

    fn argument_within(&mut self) -> Option<Id> {
        if self.take("X") {
            let expression = self.expression()?;
            return self.take("E").then_some(expression);
        }
        if self.take("J") {
            let list = self.until("E", Self::argument)?;
            return Some(self.add(Node::List(list)));
        }
        if self.take("LZ") {
            let function = self.encoding()?;
            return self.take("E").then_some(function);
        }
        if self.starts("L") {
            return self.literal();
        }
        if self.declares_parameter() {
            self.declared(None)?;
            return self.argument();
        }
        self.kind()
    }
}
