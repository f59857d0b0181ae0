//! From where the source files are named in reports that others relate to a checkout.

use std::path::{Path, PathBuf};

/// A folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceRoot(Option<PathBuf>);

impl SourceRoot {
    /// That folder.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(Some(folder.into()))
    }

    /// That folder, which is named from the working directory or absolutely.
    #[must_use]
    pub fn absolute(folder: &Path) -> Self {
        Self(std::path::absolute(folder).ok())
    }

    /// That of the checkout which a job of GitHub Actions works on (`GITHUB_WORKSPACE`), or else the working directory.
    #[must_use]
    pub fn usual() -> Self {
        let workspace = std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from);
        let workspace = workspace.filter(|folder| folder.is_absolute());
        Self(workspace.or_else(|| std::env::current_dir().ok()))
    }

    /// The folder, if it is known.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// A file by its name from there, if it is below.
    #[must_use]
    pub fn below(&self, file: &str) -> Option<String> {
        let file = Path::new(file).strip_prefix(self.folder()?).ok()?;
        Some(file.to_str()?.to_owned())
    }

    /// The same; any other file by the name that it has.
    #[must_use]
    pub fn relative(&self, file: &str) -> String {
        self.below(file).unwrap_or_else(|| file.to_owned())
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
}
