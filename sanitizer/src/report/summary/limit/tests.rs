//! What is said to have limited a session.

use super::*;
use crate::report::{Hex, Unanalyzed};

/// A busy program of which sampling has cost what it may: 6475 sites, of which 100 were stalled at in 500 s.
fn busy() -> Summary {
    Summary {
        elapsed_s: 500.0,
        samples: 5000,
        stalls: 300,
        analyzed_percent: Some(80.0),
        sites_total: Some(6475),
        sites_sampled: Some(100),
        target_cpu_s: 1000.0,
        spent_s: [("tracer".to_owned(), 6.0), ("stops".to_owned(), 3.5)].into(),
        max_overhead_percent: 1.0,
        ..Summary::default()
    }
}

/// Check that the rate is told, and what it would be with a larger budget, as long as that is not large already.
#[test]
fn the_budget_limits() {
    let summary = busy();
    assert_eq!(Limit::of(&summary), Some(Limit::Budget));
    assert_eq!(
        advice(&summary),
        "gwp-race: at this rate one pass over the 6475 access sites takes 9 hours at least; with --max-overhead 10% it would take 54 minutes\n"
    );
    let with = |percent: f64| Summary {
        max_overhead_percent: percent,
        spent_s: [("tracer".to_owned(), 9.9 * percent)].into(),
        ..busy()
    };
    let text = advice(&with(5.0));
    assert!(
        text.ends_with("with --max-overhead 20% it would take 2 hours\n"),
        "{text}"
    );
    let text = advice(&with(0.5));
    assert!(
        text.ends_with("with --max-overhead 5% it would take 54 minutes\n"),
        "{text}"
    );
    for large in [20.0, 100.0] {
        let text = advice(&with(large));
        assert!(
            text.ends_with("takes 9 hours at least; let the program run as long\n"),
            "{text}"
        );
    }
    // Too few to tell a rate, and who knows no sites.
    for few in [Some(9), None] {
        let summary = Summary {
            sites_sampled: few,
            sites_total: few.map(|_| 6475),
            ..busy()
        };
        assert_eq!(
            advice(&summary),
            "gwp-race: all that sampling may cost was spent (1 % of 1000.0 s of CPU time); let the program run longer, or let it cost more: --max-overhead 10%\n"
        );
    }
}

/// Check what else limits, each from the same session with other figures, and that nothing but the budget has a larger one advised.
#[test]
fn other_limits() {
    let hottest = Unanalyzed {
        function: Some("crunch".to_owned()),
        module: Some("/lib/libhot.so".to_owned()),
        offset: Hex(0x1139),
        percent: 90.0,
    };
    let failed = |reason: &str, times| [(reason.to_owned(), times)].into();
    for (summary, limit, said) in [
        (
            Summary {
                no_stall: failed("watchpoint-failed", 400),
                ..busy()
            },
            Limit::Failures("watchpoint-failed", 400),
            "400 times threads could not be stopped, or nothing be watched (watchpoint-failed), more often",
        ),
        (
            Summary {
                stalls: 0,
                unwatchable_threads: 4,
                ..busy()
            },
            Limit::Unwatchable(4),
            "nobody was stalled, since 4 threads could not be watched; `gwp-race doctor PID`",
        ),
        (
            Summary {
                stalls: 0,
                analyzed_percent: Some(0.2),
                hottest_unanalyzed: Some(hottest),
                ..busy()
            },
            Limit::NotAnalyzed,
            "build crunch (libhot.so+0x1139) with the metadata as well",
        ),
        (
            Summary {
                target_cpu_s: 5.0,
                ..busy()
            },
            Limit::Idle,
            "has used 5.0 s of CPU time in 8 minutes, and sampling may cost 1 % of that; put it under load, or let sampling cost more of it: --max-overhead 10%",
        ),
        (
            Summary {
                target_cpu_s: 5.0,
                spent_s: failed_to_spend(),
                ..busy()
            },
            Limit::Idle,
            "put it under load\n",
        ),
        (
            Summary {
                sites_sampled: Some(6000),
                ..busy()
            },
            Limit::Sites,
            "threads were stalled at 6000 of 6475 access sites; have the program do something else",
        ),
        (
            Summary {
                sites_total: None,
                sites_sampled: None,
                sample_period_s: Some(2.0),
                spent_s: failed_to_spend(),
                ..busy()
            },
            Limit::SamplePeriod(2.0),
            "samples came each 2.0 s of CPU time (--sample-period)",
        ),
        (
            Summary {
                sample_period_s: Some(2.0),
                spent_s: failed_to_spend(),
                ..busy()
            },
            Limit::Time,
            "at this rate one pass over the 6475 access sites takes 9 hours at least, and what sampling may cost was not spent",
        ),
    ] {
        assert_eq!(Limit::of(&summary), Some(limit));
        let text = advice(&summary);
        assert!(text.contains(said), "{text}");
        if limit != Limit::Idle {
            assert!(!text.contains("--max-overhead 10%"), "{text}");
        }
    }
}

fn failed_to_spend() -> std::collections::BTreeMap<String, f64> {
    // What starts cost is not of the budget.
    [("tracer".to_owned(), 0.001), ("starts".to_owned(), 60.0)].into()
}

/// Check that a few failures are told as none, nothing is said where there is nothing to go by, and nothing where a race was caught.
#[test]
fn nothing_to_say() {
    let summary = Summary {
        no_stall: [("watchpoint-failed".to_owned(), 19)].into(),
        stalls: 5,
        ..busy()
    };
    assert_eq!(Limit::of(&summary), Some(Limit::Budget));
    let short = Summary {
        elapsed_s: 0.9,
        ..busy()
    };
    let older = Summary {
        max_overhead_percent: 0.0,
        ..busy()
    };
    let caught = Summary {
        races_unique: 1,
        ..busy()
    };
    let bare = Summary {
        metadata_seen: Some(false),
        ..busy()
    };
    for summary in [Summary::default(), short, older, caught, bare] {
        assert_eq!(advice(&summary), "", "{summary:?}");
    }
}

/// Check that times are told in a unit that leaves few digits.
#[test]
fn times_in_words() {
    for (seconds, words) in [
        (0.0, "1 second"),
        (89.0, "89 seconds"),
        (90.0, "2 minutes"),
        (3240.0, "54 minutes"),
        (32_400.0, "9 hours"),
        (172_800.0, "2 days"),
        (63_072_000.0, "2 years"),
        (f64::INFINITY, "18446744073709551615 years"),
    ] {
        assert_eq!(about(seconds), words);
    }
}
