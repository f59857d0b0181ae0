//! The operators, by the codes that mangled names have for them (Itanium C++ ABI, 5.1.3 and 5.1.6).

/// How tightly an expression holds together, the tightest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precedence {
    Primary,
    Postfix,
    Unary,
    Cast,
    MemberPointer,
    Multiplicative,
    Additive,
    Shift,
    Spaceship,
    Relational,
    Equality,
    And,
    Xor,
    Or,
    AndIf,
    OrIf,
    Conditional,
    Assign,
    Comma,
    /// Looser than any expression.
    Loosest,
}

/// What an operator takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Prefix,
    Postfix,
    Infix,
    Subscript,
    /// A member; whether functions can be named so.
    Member {
        is_name: bool,
    },
    New {
        is_array: bool,
    },
    Delete {
        is_array: bool,
    },
    Call {
        is_bare: bool,
    },
    Conversion,
    Conditional,
    /// The name of a function only.
    NameOnly,
    /// `static_cast` and its kin.
    Cast,
    /// `sizeof` and its kin, of a type or of an expression.
    Of {
        is_type: bool,
    },
}

/// An operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operator {
    pub(super) code: &'static str,
    pub(super) kind: Kind,
    pub(super) precedence: Precedence,
    /// As functions are called that it calls; casts as they are written.
    pub(super) name: &'static str,
}

impl Operator {
    /// As it stands in expressions.
    pub(super) fn symbol(&self) -> &'static str {
        let symbol = self.name.strip_prefix("operator").unwrap_or(self.name);
        symbol.strip_prefix(' ').unwrap_or(symbol)
    }

    /// Whether a function can be called so.
    pub(super) fn is_name(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Cast | Kind::Of { .. } | Kind::Member { is_name: false }
        )
    }

    pub(super) fn of(code: &str) -> Option<&'static Self> {
        OPERATORS.iter().find(|operator| operator.code == code)
    }
}

const fn operator(
    code: &'static str,
    kind: Kind,
    precedence: Precedence,
    name: &'static str,
) -> Operator {
    Operator {
        code,
        kind,
        precedence,
        name,
    }
}

const fn infix(code: &'static str, precedence: Precedence, name: &'static str) -> Operator {
    operator(code, Kind::Infix, precedence, name)
}

const fn prefix(code: &'static str, name: &'static str) -> Operator {
    operator(code, Kind::Prefix, Precedence::Unary, name)
}

const fn cast(code: &'static str, name: &'static str) -> Operator {
    operator(code, Kind::Cast, Precedence::Postfix, name)
}

use Kind as K;
use Precedence as P;

const OPERATORS: [Operator; 63] = [
    infix("aN", P::Assign, "operator&="),
    infix("aS", P::Assign, "operator="),
    infix("dV", P::Assign, "operator/="),
    infix("eO", P::Assign, "operator^="),
    infix("lS", P::Assign, "operator<<="),
    infix("mI", P::Assign, "operator-="),
    infix("mL", P::Assign, "operator*="),
    infix("oR", P::Assign, "operator|="),
    infix("pL", P::Assign, "operator+="),
    infix("rM", P::Assign, "operator%="),
    infix("rS", P::Assign, "operator>>="),
    infix("aa", P::AndIf, "operator&&"),
    infix("oo", P::OrIf, "operator||"),
    infix("an", P::And, "operator&"),
    infix("eo", P::Xor, "operator^"),
    infix("or", P::Or, "operator|"),
    infix("cm", P::Comma, "operator,"),
    infix("eq", P::Equality, "operator=="),
    infix("ne", P::Equality, "operator!="),
    infix("ge", P::Relational, "operator>="),
    infix("gt", P::Relational, "operator>"),
    infix("le", P::Relational, "operator<="),
    infix("lt", P::Relational, "operator<"),
    infix("ss", P::Spaceship, "operator<=>"),
    infix("ls", P::Shift, "operator<<"),
    infix("rs", P::Shift, "operator>>"),
    infix("mi", P::Additive, "operator-"),
    infix("pl", P::Additive, "operator+"),
    infix("dv", P::Multiplicative, "operator/"),
    infix("ml", P::Multiplicative, "operator*"),
    infix("rm", P::Multiplicative, "operator%"),
    prefix("ad", "operator&"),
    prefix("co", "operator~"),
    prefix("de", "operator*"),
    prefix("ng", "operator-"),
    prefix("nt", "operator!"),
    prefix("ps", "operator+"),
    operator("mm", K::Postfix, P::Postfix, "operator--"),
    operator("pp", K::Postfix, P::Postfix, "operator++"),
    operator("ix", K::Subscript, P::Postfix, "operator[]"),
    operator("cl", K::Call { is_bare: false }, P::Postfix, "operator()"),
    operator("cp", K::Call { is_bare: true }, P::Postfix, "operator()"),
    operator(
        "ds",
        K::Member { is_name: false },
        P::MemberPointer,
        "operator.*",
    ),
    operator("dt", K::Member { is_name: false }, P::Postfix, "operator."),
    operator(
        "pm",
        K::Member { is_name: true },
        P::MemberPointer,
        "operator->*",
    ),
    operator("pt", K::Member { is_name: true }, P::Postfix, "operator->"),
    operator("nw", K::New { is_array: false }, P::Unary, "operator new"),
    operator("na", K::New { is_array: true }, P::Unary, "operator new[]"),
    operator(
        "dl",
        K::Delete { is_array: false },
        P::Unary,
        "operator delete",
    ),
    operator(
        "da",
        K::Delete { is_array: true },
        P::Unary,
        "operator delete[]",
    ),
    operator("cv", K::Conversion, P::Cast, "operator"),
    operator("qu", K::Conditional, P::Conditional, "operator?"),
    operator("aw", K::NameOnly, P::Primary, "operator co_await"),
    cast("cc", "const_cast"),
    cast("dc", "dynamic_cast"),
    cast("rc", "reinterpret_cast"),
    cast("sc", "static_cast"),
    operator("at", K::Of { is_type: true }, P::Unary, "alignof "),
    operator("az", K::Of { is_type: false }, P::Unary, "alignof "),
    operator("st", K::Of { is_type: true }, P::Unary, "sizeof "),
    operator("sz", K::Of { is_type: false }, P::Unary, "sizeof "),
    operator("te", K::Of { is_type: false }, P::Postfix, "typeid "),
    operator("ti", K::Of { is_type: true }, P::Postfix, "typeid "),
];
