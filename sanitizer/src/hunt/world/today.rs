//! A strategy as a planner: it sees a simulated program's code and values, and is asked and told as by the engine. Today's rules are `auto` itself.
//!
//! Left out is what the world does not have: that threads hold locks when they come to a site, and that a site's bytes have an address
//! by which two threads' are compared; so nobody is spared, and no company is waited for. Where a sample or a site may claim a thread,
//! whichever comes first, the site does.

use std::time::Duration;

use gwp_race_abi::own;

use crate::{
    hunt::{
        auto::Auto,
        plan::{
            Planner,
            action::{Action, ActionId, Deed, Then},
            choose::ByWorth,
            event::{Event, LetGo, Partner, SiteId, StallEnd, VariableId, What},
            purse::Purse,
        },
        planned::Planned,
        strategy::{Conflict, Means, Outcome, Patience, Proposal, Sample, Step, Strategy, Turn},
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
/// A variable is watched for so long; and so often at most, while there is budget.
const WATCHED: Duration = Duration::from_millis(500);
const WATCH_PAUSE: Duration = Duration::from_millis(2500);
/// How often that is done in place of a wait while there is none.
const INSTEAD: f64 = 0.25;
/// Housekeeping, and how many of them between two forgettings.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
const DECAY_ROUNDS: u32 = 10;
/// Stalls until the strategy is told what they cost.
const ENOUGH: u32 = 8;
/// While nothing is left.
const REST: Duration = Duration::from_millis(5);
/// Where a thread has its stack, and what its registers point to otherwise.
const STACK: u64 = 0x7fff_0000_0000;
const THREAD: u64 = 0x7ffe_0000_0000;
const HEAP: u64 = 0x7000_0000_0000;

/// See the module.
pub struct Today {
    strategy: Box<dyn Strategy>,
    random: fastrand::Rng,
    image: CodeImage,
    id: ActionId,
    turn: Option<Turn>,
    next_watch: Duration,
    next_round: Duration,
    rounds: u32,
    samples: u64,
    /// Variables that change, and how often they were looked at.
    changing: Vec<VariableId>,
    looks: u8,
    /// The place of the sample in hand, as the strategy calls it.
    place: u64,
    /// What was spent beside the stalls since the strategy was told, s, and how many there were.
    beside_s: f64,
    stalls: u32,
    held_s: f64,
    /// What was spent in all, s.
    spent_s: f64,
}

impl Today {
    /// `auto` with a budget of such a share.
    #[must_use]
    pub fn new(seed: u64, share: f64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let auto = Auto::new(random.u64(..), share, LONGEST_STALL).by_steps();
        Self::with(Box::new(auto), random)
    }

    /// The planner, by way of the strategy that it has in the engine.
    #[must_use]
    pub fn planned(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let planned = Planned::new(Box::new(ByWorth::new(seed)), seed).by_steps();
        Self::with(Box::new(planned), random)
    }

    fn with(strategy: Box<dyn Strategy>, random: fastrand::Rng) -> Self {
        Self {
            strategy,
            random,
            image: CodeImage::default(),
            id: ActionId(0),
            turn: None,
            next_watch: Duration::ZERO,
            next_round: HOUSEKEEPING,
            rounds: 0,
            samples: 0,
            changing: Vec::new(),
            looks: 0,
            place: 0,
            beside_s: 0.0,
            stalls: 0,
            held_s: 0.0,
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
        if self.stalls >= ENOUGH {
            let each = self.beside_s / f64::from(self.stalls);
            self.strategy.costs(Duration::from_secs_f64(each));
            (self.beside_s, self.stalls) = (0.0, 0);
        }
    }

    /// As `engine/waiting.rs` decides.
    fn choose(&mut self, now: Duration, purse: &Purse) -> Deed {
        self.strategy.sampled(std::mem::take(&mut self.samples));
        let means = Means {
            purse: *purse,
            spent_s: self.spent_s,
        };
        if let Some(step) = self.strategy.step(now, &means, &self.image) {
            return self.follow(step);
        }
        let is_spent = purse.left_s <= 0.0;
        let turn = match self.turn.take() {
            Some(Turn::Clock(_)) if !is_spent => {
                // It had its time.
                self.strategy.turn_was_in_vain();
                Turn::Site
            }
            Some(turn) => turn,
            None => self.strategy.turn(now),
        };
        self.turn = Some(turn);
        if let Turn::Clock(at_most) = turn
            && !is_spent
        {
            return Deed::Sample {
                at_most,
                then: Then::LetGo,
            };
        }
        if is_spent {
            return self.meanwhile(purse);
        }
        if now >= self.next_watch {
            self.next_watch = now + WATCH_PAUSE;
            if let Some(deed) = self.watch(1.0) {
                return deed;
            }
        }
        self.turn = None;
        match self.strategy.wait(&self.image) {
            Some(wait) => self.wait(wait.at, wait.time),
            None => Deed::Rest { time: REST },
        }
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
                at_most: WATCHED,
            },
            Step::Rest(time) => Deed::Rest { time },
        }
    }

    fn meanwhile(&mut self, purse: &Purse) -> Deed {
        if !purse.may_stop() {
            return Deed::Rest { time: REST };
        }
        if let Some(deed) = self.watch(INSTEAD) {
            return deed;
        }
        match self.strategy.wait_meanwhile() {
            Some(wait) => self.wait(wait.at, wait.time),
            None => Deed::Rest { time: REST },
        }
    }

    fn watch(&mut self, most: f64) -> Option<Deed> {
        let unexplained = self.strategy.unexplained()?;
        let is_worth_it = self.random.f64() < most * unexplained.weight;
        is_worth_it.then(|| Deed::Watch {
            variable: variable_at(unexplained.variable),
            at_most: WATCHED,
        })
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

impl Planner for Today {
    fn observe(&mut self, _now: Duration, event: &Event) {
        match &event.what {
            What::Code(facts) => {
                self.image = CodeImage::of(facts);
                self.strategy.extend();
            }
            What::CodeGone => self.strategy.forget(),
            What::Seen(site) => {
                self.samples += 1;
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
                self.stalls += 1;
                self.held_s += lasted.as_secs_f64();
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
                let part = lasted.div_duration_f64(WATCHED).min(1.0);
                let writers: Vec<_> = writers.iter().map(|writer| self.conflict(writer)).collect();
                let variable = address_of(*variable);
                self.strategy.watched(variable, part, &writers);
            }
            What::LetGo {
                why: LetGo::Unsuitable,
                ..
            } => self.strategy.outcome(self.place, Outcome::Unsuitable),
            What::Cost(cost) => {
                self.spent_s += cost;
                self.beside_s += cost - std::mem::take(&mut self.held_s);
            }
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
        self.turn = None;
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
}
