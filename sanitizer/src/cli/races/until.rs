//! Until when a word counts.

use std::time::Duration;

use crate::cli::duration::parse_duration;
use crate::store::{millis_of, millis_of_day};

/// An end, as users give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// So long from now on.
    For(Duration),
    /// This time, milliseconds since 1970.
    At(i64),
}

impl Until {
    /// The end, for what is said at a time; milliseconds since 1970.
    ///
    /// # Errors
    /// It is past.
    pub fn end(self, now: i64) -> anyhow::Result<i64> {
        let end = match self {
            Self::For(time) => {
                let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
                now.saturating_add(time)
            }
            Self::At(end) => end,
        };
        anyhow::ensure!(
            end > now,
            "the end given by --until is past; give a later date, or a time from now on such as 30d"
        );
        Ok(end)
    }
}

/// Reads a time with a unit (`30d`), a date (`2027-01-31`: when that day begins in UTC), or a time of a day by RFC 3339.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse_until(text: &str) -> Result<Until, String> {
    if let Ok(time) = parse_duration(text) {
        return Ok(Until::For(time));
    }
    let end = millis_of(text).or_else(|| millis_of_day(text));
    end.map(Until::At).ok_or_else(|| {
        "give a time such as 30d, a date such as 2027-01-31, or 2027-01-31T12:00:00Z".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check which ends are understood, and that one which is past is refused.
    #[test]
    fn ends() {
        const DAY: i64 = 86_400_000;
        let now = millis_of("2027-01-30T00:00:00Z").unwrap();
        for (text, end) in [
            ("1d", now + DAY),
            ("60s", now + 60_000),
            ("2027-01-31", now + DAY),
            ("2027-01-31T12:00:00Z", now + DAY + DAY / 2),
        ] {
            let until = parse_until(text).unwrap();
            assert_eq!(until.end(now).unwrap(), end, "{text}");
        }
        for text in ["0", "2027-01-30", "1999-12-31"] {
            let error = parse_until(text).unwrap().end(now).unwrap_err();
            assert!(error.to_string().contains("is past"), "{text}: {error}");
        }
        for text in ["", "60", "soon", "2027-13-01", "2027-01", "-1d"] {
            let error = parse_until(text).unwrap_err();
            assert!(error.contains("such as 30d"), "{text}: {error}");
        }
        // A time without end is as good as any that has none.
        let longest = format!("{}s", u64::MAX);
        assert_eq!(parse_until(&longest).unwrap().end(now).unwrap(), i64::MAX);
    }
}
