//! Why a program could not be executed, beyond what the kernel says: that no such file is there may be about the program, or about the
//! interpreter that it names (execve(2), ENOENT). Nobody is waited for: what is in a file system that a process serves is not looked
//! at, which had an answer for the execution, but need not have another one.

use std::{
    ffi::OsStr,
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use object::{
    Endianness, elf,
    read::elf::{FileHeader, ProgramHeader as _},
};

use crate::kernel::foreign::{ForeignError, ForeignFile, Purpose, Root};

/// So much of a file is looked at: the kernel itself reads less of a script's first line (`BINPRM_BUF_SIZE`), and program headers stand
/// at the beginning of a file.
const HEAD: u64 = 64 * 1024;

/// What to do after a program could not be executed for this reason.
pub(super) fn mend(program: &OsStr, error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::NotFound {
        return "make it an executable of this machine".to_owned();
    }
    let Some(path) = found(program) else {
        return "check its name".to_owned();
    };
    match interpreter(&path) {
        Some((interpreter, is_script)) if Place::of(&interpreter).is_empty() => {
            let where_from = if is_script {
                "its first line names"
            } else {
                "it was linked to be loaded by"
            };
            let mend = if is_script {
                "mend that line, or install the interpreter"
            } else {
                "install the C library that it is for, or link it for this system"
            };
            let interpreter = interpreter.display();
            let hint = if is_script && interpreter.to_string().ends_with('\r') {
                " (that line ends with a carriage return, which is taken for a part of the name)"
            } else {
                ""
            };
            format!(
                "{} is there, but {where_from} {interpreter}, which is not{hint}; {mend}",
                path.display()
            )
        }
        _ => format!(
            "{} is there, but something that it needs to be executed is not; execute it without gwp-race to see",
            path.display()
        ),
    }
}

/// What is in a place.
enum Place {
    File(ForeignFile),
    /// Something else, or something that is not looked at.
    Other,
    Nothing,
}

impl Place {
    fn of(path: &Path) -> Self {
        let file = std::path::absolute(path)
            .ok()
            .zip(Root::ours().ok())
            .map(|(path, root)| root.file(&path, Purpose::Promptly));
        match file {
            Some(Ok(file)) => Self::File(file),
            Some(Err(ForeignError::Call(_))) => Self::Nothing,
            Some(Err(_)) | None => Self::Other,
        }
    }

    const fn is_empty(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

/// The file that the program's name stands for, as execvp(3) finds it; nothing where there is none.
fn found(program: &OsStr) -> Option<PathBuf> {
    let is_there = |path: &PathBuf| !Place::of(path).is_empty();
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(is_there);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|path| matches!(Place::of(path), Place::File(_)))
}

/// What the kernel executes in the place of a file, or to load it, and whether the file is a script.
fn interpreter(path: &Path) -> Option<(PathBuf, bool)> {
    let mut head = Vec::new();
    let Place::File(file) = Place::of(path) else {
        return None;
    };
    let file = file.open().ok()?;
    file.take(HEAD).read_to_end(&mut head).ok()?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next()?;
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t'));
        let name = words.find(|word| !word.is_empty())?;
        return Some((PathBuf::from(OsStr::from_bytes(name)), true));
    }
    let name = linked_interpreter::<elf::FileHeader64<Endianness>>(&head)
        .or_else(|| linked_interpreter::<elf::FileHeader32<Endianness>>(&head))?;
    Some((PathBuf::from(OsStr::from_bytes(&name)), false))
}

/// The dynamic loader that an ELF file names (`PT_INTERP` of elf(5)).
fn linked_interpreter<H: FileHeader<Endian = Endianness>>(head: &[u8]) -> Option<Vec<u8>> {
    let header = H::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let mut segments = header.program_headers(endian, head).ok()?.iter();
    segments.find_map(|segment| {
        let name = segment.interpreter(endian, head).ok()??;
        Some(name.to_vec())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is to be done after a file with this content could not be executed, since the kernel said this.
    fn tried(content: &[u8], said: i32) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, content).unwrap();
        mend(path.as_os_str(), &io::Error::from_raw_os_error(said))
    }

    /// Check that it is told what is missing of scripts and of programs, and that a name is only doubted where nothing is there.
    #[test]
    fn what_is_missing_is_told() {
        let script = tried(b"#! /missing/interpreter -u\nexit\n", libc::ENOENT);
        assert!(script.contains("names /missing/interpreter, "), "{script}");
        let windows = tried(b"#!/bin/sh\r\nexit\n", libc::ENOENT);
        assert!(windows.contains("carriage return"), "{windows}");
        let mut program = fs::read("/bin/true").unwrap();
        let loader = b"/lib64/ld-linux-x86-64.so.2";
        let at = program.windows(loader.len()).position(|it| it == loader);
        program[at.unwrap() + 1] = b'X';
        let program = tried(&program, libc::ENOENT);
        assert!(
            program.contains("loaded by /Xib64/ld-linux-x86-64.so.2, which is not"),
            "{program}"
        );
        let nothing = io::Error::from_raw_os_error(libc::ENOENT);
        for name in ["/missing/program", "no-program-of-this-name"] {
            assert_eq!(mend(OsStr::new(name), &nothing), "check its name");
        }
        let no_program = tried(b"\x7fELF", libc::ENOEXEC);
        assert!(no_program.contains("of this machine"), "{no_program}");
    }
}
