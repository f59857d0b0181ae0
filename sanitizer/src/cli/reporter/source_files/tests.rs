//! Files that the program may read and those that it may not, however it names them.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::{Duration, Instant},
};

use nix::{
    sys::stat::Mode,
    unistd::{Uid, chown, geteuid, mkfifo},
};

use super::*;
use crate::{kernel::foreign::Via, report::Race, symbols::ModuleInfo, tracee::testing::Child};

/// Whoever runs the program.
const USER: u32 = 1234;
/// No process has this id, as if it had ended.
const ENDED: u32 = i32::MAX.cast_unsigned();
const SECRET: &str = "secret";

fn rights(user: u32) -> FileRights {
    FileRights {
        user,
        group: user,
        ..FileRights::default()
    }
}

/// The address space of a program that names files in our root.
fn symbolizer() -> Symbolizer {
    let mut symbolizer = Symbolizer::new();
    symbolizer.add_module(&ModuleInfo {
        via: Via::Root {
            id: std::process::id(),
            path: std::env::current_exe().unwrap(),
        },
        start: 0x1000,
        end: 0x2000,
        ..ModuleInfo::default()
    });
    symbolizer
}

/// A folder that everybody may search.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The second line of a file as process `pid` would see it.
fn second_line(
    files: &mut SourceFiles,
    pid: u32,
    path: impl AsRef<Path>,
) -> Result<String, &'static str> {
    let symbolizer = symbolizer();
    let source = symbolizer.source_at(0x1000).unwrap();
    let path = path.as_ref().to_str().unwrap();
    let excerpt = files.excerpt(pid, source, path, 2)?;
    Ok(excerpt.lines[1].text.clone())
}

/// Check that a program has nothing shown that it could not read itself, in whichever way its debug information names it: files of others, by links and
/// in folders of others, FIFOs, devices, interfaces of the kernel; and that its own files are shown.
#[test]
fn nothing_is_shown_that_the_program_could_not_read() {
    if !geteuid().is_root() {
        println!("only root could read more than the program");
        return;
    }
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let text = format!("one\n{SECRET}\nthree\n");
    write(&at("open"), "one\nopen\n", 0o644);
    write(&at("roots"), &text, 0o600);
    write(&at("his"), "one\nhis\n", 0o600);
    chown(&at("his"), Some(Uid::from_raw(USER)), None).unwrap();
    fs::create_dir(at("closed")).unwrap();
    write(&at("closed/open"), &text, 0o644);
    fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    symlink(at("roots"), at("link")).unwrap();
    symlink("closed", at("folder-link")).unwrap();
    mkfifo(&at("fifo"), Mode::S_IRWXU | Mode::S_IRWXO).unwrap();
    let mut files = SourceFiles::new(SourceMap::default()).unwrap();
    files.set_rights(ENDED, Some(rights(USER)));
    for (name, expected) in [
        ("open", Ok("open")),
        ("his", Ok("his")),
        ("closed/../open", Ok("open")),
        ("roots", Err("forbidden")),
        ("link", Err("forbidden")),
        ("closed/open", Err("forbidden")),
        ("folder-link/open", Err("forbidden")),
        ("fifo", Err("unsuitable")),
        (".", Err("unsuitable")),
        ("none", Err("missing")),
        ("open/more", Err("missing")),
    ] {
        let line = second_line(&mut files, ENDED, at(name));
        assert_eq!(line.as_deref(), expected.as_ref().copied(), "{name}");
    }
    for name in [
        "/proc/self/status",
        "/proc/1/environ",
        "/dev/zero",
        "/sys/kernel/notes",
    ] {
        assert_eq!(
            second_line(&mut files, ENDED, name),
            Err("unsuitable"),
            "{name}"
        );
    }
    assert_eq!(second_line(&mut files, ENDED, "open"), Err("relative"));
    // This test could fail: whoever may read it has it shown.
    files.set_rights(ENDED, Some(rights(0)));
    let line = second_line(&mut files, ENDED, at("link"));
    assert_eq!(line.as_deref(), Ok(SECRET));
    files.forget(ENDED);
    assert_eq!(second_line(&mut files, ENDED, at("open")), Err("forbidden"));
}

/// Check that a program which has given up rights since its modules were looked at has nothing shown that it could read only then.
#[test]
fn rights_that_were_given_up() {
    if !geteuid().is_root() {
        return;
    }
    let child = Child::run(
        "#include <stdio.h>\n#include <unistd.h>\n#include <grp.h>\n\
         int main() { setgroups(0, 0); if (setgid(1234) || setuid(1234)) return 1;\n\
           puts(\"ready\"); fflush(stdout); pause(); }",
        &[],
    );
    child.wait_for_line("ready");
    let pid = child.pid().as_raw().cast_unsigned();
    let folder = folder();
    let [roots, open] = ["roots", "open"].map(|name| folder.path().join(name));
    write(&roots, "one\nsecret\n", 0o600);
    write(&open, "one\nopen\n", 0o644);
    let mut files = SourceFiles::new(SourceMap::default()).unwrap();
    files.set_rights(pid, Some(rights(0)));
    assert_eq!(second_line(&mut files, pid, &open).as_deref(), Ok("open"));
    assert_eq!(second_line(&mut files, pid, &roots), Err("forbidden"));
}

