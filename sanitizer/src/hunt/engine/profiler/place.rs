//! A place for a probe that stands, while it is taken.

use std::time::Duration;

use crate::hunt::plan::event::{SiteId, Stood};
use crate::hunt::strategy::SiteProbe;
use crate::kernel::probes::Probes;

/// See the module.
pub(super) struct Place {
    pub(super) probe: SiteProbe,
    /// It is armed; otherwise it is to be.
    pub(super) stands: bool,
    /// Arrivals of which the strategy was told, and when, CLOCK_MONOTONIC, ns.
    counted: u64,
    pub(super) told: u64,
    /// Whoever comes is let pass.
    pub(super) is_spared: bool,
    /// The code may be another one by now.
    pub(super) is_stale: bool,
}

impl Place {
    /// It is taken for a probe that is to be armed. `now`: CLOCK_MONOTONIC, ns.
    pub(super) const fn of(probe: SiteProbe, now: u64) -> Self {
        Self {
            probe,
            stands: false,
            counted: 0,
            told: now,
            is_spared: false,
            is_stale: false,
        }
    }

    /// Who has come since the strategy was told last, until then.
    pub(super) fn tell(&mut self, probes: &Probes, tag: u32, until: u64) -> Stood {
        let arrivals = probes.arrivals(tag);
        let count = arrivals.saturating_sub(std::mem::replace(&mut self.counted, arrivals));
        let since = std::mem::replace(&mut self.told, until);
        Stood {
            lasted: Duration::from_nanos(until.saturating_sub(since)),
            count: u32::try_from(count).unwrap_or(u32::MAX),
            stands: self.stands,
            ..self.gone()
        }
    }

    /// It does not stand any more; who came is not known.
    pub(super) const fn gone(&self) -> Stood {
        Stood {
            site: SiteId(self.probe.site),
            lasted: Duration::ZERO,
            count: 0,
            stands: false,
        }
    }
}
