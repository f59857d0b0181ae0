//! Profiles: for some milliseconds the kernel notes who comes to any of some dozens of sites, and what it is about to access. What has come of it so far, and what may come.

use std::{sync::Arc, time::Duration};

use super::{catalogue::Number, counts::left_of, event::SiteId, posterior::Gamma, prior};

/// How long a profile takes.
pub const LENGTH: Duration = Duration::from_millis(2);
/// Sites of one, at most.
pub const MOST: usize = 64;
/// A site to which so many come in a profile slows them down: it is let alone from then on, and what is known of it stands.
pub(super) const BUSY: u32 = 200;

/// What a profile may still tell of a site: 1 at first. It comes back by the half-life.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// What is missing of 1.
    pub(super) known: f64,
    /// Too many come there.
    busy: f64,
    as_of_s: f64,
}

impl Told {
    /// Too many come there to profile it again.
    pub(super) fn is_busy(self) -> bool {
        self.busy > 0.5
    }

    fn at(self, now: f64) -> Self {
        let left = left_of(self.as_of_s, now, prior::HALF_LIFE);
        Self {
            known: self.known * left,
            busy: self.busy * left,
            as_of_s: self.as_of_s.max(now),
        }
    }
}

/// Sites that could be profiled.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The sites.
    pub sites: Arc<[SiteId]>,
    /// How many of them are to be expected to tell something: of each, whether somebody comes and how new it is.
    pub(super) fresh: f64,
    /// When it was drawn, s.
    pub(super) drawn_s: f64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Profiles {
    /// How long from the beginning of one to that of the next one, at least; `None` while there are none to be had.
    pub(super) apart: Option<Duration>,
    /// Before this time there is none, s.
    pub(super) not_before_s: f64,
    told: Vec<Told>,
    pub(super) draft: Option<Draft>,
    /// Fresh sites of the one that is under way.
    under_way: f64,
    /// Of the last ones: fresh sites, those whose bytes others were seen to use, profiles, what they took of time and of the budget, s.
    fresh: f64,
    found: f64,
    count: f64,
    time_s: f64,
    cost_s: f64,
}

impl Profiles {
    /// They can be had, so far apart.
    pub const fn are_to_be_had(&mut self, apart: Duration) {
        self.apart = Some(apart);
    }

    /// Nothing is known any more, but that they can be had.
    #[must_use]
    pub fn forgotten(&self) -> Self {
        Self {
            apart: self.apart,
            not_before_s: self.not_before_s,
            ..Self::default()
        }
    }

    /// The one that was drawn has begun.
    pub fn begin(&mut self, now: f64) {
        self.under_way = self.draft.take().map_or(0.0, |draft| draft.fresh);
        self.not_before_s = now + self.apart.unwrap_or_default().as_secs_f64();
    }

    pub(super) fn told(&self, number: Number, now: f64) -> Told {
        let told = self.told.get(number as usize).copied();
        told.unwrap_or_default().at(now)
    }

    /// Somebody came to a site so often in a profile.
    pub(super) fn tell(&mut self, number: Number, now: f64, arrivals: u32) {
        let index = number as usize;
        if self.told.len() <= index {
            self.told.resize(index + 1, Told::default());
        }
        let told = &mut self.told[index];
        *told = told.at(now);
        let part = if arrivals > 0 {
            prior::PROFILED
        } else {
            prior::PROFILED_NOBODY
        };
        told.known = 1.0 - part * (1.0 - told.known);
        if arrivals >= BUSY {
            told.busy = 1.0;
        }
    }

    /// It is over; so many sites were found, and it has cost so much of the budget, s.
    pub fn end(&mut self, found: f64, cost_s: f64) {
        /// What is left with each one.
        const FADES: f64 = 0.98;
        for (sum, new) in [
            (&mut self.fresh, std::mem::take(&mut self.under_way)),
            (&mut self.found, found),
            (&mut self.count, 1.0),
            (&mut self.cost_s, cost_s),
        ] {
            *sum = FADES * *sum + new;
        }
        self.time_s *= FADES;
    }

    /// It has taken so much time until something else could be done, s.
    pub fn took(&mut self, time_s: f64) {
        self.time_s += time_s;
    }

    /// Sites that are found for each that is fresh.
    fn rate(&self) -> Gamma {
        Gamma {
            events: prior::PROFILE * prior::PROFILE_WEIGHT + self.found,
            time_s: prior::PROFILE_WEIGHT + self.fresh,
        }
    }

    /// Sites whose bytes others are seen to use, that are to be expected of the next one.
    #[must_use]
    pub fn expected(&self) -> f64 {
        let draft = self.draft.as_ref();
        draft.map_or(0.0, |draft| draft.fresh * self.rate().mean())
    }

    /// The next one: its sites; what is found in it, as likely as it is thought to be; and what it takes of time and of the budget, s. There must be a draft.
    pub fn draw(&self, random: &mut fastrand::Rng) -> Option<(Arc<[SiteId]>, f64, f64, f64)> {
        let draft = self.draft.as_ref()?;
        let count = prior::COST_WEIGHT + self.count;
        let time_s = LENGTH.as_secs_f64() * prior::COST_WEIGHT + self.time_s;
        let cost_s = prior::COST_PROFILE * prior::COST_WEIGHT + self.cost_s;
        Some((
            Arc::clone(&draft.sites),
            draft.fresh * self.rate().draw(random),
            time_s / count,
            cost_s / count,
        ))
    }
}
