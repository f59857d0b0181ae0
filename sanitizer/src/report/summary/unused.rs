//! Suppressions that have matched nothing, as text.

use std::fmt::Write as _;

use crate::report::clean::clean;

use super::{Summary, count};

/// A line each, of many some: they may be those of races that were mended, or of names that were changed.
#[must_use]
pub fn unused_lines(summary: &Summary) -> String {
    const MOST: usize = 10;
    let mut out = String::new();
    let unused = &summary.suppressions_unused;
    for rule in unused.iter().take(MOST) {
        let place = format!("{}:{}", rule.file, rule.line);
        let text = clean(&rule.rule);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "gwp-race: {}: {text} matched nothing in this run",
            clean(&place)
        );
    }
    if let Some(more) = unused.len().checked_sub(MOST).filter(|&more| more > 0) {
        let more = count(more as u64, "more rule");
        let _ = writeln!(
            out,
            "gwp-race: {more} of the suppressions matched nothing in this run"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::UnusedRule;

    /// Check that rules are told with file and line, and that thousands take some lines only.
    #[test]
    fn rules_are_told() {
        let rule = |line| UnusedRule {
            file: "my.supp".to_owned(),
            line,
            rule: "race:\u{1b}old".to_owned(),
        };
        let mut summary = Summary::default();
        assert_eq!(unused_lines(&summary), "");
        summary.suppressions_unused.push(rule(3));
        let text = unused_lines(&summary);
        assert!(text.starts_with("gwp-race: my.supp:3: race:"), "{text}");
        assert!(text.ends_with("old matched nothing in this run\n") && !text.contains('\u{1b}'));
        summary.suppressions_unused = (1..=1000).map(rule).collect();
        let text = unused_lines(&summary);
        assert_eq!(text.lines().count(), 11);
        assert!(text.ends_with("990 more rules of the suppressions matched nothing in this run\n"));
    }
}
