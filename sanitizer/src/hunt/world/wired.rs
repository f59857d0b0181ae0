//! The planner by way of the strategy that it has in the engine: that sees a simulated program's code and values, and is asked and told as by the engine.
//!
//! Left out is what the world does not have: that threads hold locks when they come to a site, and that a site's bytes have an address
//! by which two threads' are compared; so nobody is spared, and no company is waited for.

use std::time::Duration;

use gwp_race_abi::own;

use crate::{
    hunt::{
        plan::{
            Planner,
            action::{Action, ActionId, Candidate, Deed, Then},
            choose::ByWorth,
            event::{Event, LetGo, Partner, SiteId, StallEnd, VariableId, What},
            purse::Purse,
        },
        planned::Planned,
        strategy::{About, Conflict, Means, Outcome, Patience, Proposal, Sample, Step, Strategy},
        values::PAGE,
    },
    insn::Regs,
};

use super::{
    costs::LONGEST_STALL,
    image::{CodeImage, LENGTH, address_of, variable_at},
};

/// A stall is no shorter than this.
const USUAL_STALL: Duration = Duration::from_micros(500);
/// Housekeeping, and how many of them between two forgettings.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
const DECAY_ROUNDS: u32 = 10;
/// While nothing is left.
const REST: Duration = Duration::from_millis(5);
/// Where a thread has its stack, and what its registers point to otherwise.
const STACK: u64 = 0x7fff_0000_0000;
const THREAD: u64 = 0x7ffe_0000_0000;
const HEAP: u64 = 0x7000_0000_0000;

/// See the module.
pub struct Wired {
    strategy: Planned,
    image: CodeImage,
    id: ActionId,
    next_round: Duration,
    rounds: u32,
    /// Variables that change, and how often they were looked at.
    changing: Vec<VariableId>,
    looks: u8,
    /// The place of the sample in hand, as the strategy calls it.
    place: u64,
    /// What was spent in all, s.
    spent_s: f64,
}

impl Wired {
    /// The planner, whose draws follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            strategy: Planned::new(Box::new(ByWorth::new(seed)), seed).by_steps(),
            image: CodeImage::default(),
            id: ActionId(0),
            next_round: HOUSEKEEPING,
            rounds: 0,
            changing: Vec::new(),
            looks: 0,
            place: 0,
            spent_s: 0.0,
        }
    }

    /// What the engine does once a second.
    fn keep_house(&mut self) {
        self.rounds += 1;
        self.looks = self.looks.wrapping_add(1);
        let Self {
            strategy,
            changing,
            looks,
            ..
        } = self;
        strategy.look_at_values(&|page, bytes| {
            for &variable in changing.iter() {
                let offset = address_of(variable).wrapping_sub(page);
                if offset < PAGE
                    && let Some(byte) = bytes.get_mut(offset as usize)
                {
                    *byte = *looks;
                }
            }
            true
        });
        if self.rounds.is_multiple_of(DECAY_ROUNDS) {
            self.strategy.decay();
        }
    }

    /// As `engine/waiting/` asks.
    fn choose(&mut self, now: Duration, purse: &Purse) -> Deed {
        let means = Means {
            purse: *purse,
            spent_s: self.spent_s,
        };
        let step = self.strategy.step(now, &means, &self.image);
        self.follow(step)
    }

    fn follow(&self, step: Step) -> Deed {
        match step {
            Step::Sample(at_most) => Deed::Sample {
                at_most,
                then: Then::LetGo,
            },
            Step::Wait(wait) => self.wait(wait.at, wait.time),
            Step::Watch(unexplained) => Deed::Watch {
                variable: variable_at(unexplained.variable),
                at_most: unexplained.at_most,
            },
            Step::Preempted => Deed::Preempted,
            Step::Arrival(but, at_most) => Deed::Arrival {
                but: but
                    .into_iter()
                    .filter_map(|at| self.image.site(at))
                    .collect(),
                at_most,
            },
            // It is told of nothing that can be probed.
            Step::Profile(_, time) | Step::Rest(time) => Deed::Rest { time },
        }
    }

    fn wait(&self, at: u64, time: Duration) -> Deed {
        match self.image.site(at) {
            Some(site) => Deed::Wait {
                site,
                at_most: time,
                // That is decided when somebody has come.
                then: Then::LetGo,
                wanted: None,
            },
            None => Deed::Rest { time: REST },
        }
    }

    fn conflict(&self, partner: &Partner) -> Conflict {
        Conflict {
            behind: self.image.address(partner.site) + LENGTH,
            distance: partner.after,
        }
    }

    /// Somebody used what is accessed at a site.
    fn shared(&mut self, partners: &[Partner], outcome: impl Fn(Conflict) -> Outcome) {
        let conflicts: Vec<_> = partners
            .iter()
            .map(|partner| self.conflict(partner))
            .collect();
        if let Some((first, others)) = conflicts.split_first() {
            self.strategy.outcome(self.place, outcome(*first));
            for other in others {
                self.strategy.uses(*other);
            }
        }
    }
}

