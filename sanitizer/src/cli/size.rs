//! Sizes as users give them.

/// Units of sizes, bytes.
const UNITS: [(&str, u64); 2] = [("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Reads a size with its unit, bytes.
///
/// # Errors
/// Says what is wanted.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let size = UNITS.iter().find_map(|(unit, bytes)| {
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(*bytes)
    });
    size.ok_or_else(|| "give a whole number of MiB or GiB, such as 150MiB".to_owned())
}

/// A size of so many bytes as it is read, in the largest unit of which it is a whole number, or in MiB rounded up.
#[must_use]
pub fn size(bytes: u64) -> String {
    let [(mib, of_mib), (gib, of_gib)] = UNITS;
    if bytes > 0 && bytes.is_multiple_of(of_gib) {
        format!("{}{gib}", bytes / of_gib)
    } else {
        format!("{}{mib}", bytes.div_ceil(of_mib))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that sizes are read with their units and shown as they are read, and nonsense is refused.
    #[test]
    fn sizes() {
        for (text, bytes) in [("150MiB", 150 << 20), ("2GiB", 2 << 30), ("1 MiB", 1 << 20)] {
            assert_eq!(parse_size(text), Ok(bytes));
            assert_eq!(size(bytes), text.replace(' ', ""));
        }
        assert_eq!([size(0), size(1)], ["0MiB", "1MiB"]);
        for nonsense in [
            "",
            "MiB",
            "150",
            "-1MiB",
            "1.5GiB",
            "1MB",
            "99999999999999GiB",
        ] {
            assert!(parse_size(nonsense).is_err(), "{nonsense}");
        }
    }
}
