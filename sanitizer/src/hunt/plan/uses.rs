//! What events say of who uses the bytes at hand at a site, and of whether something orders them.

use std::time::Duration;

use super::{
    action::{Action, Deed},
    catalogue::{Object, object_of},
    counts::Counts,
    event::{AddressId, Partner, SiteId, StallEnd, VariableId},
    prior,
    update::Knowledge,
    worth::LOOK,
};

impl Knowledge {
    /// How a stall has ended.
    pub(super) fn ended(
        &mut self,
        now: f64,
        site: SiteId,
        lasted: Duration,
        end: &StallEnd,
        hand: Option<&Action>,
    ) {
        let lasted_s = lasted.as_secs_f64();
        let is_ahead = is_ahead(hand);
        let met = |counts: &mut Counts, partners: &[Partner]| {
            counts.used += 1.0;
            counts.caught += 1.0;
            counts.in_time += f64::from(u8::from(!is_ahead));
            counts.met += 1.0;
            let first = partners.first().map_or(lasted, |first| first.after);
            counts.meeting_s += first.as_secs_f64();
        };
        match end {
            // Of what is wanted it says more than of what is at hand there else.
            StallEnd::Quiet => self.arrived(now, site, hand, |counts| {
                counts.quiet += 1.0;
                counts.quiet_s += lasted_s;
                counts.quiet_ahead += f64::from(u8::from(is_ahead));
            }),
            StallEnd::Locked => {
                self.count(now, site, |counts| {
                    counts.used += 1.0;
                    counts.locked += 1.0;
                });
                self.contends(site);
                self.are_shared_at(now, site, &[]);
            }
            StallEnd::Known(partners) => {
                self.count(now, site, |counts| met(counts, partners));
                self.are_shared_at(now, site, partners);
            }
            StallEnd::Hit(partners) => {
                self.are_shared_at(now, site, partners);
                self.count(now, site, |counts| {
                    met(counts, partners);
                    counts.news += 1.0;
                });
                self.races += partners.len() as f64;
                for side in partners.iter().map(|partner| partner.site).chain([site]) {
                    self.contends(side);
                    let facts = self.catalogue.facts_of(side);
                    if let Some(object) = facts.and_then(object_of) {
                        self.relate(object);
                    }
                }
                for partner in partners {
                    self.count(now, partner.site, |counts| counts.used += 1.0);
                }
            }
        }
    }

    /// Who was seen to use the bytes of a site.
    /// `late_s`: for how long nobody at all used them.
    pub(super) fn looked(
        &mut self,
        now: f64,
        site: SiteId,
        users: &[Partner],
        late_s: f64,
        hand: Option<&Action>,
    ) {
        let Some(first) = users.first() else {
            let unused = if late_s > 0.0 {
                prior::USED_BY_NOBODY
            } else {
                1.0
            };
            return self.arrived(now, site, hand, |counts| {
                counts.unused += unused;
                counts.meeting_s += prior::LATE_LOOK * late_s;
            });
        };
        self.are_shared_at(now, site, users);
        self.count(now, site, |counts| {
            counts.used += 1.0;
            counts.met += 1.0;
            counts.meeting_s += first.after.as_secs_f64();
        });
        self.have_users(now, site, users);
    }

    /// Who used bytes while a thread was waited for that is about to access them.
    pub(super) fn passed(
        &mut self,
        now: f64,
        site: SiteId,
        address: AddressId,
        lasted: Duration,
        users: &[Partner],
    ) {
        if users.is_empty() {
            // In a short time that says little.
            let part = lasted.div_duration_f64(LOOK).min(1.0);
            let seen = |counts: &mut Counts| counts.unused += prior::USED_BY_NOBODY * part;
            return match self.catalogue.number(site) {
                Some(number) if self.addresses.find(number, address).is_some() => {
                    let mut counts = Counts::default();
                    seen(&mut counts);
                    self.addresses.count(now, number, address, counts);
                }
                _ => self.count(now, site, seen),
            };
        }
        self.are_shared(now, site, address, users);
        self.count(now, site, |counts| counts.used += 1.0);
        self.have_users(now, site, users);
    }

    /// Others use the bytes of a site, and so do these.
    fn have_users(&mut self, now: f64, site: SiteId, users: &[Partner]) {
        for user in users {
            self.count(now, user.site, |counts| counts.used += 1.0);
        }
        self.contend(site, users);
    }

    /// These use the same bytes.
    pub(super) fn contend(&mut self, site: SiteId, users: &[Partner]) {
        self.contends(site);
        for user in users {
            self.contends(user.site);
        }
        let facts = self.catalogue.facts_of(site);
        if let Some(variable) = facts.and_then(|facts| facts.variable) {
            self.relate(Object::Variable(variable));
        }
    }

    /// Others use the bytes that were at hand when a thread stood at a site.
    fn are_shared_at(&mut self, now: f64, site: SiteId, users: &[Partner]) {
        if let Some((number, address)) = self.about
            && self.catalogue.number(site) == Some(number)
        {
            self.are_shared(now, site, address, users);
        }
    }

    /// Two threads use an address, at these sites.
    pub(super) fn are_shared(
        &mut self,
        now: f64,
        site: SiteId,
        address: AddressId,
        users: &[Partner],
    ) {
        let sites = users.iter().map(|user| user.site).chain([site]);
        for side in sites.collect::<Vec<_>>() {
            let Some(number) = self.catalogue.number(side) else {
                continue;
            };
            let facts = self.catalogue.facts(number);
            if facts.is_none_or(|facts| facts.variable.is_some()) {
                continue;
            }
            self.addresses.add(number, address);
            let seen = Counts {
                used: 1.0,
                ..Counts::default()
            };
            self.addresses.count(now, number, address, seen);
        }
    }

    /// Who was seen to write a variable that was watched so long.
    pub(super) fn watched(
        &mut self,
        now: f64,
        variable: VariableId,
        lasted: Duration,
        writers: &[Partner],
    ) {
        let counts = self.changing.entry(variable).or_default();
        *counts = counts.at(now, prior::HALF_LIFE);
        if writers.is_empty() {
            counts.waited_s += lasted.as_secs_f64();
        } else {
            counts.used += 1.0;
        }
        for writer in writers {
            self.count(now, writer.site, |counts| {
                counts.came += 1.0;
                counts.waited_s += writer.after.as_secs_f64();
                // Whoever names it uses it, most likely.
                counts.used += 1.0;
            });
            self.contends(writer.site);
        }
    }

    /// Another thread uses what is accessed at a site.
    pub(super) fn contends(&mut self, site: SiteId) {
        if let Some(number) = self.catalogue.number(site)
            && !self.contended.contains(&number)
        {
            self.contended.push(number);
            self.catalogue.try_it(number);
            self.is_visited(number);
            for tried in self.tried.iter_mut() {
                tried.retain(|tried| *tried != number);
            }
        }
    }

    /// Something is shared, changes, or has raced: what names it has another class now.
    pub(super) fn relate(&mut self, object: Object) {
        for number in self.catalogue.relate(object) {
            let class = self.catalogue.class(number);
            for tried in self.tried.iter_mut() {
                let before = tried.len();
                tried.retain(|tried| *tried != number);
                if tried.len() < before {
                    self.tried[class].push(number);
                    break;
                }
            }
        }
    }
}

/// Whether the bytes at hand were watched before the thread came.
fn is_ahead(hand: Option<&Action>) -> bool {
    matches!(
        hand.map(|hand| &hand.deed),
        Some(Deed::Wait {
            wanted: Some(_),
            ..
        })
    )
}
