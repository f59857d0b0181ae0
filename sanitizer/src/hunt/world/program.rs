//! A simulated program: what there is to be found in it, and how one comes across it.

use std::collections::BTreeSet;

use crate::hunt::plan::event::{AddressId, FunctionId, MemberId, SiteFacts, SiteId, VariableId};

pub use super::area::Area;

/// How often threads come to a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comes {
    /// Nobody ever does.
    Never,
    /// By chance, so often a second.
    Rate(f64),
    /// At regular times, so many seconds apart.
    Every(f64),
    /// In bursts that begin so many seconds apart by chance, and last so long, with so many arrivals a second.
    Bursts {
        /// Between two beginnings, s.
        apart: f64,
        /// From the beginning to the end of one, s.
        lasts: f64,
        /// Arrivals a second within one.
        rate: f64,
    },
}

impl Comes {
    /// How often on average, in a second.
    #[must_use]
    pub fn mean(self) -> f64 {
        match self {
            Self::Never => 0.0,
            Self::Rate(rate) => rate,
            Self::Every(period) => 1.0 / period,
            Self::Bursts { apart, lasts, rate } => rate * (lasts / apart).min(1.0),
        }
    }

    /// When somebody comes next after a time, s.
    #[must_use]
    pub fn next(self, now: f64, random: &mut fastrand::Rng) -> f64 {
        /// A part of a period that is nothing but rounding.
        const ROUNDED: f64 = 1e-6;
        match self {
            Self::Never => f64::INFINITY,
            Self::Rate(rate) => now + exponential(rate, random),
            Self::Every(period) => {
                let next = ((now / period).floor() + 1.0) * period;
                // A quotient that is rounded down is of the period before: whoever has just come would come again at once, and again.
                if next - now > ROUNDED * period {
                    next
                } else {
                    next + period
                }
            }
            Self::Bursts { apart, lasts, rate } => {
                // By chance there is one under way.
                let is_within = random.f64() < (lasts / apart).min(1.0);
                let begins = if is_within {
                    now
                } else {
                    now + exponential(1.0 / apart, random)
                };
                begins + exponential(rate, random)
            }
        }
    }
}

/// A time by chance, where something happens so often a second.
pub(super) fn exponential(rate: f64, random: &mut fastrand::Rng) -> f64 {
    -(1.0 - random.f64()).ln() / rate
}

/// When another thread uses the bytes that a thread is about to access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum After {
    /// By chance, so often a second.
    Rate(f64),
    /// Sometime within so many seconds from now, and never again.
    Within(f64),
}

impl After {
    /// When, s; from the moment on in which the first one comes.
    pub(super) fn draw(self, random: &mut fastrand::Rng) -> f64 {
        match self {
            Self::Rate(rate) => exponential(rate, random),
            Self::Within(seconds) => seconds * random.f64(),
        }
    }

    /// How likely it is seen within so many seconds, where the bytes are watched so long after the first one has come.
    #[must_use]
    pub fn chance(self, seconds: f64, late: f64) -> f64 {
        match self {
            Self::Rate(rate) => 1.0 - (-rate * seconds).exp(),
            Self::Within(within) => ((late + seconds) / within).min(1.0) - (late / within).min(1.0),
        }
    }
}

/// What orders two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing does: they race.
    None,
    /// A lock that both sides take: whoever comes waits for the thread that is held.
    Lock,
    /// The program does not come to the other one before this one is over.
    Other,
}

/// Two sites may use the same bytes, and at least one of them writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meeting {
    /// The site of a thread that is stopped.
    pub site: usize,
    /// The one to which another thread comes.
    pub other: usize,
    /// How likely it is that the bytes at hand are used by others at all: no likelier than it is that they are of the site's area.
    pub chance: f64,
    /// When that happens, if it does.
    pub after: After,
    /// Whether they race.
    pub order: Order,
}

/// A site, and how it is come to.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// What its code tells.
    pub facts: SiteFacts,
    /// How often somebody comes.
    pub comes: Comes,
    /// What is accessed there again and again; else it is something else each time.
    pub area: Option<Area>,
    /// The share of the program's CPU time that is spent right before it, against all others.
    pub cpu: f64,
}

/// From a time on, in seconds, and until another one: before and after that nobody comes to these sites.
#[derive(Clone, Debug)]
pub struct Phase {
    /// The sites, by number.
    pub sites: std::ops::Range<usize>,
    /// When that is.
    pub from_s: f64,
    /// Until when.
    pub until_s: f64,
}

/// A simulated program.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// CPU time that it uses in a second.
    pub processors: f64,
    /// Threads that wait for a processor at a time, on average, and how long each time, s.
    pub waiting: f64,
    /// See above.
    pub off_s: f64,
    /// CPU time that goes by where no sites are, against that before sites: in libraries that are not analyzed.
    pub elsewhere: f64,
    /// Its sites: their numbers are their ids.
    pub sites: Vec<Site>,
    /// Who meets whom.
    pub meetings: Vec<Meeting>,
    /// What is so for a time only.
    pub phases: Vec<Phase>,
    /// Variables whose value is seen to change, and the site that does it by a pointer or by its name.
    pub changing: Vec<(VariableId, usize)>,
    functions: u64,
    variables: u64,
    addresses: u64,
}

/// Addresses beside those of variables begin here.
const ADDRESSES: u64 = 1 << 32;

