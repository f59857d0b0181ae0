//! Counts of days as bars. The pictures are in the templates; here are their measures.

use crate::store::day;

const DAY: i64 = 86_400_000;
/// The measures of a sparkline.
const STEP: usize = 7;
const WIDTH: usize = 5;
const HEIGHT: i64 = 20;

/// See the module.
pub(super) struct Chart {
    pub(super) width: usize,
    pub(super) height: i64,
    pub(super) bars: Vec<Bar>,
    /// The same in words.
    pub(super) words: String,
}

pub(super) struct Bar {
    pub(super) x: usize,
    pub(super) y: i64,
    pub(super) width: usize,
    pub(super) height: i64,
    /// `none` where the count is nothing.
    pub(super) class: &'static str,
}

impl Chart {
    /// Of the last days, today last.
    pub(super) fn new(days: &[i64]) -> Self {
        let most = days.iter().copied().max().unwrap_or_default().max(1);
        let bars = days.iter().enumerate().map(|(index, &times)| {
            // What was caught at all is seen.
            let height = i128::from(times.max(0)) * i128::from(HEIGHT) / i128::from(most);
            let height = i64::try_from(height)
                .unwrap_or(HEIGHT)
                .max(if times > 0 { 2 } else { 1 });
            Bar {
                x: index * STEP,
                y: HEIGHT - height,
                width: WIDTH,
                height,
                class: if times > 0 { "some" } else { "none" },
            }
        });
        let counts: Vec<String> = days.iter().map(i64::to_string).collect();
        Self {
            width: (days.len() * STEP).saturating_sub(STEP - WIDTH).max(1),
            height: HEIGHT,
            bars: bars.collect(),
            words: format!(
                "Caught on each of the last {} days, today last: {}",
                days.len(),
                counts.join(", ")
            ),
        }
    }
}

/// The date of a day that is counted from 1970.
pub(super) fn date(number: i64) -> String {
    day(number.saturating_mul(DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that bars are within their picture, that a day with anything is seen, and that no count is too large.
    #[test]
    fn bars_are_within() {
        for days in [
            vec![],
            vec![0; 14],
            vec![1, 0, 1_000_000],
            vec![i64::MAX, 1, -5],
        ] {
            let chart = Chart::new(&days);
            assert_eq!(chart.bars.len(), days.len());
            for (bar, times) in chart.bars.iter().zip(&days) {
                assert!(bar.x + bar.width <= chart.width);
                assert!(bar.y >= 0 && bar.y + bar.height == chart.height);
                assert_eq!(bar.height > 1, *times > 0);
            }
        }
        assert!(Chart::new(&[0, 3]).words.ends_with("today last: 0, 3"));
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(20_454), "2026-01-01");
    }
}
