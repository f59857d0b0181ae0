//! Copies of files that are not to be mapped, bounded in memory and on the disk.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use crate::kernel::nameless::{DIRECTORIES, for_reading, nameless_file};

/// The largest file that is copied.
const MOST_ON_DISK: u64 = 1 << 30;
/// What all copies in memory have at most, where there is no disk to copy to.
const MOST_IN_MEMORY: u64 = 32 << 20;
/// So much is read at once.
const PIECE: usize = 1 << 16;

/// Said of copies that have to be in memory.
const NO_DISK: &str = " where /var/tmp and /tmp are on no disk";

/// The bytes of all copies in memory.
static IN_MEMORY: AtomicU64 = AtomicU64::new(0);

/// A whole copy.
pub(super) enum Copy {
    /// A file of our own without a name.
    OnDisk(File),
    /// The bytes themselves.
    InMemory(Held),
}

/// Bytes that count until they are dropped.
pub(super) struct Held {
    bytes: Vec<u8>,
    reserved: u64,
}

impl Copy {
    /// Copies a file as long as it is now.
    pub(super) fn of(file: File) -> io::Result<Self> {
        Self::in_one_of(&DIRECTORIES, file)
    }

    fn in_one_of(directories: &[&str], mut file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        if size > MOST_ON_DISK {
            return Err(too_large(size, MOST_ON_DISK, ""));
        }
        let Some(mut copy) = directories.iter().find_map(|at| nameless_file(at)) else {
            return match Held::reserve(size) {
                Some(mut held) => {
                    copy_all(&mut file, size, |piece| {
                        held.bytes.extend_from_slice(piece);
                        Ok(())
                    })?;
                    Ok(Self::InMemory(held))
                }
                None => Err(too_large(size, MOST_IN_MEMORY, NO_DISK)),
            };
        };
        copy_all(&mut file, size, |piece| copy.write_all(piece))?;
        // Whoever is to look into it gets it so.
        Ok(Self::OnDisk(for_reading(&copy)?))
    }
}

/// Copies a file to a disk as long as it is now, for whoever may only read it; `going` is called again and again meanwhile.
///
/// # Errors
/// Fails where it cannot be read or is too large, and where there is no disk or no room on it.
pub fn copy_to_disk(mut file: File, mut going: impl FnMut()) -> io::Result<File> {
    let size = file.metadata()?.len();
    let disk = || DIRECTORIES.iter().find_map(|at| nameless_file(at));
    if size > MOST_ON_DISK {
        return Err(too_large(size, MOST_ON_DISK, ""));
    }
    let mut copy = disk().ok_or_else(|| too_large(size, 0, NO_DISK))?;
    copy_all(&mut file, size, |piece| {
        going();
        copy.write_all(piece)
    })?;
    // A reader gets it.
    for_reading(&copy)
}

fn too_large(size: u64, most: u64, room: &str) -> io::Error {
    io::Error::other(format!(
        "a process serves the file system that it is in, and it has {size} bytes, of which at most {most} are copied{room}; \
         execute a copy that is on a disk"
    ))
}

impl Held {
    fn reserve(size: u64) -> Option<Self> {
        let before = IN_MEMORY.fetch_add(size, SeqCst);
        let mut held = Self {
            bytes: Vec::new(),
            reserved: size,
        };
        if before.saturating_add(size) > MOST_IN_MEMORY {
            return None;
        }
        held.bytes.reserve_exact(usize::try_from(size).ok()?);
        Some(held)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        IN_MEMORY.fetch_sub(self.reserved, SeqCst);
    }
}

fn copy_all(
    file: &mut File,
    size: u64,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut left = size;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let read = match file.read(piece.get_mut(..most).unwrap_or_default()) {
            Ok(0) => {
                let cause = "it was cut short while it was read; replace files by renaming, not by writing over them";
                return Err(io::Error::other(cause));
            }
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        take(piece.get(..read).unwrap_or_default())?;
        left -= read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::image::Image;

    fn own_bytes() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    fn open() -> File {
        File::open("/proc/self/exe").unwrap()
    }

    /// Check that a copy is the file, on a disk and in memory, that copies in memory are bounded together, and that their room is had again.
    #[test]
    fn copies_are_whole_and_bounded() {
        let image = Image::from_served_file(open(), Path::new("copy")).unwrap();
        assert!(image.data() == own_bytes());
        let folder = tempfile::tempdir().unwrap();
        let file = |size: u64| {
            let path = folder.path().join("file");
            let mut file = File::create(&path).unwrap();
            file.write_all(b"begins").unwrap();
            file.set_len(size).unwrap();
            File::open(path).unwrap()
        };
        let held = |size| match Copy::in_one_of(&[], file(size)) {
            Ok(Copy::InMemory(held)) => Ok(held),
            Ok(Copy::OnDisk(_)) => panic!("there is no disk"),
            Err(error) => Err(error.to_string()),
        };
        for _ in 0..2 {
            let first = held(MOST_IN_MEMORY - 100).unwrap();
            assert!(first.bytes().starts_with(b"begins\0"));
            assert_eq!(first.bytes().len() as u64, MOST_IN_MEMORY - 100);
            let error = held(101).err().unwrap();
            assert!(error.contains("/var/tmp"), "{error}");
            assert_eq!(held(100).unwrap().bytes().len(), 100);
        }
        let error = Copy::of(file(MOST_ON_DISK + 1)).err().unwrap().to_string();
        assert!(error.contains("1073741824"), "{error}");
    }

    /// Check that whoever looks into a copy can read all of it, and change nothing.
    #[test]
    fn copies_are_for_reading() {
        let check = || {
            let Ok(Copy::OnDisk(copy)) = Copy::of(open()) else {
                panic!("there is a disk");
            };
            for mut copy in [copy, copy_to_disk(open(), || {}).unwrap()] {
                let mut bytes = Vec::new();
                copy.read_to_end(&mut bytes).unwrap();
                assert!(bytes == own_bytes());
                assert!(copy.write_all(b"a").is_err() && copy.set_len(0).is_err());
            }
        };
        check();
        // Where descriptors are a thread's own, the process's are others.
        let own = std::thread::spawn(move || {
            crate::kernel::descriptors::own_table().unwrap();
            check();
        });
        own.join().unwrap();
    }

    /// Check that a file which ends before its size is no copy.
    #[test]
    fn cut_files_are_not_copied() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100).unwrap();
        let error = copy_all(&mut { file }, 101, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("cut short"), "{error}");
    }
}
