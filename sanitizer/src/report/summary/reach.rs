//! What is told of how much of the program's code was under watch: one decision from all figures that say something of it, so that no sentence
//! contradicts another.
//!
//! Samples and stalls are two ways to look: samples say where time is spent, and threads are stalled as well where no sample ever was (the planner waits for
//! them with breakpoints). So that no sample was in analyzed code says nothing where threads were stalled there.

use super::{Summary, count};

/// What takes a smaller share of the time than this is not named, percent.
const WORTH_TELLING: f64 = 1.0;
/// What is rounded to nothing, percent.
const NOTHING: f64 = 0.05;
/// Fewer samples do not tell that something takes hardly any time.
const MANY: u64 = 1000;

/// Of the time that was sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Share {
    /// So much of it was in analyzed code, percent.
    Percent(f64),
    /// Hardly any, although threads were stalled there.
    Hardly,
    /// There were no samples, and no stalls.
    None,
    /// There is nothing to be said of it: threads were stalled, and of the few samples, if any, none was in analyzed code.
    Untold,
}

/// Of the access sites that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sites {
    /// At so many of so many a thread was stalled.
    Stalled(u64, u64),
    /// So many are known, and which were stalled at is not: the process that knew has ended.
    Known(u64),
    /// There are none, or nobody counts them.
    Untold,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reach {
    pub(super) share: Share,
    pub(super) sites: Sites,
}

impl Reach {
    pub(super) fn of(summary: &Summary) -> Self {
        let sampled = summary.sites_sampled.unwrap_or(0);
        let are_stalled = summary.stalls > 0 || sampled > 0 || summary.races_total > 0;
        let share = match summary.analyzed_percent {
            Some(percent) if percent >= NOTHING || !are_stalled => Share::Percent(percent),
            Some(_) if summary.samples >= MANY => Share::Hardly,
            None if !are_stalled => Share::None,
            _ => Share::Untold,
        };
        let sites = match summary.sites_total.unwrap_or(0).max(sampled) {
            0 => Sites::Untold,
            total if sampled == 0 && are_stalled => Sites::Known(total),
            total => Sites::Stalled(sampled, total),
        };
        Self { share, sites }
    }
}

