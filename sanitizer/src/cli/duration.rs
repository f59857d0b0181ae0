//! Times as users give them.

use std::{ops::RangeInclusive, time::Duration};

/// Reads a time: with a unit (`90d`), or in seconds.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    humantime::parse_duration(text).map_err(|error| error.to_string())
}

/// Reads a time with a unit that is within bounds.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse_within(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if !bounds.contains(&duration) {
        return Err(format!(
            "give a time from {} to {}",
            humantime::format_duration(*bounds.start()),
            humantime::format_duration(*bounds.end())
        ));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a duration may be given in plain seconds.
    #[test]
    fn durations() {
        assert_eq!(parse_duration("60"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        for nonsense in ["", "-1", "1 parsec", "99999999999999999999"] {
            assert!(parse_duration(nonsense).is_err(), "{nonsense}");
        }
    }
}
