//! The machine's processors.
//!
//! Source of the format: `Documentation/admin-guide/cputopology.rst` (`/sys/devices/system/cpu/online`).

/// The processors that are online; empty where the kernel does not say.
#[must_use]
pub fn online() -> Vec<u32> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    parse(&list)
}

/// Reads a list such as `0-3,8,10-11`.
fn parse(list: &str) -> Vec<u32> {
    /// More processors than any kernel is built for (`CONFIG_NR_CPUS`).
    const MOST: u32 = 1 << 16;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.parse().ok()?;
        let last: u32 = last.parse().ok()?;
        (last < MOST).then_some(first..=last)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that lists are read, and that nonsense is no processor.
    #[test]
    fn lists_are_read() {
        assert_eq!(parse("0-1\n"), [0, 1]);
        assert_eq!(parse("0,2-4,7\n"), [0, 2, 3, 4, 7]);
        assert_eq!(parse(""), [0; 0]);
        assert_eq!(parse("x,1-,0-4294967295,5"), [5]);
    }

    /// Check that this machine has one.
    #[test]
    fn there_is_a_processor() {
        assert!(!online().is_empty());
    }
}
