//! Compiling fixtures. What was built once is kept under target/, named after the command and the
//! sources, so that a changed source or flag is built anew.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    binary::{fixtures, root},
    configuration::{Compiler, Configuration, Link},
    program::{Metadata, Program},
};

/// What fixtures include.
const HEADERS: [&str; 4] = [
    "fixture.h",
    "libs/counter.h",
    "conduct/own_code.h",
    "conformance/conformance.h",
];
/// The linker of the programs that are optimized as a whole.
const LLD: &str = "--ld-path=/usr/bin/ld.lld-22";
/// The flags under which LLVM knows that another thread may write, without instrumenting anything.
const STRICT: [&str; 8] = [
    "-fsanitize=thread",
    "-tsan-instrument-memory-accesses=0",
    "-tsan-instrument-func-entry-exit=0",
    "-tsan-instrument-atomics=0",
    "-tsan-instrument-memintrinsics=0",
    "-enable-tail-merge=0",
    "-x86-promote-anyext-load=0",
    "-enable-interleaved-mem-accesses=0",
];

/// Programs with musl in the place of the system's C library, as Debian's `musl-dev` has it.
const MUSL: [&str; 7] = [
    "-nostdlib",
    "-nostdlibinc",
    "-isystem",
    "/usr/include/x86_64-linux-musl",
    "-Wl,-dynamic-linker,/lib/ld-musl-x86_64.so.1",
    "/usr/lib/x86_64-linux-musl/Scrt1.o",
    "/usr/lib/x86_64-linux-musl/crti.o",
];
const STATIC_MUSL: [&str; 6] = [
    "-nostdlib",
    "-nostdlibinc",
    "-isystem",
    "/usr/include/x86_64-linux-musl",
    "/usr/lib/x86_64-linux-musl/crt1.o",
    "/usr/lib/x86_64-linux-musl/crti.o",
];

/// Builds a program and returns the path of the executable.
///
/// # Errors
/// Says what the compiler said.
pub fn program(program: &Program, configuration: Configuration) -> Result<PathBuf> {
    let mut configuration = configuration;
    if program.dynamic {
        configuration.link = configuration.link.dynamic();
    }
    let mut command = if program.source.ends_with(".rs") {
        rustc(program, configuration)
    } else {
        clang(program, configuration)
    };
    if let Some(library) = &program.library {
        let path = shared_library(library, configuration)?;
        command.arg(&path);
        if let Some(directory) = path.parent() {
            command.arg(format!("-Wl,-rpath,{}", directory.display()));
        }
    }
    build(command, program.name())
}

/// The files with which [`program`] finds a program built that was built before, elsewhere: it, its source and what that includes.
///
/// # Errors
/// Says what the compiler said.
pub fn files(of: &Program, configuration: Configuration) -> Result<Vec<PathBuf>> {
    let mut files = vec![program(of, configuration)?, fixtures().join(of.source)];
    files.extend(HEADERS.map(|header| fixtures().join(header)));
    Ok(files)
}

/// Builds a shared library and returns its path.
///
/// # Errors
/// Says what the compiler said.
pub fn shared_library(library: &Program, configuration: Configuration) -> Result<PathBuf> {
    let mut command = clang(
        library,
        Configuration {
            link: Link::Pie,
            ..configuration
        },
    );
    command.args(["-shared", "-fPIC"]);
    build(command, &format!("lib{}.so", library.name()))
}

