//! Check of how the sources are laid out: modules of a folder import each other in one direction, and no file is too long.
//!
//! The rule about imports: of the modules of a folder, each with all that is below it, none imports from one that imports from it, directly or
//! by others. What a module imports from a folder that it is itself in (the types that its parent lends it), and a parent from its own
//! children, does not count: they are one thing in several files. A name that a module only passes on (`pub use`) counts as that
//! of the module that defines it.

mod circles;
mod tokens;
mod tree;

use std::{collections::BTreeSet, path::Path};

use crate::paths;

use tree::Tree;

/// Lines of a file, without its tests.
const LONGEST: usize = 400;

/// The files with which crates and programs begin.
const ROOTS: [&str; 11] = [
    "sanitizer/src/lib.rs",
    "sanitizer/src/main.rs",
    "sanitizer/src/faulty.rs",
    "sanitizer-ebpf/src/lib.rs",
    "sanitizer-ebpf/src/main.rs",
    "sanitizer-ebpf/src/descent/main.rs",
    "sanitizer-ebpf/src/discovery/main.rs",
    "sanitizer-ebpf/src/probes/main.rs",
    "xtask/src/main.rs",
    "tests/src/lib.rs",
    "tests/kernels/main.rs",
];

/// Crates whose modules are layered.
const LAYERED: [&str; 2] = ["sanitizer/src/lib.rs", "sanitizer-ebpf/src/lib.rs"];

fn read(root: &str) -> Tree {
    let file = paths::root().join(root);
    Tree::read(&file).unwrap_or_else(|error| panic!("{root}: {error:#}"))
}

/// Check that modules import each other in one direction.
#[test]
fn imports_form_no_circles() {
    for root in LAYERED {
        let circles = circles::of(&read(root));
        assert!(circles.is_empty(), "{root}:\n{}", circles.join("\n"));
    }
}

/// Check that files are short enough to be read at once.
#[test]
fn files_are_short() {
    let mut long = BTreeSet::new();
    for root in ROOTS {
        for module in read(root).modules.values() {
            let file = module.file.strip_prefix(paths::root());
            let file = file.unwrap_or(&module.file).to_string_lossy().into_owned();
            if module.lines > LONGEST {
                long.insert(file);
            }
        }
    }
    assert!(
        long.is_empty(),
        "over {LONGEST} lines without their tests: split them by concept: {long:#?}"
    );
}

/// A crate in a folder of its own, of these files.
fn made(name: &str, files: &[(&str, &str)]) -> Tree {
    let folder =
        std::env::temp_dir().join(format!("gwp-race-layout-{}-{name}", std::process::id()));
    for (file, text) in files {
        let file = folder.join(file);
        std::fs::create_dir_all(file.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let tree = Tree::read(&folder.join("lib.rs"));
    std::fs::remove_dir_all(folder).unwrap();
    tree.unwrap()
}

/// Check that circles are found through names that are passed on, paths outside of imports, and modules below; and that tests,
/// comments, texts, and what is between a parent and its children make none.
#[test]
fn circles_are_found() {
    let lib = ("lib.rs", "pub mod a;\nmod b;\nmod c;\npub use c::Deep;\n");
    let a = ("a.rs", "use crate::b::B;\n");
    for (name, b, is_circle) in [
        (
            "named",
            "use super::a::{self, A as Other};\npub struct B;",
            true,
        ),
        ("passed-on", "use crate::Deep;\npub struct B;", true),
        ("path", "pub struct B;\nfn f() { crate::a::f() }", true),
        (
            "comment",
            "pub struct B; // use crate::a::A;\n/* use crate::a::A; */",
            false,
        ),
        (
            "text",
            "pub struct B;\nconst T: &str = \"\nuse crate::a::A;\";\nconst R: &str = r#\"\" use crate::a::A;\"#;",
            false,
        ),
        (
            "test",
            "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
            false,
        ),
        (
            "test-file",
            "pub struct B;\n#[cfg(test)]\nmod tests;\n",
            false,
        ),
        (
            "test-import",
            "pub struct B;\n#[cfg(test)]\nuse crate::a::A;\n",
            false,
        ),
        (
            "lifetime",
            "pub struct B;\nfn f<'a>(_: &'a str) -> impl Sized + use<'a> { '\"' }",
            false,
        ),
    ] {
        let tree = made(
            name,
            &[
                lib,
                a,
                ("b.rs", b),
                ("b/tests.rs", "use crate::a::A;"),
                ("c/mod.rs", "mod d;\npub use d::Deep;\npub struct Lent;"),
                (
                    "c/d.rs",
                    "use super::Lent;\nuse crate::a::A;\npub struct Deep;",
                ),
            ],
        );
        let circles = circles::of(&tree);
        assert_eq!(!circles.is_empty(), is_circle, "{name}: {circles:#?}");
    }
}

/// Check that lines of tests do not count, wherever they are.
#[test]
fn tests_are_left_aside() {
    let code = "fn f() {}\n".repeat(3);
    let tree = made(
        "lines",
        &[
            (
                "lib.rs",
                &format!("mod a;\n{code}\n#[cfg(test)]\nmod tests {{\n    use super::*;\n}}\n"),
            ),
            ("a.rs", "#[cfg(test)]\nmod tests;\n"),
            ("a/tests.rs", &code),
        ],
    );
    let lines: Vec<_> = tree.modules.values().map(|module| module.lines).collect();
    assert_eq!(lines, [5, 2]);
}

/// Check that the examples that are built here exist: cargo tells nobody that one is gone.
#[test]
fn examples_exist() {
    let mut built = 0;
    for module in read("xtask/src/main.rs").modules.values() {
        let text = std::fs::read_to_string(&module.file).expect("a source");
        let mut strings = text.split('"').skip(1).step_by(2);
        while strings.any(|string| string == "--example") {
            let name = strings.next().expect("an example's name");
            let folder = paths::root().join("sanitizer/examples");
            let files = [format!("{name}.rs"), format!("{name}/main.rs")];
            let exists = files.iter().any(|file| folder.join(file).is_file());
            assert!(exists, "{name}, of {}", module.file.display());
            built += 1;
        }
    }
    assert!(built >= 4, "{built} are built");
}
