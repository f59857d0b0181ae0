//! Where source files are on this machine that debug information knows by other names: those of the machine on which a program was built.
//!
//! The name of a file is the program's, the folder is the user's. So a name is freed of `..` before anything is compared, and what is left of it behind the
//! prefix can only lead down.

use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// A prefix of names, and the folder that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedPrefix {
    /// The prefix: whole parts of a name.
    from: PathBuf,
    /// The folder, as the user has named it.
    pub to: PathBuf,
}

impl FromStr for MappedPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok(Self {
                from: straightened(Path::new(from)),
                to: PathBuf::from(to),
            }),
            _ => Err(
                "give the beginning of the names in the reports and the folder on this machine, such as /build/app=/home/me/app".to_owned(),
            ),
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    /// The longest prefix first.
    prefixes: Vec<MappedPrefix>,
}

impl SourceMap {
    /// Of these prefixes; of two that are the same the last one counts.
    #[must_use]
    pub fn new(prefixes: &[MappedPrefix]) -> Self {
        let mut prefixes: Vec<_> = prefixes.iter().rev().cloned().collect();
        let length = |prefix: &MappedPrefix| prefix.from.components().count();
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(length(prefix)));
        Self { prefixes }
    }

    /// The folder in which a file is, and its name there, where a prefix is its own.
    #[must_use]
    pub fn find(&self, file: &str) -> Option<(&Path, PathBuf)> {
        let file = straightened(Path::new(file));
        self.prefixes.iter().find_map(|MappedPrefix { from, to }| {
            let rest = file.strip_prefix(from).ok()?;
            let leads_down = |part| matches!(part, Component::Normal(_));
            let is_below = rest.components().all(leads_down) && rest.file_name().is_some();
            is_below.then(|| (to.as_path(), rest.to_owned()))
        })
    }

    /// What a file is called here: below the folder where a prefix is its own, or else by its own name.
    #[must_use]
    pub fn name(&self, file: &str) -> PathBuf {
        match self.find(file) {
            Some((folder, rest)) => folder.join(rest),
            None => PathBuf::from(file),
        }
    }

    /// The same with folders that are named absolutely.
    #[must_use]
    pub fn absolute(&self) -> Self {
        let mut map = self.clone();
        for MappedPrefix { to, .. } in &mut map.prefixes {
            *to = std::path::absolute(&*to).unwrap_or_else(|_| to.clone());
        }
        map
    }

    /// The folders.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.prefixes.iter().map(|prefix| prefix.to.as_path())
    }
}

/// A name without `.` and `..`, as compilers put them into names; those with which a relative one begins stay.
fn straightened(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match (part, out.components().next_back()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                out.pop();
            }
            _ => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(prefixes: &[&str]) -> SourceMap {
        let prefixes: Vec<MappedPrefix> =
            prefixes.iter().map(|text| text.parse().unwrap()).collect();
        SourceMap::new(&prefixes)
    }

    /// Check which folder a name leads to: that of the longest prefix of whole parts, the last one of two that are the same.
    #[test]
    fn prefixes() {
        let map = map(&[
            "/build=/a",
            "/build/app=/b",
            "/build/app=/c",
            "src/=/d",
            "/odd=/e=f",
        ]);
        for (name, expected) in [
            ("/build/x.c", "/a/x.c"),
            ("/build/app/x.c", "/c/x.c"),
            ("/build/application/x.c", "/a/application/x.c"),
            ("/build/obj/../app/./x.c", "/c/x.c"),
            ("src/x.c", "/d/x.c"),
            ("./src/x.c", "/d/x.c"),
            ("/odd/x.c", "/e=f/x.c"),
            ("/other/x.c", "/other/x.c"),
            ("/build", "/build"),
        ] {
            assert_eq!(map.name(name), Path::new(expected), "{name}");
        }
        for wrong in ["", "=", "/a", "/a=", "=/b"] {
            assert!(wrong.parse::<MappedPrefix>().is_err(), "{wrong}");
        }
    }

    /// Check that no name leads out of the folder that the user has given.
    #[test]
    fn names_lead_down() {
        let map = map(&["/build=/home/me", ".=/home/here"]);
        for name in [
            "/build/../etc/shadow",
            "/build/a/../../etc/shadow",
            "/build/./../../../etc/shadow",
            "../etc/shadow",
            "a/../../etc/shadow",
            "/etc/shadow",
            "",
        ] {
            assert_eq!(map.find(name), None, "{name}");
        }
        let (folder, rest) = map.find("a/../b.c").unwrap();
        assert_eq!(
            (folder, rest.as_path()),
            (Path::new("/home/here"), Path::new("b.c"))
        );
    }
}