fn clang(program: &Program, configuration: Configuration) -> Command {
    let cplusplus = program.source.ends_with(".cpp");
    let compiler = match (program.metadata, configuration.compiler, cplusplus) {
        (Metadata::None, _, false) => "gcc",
        (Metadata::None, _, true) => "g++",
        (_, Compiler::Clang22, false) => "clang-22",
        (_, Compiler::Clang22, true) => "clang++-22",
        (_, Compiler::Clang16, false) => "clang-16",
        (_, Compiler::Clang16, true) => "clang++-16",
    };
    let mut command = Command::new(compiler);
    command.args(["-g", "-pthread", "-w", &format!("-O{}", configuration.opt)]);
    if cplusplus {
        command.arg("-std=c++17");
    }
    if program.broken {
        command.arg("-DBROKEN");
    }
    if program.metadata == Metadata::None {
        command.arg(fixtures().join(program.source));
        return command;
    }
    command.arg("-fexperimental-sanitize-metadata=atomics");
    command.args(program.flags);
    if configuration.native {
        command.arg("-march=native");
    }
    if configuration.lto {
        command.args(["-flto", LLD]);
    }
    command.args(match configuration.link {
        Link::Pie => ["-fPIE", "-pie"],
        Link::NoPie => ["-fno-pie", "-no-pie"],
        Link::Static => ["-fno-pie", "-static"],
        Link::StaticPie => ["-fPIE", "-static-pie"],
        Link::Musl => ["-fPIE", "-pie"],
        Link::StaticMusl => ["-fno-pie", "-static"],
    });
    command.args(match configuration.link {
        Link::Musl => &MUSL[..],
        Link::StaticMusl => &STATIC_MUSL[..],
        Link::Pie | Link::NoPie | Link::Static | Link::StaticPie => &[],
    });
    if program.metadata == Metadata::Strict {
        command.arg(STRICT[0]);
        for option in &STRICT[1..] {
            command.args(["-mllvm", option]);
        }
        // Only the compiler is to know of the sanitizer: its runtime is not linked.
        command.args(["-fno-sanitize-link-runtime"]);
        command.arg(fixtures().join("libs/tsan_init.c"));
    }
    command.arg(fixtures().join(program.source));
    if matches!(configuration.link, Link::Musl | Link::StaticMusl) {
        command.args(["-L/usr/lib/x86_64-linux-musl", "-lc"]);
        command.arg("/usr/lib/x86_64-linux-musl/crtn.o");
    }
    command
}

fn rustc(program: &Program, configuration: Configuration) -> Command {
    let mut command = Command::new("rustc");
    command.args([
        "--edition",
        "2024",
        "-g",
        "-C",
        &format!("opt-level={}", configuration.opt),
    ]);
    command.args(["-C", "passes=sanmd-module"]);
    command.args([
        "-C",
        "llvm-args=-sanitizer-metadata-covered -sanitizer-metadata-atomics",
    ]);
    if program.broken {
        command.args(["--cfg", "broken"]);
    }
    if configuration.native {
        command.args(["-C", "target-cpu=native"]);
    }
    if configuration.lto {
        command.args(["-C", "lto=fat"]);
    }
    match configuration.link {
        Link::Pie | Link::Musl => {}
        Link::NoPie => drop(command.args(["-C", "relocation-model=static"])),
        Link::StaticPie => drop(command.args(["-C", "target-feature=+crt-static"])),
        Link::Static | Link::StaticMusl => drop(command.args([
            "-C",
            "target-feature=+crt-static",
            "-C",
            "relocation-model=static",
        ])),
    }
    command.arg(fixtures().join(program.source));
    command
}

/// Runs a compiler unless it has run on these very sources before.
fn build(mut command: Command, name: &str) -> Result<PathBuf> {
    let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let mut key = DefaultHasher::new();
    command.get_program().hash(&mut key);
    words.hash(&mut key);
    for path in words.iter().map(Path::new).filter(|path| path.is_file()) {
        fs::read(path)?.hash(&mut key);
    }
    for header in HEADERS {
        fs::read(fixtures().join(header))?.hash(&mut key);
    }
    let directory = root().join(format!("target/fixtures/{:016x}", key.finish()));
    let built = directory.join(name);
    if built.is_file() {
        return Ok(built);
    }
    fs::create_dir_all(&directory)?;
    // Another test may build the same: each writes a file of its own, and the last one wins.
    let fresh = tempfile::Builder::new()
        .prefix(name)
        .tempdir_in(&directory)?;
    let output = fresh.path().join(name);
    command.arg("-o").arg(&output).stdin(Stdio::null());
    let said = command.output().with_context(|| {
        format!(
            "{:?} cannot be started: run `cargo xtask setup`",
            command.get_program()
        )
    })?;
    if !said.status.success() {
        bail!(
            "{command:?} failed:\n{}",
            String::from_utf8_lossy(&said.stderr)
        );
    }
    fs::rename(&output, &built)?;
    Ok(built)
}
