//! From where the source files are named in reports that others relate to a checkout.

use std::path::{Path, PathBuf};

use super::source_map::SourceMap;

/// A folder, and where files are that debug information knows by other names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceRoot {
    folder: Option<PathBuf>,
    map: SourceMap,
}

impl SourceRoot {
    /// That folder.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: Some(folder.into()),
            map: SourceMap::default(),
        }
    }

    /// That folder, which is named from the working directory or absolutely.
    #[must_use]
    pub fn absolute(folder: &Path) -> Self {
        Self {
            folder: std::path::absolute(folder).ok(),
            map: SourceMap::default(),
        }
    }

    /// That of the checkout which a job of GitHub Actions works on (`GITHUB_WORKSPACE`), or else the working directory.
    #[must_use]
    pub fn usual() -> Self {
        let workspace = std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from);
        let workspace = workspace.filter(|folder| folder.is_absolute());
        Self {
            folder: workspace.or_else(|| std::env::current_dir().ok()),
            map: SourceMap::default(),
        }
    }

    /// The same, of files that are here by this map.
    #[must_use]
    pub fn mapped(self, map: &SourceMap) -> Self {
        Self {
            map: map.absolute(),
            ..self
        }
    }

    /// The folder, if it is known.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// A file by its name from there, if it is below.
    #[must_use]
    pub fn below(&self, file: &str) -> Option<String> {
        let name = self.map.name(file);
        Some(name.strip_prefix(self.folder()?).ok()?.to_str()?.to_owned())
    }

    /// The same; any other file by the name that it has here.
    #[must_use]
    pub fn relative(&self, file: &str) -> String {
        let name = || self.map.name(file).to_string_lossy().into_owned();
        self.below(file).unwrap_or_else(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that only files below the folder are named from there.
    #[test]
    fn files_below() {
        let root = SourceRoot::new("/work/app");
        assert_eq!(root.relative("/work/app/src/a.c"), "src/a.c");
        assert_eq!(
            root.relative("/work/application/a.c"),
            "/work/application/a.c"
        );
        assert_eq!(root.below("a.c"), None);
        assert_eq!(SourceRoot::default().relative("/a.c"), "/a.c");
    }

    /// Check that files of a machine that built the program are named from where they are here.
    #[test]
    fn files_of_other_machines() {
        let map = SourceMap::new(&["/build=/work/app".parse().unwrap()]);
        let root = SourceRoot::new("/work/app").mapped(&map);
        assert_eq!(root.relative("/build/src/a.c"), "src/a.c");
        assert_eq!(root.relative("/other/a.c"), "/other/a.c");
        let elsewhere = SourceRoot::new("/work/other").mapped(&map);
        assert_eq!(elsewhere.relative("/build/a.c"), "/work/app/a.c");
        assert_eq!(elsewhere.below("/build/a.c"), None);
    }
}
