//! Names as they stay when a program is built anew: functions without what instances of templates differ in, variables and files without the
//! numbers that compilers and build systems append.
//!
//! Input are names as they are demangled: C++ by the Itanium ABI, Rust by its legacy and its v0 scheme.

/// Operators whose names have brackets, the longest first.
const OPERATORS: [&str; 17] = [
    "<<=", "<=>", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "->", "<", ">", "\"\"",
    "new[]", "delete[]", "co_await",
];

/// What the nameless namespace of a file is called, and by what that is replaced: parentheses are taken off.
const ANONYMOUS: [&str; 2] = ["(anonymous namespace)", "{anonymous}"];
/// With what the suffixes of copies of functions begin, behind their names.
const COPY: &str = " (.";

/// A function without its result, template arguments, parameters, and what is appended to copies of it.
#[must_use]
pub fn function(name: &str) -> String {
    let [anonymous, braced] = ANONYMOUS;
    let name = name.replace(anonymous, braced);
    let name = name.split(COPY).next().unwrap_or_default();
    let bare = without_groups(without_suffix(name));
    let bare = bare.trim();
    let bare = [" const", " volatile", " &&", " &"]
        .into_iter()
        .fold(bare, |bare, word| bare.trim_end_matches(word));
    // What stands before it is its result. Names of operators may have blanks themselves, and so have Rust's qualified ones.
    let until = bare
        .find("operator")
        .or_else(|| bare.find('<'))
        .unwrap_or(bare.len());
    let begins = bare
        .get(..until)
        .and_then(|before| before.rfind(' '))
        .map_or(0, |blank| blank + 1);
    unnamed(bare.get(begins..).unwrap_or_default().trim())
}

/// What has no name of its own, by its number, as names were written when the first identities were stored: `{lambda#2}` for `'lambda0'`.
fn unnamed(name: &str) -> String {
    const KINDS: [(&str, &str); 2] = [("'lambda", "{lambda#"), ("'unnamed", "{unnamed type#")];
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(quote) = rest.find('\'') {
        let (before, quoted) = rest.split_at(quote);
        out.push_str(before);
        let of_kind = |(begins, words): &(&str, &'static str)| {
            let (number, rest) = quoted.strip_prefix(*begins)?.split_once('\'')?;
            let number = match number {
                "" => 1,
                number => number.parse::<u64>().ok()?.checked_add(2)?,
            };
            Some((*words, number, rest))
        };
        rest = match KINDS.iter().find_map(of_kind) {
            Some((words, number, rest)) => {
                out.push_str(&format!("{words}{number}}}"));
                rest
            }
            None => {
                out.push('\'');
                quoted.get(1..).unwrap_or_default()
            }
        };
    }
    out.push_str(rest);
    out
}

/// The parameters of a function, with what stands behind them (`const`): several functions may have one name. Nothing of instances of templates, where they depend on the arguments.
#[must_use]
pub fn parameters(name: &str) -> &str {
    let name = name.split(COPY).next().unwrap_or_default();
    let [anonymous, _] = ANONYMOUS;
    let mut before = "";
    let mut rest = name;
    let mut found = "";
    while let Some(c) = rest.chars().next() {
        let length = if let Some(length) = operator(rest, before) {
            length
        } else if rest.starts_with(anonymous) {
            anonymous.len()
        } else if c == '<' {
            return "";
        } else if c == '(' {
            found = rest;
            rest.len() - group(rest).1.len()
        } else {
            // What these are of, if anything, is not the function.
            if c == ':' {
                found = "";
            }
            c.len_utf8()
        };
        rest = rest.get(length..).unwrap_or_default();
        before = &name[..name.len() - rest.len()];
    }
    found
}

/// A variable without the numbers that compilers append: to the parts that they split one into, and to those of several functions.
#[must_use]
pub fn variable(name: &str) -> String {
    let [anonymous, braced] = ANONYMOUS;
    without_groups(without_suffix(&name.replace(anonymous, braced)))
}

