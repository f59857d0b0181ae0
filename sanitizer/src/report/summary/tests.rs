//! What the summary says of silence.

use super::*;

/// Check that silence is qualified by everything that limits it.
#[test]
fn qualifies_silence() {
    let summary = Summary {
        elapsed_s: 30.0,
        stalls: 1,
        watched_s: 0.25,
        analyzed_percent: Some(87.54),
        hottest_unanalyzed: Some(Unanalyzed {
            function: Some("crunch".to_owned()),
            module: Some("/lib/libhot.so".to_owned()),
            offset: crate::report::hex::Hex(0x1139),
            percent: 10.0,
        }),
        unwatchable_threads: 2,
        threads_created: 40,
        threads_left_alone: 30,
        probe_bursts: 12,
        probe_hits: 345,
        probes_armed: 900,
        probes_hot: 21,
        arrivals: 77,
        arrivals_stopped: 31,
        own_stops: 9000,
        times_let_alone: 3,
        let_alone_s: 12.5,
        not_watched: [("prog", "limit", 3), ("test", "ended-early", 1)]
            .map(|(name, reason, count)| (name.to_owned(), [(reason.to_owned(), count)].into()))
            .into(),
        readers_ended: 7,
        files_not_read: ["/lib/a.so", "/lib/b.so"]
            .map(|name| (name.to_owned(), "it hangs".to_owned()))
            .into(),
        hits_swallowed: [("both-atomic".to_owned(), 3)].into(),
        no_stall: [("no-access-ahead".to_owned(), 7)].into(),
        value_changed_unknown_origin: 1,
        target_stopped_s: 0.5,
        target_cpu_s: 125.0,
        slowdown_percent: 0.4,
        one_cpu_percent: 1.667,
        ..Summary::default()
    };
    assert_eq!(
        closing_line(&summary),
        "gwp-race: no data race was caught, which does not prove that there is none: memory \
         was watched for 250.0 ms of 30.0 s (1 stall); 87.5 % of the sampled time was in analyzed code \
         (10.0 % in crunch (libhot.so+0x1139), which is not analyzed); \
         2 threads could not be watched; 30 of 40 threads that were created could not be held within the budget; \
         threads were let alone 3 times, for 12.5 s in all, as their own signals cost more than the budget; \
         not watched: prog (3 times, too many at a time), test (1 time, ended before it could be watched); of /lib/a.so and 1 other file there are addresses only, as reading debug information failed; 3 hits not reported; the value changed without a \
         hit 1 time. Threads of the target were stopped for 500.0 ms (slowdown 0.40 % of 125.0 s of CPU time, 1.67 % of one CPU).\n"
    );
    // Less CPU time than a single stall may take a large share of.
    let short = Summary {
        target_cpu_s: 0.0177,
        spent_s: [("tracer".to_owned(), 0.05), ("stops".to_owned(), 0.0055)].into(),
        slowdown_percent: 313.65,
        one_cpu_percent: 0.186,
        ..summary.clone()
    };
    assert!(closing_line(&short).ends_with(
        "stopped for 500.0 ms (watching took 55.5 ms beside 17.7 ms of CPU time, 0.19 % of one CPU).\n"
    ));
    assert!(!stats_text(&short).contains("313"));
    // So has one that has waited for hours.
    let idle = Summary {
        target_cpu_s: 1.5,
        spent_s: [("tracer".to_owned(), 16.76)].into(),
        slowdown_percent: 1117.3,
        one_cpu_percent: 0.46,
        analyzed_percent: None,
        hottest_unanalyzed: None,
        sites_total: Some(134),
        sites_sampled: Some(5),
        ..summary.clone()
    };
    let line = closing_line(&idle);
    assert!(
        line.ends_with("(watching took 16.8 s beside 1.5 s of CPU time, 0.46 % of one CPU).\n")
    );
    assert!(
        line.contains("5 of 134 access sites sampled") && !line.contains("no analyzed code"),
        "{line}"
    );
    let known = Summary {
        races_known: 2,
        ..summary.clone()
    };
    assert!(closing_line(&known).starts_with(
        "gwp-race: no new data race was caught, only 2 known ones, which does not prove that there is no other: "
    ));
    let found = Summary {
        races_unique: 2,
        races_total: 5,
        ..summary
    };
    assert!(closing_line(&found).starts_with(
        "gwp-race: 2 data races were caught (5 times in all); more may exist where nothing \
         was watched: memory was watched"
    ));
    let figures = stats_text(&found);
    assert!(figures.contains("  processes not watched       3 (prog: limit)\n"));
    assert!(figures.contains("  hits swallowed              3 (both-atomic)\n"));
    assert!(figures.contains("  file not read               /lib/b.so: it hangs\n"));
    assert!(figures.contains("  readers ended               7\n"));
    assert!(figures.contains("  bursts of probes            12\n"));
    assert!(figures.contains("  probes that stood           900\n"));
    assert!(figures.contains("  probes too hot              21\n"));
    assert!(figures.contains("  arrivals at probes          77\n"));
    assert!(figures.contains("  arrivals stopped            31\n"));
    assert!(figures.contains("  samples without a stall     7 (no-access-ahead)\n"));
}
