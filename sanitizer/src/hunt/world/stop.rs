//! What comes of a thread's being stopped in a simulated program: who meets it while it is held, and who uses its bytes when it has gone on.

use std::time::Duration;

use gwp_race_abi::{MORE_NS, OWN_ACCESSES};

use crate::hunt::plan::{
    action::Then,
    event::{LetGo, Partner, StallEnd, What},
};

use super::{
    arrival::Bytes,
    costs::{LONGEST_STALL, MOST_TRAPS},
    program::{After, Meeting, Order, exponential},
    simulation::{Find, MOST_USERS, World, id},
};

/// A stall is not ended for a lock before this time.
pub(super) const LOOK_AT_LOCKS_S: f64 = 0.5e-3;
/// Whoever has caught somebody is held as long again as that took, and so much longer.
pub(super) const GOES_ON_S: f64 = 1e-3;

impl World<'_> {
    /// A thread stands before its access at a site, to these bytes; what comes of it.
    pub(super) fn stopped(&mut self, index: usize, bytes: Bytes, then: Then) -> What {
        self.spend(self.hunt.costs.stop_s);
        let site = id(index);
        let mut others = self.others(index, bytes);
        others.sort_by(|one, other| one.0.total_cmp(&other.0));
        if !bytes.are_watched && then != Then::LetGo {
            self.spend(self.hunt.costs.arm_s);
            self.now += self.hunt.costs.delay_s;
        }
        match then {
            Then::Hold { at_most, look } => {
                let (lasted, end) = self.hold(at_most.min(LONGEST_STALL), &others);
                self.run.stalls += 1;
                let is_quiet = matches!(end, StallEnd::Quiet | StallEnd::Locked);
                if is_quiet && !look.is_zero() {
                    // Whom the thread has kept from coming comes from now on.
                    self.after = Some(self.look(index, bytes, look, &others));
                }
                What::Held {
                    site,
                    lasted: Duration::from_secs_f64(lasted),
                    end,
                }
            }
            Then::Look(at_most) => {
                self.run.looks += 1;
                self.look(index, bytes, at_most, &others)
            }
            Then::LetGo => What::LetGo {
                site,
                why: LetGo::Wanted,
            },
        }
    }

    /// How much likelier than at the site as a whole it is that others use these bytes.
    pub(super) fn part_at_hand(&self, index: usize, bytes: Bytes) -> f64 {
        let area = self.program.sites.get(index).and_then(|site| site.area);
        match (area, bytes.is_of_area) {
            (Some(area), true) => 1.0 / area.share,
            (Some(_), false) => 0.0,
            (None, _) => 1.0,
        }
    }

    /// Who else uses the bytes that a thread is about to access at a site, and how long after they are watched.
    pub(super) fn others(&mut self, index: usize, bytes: Bytes) -> Vec<(f64, Meeting)> {
        let part = self.part_at_hand(index, bytes);
        // All of them are about the same bytes.
        let chance = self.random.f64();
        let mut others = Vec::new();
        for meeting in self.meetings_of(index).to_vec() {
            let meets = chance < part * meeting.chance;
            if meets && self.is_reached_at(meeting.other, self.now) {
                let after = meeting.after.draw(&mut self.random);
                let after = self.seen_after(meeting.after, after, bytes);
                others.extend(after.map(|after| (after, meeting)));
            }
        }
        others
    }

    /// The meetings of a site.
    pub(super) fn meetings_of(&self, index: usize) -> &[Meeting] {
        let range = self
            .of_site
            .get(index)
            .map(|(first, behind)| *first as usize..*behind as usize);
        let meetings = range.and_then(|range| self.meetings.get(range));
        meetings.unwrap_or_default()
    }

    /// How long after the bytes are watched somebody uses them who does so long after a thread has come there. Who comes once may have come by then.
    fn seen_after(&self, kind: After, after: f64, bytes: Bytes) -> Option<f64> {
        match kind {
            After::Within(_) if !bytes.are_watched => {
                let after = after - self.hunt.costs.delay_s;
                (after >= 0.0).then_some(after)
            }
            _ => Some(after),
        }
    }

    /// Holds a thread that others meet at these times; for how long that was, s, and how it ended.
    fn hold(&mut self, longest: Duration, others: &[(f64, Meeting)]) -> (f64, StallEnd) {
        let mut until = longest.as_secs_f64();
        let (mut new, mut known) = (Vec::new(), Vec::new());
        let (mut traps, mut waits_since) = (0.0, None);
        for &(after, meeting) in others {
            if after > until {
                break;
            }
            match (meeting.order, meeting.race()) {
                (Order::Lock, _) => {
                    waits_since.get_or_insert(after);
                    self.learn_lock(&meeting);
                    until = until.min(after.max(LOOK_AT_LOCKS_S));
                }
                (Order::None, Some(race)) => {
                    let partner = Partner {
                        site: id(meeting.other),
                        after: Duration::from_secs_f64(after),
                    };
                    if self.found.insert(race) {
                        self.run.races.push(race);
                        self.run.finds.push(Find {
                            time_s: self.now + after,
                            spent_s: self.run.spent_s + after,
                            stalls: self.run.stalls + 1,
                        });
                        new.push(partner);
                        until = until.min(2.0 * after + GOES_ON_S);
                    } else {
                        known.push(partner);
                    }
                    traps += traps_of(meeting.after, until - after);
                }
                _ => {}
            }
        }
        let traps = f64::min(traps, MOST_TRAPS);
        let waited = waits_since.map_or(0.0, |since| (until - since) / 2.0);
        self.spend(until + waited + traps * self.hunt.costs.trap_s);
        self.now += until;
        let end = match (new.is_empty(), known.is_empty(), waits_since) {
            (false, ..) => StallEnd::Hit(new),
            (true, false, _) => StallEnd::Known(known),
            (true, true, Some(_)) => StallEnd::Locked,
            (true, true, None) => StallEnd::Quiet,
        };
        (until, end)
    }

    /// Who uses bytes again that are used again and again, and did so before or while a thread stood before them.
    fn come_again(&mut self, index: usize, bytes: Bytes) -> Vec<(f64, Meeting)> {
        let mut come = Vec::new();
        if !bytes.is_of_area {
            return come;
        }
        for meeting in self.meetings_of(index).to_vec() {
            if !matches!(meeting.after, After::Within(_)) {
                continue;
            }
            let rate = self.program.rate_at(&meeting, bytes.address);
            if rate > 0.0 && self.is_reached_at(meeting.other, self.now) {
                come.push((exponential(rate, &mut self.random), meeting));
            }
        }
        come
    }

    /// Watches, after a thread has gone on from a site, what these others use.
    fn look(
        &mut self,
        index: usize,
        bytes: Bytes,
        at_most: Duration,
        others: &[(f64, Meeting)],
    ) -> What {
        let longest = at_most.as_secs_f64();
        let mut others = others.to_vec();
        others.extend(self.come_again(index, bytes));
        others.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all = others.iter();
        let all: f64 = all
            .map(|(_, meeting)| traps_of(meeting.after, longest))
            .sum();
        let lasted = longest * (MOST_TRAPS / all.max(MOST_TRAPS));
        let own = Own::of(self.program.sites[index].comes.mean());
        let lasted = own.ends(others.first().map(|(after, _)| *after), lasted);
        let within = others.iter().filter(|(after, _)| *after <= lasted);
        let users = within.take(MOST_USERS).map(|(after, meeting)| Partner {
            site: id(meeting.other),
            after: Duration::from_secs_f64(*after),
        });
        let users: Vec<_> = users.collect();
        self.spend(all.min(MOST_TRAPS) * self.hunt.costs.trap_s);
        self.now += lasted;
        What::Looked {
            site: id(index),
            lasted: Duration::from_secs_f64(lasted),
            is_private: users.is_empty() && own.again_s <= lasted,
            users,
        }
    }
}

/// When a thread that goes on from a site has used the bytes again so often that a look at them says that they are its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) again_s: f64,
}

impl Own {
    /// It uses them so often a second.
    pub(super) fn of(rate: f64) -> Self {
        Self {
            again_s: OWN_ACCESSES as f64 / rate,
        }
    }

    /// How long a look lasts, s, in which the first other one comes after so many seconds, and that ends for another reason after `lasted`.
    pub(super) fn ends(self, first_s: Option<f64>, lasted: f64) -> f64 {
        let alone = self.again_s.max(MORE_NS as f64 / 1e9);
        match first_s {
            Some(first) if first <= alone => lasted,
            _ => lasted.min(alone),
        }
    }
}

/// Accesses that trap within so many seconds, of one who comes after such a time.
fn traps_of(after: After, seconds: f64) -> f64 {
    match after {
        After::Rate(rate) => rate * seconds.max(0.0),
        After::Within(_) => 1.0,
    }
}
