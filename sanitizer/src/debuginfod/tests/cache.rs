//! What is in a cache, and which folders are one.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    time::{Duration, SystemTime},
};

use super::{
    super::cache::{Cache, Kept, Reserve},
    ID, elf, place,
};
use crate::reader::testing::header_reader;

/// Check that a file has its name only once it is whole, that nothing is left of one that is not, and that a note of absence counts for ten minutes.
#[test]
fn what_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now;
    let place = place(&folder.path().join("cache")).unwrap();
    let reader = &mut header_reader();
    assert_eq!(place.look(now(), reader).unwrap(), Kept::Nothing);
    let names = || {
        let entries = fs::read_dir(folder.path().join("cache/abcdef")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names.collect::<Vec<_>>()
    };
    let mut partial = place.begin().unwrap();
    partial.write(b"half").unwrap();
    assert_eq!(
        (place.look(now(), reader).unwrap(), names().len()),
        (Kept::Nothing, 1)
    );
    drop(partial);
    assert!(names().is_empty());
    place.note_miss().unwrap();
    assert_eq!(place.look(now(), reader).unwrap(), Kept::Miss);
    let later = now() + Duration::from_secs(601);
    assert_eq!(place.look(later, reader).unwrap(), Kept::Nothing);
    let mut partial = place.begin().unwrap();
    partial.write(&elf(&ID)).unwrap();
    partial.keep().unwrap();
    assert_eq!(
        (place.look(now(), reader).unwrap(), names()),
        (Kept::File, vec!["debuginfo".into()])
    );
}

/// Check that what has the name of a debug file but is none of that build, or not all of it, is removed, so that it is fetched anew; and that what is no file stays, and is told.
#[test]
fn what_is_not_what_it_is_called() {
    let cache = tempfile::tempdir().unwrap();
    let place = place(cache.path()).unwrap();
    let file = cache.path().join("abcdef/debuginfo");
    let reader = &mut header_reader();
    let mut look = || place.look(SystemTime::now(), reader);
    let right = elf(&ID);
    let cut = &right[..right.len() - 1];
    for wrong in [b"<html>", cut, &elf(&[1, 2, 3]), &elf(&[])] {
        fs::write(&file, wrong).unwrap();
        assert_eq!(look().unwrap(), Kept::Nothing);
        assert!(!file.exists());
    }
    fs::write(&file, &right).unwrap();
    assert_eq!(look().unwrap(), Kept::File);
    fs::rename(&file, cache.path().join("aim")).unwrap();
    symlink("../aim", &file).unwrap();
    assert!(look().unwrap_err().to_string().ends_with("remove it"));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(look().unwrap_err().to_string().ends_with("remove it"));
    assert!(file.exists());
}

/// Check that what whoever was killed has left is removed an hour later, and nothing else.
#[test]
fn abandoned_files_are_removed() {
    let cache = tempfile::tempdir().unwrap();
    let place = place(cache.path()).unwrap();
    let folder = cache.path().join("abcdef");
    // One of ours, one of elfutils' client, what is whole, other things, and what is only called so.
    let names = [
        "debuginfo.0123abcd",
        "debuginfo.Xy12ab",
        "debuginfo",
        "source",
    ];
    for name in names {
        fs::write(folder.join(name), "").unwrap();
    }
    fs::create_dir(folder.join("debuginfo.d")).unwrap();
    let after = |seconds| {
        place.remove_abandoned(SystemTime::now() + Duration::from_secs(seconds));
        let entries = fs::read_dir(&folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(after(3500).len(), names.len() + 1);
    assert_eq!(after(3601), ["debuginfo", "debuginfo.d", "source"]);
    // It is done whenever a file is begun.
    let old = fs::File::create(folder.join("debuginfo.old")).unwrap();
    old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    drop(place.begin().unwrap());
    assert!(!folder.join("debuginfo.old").exists());
}

/// Check how much of a disk stays free, and that nothing is written where less is.
#[test]
fn room_that_stays() {
    const GIB: u64 = 1 << 30;
    for (all, expected) in [(0, GIB), (20 * GIB, GIB), (40 * GIB, 2 * GIB)] {
        assert_eq!(Reserve::USUAL.of(all), expected, "{all}");
    }
    let cache = tempfile::tempdir().unwrap();
    let everything = Reserve {
        bytes: u64::MAX,
        ..Reserve::USUAL
    };
    let place = Cache::new(cache.path().to_owned(), everything).place(&ID);
    let mut partial = place.unwrap().begin().unwrap();
    let error = partial.write(b"half").unwrap_err().to_string();
    assert!(error.ends_with("MiB are to stay so"), "{error}");
    assert_eq!(partial.file.metadata().unwrap().len(), 0);
}

/// Check that no folder is used in which others may lay links, that none is made for another user, and that no link is followed to a build id's folder.
#[test]
fn folders_of_others_are_not_used() {
    let scratch = tempfile::tempdir().unwrap();
    let scratch = scratch.path().canonicalize().unwrap();
    let refused = |cache: &Path| place(cache).unwrap_err().to_string();
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let [cache, aim] = ["cache", "aim"].map(|name| scratch.join(name));
    fs::create_dir_all(&aim).unwrap();
    fs::create_dir(&cache).unwrap();
    symlink(&aim, cache.join("abcdef")).unwrap();
    assert!(refused(&cache).contains("abcdef cannot be used"));
    fs::remove_file(cache.join("abcdef")).unwrap();
    fs::create_dir(cache.join("abcdef")).unwrap();
    for open in [cache.clone(), cache.join("abcdef")] {
        mode(&open, 0o777);
        let error = refused(&cache);
        assert!(
            error.starts_with(&format!("{} belongs to another user", open.display())),
            "{error}"
        );
        mode(&open, 0o700);
    }
    place(&cache).unwrap();
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&cache, Some(12345), None).unwrap();
        let error = refused(&cache);
        assert!(error.contains("belongs to another user"), "{error}");
        let below = cache.join("below");
        let error = refused(&below);
        assert!(error.contains("belongs to another user"), "{error}");
        assert!(!below.exists());
        // What another user has laid.
        symlink(&aim, cache.join("link")).unwrap();
        std::os::unix::fs::lchown(cache.join("link"), Some(12345), None).unwrap();
        let error = refused(&cache.join("link"));
        assert!(error.contains("is a symbolic link that another"), "{error}");
    }
    assert_eq!(fs::read_dir(&aim).unwrap().count(), 0);
}
