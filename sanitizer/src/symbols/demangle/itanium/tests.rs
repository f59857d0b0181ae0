//! Names in the words of LLVM's demangler, against those words.

use std::io::Write as _;
use std::process::{Command, Stdio};

use object::{Object as _, ObjectSymbol as _};

use super::super::demangle;

/// Libraries with names of all sorts.
const LIBRARIES: [&str; 2] = [
    "/usr/lib/llvm-22/lib/libLLVM.so.1",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
];

/// Check each kind of part, and names that refer to what is not there.
#[test]
fn each_part() {
    for (mangled, written) in [
        (
            "_Z1fIJiRKcEEvDpOT_",
            "void f<int, char const&>(int&&, char const&)",
        ),
        ("_Z1fIJEEvDpRKT_", "void f<>()"),
        ("_ZN1aIiE1bC1IlEEOT_", "a<int>::b::b<long>(long&&)"),
        ("_ZN1sIXtl1pLi1ELj2EEEE1fEv", "s<p{1, 2u}>::f()"),
        ("_Z1fIXtlA3_cLc97ELc10ELc0EEEEvv", "void f<\"a\\n\\0\">()"),
        ("_Z1fPFvRA4_iE", "f(void (*)(int (&) [4]))"),
        ("_Z1fM1aKFivES_", "f(int (a::*)() const, a)"),
        ("_ZNKR1acvT_IiEEv", "a::operator int<int>() const &"),
        (
            "_ZZ1fvENKUliE0_clEi",
            "f()::'lambda0'(int)::operator()(int) const",
        ),
        (
            "_ZZ1fvENKUlTyT_E_clIiEEDaS_",
            "auto f()::'lambda'<typename $T>($T)::operator()<int>($T) const",
        ),
        ("_ZNSs4swapERSs", "std::string::swap(std::string&)"),
        (
            "_ZNSsC1Ev",
            "std::basic_string<char, std::char_traits<char>, std::allocator<char>>::basic_string()",
        ),
        (
            "_ZTCSd0_Si",
            "construction vtable for std::istream-in-std::iostream",
        ),
        ("_ZThn8_N1a1fEv", "non-virtual thunk to a::f()"),
        ("_ZTv0_n24_N1aD1Ev", "virtual thunk to a::~a()"),
        ("_ZGVZ1fvE1x_0", "guard variable for f()::x"),
        ("_Z1fIiEDTplfp_Li1EET_", "decltype(fp + 1) f<int>(int)"),
        ("_Z1fILi1EEv1aIXgtT_Li0EEE", "void f<1>(a<(1 > 0)>)"),
        (
            "_Z1fIJLi1ELi2EEEv1aIXfrplT_EE",
            "void f<1, 2>(a<((1, 2) + ...)>)",
        ),
        (
            "_Z1fIJLi1ELi2EEEv1aIXsZT_EE",
            "void f<1, 2>(a<sizeof...(1, 2)>)",
        ),
        ("_Z1fIdLd3ff8000000000000EEvv", "void f<double, 0x1.8p+0>()"),
        ("_Z1fIfLf3fc00000EEvv", "void f<float, 0x1.8p+0f>()"),
        (
            "_ZN12_GLOBAL__N_11fEv.part.0.cold",
            "(anonymous namespace)::f() (.part.0.cold)",
        ),
        ("_Z1fB5cxx11v", "f[abi:cxx11]()"),
        ("_ZNW1mW1p1a1fEv", "a@m.p::f()"),
        ("_ZW1m1fv", "f@m()"),
        ("_Z1f", "f"),
        ("_Z1fS_", "_Z1fS_"),
        ("_Z1fT_", "_Z1fT_"),
        ("_Z1fS0_", "_Z1fS0_"),
        (
            "_Z1fIiEvDTnw_T_piLi1EEE",
            "void f<int>(decltype(new int(1)))",
        ),
        ("_Z1fIiEvDTcvT_Li3EE", "void f<int>(decltype((int)(3)))"),
        (
            "_Z1fIiEvDTscT_fp_E",
            "void f<int>(decltype(static_cast<int>(fp)))",
        ),
        (
            "_Z1fIiEvDTquT_Li1ELi2EE",
            "void f<int>(decltype(int ? 1 : 2))",
        ),
        ("_Z1fDv4_f", "f(float vector[4])"),
        ("_Z1fu11__remove_cvIiE", "f(__remove_cv(int))"),
        ("_Z1fIiQ1cITL0__EEvT_", "void f<int>(int)"),
        ("_Z1fITk1ciEvT_", "void f<int>(int)"),
        ("_ZN1a1bIiEUlvE_D1Ev", "a::b<int>::'lambda'()::~()"),
        (
            "___Z1fv_block_invoke_2",
            "invocation function for block in f()",
        ),
        ("_Z1fPU3AS1i", "f(int AS1*)"),
        ("_Z1fIXadL_Z1gvEEEvv", "void f<&g()>()"),
        ("_Z1fIXLDnEEEvv", "void f<nullptr>()"),
        ("_Z1fDF16_", "f(_Float16)"),
        ("_Z1fDB32_", "f(_BitInt(32))"),
        ("_Z1fPDoFvvE", "f(void (*)() noexcept)"),
        ("_Z1fIiEvDTsr1a1bE", "_Z1fIiEvDTsr1a1bE"),
        ("_Z1fIiEvDTsrT_1bE", "void f<int>(decltype(int::b))"),
        ("_ZN1aL1xE", "a::x"),
        ("_ZZN1a1fEiE1x", "a::f(int)::x"),
        ("_ZL1fv", "f()"),
    ] {
        assert_eq!(demangle(mangled), written, "{mangled}");
    }
}