/// A file's name without its folders, its version, and the hash that cargo appends to tests.
#[must_use]
pub fn module(path: &str) -> &str {
    const HASH: usize = 16;
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or_default();
    if let Some((library, _)) = name.split_once(".so.") {
        return name.get(..library.len() + ".so".len()).unwrap_or(name);
    }
    match name.rsplit_once('-') {
        Some((bare, hash))
            if !bare.is_empty()
                && hash.len() == HASH
                && hash.bytes().all(|digit| digit.is_ascii_hexdigit()) =>
        {
            bare
        }
        _ => name,
    }
}

/// Without `.llvm.123`, `.isra.0`, `.part.1`, `.cold`, `.0` at the end.
fn without_suffix(name: &str) -> &str {
    const WORDS: [&str; 8] = [
        "llvm",
        "isra",
        "part",
        "cold",
        "constprop",
        "lto_priv",
        "warm",
        "__uniq",
    ];
    let mut name = name;
    while let Some((before, last)) = name.rsplit_once('.') {
        let is_number = !last.is_empty() && last.bytes().all(|digit| digit.is_ascii_digit());
        if before.is_empty() || !is_number && !WORDS.contains(&last) {
            break;
        }
        name = before;
    }
    name
}

/// Without what is in parentheses and angle brackets; the types of Rust's `<A as B>::f` and `<impl A for B>::f` are kept, without their
/// own arguments. Its `<A>::f` is `A::f`, as the legacy scheme has it.
fn without_groups(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(length) = operator(rest, &out) {
            let (operator, after) = rest.split_at(length);
            out.push_str(operator);
            rest = after;
            continue;
        }
        if !matches!(c, '<' | '(') {
            out.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            continue;
        }
        let (inner, after) = group(rest);
        let is_path = out.is_empty() || out.ends_with("::");
        if c == '<' && out.is_empty() && is_path_of_names(inner) {
            out.push_str(&without_groups(inner));
        } else if c == '<' && is_path && (out.is_empty() || is_qualified(inner)) {
            out.push('<');
            out.push_str(&without_groups(inner));
            out.push('>');
        } else if c == '<' && out.ends_with("::") {
            // Rust's `f::<T>`.
            out.truncate(out.len() - 2);
        }
        rest = after;
    }
    out
}

fn is_qualified(inner: &str) -> bool {
    inner.starts_with("impl ") || inner.contains(" as ")
}

fn is_path_of_names(inner: &str) -> bool {
    inner.contains("::")
        && inner.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && !is_qualified(inner)
}

/// The length of an operator's name at the start of `rest`, with brackets that are no groups. `before` is what stands before it.
fn operator(rest: &str, before: &str) -> Option<usize> {
    const WORD: &str = "operator";
    let of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    if !rest.starts_with(WORD) || before.chars().next_back().is_some_and(of_a_name) {
        return None;
    }
    let after = rest.get(WORD.len()..)?;
    let blank = after.len() - after.trim_start().len();
    let after = after.trim_start();
    let operator = OPERATORS.iter().find(|name| {
        let rest = after.strip_prefix(**name);
        // `operator<<a>` is an instance of `operator<`.
        rest.is_some_and(|rest| {
            **name != "<<" || rest.starts_with(['(', '<', ' ']) || rest.is_empty()
        })
    })?;
    Some(WORD.len() + blank + operator.len())
}

/// What is inside of the group with which `rest` begins, and what stands behind it; all of it where it does not end.
fn group(rest: &str) -> (&str, &str) {
    let mut depth = 0usize;
    let mut before = ' ';
    for (at, c) in rest.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            // That of an arrow is no bracket.
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            let inner = rest.get(1..at).unwrap_or_default();
            return (inner, rest.get(at + c.len_utf8()..).unwrap_or_default());
        }
        before = c;
    }
    (rest.get(1..).unwrap_or_default(), "")
}