impl Planner for Wired {
    fn observe(&mut self, _now: Duration, event: &Event) {
        match &event.what {
            What::Code(facts) => {
                self.image = CodeImage::of(facts);
                self.strategy.extend();
            }
            What::SeesPreempted(sees) => self.strategy.sees_preempted(*sees),
            // It is told of nothing that can be probed.
            What::Stood(_) | What::Refused(_) => {}
            What::CodeGone => self.strategy.forget(),
            // What is told of code is told where it is looked at.
            What::Told(_) | What::New(_) => {}
            What::Seen(site) => {
                let at = self.image.address(*site);
                self.strategy.seen(at, &self.image);
            }
            What::Changes(variable) => {
                if !self.changing.contains(variable) {
                    self.changing.push(*variable);
                }
            }
            What::Nobody { site, .. } => {
                let at = self.image.address(*site);
                self.strategy.outcome(at, Outcome::NotReached);
            }
            What::Held { lasted, end, .. } => {
                self.strategy.stalled(*lasted);
                match end {
                    StallEnd::Quiet => self.strategy.outcome(self.place, Outcome::Quiet),
                    StallEnd::Locked => self.strategy.outcome(self.place, Outcome::Locked),
                    StallEnd::Known(_) => self.strategy.outcome(self.place, Outcome::Repeat),
                    StallEnd::Hit(partners) => self.shared(partners, Outcome::Hit),
                }
            }
            What::Looked {
                users, is_private, ..
            } => match (users.as_slice(), is_private) {
                ([], true) => self.strategy.outcome(self.place, Outcome::Private),
                ([], false) => self.strategy.outcome(self.place, Outcome::Unused),
                (users, _) => self.shared(users, Outcome::Shared),
            },
            What::Watched {
                variable,
                lasted,
                writers,
            } => {
                let writers: Vec<_> = writers.iter().map(|writer| self.conflict(writer)).collect();
                let variable = address_of(*variable);
                self.strategy.watched(variable, *lasted, &writers);
            }
            What::LetGo {
                why: LetGo::Unsuitable,
                ..
            } => self.strategy.outcome(self.place, Outcome::Unsuitable),
            What::Cost(cost) => self.spent_s += cost,
            What::LetGo {
                site,
                why: LetGo::HoldsLock,
            } => {
                let at = self.image.address(*site);
                self.strategy.outcome(at, Outcome::Held);
            }
            What::LetGo { .. }
            | What::Executes(_)
            | What::WatchesAhead
            | What::Profiles { .. }
            | What::Profiled { .. }
            | What::About { .. }
            | What::Passed { .. }
            | What::Threads(_)
            | What::Came { .. }
            | What::NoSample { .. } => {}
        }
    }

    fn decide(&mut self, now: Duration, purse: &Purse) -> Action {
        while now >= self.next_round {
            self.next_round = now.max(self.next_round) + HOUSEKEEPING;
            self.keep_house();
        }
        self.id = self.id.next();
        Action {
            id: self.id,
            deed: self.choose(now, purse),
        }
    }

    fn stopped(
        &mut self,
        _now: Duration,
        ahead: &[SiteId],
        waited: Option<Duration>,
    ) -> Option<(SiteId, Then)> {
        let site = *ahead.first()?;
        let regs = Regs {
            rip: self.image.address(site),
            rsp: STACK,
            fs_base: THREAD,
            rdi: HEAP,
            ..Regs::default()
        };
        let sample = Sample {
            regs: &regs,
            rbp_is_frame: false,
            own_frame: &|_| own::FRAME,
            routine_returns_to: None,
            waited,
            stack: &Vec::new,
        };
        let (at, place, patience) = match self.strategy.propose(&sample, &self.image) {
            Proposal::StallHere { site, patience } => (regs.rip, site, patience),
            Proposal::Seek { at, site, patience } => (at, site, patience),
            Proposal::Pass(_) => return Some((site, Then::LetGo)),
        };
        self.place = place;
        let look = self.strategy.probe(place);
        let then = match (patience, look) {
            (Patience::Look, None) => Then::LetGo,
            (Patience::Look, Some(look)) => Then::Look(look),
            (Patience::Hold(time), look) => Then::Hold {
                at_most: time.clamp(USUAL_STALL, LONGEST_STALL),
                look: look.unwrap_or_default(),
            },
        };
        Some((self.image.site(at)?, then))
    }

    fn preempted(&mut self, _now: Duration, all: &[Candidate]) -> Option<(usize, Duration)> {
        let abouts = all.iter().map(|candidate| About {
            pc: self.image.address(candidate.site),
            left: candidate.left,
        });
        let abouts: Vec<_> = abouts.collect();
        let (index, at_most) = self.strategy.preempted(&abouts, &self.image)?;
        self.place = abouts.get(index)?.pc;
        Some((index, at_most))
    }
}
