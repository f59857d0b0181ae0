//! Machine code for tests, made by the compilers that users have.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

/// Assembles Intel syntax; the bytes of `.text`.
pub(super) fn assemble(source: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let object = dir.path().join("a.o");
    let mut clang = Command::new("clang-22")
        .args(["-c", "-x", "assembler", "-", "-o"])
        .arg(&object)
        .stdin(Stdio::piped())
        .spawn()
        .expect("clang-22 is installed");
    write!(
        clang.stdin.take().expect("stdin is piped"),
        ".intel_syntax noprefix\n.text\n{source}\n"
    )
    .expect("clang reads its input");
    assert!(
        clang.wait().expect("clang runs").success(),
        "does not assemble: {source}"
    );
    let bytes = std::fs::read(&object).expect("the object file is there");
    let file = object::File::parse(&*bytes).expect("the object file parses");
    let text = file.section_by_name(".text").expect("there is a .text");
    text.data().expect(".text has bytes").to_vec()
}

/// Compiles a C program or object; the path lives as long as `dir`.
pub(super) fn compile(compiler: &str, flags: &[&str], source: &str, dir: &Path) -> PathBuf {
    let input = dir.join("input.c");
    let output = dir.join("output");
    std::fs::write(&input, source).expect("the source can be written");
    let status = Command::new(compiler)
        .args(flags)
        .arg(&input)
        .arg("-o")
        .arg(&output)
        .status()
        .expect("the compiler is installed");
    assert!(status.success(), "{compiler} {flags:?} fails on {source}");
    output
}

/// A function as the symbol table has it.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) code: Vec<u8>,
}

/// Name, address and size of the data objects in a file's symbol table, by address.
pub(super) fn objects(path: &Path) -> Vec<(String, u64, u64)> {
    let bytes = std::fs::read(path).expect("the file is there");
    let file = object::File::parse(&*bytes).expect("the file parses");
    let mut objects: Vec<(String, u64, u64)> = file
        .symbols()
        .filter(|symbol| symbol.kind() == object::SymbolKind::Data && symbol.size() > 0)
        .filter_map(|symbol| {
            Some((
                symbol.name().ok()?.to_owned(),
                symbol.address(),
                symbol.size(),
            ))
        })
        .collect();
    objects.sort_by_key(|object| object.1);
    objects
}

/// All functions with a size in a file's symbol tables, by address.
pub(super) fn functions(path: &Path) -> Vec<Function> {
    let bytes = std::fs::read(path).expect("the file is there");
    let file = object::File::parse(&*bytes).expect("the file parses");
    let mut functions: Vec<Function> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0)
        .filter_map(|symbol| {
            let section = file.section_by_index(symbol.section_index()?).ok()?;
            let code = section.data_range(symbol.address(), symbol.size()).ok()??;
            Some(Function {
                name: symbol.name().ok()?.to_owned(),
                start: symbol.address(),
                code: code.to_vec(),
            })
        })
        .collect();
    functions.sort_by_key(|function| (function.start, function.code.len()));
    functions.dedup_by_key(|function| function.start);
    functions
}
