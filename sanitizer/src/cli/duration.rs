//! Times as users give them.

use std::{ops::RangeInclusive, time::Duration};

/// Reads a time with a unit (`90d`): a number alone, other than 0, would be days to one and seconds to another.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(0) => Ok(Duration::ZERO),
        Ok(number) => Err(format!(
            "give it with a unit, such as {number}s, {number}m, {number}h or {number}d"
        )),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }
}

/// Reads a time: with a unit (`5m`), or in seconds, as timeout(1) does.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => parse_duration(text),
    }
}

/// Reads a time with a unit that is within bounds.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse_within(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
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

    /// Check that times have units, but for none at all, and that only how long to watch may be given in plain seconds.
    #[test]
    fn durations() {
        for parse in [parse_duration, parse_seconds] {
            assert_eq!(parse("5m"), Ok(Duration::from_secs(300)));
            assert_eq!(parse("0"), Ok(Duration::ZERO));
            for nonsense in ["", "-1", "1 parsec", "99999999999999999999"] {
                assert!(parse(nonsense).is_err(), "{nonsense}");
            }
        }
        assert_eq!(parse_seconds("60"), Ok(Duration::from_secs(60)));
        let error = parse_duration("60").unwrap_err();
        assert!(error.contains("60s, 60m, 60h or 60d"), "{error}");
    }
}
