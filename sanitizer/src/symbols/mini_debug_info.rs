//! `.gnu_debugdata` (GDB manual, "Debugging information in a special section"): what distributions such as Fedora leave in stripped programs, an ELF file compressed by xz whose
//! `.symtab` has the functions that `.dynsym` has not.

use std::io::{self, Read as _, Write as _};

use lzma_rust2::XzReader;

use super::beside::{Beside, FileIdentity, Looked, Opened, Wanted};
use super::reader::Reader;

/// What it is decompressed to at most, in bytes: a million functions with names of usual length.
const MOST: u64 = 64 << 20;
/// Memory that decompressing may take, in KiB: four times what `xz` takes of a file that was compressed without options.
const MOST_MEMORY_KIB: u32 = 36 << 10;

/// The file in such a section; `None` where it is damaged, too large, or there is no place for it. `beside` has a file to write to.
pub(super) fn unpack(section: Reader, beside: &dyn Beside) -> Option<Opened> {
    let Looked::Found(Opened { mut file, .. }) = beside.look(&Wanted::Scratch) else {
        return None;
    };
    let mut source = XzReader::new_mem_limit(section, false, MOST_MEMORY_KIB).take(MOST + 1);
    let size = io::copy(&mut source, &mut file).ok()?;
    file.flush().ok()?;
    let mut identity = FileIdentity::default();
    identity.size = size;
    (size <= MOST).then_some(Opened { file, identity })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::symbols::beside::NothingBeside;

    fn packed(bytes: &[u8], options: &[&str]) -> Vec<u8> {
        let mut child = Command::new("xz")
            .args(["--stdout", "--format=xz"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("xz runs");
        let mut input = child.stdin.take().expect("its input");
        std::thread::scope(|scope| {
            scope.spawn(move || input.write_all(bytes));
            child.wait_with_output().expect("it ends").stdout
        })
    }

    fn unpacked(bytes: Vec<u8>) -> Option<Vec<u8>> {
        let opened = unpack(Reader::of_bytes(bytes.into()), &NothingBeside)?;
        let mut text = vec![0; usize::try_from(opened.identity.size).expect("it is small")];
        opened
            .file
            .read_exact_at(&mut text, 0)
            .expect("it is there");
        Some(text)
    }

    /// Check that what `xz` has written is read, that of damaged bytes nothing is, without a panic, and that neither a bomb nor a dictionary of
    /// hundreds of megabytes takes more than is allowed.
    #[test]
    fn damaged_and_huge() {
        let text: Vec<u8> = (0..100_000_u32)
            .flat_map(|n| (n % 1013).to_le_bytes())
            .collect();
        let whole = packed(&text, &[]);
        assert!(whole.len() * 4 < text.len());
        assert_eq!(unpacked(whole.clone()).as_ref(), Some(&text));
        assert_eq!(unpacked(packed(&text, &["--check=none", "-9"])), None);
        for len in [0, 1, 6, 11, 12, 30, whole.len() / 2, whole.len() - 40] {
            assert_eq!(unpacked(whole[..len].to_vec()), None, "{len}");
        }
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..200 {
            let mut damaged = whole.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..damaged.len());
                damaged[at] ^= random.u8(1..);
            }
            let _ = unpacked(damaged);
        }
        let bomb = packed(&vec![0; 65 << 20], &[]);
        assert!(bomb.len() < 64 << 10);
        assert_eq!(unpacked(bomb), None);
    }
}
