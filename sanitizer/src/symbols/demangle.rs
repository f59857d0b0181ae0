//! Names as a programmer wrote them: Rust (legacy and v0) and C++ (Itanium ABI) symbols.

mod wording;

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

use super::text::{LONGEST, cut};

/// How deep a mangled name may nest. Names come from files that we do not trust, and the
/// demangler recurses.
const RECURSION_LIMIT: u32 = 96;

/// The demangled form of a symbol's name, or the name itself: a few hundred bytes may stand for gigabytes, and what is
/// longer than any name is not demangled.
pub(super) fn demangle(name: &str) -> String {
    // A symbol version (`memcpy@@GLIBC_2.14`) is not part of the name.
    let name = match name.split_once('@') {
        Some((bare, _)) if !bare.is_empty() => bare,
        _ => name,
    };
    demangle_bounded(name).unwrap_or_else(|| cut(name.to_owned()))
}

/// The demangled form, where there is one and it is no longer than any name.
fn demangle_bounded(name: &str) -> Option<String> {
    if name.len() > LONGEST {
        return None;
    }
    let mut bounded = Bounded::default();
    if let Some(rust) = rust(name) {
        // The alternate form leaves out the hash. The library ends what is too long with a remark.
        write!(bounded, "{rust:#}").ok()?;
    } else {
        demangle_cpp(name, &mut bounded)?;
    }
    Some(bounded.text)
}

/// A name of Rust's. Its older scheme is that of C++ with a hash at the end (`17h`, 16 digits, `E`); those without one are names of C++.
fn rust(name: &str) -> Option<rustc_demangle::Demangle<'_>> {
    const BEFORE_HASH: &str = "17h";
    const HASH: usize = 16;
    let has_hash = name.match_indices(BEFORE_HASH).any(|(at, before)| {
        let behind = name.as_bytes().get(at + before.len()..).unwrap_or_default();
        let hash = behind.get(..HASH).unwrap_or_default();
        behind.get(HASH) == Some(&b'E') && hash.iter().all(u8::is_ascii_hexdigit)
    });
    let rust = rustc_demangle::try_demangle(name).ok()?;
    (has_hash || name.starts_with("_R")).then_some(rust)
}

/// A text that takes so much and no more.
#[derive(Default)]
struct Bounded {
    text: String,
    /// How often something was written, be it nothing.
    writes: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        self.writes += 1;
        if self.text.len() + more.len() > LONGEST || self.writes > LONGEST {
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
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

fn demangle_cpp(name: &str, text: &mut Bounded) -> Option<()> {
    if !name.starts_with("_Z") && !name.starts_with("___Z") {
        return None;
    }
    let parse = ParseOptions::default().recursion_limit(RECURSION_LIMIT);
    let symbol = Symbol::new_with_options(name, &parse).ok()?;
    let options = DemangleOptions::new().recursion_limit(RECURSION_LIMIT);
    symbol.structured_demangle(text, &options).ok()?;
    text.text = cut(wording::as_llvm(&text.text));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // Rust has named functions so, too, with a hash.
        assert_eq!(
            demangle("_ZN12_GLOBAL__N_16hiddenE"),
            "(anonymous namespace)::hidden"
        );
        assert_eq!(demangle("_ZNE"), "_ZNE");
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        assert_eq!(demangle(&deep), cut(deep));
    }

    /// A function whose parameters are each a pair of the one before, twice: each step doubles the name.
    fn doubling(steps: usize) -> String {
        let mut name = String::from("_Z1f1a1pIS_S_E");
        for digit in DIGITS[1..=steps].iter().map(|&digit| digit as char) {
            name.push_str(&format!("S0_IS{digit}_S{digit}_E"));
        }
        name
    }

    const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    /// Check that a name that would take gigabytes, or the time to write them, is left as it is, and that shorter ones
    /// of its kind are not.
    #[test]
    fn short_names_of_gigabytes() {
        let short = demangle(&doubling(4));
        assert_eq!(short.matches("p<").count(), 1 + 3 + 7 + 15 + 31);
        for steps in 10..35 {
            let name = doubling(steps);
            assert!(name.len() < 500);
            assert_eq!(demangle(&name), name, "{steps}");
        }
        // Back references of Rust's names: a tuple of the tuple before, twice.
        let mut rust = String::from("_RIC1fTuuE");
        let mut last = 5;
        for _ in 0..40 {
            let at = rust.len() - 2;
            let reference = format!("B{}_", char::from(DIGITS[last].to_ascii_lowercase()));
            rust.push_str(&format!("T{reference}{reference}E"));
            last = at % 36;
        }
        rust.push('E');
        assert!(demangle(&rust).len() <= LONGEST);
        // What the parser might try again and again, and refuses in the end.
        for part in ["1fI", "N1f", "XadL_Z1fI", "F", "PFI", "DpI1fI", "ZN1fI"] {
            for end in ["", "E", "v", "1a"] {
                let name = format!("_Z1f{}{end}", part.repeat(90));
                assert!(demangle(&name).len() <= LONGEST, "{part}");
            }
        }
        let long = "x".repeat(200 << 20);
        assert_eq!(demangle(&long).len(), LONGEST);
    }
}
