//! Coverage points of real programs, against their symbols, and of bytes of any kind.

use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::image::Encoding;

proptest! {
    /// Check that points are read as they were written, and that a part of one is an error.
    #[test]
    fn what_is_written_is_read_back(
        written in prop::collection::vec(any::<(u64, u64)>(), 0..20),
        more in 0usize..16,
    ) {
        let mut bytes = Vec::new();
        for (pc, flags) in &written {
            bytes.extend(pc.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
        }
        let whole = bytes.len();
        bytes.resize(whole + more, 1);
        let section = RawSection { name: SECTION, address: LinkAddr(0), data: &bytes , encoding: Encoding::default()};
        match Coverage::decode(&[section], Path::new("the-file")) {
            Ok(coverage) => {
                prop_assert_eq!(more, 0);
                let found = coverage.points().iter().map(|point| (point.pc.0, point.flags));
                prop_assert!(found.eq(written));
            }
            Err(error) => {
                prop_assert_ne!(more, 0);
                let place = format!("the-file: section __sancov_pcs at offset {:#x}", whole + more / 8 * 8);
                prop_assert!(error.to_string().starts_with(&place), "{}", error);
            }
        }
    }
}

const SOURCE: &str = "void __sanitizer_cov_pcs_init(const void *a, const void *b) {}
    void __sanitizer_cov_8bit_counters_init(char *a, char *b) {}
    __attribute__((noinline)) int branch(int a) { if (a > 3) return a * a; return a / 3; }
    int main(int n, char **v) { return branch(n); }";

/// Check, in each form of linking, that each function has one entry, at its symbol, and that all
/// other points are within functions: the dynamic linker's part has been done.
#[test]
fn points_of_real_programs() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("a.c"), dir.path().join("a"));
    std::fs::write(&input, SOURCE).unwrap();
    for compiler in ["clang-16", "clang-22"] {
        for flags in [
            &["-pie", "-fPIE"][..],
            &["-no-pie", "-fno-pic"],
            &["-static"],
            &["-shared", "-fPIC"],
            &["-pie", "-fPIE", "-fuse-ld=lld-22"],
            &[
                "-pie",
                "-fPIE",
                "-fuse-ld=lld-22",
                "-Wl,-z,pack-relative-relocs",
            ],
        ] {
            let status = Command::new(compiler)
                .args([
                    "-O1",
                    "-fsanitize-coverage=bb,inline-8bit-counters,pc-table",
                ])
                .args(["-fno-sanitize-link-runtime"])
                .args(flags)
                .arg(&input)
                .arg("-o")
                .arg(&output)
                .status();
            assert!(
                status
                    .expect("compilers are needed: cargo xtask setup")
                    .success()
            );
            let image = Image::open(&output).unwrap();
            let coverage = Coverage::load(&image).unwrap();
            let what = format!("{compiler} {flags:?}: {:x?}", coverage.points());
            let symbols = image.functions();
            let functions: Vec<_> = (symbols.iter())
                .filter(|symbol| ["main", "branch"].contains(&symbol.name))
                .collect();
            assert_eq!(functions.len(), 2, "{what}");
            assert!(coverage.points().len() > 2, "{what}");
            let mut entries: Vec<_> = (coverage.points().iter())
                .filter(|point| point.is_function_entry())
                .map(|point| point.pc)
                .collect();
            entries.sort_unstable();
            let mut expected: Vec<_> = functions.iter().map(|symbol| symbol.address).collect();
            expected.sort_unstable();
            assert_eq!(entries, expected, "{what}");
            for point in coverage.points() {
                let is_within = |symbol: &&&crate::image::FunctionSymbol<'_>| {
                    point.pc.0.wrapping_sub(symbol.address.0) < symbol.size
                };
                assert!(functions.iter().any(|symbol| is_within(&symbol)), "{what}");
            }
        }
    }
}
