//! What is seen of a program without anybody's being stopped, and when: samples, and looks at values.

use crate::hunt::plan::event::{SiteId, What};

/// Looks at values are so far apart, s.
pub(super) const VALUES_S: f64 = 10.0;
/// Samples of which a planner hears between two decisions, at most.
const MOST_SEEN: u32 = 4;

/// See the module. Times in s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meanwhile {
    /// When there is the next look at values.
    pub(super) next_values: f64,
    /// When there is the next sample.
    pub(super) samples_due: f64,
}

impl Meanwhile {
    /// Where samples have landed that were due until now, so far apart: as `sampled` says, for each that a planner hears of.
    pub(super) fn samples(
        &mut self,
        now: f64,
        apart: f64,
        mut sampled: impl FnMut() -> Option<SiteId>,
    ) -> Vec<What> {
        let mut all = Vec::new();
        let mut seen = 0;
        while self.samples_due <= now {
            if seen < MOST_SEEN {
                all.extend(sampled().map(What::Seen));
            }
            seen += 1;
            self.samples_due = if seen < MOST_SEEN {
                self.samples_due + apart
            } else {
                now + apart
            };
        }
        all
    }

    /// Whether it is looked at values now.
    pub(super) fn looks_at_values(&mut self, now: f64) -> bool {
        let is_due = now >= self.next_values;
        if is_due {
            self.next_values = now + VALUES_S;
        }
        is_due
    }
}
