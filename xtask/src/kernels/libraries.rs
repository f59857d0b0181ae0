//! The shared libraries that a program needs, and its loader, as ldd(1) tells them.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

/// All of them; none of a program that is linked statically, or of a file that is no program.
pub fn of(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .context("starting ldd")?;
    if !output.status.success() {
        return Ok(Vec::new());
    }
    parse(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("the libraries of {}", program.display()))
}

fn parse(text: &str) -> Result<Vec<PathBuf>> {
    let mut libraries = Vec::new();
    for line in text.lines() {
        if line.contains("=> not found") {
            bail!("missing here: {}", line.trim());
        }
        // `name => path (address)`, or `path (address)`; the vdso is no file.
        let words = line.split_whitespace();
        libraries.extend(
            words
                .filter(|word| word.starts_with('/'))
                .map(PathBuf::from),
        );
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that libraries and the loader are found, and what is missing is told.
    #[test]
    fn what_ldd_tells() {
        let text = "\tlinux-vdso.so.1 (0x00007f35)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f36)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f37)\n";
        let expected = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(parse(text).unwrap(), expected.map(PathBuf::from));
        assert_eq!(
            parse("\tstatically linked\n").unwrap(),
            [""; 0].map(PathBuf::from)
        );
        assert!(parse("\tlibnone.so => not found\n").is_err());
    }
}
