//! The layers of an overlay file system, as its mount names them (`Documentation/filesystems/overlayfs.rst` of Linux, `ovl_show_options` in `fs/overlayfs/params.c`): whoever answers for one of them
//! answers for what is in it.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use super::Mount;

/// Options that name a layer, or several with colons between them.
const LAYER: [&str; 3] = ["upperdir=", "lowerdir+=", "datadir+="];
const LAYERS: &str = "lowerdir=";

/// The layers that the options of a mount name. Some may be relative, to wherever the process was that has mounted it.
pub(super) fn named(options: &str) -> Vec<PathBuf> {
    let mut layers = Vec::new();
    for option in options.split(',') {
        if let Some(all) = option.strip_prefix(LAYERS) {
            layers.extend(split(&plain(all)));
        } else if let Some(one) = LAYER.iter().find_map(|name| option.strip_prefix(name)) {
            layers.push(PathBuf::from(plain(one)));
        }
    }
    layers
}

/// The mount in which a layer is.
pub(super) fn mount_of<'mounts>(layer: &Path, mounts: &'mounts [Mount]) -> Option<&'mounts Mount> {
    let is_in = |mount: &&Mount| {
        if layer.is_absolute() {
            is_below(layer, &mount.point)
        } else {
            // Wherever that begins: a place of the same name will be it.
            let mut ends = layer.ancestors().filter(|end| !end.as_os_str().is_empty());
            mount.is_others() && ends.any(|end| mount.point.ends_with(end))
        }
    };
    // The last one lies above the others of the same place.
    let within = mounts.iter().filter(is_in);
    within.max_by_key(|mount| mount.point.as_os_str().len())
}

/// Whether a name is that of a folder, or leads through it. There may be thousands of mounts, so that it is compared as it is written.
fn is_below(name: &Path, folder: &Path) -> bool {
    let [name, folder] = [name, folder].map(|path| path.as_os_str().as_bytes());
    let rest = name.strip_prefix(folder);
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')) || folder == b"/")
}

/// Names with colons between them; one that is part of a name has a backslash before it, and so has a backslash.
fn split(text: &str) -> Vec<PathBuf> {
    let mut names = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let next = match character {
            '\\' => characters.next(),
            ':' => {
                names.push(String::new());
                None
            }
            other => Some(other),
        };
        if let Some(name) = names.last_mut() {
            name.extend(next);
        }
    }
    // Two colons stand before layers that hold data alone.
    let named = names.into_iter().filter(|name| !name.is_empty());
    named.map(PathBuf::from).collect()
}

/// A text of mountinfo as it was: blanks, commas and the like are written as three octal digits.
pub(super) fn plain(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| first == b'\\');
        let number = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(number.unwrap_or(first));
        let len = if number.is_some() { 3 } else { 0 };
        rest = tail.get(len..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(options: &str) -> Vec<String> {
        let named = named(options).into_iter();
        named.map(|name| name.display().to_string()).collect()
    }

    /// Check that layers are found whatever their names have in them, by the old and the new way to mount.
    #[test]
    fn layers_are_named() {
        let options =
            "rw,lowerdir=/a:/b\\040c:/d\\134:e,upperdir=/up\\054per,workdir=/work,index=off";
        assert_eq!(names(options), ["/a", "/b c", "/d:e", "/up,per"]);
        assert_eq!(
            names("ro,lowerdir=1/fs:2/fs::data"),
            ["1/fs", "2/fs", "data"]
        );
        let new = "ro,lowerdir+=/a:b,lowerdir+=/c,datadir+=/d";
        assert_eq!(names(new), ["/a:b", "/c", "/d"]);
        for other in ["", "rw", "rw,lowerdir=", "rw,lowerdir=:"] {
            assert!(named(other).is_empty(), "{other}");
        }
        for (written, meant) in [
            ("a\\134", "a\\"),
            ("\\04", "\\04"),
            ("\\999", "\\999"),
            ("", ""),
        ] {
            assert_eq!(plain(written), meant);
        }
    }
}