/// Check that a folder which becomes another one again and again while a file in it is opened leads to nothing that the program could not read.
#[test]
fn folders_that_are_swapped() {
    const TIME: Duration = Duration::from_millis(500);
    if !geteuid().is_root() {
        return;
    }
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    for (name, text, mode) in [
        ("his", "one\nopen\n", 0o644),
        ("roots", "one\nsecret\n", 0o600),
    ] {
        fs::create_dir(at(name)).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
        write(&at(name).join("file"), text, mode);
    }
    symlink("his", at("folder")).unwrap();
    let is_over = AtomicBool::new(false);
    let (mut shown, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut targets = ["roots", "his"].iter().cycle();
            while !is_over.load(SeqCst) {
                symlink(targets.next().unwrap(), at("next")).unwrap();
                fs::rename(at("next"), at("folder")).unwrap();
            }
        });
        let mut files = SourceFiles::new(SourceMap::default()).unwrap();
        files.set_rights(ENDED, Some(rights(USER)));
        let begin = Instant::now();
        while begin.elapsed() < TIME {
            match second_line(&mut files, ENDED, at("folder/file")) {
                Ok(line) if line == "open" => shown += 1,
                Err("forbidden") => refused += 1,
                other => {
                    is_over.store(true, SeqCst);
                    panic!("{other:?}");
                }
            }
        }
        is_over.store(true, SeqCst);
    });
    println!("{shown} shown, {refused} refused");
    assert!(shown + refused > 0);
}

/// Check that files in a folder of the user are opened with his rights, whatever the program may do, and that neither names nor links lead out of it.
#[test]
fn folders_of_the_user() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("app")).unwrap();
    write(&at("app/file"), "one\nhis\n", 0o600);
    write(&at("outside"), "one\nsecret\n", 0o600);
    symlink("../outside", at("app/up")).unwrap();
    symlink(at("outside"), at("app/absolute")).unwrap();
    symlink("file", at("app/link")).unwrap();
    mkfifo(&at("app/fifo"), Mode::S_IRWXU).unwrap();
    let map = |to: &Path| {
        let prefix = format!("/build={}", to.display()).parse().unwrap();
        SourceFiles::new(SourceMap::new(&[prefix]))
    };
    let mut files = map(&at("app")).unwrap();
    for (name, expected) in [
        ("/build/file", Ok("his")),
        ("/build/link", Ok("his")),
        ("/build/obj/../file", Ok("his")),
        ("/build/up", Err("missing")),
        ("/build/absolute", Err("missing")),
        ("/build/fifo", Err("unsuitable")),
        // That is no name below the folder any more, and the program's rights are not known.
        ("/build/../outside", Err("forbidden")),
    ] {
        let line = second_line(&mut files, ENDED, name);
        assert_eq!(line.as_deref(), expected.as_ref().copied(), "{name}");
    }
    assert!(map(&at("none")).is_err());
    assert!(map(&at("app/file")).is_err());
}

/// Check that the source is added to the innermost frame of the user's own code alone, and that a file which is newer than the program is said to have changed.
#[test]
fn frames_get_their_source() {
    let folder = folder();
    let file = folder.path().join("file.c");
    write(&file, "one\ntwo\nthree\nfour\n", 0o644);
    let mut race = crate::report::sample::race();
    race.pid = ENDED;
    for access in &mut race.accesses {
        for frame in &mut access.stack {
            frame.pc = crate::report::Hex(0x1000);
            frame.file = Some(file.to_str().unwrap().to_owned());
            frame.line = Some(3);
            frame.source = None;
        }
    }
    let mut files = SourceFiles::new(SourceMap::default()).unwrap();
    let symbolizer = symbolizer();
    let sources = |race: &Race| {
        let stacks = race.accesses.each_ref().map(|access| access.stack.clone());
        stacks.map(|stack| {
            stack
                .into_iter()
                .map(|frame| frame.source)
                .collect::<Vec<_>>()
        })
    };
    files.add_to(&mut race, &symbolizer);
    let all = sources(&race);
    assert!(all.iter().flatten().all(Option::is_none), "{all:?}");
    let own = file_rights(Pid::this()).unwrap();
    files.set_rights(race.pid, own);
    files.add_to(&mut race, &symbolizer);
    let [stalled, racing] = sources(&race);
    let excerpt = stalled[0].as_ref().unwrap();
    let lines: Vec<_> = excerpt
        .lines
        .iter()
        .map(|line| (line.line, line.text.as_str()))
        .collect();
    assert_eq!(lines, [(2, "two"), (3, "three"), (4, "four")]);
    assert!(excerpt.changed);
    assert!(stalled[1..].iter().all(Option::is_none) && racing[0].is_some());
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1);
    File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(old)
        .unwrap();
    files.add_to(&mut race, &symbolizer);
    assert!(!sources(&race)[0][0].as_ref().unwrap().changed);
}
