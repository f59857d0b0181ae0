//! Reading the sums.

use sqlx::Row as _;

use super::{HALF_LIFE, LONGEST, MOST_OF_ALL, MOST_OF_BUILD, ROW, id_of, name_of};
use crate::{
    learned::{Decay, KnownFunction, Module},
    store::{Store, StoreError},
};

impl Store {
    /// What all hosts have learned of a build, in the order of places, as much as was left of it when something was told of it last; nothing where nobody has told anything for long, at a time (milliseconds since 1970). What can be no record is left out.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn learned(&mut self, module: &Module, now: i64) -> Result<Vec<KnownFunction>, StoreError> {
        let (id, name) = (id_of(module), name_of(module));
        self.database.leave_moved();
        self.with(async |connection| {
            let told: Option<i64> = sqlx::query_scalar(
                "SELECT told FROM learned_build WHERE id = $1 AND name = $2 AND build = $3 AND told >= $4",
            )
            .bind(id)
            .bind(name)
            .bind(&module.build)
            .bind(now.saturating_sub(LONGEST))
            .fetch_optional(&mut *connection)
            .await?;
            let Some(told) = told else {
                return Ok(Vec::new());
            };
            let decay = Decay::new(told, HALF_LIFE);
            let rows = sqlx::query(
                "SELECT place, fingerprint, seen_in, seen FROM learned WHERE build = $1 ORDER BY place LIMIT $2",
            );
            let rows = rows.bind(id).bind(MOST_OF_BUILD / ROW);
            let rows = rows.fetch_all(&mut *connection).await?;
            let functions = rows.iter().filter_map(|row| {
                let (at, fingerprint): (i64, i64) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
                let (at, fingerprint) = (u64::try_from(at).ok()?, fingerprint.cast_unsigned());
                let mut function = KnownFunction::of(at, fingerprint, row.try_get(2).ok()?)?;
                let left = decay.left(row.try_get(3).ok()?);
                function.add(left, &KnownFunction::default());
                (function.is_sound() && !function.is_untried()).then_some(function)
            });
            Ok(functions.collect())
        })
    }

    /// The builds of which something was told, at a time (milliseconds since 1970) not too long ago.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn learned_builds(&mut self, now: i64) -> Result<Vec<Module>, StoreError> {
        self.with(async |connection| {
            let rows: Vec<(String, String)> = sqlx::query_as(
                "SELECT name, build FROM learned_build WHERE told >= $1 ORDER BY name, build LIMIT $2",
            )
            .bind(now.saturating_sub(LONGEST))
            .bind(MOST_OF_ALL)
            .fetch_all(connection)
            .await?;
            let modules = rows.into_iter().map(|(name, build)| Module { name, build });
            Ok(modules.filter(Module::can_be_shared).collect())
        })
    }
}
