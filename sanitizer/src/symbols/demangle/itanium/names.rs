//! Names of functions, variables and types (Itanium C++ ABI, 5.1.2 and 5.1.3).

use super::node::{Id, Node, Qualifiers};
use super::operators::Kind;
use super::parser::{Level, Named, Parser};

/// What a file's own names are in.
const ANONYMOUS: &str = "(anonymous namespace)";

impl<'a> Parser<'a> {
    /// A name; of a function's, more is asked.
    pub(super) fn name(&mut self, named: Option<&mut Named>) -> Option<Id> {
        self.deeper(|parser| parser.name_within(named))
    }

    fn name_within(&mut self, mut named: Option<&mut Named>) -> Option<Id> {
        if self.starts("N") {
            return self.nested(named);
        }
        if self.starts("Z") {
            return self.local(named);
        }
        let (name, was_seen) = self.unscoped(named.as_deref_mut(), true)?;
        if self.starts("I") {
            if !was_seen {
                self.seen.push(name);
            }
            let arguments = self.arguments(named.is_some())?;
            if let Some(named) = named {
                named.is_instance = true;
            }
            return Some(self.add(Node::Instance(name, arguments)));
        }
        (!was_seen).then_some(name)
    }

    /// A name that is in no scope but `std`; and whether it was there before, where that may be.
    pub(super) fn unscoped(
        &mut self,
        named: Option<&mut Named>,
        may_be_seen: bool,
    ) -> Option<(Id, bool)> {
        let scope = self.take("St").then(|| self.text("std"));
        let mut module = None;
        if self.starts("S") {
            let seen = self.substitution()?;
            if self.is_module(seen) {
                module = Some(seen);
            } else {
                return (may_be_seen && scope.is_none()).then_some((seen, true));
            }
        }
        let name = self.unqualified(named, scope, module)?;
        Some((name, false))
    }

    fn is_module(&self, id: Id) -> bool {
        matches!(self.node(id), Node::Module { .. })
    }

    /// The name of a module, after what is known of it.
    pub(super) fn module(&mut self, before: Option<Id>) -> Option<Option<Id>> {
        let mut module = before;
        while self.take("W") {
            let is_partition = self.take("P");
            let name = self.source()?;
            let part = self.add(Node::Module {
                of: module,
                is_partition,
                name,
            });
            self.seen.push(part);
            module = Some(part);
        }
        Some(module)
    }

    fn unqualified(
        &mut self,
        mut named: Option<&mut Named>,
        scope: Option<Id>,
        module: Option<Id>,
    ) -> Option<Id> {
        let module = self.module(module)?;
        let is_friend = scope.is_some() && self.take("F");
        // Of internal linkage.
        self.take("L");
        let mut scope = scope;
        let name = match self.look(0) {
            b'1'..=b'9' => self.source()?,
            b'U' => self.nameless(named.is_some())?,
            b'D' if self.take("DC") => {
                let bindings = self.until("E", Self::source)?;
                self.add(Node::Bindings(bindings))
            }
            b'C' | b'D' => {
                if module.is_some() {
                    return None;
                }
                let (of, name) = self.structor(named.as_deref_mut(), scope?)?;
                scope = Some(of);
                name
            }
            _ => self.operator_name(named)?,
        };
        let name = match module {
            Some(module) => self.add(Node::Joined(name, "@", module)),
            None => name,
        };
        let name = self.tags(name)?;
        let name = match scope {
            Some(scope) if is_friend => Node::Joined(scope, "::friend ", name),
            Some(scope) => Node::Joined(scope, "::", name),
            None => return Some(name),
        };
        Some(self.add(name))
    }

    /// A name as it stands in the source.
    pub(super) fn source(&mut self) -> Option<Id> {
        let name = self.counted()?;
        let is_anonymous = name.starts_with("_GLOBAL__N");
        Some(self.text(if is_anonymous { ANONYMOUS } else { name }))
    }

    /// What has a number only: types, lambdas, blocks.
    pub(super) fn nameless(&mut self, is_of_function: bool) -> Option<Id> {
        if is_of_function {
            self.levels.clear();
        }
        if self.take("Ut") {
            let number = self.digits();
            return self.take("_").then(|| self.add(Node::Unnamed(number)));
        }
        if self.take("Ub") {
            self.digits();
            return self.take("_").then(|| self.text("'block-literal'"));
        }
        if !self.take("Ul") {
            return None;
        }
        let own = self.levels.len();
        let before = self.auto_level.replace(own);
        let closure = self.closure(own);
        self.levels.truncate(own);
        self.auto_level = before;
        closure
    }

    fn closure(&mut self, own: usize) -> Option<Id> {
        self.levels.push(Level::Own(Vec::new()));
        let mut templates = Vec::new();
        while self.declares_parameter() {
            templates.push(self.declared(Some(own))?);
        }
        if templates.is_empty() {
            self.levels.pop();
        }
        let first = if self.take("Q") {
            Some(self.constraint()?)
        } else {
            None
        };
        let mut parameters = Vec::new();
        if !self.take("v") {
            loop {
                parameters.push(self.kind()?);
                if matches!(self.look(0), b'E' | b'Q') {
                    break;
                }
            }
        }
        let second = if self.take("Q") {
            Some(self.constraint()?)
        } else {
            None
        };
        if !self.take("E") {
            return None;
        }
        let number = self.digits();
        self.take("_").then(|| {
            self.add(Node::Closure {
                templates,
                constraints: [first, second],
                parameters,
                number,
            })
        })
    }

