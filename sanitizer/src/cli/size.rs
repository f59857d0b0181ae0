//! Sizes of memory and files as users give them.

/// Units that a size may have, with their bytes.
const UNITS: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Reads a size with its unit: `150MiB`; in bytes.
///
/// # Errors
/// Says what is wanted.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let unit = UNITS.iter().find_map(|&(unit, bytes)| {
        let number = text.strip_suffix(unit)?.trim_end();
        // `parse` takes a sign, too.
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        number
            .parse::<u64>()
            .ok()
            .filter(|_| is_number)?
            .checked_mul(bytes)
    });
    unit.ok_or_else(|| "give a size in KiB, MiB or GiB, such as 150MiB".to_owned())
}

/// A size as [`parse_size`] reads it, in the largest unit of which it has a whole number.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    let fits = |&&(_, unit): &&(&str, u64)| bytes.is_multiple_of(unit);
    match UNITS.iter().rev().find(fits) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that sizes are read with their unit, shown as they are read, and that nonsense is refused.
    #[test]
    fn sizes() {
        assert_eq!(parse_size("150MiB"), Ok(150 << 20));
        assert_eq!(parse_size("1 GiB"), Ok(1 << 30));
        for shown in ["150MiB", "1GiB", "3KiB", "1025MiB"] {
            assert_eq!(show_size(parse_size(shown).unwrap()), shown);
        }
        assert_eq!(show_size(1000), "1000 bytes");
        for nonsense in [
            "",
            "150",
            "MiB",
            "-1MiB",
            "+1MiB",
            "1.5GiB",
            "1MB",
            "99999999999GiB",
        ] {
            assert!(parse_size(nonsense).is_err(), "{nonsense}");
        }
    }
}
