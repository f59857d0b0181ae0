//! Waiting at a site of a simulated program: who comes, who is let pass before, and who uses the bytes that are watched meanwhile.

use std::time::Duration;

use crate::hunt::plan::event::{AddressId, LetGo, Partner, SiteId, What};

use super::{
    arrival::{Arrival, Bytes},
    costs::{MOST_HELD, MOST_PASSED, MOST_TRAPS, PASSED},
    program::{Meeting, Order, exponential},
    simulation::{MOST_USERS, World, id},
};

impl World<'_> {
    /// Waits at a site: who comes, or what else came of it.
    pub(super) fn wait_at(
        &mut self,
        site: SiteId,
        at_most: f64,
        wanted: Option<AddressId>,
    ) -> Result<Arrival, Option<What>> {
        let index = usize::try_from(site.0).ok();
        let known = index.and_then(|index| Some((index, *self.program.sites.get(index)?)));
        let (index, known) = known.ok_or(None)?;
        self.run.waits += 1;
        let armed = if wanted.is_some() { 2.0 } else { 1.0 };
        self.spend(armed * self.hunt.costs.arm_s);
        self.now += self.hunt.costs.delay_s;
        let (begin, until) = (self.now, self.now + at_most);
        self.earn();
        let chance = wanted.map_or(1.0, |address| {
            known.area.map_or(0.0, |area| area.chance(address))
        });
        let mut from = begin + self.owed_for_s();
        let is_spared = self.locks.contains(&index);
        let most = if is_spared { MOST_HELD } else { MOST_PASSED };
        let mut passed = 0;
        let came = loop {
            let at = self.next_arrival(index, from);
            if at > until {
                self.now = until;
                break false;
            }
            self.now = at;
            if !is_spared && (chance >= 1.0 || self.random.f64() < chance) {
                break true;
            }
            passed += 1;
            if passed >= most {
                break false;
            }
            from = at;
        };
        let traps = f64::from(passed) + if came { PASSED } else { 0.0 };
        self.spend(traps * self.hunt.costs.trap_s);
        let waited_s = self.now - begin;
        let are_watched =
            wanted.is_some_and(|address| self.watch_in_advance(index, address, waited_s));
        let waited = Duration::from_secs_f64(waited_s);
        if came {
            let bytes = match wanted {
                Some(address) => Bytes {
                    address,
                    is_of_area: true,
                    are_watched,
                },
                None => self.bytes(index),
            };
            Ok(Arrival {
                index,
                waited,
                bytes,
            })
        } else if is_spared && passed > 0 {
            let why = LetGo::HoldsLock;
            Err(Some(What::LetGo { site, why }))
        } else {
            Err(Some(What::Nobody { site, waited }))
        }
    }

    /// When somebody comes to a site after a time.
    fn next_arrival(&mut self, index: usize, from: f64) -> f64 {
        let Some(comes) = self.program.sites.get(index).map(|site| site.comes) else {
            return f64::INFINITY;
        };
        let at = comes.next(from, &mut self.random);
        if !at.is_finite() || self.is_reached_at(index, at) {
            return at;
        }
        let phases = self.program.phases.iter();
        let begins = phases.filter(|phase| phase.sites.contains(&index) && phase.from_s > at);
        let begins = begins
            .map(|phase| phase.from_s)
            .fold(f64::INFINITY, f64::min);
        if begins.is_finite() {
            comes.next(begins, &mut self.random)
        } else {
            f64::INFINITY
        }
    }

    /// What a thread is about to access that has come to a site.
    pub(super) fn bytes(&mut self, index: usize) -> Bytes {
        /// From here on addresses are of what is accessed but once.
        const ONCE: u64 = 1 << 48;
        let area = self.program.sites.get(index).and_then(|site| site.area);
        let area = area.filter(|area| self.random.f64() < area.share);
        let address = match area {
            Some(area) => area.draw(&mut self.random),
            None => AddressId(ONCE + self.random.u64(..ONCE)),
        };
        Bytes {
            address,
            is_of_area: area.is_some(),
            are_watched: false,
        }
    }

    /// Bytes were watched while it was waited at a site; whether they still are. Those that are used all the time are not.
    fn watch_in_advance(&mut self, index: usize, address: AddressId, waited_s: f64) -> bool {
        let mut users = Vec::new();
        let mut all = 0.0;
        for meeting in self.meetings_of(index).to_vec() {
            let rate = self.program.rate_at(&meeting, address);
            let after = exponential(rate, &mut self.random);
            if rate > 0.0 && self.is_reached_at(meeting.other, self.now) {
                all += rate;
                users.push((after, meeting.other));
            }
        }
        let lasted = waited_s.min(MOST_TRAPS / all);
        self.spend(all * lasted * self.hunt.costs.trap_s);
        users.retain(|(after, _)| *after <= lasted);
        users.sort_by(|one, other| one.0.total_cmp(&other.0));
        users.truncate(MOST_USERS);
        let users = users.into_iter().map(|(after, site)| Partner {
            site: id(site),
            after: Duration::from_secs_f64(after),
        });
        self.passed = Some(What::Passed {
            site: id(index),
            address,
            lasted: Duration::from_secs_f64(lasted),
            users: users.collect(),
        });
        lasted >= waited_s
    }

    /// The lock under which a site is come to is known from now on, at both sides: whoever holds it is let pass.
    pub(super) fn learn_lock(&mut self, meeting: &Meeting) {
        if meeting.order == Order::Lock {
            self.locks.extend([meeting.site, meeting.other]);
        }
    }
}
