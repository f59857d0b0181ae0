//! Shares as users give them.

use crate::hunt::bounds;

/// Reads a share in percent, with or without the sign; 1 is all.
///
/// # Errors
/// Says what is wanted.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.trim().parse::<f64>() {
        Ok(percent) if bounds::is_share(percent / 100.0) => Ok(percent / 100.0),
        _ => Err("give a share above 0 and up to 100, such as 1% or 0.5%".to_owned()),
    }
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
        }
    }
}
