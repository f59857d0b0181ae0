//! The name of a store: `sqlite:PATH`, or `postgres://USER@HOST/DATABASE` as libpq has it.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use sqlx::postgres::PgSslMode;
use url::{Url, form_urlencoded};

/// See the module. What is shown of it has no password.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// A file of SQLite.
    File(PathBuf),
    /// A database of a PostgreSQL server.
    Server(Box<Url>),
}

/// What another machine's user would write.
const FORMS: &str = "sqlite:PATH, such as sqlite:races.db, or postgres://USER@HOST/DATABASE";
const SQLITE: &str = "sqlite:";
const SERVERS: [&str; 2] = ["postgres:", "postgresql:"];
const PASSWORD: &str = "password";
/// Statements that are kept prepared.
const CAPACITY: &str = "statement-cache-capacity";
/// Parameters behind the `?` of a server's address (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS>).
const PARAMETERS: [&str; 13] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    PASSWORD,
    "application_name",
    "options",
    CAPACITY,
];

impl Address {
    /// That of a file.
    pub fn of_file(path: impl Into<PathBuf>) -> Self {
        Self::File(path.into())
    }

    /// The file, where it is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Server(_) => None,
        }
    }

    /// What messages call the place: the file alone, or the address.
    pub(super) fn place(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Server(_) => self.to_string(),
        }
    }

    /// Whether something between here and a server lends its processes for a transaction each, as the address says by having no statement prepared: the one of now is another one's next.
    pub(super) fn is_pooled(&self) -> bool {
        match self {
            Self::File(_) => false,
            Self::Server(url) => (url.query_pairs())
                .any(|(name, value)| name == CAPACITY && value.parse() == Ok(0_u64)),
        }
    }

    /// Whether a text names a store, of whatever engine, as opposed to a file.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        let mut beginnings = SERVERS.iter().chain([&SQLITE]);
        beginnings.any(|beginning| text.starts_with(beginning))
    }
}

/// The address of a server; what is wrong with it is told without its password.
fn server(text: &str) -> Result<Url, String> {
    let url: Url = text
        .parse()
        .map_err(|error| format!("{error}; write {FORMS}"))?;
    if url.cannot_be_a_base() {
        return Err(format!("two slashes are missing; write {FORMS}"));
    }
    for (name, value) in url.query_pairs() {
        if !PARAMETERS.contains(&&*name) {
            return Err(format!(
                "{name} is no parameter that is known; known are {}",
                PARAMETERS.join(", ")
            ));
        }
        if name == "sslmode" && value.parse::<PgSslMode>().is_err() {
            return Err(
                "sslmode is disable, allow, prefer, require, verify-ca or verify-full".to_owned(),
            );
        }
        if name == "port" && value.parse::<u16>().is_err() {
            return Err("port is a number up to 65535".to_owned());
        }
    }
    Ok(url)
}

/// An address for everybody's eyes.
fn without_password(url: &Url) -> Url {
    let mut shown = url.clone();
    // A server without a name has none.
    let _ = shown.set_password(None);
    let is_shown = |pair: &&str| {
        let mut names = form_urlencoded::parse(pair.as_bytes());
        names.all(|(name, _)| name != PASSWORD)
    };
    let pairs = url.query().into_iter().flat_map(|all| all.split('&'));
    let pairs: Vec<&str> = pairs.filter(is_shown).collect();
    let query = pairs.join("&");
    shown.set_query((!query.is_empty()).then_some(&*query));
    shown
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if SERVERS.iter().any(|beginning| text.starts_with(beginning)) {
            return server(text).map(|url| Self::Server(Box::new(url)));
        }
        let path = text
            .strip_prefix(SQLITE)
            .map(|path| path.strip_prefix("//").unwrap_or(path));
        match path {
            Some(path) if !path.is_empty() => Ok(Self::of_file(path)),
            _ => Err(format!("this names no store; write {FORMS}")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{SQLITE}{}", path.display()),
            Self::Server(url) => write!(f, "{}", without_password(url)),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check which texts name a file or a server, and that others are told what to write.
    #[test]
    fn addresses() {
        for (text, path) in [
            ("sqlite:races.db", "races.db"),
            ("sqlite://races.db", "races.db"),
            ("sqlite:///var/races.db", "/var/races.db"),
            ("sqlite:/var/races.db", "/var/races.db"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.path(), Some(Path::new(path)));
            assert!(Address::is_meant(text));
        }
        for text in ["", "sqlite:", "races.db", "mysql:x", "postgres:races"] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains("sqlite:PATH"), "{error}");
        }
        assert!(!Address::is_meant("./sqlite:races.json"));
        for text in [
            "postgres://host/races",
            "postgresql:///races?host=/run/postgresql",
            "postgres://me@[::1]:5433/races?sslmode=verify-full",
        ] {
            let address: Address = text.parse().unwrap();
            assert!(Address::is_meant(text) && address.path().is_none());
            let again: Address = address.to_string().parse().unwrap();
            assert_eq!(again, address);
        }
        for (text, wrong) in [
            ("postgres://host:99999/races", "port"),
            ("postgres://host/races?sslmode=never", "verify-full"),
            ("postgres://host/races?port=x", "65535"),
            ("postgres://host/races?colour=red", "known are sslmode"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }

    /// Check that no password is shown, wherever it stands.
    #[test]
    fn passwords_are_not_shown() {
        let text = "postgres://me:s3cret@host/races?password=s3cret&sslmode=require";
        let address: Address = text.parse().unwrap();
        let shown = format!("{address} {address:?} {}", address.place());
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("postgres://me@host/races?sslmode=require"));
        let error = "postgres://me:s3cret@host:x/races".parse::<Address>();
        assert!(!error.unwrap_err().contains("s3cret"));
    }
}
