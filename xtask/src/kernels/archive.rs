//! The archive that a kernel unpacks into its memory when it starts: cpio in its form `newc`
//! (Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's sources).

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result};

const MAGIC: &str = "070701";
const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
/// The name after which nothing comes.
const TRAILER: &str = "TRAILER!!!";
/// Headers and contents begin at multiples of this.
const ALIGNMENT: usize = 4;

/// An archive that is being made.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    directories: BTreeSet<String>,
}

impl Archive {
    /// Adds a file below the directories that its absolute path names.
    pub fn add(&mut self, path: &Path, contents: &[u8], is_program: bool) -> Result<()> {
        let path = path.to_str().context("a path that is not UTF-8")?;
        let name = path.trim_start_matches('/');
        for (end, _) in name.match_indices('/') {
            self.add_directory(name.get(..end).unwrap_or_default())?;
        }
        let mode = if is_program { PROGRAM } else { FILE };
        self.entry(name, mode, contents)
    }

    fn add_directory(&mut self, name: &str) -> Result<()> {
        if self.directories.insert(name.to_owned()) {
            self.entry(name, DIRECTORY, &[])?;
        }
        Ok(())
    }

    /// Its bytes.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.entry(TRAILER, 0, &[])?;
        Ok(self.bytes)
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) -> Result<()> {
        self.entries += 1;
        let size = u32::try_from(contents.len()).context("a file of more than 4 GiB")?;
        let name_size = u32::try_from(name.len() + 1)?;
        self.bytes.extend(MAGIC.as_bytes());
        // c_ino, c_mode, c_uid, c_gid, c_nlink, c_mtime, c_filesize, c_maj, c_min, c_rmaj, c_rmin, c_namesize, c_chksum
        for field in [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            0,
            0,
            name_size,
            0,
        ] {
            self.bytes.extend(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(contents);
        self.align();
        Ok(())
    }

    fn align(&mut self) {
        let length = self.bytes.len().next_multiple_of(ALIGNMENT);
        self.bytes.resize(length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mode and contents of each entry.
    fn read(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        loop {
            assert_eq!(&bytes[..6], MAGIC.as_bytes());
            let field = |index: usize| {
                let at = 6 + index * 8;
                u32::from_str_radix(std::str::from_utf8(&bytes[at..at + 8]).unwrap(), 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            let name = std::str::from_utf8(&bytes[110..110 + name_size - 1]).unwrap();
            assert_eq!(bytes[110 + name_size - 1], 0);
            if name == TRAILER {
                return entries;
            }
            let contents = (110 + name_size).next_multiple_of(4);
            let end = contents + size;
            entries.push((name.to_owned(), mode, bytes[contents..end].to_vec()));
            bytes = &bytes[end.next_multiple_of(4)..];
        }
    }

    /// Check that files are found again with their contents, and each directory comes once and before what is in it.
    #[test]
    fn files_and_their_directories() {
        let mut archive = Archive::default();
        archive.add(Path::new("/init"), b"12345", true).unwrap();
        archive.add(Path::new("/a/b/c"), b"", false).unwrap();
        archive.add(Path::new("/a/d"), b"1234", false).unwrap();
        let entries = read(&archive.finish().unwrap());
        let names: Vec<_> = entries.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["init", "a", "a/b", "a/b/c", "a/d"]);
        let modes: Vec<_> = entries.iter().map(|(_, mode, _)| *mode).collect();
        assert_eq!(modes, [PROGRAM, DIRECTORY, DIRECTORY, FILE, FILE]);
        assert_eq!(entries[0].2, b"12345");
        assert_eq!(entries[4].2, b"1234");
    }
}
