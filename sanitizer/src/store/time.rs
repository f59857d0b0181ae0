//! Times as the store has them: milliseconds since 1970-01-01 in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HOUR: i64 = 3_600_000;
pub(super) const HOURS_OF_DAY: i64 = 24;
/// Days that are kept together when all of them are old, in hours.
pub(super) const HOURS_OF_BLOCK: i64 = 30 * HOURS_OF_DAY;
/// What is later than this has no date of four digits.
const LATEST: i64 = 253_402_300_799_000;

/// A point in time; 1970 where it is before that.
#[must_use]
pub fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).map_or(LATEST, |time| time.min(LATEST))
}

/// Whether it is one that [`millis`] gives.
pub(super) const fn is_time(millis: i64) -> bool {
    0 <= millis && millis <= LATEST
}

/// A time by RFC 3339 in UTC, as records have it.
#[must_use]
pub fn millis_of(text: &str) -> Option<i64> {
    humantime::parse_rfc3339(text).ok().map(millis)
}

/// When the day of a date (`2027-01-31`) begins in UTC.
#[must_use]
pub fn millis_of_day(date: &str) -> Option<i64> {
    millis_of(&format!("{date}T00:00:00Z"))
}

/// A time as [`millis_of`] takes it.
#[must_use]
pub fn rfc3339(millis: i64) -> String {
    let since = Duration::from_millis(millis.clamp(0, LATEST).cast_unsigned());
    humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

/// The date alone.
#[must_use]
pub fn day(millis: i64) -> String {
    let mut text = rfc3339(millis);
    text.truncate("2026-01-01".len());
    text
}

/// The hour, counted from 1970.
#[must_use]
pub const fn hour(millis: i64) -> i64 {
    millis.div_euclid(HOUR)
}

/// The day of an hour, counted from 1970.
#[must_use]
pub const fn day_of(hour: i64) -> i64 {
    hour.div_euclid(HOURS_OF_DAY)
}

/// When an hour began, milliseconds since 1970.
#[must_use]
pub const fn begin_of(hour: i64) -> i64 {
    hour.saturating_mul(HOUR)
}
