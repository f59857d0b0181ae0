//! What the engine asks of the planner by way of its terms, and tells.

use std::time::Duration;

use super::{
    super::{
        memory::{Gained, Remembered},
        plan::{
            action::{Candidate, Deed, Then},
            event::{AddressId, SiteId, Stood, What},
        },
        strategy::{
            About, CodeView, Conflict, Means, Noted, Outcome, Proposal, Sample, SiteProbe, Step,
            Strategy, Unexplained,
        },
        values::Read,
    },
    Diary, Hand, LONGEST_REST, Planned, profile,
};
use crate::{hunt::known_code::site::AccessSite, report::LookedAt};

impl Strategy for Planned {
    fn step(&mut self, now: Duration, means: &Means, code: &dyn CodeView) -> Step {
        self.now = now;
        self.tell(means, code);
        let action = self.planner.decide(now, &means.purse);
        let (step, then) = match &action.deed {
            &Deed::Wait {
                site,
                at_most,
                then,
                wanted,
            } => {
                let wait = self.wait_at(site.0, at_most, then, wanted, means);
                (Step::Wait(wait), then)
            }
            &Deed::Sample { at_most, then } => (Step::Sample(at_most), then),
            Deed::Arrival { but, at_most } => {
                let but = but.iter().map(|site| site.0);
                (Step::Arrival(but.collect(), *at_most), Then::LetGo)
            }
            Deed::Preempted => (Step::Preempted, Then::LetGo),
            &Deed::Watch { variable, at_most } => {
                let byte = self.code.known.variables.changed_byte(variable.0);
                let watch = Unexplained {
                    variable: variable.0,
                    byte: byte.unwrap_or(variable.0),
                    at_most,
                };
                (Step::Watch(watch), Then::LetGo)
            }
            Deed::Profile { sites, at_most } => {
                let probes = sites.iter().filter_map(|site| self.code.probe(site.0));
                (Step::Profile(probes.collect(), *at_most), Then::LetGo)
            }
            &Deed::Rest { time } => (Step::Rest(time.min(LONGEST_REST)), Then::LetGo),
        };
        self.hand = Some(Hand {
            action,
            since: now,
            spent_s: means.spent_s,
            then,
            is_for_any: false,
        });
        step
    }

    fn propose(&mut self, sample: &Sample<'_>, code: &dyn CodeView) -> Proposal {
        let pc = sample.regs.rip;
        self.code.note(pc, || (sample.stack)());
        match self.hand.as_ref().map(|hand| &hand.action.deed) {
            Some(&Deed::Wait { site, .. }) if site.0 == pc => self.come(site, sample, code),
            Some(Deed::Sample { .. } | Deed::Arrival { .. }) => self.sampled(sample, code),
            _ => Proposal::Pass("no-site-here"),
        }
    }

    fn preempted(&mut self, all: &[About], code: &dyn CodeView) -> Option<(usize, Duration)> {
        let candidates: Vec<_> = (all.iter())
            .map(|about| {
                let _ = self.code.known.learn(about.pc, code);
                Candidate {
                    site: SiteId(about.pc),
                    left: about.left,
                }
            })
            .collect();
        for what in self.code.news(code) {
            self.observe(None, what);
        }
        let chosen = self.planner.preempted(self.now, &candidates);
        if let (Some(hand), Some((_, at_most))) = (&mut self.hand, chosen) {
            let look = Duration::ZERO;
            hand.then = Then::Hold { at_most, look };
        }
        chosen
    }

    fn sees_preempted(&mut self, sees: bool) {
        if std::mem::replace(&mut self.sees_preempted, sees) != sees {
            self.observe(None, What::SeesPreempted(sees));
        }
    }

    fn own_frame(&self, pc: u64) -> u64 {
        self.code.known.own_frame(pc)
    }

