//! What is left of old rows of sightings where they become fewer (`condense.rs`), as SQL that all engines understand.

use super::{batch::MOST_TIMES, time::HOURS_OF_DAY};

/// Which races, builds and machines have more in thirty days than is to be left: the day when the race was caught first in the build, that when it was on the machine, and the last.
pub(super) const IS_DUE: &str = "count(*) > 3 OR max(cgroup) <> '' OR max(container) <> ''";

/// What is left of those rows of a table that are of one thirty days: race, build, host, control group and container, hour, times.
pub(super) fn condensed(table: &str, own: &str) -> String {
    let day = format!("hour / {HOURS_OF_DAY}");
    // In one go through the rows: how several sums of them would be joined is for the server to guess, and a table that is new has told it nothing.
    format!(
        "SELECT race, build, host, '', '', max(hour), CAST(sum(CASE WHEN times > {MOST_TIMES} THEN {MOST_TIMES} ELSE times END) AS BIGINT)
         FROM (SELECT race, build, host, hour, times, {day} AS on_day, min({day}) OVER (PARTITION BY race, build) AS in_build,
             min({day}) OVER (PARTITION BY race, host) AS on_host, max({day}) OVER (PARTITION BY race, build, host) AS on_last FROM {table} WHERE {own}) AS dated
         GROUP BY race, build, host, CASE WHEN on_day IN (in_build, on_host) THEN on_day ELSE on_last END"
    )
}