/// It, as parts of a sentence.
pub(super) fn reach(summary: &Summary) -> Vec<String> {
    let Reach { share, sites } = Reach::of(summary);
    let share = match share {
        Share::Percent(percent) => Some(format!(
            "{percent:.1} % of the sampled time was in analyzed code"
        )),
        Share::Hardly => {
            Some("less than 0.1 % of the sampled time was in analyzed code".to_owned())
        }
        Share::None => Some("no analyzed code was sampled".to_owned()),
        Share::Untold => None,
    };
    let hottest = summary.hottest_unanalyzed.as_ref();
    let hottest = hottest.filter(|hottest| hottest.percent >= WORTH_TELLING);
    let time = match (share, hottest) {
        (share, None) => share,
        (Some(share), Some(hottest)) => Some(format!(
            "{share} ({:.1} % in {}, which is not analyzed)",
            hottest.percent,
            hottest.name()
        )),
        (None, Some(hottest)) => Some(format!(
            "{:.1} % of the sampled time was in {}, which is not analyzed",
            hottest.percent,
            hottest.name()
        )),
    };
    let sites = match sites {
        Sites::Stalled(sampled, total) => Some(format!(
            "{sampled} of {} sampled",
            count(total, "access site")
        )),
        Sites::Known(total) => Some(format!("{} known", count(total, "access site"))),
        Sites::Untold => None,
    };
    time.into_iter().chain(sites).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Hex, Unanalyzed};

    fn told(summary: &Summary) -> String {
        let parts = reach(summary).into_iter();
        parts.map(|part| format!("; {part}")).collect()
    }

    /// Check what is said for each combination of figures.
    #[test]
    fn one_decision() {
        for (samples, analyzed, stalls, sites, expected) in [
            // Samples and stalls agree.
            (
                100,
                Some(87.54),
                9,
                Some((5, 134)),
                "; 87.5 % of the sampled time was in analyzed code; 5 of 134 access sites sampled",
            ),
            // An idle program: no sample, and stalls all the same.
            (
                0,
                None,
                9,
                Some((5, 134)),
                "; 5 of 134 access sites sampled",
            ),
            (
                0,
                None,
                0,
                Some((5, 134)),
                "; 5 of 134 access sites sampled",
            ),
            (
                10,
                Some(0.0),
                9,
                Some((1, 1)),
                "; 1 of 1 access site sampled",
            ),
            (
                5000,
                Some(0.02),
                9,
                Some((5, 134)),
                "; less than 0.1 % of the sampled time was in analyzed code; 5 of 134 access sites sampled",
            ),
            // Nothing was stalled.
            (
                0,
                None,
                0,
                Some((0, 134)),
                "; no analyzed code was sampled; 0 of 134 access sites sampled",
            ),
            (
                5000,
                Some(0.0),
                0,
                Some((0, 0)),
                "; 0.0 % of the sampled time was in analyzed code",
            ),
            (0, None, 0, None, "; no analyzed code was sampled"),
            // Who knew the sites has ended before it had told.
            (0, None, 3, Some((0, 134)), "; 134 access sites known"),
            (0, None, 3, None, ""),
            // More than there are, since functions were forgotten.
            (0, None, 9, Some((7, 5)), "; 7 of 7 access sites sampled"),
        ] {
            let summary = Summary {
                samples,
                analyzed_percent: analyzed,
                stalls,
                sites_sampled: sites.map(|(sampled, _)| sampled),
                sites_total: sites.map(|(_, total)| total),
                ..Summary::default()
            };
            assert_eq!(told(&summary), expected, "{summary:?}");
        }
    }

    /// Check for all combinations of small figures that nothing is said which another part denies.
    #[test]
    fn nothing_contradicts() {
        let percents = [None, Some(0.0), Some(0.01), Some(50.0)];
        let counts = [None, Some(0), Some(3)];
        for samples in [0, 5, 5000] {
            for analyzed_percent in percents {
                for stalls in [0, 3] {
                    for races_total in [0, 1] {
                        for sites_total in counts {
                            for sites_sampled in counts {
                                let summary = Summary {
                                    samples,
                                    analyzed_percent,
                                    stalls,
                                    races_total,
                                    sites_total,
                                    sites_sampled,
                                    ..Summary::default()
                                };
                                let text = told(&summary);
                                let are_stalled =
                                    stalls > 0 || races_total > 0 || sites_sampled == Some(3);
                                for denial in ["no analyzed code", "; 0.0 %", "; 0 of "] {
                                    assert!(
                                        !are_stalled || !text.contains(denial),
                                        "{text}: {summary:?}"
                                    );
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Check that the hottest function is named with the share that it is told beside, and alone where that says nothing.
    #[test]
    fn the_hottest_function() {
        let hottest = |percent| {
            Some(Unanalyzed {
                function: Some("crunch".to_owned()),
                module: Some("/lib/libhot.so".to_owned()),
                offset: Hex(0x1139),
                percent,
            })
        };
        let mut summary = Summary {
            samples: 100,
            analyzed_percent: Some(40.0),
            hottest_unanalyzed: hottest(60.0),
            ..Summary::default()
        };
        assert_eq!(
            told(&summary),
            "; 40.0 % of the sampled time was in analyzed code (60.0 % in crunch (libhot.so+0x1139), which is not analyzed)"
        );
        summary.analyzed_percent = Some(0.0);
        summary.stalls = 1;
        assert_eq!(
            told(&summary),
            "; 60.0 % of the sampled time was in crunch (libhot.so+0x1139), which is not analyzed"
        );
        summary.hottest_unanalyzed = hottest(0.5);
        assert_eq!(told(&summary), "");
    }
}