    /// A constructor or destructor of a scope; and the scope as it is written there.
    fn structor(&mut self, named: Option<&mut Named>, scope: Id) -> Option<(Id, Id)> {
        let of = match *self.node(scope) {
            Node::Standard(standard, false) => self.add(Node::Standard(standard, true)),
            _ => scope,
        };
        let is_destructor = self.take("D");
        let inherits = !is_destructor && self.take("C") && self.take("I");
        let variants: &[u8] = if is_destructor { b"01245" } else { b"12345" };
        if !variants.contains(&self.look(0)) {
            return None;
        }
        self.skip(1);
        let mut named = named;
        if let Some(named) = named.as_deref_mut() {
            named.is_structor = true;
        }
        if inherits {
            self.name(named)?;
        }
        Some((of, self.add(Node::Structor { of, is_destructor })))
    }

    /// The name of an operator's function.
    pub(super) fn operator_name(&mut self, named: Option<&mut Named>) -> Option<Id> {
        if let Some(operator) = self.operator() {
            if operator.kind == Kind::Conversion {
                let left = std::mem::replace(&mut self.leaves_arguments, true);
                let forward = self.may_be_forward;
                self.may_be_forward |= named.is_some();
                let kind = self.kind();
                (self.leaves_arguments, self.may_be_forward) = (left, forward);
                let kind = kind?;
                if let Some(named) = named {
                    named.is_structor = true;
                }
                return Some(self.add(Node::Prefixed("operator ", kind)));
            }
            return operator.is_name().then(|| self.text(operator.name));
        }
        if self.take("li") {
            let name = self.source()?;
            return Some(self.add(Node::Prefixed("operator\"\" ", name)));
        }
        if self.take("v") && self.look(0).is_ascii_digit() {
            self.skip(1);
            let name = self.source()?;
            return Some(self.add(Node::Prefixed("operator ", name)));
        }
        None
    }

    /// A name in scopes.
    fn nested(&mut self, mut named: Option<&mut Named>) -> Option<Id> {
        self.take("N");
        let has_object = self.take("H");
        let qualifiers = if has_object {
            Qualifiers::default()
        } else {
            self.qualifiers()
        };
        let reference = if !has_object && self.take("O") {
            " &&"
        } else if !has_object && self.take("R") {
            " &"
        } else {
            ""
        };
        if let Some(named) = named.as_deref_mut() {
            named.has_object = has_object;
            (named.qualifiers, named.reference) = (qualifiers, reference);
        }
        let mut so_far: Option<Id> = None;
        while !self.take("E") {
            if let Some(named) = named.as_deref_mut() {
                named.is_instance = false;
            }
            let next = match (self.look(0), self.look(1)) {
                (b'T', _) if so_far.is_none() => self.parameter()?,
                (b'I', _) => {
                    let name = so_far?;
                    if matches!(self.node(name), Node::Instance(..)) {
                        return None;
                    }
                    let arguments = self.arguments(named.is_some())?;
                    if let Some(named) = named.as_deref_mut() {
                        named.is_instance = true;
                    }
                    self.add(Node::Instance(name, arguments))
                }
                (b'D', b't' | b'T') if so_far.is_none() => self.decltype()?,
                (b'S', second) => {
                    let seen = if second == b't' {
                        self.skip(2);
                        self.text("std")
                    } else {
                        self.substitution()?
                    };
                    if !self.is_module(seen) {
                        if so_far.is_some() {
                            return None;
                        }
                        so_far = Some(seen);
                        continue;
                    }
                    self.unqualified(named.as_deref_mut(), so_far, Some(seen))?
                }
                _ => self.unqualified(named.as_deref_mut(), so_far, None)?,
            };
            self.seen.push(next);
            so_far = Some(next);
            // Of a variable's initializer.
            self.take("M");
        }
        // The whole is no part that can be referred to; whoever refers to it adds it.
        self.seen.pop()?;
        so_far
    }

    /// A name within a function.
    fn local(&mut self, named: Option<&mut Named>) -> Option<Id> {
        self.take("Z");
        let function = self.encoding()?;
        if !self.take("E") {
            return None;
        }
        if self.take("s") {
            self.discriminator();
            let literal = self.text("string literal");
            return Some(self.add(Node::Joined(function, "::", literal)));
        }
        let levels = std::mem::take(&mut self.levels);
        let outer = std::mem::take(&mut self.outer);
        let entity = self.entity(named);
        (self.levels, self.outer) = (levels, outer);
        let entity = entity?;
        Some(self.add(Node::Local(function, entity)))
    }

    fn entity(&mut self, named: Option<&mut Named>) -> Option<Id> {
        // Of a parameter's default value.
        if self.take("d") {
            self.number();
            return self.take("_").then(|| self.name(named)).flatten();
        }
        let entity = self.name(named)?;
        self.discriminator();
        Some(entity)
    }

    /// Which of several of a name it is, which is not written.
    fn discriminator(&mut self) {
        let digits = |from: usize| {
            let rest = self.rest.get(from..).unwrap_or_default();
            rest.bytes().take_while(u8::is_ascii_digit).count()
        };
        let len = match (self.look(0), self.look(1)) {
            (b'_', b'0'..=b'9') => 2,
            (b'_', b'_') => {
                let end = 2 + digits(2);
                if self.look(end) == b'_' { end + 1 } else { 0 }
            }
            (b'0'..=b'9', _) if digits(0) == self.rest.len() => self.rest.len(),
            _ => 0,
        };
        self.skip(len);
    }
}
