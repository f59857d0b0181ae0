//! What names consist of: the parts of one name are in one list, and know each other by their places in it.

use super::operators::Precedence;

/// The place of a part in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(pub(super) usize);

/// `const`, `volatile` and `restrict`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Qualifiers {
    pub(super) is_const: bool,
    pub(super) is_volatile: bool,
    pub(super) is_restrict: bool,
}

impl Qualifiers {
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// What stands behind the parameters of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Trailer {
    pub(super) qualifiers: Qualifiers,
    /// ` &` or ` &&`, or nothing.
    pub(super) reference: &'static str,
    /// `noexcept`, `throw()`; the condition of an attribute.
    pub(super) more: Option<Id>,
    /// A constraint.
    pub(super) requires: Option<Id>,
}

/// Classes of the standard library that have abbreviations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standard {
    /// As it is abbreviated: `string`.
    pub(super) short: &'static str,
    /// The template: `basic_string`.
    pub(super) template: &'static str,
    /// Its arguments: `<char>`.
    pub(super) arguments: &'static str,
}

/// How an expression with operands is written.
#[derive(Clone, Debug)]
pub(super) enum Form {
    /// `a + b`
    Infix(Id, &'static str, Id),
    /// `-a`
    Prefix(&'static str, Id),
    /// `a++`
    Postfix(Id, &'static str),
    /// `a[b]`
    Subscript(Id, Id),
    /// `a.b`
    Member(Id, &'static str, Id),
    /// `a ? b : c`
    Conditional([Id; 3]),
    /// `f(a, b)`; with parentheses around the name where argument-dependent lookup is off.
    Call(Id, Vec<Id>, bool),
    /// `(type)(a, b)`
    Conversion(Id, Vec<Id>),
    /// `static_cast<type>(a)`
    Cast(&'static str, Id, Id),
    /// `sizeof (a)`
    Enclosing(&'static str, Id),
    /// `new (a) type(b)`
    New {
        is_global: bool,
        is_array: bool,
        placement: Vec<Id>,
        of: Id,
        with: Vec<Id>,
    },
    /// `delete a`
    Delete {
        is_global: bool,
        is_array: bool,
        what: Id,
    },
}

/// A part of a name.
#[derive(Clone, Debug)]
pub(super) enum Node<'a> {
    /// A name, as it is.
    Text(&'a str),
    /// Something behind words.
    Prefixed(&'static str, Id),
    /// Something before words.
    Suffixed(Id, &'a str),
    /// A type with a suffix of a vendor, and its arguments.
    Vendor(Id, &'a str, Option<Id>),
    /// `__remove_cv(type)`
    Transformed(&'a str, Id),
    /// Two parts with something between them; the base name is that of the second one.
    Joined(Id, &'static str, Id),
    /// What is within a function: it has no base name.
    Local(Id, Id),
    /// A module, or a part of one.
    Module {
        of: Option<Id>,
        is_partition: bool,
        name: Id,
    },
    /// `name[abi:tag]`
    Tagged(Id, &'a str),
    /// An abbreviation, and whether it is written in full.
    Standard(Standard, bool),
    /// A constructor, or a destructor, of what has this name.
    Structor {
        of: Id,
        is_destructor: bool,
    },
    /// `'unnamed0'`
    Unnamed(&'a str),
    /// `'lambda'(int)`
    Closure {
        templates: Vec<Id>,
        constraints: [Option<Id>; 2],
        parameters: Vec<Id>,
        number: &'a str,
    },
    /// Structured bindings.
    Bindings(Vec<Id>),
    /// A name with the arguments of its template.
    Instance(Id, Id),
    /// Arguments of a template.
    Arguments(Vec<Id>),
    /// Some arguments in the place of one.
    List(Vec<Id>),
    /// The same, as what a parameter stands for: of it one at a time is written.
    Pack(Vec<Id>),
    /// What is written for each of a pack.
    Expansion(Id),
    /// A parameter of a template whose arguments come later in the name.
    Forward(usize, Option<Id>),
    /// A parameter of a lambda's template: what stands before its name, the name, its own type, and a constraint.
    Declared {
        before: Declaration,
        name: Id,
        requires: Option<Id>,
    },
    /// The same for a pack.
    DeclaredPack(Id),
    /// The name of such a parameter: `$T0`.
    Invented(&'static str, usize),
    Qualified(Id, Qualifiers),
    Pointer(Id),
    /// A reference; whether to an rvalue.
    Reference(Id, bool),
    /// A pointer to a member: the class, and what it has.
    MemberPointer(Id, Id),
    Array(Id, Option<Id>),
    /// A vector, its length where it is known.
    Vector(Id, Option<Id>),
    /// The type of a function.
    Function(Id, Vec<Id>, Trailer),
    /// A function with its result, where it has one.
    Encoding {
        result: Option<Id>,
        name: Id,
        parameters: Vec<Id>,
        trailer: Trailer,
    },
    /// A name in front of a list in parentheses: `throw(a, b)`; or in others.
    Bracketed(&'static str, Vec<Id>, [char; 2]),
    /// `name (.cold)`
    Clone(Id, &'a str),
    Operation(Form, Precedence),
    /// Values in braces, with their type where it is named.
    Initializer(Option<Id>, Vec<Id>),
    /// `[index] = value` or `.member = value`
    Designated {
        what: Id,
        last: Option<Id>,
        value: Id,
        is_member: bool,
    },
    /// A fold: the operator, the pack, the other operand, and whether it stands on the left.
    Fold {
        operator: &'static str,
        pack: Id,
        other: Option<Id>,
        is_left: bool,
    },
    /// `sizeof...(pack)`
    SizeOfPack(Id),
    /// A parameter of a function, by its number.
    Parameter(&'a str),
    /// A value with its type, or with its suffix.
    Integer {
        kind: &'static str,
        value: &'a str,
    },
    /// The value of another type.
    Value(Id, &'a str),
    /// A floating-point value.
    Float(String),
    /// A string of a type.
    Literal(Id),
    Lambda(Id),
    /// A part of an object, by its offset.
    Part {
        object: Id,
        kind: Id,
        offset: &'a str,
    },
    /// What a requires-expression asks for.
    Requires(Vec<Id>, Vec<Id>),
    Requirement {
        expression: Id,
        is_noexcept: bool,
        kind: Option<Id>,
    },
}

/// What stands before the name of a parameter.
#[derive(Clone, Debug)]
pub(super) enum Declaration {
    Type,
    /// A constrained one.
    Constrained(Id),
    /// A value of a type.
    Value(Id),
    /// A template with parameters.
    Template(Vec<Id>),
}