impl Program {
    /// A program that does nothing.
    #[must_use]
    pub fn new(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            processors: 2.0,
            waiting: 0.0,
            off_s: 0.0,
            elsewhere: 0.0,
            sites: Vec::new(),
            meetings: Vec::new(),
            phases: Vec::new(),
            changing: Vec::new(),
            functions: 0,
            variables: 0,
            addresses: ADDRESSES,
        }
    }

    /// Begins another function: the next sites are in it.
    pub fn function(&mut self) {
        self.functions += 1;
    }

    /// A variable that nobody has named yet.
    pub fn variable(&mut self) -> VariableId {
        self.variables += 1;
        VariableId(self.variables)
    }

    /// So many addresses that nobody has used yet.
    pub fn area(&mut self, count: u32) -> Area {
        let first = self.addresses;
        self.addresses += u64::from(count);
        Area {
            first,
            count,
            share: 1.0,
        }
    }

    fn site(&mut self, site: Site) -> usize {
        self.sites.push(site);
        self.sites.len() - 1
    }

    fn facts(&self, writes: bool) -> SiteFacts {
        SiteFacts {
            site: SiteId(self.sites.len() as u64),
            function: FunctionId(self.functions),
            writes,
            variable: None,
            member: None,
            can_be_probed: is_probed(self.sites.len()),
        }
    }

    /// A site that names a variable; its number.
    pub fn naming(&mut self, variable: VariableId, writes: bool, comes: Comes) -> usize {
        let facts = SiteFacts {
            variable: Some(variable),
            ..self.facts(writes)
        };
        self.site(Site {
            facts,
            comes,
            area: Some(Area::of(variable)),
            cpu: cpu_of(comes),
        })
    }

    /// What is accessed at some sites again and again.
    pub fn access(&mut self, sites: &[usize], area: Area) {
        for &site in sites {
            if let Some(site) = self.sites.get_mut(site) {
                site.area = Some(area);
            }
        }
    }

    /// A site that goes by a pointer, to such a member; its number.
    pub fn pointing(&mut self, member: Option<MemberId>, writes: bool, comes: Comes) -> usize {
        let facts = SiteFacts {
            member,
            ..self.facts(writes)
        };
        self.site(Site {
            facts,
            comes,
            area: None,
            cpu: cpu_of(comes),
        })
    }

    /// Threads that come to either of two sites meet those at the other one: on the same bytes with such a chance, and then after such a time each.
    pub fn meet(&mut self, sites: [usize; 2], chance: f64, after: [After; 2], order: Order) {
        let [one, other] = sites;
        for (site, other, after) in [(one, other, after[1]), (other, one, after[0])] {
            self.meetings.push(Meeting {
                site,
                other,
                chance,
                after,
                order,
            });
            if one == other {
                break;
            }
        }
    }

    /// Who is stopped at a site may meet those at another one; not the other way round.
    pub fn meets(&mut self, site: usize, other: usize, chance: f64, after: After, order: Order) {
        self.meetings.push(Meeting {
            site,
            other,
            chance,
            after,
            order,
        });
    }

    /// The sites from a number on are come to in such a time only.
    pub fn phase(&mut self, first: usize, from_s: f64, until_s: f64) {
        self.phases.push(Phase {
            sites: first..self.sites.len(),
            from_s,
            until_s,
        });
    }

    /// How often the other side of a meeting uses an address, in a second, if that is at hand at its site.
    #[must_use]
    pub fn rate_at(&self, meeting: &Meeting, address: AddressId) -> f64 {
        let chance = |site: usize| {
            let area = self.sites.get(site).and_then(|site| site.area);
            area.map_or(0.0, |area| area.chance(address))
        };
        match meeting.after {
            _ if chance(meeting.site) <= 0.0 => 0.0,
            After::Rate(rate) => rate,
            After::Within(_) => {
                let comes = self.sites.get(meeting.other).map(|site| site.comes.mean());
                comes.unwrap_or(0.0) * chance(meeting.other)
            }
        }
    }

    /// How often two sites of it race: what there is to be found. Each pair is one race, whichever side is held.
    #[must_use]
    pub fn races(&self) -> usize {
        self.pairs().len()
    }

    /// The pairs of sites of it that race, by their numbers.
    #[must_use]
    pub fn pairs(&self) -> BTreeSet<(usize, usize)> {
        self.meetings.iter().filter_map(Meeting::race).collect()
    }
}

impl Meeting {
    /// Its race, whichever side is held.
    #[must_use]
    pub fn race(&self) -> Option<(usize, usize)> {
        let is_race = self.order == Order::None && self.chance > 0.0;
        is_race.then(|| (self.site.min(self.other), self.site.max(self.other)))
    }
}

/// Whether the kernel can note who comes to a site of this number: to 57 % of those of memcached, where what is a call is left out.
fn is_probed(number: usize) -> bool {
    /// Of Knuth's multiplicative hash.
    const RATIO: u32 = 2_654_435_769;
    const PERCENT: u32 = 57;
    (number as u32).wrapping_mul(RATIO) / (u32::MAX / 100) < PERCENT
}

/// The CPU time that goes by right before a site, where each arrival takes some 20 ns of it.
fn cpu_of(comes: Comes) -> f64 {
    const EACH: f64 = 20e-9;
    comes.mean() * EACH
}
