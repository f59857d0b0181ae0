//! Names as a programmer wrote them: Rust (legacy and v0) and C++ (Itanium ABI) symbols.

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// How deep a mangled name may nest. Names come from files that we do not trust, and the
/// demangler recurses.
const RECURSION_LIMIT: u32 = 96;

/// The demangled form of a symbol's name, or the name itself.
pub(super) fn demangle(name: &str) -> String {
    // A symbol version (`memcpy@@GLIBC_2.14`) is not part of the name.
    let name = match name.split_once('@') {
        Some((bare, _)) if !bare.is_empty() => bare,
        _ => name,
    };
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // The alternate form leaves out the hash.
        return format!("{rust:#}");
    }
    demangle_cpp(name).unwrap_or_else(|| name.to_owned())
}

/// The same for a variable. The optimizer numbers the parts that it splits variables into
/// (`_ZL5state.1`), which the demangler would call clones.
pub(super) fn demangle_variable(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((whole, part))
            if whole.starts_with("_Z") && part.bytes().all(|b| b.is_ascii_digit()) =>
        {
            format!("{}.{part}", demangle(whole))
        }
        _ => demangle(name),
    }
}

fn demangle_cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") && !name.starts_with("___Z") {
        return None;
    }
    let parse = ParseOptions::default().recursion_limit(RECURSION_LIMIT);
    let symbol = Symbol::new_with_options(name, &parse).ok()?;
    let options = DemangleOptions::new().recursion_limit(RECURSION_LIMIT);
    symbol.demangle_with_options(&options).ok()
}

#[cfg(test)]
mod tests {
    use super::{demangle, demangle_variable};

    /// Check each kind of name, and that deep nesting neither panics nor overflows.
    #[test]
    fn names() {
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_ZN2ns3fooEiPKc"), "ns::foo(int, char const*)");
        assert_eq!(demangle("_ZZ4tickvE5count"), "tick()::count");
        assert_eq!(
            demangle("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangle("memcpy@@GLIBC_2.14"), "memcpy");
        assert_eq!(demangle_variable("_ZL5state.1"), "state.1");
        assert_eq!(demangle_variable("inner.counted"), "inner.counted");
        assert_eq!(demangle("_Z"), "_Z");
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        assert_eq!(demangle(&deep), deep);
    }
}
