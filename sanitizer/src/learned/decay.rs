//! How what was learned is forgotten as time passes.

use std::time::Duration;

/// The time in which half of what was learned is forgotten, unless somebody says otherwise: a week.
pub const HALF_LIFE: Duration = Duration::from_hours(7 * 24);

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Decay {
    /// ms since 1970.
    pub now: i64,
    /// ms.
    half_life: f64,
}

impl Decay {
    /// At a time, ms since 1970, where half is forgotten in that time.
    #[must_use]
    pub fn new(now: i64, half_life: Duration) -> Self {
        Self {
            now,
            half_life: half_life.as_secs_f64() * 1e3,
        }
    }

    /// What part is left now of what was seen at a time, ms since 1970. A clock may have been put back, or be wrong: what is still to come is now.
    #[must_use]
    pub fn left(self, seen: i64) -> f64 {
        let passed = self.now.saturating_sub(seen).max(0) as f64;
        (-passed / self.half_life).exp2()
    }
}
