//! The name of a store: `sqlite:PATH`.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(PathBuf);

/// Engines that have an address of their own, and are not there.
const OTHERS: [&str; 2] = ["postgres:", "postgresql:"];
const SQLITE: &str = "sqlite:";

impl Address {
    /// That of a file.
    pub fn of_file(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a text names a store, of whatever engine, as opposed to a file.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SQLITE) || OTHERS.iter().any(|other| text.starts_with(other))
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if OTHERS.iter().any(|other| text.starts_with(other)) {
            return Err(
                "stores of PostgreSQL are not supported yet; name a file: sqlite:PATH".to_owned(),
            );
        }
        let path = text
            .strip_prefix(SQLITE)
            .map(|path| path.strip_prefix("//").unwrap_or(path));
        match path {
            Some(path) if !path.is_empty() => Ok(Self(PathBuf::from(path))),
            _ => Err("this names no store; write sqlite:PATH, such as sqlite:races.db".to_owned()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SQLITE}{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check which texts name a file, and that others are told what to write.
    #[test]
    fn addresses() {
        for (text, path) in [
            ("sqlite:races.db", "races.db"),
            ("sqlite://races.db", "races.db"),
            ("sqlite:///var/races.db", "/var/races.db"),
            ("sqlite:/var/races.db", "/var/races.db"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.path(), Path::new(path));
            assert!(Address::is_meant(text));
        }
        for text in [
            "",
            "sqlite:",
            "races.db",
            "postgres://host/races",
            "mysql:x",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains("sqlite:PATH"), "{error}");
        }
        assert!(!Address::is_meant("./sqlite:races.json"));
        assert!(Address::is_meant("postgres://host/races"));
    }
}