    fn probe(&self, _site: u64) -> Option<Duration> {
        match self.hand.as_ref()?.then {
            Then::Hold { look, .. } | Then::Look(look) => (!look.is_zero()).then_some(look),
            Then::LetGo => None,
        }
    }

    fn can_watch_ahead(&mut self) {
        if !std::mem::replace(&mut self.watches_ahead, true) {
            self.observe(None, What::WatchesAhead);
        }
    }

    fn can_profile(&mut self, apart: Duration) {
        if !std::mem::replace(&mut self.code.has_probes, true) {
            self.observe(None, What::Profiles { apart });
        }
    }

    fn sites_to_probe(&mut self) -> Vec<SiteProbe> {
        std::mem::take(&mut self.code.new_probes)
    }

    fn is_executed(&self, site: u64) -> bool {
        self.code.is_executed(site)
    }

    fn stood(&mut self, told: &[Stood]) {
        self.observe(None, What::Stood(told.into()));
    }

    fn refused(&mut self, sites: &[u64]) {
        let sites = sites.iter().copied().map(SiteId);
        self.observe(None, What::Refused(sites.collect()));
    }

    fn profiled(&mut self, noted: &Noted) {
        let known = &self.code.known;
        let writes = |site| {
            known
                .get(site)
                .is_some_and(|site| site.has(AccessSite::WRITES))
        };
        let what = profile::told(noted, writes);
        self.note_profile(&what);
        // Something else is in hand by now.
        self.observe(None, what);
    }

    fn waits_for_any(&mut self) {
        if let Some(hand) = &mut self.hand {
            hand.is_for_any = true;
        }
    }

    fn waited(&mut self, time: Duration) {
        self.diary.waited(time);
    }

    fn watched_ahead(&mut self, site: u64, address: u64, lasted: Duration, users: &[Conflict]) {
        (self.diary).watched_ahead(SiteId(site), AddressId(address), lasted, users);
    }

    fn about(&mut self, site: u64, address: u64) {
        self.diary.about(SiteId(site), AddressId(address));
    }

    fn stalled(&mut self, lasted: Duration) {
        self.diary.stalled(lasted);
    }

    fn watched(&mut self, variable: u64, lasted: Duration, writers: &[Conflict]) {
        self.diary.watched(variable, lasted, writers);
    }

    fn seen(&mut self, pc: u64, _: &dyn CodeView) {
        self.code.note(pc, Vec::new);
    }

    fn extend(&mut self) {
        self.code.extend(self.random.u64(..));
    }

    fn forget(&mut self) {
        self.code = self.code.forgotten(self.random.u64(..));
        self.diary = Diary::default();
        self.hand = None;
        self.contended.clear();
        self.raced.clear();
        self.observe(None, What::CodeGone);
    }

    fn decay(&mut self) {
        self.code.known.decay();
    }

    fn coverage(&self) -> Option<(u64, u64)> {
        Some(self.code.known.coverage())
    }

    fn expected_races(&self) -> f64 {
        self.planner.expected()
    }

    fn looked_at(&self) -> Vec<LookedAt> {
        self.code.known.looked_at()
    }

    fn remember(&mut self, remembered: Remembered) {
        self.code.memory.remember(remembered);
    }

    fn gained(&mut self, raced: &[(u64, u64)], code: &dyn CodeView) -> Vec<Gained> {
        let seen = self.planner.gained();
        self.code.gained(seen, raced, code)
    }

    fn knows_race(&mut self, site: u64, behind: u64, code: &dyn CodeView) -> bool {
        self.code.knows_race(site, behind, code)
    }

    fn uses(&mut self, other: Conflict) {
        self.diary.uses(other);
    }

    fn look_at_values(&mut self, read: &Read<'_>) {
        self.code.known.look_at_values(self.code.timekeeper, read);
    }

    fn outcome(&mut self, site: u64, outcome: Outcome) {
        self.diary.outcome(SiteId(site), outcome);
        self.code.known.outcome(site, outcome);
    }
}
