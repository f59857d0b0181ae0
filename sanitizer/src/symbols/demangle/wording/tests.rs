//! Names in the words of LLVM's demangler, against those words.

use std::io::Write as _;
use std::process::{Command, Stdio};

use object::{Object as _, ObjectSymbol as _};

use super::super::demangle;
use super::as_llvm;

/// Check each mend, on texts as the library has them.
#[test]
fn each_mend() {
    for (library, llvm) in [
        ("f<a<b<int> > >(c<d<e> >)", "f<a<b<int>>>(c<d<e>>)"),
        (
            "v<(unsigned int)3, (unsigned long)0, (long)-7, (char)65>",
            "v<3u, 0ul, -7l, (char)65>",
        ),
        (
            "m<llvm::Function, >::f(, int, )",
            "m<llvm::Function>::f(int)",
        ),
        ("f<>(&&)", "f<>()"),
        ("f<int>(int, &&, long)", "f<int>(int, long)"),
        (
            "f(char const (&) [16], int (*) [2])",
            "f(char const (&) [16], int (*) [2])",
        ),
        (
            "f(std::function<a::b(c, d*)>)",
            "f(std::function<a::b (c, d*)>)",
        ),
        (
            "s<&a::b() const, &a::c(int)>",
            "s<&a::b() const, &a::c(int)>",
        ),
        ("t<f(int)::g>", "t<f(int)::g>"),
        (
            "a::f(int)::{lambda(b, c&)#1}::operator()(b, c&) const",
            "a::f(int)::'lambda'(b, c&)::operator()(b, c&) const",
        ),
        ("f()::{lambda()#3}", "f()::'lambda1'()"),
        ("f()::{unnamed type#1}", "f()::'unnamed'"),
        ("std::operator<< <int>(a, b)", "std::operator<<<int>(a, b)"),
        ("operator>><a<b> >(c)", "operator>><a<b>>(c)"),
        ("operator-><a>", "operator-><a>"),
        (
            "f(a&::b, c const::d*, e*::g&)",
            "f(a::b&, c::d const*, e::g*&)",
        ),
        ("f() [clone .part.0] [clone .cold]", "f() (.part.0.cold)"),
        ("{vtable(a::b<c<d> >)}", "vtable for a::b<c<d>>"),
        (
            "{virtual override thunk({offset(-32)}, a::f(int))}",
            "non-virtual thunk to a::f(int)",
        ),
        (
            "{virtual override thunk({virtual offset(0, -24)}, a::~a())}",
            "virtual thunk to a::~a()",
        ),
    ] {
        assert_eq!(as_llvm(library), llvm, "{library}");
    }
}

/// Check that no text ends it or makes it much longer: these are from files that nobody trusts.
#[test]
fn any_text() {
    let pieces = [
        "<",
        ">",
        "(",
        ")",
        "{lambda(",
        "{unnamed type#",
        "#",
        "}",
        "operator",
        "&",
        "*",
        "::",
        ", ",
        ",",
        " const",
        "é",
        "1",
        "a",
        "[clone .",
        "]",
        " ",
        "{vtable(",
        "(unsigned int)",
        "{virtual override thunk({offset(",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let text: String = (0..random.usize(..24))
            .map(|_| pieces[random.usize(..pieces.len())])
            .collect();
        assert!(as_llvm(&text).len() <= 2 * text.len() + 16, "{text}");
    }
}

/// Check ten thousand names of large libraries against LLVM's own demangler. Where the library leaves something out, of packs of parameters say, nothing can be mended: that
/// is so for less than two in a hundred.
#[test]
fn ten_thousand_names() {
    let mut names = Vec::new();
    for path in [
        "/usr/lib/llvm-22/lib/libLLVM.so.1",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/lib/llvm-16/lib/libc++.so.1",
    ] {
        let file = std::fs::read(path).unwrap_or_else(|cause| {
            panic!("{path}: {cause}; `cargo xtask test` installs what has it")
        });
        let file = object::File::parse(&*file).unwrap();
        let of_file = file
            .dynamic_symbols()
            .filter_map(|symbol| Some(symbol.name().ok()?.to_owned()));
        names.extend(of_file.filter(|name| name.starts_with("_Z")));
    }
    names.sort_unstable();
    names.dedup();
    let mut random = fastrand::Rng::with_seed(1);
    random.shuffle(&mut names);
    names.truncate(10_000);
    assert_eq!(names.len(), 10_000);

    let mut child = Command::new("llvm-cxxfilt-22")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("llvm-cxxfilt-22, which `cargo xtask test` installs");
    let mut stdin = child.stdin.take().unwrap();
    let input = names.join("\n");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let theirs = String::from_utf8(output.stdout).unwrap();
    let theirs: Vec<&str> = theirs.lines().collect();
    assert_eq!(theirs.len(), names.len());

    let differ: Vec<_> = names
        .iter()
        .zip(theirs)
        .filter(|(name, theirs)| demangle(name) != *theirs)
        .collect();
    for (name, theirs) in differ.iter().take(5) {
        println!("{name}\n  {}\n  {theirs}", demangle(name));
    }
    println!("{} of {} names differ", differ.len(), names.len());
    assert!(differ.len() * 100 < names.len() * 2);
}
