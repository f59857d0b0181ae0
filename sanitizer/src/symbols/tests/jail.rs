//! Programs that name files outside of their root.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::super::DebugDirs;
use super::child::{sources, tool};
use super::{ModuleInfo, Symbolizer};
use crate::kernel::foreign::testing::Opens;
use crate::tracee::Modules;
use crate::tracee::testing::Child;

const PROGRAM: &str = "#include <stdio.h>\n#include <unistd.h>\n\
    int main() { printf(\"%p\\n\", (void *)main); fflush(stdout); pause(); }\n";

/// A program whose debug information is in a file that it names by an absolute path: `outside/unit.dwo`.
fn build(dir: &Path) {
    fs::create_dir(dir.join("outside")).expect("create");
    fs::create_dir(dir.join("jail")).expect("create");
    let outside = dir.join("outside");
    let comp_dir = format!("-fdebug-compilation-dir={}", outside.display());
    let output = outside.join("unit.dwo");
    let output = output.to_str().expect("a name");
    let flags = ["-c", "-g", "-gsplit-dwarf", "program.c", &comp_dir];
    let names = [
        "-Xclang",
        "-split-dwarf-file",
        "-Xclang",
        "./unit.dwo",
        "-Xclang",
        "-split-dwarf-output",
        "-Xclang",
        output,
    ];
    tool(dir, "clang-22", &[&flags[..], &names].concat());
    let link = ["-static", "-g", "-Wl,--build-id=sha1", "program.o", "-o"];
    tool(dir, "clang-22", &[&link[..], &["jail/program"]].concat());
}

/// The function in which a child says that it is, by the symbols of its program.
fn function_of(child: &Child, debug_dirs: DebugDirs) -> Option<String> {
    let line = child.read_line();
    let main = u64::from_str_radix(line.trim().trim_start_matches("0x"), 16).expect("an address");
    let modules = Modules::scan(child.pid()).expect("modules");
    let program = modules.program().expect("a program");
    let mut symbolizer = Symbolizer::reading(debug_dirs);
    symbolizer.add_module(&ModuleInfo {
        path: program.path.to_string_lossy().into_owned(),
        via: program.via.clone(),
        start: program.start.0,
        end: program.end.0,
        bias: program.bias,
        build_id: Vec::new(),
    });
    symbolizer.frames(main).remove(0).function
}

/// Folders where the program is.
fn there(dirs: &[&str]) -> DebugDirs {
    DebugDirs::there(dirs.iter().map(Into::into).collect())
}

fn jailed(dir: &Path) -> Command {
    let mut command = Command::new("unshare");
    if !nix::unistd::Uid::effective().is_root() {
        command.arg("--map-root-user");
    }
    command.arg("--root").arg(dir.join("jail")).arg("/program");
    command
}

/// Check that the split debug information that a program names is opened where the program is, and nowhere else.
#[test]
fn split_units_of_jailed_programs() {
    let dir = sources(&[("program.c", PROGRAM)]);
    build(dir.path());
    let mut opens = Opens::of(&dir.path().join("outside"));
    // In its own root that is the file it means.
    let free = Command::new(dir.path().join("jail/program"));
    let free = Child::start(tempfile::tempdir().expect("a folder"), free);
    assert_eq!(function_of(&free, there(&[])).as_deref(), Some("main"));
    assert_eq!(opens.take(), ["unit.dwo"]);
    let held = Child::start(tempfile::tempdir().expect("a folder"), jailed(dir.path()));
    // By its symbol table.
    assert_eq!(function_of(&held, there(&[])).as_deref(), Some("main"));
    assert_eq!(opens.take(), Vec::<OsString>::new());
}

/// Check that debug files are looked for in the root of the program only, and that a link there does not lead out of it.
#[test]
fn debug_files_of_jailed_programs() {
    let dir = sources(&[("program.c", PROGRAM)]);
    build(dir.path());
    let jail = dir.path().join("jail");
    tool(
        &jail,
        "objcopy",
        &["--only-keep-debug", "program", "../outside/debug"],
    );
    tool(&jail, "objcopy", &["--strip-all", "program"]);
    let id = super::super::elf_file::ElfFile::open(&jail.join("program"))
        .expect("a program")
        .build_id()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    let name = format!("debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    let link = jail.join(&name);
    fs::create_dir_all(link.parent().expect("a folder")).expect("create");
    symlink(dir.path().join("outside/debug"), &link).expect("link");
    let mut opens = Opens::of(&dir.path().join("outside"));
    let start = || Child::start(tempfile::tempdir().expect("a folder"), jailed(dir.path()));
    assert_eq!(function_of(&start(), there(&["/debug"])), None);
    // Nor by the folder's name outside.
    let outer = jail.join("debug");
    let outer = outer.to_str().expect("a name");
    assert_eq!(function_of(&start(), there(&[outer])), None);
    assert_eq!(opens.take(), Vec::<OsString>::new());
    // What the user names is outside, and a link in it leads nowhere else.
    let named = dir.path().join("named");
    let entry = named.join(&name["debug/".len()..]);
    fs::create_dir_all(entry.parent().expect("a folder")).expect("create");
    symlink(dir.path().join("outside/debug"), &entry).expect("link");
    let of_user = || DebugDirs::of_user(std::slice::from_ref(&named)).expect("a folder");
    assert_eq!(function_of(&start(), of_user()), None);
    assert_eq!(opens.take(), Vec::<OsString>::new());
    fs::remove_file(&entry).expect("remove");
    fs::copy(dir.path().join("outside/debug"), &entry).expect("copy");
    assert_eq!(function_of(&start(), of_user()).as_deref(), Some("main"));
    opens.take();
    // What is in the jail is found there.
    fs::remove_file(&link).expect("remove");
    fs::copy(dir.path().join("outside/debug"), &link).expect("copy");
    assert_eq!(
        function_of(&start(), there(&["/debug"])).as_deref(),
        Some("main")
    );
}
