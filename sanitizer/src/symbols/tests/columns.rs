//! Which instructions belong to no one place of the source.

use super::child::{sources, tool};
use super::layout::address;
use super::symbolizer_of;

const FIRST: &str = "int counter; void first(void) { counter++; }";
/// Both loads stand in one line: what is made of them has no column.
const SECOND: &str = "int other, more; int second(int *p, int way) { int r; if (way) { r = *p; other++; } else { r = *p; more++; } return r; }";

/// Check that units without columns are not judged by their neighbours that have some, and that those are.
#[test]
fn other_units() {
    for (compiler, dwarf) in [("clang-22", "-gdwarf-5"), ("clang-16", "-gdwarf-4")] {
        for split in [false, true] {
            let dir = sources(&[("first.c", FIRST), ("second.c", SECOND)]);
            let object = |source: &str, columns: &str, output: &str| {
                let mut flags = vec![dwarf, columns, "-O2", "-fPIC", "-c", source, "-o", output];
                if split {
                    flags.push("-gsplit-dwarf");
                }
                tool(dir.path(), compiler, &flags);
            };
            object("first.c", "-gno-column-info", "first.o");
            object("second.c", "-gcolumn-info", "second.o");
            let program = dir.path().join("both.so");
            tool(
                dir.path(),
                compiler,
                &["-shared", "first.o", "second.o", "-o", "both.so"],
            );
            let symbolizer = symbolizer_of(&program);
            let of = |name, offset| symbolizer.is_of_no_place(address(&program, name) + offset);
            assert_eq!(of("first", 0), Some(false), "{compiler} {split}");
            // The load is the only instruction that is of both ways.
            let second = (0..16).filter(|&offset| of("second", offset) == Some(true));
            assert_ne!(second.count(), 0, "{compiler} {split}");
        }
    }
}