/// What llvm-cxxfilt makes of names.
fn theirs(names: &[String]) -> Vec<String> {
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
    let theirs: Vec<String> = theirs.lines().map(str::to_owned).collect();
    assert_eq!(theirs.len(), names.len());
    theirs
}

fn names_of_libraries() -> Vec<String> {
    let mut names = Vec::new();
    for path in LIBRARIES {
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
    names
}

/// Checks names against LLVM's own demangler; prints the first that are written in other words. None was on 2026-11-27; one in a thousand may be, since libraries change.
fn compare(names: &[String]) {
    let theirs = theirs(names);
    let differ: Vec<_> = names
        .iter()
        .zip(&theirs)
        .filter(|(name, theirs)| demangle(name) != **theirs)
        .collect();
    for (name, theirs) in differ.iter().take(5) {
        println!("{name}\n  {}\n  {theirs}", demangle(name));
    }
    println!("{} of {} names differ", differ.len(), names.len());
    assert!(differ.len() * 1000 <= names.len());
}

/// Check all names of large libraries.
#[test]
fn names_of_large_libraries() {
    let names = names_of_libraries();
    assert!(names.len() > 50_000);
    compare(&names);
}

/// Check names that are damaged: nothing panics, and they are refused where LLVM's demangler refuses them.
#[test]
fn damaged_names() {
    /// Longer ones might be too long when they are written.
    const LONG: usize = 400;
    let names = names_of_libraries();
    let mut random = fastrand::Rng::with_seed(1);
    let mut damaged = Vec::new();
    while damaged.len() < 20_000 {
        let name = &names[random.usize(..names.len())];
        let other = &names[random.usize(..names.len())];
        let (before, after) = name.split_at(random.usize(2..name.len()));
        let from = random.usize(2..other.len());
        let piece = &other[from..(from + random.usize(1..8)).min(other.len())];
        let made = match random.u8(..3) {
            0 => format!("{before}{}", &after[1..]),
            1 => format!("{before}{piece}{after}"),
            _ => format!("{before}{}", &other[from..]),
        };
        if made.len() < LONG {
            damaged.push(made);
        }
    }
    compare(&damaged);
}

/// Check that no text ends it or is written at length: names are from files that nobody trusts.
#[test]
fn any_text() {
    const PIECES: [&str; 40] = [
        "S_", "S0_", "S1_", "T_", "T0_", "TL0__", "I", "E", "J", "X", "L", "Dp", "DT", "cv", "1f",
        "1a", "N", "Z", "K", "P", "R", "O", "F", "i", "v", "Ul", "_", "Tp", "Ty", "Tt", "sZ", "sr",
        "fp_", "fr", "pl", "Q", "rq", "tl", "A", "é",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut name = String::from("_Z");
        for _ in 0..random.usize(..60) {
            name.push_str(PIECES[random.usize(..PIECES.len())]);
        }
        assert!(demangle(&name).len() <= super::super::LONGEST);
    }
}
