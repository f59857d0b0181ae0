//! Making fewer rows of what is old: after a week it does not matter in which hour of a day a race was caught, but for the last one.

use super::{
    Store,
    connect::begin,
    error::StoreError,
    time::{HOURS_OF_DAY, hour},
    write::MOST_TIMES,
};

/// Days of which the hours are kept.
const DAYS: i64 = 7;

/// This, of the rows that tell of the same race, build and place on the same day, of `$1` hours.
macro_rules! same_day {
    ($what:literal, $which:literal) => {
        concat!(
            "(SELECT ",
            $what,
            " FROM sighting AS other WHERE other.race = sighting.race AND other.build = sighting.build AND other.host = sighting.host
              AND other.cgroup = sighting.cgroup AND other.container = sighting.container AND other.hour / $1 = sighting.hour / $1 ",
            $which,
            ")"
        )
    };
}

impl Store {
    /// Makes one row of all that tell how often a race was caught in a build and a place on the same day, for days that had ended a week before `now` (milliseconds since 1970). The row has the last of their hours,
    /// which decides what is to be thought of the race. How many rows there are less.
    ///
    /// # Errors
    /// The store cannot be written to, and is as it was.
    pub fn roll_up(&mut self, now: i64) -> Result<u64, StoreError> {
        let today = hour(now).div_euclid(HOURS_OF_DAY);
        let end = today.saturating_sub(DAYS).saturating_mul(HOURS_OF_DAY);
        self.with(async |connection| {
            let mut all = begin(connection).await?;
            sqlx::query(concat!(
                "UPDATE sighting SET times = ",
                same_day!(
                    "CAST(sum(CASE WHEN other.times > $3 THEN $3 ELSE other.times END) AS BIGINT)",
                    ""
                ),
                " WHERE hour < $2 AND EXISTS ",
                same_day!("1", "AND other.hour < sighting.hour"),
                " AND NOT EXISTS ",
                same_day!("1", "AND other.hour > sighting.hour"),
            ))
            .bind(HOURS_OF_DAY)
            .bind(end)
            .bind(MOST_TIMES)
            .execute(&mut *all)
            .await?;
            let rest = sqlx::query(concat!(
                "DELETE FROM sighting WHERE hour < $2 AND EXISTS ",
                same_day!("1", "AND other.hour > sighting.hour"),
            ))
            .bind(HOURS_OF_DAY)
            .bind(end)
            .execute(&mut *all)
            .await?;
            all.commit().await?;
            Ok(rest.rows_affected())
        })
    }
}
