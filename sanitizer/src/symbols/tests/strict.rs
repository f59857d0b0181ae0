//! Which code is known to be compiled strictly.

use super::child::{sources, tool};
use super::layout::address;
use super::symbolizer_of;

/// Check that functions of an object which was compiled by the strict flags are told from those of another one, and that nothing is known without
/// symbols or of other compilers.
#[test]
fn objects_are_told_apart() {
    const STRICT: [&str; 2] = ["-fsanitize=thread", "-fno-sanitize-link-runtime"];
    const SHARED: [&str; 4] = ["-shared", "-fPIC", "-nostdlib", "-O2"];
    let dir = sources(&[
        ("strict.c", "int x; int strict(void) { return x; }"),
        ("plain.c", "extern int x; int plain(void) { return x; }"),
        ("stub.c", "void __tsan_init(void) {}"),
    ]);
    for compiler in ["clang-22", "clang-16"] {
        for (source, flags) in [("strict", &STRICT[..1]), ("plain", &[]), ("stub", &[])] {
            let (from, to) = (format!("{source}.c"), format!("{source}.o"));
            let mut arguments = vec!["-O2", "-g", "-fPIC", "-c", &from, "-o", &to];
            arguments.extend(flags);
            tool(dir.path(), compiler, &arguments);
        }
        let objects = ["strict.o", "plain.o", "stub.o", "-o", "both.so"];
        let arguments = [&SHARED[..], &STRICT[1..], &objects].concat();
        tool(dir.path(), compiler, &arguments);
        let program = dir.path().join("both.so");
        let symbolizer = symbolizer_of(&program);
        let is_strict = |name| symbolizer.is_strict(address(&program, name));
        assert_eq!(is_strict("strict"), compiler == "clang-22");
        assert!(!is_strict("plain") && !is_strict("__tsan_init"));
        let strict = address(&program, "strict");
        tool(
            dir.path(),
            "strip",
            &["--strip-unneeded", "both.so", "-o", "bare.so"],
        );
        assert!(!symbolizer_of(&dir.path().join("bare.so")).is_strict(strict));
    }
}
