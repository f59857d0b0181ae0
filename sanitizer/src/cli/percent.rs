//! Shares as users give them.

use std::ops::RangeInclusive;

use crate::hunt::bounds;

/// Reads a share in percent, with or without the sign; 1 is all.
///
/// # Errors
/// Says what is wanted.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    parse(text)
        .filter(|share| bounds::is_share(*share))
        .ok_or_else(|| "give a share above 0 and up to 100, such as 1% or 0.5%".to_owned())
}

/// Reads a share that is within bounds.
///
/// # Errors
/// Says what is wanted.
pub fn parse_percent_within(text: &str, bounds: &RangeInclusive<f64>) -> Result<f64, String> {
    let (least, most) = (percent(*bounds.start()), percent(*bounds.end()));
    match parse(text) {
        Some(share) if bounds.contains(&share) => Ok(share),
        Some(share) => Err(format!("{} is not from {least} to {most}", percent(share))),
        None => Err(format!("give a share from {least} to {most}")),
    }
}

fn parse(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%').unwrap_or(text);
    number
        .trim()
        .parse::<f64>()
        .ok()
        .map(|percent| percent / 100.0)
}

/// A share in percent, as it may be given.
pub fn percent(share: f64) -> String {
    /// So that 1 % is not 1.0000000000000002 %.
    const DIGITS: f64 = 1e6;
    let percent = (share * 100.0 * DIGITS).round() / DIGITS;
    format!("{percent}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that shares are read with and without the sign, and nonsense is refused.
    #[test]
    fn shares() {
        assert_eq!(parse_percent("1%"), Ok(0.01));
        assert_eq!(parse_percent("0.5"), Ok(0.005));
        for nonsense in ["", "%", "0", "-1", "101%", "nan", "inf", "one"] {
            assert!(parse_percent(nonsense).is_err(), "{nonsense}");
            let refusal = parse_percent_within(nonsense, &(0.001..=0.8)).unwrap_err();
            assert!(refusal.ends_with(" from 0.1% to 80%"), "{refusal}");
        }
        assert_eq!(parse_percent_within("80%", &(0.001..=0.8)), Ok(0.8));
    }
}
