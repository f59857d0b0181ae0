//! Programs that were watched, as they are read of the store.

use super::{Store, connect::Connection, error::StoreError};

/// A program that was watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// Its name.
    pub id: String,
    /// The executable.
    pub exe: String,
    /// When it was watched first, milliseconds since 1970.
    pub first_seen: i64,
}

/// What a statement has of a build: the columns of [`WHOLE`] or [`SHORT`].
pub(super) type BuildRow = (String, String, i64);

/// All of it.
const WHOLE: &str = "build.id, build.exe, build.first_seen";

/// The same for pages: whoever sends races may have paths of any length, of which no more than a thousand characters are read.
pub(super) const SHORT: &str = "build.id, substr(build.exe, 1, 1000), build.first_seen";

impl From<BuildRow> for Build {
    fn from((id, exe, first_seen): BuildRow) -> Self {
        Self {
            id,
            exe,
            first_seen,
        }
    }
}

impl Build {
    /// Whether it has no build id: then it is named by its path, and what is built there later has the same name.
    #[must_use]
    pub fn is_path(&self) -> bool {
        self.id.starts_with("exe:")
    }
}

impl Store {
    /// All builds, the first first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn builds(&mut self) -> Result<Vec<Build>, StoreError> {
        let all = format!("SELECT {WHOLE} FROM build ORDER BY first_seen, id LIMIT $1");
        self.with(async |connection| read(connection, all, i64::MAX).await)
    }

    /// The builds that were seen first last.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn newest_builds(&mut self, most: usize) -> Result<Vec<Build>, StoreError> {
        let newest = format!("SELECT {SHORT} FROM build ORDER BY first_seen DESC, id LIMIT $1");
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.with(async |connection| read(connection, newest, most).await)
    }
}

/// Those that a statement chooses, at most so many (`$1`).
async fn read(connection: &mut Connection, sql: String, most: i64) -> sqlx::Result<Vec<Build>> {
    let rows = sqlx::query_as::<_, BuildRow>(sqlx::AssertSqlSafe(sql)).bind(most);
    let rows = rows.fetch_all(connection).await?;
    Ok(rows.into_iter().map(Build::from).collect())
}