/// A source file's name without its folders.
#[must_use]
pub fn file(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that all instances of a function have one name, and that operators, Rust's qualified paths and local entities keep theirs.
    #[test]
    fn functions() {
        for (name, expected) in [
            ("main", "main"),
            ("ns::foo(int, char const*)", "ns::foo"),
            ("void ns::push<int, pair<int, int>>(int)", "ns::push"),
            (
                "std::vector<int>::at(unsigned long) const",
                "std::vector::at",
            ),
            (
                "(anonymous namespace)::run(void (*)(int))",
                "{anonymous}::run",
            ),
            (
                "tick()::'lambda0'(int)::operator()(int) const",
                "tick::{lambda#2}::operator()",
            ),
            (
                "std::ostream& operator<< <char>(std::ostream&)",
                "operator<<",
            ),
            ("bool ns::operator<(A const&, A const&)", "ns::operator<"),
            (
                "A::operator unsigned long() const",
                "A::operator unsigned long",
            ),
            ("A::operator->() const", "A::operator->"),
            ("f()::'lambda'()", "f::{lambda#1}"),
            ("f()::'unnamed7'::g(char) const", "f::{unnamed type#9}::g"),
            (
                "core::str::<impl 'a>::'lambda",
                "core::str::<impl 'a>::'lambda",
            ),
            ("bool operator<<<char>(a, b)", "operator<<"),
            ("bool operator<<char>(a, b)", "operator<"),
            ("operator new[](unsigned long)", "operator new[]"),
            ("serve.llvm.1234567", "serve"),
            ("serve.part.0.cold", "serve"),
            ("work(int) (.isra.0)", "work"),
            (
                "core::ptr::drop_in_place::<alloc::vec::Vec<u8>>",
                "core::ptr::drop_in_place",
            ),
            (
                "core::ptr::drop_in_place<alloc::vec::Vec<u8>>",
                "core::ptr::drop_in_place",
            ),
            (
                "<alloc::vec::Vec<T, A> as core::ops::Drop>::drop",
                "<alloc::vec::Vec as core::ops::Drop>::drop",
            ),
            ("<mycrate::Table<u8>>::insert", "mycrate::Table::insert"),
            ("mycrate::Table<T>::insert", "mycrate::Table::insert"),
            ("<[u8]>::len", "<[u8]>::len"),
            (
                "mycrate::imp::<impl core::fmt::Display for X<T>>::fmt",
                "mycrate::imp::<impl core::fmt::Display for X>::fmt",
            ),
            ("mycrate::main::{closure#1}", "mycrate::main::{closure#1}"),
            ("cooperator(int)", "cooperator"),
            ("broken<int", "broken"),
        ] {
            assert_eq!(function(name), expected, "{name}");
        }
    }

    /// Check what tells functions of one name from each other.
    #[test]
    fn of_one_name() {
        for (name, expected) in [
            ("main", ""),
            ("ns::foo(int, char const*)", "(int, char const*)"),
            ("A::at(std::vector<int>) const", "(std::vector<int>) const"),
            ("void ns::push<int>(int)", ""),
            ("std::vector<int>::at(unsigned long) const", ""),
            (
                "(anonymous namespace)::run(void (*)(int))",
                "(void (*)(int))",
            ),
            (
                "tick()::'lambda0'(int)::operator()(int) const",
                "(int) const",
            ),
            ("operator<(A const&, A const&)", "(A const&, A const&)"),
            ("A::operator->() const", "() const"),
            ("work(int) (.isra.0)", "(int)"),
            ("tick(int)::count", ""),
            ("<A as B>::f", ""),
            ("broken(int", "(int"),
        ] {
            assert_eq!(parameters(name), expected, "{name}");
        }
    }

    /// Check what is taken off variables and files.
    #[test]
    fn variables_and_files() {
        assert_eq!(variable("stats.0"), "stats");
        assert_eq!(variable("tick.count"), "tick.count");
        assert_eq!(variable("tick.count.1"), "tick.count");
        assert_eq!(variable("counter.llvm.99"), "counter");
        assert_eq!(variable("tick(int)::count"), "tick::count");
        assert_eq!(variable("pool<int>::free"), "pool::free");
        assert_eq!(variable("(anonymous namespace)::x"), "{anonymous}::x");
        assert_eq!(module("/usr/lib/libwork.so.1.2.3"), "libwork.so");
        assert_eq!(module("/t/deps/shop-0123456789abcdef"), "shop");
        assert_eq!(module("/t/deps/shop-server"), "shop-server");
        assert_eq!(module("/t/app (deleted)"), "app");
        assert_eq!(file("/src/a/b.c"), "b.c");
    }
}
